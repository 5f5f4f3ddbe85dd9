"""Hashes of units by day; they are remembered while most units of a day decide again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consumers.dead_letters import IdHasher, KeyedHash, hash_texts
from monitor.core.counts.cells import Int64s
from monitor.core.time import DAY

MAX_UNITS = 65_536
"""Most units in memory per day and id key: about 12 MB; then they are forgotten."""
_WORTHWHILE = 0.5
"""Least share of decisions whose unit is in memory: to remember a new one costs half a hash."""
_MAX_GROUPS = 3
_MOST_KEYS = 1 << 16  # most id keys ever


class _HashesOfDay:
    """Hashes of units of one day under one id key.

    Args:
        keyed: hash that has taken in what comes before the unit.
    """

    def __init__(self, keyed: KeyedHash) -> None:
        self._keyed = keyed
        self._remembers = True
        self._forget()

    def _forget(self) -> None:
        self._hashes = {"": 0}
        self._decisions = 0

    def hashes(self, units: Sequence[str]) -> Int64s:
        """Return each unit's hash; 0 for the empty unit."""
        if self._remembers:
            return self._remembered(units)
        hashes = hash_texts(self._keyed, units)
        if "" in units:
            hashes[[not unit for unit in units]] = 0
        return hashes

    def _remembered(self, units: Sequence[str]) -> Int64s:
        new_units = [unit for unit in set(units) if unit not in self._hashes]
        new_hashes = hash_texts(self._keyed, new_units).tolist()
        self._hashes.update(zip(new_units, new_hashes, strict=True))
        self._decisions += len(units)
        hashes = np.fromiter(map(self._hashes.__getitem__, units), np.int64, len(units))
        if len(self._hashes) > MAX_UNITS:
            # As many are new each time that the memory fills, so this share is what will be.
            self._remembers = len(self._hashes) < (1 - _WORTHWHILE) * self._decisions
            self._forget()
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
            group_units = (
                units if len(rows) == len(units) else [units[row] for row in rows.tolist()]
            )
            hashes[rows] = self._of_group(group).hashes(group_units)
        return hashes

    def _of_group(self, group: int) -> _HashesOfDay:
        if group not in self._days:
            if len(self._days) >= _MAX_GROUPS:
                self._days.clear()
            day, number = divmod(group, _MOST_KEYS)
            self._days[group] = _HashesOfDay(self._hasher.keyed(number, f"unit {day} "))
        return self._days[group]
