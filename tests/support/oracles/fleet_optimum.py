"""How fast a level can be found at all: the CUSUM that knows both rates, the information limit.

No rule with the same mean time to a false alarm beats the CUSUM at the rates it was made for
(Moustakides 1986). Under sampled labels there is no such rule to run; log(1 + A I) / I stands for
it, with I the information of one decision against the nearest world that holds the contract.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from fleet_worlds import Audits, Population
from scipy import sparse
from scipy.optimize import minimize
from scipy.sparse.linalg import spsolve

from monitor.core.intervals import Floats

STATES = 1_500
"""Points between 0 and the threshold; twice as many move no delay by 0.5 %."""

_SETTLED = 3_000
"""Labels after which the statistic of a stream that is at the limit has no memory of its start."""

_LONGEST = 200_000


@dataclass(frozen=True, slots=True)
class Optimum:
    """The oracle CUSUM of one drop.

    Attributes:
        threshold: its statistic, in nats, alarms at.
        median: labels from the drop to the alarm, in the steady state before it.
        p95: the same, 95th percentile.
    """

    threshold: float
    median: float
    p95: float


@lru_cache(maxsize=64)
def oracle(before: float, after: float, labels_to_false_alarm: float) -> Optimum:
    """The CUSUM that knows the rate before and after, at a mean time to a false alarm.

    Example:
        >>> best = oracle(0.85, 0.75, 1e5)
        >>> round(best.threshold, 1), round(best.median, -1)
        (7.8, 170)
    """
    low, high = 0.5, math.log(labels_to_false_alarm) + 3
    while high - low > 1e-3:
        middle = (low + high) / 2
        if _mean_time(_step(middle, before, after, before)) < labels_to_false_alarm:
            low = middle
        else:
            high = middle
    return Optimum(high, *_delays(high, before, after))


def information(world: Population, audits: Audits, row: int, floor: float) -> float:
    """Nats a decision carries against the nearest rates with a TPR of the floor.

    Args:
        world: the truth, at one instant, of one class.
        audits: the label probabilities.
        row: the slice.
        floor: the TPR of the contract.
    """
    ready, tpr, fpr = (float(x[0, row, 0]) for x in (world.ready, world.tpr, world.fpr))
    truth = _seen(ready, tpr, fpr, audits, row)
    seen = truth > 0

    def divergence(logits: Floats) -> float:
        other = _seen(_expit(logits[0]), floor, _expit(logits[1]), audits, row)
        return float((truth[seen] * np.log(truth[seen] / other[seen])).sum())

    start = [math.log(rate / (1 - rate)) for rate in (ready, fpr)]
    options = {"xatol": 1e-8, "fatol": 1e-13, "maxiter": 5_000}
    return float(minimize(divergence, start, method="Nelder-Mead", options=options).fun)


def limit(nats: float, trials: float) -> float:
    """Trials until an alarm, at a mean of so many trials to a false one: log(1 + A I) / I."""
    return math.log1p(trials * nats) / nats


def _seen(ready: float, tpr: float, fpr: float, audits: Audits, row: int) -> Floats:
    """P of what is seen of one decision: its route and rate, and its label if it has one."""
    outcome = np.array(
        [[(1 - ready) * fpr, ready * tpr], [(1 - ready) * (1 - fpr), ready * (1 - tpr)]]
    )
    by_rate = outcome[:, None, :] * audits.mix[row, :, :, None]
    asked = (audits.rates * audits.present[row, :, None])[..., None]
    unlabelled = (by_rate * (1 - asked)).sum(axis=-1)
    return np.concatenate([(by_rate * asked).ravel(), unlabelled.ravel()])


def _expit(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _step(threshold: float, before: float, after: float, rate: float) -> sparse.csr_matrix:
    """Transitions between states below the threshold when hits have this rate.

    A step ends between two points; its mass is split so that its mean stays.
    """
    gap = threshold / STATES
    here = np.arange(STATES)
    hit = math.log(after / before) / gap
    miss = math.log((1 - after) / (1 - before)) / gap
    moves = sparse.csr_matrix((STATES, STATES))
    for step, chance in ((hit, rate), (miss, 1 - rate)):
        to = np.maximum(here + step, 0)
        below = np.floor(to).astype(int)
        for end, share in ((below, 1 - (to - below)), (below + 1, to - below)):
            inside = end < STATES
            parts = (chance * share[inside], (here[inside], end[inside]))
            moves = moves + sparse.csr_matrix(parts, shape=(STATES, STATES))
    return moves


def _mean_time(moves: sparse.csr_matrix) -> float:
    """Mean number of labels to an alarm, from 0."""
    system = sparse.identity(STATES, format="csc") - moves.tocsc()
    return float(spsolve(system, np.ones(STATES))[0])


def _delays(threshold: float, before: float, after: float) -> tuple[float, float]:
    """Median and 95th percentile after the change."""
    flows = [_step(threshold, before, after, rate).T.tocsr() for rate in (before, after)]
    state = np.zeros(STATES)
    state[0] = 1.0
    for _ in range(_SETTLED):
        state = flows[0] @ state
    state /= state.sum()
    found: list[int] = []
    for label in range(1, _LONGEST):
        state = flows[1] @ state
        while len(found) < 2 and 1 - state.sum() >= (0.5, 0.95)[len(found)]:
            found.append(label)
        if len(found) == 2:
            return found[0], found[1]
    raise ValueError("the CUSUM is slower than can be followed")
