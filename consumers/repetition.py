"""The recent decisions of a shard, until it is known how many are repetitions of each other.

A block is what one worker reads of one UTC day; it is compared when the next day begins. It is only
in memory: after a restart a block begins anew, and what was read before is not compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.counts.clusters import Repetition, find_repetition
from monitor.core.counts.labels import Bools
from monitor.core.intervals import Floats
from monitor.core.time import DAY, MINUTE

MAX_ROWS = 16_384
"""Decisions that are kept of a block. Of more, only those are kept whose atom and score have a
hash in an ever smaller range: all copies of one request, or none."""

_MOST_HALVINGS = 48
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd: the upper bits of a product depend on all below them

Rows = tuple[Int64s, Floats, Int64s]
"""Atom, score, and time (microseconds)."""


@dataclass(slots=True)
class RepetitionBlock:
    """Decisions of one UTC day of a shard.

    Attributes:
        day: days since 1970; None before the first decision.
        halvings: how often the range of hashes was halved.
    """

    day: int | None = None
    halvings: int = 0
    _rows: list[Rows] = field(default_factory=list)
    _size: int = 0

    def add(self, atoms: Int64s, scores: Floats, ts: Int64s) -> list[Repetition]:
        """Take decisions in; returns the days that have ended with them.

        Args:
            atoms: number of the atom, the same for equal ones.
            scores: NaN is none, and nothing to compare.
            ts: when it was decided, microseconds.
        """
        found: list[Repetition] = []
        days = ts // DAY
        for day in np.unique(days).tolist():
            if self.day is None or day > self.day:
                found += self._end()
                self.day = day
            if day == self.day:  # decisions of a day that has ended are not compared
                self._keep(*(column[days == day] for column in (atoms, scores, ts)))
        return found

    def _end(self) -> list[Repetition]:
        rows, day = self._rows, self.day
        self._rows, self._size, self.halvings = [], 0, 0
        if day is None or not rows:
            return []
        atoms, scores, ts = _joined(rows)
        found = find_repetition(day, atoms, scores, ts // MINUTE)
        return [found] if found.tested else []

    def _keep(self, atoms: Int64s, scores: Floats, ts: Int64s) -> None:
        given = ~np.isnan(scores) & _sampled(atoms, scores, self.halvings)
        self._rows.append((atoms[given], scores[given], ts[given]))
        self._size += int(np.count_nonzero(given))
        while self._size > MAX_ROWS and self.halvings < _MOST_HALVINGS:
            self.halvings += 1
            kept = _joined(self._rows)
            sampled = _sampled(kept[0], kept[1], self.halvings)
            self._rows = [(kept[0][sampled], kept[1][sampled], kept[2][sampled])]
            self._size = int(np.count_nonzero(sampled))


def _sampled(atoms: Int64s, scores: Floats, halvings: int) -> Bools:
    """Mask of the rows whose atom and score have a hash in the first part of the range."""
    if not halvings:
        return np.ones(len(atoms), np.bool_)
    words = (scores + 0.0).view(np.uint64) * _MIX ^ atoms.astype(np.uint64)
    words = (words ^ (words >> np.uint64(31))) * _MIX
    sampled: Bools = words >> np.uint64(64 - halvings) == 0
    return sampled


def _joined(rows: list[Rows]) -> Rows:
    atoms, scores, ts = zip(*rows, strict=True)
    return np.concatenate(atoms), np.concatenate(scores), np.concatenate(ts)
