"""Worlds in which labels vanish, or are not requested: a twentieth of auto_serve is audited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from adversary.worlds import AUDIT_RATES, AUTO, DAY, HOUR, REVIEW, START, Ints, Shape, World

Floats = npt.NDArray[np.float64]

READY = 0.6
TPR, FPR = 0.85, 0.10
USUAL_RESPONSE, USUAL_DELAY = 0.985, 6.0
LONG = {True: 0.175, False: 0.4875}
"""P(long | ready): three requests of ten are long, and of these only 35 % are ready."""

EXACT = ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
BLURRED = ((0.60, 0.30, 0.10), (0.15, 0.30, 0.55))
"""P(score band | not ready) and P(score band | ready)."""
AUDITED, FULLY = AUDIT_RATES.index(0.05), AUDIT_RATES.index(1.0)

Drawn = Callable[["Draws"], npt.NDArray[np.bool_]]


@dataclass(frozen=True)
class Draws:
    """All decisions of a world, as a fault of the labelling sees them.

    Attributes:
        day: since the world began.
        row: index of the slice.
        auto: whether it was served.
        ready: whether it was ready.
        asked: whether its label is requested.
        luck: uniform in [0, 1), independent of all else.
        long: whether the request is a long one, of which fewer are ready.
    """

    day: Floats
    row: Ints
    auto: npt.NDArray[np.bool_]
    ready: npt.NDArray[np.bool_]
    asked: npt.NDArray[np.bool_]
    luck: Floats
    long: npt.NDArray[np.bool_]


def loses(row: int, share: float, since: float, until: float = np.inf, route: int = AUTO) -> Drawn:
    """A slice loses a share of its requested labels of a route, for some days."""

    def lost(all_: Draws) -> npt.NDArray[np.bool_]:
        mine = (all_.row == row) & (all_.auto == (route == AUTO))
        found: npt.NDArray[np.bool_] = mine & (all_.day >= since) & (all_.day < until)
        return found & (all_.luck < share)

    return lost


def skips_reviews(row: int, share: float, since: float, *, ready: bool) -> Drawn:
    """Reviewers leave a share of the ready ones of a slice, or of the long ones, from a day on."""

    def lost(all_: Draws) -> npt.NDArray[np.bool_]:
        left = all_.ready if ready else all_.long
        found: npt.NDArray[np.bool_] = (all_.row == row) & ~all_.auto & (all_.day >= since) & left
        return found & (all_.luck < share)

    return lost


def skips_wrong_audits(row: int, share: float) -> Drawn:
    """Audits of a slice leave out a share of the replies that were served without being ready."""

    def lost(all_: Draws) -> npt.NDArray[np.bool_]:
        wrong: npt.NDArray[np.bool_] = (all_.row == row) & all_.auto & ~all_.ready
        return wrong & (all_.luck < share)

    return lost


@dataclass(frozen=True)
class Labelling:
    """A world: what is true of its slices, and what becomes of their labels.

    Attributes:
        shares: of the traffic, by slice.
        gaps: by how much the TPR of each slice is lower than :data:`TPR`.
        fprs: FPR of slices in which it is not :data:`FPR`.
        gap_from: day from which these hold; before it there is no gap.
        lost: faults of the labelling.
        skips: faults of the requests: requested labels that are not requested after all.
        late: days that labels of a slice take longer.
        slow: fewest and most days that a label takes; None for six hours on average.
        scores: P(score band | not ready) and P(score band | ready).
        alike: decisions of a cluster, which differ in nothing but their ids and label requests.
        a_day: decisions.
        days: simulated time.
        seed: of all draws.
    """

    shares: Floats
    gaps: dict[int, float] = field(default_factory=dict)
    fprs: dict[int, float] = field(default_factory=dict)
    gap_from: float = 0.0
    lost: tuple[Drawn, ...] = ()
    skips: tuple[Drawn, ...] = ()
    late: dict[int, float] = field(default_factory=dict)
    slow: tuple[float, float] | None = None
    scores: tuple[tuple[float, ...], tuple[float, ...]] = EXACT
    alike: int = 1
    a_day: int = 20_000
    days: int = 45
    seed: int = 0

    def world(self) -> World:
        """All events."""
        rng = np.random.default_rng([self.seed, 18])
        further = np.random.default_rng([self.seed, 19])
        drawn = self.days * self.a_day // self.alike
        at = START + np.sort(rng.integers(0, self.days * DAY, drawn))
        row = rng.choice(len(self.shares), drawn, p=self.shares / self.shares.sum())
        ready = rng.random(drawn) < READY
        day = (at - START) / DAY
        gap = np.array([self.gaps.get(one, 0.0) for one in range(len(self.shares))])
        tpr = TPR - gap[row] * (day >= self.gap_from)
        fprs = np.array([self.fprs.get(one, FPR) for one in range(len(self.shares))])
        fpr = np.where(day >= self.gap_from, fprs[row], FPR)
        auto = rng.random(drawn) < np.where(ready, tpr, fpr)
        band = self._bands(further, ready)
        of = np.repeat(np.arange(drawn), self.alike)
        at, row, day, ready, auto, band = at[of], row[of], day[of], ready[of], auto[of], band[of]
        size = len(at)
        rate = np.where(auto, AUDITED, FULLY)
        asked = rng.random(size) < np.array(AUDIT_RATES)[rate]
        long = further.random(size) < np.where(ready, LONG[True], LONG[False])
        draws = Draws(day, row, auto, ready, asked, rng.random(size), long)
        for skip in self.skips:
            asked = asked & ~skip(draws)
        come = asked & (rng.random(size) < USUAL_RESPONSE)
        for lost in self.lost:
            come = come & ~lost(draws)
        says = np.flatnonzero(come)
        extra = np.array([self.late.get(one, 0.0) for one in range(len(self.shares))])
        delay = self._delays(rng, len(says)) + extra[row[says]] * DAY
        said_at = at[says] + delay.astype(np.int64)
        order = np.argsort(said_at, kind="stable")
        names = tuple(f"s{one:02d}" for one in range(len(self.shares)))
        return World(
            seed=self.seed, shape=Shape((len(names),), self.days), attributes={"a": names},
            atoms=tuple((name,) for name in names), at=at, arrives=at + 1_000_000,
            atom=row.astype(np.int64), route=np.where(auto, AUTO, REVIEW),
            band=band, rate=rate, asked=asked.astype(np.int64),
            version=np.zeros(size, np.int64), says=says[order], said_at=said_at[order],
            labelled=np.ones(len(says), np.int64), ready=ready[says[order]].astype(np.int64),
        )  # fmt: skip

    def _delays(self, rng: np.random.Generator, labels: int) -> Floats:
        """Microseconds from a decision to its label."""
        if self.slow is None:
            return rng.exponential(USUAL_DELAY * HOUR, labels)
        return rng.uniform(*self.slow, labels) * DAY

    def _bands(self, rng: np.random.Generator, ready: npt.NDArray[np.bool_]) -> Ints:
        """The score band of each decision."""
        edges = np.cumsum(self.scores, axis=1)[ready.astype(np.int64), :-1]
        bands: Ints = (rng.random((len(ready), 1)) >= edges).sum(axis=1).astype(np.int64)
        return bands


def fleet(first: float, slices: int = 30) -> Floats:
    """Shares of traffic: the first slice has this much, the others the rest in equal parts."""
    return np.array([first, *([(1 - first) / (slices - 1)] * (slices - 1))])
