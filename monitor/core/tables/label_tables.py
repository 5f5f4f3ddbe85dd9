"""Drafts of a span's label tables: which rows may show labelled rates, and what an edition repeats.

Labels are counted by part (routes, or strata of them), ready and not ready, each in a table of its
own. Labels are unweighted; rates weigh their bands. Decisions without a label are counted nowhere.

A row shows its labels where one of its label counts is k or more, else nothing. It shows the others
as the band 0 to k - 1, so a route of few labels enters rates as "from none to all": no rate rests
on fewer than k labels. The rule looks at the bands alone. To hide a row for a route with fewer than
k labels in all would tell a reader of a sum of two small counts, and climbing along such sums left
3 values. No row shows the size of its labels alone: no rate can be computed from it, but it ties
the routes.

Example:
    >>> from monitor.core.tables.layout import TOTAL, Layout
    >>> from monitor.core.tables.spans import Span, SpanKind
    >>> labels = LabelCounts(
    ...     ready=np.array([[90, 200]]), not_ready=np.array([[25, 80]]),
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
from monitor.core.tables.bands import Bools, Coarseness, Detail
from monitor.core.tables.reader import Frame, Measure, Table
from monitor.core.tables.spans import Edition
from monitor.core.tables.table_rule import Draft, publish


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Label counts of a span when its label tables are made, arrays of shape (rows, parts).

    Attributes:
        ready: those labelled ready.
        not_ready: those labelled not ready.
    """

    ready: Int64s
    not_ready: Int64s

    def open_rows(self, k: int) -> Bools:
        """Return True for each row that shows its labels: one of its counts is k or more."""
        return np.asarray((np.maximum(self.ready, self.not_ready) >= k).any(axis=1))


@dataclass(frozen=True, slots=True)
class FirstEdition:
    """Label tables of the first edition, and how many labels of each row changed since.

    Attributes:
        tables: the first edition, one table of each measure.
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
    """Return the label tables of a span: ready, then not ready.

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
        drafts = [_final_draft(draft, first, k) for draft in drafts]
    return publish(drafts, past, k)


def unanswered_table(
    draft: Draft,
    labels: Sequence[Table],
    past: Sequence[Table],
    k: int,
    first: FirstEdition | None = None,
) -> tuple[Table, ...]:
    """Return the table of requested labels that have not come, alone in the tuple.

    It is made after the label tables of its span, so only its own rows are coarsened for what it
    would tell of them. A row that shows no labels shows nothing.

    Args:
        draft: the counts; its frame may lack rows of the label tables.
        labels: label tables of the span and edition.
        past: tables within the span; those of the span itself and of missing labels bind it.
        k: smallest cell that may be shown.
        first: the first edition, of all rows of the label tables; None for the first one.
    """
    rows = labels[0].layout.places_of(draft.frame.layout.rows)
    shown = np.all([table.bands.detail[rows] == Detail.COUNTS for table in labels], axis=0)
    least = np.where(shown, Coarseness.FINE, Coarseness.WITHHELD).astype(np.int8)
    draft = replace(draft, least=least)
    if first is not None:
        draft = _final_draft(draft, replace(first, changed=first.changed[rows]), k)
    bound = (t for t in past if t.span == draft.frame.span or t.measure is draft.measure)
    return publish([draft], [*bound, *labels], k)


def _final_draft(draft: Draft, first: FirstEdition, k: int) -> Draft:
    """Return the draft as a final edition; rows with few changed labels repeat the first one."""
    (kept,) = (table.bands for table in first.tables if table.measure is draft.measure)
    repeats = np.asarray(first.changed < k)
    return replace(draft, edition=Edition.FINAL, kept=kept, repeats=repeats)
