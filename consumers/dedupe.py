"""The same decision twice: recognised within a window of event time, in every stratum alike.

Removing only the duplicates that happen to be stored would bias the rates, since review is
stored and most of auto_serve is not; so the keys of all decisions are kept for the window.
"""

from __future__ import annotations

from collections import deque
from itertools import compress

import numpy as np
import numpy.typing as npt

from monitor.core.cells import Int64s
from monitor.core.time import MINUTE

_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: spreads neighbouring times


def duplicate_keys(ids: Int64s, ts: Int64s) -> Int64s:
    """One 64-bit key for (decision id, decided_at)."""
    return (ids.view(np.uint64) * _ODD + ts.view(np.uint64)).view(np.int64)


class DuplicateFilter:
    """Keys seen by one shard within the window.

    Args:
        window: microseconds of event time a key is remembered for after it arrived.
    """

    def __init__(self, window: int) -> None:
        self._minutes = window // MINUTE
        self._seen: set[int] = set()
        self._by_minute: deque[tuple[int, list[int]]] = deque()

    def restore(self, keys: Int64s, arrivals: Int64s) -> None:
        """Remember keys that arrived before a restart."""
        for minute in np.unique(arrivals).tolist():
            self._remember(minute, keys[arrivals == minute].tolist())

    def fresh(self, keys: Int64s, running: Int64s) -> tuple[npt.NDArray[np.bool_], Int64s]:
        """Which events are first copies, and the minute each arrived at; remembers them.

        Args:
            keys: of :func:`duplicate_keys`.
            running: the shard's running maximum of decided_at at each event, not decreasing.
        """
        minutes = running // MINUTE
        edges = np.append(np.flatnonzero(np.diff(minutes, prepend=-1)), len(keys))
        runs = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
        listed = keys.tolist()
        if len(set(listed)) == len(listed) and self._seen.isdisjoint(listed):
            # No key occurs twice: when the older ones are forgotten makes no difference.
            for start, end in runs:
                self._remember(int(minutes[start]), listed[start:end])
            if runs:
                self._forget(int(minutes[-1]))
            return np.ones(len(keys), np.bool_), minutes
        fresh = np.ones(len(keys), np.bool_)
        for start, end in runs:
            self._forget(int(minutes[start]))
            first = self._first_copies(listed[start:end])
            fresh[start:end] = first
            self._remember(int(minutes[start]), list(compress(listed[start:end], first)))
        return fresh, minutes

    def _first_copies(self, keys: list[int]) -> list[bool]:
        seen: set[int] = set()
        first = []
        for key in keys:
            first.append(key not in seen and key not in self._seen)
            seen.add(key)
        return first

    def _remember(self, minute: int, keys: list[int]) -> None:
        self._seen.update(keys)
        if self._by_minute and self._by_minute[-1][0] == minute:
            self._by_minute[-1][1].extend(keys)
        else:
            self._by_minute.append((minute, keys))

    def _forget(self, minute: int) -> None:
        while self._by_minute and self._by_minute[0][0] < minute - self._minutes:
            self._seen.difference_update(self._by_minute.popleft()[1])
