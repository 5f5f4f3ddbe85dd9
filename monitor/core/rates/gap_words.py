"""Words for the sign of a gap: above 0 the slice is worse off, below 0 its reference is.

The sign has the same meaning for every metric and wherever a gap is shown.

Example:
    >>> worse_off("lagos", "new_york", 0.21), said_of_slice(Metric.TPR, 0.21)
    ('lagos', 'ready replies served less often')
    >>> worse_off("lagos", "new_york", -0.05), said_of_slice(Metric.FPR, -0.05)
    ('new_york', 'unready replies served less often')
    >>> worse_off("lagos", "new_york", 0.0)
    ''
"""

from __future__ import annotations

from monitor.core.metric import Metric


def worse_off(slice_: str, reference: str, gap: float | None) -> str:
    """Return ``slice_`` if the gap is above 0, ``reference`` if below; empty at 0 or None."""
    if not gap:
        return ""
    return slice_ if gap > 0 else reference


def said_of_slice(metric: Metric, gap: float) -> str:
    """Return a phrase that compares a slice's rate with its reference's, for a gap that is not 0.

    Args:
        metric: metric of the gap.
        gap: positive if the slice is worse off (READY: if it is ready more often).
    """
    less = metric.harmed_by_less is (gap > 0)
    return f"{metric.row.event} {'less' if less else 'more'} often"
