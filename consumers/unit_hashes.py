"""Hashes of units by day; those of the last days are kept, since most units decide again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consumers.dead_letters import IdHasher
from monitor.core.counts.cells import Int64s
from monitor.core.time import DAY

MAX_UNITS = 65_536
"""Most units in memory per day and id key: about 12 MB; then they are forgotten."""
_MAX_GROUPS = 3
_MOST_KEYS = 1 << 16  # most id keys ever


class _HashesOfDay(dict[str, int]):
    """Hashes of units by text, for one day and id key, each computed when first asked for."""

    def __init__(self, hasher: IdHasher, day: int, number: int) -> None:
        super().__init__({"": 0})
        self._hasher, self._number = hasher, number
        self._prefix = f"unit {day} "

    def __missing__(self, unit: str) -> int:
        hashed = self[unit] = self._hasher.hash_with(self._prefix + unit, self._number)
        return hashed


class UnitHasher:
    """Hasher of units by day, whose hashes differ from ids of the same text; the empty unit is 0.

    Args:
        hasher: hasher of the texts.
    """

    def __init__(self, hasher: IdHasher) -> None:
        self._hasher = hasher
        self._known: dict[int, _HashesOfDay] = {}

    def __call__(self, units: Sequence[str], ts: Int64s) -> Int64s:
        """Return each unit's hash, by the day and id key of its decided_at (microseconds)."""
        hashes = np.empty(len(units), np.int64)
        groups = ts // DAY * _MOST_KEYS + self._hasher.numbers(ts)
        for group in np.unique(groups).tolist():
            rows = np.flatnonzero(groups == group)
            group_units = (
                units if len(rows) == len(units) else [units[row] for row in rows.tolist()]
            )
            hash_of = self._remembered(group).__getitem__
            hashes[rows] = np.fromiter(map(hash_of, group_units), np.int64, len(rows))
        return hashes

    def _remembered(self, group: int) -> _HashesOfDay:
        if group not in self._known and len(self._known) >= _MAX_GROUPS:
            self._known.clear()
        if len(self._known.get(group, ())) > MAX_UNITS:
            del self._known[group]
        day, number = divmod(group, _MOST_KEYS)
        return self._known.setdefault(group, _HashesOfDay(self._hasher, day, number))
