"""Clusters: decisions that depend on each other, because one sender makes many requests.

The bound on false pages needs to know how many decisions of a bet may depend on each other.

Where decisions name their ``unit``, the largest unit of each UTC day is counted. It is a property
of the requests, known without routes or labels, so a bet may be chosen by it (see
:meth:`monitor.detection.pages.mixture.SrMixture.bet`).

Where they do not, clusters show as repetition: decisions of one atom and one minute that have
exactly the same score. Let atom a have n_am decisions in minute m, n_a in all, and n_as with the
score s; pairs(n) = n (n - 1) / 2. If scores were dealt out to the decisions of an atom at random::

    E[pairs alike in a minute] = sum_s pairs(n_as) sum_m pairs(n_am) / pairs(n_a)

whatever the traffic and the scores are. So a router with few distinct scores is compared with
itself, and where most pairs of an atom are alike anyway, nothing is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Floats
from monitor.core.time import DAY

_UNIT_BITS = 32
_UNIT_MASK = (1 << _UNIT_BITS) - 1

TIMES_CHANCE = 4
"""Pairs alike in a minute, relative to chance, from which decisions count as repeated. Scores that
are used during a quarter of the day only, by a version say, stay at or below it."""
MAX_ALIKE = 1 / TIMES_CHANCE
"""Share of an atom's pairs with one score above which it is not tested: its ratio to chance is at
most 1 / share."""
MIN_TESTED = 200
"""Decisions below which a few repeated ones decide nothing."""
LARGER = 1.5
"""Size of the clusters, relative to the setting, from which a person is to look at it."""


@dataclass(frozen=True, slots=True)
class UnitSizes:
    """Decisions by UTC day and unit.

    A unit is 32 bits of a keyed hash of unit and day: two that share them count as one, so a size
    is rather too large than too small.

    Attributes:
        keys: day x 2^32 + unit, increasing.
        n: decisions of it.
    """

    keys: Int64s
    n: Int64s

    @classmethod
    def of(cls, units: Int64s, ts: Int64s) -> UnitSizes | None:
        """Count decisions; None where none has a unit.

        Args:
            units: keyed hash of the unit of each decision; 0 is none.
            ts: when it was decided, microseconds.
        """
        given = units != 0
        if not given.any():
            return None
        keys = (ts[given] // DAY << _UNIT_BITS) | (units[given] & _UNIT_MASK)
        return cls(*np.unique(keys, return_counts=True))

    @classmethod
    def merged(cls, parts: Sequence[UnitSizes]) -> UnitSizes:
        """All of several parts, at least one, added up."""
        keys, row_of = np.unique(np.concatenate([p.keys for p in parts]), return_inverse=True)
        n = np.zeros(len(keys), np.int64)
        np.add.at(n, row_of, np.concatenate([part.n for part in parts]))
        return cls(keys, n)

    def by_day(self) -> dict[int, UnitSizes]:
        """Apart by UTC day."""
        days = self.keys >> _UNIT_BITS
        starts = np.flatnonzero(np.append(True, days[1:] != days[:-1]))
        ends = np.append(starts[1:], len(days))
        return {
            int(days[start]): UnitSizes(self.keys[start:end], self.n[start:end])
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        }


@dataclass(frozen=True, slots=True)
class Repetition:
    """Pairs of decisions of one atom and minute with exactly the same score, of one UTC day.

    Attributes:
        day: days since 1970.
        tested: decisions that were compared.
        alike: pairs in the same minute.
        by_chance: pairs that were to be expected, rounded up.
    """

    day: int
    tested: int
    alike: int
    by_chance: int


@dataclass(frozen=True, slots=True)
class DayClusters:
    """Facts on clusters of one UTC day; integer sums but for their use.

    Attributes:
        named: decisions that named their unit.
        largest: decisions of the largest unit, at most; 0 where none was named.
        tested: decisions that were compared; see :class:`Repetition`.
        alike: pairs alike in a minute.
        by_chance: pairs to be expected.
    """

    named: int = 0
    largest: int = 0
    tested: int = 0
    alike: int = 0
    by_chance: int = 0

    def __add__(self, other: DayClusters) -> DayClusters:
        names = [field.name for field in fields(self)]
        return DayClusters(*(getattr(self, n) + getattr(other, n) for n in names))

    @classmethod
    def of(cls, found: Repetition) -> DayClusters:
        """Sums of one block of a shard."""
        return cls(tested=found.tested, alike=found.alike, by_chance=found.by_chance)

    @property
    def implied_size(self) -> float:
        """Design effect that the pairs alike beyond chance amount to, at least 1.

        If units of n_u decisions are alike, sum n_u^2 / sum n_u = 1 + 2 pairs / decisions.
        """
        if not self.tested:
            return 1.0
        return 1 + 2 * max(self.alike - self.by_chance, 0) / self.tested

    def repeats(self, cluster_size: int) -> bool:
        """Return True when clusters seem larger than the setting, by far more than chance."""
        return (
            self.tested >= MIN_TESTED
            and self.alike > TIMES_CHANCE * self.by_chance
            and self.implied_size >= LARGER * cluster_size
        )


def rounded_up(size: int) -> int:
    """The next power of two: what may be shown of the largest unit.

    Example:
        >>> [rounded_up(size) for size in (1, 2, 3, 50)]
        [1, 2, 4, 64]
    """
    return 1 << max(size - 1, 0).bit_length()


def find_repetition(day: int, atoms: Int64s, scores: Floats, minutes: Int64s) -> Repetition:
    """Compare the decisions of one day; columns of equal length, scores without NaN.

    Example:
        >>> three = np.array([0.1, 0.1, 0.2])
        >>> find_repetition(0, np.zeros(3, np.int64), three, np.array([5, 5, 9]))
        Repetition(day=0, tested=0, alike=0, by_chance=0)
    """
    _, atom = np.unique(atoms, return_inverse=True)
    _, minute = np.unique(minutes, return_inverse=True)
    _, score = np.unique(scores, return_inverse=True)
    span = 1 + max(int(minute.max(initial=0)), int(score.max(initial=0)))
    size = int(atom.max(initial=-1)) + 1

    def pairs(key: Int64s) -> Floats:
        """Pairs of equal keys, by the atom that a key begins with."""
        keys, n = np.unique(key, return_counts=True)
        found: Floats = np.bincount(keys // (span * span), n * (n - 1) / 2, size).astype(np.float64)
        return found

    base = atom * span * span
    every, same_minute = pairs(base), pairs(base + minute)
    same_score, both = pairs(base + score), pairs(base + score * span + minute)
    told = (same_score > 0) & (same_score <= MAX_ALIKE * every)
    chance = same_score[told] * same_minute[told] / every[told]
    quiet = same_score == 0
    return Repetition(
        day=day,
        tested=int(np.count_nonzero((told | quiet)[atom])),
        alike=int(both[told].sum()),
        by_chance=int(np.ceil(chance.sum())),
    )
