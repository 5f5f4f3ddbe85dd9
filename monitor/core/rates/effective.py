"""Effective numbers of trials, and intervals of P(auto_serve | hit) under sampled labels.

A label at audit rate r represents 1 / r decisions, so the hits of a route, N_k p_k summed over its
strata, vary D times as much as their count does:

    D(r) = (sum_k w_k N_k p_k - r sum_k (w_k - 1) N_k p_k^2) / sum_k N_k p_k,   w_k = N_k / n_k

at r times the estimated hits; D is 1 if all is labelled. A share T = a / (a + b) of two routes'
hits is then the binomial share q of their effective counts, a / D_a and b / D_b, with the odds of
q multiplied by D_a / D_b.

Wilson's interval at n_eff takes D from the estimate, whatever the bound. If a handful of labels
carries most of the weight, that is too narrow exactly when they err upward: D falls as p rises,
and small counts are skewed. So under sampling the bounds are Wilson's of q, with

- D of a route at the bound if that means fewer hits (if it means more, D at the estimate, which is
  the safer side);
- effective counts reduced by the third-order term (z^2 - 1) / 6 for the skewness that sampling
  adds. Both bounds move away from the side that few labels make likely.

Where requests of one unit are alike, hits vary more, by the same for every rate. With the design
effect E of units, D grows by E - 1: of the other decisions of a unit, only those with a label
matter.

Source: Wilson (1927), JASA 22; Rao and Scott (1992), Biometrics 48 (counts divided by design
effects); Hall (1982), Biometrika 69 (the skewness term).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s, Route
from monitor.core.counts.strata import REVIEWED_ROUTES, PostStrata
from monitor.core.intervals import Floats, divide, wilson
from monitor.core.metric import Among, Metric

_STEPS = 6
"""Steps towards a bound that agrees with its D, from the largest D and hence from outside."""


@dataclass(frozen=True)
class Trials:
    """Decisions, labels and hits of a metric, each of shape (route, post-stratum slot, slice).

    A hit is a ready reply; for FPR, a reply that is not ready.
    """

    decisions: Floats
    labelled: Floats
    hits: Floats

    @classmethod
    def for_metric(cls, strata: PostStrata, metric: Metric) -> Trials:
        """Return the trials of TPR, READY (hits: ready), FPR (hits: not ready) or PRECISION.

        PRECISION has trials only on auto_serve, with ready decisions as hits.
        """
        unready = metric.row.among is Among.NOT_READY
        hits = strata.labelled - strata.ready if unready else strata.ready
        if metric.row.among is not Among.SERVED:
            return cls(strata.decisions, strata.labelled, hits)
        served = np.array([route is Route.AUTO_SERVE for route in REVIEWED_ROUTES], np.float64)
        only = served[:, None, None]
        return cls(only * strata.decisions, only * strata.labelled, only * hits)

    @cached_property
    def complete(self) -> npt.NDArray[np.bool_]:
        """Mask of the strata in which every decision is labelled."""
        return np.greater_equal(self.labelled, self.decisions)

    @cached_property
    def unlabelled(self) -> npt.NDArray[np.bool_]:
        """Mask of the strata with decisions but without labels."""
        return np.equal(self.labelled, 0) & np.greater(self.decisions, 0)

    @property
    def expected(self) -> Floats:
        """Expected hits N_k p_k of each stratum; counted hits if the stratum is complete."""
        return divide(self.decisions * self.hits, self.labelled, empty=0)

    @cached_property
    def rate(self) -> Floats:
        """Hit rates p_k for variances: (m + 1/2) / (n + 1) if a sample has only hits, or none.

        With p_k = 0 or 1 the variance would be 0 and the interval blind to unsampled decisions.
        """
        one_sided = ~self.complete & ((self.hits == 0) | (self.hits == self.labelled))
        plain = divide(self.hits, self.labelled, empty=0)
        return np.where(one_sided, (self.hits + 0.5) / (self.labelled + 1), plain)

    @property
    def sampling(self) -> Floats:
        """Variance of N_k p_k due to only n_k labels: N_k^2 p_k (1 - p_k) / n_k."""
        return divide(self.decisions**2 * self.rate * (1 - self.rate), self.labelled, empty=0)

    def filled(self, shares: tuple[int, int]) -> Trials:
        """Return the trials with all unlabelled decisions of a route as hits (1) or misses (0)."""
        guess = self.decisions * np.array(shares, np.float64)[:, None, None]
        return Trials(
            self.decisions,
            np.where(self.unlabelled, self.decisions, self.labelled),
            np.where(self.unlabelled, guess, self.hits),
        )


@dataclass(frozen=True, slots=True)
class Evidence:
    """Rates of S slices, with the evidence from which their intervals are computed.

    Attributes:
        value: the rate T; NaN without one.
        support: n_eff, the trials of Wilson's interval.
        hits: estimated hits of the two routes (a plain rate: hits and misses), shape (2, S).
        alone: sum of w_k N_k p_k by route, shape (2, S); the hits if all is labelled.
        shared: sum of (w_k - 1) N_k p_k^2 by route, shape (2, S); 0 if all is labelled.
        extra: design effect of units less 1, shape (S,); 0 if decisions are independent.
    """

    value: Floats
    support: Floats
    hits: Floats
    alone: Floats
    shared: Floats
    extra: Floats

    @classmethod
    def plain(cls, value: Floats, support: Floats) -> Evidence:
        """Return the evidence of rates with ``support`` trials; the intervals are plain Wilson."""
        hits = np.array([value * support, (1 - value) * support])
        return cls(value, support, hits, hits, np.zeros_like(hits), np.zeros_like(support))

    def in_units(self, effect: Floats) -> Evidence:
        """Return the evidence where decisions depend on each other inside units.

        V grows by (E - 1) (1 / a + 1 / b), so 1 / n_eff by (E - 1) / (a + b).

        Args:
            effect: the design effect E of each row, at least 1.
        """
        decisions = np.nan_to_num(self.hits.sum(axis=0))
        growth = 1 + (effect - 1) * divide(self.support, decisions, empty=0)
        return replace(self, support=self.support / growth, extra=effect - 1)

    def unless(self, undefined: npt.NDArray[np.bool_]) -> Evidence:
        """Return the evidence with value NaN and support 0 in rows where ``undefined`` is True."""
        value, support = (
            np.where(undefined, np.nan, self.value),
            np.where(undefined, 0, self.support),
        )
        return replace(self, value=value, support=support)

    @classmethod
    def together(cls, parts: Sequence[Evidence]) -> Evidence:
        """Return the rows of several parts as one table, to compute them at the cost of one."""
        return cls(*(np.concatenate(columns, axis=-1) for columns in zip(*parts, strict=True)))

    def __iter__(self) -> Iterator[Floats]:
        """Yield all attributes in their order; all have a last axis S."""
        return iter((self.value, self.support, self.hits, self.alone, self.shared, self.extra))

    def rows(self, at: slice | Int64s) -> Evidence:
        """Return the rows that a slice object or places select on the last axis."""
        return Evidence(*(column[..., at] for column in self))

    @property
    def exchanged(self) -> Evidence:
        """Evidence of 1 - value: the share of the second route's hits instead of the first's."""
        hits, alone, shared = (column[::-1] for column in (self.hits, self.alone, self.shared))
        return Evidence(1 - self.value, self.support, hits, alone, shared, self.extra)

    @classmethod
    def bounds_of(cls, parts: Sequence[Evidence], z: float) -> list[tuple[Floats, Floats]]:
        """Return a pair of bounds (lower, upper) at ``z`` for each part, computed together."""
        edges = np.cumsum([len(part.value) for part in parts])[:-1]
        lower, upper = cls.together(parts).bounds(z)
        return list(zip(np.split(lower, edges), np.split(upper, edges), strict=True))

    def bounds(self, z: float) -> tuple[Floats, Floats]:
        """Return (lower, upper) at ``z``: 0 <= lower <= value <= upper <= 1; NaN without value.

        Without trials they are 0 and 1. If all is labelled they are plain Wilson's.
        """
        lower, upper = wilson(self.value, self.support, z)
        sampled = (self.shared > 0).any(axis=0) & ~np.isnan(self.value)
        if not sampled.any():
            return lower, upper
        lower_bounds = Evidence.together([self, self.exchanged])._lower_bound(z)
        below, above = lower_bounds[: len(sampled)], 1 - lower_bounds[len(sampled) :]
        lower = np.where(sampled, np.minimum(below, self.value), lower)
        return lower, np.where(sampled, np.maximum(above, self.value), upper)

    def support_at(self, rate: Floats) -> Floats:
        """Return the trials that these labels would be worth at another rate, shape (S,).

        The number of effective hits is kept; the rate decides how they divide between the routes.
        So it does not depend on the rate of the labels, and a minimum of support judged by it
        selects neither high nor low estimates. At the estimated rate it is n_eff. If all is
        labelled it is the counted hits at any rate; it is 0 without a point.
        """
        plain = (self.shared == 0).all(axis=0) | (self.support == 0)
        if plain.all():
            return self.support
        scale = np.ones_like(self.hits)
        for _ in range(_STEPS):
            effects = self.effects(scale)
            counts = (self.hits / effects).sum(axis=0)
            odds = effects[0] / effects[1]
            share = rate / (rate + (1 - rate) * odds)
            parts = np.array([share, 1 - share]) * counts * effects
            scale = (scale + divide(parts, self.hits, empty=1)) / 2  # the mean prevents oscillation
        worth = divide(counts * odds, ((1 - rate) * odds + rate) ** 2, empty=0)
        return np.where(plain | np.isnan(worth), self.support, worth)

    def effects(self, scale: float | Floats) -> Floats:
        """Return D of each route at `scale` times its estimated hits, shape (2, S); at least 1."""
        design_effects = divide(self.alone - scale * self.shared, self.hits, empty=1)
        return np.where(self.shared > 0, np.maximum(design_effects, 1), 1) + self.extra

    def _lower_bound(self, z: float) -> Floats:
        """Return the lower bound of the first route's share of hits, with D at that bound."""
        term = max(z * z - 1, 0) / 6
        second_effect = self.effects(1)[1]
        skewed = term * self._skewness(1, 1) / second_effect
        scale: float | Floats = 0.0
        for _ in range(_STEPS if np.any(self.shared[0] > 0) else 1):
            effect = self.effects(scale)[0]
            odds = effect / second_effect
            share = self.value / (self.value + (1 - self.value) * odds)
            counts = self.hits[0] / effect + self.hits[1] / second_effect
            first_count = np.maximum(share * counts - term * self._skewness(0, scale) / effect, 0)
            second_count = np.maximum((1 - share) * counts - skewed, 0)
            bound, _ = wilson(
                divide(first_count, first_count + second_count), first_count + second_count, z
            )
            scale = divide(bound, share, empty=1)
        return divide(bound * odds, bound * odds + 1 - bound)

    def _skewness(self, route: int, scale: float | Floats) -> Floats:
        """Return the part of sampling in the third cumulant of a route's hits, over their variance.

        It is w (1 - 2 p) - 1 in a stratum of hit rate p times `scale`, or 0 if that is less.
        """
        alone, shared, hits = self.alone[route], self.shared[route], self.hits[route]
        rate = divide(scale * shared, alone - hits, empty=0)
        return np.maximum(divide(alone, hits, empty=1) * (1 - 2 * rate) - 1, 0)


