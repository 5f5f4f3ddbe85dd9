"""Drafts of a span's label tables: which rows may show labelled rates, and what an edition repeats.

Labels are counted by part (routes, or strata of them), ready and not ready, each in a table of its
own. Labels are unweighted; rates weigh their bands. Decisions without a label are counted nowhere.

A row shows nothing where a route has k decisions or more, and no label count of k or more: a rate
could rest on fewer than k labels. Both counts below k with a sum of k would be labels enough; but
to show the row would tell a reader of the sum, which ties the two counts. A route with fewer than k
*decisions* closes nothing: it enters rates as bounds. No row shows the size of its labels alone: no
rate can be computed from it, but it ties the routes.

Example:
    >>> from monitor.core.tables.layout import TOTAL, Layout
    >>> from monitor.core.tables.spans import Span, SpanKind
    >>> labels = LabelCounts(
    ...     decisions=np.array([[4000, 300]]), ready=np.array([[90, 200]]),
    ...     not_ready=np.array([[25, 80]]), routes=(0, 1),
    ... )
    >>> frame = Frame(Span(SpanKind.WEEK, 0), Layout((TOTAL,), ()), ("auto", "review"))
    >>> made = label_tables(frame, labels, [], 11)
    >>> [(table.measure.value, table.bands.low.tolist()) for table in made]
    [('ready', [[286, 88, 198]]), ('not_ready', [[99, 22, 77]])]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.tables.bands import Bools, Coarseness
from monitor.core.tables.reader import Frame, Measure, Table
from monitor.core.tables.spans import Edition
from monitor.core.tables.table_rule import Draft, publish


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Labels of a span as known when its label tables are made; arrays of shape (rows, parts).

    Attributes:
        decisions: all decisions of the parts that are reviewed at all.
        ready: those labelled ready.
        not_ready: those labelled not ready.
        routes: the route of each part, as a number; parts of one route are its strata.
    """

    decisions: Int64s
    ready: Int64s
    not_ready: Int64s
    routes: tuple[int, ...]

    def open_rows(self, k: int) -> Bools:
        """Rows that may show labelled rates."""
        of_route = np.array([[part == route for part in self.routes] for route in set(self.routes)])
        enough = np.maximum(self.ready, self.not_ready) >= k
        enough, few = enough @ of_route.T, self.decisions @ of_route.T < k
        return np.asarray(enough.any(axis=1) & (enough | few).all(axis=1))


@dataclass(frozen=True, slots=True)
class FirstEdition:
    """What a final edition begins from.

    Attributes:
        tables: the first edition, one table of each label measure.
        changed: labels of each row that came, were replaced or were retracted since, each counted
            once, shape (rows,). A row with fewer than k of them repeats what it showed.
    """

    tables: Sequence[Table]
    changed: Int64s


def label_tables(
    frame: Frame,
    labels: LabelCounts,
    past: Sequence[Table],
    k: int,
    first: FirstEdition | None = None,
) -> tuple[Table, ...]:
    """Make the label tables of a span: ready and not ready.

    Args:
        frame: their span, rows and parts, named as in the decision table of the span.
        labels: the counts.
        past: all tables within the span, its decision table and first edition among them.
        k: smallest cell that may be shown.
        first: None for the first edition.
    """
    steps = np.where(labels.open_rows(k), Coarseness.FINE, Coarseness.WITHHELD).astype(np.int8)
    drafts = [
        Draft(frame, Measure.READY, labels.ready, least=steps),
        Draft(frame, Measure.NOT_READY, labels.not_ready, least=steps),
    ]
    if first is not None:
        drafts = [_repeating(draft, first, k) for draft in drafts]
    return publish(drafts, past, k)


def _repeating(draft: Draft, first: FirstEdition, k: int) -> Draft:
    """The draft of a final edition: rows of which few labels changed are as they were."""
    (kept,) = (table.bands for table in first.tables if table.measure is draft.measure)
    repeats = np.asarray(first.changed < k)
    return replace(draft, edition=Edition.FINAL, kept=kept, repeats=repeats)
