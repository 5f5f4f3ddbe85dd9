"""Clusters: decisions that depend on each other, because one sender makes many requests.

The bound on false pages depends on how many decisions of a bet may depend on each other.

If decisions name their ``unit``, the largest unit of each UTC day is counted. It is a property
of the requests, known without routes or labels, so a bet may be chosen by it (see
:meth:`monitor.detection.pages.mixture.SrMixture.bet`).

Otherwise clusters show as repetition: decisions of one atom and one minute with exactly the same
score. Let atom a have n_am decisions in minute m, n_a in all, and n_as with the score s;
pairs(n) = n (n - 1) / 2. If scores were dealt out to the decisions of an atom at random::

    E[pairs alike in a minute] = sum_s pairs(n_as) sum_m pairs(n_am) / pairs(n_a)

for any traffic and scores. So a router with few distinct scores is compared with itself. Atoms
whose pairs are mostly alike are not tested.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from operator import add, sub
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s, atom_text, content_id, parse_atom
from monitor.core.intervals import Floats
from monitor.core.time import DAY

Where = tuple[tuple[str, str], ...]
"""Attribute values that decide which decisions belong to a use case."""

_UNIT_BITS = 32
_UNIT_MASK = (1 << _UNIT_BITS) - 1
_POPULATION_BITS = 15
_POPULATION_MASK = (1 << _POPULATION_BITS) - 1

TIMES_CHANCE = 4
"""Pairs alike in a minute, relative to chance, above which decisions count as repeated. Scores that
occur only during a quarter of the day, such as those of one version, do not exceed it."""
MAX_ALIKE = 1 / TIMES_CHANCE
"""Share of an atom's pairs with one score above which the atom is not tested, because its ratio to
chance is at most 1 / share."""
MIN_TESTED = 200
"""Fewest tested decisions; with fewer, a few repetitions decide nothing."""
LARGER = 1.5
"""Size of the clusters, relative to the setting, from which a person must look at it."""


class UnitGroup(NamedTuple):
    """UTC day (since 1970) and population whose units are counted together.

    A population is a use case's; 0 is of decisions outside of all use cases.
    """

    day: int
    population: int


def population_id(where: Where) -> int:
    """Return the number (1 to 2^15 - 1) of the decisions that a use case's ``where`` selects.

    It does not change with other settings. Two use cases share a number once in 32,767 times; then
    they share their measured clusters.
    """
    return 1 + content_id(atom_text(dict(where))) % _POPULATION_MASK


def population_of(atom: str, use_cases: Iterable[Where]) -> int:
    """Return the population of the use case that an atom (its text) is in; 0 outside of all."""
    pairs = parse_atom(atom).items()
    return next((population_id(where) for where in use_cases if pairs >= set(where)), 0)


def units_in_populations(hashes: Int64s, populations: Int64s) -> Int64s:
    """Return the unit of each decision with its population, as :class:`UnitSizes` counts them.

    Args:
        hashes: keyed hash of unit and day; 0 without a unit, and so is the result.
        populations: number of the population of each decision.
    """
    units = (populations << _UNIT_BITS) | (hashes & _UNIT_MASK)
    return np.where(hashes == 0, 0, units)


@dataclass(frozen=True, slots=True)
class UnitSizes:
    """Decision counts by UTC day, population and unit.

    A unit is 32 bits of a keyed hash of unit and day. Units with equal bits count as one, so sizes
    err towards too large.

    Attributes:
        table: a column for each unit, shape (3, units): its key (day, population and unit, packed
            into one number; increasing), its decisions, and how many of them were served.
    """

    table: Int64s

    @classmethod
    def from_decisions(
        cls, units: Int64s, ts: Int64s, served: npt.NDArray[np.bool_]
    ) -> UnitSizes | None:
        """Count decisions by UTC day and unit; return None if no decision has a unit.

        Args:
            units: unit of each decision, as :func:`units_in_populations` codes it; 0 without one.
            ts: decided_at of each decision, microseconds.
            served: which decisions are on auto_serve.
        """
        keys = ts // DAY << (_UNIT_BITS + _POPULATION_BITS) | units
        decisions = np.array([keys, np.ones_like(keys), served])[:, units != 0]
        return cls.merged([cls(decisions)]) if decisions.size else None

    @classmethod
    def merged(cls, parts: Sequence[UnitSizes]) -> UnitSizes:
        """Return the sum of several parts by day and unit; at least one part is needed."""
        rows, *numbers = np.hstack([part.table for part in parts])
        keys, row_of = np.unique(rows, return_inverse=True)
        table = np.stack([keys, *np.zeros((2, len(keys)), np.int64)])
        for sums, added in zip(table[1:], numbers, strict=True):
            np.add.at(sums, row_of, added)
        return cls(table)

    def by_group(self) -> dict[UnitGroup, UnitSizes]:
        """Return the sizes of each UTC day and population."""
        groups, starts = np.unique(self.table[0] >> _UNIT_BITS, return_index=True)
        parts = map(UnitSizes, np.split(self.table, starts[1:], axis=1))
        days, populations = groups >> _POPULATION_BITS, groups & _POPULATION_MASK
        return dict(zip(map(UnitGroup, days.tolist(), populations.tolist()), parts, strict=True))

    @property
    def sums(self) -> DayClusters:
        """Return the sums over all units, and the largest one; at least one unit."""
        numbers = self.table[1:]
        (named, served), largest = numbers.sum(axis=1).tolist(), int(numbers[0].max())
        (size_squares, mixed), (_, squares) = (numbers @ numbers.T).tolist()
        return DayClusters(named, largest, served, size_squares, mixed, squares)


@dataclass(frozen=True, slots=True)
class Repetition:
    """Numbers of pairs of decisions with equal atom, minute and score within one UTC day.

    Attributes:
        day: days since 1970.
        tested: number of compared decisions.
        alike: number of pairs with the same score in the same minute.
        by_chance: number of pairs expected by chance, rounded up.
    """

    day: int
    tested: int
    alike: int
    by_chance: int


@dataclass(frozen=True, slots=True)
class DayClusters:
    """Sums of one UTC day that show how large clusters are: units and repeated scores.

    Of a unit u, n_u is the number of decisions and s_u that on auto_serve.

    Attributes:
        named: number of decisions that named their unit, sum n_u.
        largest: upper bound on the decisions of the largest unit; 0 without units.
        served: sum s_u.
        size_squares: sum n_u^2.
        size_times_served: sum n_u s_u.
        served_squares: sum s_u^2.
        tested: number of compared decisions; see :class:`Repetition`.
        alike: number of pairs alike in a minute.
        by_chance: number of pairs expected by chance.
    """

    named: int = 0
    largest: int = 0
    served: int = 0
    size_squares: int = 0
    size_times_served: int = 0
    served_squares: int = 0
    tested: int = 0
    alike: int = 0
    by_chance: int = 0

    def __add__(self, other: DayClusters) -> DayClusters:
        return DayClusters(*map(add, astuple(self), astuple(other)))

    def __sub__(self, other: DayClusters) -> DayClusters:
        return DayClusters(*map(sub, astuple(self), astuple(other)))

    @classmethod
    def from_repetition(cls, repetition: Repetition) -> DayClusters:
        """Return the sums that one repetition contributes; its units are 0."""
        return cls(tested=repetition.tested, alike=repetition.alike, by_chance=repetition.by_chance)

    @property
    def implied_size(self) -> float:
        """Cluster size that pairs alike beyond chance imply (a design effect), at least 1.

        If units of n_u decisions are alike, sum n_u^2 / sum n_u = 1 + 2 pairs / decisions.
        """
        if not self.tested:
            return 1.0
        return 1 + 2 * max(self.alike - self.by_chance, 0) / self.tested

    def repeats(self, cluster_size: int) -> bool:
        """Return True when repeated scores imply clusters well above ``cluster_size``."""
        return (
            self.tested >= MIN_TESTED
            and self.alike > TIMES_CHANCE * self.by_chance
            and self.implied_size >= LARGER * cluster_size
        )


def rounded_up(size: int) -> int:
    """Return the smallest power of two not below ``size``; the largest unit is shown like this.

    Example:
        >>> [rounded_up(size) for size in (1, 2, 3, 50)]
        [1, 2, 4, 64]
    """
    return 1 << max(size - 1, 0).bit_length()


def find_repetition(day: int, atoms: Int64s, scores: Floats, minutes: Int64s) -> Repetition:
    """Count a day's decision pairs with equal atom, minute and score, and those expected by chance.

    Columns have one item per decision; scores are not NaN.

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
        """Return the number of pairs of equal keys, by the atom that begins the key."""
        keys, n = np.unique(key, return_counts=True)
        pair_counts: Floats = np.bincount(keys // (span * span), n * (n - 1) / 2, size).astype(
            np.float64
        )
        return pair_counts

    base = atom * span * span
    all_pairs, same_minute = pairs(base), pairs(base + minute)
    same_score, same_both = pairs(base + score), pairs(base + score * span + minute)
    testable = (same_score > 0) & (same_score <= MAX_ALIKE * all_pairs)
    chance = same_score[testable] * same_minute[testable] / all_pairs[testable]
    quiet = same_score == 0
    return Repetition(
        day=day,
        tested=int(np.count_nonzero((testable | quiet)[atom])),
        alike=int(same_both[testable].sum()),
        by_chance=int(np.ceil(chance.sum())),
    )
