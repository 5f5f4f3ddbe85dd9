"""Hashes of units by day; those of the last days are kept, since most units decide again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consumers.dead_letters import IdHasher
from monitor.core.counts.cells import Int64s
from monitor.core.time import DAY

MAX_UNITS = 65_536
"""Units that are remembered, of a day and an id key: some 12 MB; then it begins anew."""
_MAX_GROUPS = 3
_MOST_KEYS = 1 << 16  # of all time


class UnitHasher:
    """Hashes units with their day, unlike ids that read the same; the empty unit is none, and 0.

    Args:
        hasher: of the texts.
    """

    def __init__(self, hasher: IdHasher) -> None:
        self._hasher = hasher
        self._known: dict[int, dict[str, int]] = {}

    def __call__(self, units: Sequence[str], ts: Int64s) -> Int64s:
        """Hash each unit with the day and the id key of its decided_at (microseconds)."""
        hashes = np.empty(len(units), np.int64)
        days, numbers = ts // DAY, self._hasher.numbers(ts)
        groups = days * _MOST_KEYS + numbers
        for group in np.unique(groups).tolist():
            rows = np.flatnonzero(groups == group)
            chosen = units if len(rows) == len(units) else [units[row] for row in rows.tolist()]
            hashes[rows] = self._of_day(chosen, group, ts[rows[0]])
        return hashes

    def _of_day(self, units: Sequence[str], group: int, at: np.int64) -> list[int]:
        known = self._remembered(group)
        hashes = list(map(known.get, units))
        new = list({unit for unit, one in zip(units, hashes, strict=True) if one is None})
        if new:
            texts = (f"unit {at // DAY} {unit}" for unit in new)
            hashed = self._hasher(texts, np.full(len(new), at)).tolist()
            known.update(zip(new, hashed, strict=True))
        return [known[u] if one is None else one for u, one in zip(units, hashes, strict=True)]

    def _remembered(self, group: int) -> dict[str, int]:
        if group not in self._known and len(self._known) >= _MAX_GROUPS:
            self._known.clear()
        if len(self._known.get(group, ())) > MAX_UNITS:
            del self._known[group]
        return self._known.setdefault(group, {"": 0})
