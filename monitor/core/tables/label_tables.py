"""Drafts of a span's label tables: which rows may show labelled rates, and what an edition repeats.

Labels are counted by part (routes, or strata of them), ready and not ready, each in a table of its
own. Labels are unweighted; rates weigh their bands. Requested labels that have not come have a
table of their own, from weeks on.

A row shows its labels where one of its label counts is k or more, else nothing. It shows the others
as the band 0 to k - 1, so a route of few labels enters rates as "from none to all": no rate rests
on fewer than k labels. The rule looks at the bands alone. To hide a row for a route with fewer than
k labels in all would tell a reader of a sum of two small counts, and climbing along such sums left
3 values. No row shows the size of its labels alone: no rate can be computed from it, but it ties
the routes.

Example:
    >>> from monitor.core.tables.layout import TOTAL, Layout
    >>> from monitor.core.tables.spans import Span, SpanKind
    >>> labels = np.array([[[90, 200]], [[25, 80]]])
    >>> frame = Frame(Span(SpanKind.WEEK, 0), Layout((TOTAL,), ()), ("auto", "review"))
    >>> made = label_tables(frame, labels, [], 11)
    >>> [(table.measure.value, table.bands.low.tolist()) for table in made]
    [('ready', [[286, 88, 198]]), ('not_ready', [[99, 22, 77]])]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.tables.bands import Bools, Coarseness, Detail
from monitor.core.tables.reader import LABEL_MEASURES, Frame, Table
from monitor.core.tables.spans import Edition
from monitor.core.tables.table_rule import Draft, publish


def label_tables(
    frame: Frame, labels: Int64s, past: Sequence[Table], k: int, changed: Int64s | None = None
) -> tuple[Table, ...]:
    """Return the label tables of a span: ready, then not ready.

    Args:
        frame: their span, rows and parts, named as in the decision table of the span.
        labels: counts of ready labels and of the others, shape (2, rows, parts).
        past: all tables within the span, its decision table and first edition among them.
        k: smallest cell that may be shown.
        changed: for the final edition, how many labels of each row came, were replaced or were
            retracted since the first one, each counted once, shape (rows,). A row with fewer than
            k of them repeats what it showed. None for the first edition.
    """
    shows = (labels >= k).any(axis=(0, 2))
    steps = np.where(shows, Coarseness.FINE, Coarseness.WITHHELD).astype(np.int8)
    drafts = [
        Draft(frame, measure, counts, least=steps)
        for measure, counts in zip(LABEL_MEASURES, labels, strict=True)
    ]
    if changed is not None:
        drafts = [_final_draft(draft, past, changed < k) for draft in drafts]
    return publish(drafts, past, k)


def unanswered_table(
    draft: Draft,
    labels: Sequence[Table],
    past: Sequence[Table],
    k: int,
    changed: Int64s | None = None,
) -> tuple[Table, ...]:
    """Return the table of requested labels that have not come, alone in the tuple.

    It is made after the label tables of its span, so only its own rows are coarsened for what it
    would tell of them. A row that shows no labels shows nothing.

    Args:
        draft: the counts; its frame may lack rows of the label tables.
        labels: label tables of the span and edition.
        past: tables within the span; those of the span itself and of missing labels bind it.
        k: smallest cell that may be shown.
        changed: as in :func:`label_tables`, of all rows of the label tables.
    """
    rows = labels[0].layout.places_of(draft.frame.layout.rows)
    shown = np.all([table.bands.detail[rows] == Detail.COUNTS for table in labels], axis=0)
    least = np.where(shown, Coarseness.FINE, Coarseness.WITHHELD).astype(np.int8)
    draft = replace(draft, least=least)
    if changed is not None:
        draft = _final_draft(draft, past, changed[rows] < k)
    made = {table.key for table in labels}
    earlier = (table for table in past if table.key not in made)
    bound = (t for t in earlier if t.span == draft.frame.span or t.measure is draft.measure)
    return publish([draft], [*bound, *labels], k)


def _final_draft(draft: Draft, past: Sequence[Table], repeats: Bools) -> Draft:
    """Return the draft as a final edition, some rows of which repeat the first one."""
    first = (draft.frame.span, draft.measure, Edition.FIRST)
    (kept,) = (table.bands for table in past if table.key == first)
    return replace(draft, edition=Edition.FINAL, kept=kept, repeats=repeats)
