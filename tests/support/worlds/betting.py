"""Small worlds for bets on sampled labels: forecasts, and every outcome of a few decisions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
from answered import answered

from monitor.core.intervals import Floats
from monitor.detection.pages.cohort import Layout, SliceCohort
from monitor.detection.pages.outcomes import LabelOutcome, Outcomes
from monitor.detection.pages.ready import Forecast

LAYOUT = Layout((0, 4), np.array([1.0, 0.25]), 1)
"""human_review is labelled completely, auto_serve at a quarter."""

AUTO, REVIEW = (0, 1, 0), (1, 0, 0)
"""Route, rate and band of the two strata that have decisions."""


DISTANCES = np.array([0.02, 0.035, 0.06, 0.10, 0.17, 0.30])
"""How far alternatives lie beyond the boundary: about equal steps of information, so that no
violation costs much more labels than if its size had been known."""

_EDGE = 0.01  # alternatives stay inside (0, 1): one label must not decide alone


def level_alternatives(boundary: npt.ArrayLike, sign: int) -> Floats:
    """Rates beyond a boundary to bet on, shape (..., 6), weighted equally.

    Args:
        boundary: rates inside (0, 1).
        sign: -1 where lower rates violate (a floor), 1 where higher ones do (a ceiling).
    """
    c = np.asarray(boundary, np.float64)[..., None]
    low, high = np.minimum(_EDGE, c / 2), np.maximum(1 - _EDGE, (1 + c) / 2)
    alternatives: Floats = np.clip(c + sign * DISTANCES, low, high)
    return alternatives


@dataclass(frozen=True)
class Arm:
    """How decisions come about: TPR t, FPR v, P(ready) u."""

    t: float
    u: float = 0.6
    v: float = 0.2

    @property
    def auto_share(self) -> float:
        return self.u * self.t + (1 - self.u) * self.v

    @property
    def ready(self) -> tuple[float, float]:
        """P(ready | auto_serve), P(ready | human_review)."""
        s = self.auto_share
        return self.u * self.t / s, self.u * (1 - self.t) / (1 - s)

    def probabilities(self, audit: tuple[float, float] = (0.25, 1.0)) -> Floats:
        """Of unlabelled, ready, not ready in auto_serve, then in human_review."""
        cells = []
        shares = (self.auto_share, 1 - self.auto_share)
        for share, f, pi in zip(shares, self.ready, audit, strict=True):
            cells += [share * (1 - pi), share * pi * f, share * pi * (1 - f)]
        return np.array(cells)


def forecast(*arms: tuple[float, float, float], decisions: float = 1000) -> Forecast:
    """One slice per (P(ready | auto), P(ready | review), share of auto_serve)."""
    ready = np.full((len(arms), *LAYOUT.shape), 0.5)
    traffic = np.zeros_like(ready)
    for row, (in_auto, in_review, share) in enumerate(arms):
        ready[row][AUTO], ready[row][REVIEW] = in_auto, in_review
        traffic[row][AUTO], traffic[row][REVIEW] = decisions * share, decisions * (1 - share)
    return Forecast(LAYOUT, ready, traffic)


def past(*arms: Arm, decisions: float = 1000) -> Forecast:
    """A forecast that is right if the arms stay as they are."""
    return forecast(*((*arm.ready, arm.auto_share) for arm in arms), decisions=decisions)


def six_columns(outcomes: Outcomes, row: int) -> list[int]:
    """Columns of the six outcomes of :meth:`Arm.probabilities` in one slice."""
    first = [int(outcomes.first[row][stratum]) for stratum in (AUTO, REVIEW)]
    return [column + outcome for column in first for outcome in LabelOutcome]


def sequences(outcomes: Outcomes, row: int, decisions: int) -> tuple[Floats, list[tuple[int, ...]]]:
    """Every sequence of outcomes of a few decisions of one slice.

    Returns:
        Counts of shape (6 ** decisions, J), and the outcome (0..5) of every decision.
    """
    columns = six_columns(outcomes, row)
    ways = list(product(range(6), repeat=decisions))
    counts = np.zeros((len(ways), outcomes.columns))
    for at, way in enumerate(ways):
        for outcome in way:
            counts[at, columns[outcome]] += 1
    return counts, ways


def chances(ways: list[tuple[int, ...]], *probabilities: Floats) -> Floats:
    """Of every sequence, where each decision has probabilities of its own."""
    return np.array(
        [np.prod([p[o] for p, o in zip(probabilities, way, strict=True)]) for way in ways]
    )


def expected(outcomes: Outcomes, row: int, arm: Arm, decisions: float) -> Floats:
    """Mean counts of one slice, shape (1, J)."""
    counts = np.zeros((1, outcomes.columns))
    counts[0, six_columns(outcomes, row)] = decisions * arm.probabilities()
    return counts


def cohort(
    cells: dict[tuple[int, int, int, int], tuple[int, int, int]], slices: int
) -> SliceCohort:
    """(N, labelled, ready) by slice, route, rate and band of :data:`LAYOUT`."""
    counts = np.zeros((3, slices, *LAYOUT.shape), np.int64)
    for at, values in cells.items():
        counts[(slice(None), *at)] = values
    return answered(counts[0], counts[1], counts[2], np.zeros((slices, 3), np.int64))
