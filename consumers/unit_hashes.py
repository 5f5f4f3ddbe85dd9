"""Hashes of units by day; they are remembered while most units of a day decide again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consumers.dead_letters import IdHasher, KeyedHash, hash_texts
from monitor.core.counts.cells import Int64s
from monitor.core.time import DAY

MAX_UNITS = 65_536
"""Most units in memory per day and id key: about 12 MB; then they are forgotten."""
_MAX_GROUPS = 3
_MOST_KEYS = 1 << 16  # most id keys ever


def texts_at(texts: Sequence[str], rows: Int64s) -> Sequence[str]:
    """Return the texts at these rows, in the rows' order; all texts if the numbers are equal."""
    return texts if len(rows) == len(texts) else [texts[row] for row in rows.tolist()]


class _HashesOfDay:
    """Hashes of units of one day under one id key.

    Args:
        keyed: hash that has taken in what comes before the unit.
    """

    def __init__(self, keyed: KeyedHash) -> None:
        self._keyed, self._remembers = keyed, True
        self._hashes, self._decisions = {"": 0}, 0

    def hashes(self, units: Sequence[str]) -> Int64s:
        """Return each unit's hash; 0 for the empty unit."""
        if self._remembers:
            return self._remembered(units)
        hashes = hash_texts(self._keyed, units)
        if "" in units:
            hashes[[not unit for unit in units]] = 0
        return hashes

    def _remembered(self, units: Sequence[str]) -> Int64s:
        """Return the hashes of units, from memory where known; forget all if there are too many."""
        new_units = [unit for unit in set(units) if unit not in self._hashes]
        new_hashes = hash_texts(self._keyed, new_units).tolist()
        self._hashes.update(zip(new_units, new_hashes, strict=True))
        self._decisions += len(units)
        hashes = np.fromiter(map(self._hashes.__getitem__, units), np.int64, len(units))
        if len(self._hashes) > MAX_UNITS:
            # The share of new ones stays, and to remember one costs half a hash.
            self._remembers = 2 * len(self._hashes) < self._decisions
            self._hashes, self._decisions = {"": 0}, 0
        return hashes


class UnitHasher:
    """Hasher of units by day, whose hashes differ from ids of the same text; the empty unit is 0.

    Args:
        hasher: hasher of the texts.
    """

    def __init__(self, hasher: IdHasher) -> None:
        self._hasher = hasher
        self._days: dict[int, _HashesOfDay] = {}

    def __call__(self, units: Sequence[str], ts: Int64s) -> Int64s:
        """Return each unit's hash, by the day and id key of its decided_at (microseconds)."""
        hashes = np.empty(len(units), np.int64)
        groups = ts // DAY * _MOST_KEYS + self._hasher.numbers(ts)
        for group in np.unique(groups).tolist():
            rows = np.flatnonzero(groups == group)
            hashes[rows] = self._of_group(group).hashes(texts_at(units, rows))
        return hashes

    def _of_group(self, group: int) -> _HashesOfDay:
        """Return the memory of hashes for one key and day, made if absent."""
        if group not in self._days:
            if len(self._days) >= _MAX_GROUPS:
                self._days.clear()
            day, number = divmod(group, _MOST_KEYS)
            self._days[group] = _HashesOfDay(self._hasher.keyed(number, f"unit {day} "))
        return self._days[group]
