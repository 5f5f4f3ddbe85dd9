"""The limit that decides about a slice and metric: the one that is broken, or not known to be kept.

A metric may have limits on its gap, on its ratio and on its level, of the contract or of the slice.
Its state is one for all of them. Whoever names a limit beside a state takes it from here.
"""

from __future__ import annotations

from collections.abc import Mapping

from monitor.core.contract import Metric, Verdict
from monitor.core.publish.snapshot import LimitKind, ShownGap, ShownLimit, ShownRate, SliceRow
from monitor.core.publish.states import VERDICT_OF
from monitor.core.rates.tolerance import Tolerance

_NOT_KEPT = (Verdict.FAIL, Verdict.BETTER_OFF, Verdict.INCONCLUSIVE)


def deciding_limit(
    row: SliceRow, metric: Metric, limits: Mapping[LimitKind, float], gap: ShownGap | None
) -> ShownLimit | None:
    """Return the limit that decides; None where all are kept, or none is judged.

    Of a breach it is the one that the sequential test found broken. Else it is the first whose
    shown bounds say what the state says.

    Args:
        row: as shown.
        metric: of the limits.
        limits: those of the slice.
        gap: that is shown with it; of a named reference, to the slice that it is behind.
    """
    verdict = VERDICT_OF[row.states[metric]]
    if verdict not in _NOT_KEPT:
        return None
    crossed = row.breach_limits.get(metric)
    if crossed is not None:
        return ShownLimit(crossed, limits[crossed]) if crossed in limits else None
    each = (ShownLimit(kind, value) for kind, value in limits.items())
    return next(
        (limit for limit in each if _verdict(row.rates.get(metric), gap, limit) is verdict), None
    )


def _verdict(rate: ShownRate | None, gap: ShownGap | None, limit: ShownLimit) -> Verdict | None:
    """Return the verdict of the shown bounds; None where nothing is shown that it limits."""
    if limit.kind in (LimitKind.MIN_LEVEL, LimitKind.MAX_LEVEL):
        return None if rate is None else allowed(limit).verdict_of(rate.lower, rate.upper)
    if gap is None:
        return None
    if limit.kind is LimitKind.MIN_RATIO:
        return allowed(limit).verdict_of(gap.ratio_lower, gap.ratio_upper)
    return allowed(limit).verdict_of(gap.lower, gap.upper)


def allowed(limit: ShownLimit) -> Tolerance:
    """The range that a limit allows."""
    match limit.kind:
        case LimitKind.MAX_GAP:
            return Tolerance.of_gap(limit.value)
        case LimitKind.MIN_RATIO:
            return Tolerance.of_ratio(limit.value)
        case LimitKind.MIN_LEVEL:
            return Tolerance.of_level(lowest=limit.value)
        case LimitKind.MAX_LEVEL:
            return Tolerance.of_level(highest=limit.value)
