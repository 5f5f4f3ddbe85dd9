"""Recent decisions of a shard, for counting those that repeat each other.

A block has what one worker reads of one UTC day; it is compared when the next day begins. It is
only in memory: after a restart a block begins anew, and earlier decisions are not compared.
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
"""Most decisions per block. Beyond it, only those stay whose atom and score have a hash in an ever
smaller range: all copies of one request, or none."""

_MOST_HALVINGS = 48
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd: the upper bits of a product depend on all below them

Rows = tuple[Int64s, Floats, Int64s]
"""Atom, score, and time (microseconds)."""


@dataclass(slots=True)
class RepetitionBlock:
    """Decisions of one UTC day of a shard, collected to count those that repeat each other.

    Attributes:
        day: days since 1970; None before the first decision.
        halvings: number of times that the range of hashes was halved.
    """

    day: int | None = None
    halvings: int = 0
    _rows: list[Rows] = field(default_factory=list)
    _size: int = 0

    def add(self, atoms: Int64s, scores: Floats, ts: Int64s) -> list[Repetition]:
        """Add decisions (atom, score, time); return the repetition within each day that has ended.

        Args:
            atoms: number of the atom, the same for equal ones.
            scores: scores of the judge; NaN is none, and is not compared.
            ts: decided_at, microseconds.
        """
        ended_days: list[Repetition] = []
        days = ts // DAY
        for day in np.unique(days).tolist():
            if self.day is None or day > self.day:
                ended_days += self._end()
                self.day = day
            if day == self.day:  # decisions of a day that has ended are not compared
                self._keep(*(column[days == day] for column in (atoms, scores, ts)))
        return ended_days

    def _end(self) -> list[Repetition]:
        """Empty the block; return what it tells of repeated requests, if it could be tested."""
        rows, day = self._rows, self.day
        self._rows, self._size, self.halvings = [], 0, 0
        if day is None or not rows:
            return []
        atoms, scores, ts = _joined(rows)
        repetition = find_repetition(day, atoms, scores, ts // MINUTE)
        return [repetition] if repetition.tested else []

    def _keep(self, atoms: Int64s, scores: Floats, ts: Int64s) -> None:
        """Keep decisions that have a score; beyond MAX_ROWS, halve the sample."""
        comparable = ~np.isnan(scores) & _in_sample(atoms, scores, self.halvings)
        self._rows.append((atoms[comparable], scores[comparable], ts[comparable]))
        self._size += int(np.count_nonzero(comparable))
        while self._size > MAX_ROWS and self.halvings < _MOST_HALVINGS:
            self.halvings += 1
            joined = _joined(self._rows)
            sampled = _in_sample(joined[0], joined[1], self.halvings)
            self._rows = [(joined[0][sampled], joined[1][sampled], joined[2][sampled])]
            self._size = int(np.count_nonzero(sampled))


def _in_sample(atoms: Int64s, scores: Floats, halvings: int) -> Bools:
    """Return a mask of rows whose atom and score hash into the first 1/2^``halvings`` of hashes."""
    if not halvings:
        return np.ones(len(atoms), np.bool_)
    words = (scores + 0.0).view(np.uint64) * _MIX ^ atoms.astype(np.uint64)
    words = (words ^ (words >> np.uint64(31))) * _MIX
    sampled: Bools = words >> np.uint64(64 - halvings) == 0
    return sampled


def _joined(rows: list[Rows]) -> Rows:
    atoms, scores, ts = zip(*rows, strict=True)
    return np.concatenate(atoms), np.concatenate(scores), np.concatenate(ts)
