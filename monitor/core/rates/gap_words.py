"""Words for the sign of a gap: above 0 the slice is worse off, below 0 its reference is.

The sign is the same for every metric and wherever a gap is shown; these words say what it means.

Example:
    >>> worse_off("lagos", "new_york", 0.21), said_of_slice(Metric.TPR, 0.21)
    ('lagos', 'its ready replies are served less often')
    >>> worse_off("lagos", "new_york", -0.05), said_of_slice(Metric.FPR, -0.05)
    ('new_york', 'its replies that are not ready are served less often')
    >>> worse_off("lagos", "new_york", 0.0)
    ''
"""

from __future__ import annotations

from monitor.core.contract import Metric
from monitor.core.rates.gaps import HARMED_BY_LESS

RATED = {
    Metric.SELECTION: "its replies are served",
    Metric.TPR: "its ready replies are served",
    Metric.FPR: "its replies that are not ready are served",
    Metric.BLOCKED: "its requests are blocked",
    Metric.READY: "its replies are ready",
    Metric.PRECISION: "its replies served at once are ready",
}
"""Each rate as something that happens to a slice more or less often."""


def worse_off(slice_: str, reference: str, gap: float | None) -> str:
    """Name of the side that is worse off by a gap; empty where neither is, or no gap is known."""
    if not gap:
        return ""
    return slice_ if gap > 0 else reference


def said_of_slice(metric: Metric, gap: float) -> str:
    """Sentence on the slice of a gap that is not 0: of its rate, compared with its reference's.

    Args:
        metric: of the gap.
        gap: positive where the slice is worse off (of READY: where it is ready more often).
    """
    less = (metric in HARMED_BY_LESS) is (gap > 0)
    return f"{RATED[metric]} {'less' if less else 'more'} often"
