"""Dominance: whether most decisions of a cell are of one unit (a customer, a conversation), or two.

Decisions name their unit if the router sends it. No unit is kept: each is counted in one of
``BUCKETS`` buckets by a keyed hash of it and the UTC day, twice over by independent hashings (a
count-min sketch, Cormode and Muthukrishnan 2005). The counts are integer sums, so batches, shards,
atoms and panes merge by addition, and no order of them matters.

A bucket holds at least what each unit in it has. So the fullest bucket, the smaller one of both
hashings, bounds the greatest unit from above, and the two fullest the two greatest: a cell is
rather hidden than shown. Two that share a bucket by day do so by chance, and on no other day.

The bounds add up over days: if a unit has n_d decisions on day d, then n_d <= top_d, hence sum n_d
<= sum top_d; so do those of any two units and the two fullest. The key that ids are hashed with
changes between two days, so no bound is broken by it.

A union of cells without dominance has none: if every unit has at most half of each cell, n_c(u) <=
N_c / 2, then sum_c n_c(u) <= sum_c N_c / 2; and if any two units have at most 4/5 of each cell, in
particular the two that are the greatest of the union have at most 4/5 of it. So a window, which is
a union of blocks, needs no check of its own, nor does a complement or a difference of two windows.

Decisions without a unit count in the cell and are taken to be of a unit each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.time import DAY

HASHINGS, BUCKETS = 2, 32
"""Of three equal units, two fall into one bucket in both hashings on 1 day of 120: then a cell that
could be shown waits. More buckets would cost more rows than that is worth."""

UNIT_COUNTS = HASHINGS * BUCKETS

_DAY_FACTOR = np.uint64(0xC2B2AE3D27D4EB4F)
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd: the upper bits of a product depend on all below them
_BITS = np.uint64(BUCKETS.bit_length() - 1)
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """Buckets that are not empty, of a table with ``UNIT_COUNTS`` of them a row.

    Attributes:
        places: row x ``UNIT_COUNTS`` + bucket; one may occur again, then both count.
        n: decisions in it.
    """

    places: Int64s
    n: Int64s

    @classmethod
    def of(cls, rows: Int64s, units: Int64s, ts: Int64s) -> UnitCounts | None:
        """Count decisions by row and bucket; None where none has a unit.

        Args:
            rows: row of each decision.
            units: keyed hash of its unit; 0 is none.
            ts: when it was decided, microseconds.
        """
        given = units != 0
        if not given.any():
            return None
        places = rows[given, None] * UNIT_COUNTS + _buckets(units[given], ts[given])
        return cls(*np.unique(places, return_counts=True))

    @property
    def rows(self) -> Int64s:
        """Row of each bucket."""
        return self.places // UNIT_COUNTS

    def moved(self, to: Int64s) -> UnitCounts:
        """The same with other rows: ``to[i]`` is the new one of each bucket."""
        return UnitCounts(to * UNIT_COUNTS + self.places % UNIT_COUNTS, self.n)

    def table(self, rows: int) -> Int64s:
        """All buckets of this many rows, shape (rows, UNIT_COUNTS)."""
        counts = np.zeros(rows * UNIT_COUNTS, np.int64)
        np.add.at(counts, self.places, self.n)
        return counts.reshape(rows, UNIT_COUNTS)


def _buckets(units: Int64s, ts: Int64s) -> Int64s:
    """The bucket of each unit in each hashing, shape (n, HASHINGS)."""
    days = (ts // DAY).astype(np.uint64) * _DAY_FACTOR
    mixed = (units.astype(np.uint64) ^ days) * _MIX
    shifts = np.uint64(64) - _BITS * np.arange(1, HASHINGS + 1, dtype=np.uint64)
    buckets = (mixed[:, None] >> shifts) & np.uint64(BUCKETS - 1)
    return buckets.astype(np.int64) + np.arange(HASHINGS) * BUCKETS


@dataclass(frozen=True, slots=True)
class UnitTally:
    """Unit counts of a run of panes, by row of a family.

    Attributes:
        days: by UTC day, shape (S, UNIT_COUNTS); a day without units is absent.
    """

    days: Mapping[int, Int64s] = field(default_factory=dict)

    def __add__(self, other: UnitTally) -> UnitTally:
        if not (self.days and other.days):
            return self if self.days else other
        days = dict(self.days)
        for day, counts in other.days.items():
            days[day] = days[day] + counts if day in days else counts
        return UnitTally(days)

    def dominated(self, decisions: Int64s) -> Bools:
        """Rows of which one unit may have more than half, or two more than four fifths.

        Args:
            decisions: of each row, those without a unit too.
        """
        one, two = np.zeros_like(decisions), np.zeros_like(decisions)
        for counts in self.days.values():
            by_hashing = counts.reshape(len(counts), HASHINGS, BUCKETS)
            fullest = np.partition(by_hashing, BUCKETS - 2, axis=2)[:, :, -2:]
            one += fullest[:, :, 1].min(axis=1)
            two += fullest.sum(axis=2).min(axis=1)
        return (2 * one > decisions) | (5 * two > 4 * decisions)

    def added_up(self, rows: Sequence[int]) -> UnitTally:
        """These rows as one."""
        return UnitTally({day: n[rows].sum(axis=0, keepdims=True) for day, n in self.days.items()})


def shared_rows(units: UnitTally, decisions: Int64s, rest: int) -> list[int]:
    """The rows that can be shown by themselves, if all others join the row ``rest``.

    Those are the rows without dominance but ``rest``; and of them the smallest join too, until what
    is joined has none, or nothing is left.

    Args:
        units: of each row.
        decisions: of each row.
        rest: the row that takes others in.
    """
    alone = np.flatnonzero(~units.dominated(decisions) & (np.arange(len(decisions)) != rest))
    kept = sorted(alone.tolist(), key=lambda row: (-decisions[row], row))
    while kept:
        joined = sorted({*range(len(decisions))} - {*kept})
        if not units.added_up(joined).dominated(decisions[joined].sum(keepdims=True)).any():
            break
        kept.pop()
    return sorted(kept)
