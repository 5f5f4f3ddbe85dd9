"""Post-strata seen through one metric: the point and its effective number of trials."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.contract import Metric
from monitor.core.intervals import Floats, divide
from monitor.core.strata import PostStrata


@dataclass(frozen=True, slots=True)
class Trials:
    """Post-strata seen through one metric, (route, slot, S): a hit is ready (FPR: not ready)."""

    decisions: Floats
    labelled: Floats
    hits: Floats

    @classmethod
    def of(cls, strata: PostStrata, metric: Metric) -> Trials:
        """The trials of TPR and READY (hits: ready) or FPR (hits: not ready)."""
        hits = strata.labelled - strata.ready if metric is Metric.FPR else strata.ready
        return cls(strata.decisions, strata.labelled, hits)

    @property
    def complete(self) -> npt.NDArray[np.bool_]:
        """Strata where every decision is labelled: exact."""
        return np.greater_equal(self.labelled, self.decisions)

    @property
    def unlabelled(self) -> npt.NDArray[np.bool_]:
        """Strata with decisions whose rate nothing speaks for."""
        return np.equal(self.labelled, 0) & np.greater(self.decisions, 0)

    @property
    def expected(self) -> Floats:
        """N_k p_k; exactly the counted hits where the stratum is complete."""
        return divide(self.decisions * self.hits, self.labelled, empty=0)

    @property
    def rate(self) -> Floats:
        """p_k for variances: (m + 1/2) / (n + 1) where a sample shows only hits or only misses.

        With p_k = 0 or 1 the variance would be 0 and the interval blind to what was not sampled.
        """
        one_sided = ~self.complete & ((self.hits == 0) | (self.hits == self.labelled))
        plain = divide(self.hits, self.labelled, empty=0)
        return np.where(one_sided, (self.hits + 0.5) / (self.labelled + 1), plain)

    def sampling(self, rate: Floats) -> Floats:
        """Variance of N_k p_k from looking at n_k labels only: N_k^2 p_k (1 - p_k) / n_k.

        Args:
            rate: :attr:`rate`.
        """
        return divide(self.decisions**2 * rate * (1 - rate), self.labelled, empty=0)

    def filled(self, shares: tuple[int, int]) -> Trials:
        """As if all unlabelled decisions of each route were hits (1) or misses (0)."""
        guess = self.decisions * np.array(shares, np.float64)[:, None, None]
        return Trials(
            self.decisions,
            np.where(self.unlabelled, self.decisions, self.labelled),
            np.where(self.unlabelled, guess, self.hits),
        )


def served_share(trials: Trials) -> tuple[Floats, Floats]:
    """P(auto_serve | hit) = a / (a + b) over the routes' expected hits, and its n_eff.

    V = spread_a / a^2 + spread_b / b^2, where spread = sampling + sum N_k p_k^2; with complete
    labels spread_a = a, so n_eff = a + b. Written without dividing by a + b's parts, because a
    complete route may hold no hit at all.
    """
    hits = trials.expected.sum(axis=1)
    rate = trials.rate
    smooth = (trials.decisions * rate).sum(axis=1)
    spread = (trials.sampling(rate) + trials.decisions * rate**2).sum(axis=1)
    auto, review = divide(spread, smooth, empty=1)
    total = smooth.sum(axis=0)
    support = divide(total**2, smooth[1] * auto + smooth[0] * review, empty=0)
    one_route = (trials.decisions.sum(axis=1) == 0).any(axis=0)
    counted = one_route | trials.complete.all(axis=(0, 1))
    support = np.where(counted, trials.hits.sum(axis=(0, 1)), support)
    return divide(hits[0], hits.sum(axis=0)), support


def ready_share(trials: Trials) -> tuple[Floats, Floats]:
    """P(hit) over both routes, and its n_eff.

    V N^2 = sampling + sum N_k (p_k - T)^2: what the strata's sizes add, so that complete labels
    give V = T (1 - T) / N and n_eff = N.
    """
    total = trials.decisions.sum(axis=(0, 1))
    rate = trials.rate
    smooth = divide((trials.decisions * rate).sum(axis=(0, 1)), total, empty=0)
    between = trials.decisions * (rate - smooth) ** 2
    variance = (trials.sampling(rate) + between).sum(axis=(0, 1))
    support = divide(smooth * (1 - smooth) * total**2, variance, empty=0)
    support = np.where(trials.complete.all(axis=(0, 1)), total, support)
    return np.minimum(divide(trials.expected.sum(axis=(0, 1)), total), 1), support
