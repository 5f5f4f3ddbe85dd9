"""Deciding limit of a slice and metric: the limit that is broken, or not known to be kept.

A metric may have limits on its gap, ratio and level, from the contract or the slice, but only one
state. All code that names a limit next to a state takes it from this module.
"""

from __future__ import annotations

from collections.abc import Mapping

from monitor.core.contract import Verdict
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import LimitKind, ShownGap, ShownLimit, ShownRate, SliceRow
from monitor.core.publish.states import VERDICT_OF
from monitor.core.rates.tolerance import Tolerance

_NOT_KEPT = (Verdict.FAIL, Verdict.BETTER_OFF, Verdict.INCONCLUSIVE)


def deciding_limit(
    row: SliceRow, metric: Metric, limits: Mapping[LimitKind, float], gap: ShownGap | None
) -> ShownLimit | None:
    """Return the limit of a row's metric that is broken or not known to be kept; None without one.

    For a breach it is the limit that the sequential test found broken. Otherwise it is the first
    whose shown bounds agree with the state.

    Args:
        row: shown row.
        metric: limited metric.
        limits: limits of the slice.
        gap: shown gap; for a named reference, the gap to the slice that it is behind.
    """
    verdict = VERDICT_OF[row.states[metric]]
    if verdict not in _NOT_KEPT:
        return None
    crossed = row.breach_limits.get(metric)
    if crossed is not None:
        return ShownLimit(crossed, limits[crossed]) if crossed in limits else None
    shown_limits = (ShownLimit(kind, value) for kind, value in limits.items())
    return next(
        (
            limit
            for limit in shown_limits
            if _verdict_on_limit(row.rates.get(metric), gap, limit) is verdict
        ),
        None,
    )


def _verdict_on_limit(
    rate: ShownRate | None, gap: ShownGap | None, limit: ShownLimit
) -> Verdict | None:
    """Return the verdict on one limit by shown bounds; None if the limited number is hidden."""
    if limit.kind in (LimitKind.MIN_LEVEL, LimitKind.MAX_LEVEL):
        return None if rate is None else allowed(limit).verdict_of(rate.lower, rate.upper)
    if gap is None:
        return None
    if limit.kind is LimitKind.MIN_RATIO:
        return allowed(limit).verdict_of(gap.ratio_lower, gap.ratio_upper)
    return allowed(limit).verdict_of(gap.lower, gap.upper)


def allowed(limit: ShownLimit) -> Tolerance:
    """Return the tolerance that a limit stands for: of gaps, ratios or rates."""
    match limit.kind:
        case LimitKind.MAX_GAP:
            return Tolerance.of_gap(limit.value)
        case LimitKind.MIN_RATIO:
            return Tolerance.of_ratio(limit.value)
        case LimitKind.MIN_LEVEL:
            return Tolerance.of_level(lowest=limit.value)
        case LimitKind.MAX_LEVEL:
            return Tolerance.of_level(highest=limit.value)