def served_share(trials: Trials) -> Evidence:
    """Return the evidence of P(auto_serve | hit) = a / (a + b), from each route's expected hits.

    V = D_a / a + D_b / b, so n_eff = (a + b)^2 / (b D_a + a D_b), which is a + b with complete
    labels. The code does not divide by a or b, because a complete route may have no hit.
    """
    labels = trials.hits.sum(axis=1)
    one_route = (trials.decisions.sum(axis=1) == 0).any(axis=0)
    counted = one_route | trials.complete.all(axis=(0, 1))
    weights = divide(trials.decisions, trials.labelled, empty=0)
    smooth = trials.decisions * trials.rate
    hits = np.where(counted, labels, smooth.sum(axis=1))
    alone = np.where(counted, labels, (weights * smooth).sum(axis=1))
    shared = ((weights - 1) * smooth * trials.rate).sum(axis=1)
    shared = np.where(counted, 0, np.maximum(shared, 0))
    expected = trials.expected.sum(axis=1)
    value = divide(expected[0], expected.sum(axis=0))
    auto, review = divide(alone - shared, hits, empty=1)
    support = divide(hits.sum(axis=0) ** 2, hits[1] * auto + hits[0] * review, empty=0)
    support = np.where(counted, labels.sum(axis=0), support)
    return Evidence(value, support, hits, alone, shared, np.zeros_like(support))


def ready_share(trials: Trials) -> Evidence:
    """Return the evidence of P(hit) over both routes; over one route for trials of PRECISION.

    V N^2 = sampling + sum N_k (p_k - T)^2; the second term comes from the sizes of the strata, so
    that complete labels give V = T (1 - T) / N and n_eff = N.
    """
    total = trials.decisions.sum(axis=(0, 1))
    smooth = divide((trials.decisions * trials.rate).sum(axis=(0, 1)), total, empty=0)
    between = trials.decisions * (trials.rate - smooth) ** 2
    variance = (trials.sampling + between).sum(axis=(0, 1))
    support = divide(smooth * (1 - smooth) * total**2, variance, empty=0)
    support = np.where(trials.complete.all(axis=(0, 1)), total, support)
    share = np.minimum(divide(trials.expected.sum(axis=(0, 1)), total), 1)
    return replace(Evidence.plain(share, total), support=support)
