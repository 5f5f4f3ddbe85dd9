"""Tipping point: share of labels that have to be missing or wrong to turn a verdict.

Labels of two slices may be wrong to different degrees: one has less careful reviewers, harder
cases, or labels that do not come. Each verdict that is pass or fail gets two shares, of the labels
of the slice **or** of its reference, whichever is smaller:

- in the worst case: at most this share of the labels of each route is missing or wrong, and all of
  it in the direction that moves the rate most (:func:`monitor.core.publish.missing_labels.
  possible_range`; a wrong label is a missing one);
- evenly: this share of all labels is wrong, ready or not, on either route. With A of N_A served
  decisions labelled as hits, (A - e N_A) / (1 - 2 e) of them are hits.

The gap's interval moves with its point. The verdict turns as soon as the moved interval does not
support it.

Source: Manski (1989), Journal of Human Resources 24; Horowitz and Manski (1995), Econometrica 63
(contaminated data); Rogan and Gladen (1978), American Journal of Epidemiology 107 (even errors).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from monitor.core.contract import Verdict
from monitor.core.metric import Metric
from monitor.core.publish.lines import places
from monitor.core.publish.missing_labels import possible_range, rate_if_wrong
from monitor.core.publish.reasons import Place
from monitor.core.publish.snapshot import LimitKind, ShownGap, SliceRow
from monitor.core.rates.tolerance import SLACK
from monitor.reports.planners.label_budget import planned_metrics
from monitor.reports.planners.published_rates import Named
from monitor.reports.weekly_report import WeeklyReport

_STEPS = 14
_DIGITS = 3
_HALF = 0.499
"""Largest share of even errors: labels say nothing if half of them are wrong."""

Shift = Callable[[float], tuple[float, float]]
"""Function from a share of bad labels to how much lower, and higher, the rate may be."""


@dataclass(frozen=True, slots=True)
class TippingLine:
    """Shares of bad labels at which a verdict turns, in the worst case and if spread evenly.

    Attributes:
        metric: TPR or FPR.
        verdict: pass, fail or better_off.
        worst_case: smallest share of missing or wrong labels that can turn the verdict; None if no
            share can.
        even: smallest share of evenly wrong labels that turns it; None likewise.
    """

    of: Named
    metric: Metric
    verdict: Verdict
    worst_case: float | None
    even: float | None


def tipping_points(report: WeeklyReport) -> tuple[TippingLine, ...]:
    """Return the share of bad labels that turns each decided verdict of a WeeklyReport."""
    return tuple(_lines(report))


def _lines(report: WeeklyReport) -> Iterator[TippingLine]:
    for contract, window in report.windows():
        for place in places(contract, window):
            for metric in planned_metrics(contract):
                line = tipping_point(place, metric)
                if line is not None:
                    yield line


def tipping_point(place: Place, metric: Metric) -> TippingLine | None:
    """Return the TippingLine of a comparison; None if it is undecided or a number is withheld."""
    gap, sides = place.row.gaps.get(metric), _sides(place.row, metric)
    limits = place.contract.limits_of(place.table.group_by, place.row.slice, metric)
    limit = limits.get(LimitKind.MAX_GAP)
    if gap is None or limit is None or not sides:
        return None
    if gap.verdict not in (Verdict.PASS, Verdict.FAIL, Verdict.BETTER_OFF):
        return None
    turned = [_turn_test(gap, limit, metric, of_slice=index == 0) for index in range(len(sides))]
    worst = [
        _smallest_turning(side.worst, test, 1.0) for side, test in zip(sides, turned, strict=True)
    ]
    even = [
        _smallest_turning(side.even, test, _HALF) for side, test in zip(sides, turned, strict=True)
    ]
    return TippingLine(Named.for_place(place), metric, gap.verdict, _least(worst), _least(even))


@dataclass(frozen=True, slots=True)
class _Side:
    """Slice or reference in a comparison: P(served | hit), P(served | no hit), P(hit)."""

    rate: float
    other_rate: float
    hits: float

    def worst(self, share: float) -> tuple[float, float]:
        low, high = possible_range(self.rate, self.other_rate, self.hits, 1 - share)
        return max(self.rate - low, 0.0), max(high - self.rate, 0.0)

    def even(self, share: float) -> tuple[float, float]:
        """Return how far the rate may fall and rise if ``share`` of all labels is wrong."""
        change = rate_if_wrong(self.rate, self.other_rate, self.hits, share) - self.rate
        return max(-change, 0.0), max(change, 0.0)


def _sides(row: SliceRow, metric: Metric) -> list[_Side]:
    """Return the _Side of slice, then of reference; end at the first with a hidden number."""
    metrics = (metric, Metric.FPR if metric is Metric.TPR else Metric.TPR, Metric.READY)
    rates = [row.rates[needed].value if needed in row.rates else None for needed in metrics]
    gaps = [row.gaps[needed].value if needed in row.gaps else None for needed in metrics]
    sides = []
    for numbers in (
        rates,
        [_reference_rate(*rate_and_gap) for rate_and_gap in zip(metrics, rates, gaps, strict=True)],
    ):
        rate, other_rate, ready = numbers
        if rate is None or other_rate is None or ready is None:
            break
        sides.append(_Side(rate, other_rate, 1 - ready if metric is Metric.FPR else ready))
    return sides


def _reference_rate(metric: Metric, rate: float | None, gap: float | None) -> float | None:
    """Return the reference's rate from the slice's rate and gap; None if one is None."""
    if rate is None or gap is None:
        return None
    return min(1.0, max(0.0, rate + (gap if metric.harmed_by_less else -gap)))


def _turn_test(
    gap: ShownGap, limit: float, metric: Metric, *, of_slice: bool
) -> Callable[[tuple[float, float]], bool]:
    """Return a function that tells if a shift (down, up) of the rate turns the verdict."""
    assert gap.lower is not None and gap.upper is not None  # noqa: S101, PT018 - decided
    lower, upper = gap.lower, gap.upper
    rises_with_rate = (not metric.harmed_by_less) == of_slice

    def test(shift: tuple[float, float]) -> bool:
        """Return True if shifts of this size (down, up) turn the verdict."""
        down, up = shift if rises_with_rate else shift[::-1]
        if gap.verdict is Verdict.PASS:
            return upper + up > limit + SLACK or lower - down < -limit - SLACK
        if lower > limit:
            return lower - down <= limit + SLACK
        return upper + up >= -limit - SLACK

    return test


def _smallest_turning(
    shift: Shift, turned: Callable[[tuple[float, float]], bool], largest: float
) -> float | None:
    """Return the smallest share whose shift turns the verdict; None if ``largest`` does not."""
    if not turned(shift(largest)):
        return None
    low, high = 0.0, largest
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if turned(shift(middle)) else (middle, high)
    return round(high, _DIGITS)


def _least(shares: list[float | None]) -> float | None:
    return min((share for share in shares if share is not None), default=None)
