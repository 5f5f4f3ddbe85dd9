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
from monitor.core.tables.bands import Coarseness
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
        same_span = [table for table in past if table.span == frame.span]
        first = {table.measure: table.bands for table in same_span}
        drafts = [
            replace(d, edition=Edition.FINAL, kept=first[d.measure], repeats=changed < k)
            for d in drafts
        ]
    return publish(drafts, past, k)
