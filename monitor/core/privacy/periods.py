"""How long blocks may have to wait, on average, for k of one row: what comes slower is pooled."""

from __future__ import annotations

from monitor.core.time import DAY, HOUR

OTHER_PERIOD, POOL_PERIOD, CELL_PERIOD = 8 * HOUR, DAY, 2 * DAY
"""Longest that a group-by may have to wait for k decisions of one row, on average.

What comes slower is pooled: a value of one attribute, a cell of several. Where even ``__other__``
comes slower than k in eight hours (few decisions), nobody waits for it and it is left out."""

LABEL_PERIOD, CELL_LABEL_PERIOD, OTHER_LABEL_PERIOD = 10 * DAY, 14 * DAY, 2 * DAY
"""The same for labels of one route: a value that comes slower than the first is pooled, a cell than
the second. Where even what is pooled comes slower than the first, or than the third if no listed
value is in it, its labels are taken as not given."""


def waited_for(*, crossed: bool, labels: bool) -> int:
    """How long one waits for a value, or for a cell of several attributes (microseconds)."""
    if labels:
        return CELL_LABEL_PERIOD if crossed else LABEL_PERIOD
    return CELL_PERIOD if crossed else POOL_PERIOD
