"""Drafts of a span's label tables: which rows may show labelled rates, and what an edition repeats.

Labels are counted by part (routes, or strata of them), ready and not ready, each in a table of its
own, and a third one counts the labels that were requested and have not come. Labels are unweighted;
rates weigh their bands.

A row shows the size of its labels alone

- where a route has k decisions or more and fewer than k labels: a rate would rest on these;
- where few decisions have no label, and one of the row's label counts is below k: published
  decisions less labels would be that count. Few are fewer than k and at most a tenth.

A route with fewer than k *decisions* closes nothing: it enters rates as bounds.

Example:
    >>> from monitor.core.tables.layout import TOTAL, Layout
    >>> from monitor.core.tables.spans import Span, SpanKind
    >>> labels = LabelCounts(
    ...     decisions=np.array([[4000, 300]]), ready=np.array([[90, 200]]),
    ...     not_ready=np.array([[25, 80]]), requested=np.array([[120, 300]]), routes=(0, 1),
    ... )
    >>> frame = Frame(Span(SpanKind.WEEK, 0), Layout((TOTAL,), ()), ("auto", "review"))
    >>> made = label_tables(frame, labels, [], 11)
    >>> [(table.measure.value, table.bands.low.tolist()) for table in made]
    [('ready', [[286, 88, 198]]), ('not_ready', [[99, 22, 77]]), ('missing', [[11, 0, 11]])]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.tables.bands import Coarseness
from monitor.core.tables.reader import Bools, Frame, Measure, Table, Unlabelled
from monitor.core.tables.spans import Edition
from monitor.core.tables.table_rule import Draft, publish

_FEW_SHARE = 10


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Labels of a span as known when its label tables are made; arrays of shape (rows, parts).

    Attributes:
        decisions: all decisions of the parts that are reviewed at all.
        ready: those labelled ready.
        not_ready: those labelled not ready.
        requested: those that a label was requested for.
        routes: the route of each part, as a number; parts of one route are its strata.
    """

    decisions: Int64s
    ready: Int64s
    not_ready: Int64s
    requested: Int64s
    routes: tuple[int, ...]

    @property
    def unlabelled(self) -> Int64s:
        """Decisions without a label, whether it was requested or not."""
        return np.asarray(self.decisions - self.ready - self.not_ready).clip(0)

    @property
    def missing(self) -> Int64s:
        """Labels that were requested and are not there."""
        return np.asarray(self.requested - self.ready - self.not_ready).clip(0)

    def few_unlabelled(self, k: int) -> Bools:
        """Rows of 2 k - 1 decisions or more, of which few have no label."""
        decisions, without = self.decisions.sum(axis=1), self.unlabelled.sum(axis=1)
        few = (without < k) & (_FEW_SHARE * without <= decisions)
        return np.asarray(few & (decisions >= 2 * k - 1))

    def open_rows(self, k: int) -> Bools:
        """Rows that may show labelled rates."""
        labels = self.ready + self.not_ready
        enough = np.ones(len(labels), bool)
        for route in set(self.routes):
            columns = np.array(self.routes) == route
            few_decisions = self.decisions[:, columns].sum(axis=1) < k
            enough &= few_decisions | (labels[:, columns].sum(axis=1) >= k)
        small = ((self.ready < k) | (self.not_ready < k)).any(axis=1)
        return np.asarray(enough & ~(self.few_unlabelled(k) & small))


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
    """The label tables of a span: ready, not ready, missing.

    Args:
        frame: their span, rows and parts, named as in the decision table of the span.
        labels: the counts.
        past: all tables within the span, its decision table and first edition among them.
        k: smallest cell that may be shown.
        first: None for the first edition.
    """
    steps = np.where(labels.open_rows(k), Coarseness.FINE, Coarseness.SIZE_ALONE).astype(np.int8)
    drafts = [
        Draft(frame, Measure.READY, labels.ready, least=steps),
        Draft(frame, Measure.NOT_READY, labels.not_ready, least=steps),
        Draft(frame, Measure.MISSING, labels.missing),
    ]
    few = labels.few_unlabelled(k)
    if first is not None:
        drafts = [_repeating(draft, first, k) for draft in drafts]
        few &= first.changed >= k
    return publish(drafts, past, k, Unlabelled(few, labels.unlabelled))


def _repeating(draft: Draft, first: FirstEdition, k: int) -> Draft:
    """The draft of a final edition: rows of which few labels changed are as they were."""
    (kept,) = (table.bands for table in first.tables if table.measure is draft.measure)
    repeats = np.asarray(first.changed < k)
    return replace(draft, edition=Edition.FINAL, kept=kept, repeats=repeats)
