"""From exact columns to what may be shown: rounding, bands and coding of small complements.

The complement of a rate is a cell too: "100 % were auto-served" discloses every one of them. A
rate whose hits or misses are below k (0 is treated like 1 to k - 1) is coded: ``at_least`` or
``at_most`` instead of a value. Everything computed from it is computed from the code.

With complete labels the code is ``>= 1 - (k-1) / n_low`` or ``<= (k-1) / n_low``, n_low being the
lower edge of the support's band. Where only a share of a route is labelled, a hidden label stands
for w decisions and that would be false; there the bound is ``w (k-1) / (w (k-1) + m)``, m the lower
edge of the band of the labels on the other side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from monitor.core.contract import Metric, Verdict
from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Z95, Floats, divide, mover, wilson
from monitor.core.privacy.bands import STEPS, Precision
from monitor.core.privacy.guards import Bools, RouteLabels
from monitor.core.publish.snapshot import ShownGap, ShownRate
from monitor.core.rates.estimates import Points, RateColumns
from monitor.core.rates.gaps import HARMED_BY_LESS, GapColumns, gap
from monitor.core.rates.tolerance import Tolerance


@dataclass(frozen=True, slots=True)
class ShownColumns:
    """One metric of all rows as it may be shown, arrays of shape (S,); NaN is not shown.

    Attributes:
        metric: which rate.
        shown: rows that are shown, coded or not; every other array is to be read under it.
        value: the rounded rate; NaN where it is coded.
        at_least: the code where too few missed.
        at_most: the code where too few hit.
        support: lower edge of the support's band.
        trials: what every interval is computed from (the same, or exact when synthetic).
        step: what the rate was rounded to; 0 is exact.
    """

    metric: Metric
    shown: Bools
    value: Floats
    at_least: Floats
    at_most: Floats
    support: Int64s
    trials: Floats
    step: Floats

    def rows(self, at: slice) -> ShownColumns:
        """Some rows alone."""
        return ShownColumns(
            self.metric,
            self.shown[at],
            self.value[at],
            self.at_least[at],
            self.at_most[at],
            self.support[at],
            self.trials[at],
            self.step[at],
        )

    @property
    def points(self) -> tuple[Floats, Floats]:
        """Lowest and highest point that is shown: the same, or the two ends of a code."""
        low = np.where(np.isnan(self.at_least), 0, self.at_least)
        high = np.where(np.isnan(self.at_most), 1, self.at_most)
        plain = ~np.isnan(self.value)
        low, high = np.where(plain, self.value, [low, high])
        return low, high

    def rates(self, z: float = Z95) -> RateColumns:
        """As a reader can compute them: points and intervals from what is shown.

        What rounding may have taken away, half a step, is an error of its own beside that of
        sampling, so their squares are added. (Added up themselves, 95 % intervals covered 99 to
        100 %.)
        """
        low, high = self.points
        # Two decimals are finer than the bounds' own rounding; coarser steps widen them.
        half = np.where(np.isnan(self.value) | (self.step <= STEPS[0]), 0, self.step / 2)
        (lower, _), (_, upper) = wilson([low, high], self.trials, z)
        lower, upper = low - np.hypot(low - lower, half), high + np.hypot(upper - high, half)
        value, lower, upper = np.where(
            self.shown, [self.value, np.maximum(lower, 0), np.minimum(upper, 1)], np.nan
        )
        return RateColumns(
            self.metric, value, lower, upper, self.trials, self.support, self.support, self.support
        )


def show(
    columns: Points, may: Bools, precision: Precision, routes: RouteLabels | None = None
) -> ShownColumns:
    """Round, band and code one metric.

    Args:
        columns: exact, every row.
        may: rows that the guards let through; a row without a point, or whose band of n_eff
            is below the smallest support, is not shown either.
        precision: the resolution.
        routes: the labels the columns rest on; None where all decisions count.
    """
    support, trials, step = precision.resolution(columns.support)
    shown = may & (support >= precision.smallest) & ~np.isnan(columns.value)
    at_least, at_most = _codes(columns, support, precision, _weights(columns.metric, routes))
    plain = np.isnan(at_least) & np.isnan(at_most)
    value = np.where(shown & plain, precision.rounded(columns.value, step), np.nan)
    return ShownColumns(columns.metric, shown, value, at_least, at_most, support, trials, step)


def code_third_route(
    selection: ShownColumns, blocked: ShownColumns, third: Int64s, precision: Precision
) -> ShownColumns:
    """The blocked rate, coded where it would give away the decisions on the third route.

    P(human_review) = 1 - P(auto_serve) - P(blocked): with 1 to k - 1 decisions (or none) there,
    a blocked rate next to a selection rate shows them; it is coded as ``<= 1 - selection``.
    """
    both = ~np.isnan(selection.value) & ~np.isnan(blocked.value)
    unsafe = both & (third < precision.k) & (not precision.exact)
    rest = np.minimum(precision.up(1 - selection.value + selection.step / 2), 1)
    return replace(
        blocked,
        value=np.where(unsafe, np.nan, blocked.value),
        at_most=np.where(unsafe, rest, blocked.at_most),
    )


def show_gaps(
    slices: ShownColumns, reference: ShownColumns, z: float, precision: Precision
) -> GapColumns:
    """Gaps and ratios of shown rates at the simultaneous z, rounded outward; NaN is not shown."""
    rates, others = slices.rates(z), reference.rates(z)
    raw = gap(rates, others)
    lower, upper = _gap_bounds((slices, rates), (reference, others))
    coded = np.isnan(raw.value)
    low = np.where(coded, divide(rates.lower, others.upper), raw.ratio_lower)
    high = np.where(coded, divide(rates.upper, others.lower), raw.ratio_upper)
    return GapColumns(
        raw.metric,
        precision.nearest(raw.value),
        precision.down(lower),
        precision.up(upper),
        precision.nearest(raw.ratio),
        precision.down(np.minimum(low, np.where(np.isnan(raw.ratio), np.inf, raw.ratio))),
        precision.up(high),
    )


def _gap_bounds(
    slices: tuple[ShownColumns, RateColumns], reference: tuple[ShownColumns, RateColumns]
) -> tuple[Floats, Floats]:
    """MOVER's bounds of a gap; of a coded rate, from the end of the code that is worse for each.

    Between the lower and the upper end nothing is known, beyond them what Wilson's bounds say.
    """
    sides = [(*shown.points, rates) for shown, rates in (slices, reference)]
    if slices[0].metric in HARMED_BY_LESS:
        sides.reverse()
    (low, high, worse), (least, most, better) = sides
    bounds = worse.lower, worse.upper, better.lower, better.upper
    lower, _ = mover(low, *bounds[:2], most, *bounds[2:])
    _, upper = mover(high, *bounds[:2], least, *bounds[2:])
    return lower, upper


def as_decided(
    gaps: GapColumns, verdicts: list[Verdict | None], enough: Bools, allowed: Tolerance
) -> GapColumns:
    """The gaps, or ratios, with intervals that agree with the verdicts of exact counts.

    Of one that fails, or is better off, nothing within the limit is left, of one that passes
    nothing beyond it; one that is undecided in spite of its support straddles the limit. So the
    verdict can be read from the interval, and the interval tells no more than the verdict does. The
    shown value stays inside: a gap that fails, and whose value is rounded down to its limit, is
    inconclusive.

    Args:
        gaps: as shown.
        verdicts: of the same rows.
        enough: rows with the contract's minimum support.
        allowed: the contract's limit, on the gap or on the ratio.
    """
    fails, passes = (
        np.array([verdict in decided for verdict in verdicts], bool)
        for decided in ((Verdict.FAIL, Verdict.BETTER_OFF), (Verdict.PASS,))
    )
    open_ones = enough & ~fails & ~passes
    value, lower, upper = allowed.interval(gaps)
    low, high, equal = allowed.low, allowed.high, 1.0 if allowed.ratio else 0.0
    above = fails & ((value > equal) | (lower > low))  # else it may be either direction
    below = fails & ~above & ((value < equal) | (upper < high))
    lower = np.where(above, np.fmin(np.fmax(lower, allowed.above), value), lower)
    upper = np.where(below, np.fmax(np.fmin(upper, allowed.below), value), upper)
    lower = np.where(passes, np.fmin(np.fmax(lower, low), value), lower)
    upper = np.where(passes, np.fmax(np.fmin(upper, high), value), upper)
    lower = np.where(open_ones, np.minimum(lower, high), lower)
    upper = np.where(open_ones, np.maximum(upper, low), upper)
    within = open_ones & (upper <= high) & (lower >= low)
    nearer = high - upper <= lower - low
    upper = np.where(within & nearer, allowed.above, upper)
    lower = np.where(within & ~nearer, allowed.below, lower)
    return allowed.with_bounds(gaps, lower, upper)


def shown_rates(columns: ShownColumns, precision: Precision) -> list[ShownRate | None]:
    """The rates as they are published; None is hidden."""
    rates = columns.rates()
    table = zip(
        columns.shown.tolist(),
        known(columns.value),
        known(precision.down(rates.lower)),
        known(precision.up(rates.upper)),
        columns.support.tolist(),
        known(columns.at_least),
        known(columns.at_most),
        strict=True,
    )
    return [ShownRate(*row[1:]) if row[0] else None for row in table]


def shown_gaps(
    columns: GapColumns, reference: str, verdicts: list[Verdict | None]
) -> list[ShownGap | None]:
    """The gaps as they are published; None where slice or reference is hidden."""
    table = zip(
        known(columns.value),
        known(columns.lower),
        known(columns.upper),
        known(columns.ratio),
        known(columns.ratio_lower),
        known(columns.ratio_upper),
        verdicts,
        strict=True,
    )
    return [ShownGap(reference, *row) if row[1] is not None else None for row in table]


def known(numbers: Floats) -> list[float | None]:
    """The numbers as a list, None for NaN."""
    away = np.isnan(numbers)
    if not away.any():
        return list(numbers.tolist())
    found = numbers.astype(object)
    found[away] = None
    return list(found.tolist())


def _weights(metric: Metric, routes: RouteLabels | None) -> tuple[Floats | float, Floats | float]:
    """Decisions a hidden hit and a hidden miss may stand for."""
    if routes is None:
        return 1.0, 1.0
    auto, review = routes.weights
    if metric is Metric.READY:
        return np.maximum(auto, review), np.maximum(auto, review)
    return auto, review


def _codes(
    columns: Points,
    support: Int64s,
    precision: Precision,
    weights: tuple[Floats | float, Floats | float],
) -> tuple[Floats, Floats]:
    """``at_least`` and ``at_most``; NaN where none is needed."""
    least = most = np.full(columns.value.shape, np.nan)
    few_hits, few_misses = columns.hits < precision.k, columns.misses < precision.k
    # Strata of one route may weigh more than the route does; a false code is opened to nothing.
    if not precision.exact and few_misses.any():
        share = precision.down(1 - _small_share(support, columns.hits, weights[1], precision))
        least = np.where(few_misses, np.where(columns.value < share, 0, share), np.nan)
    if not precision.exact and few_hits.any():
        share = precision.up(_small_share(support, columns.misses, weights[0], precision))
        most = np.where(few_hits, np.where(columns.value > share, 1, share), np.nan)
    return least, most


def _small_share(
    support: Int64s, others: Int64s, weight: Floats | float, precision: Precision
) -> Floats:
    """The largest rate that k - 1 hidden labels can make."""
    hidden = precision.k - 1
    counted = divide(hidden, support, empty=1)
    if isinstance(weight, float):
        return np.minimum(counted, 1)  # nobody stands for others
    sampled = divide(weight * hidden, weight * hidden + precision.support(others), empty=1)
    return np.minimum(np.where(weight > 1, sampled, counted), 1)
