"""Sorted 64-bit keys with the minute each arrived at, made to be searched by whole batches.

Nearly every key that is looked up is not there. A bitmap says so of three in four of them; where
the others would lie, an index by their upper bits knows to within a few keys. Both expect keys that
are spread evenly, as hashes are; others are found more slowly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s

BYTES_PER_KEY = 10
"""Most that a remembered key takes, where there are many: itself 8, its minute 1, bitmap and
index 3/4, and its share of what is past the window and not deleted yet."""

_Halves = npt.NDArray[np.uint64]
_Offsets = npt.NDArray[np.unsignedinteger]
_BITS_PER_KEY = 4
_KEYS_PER_ENTRY = 8
_SIGN = np.uint64(1 << 63)
_HALF = np.uint64(32)


def upper_halves(keys: Int64s) -> _Halves:
    """The upper 32 bits of each key, as unsigned numbers in the order of the keys."""
    return (keys.view(np.uint64) ^ _SIGN) >> _HALF


@dataclass(frozen=True, slots=True)
class KeyRun:
    """Sorted keys, at least one; equal ones in order of arrival.

    Attributes:
        keys: the keys.
        offsets: minute of arrival of each, after ``start``.
        start: the minute that offsets count from.
        bitmap: the bit of every key is set; sorted keys have theirs in the same order.
        shifts: by how much the keys of an entry of the index begin later than they would if every
            entry had the same number of keys.
        steps: of a binary search within the largest entry.
    """

    keys: Int64s
    offsets: _Offsets
    start: int
    bitmap: npt.NDArray[np.uint8]
    shifts: npt.NDArray[np.signedinteger]
    steps: int

    @staticmethod
    def of(keys: Int64s, offsets: _Offsets, start: int) -> KeyRun:
        """Sorted keys, made ready to be searched."""
        upper, entries = upper_halves(keys), _entries(len(keys))
        bits = np.zeros(-(-len(keys) * _BITS_PER_KEY // 8) * 8, np.bool_)
        bits[_places(upper, len(bits))] = True
        sizes = np.bincount(_places(upper, entries), minlength=entries)
        begins = np.append(0, np.cumsum(sizes))
        shifts = begins - np.arange(entries + 1) * _KEYS_PER_ENTRY
        return KeyRun(
            keys,
            offsets,
            start,
            np.packbits(bits, bitorder="little"),
            shifts.astype(_smallest_type(shifts)),
            int(sizes.max()).bit_length(),
        )

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return sum(a.nbytes for a in (self.keys, self.offsets, self.bitmap, self.shifts))

    def look_up(self, keys: Int64s, upper: _Halves, arrived: Int64s) -> None:
        """Raise ``arrived`` to the minute at which the newest copy of each key arrived here.

        Args:
            keys: sorted, which is faster.
            upper: of :func:`upper_halves`.
            arrived: what is known of each key; unchanged where this run does not have it.
        """
        places = _places(upper, len(self.bitmap) * 8)
        bits = self.bitmap[places >> 3] >> (places & 7).astype(np.uint8)
        rows = np.flatnonzero(bits & 1)
        found = self._last_up_to(keys[rows], upper[rows])
        hit = self.keys[found] == keys[rows]  # -1 is the last key: it is none of these
        rows, found = rows[hit], found[hit]
        arrived[rows] = np.maximum(arrived[rows], self._minutes(found))

    def arrived_since(self, minute: int) -> KeyRun | None:
        """Keys that arrived at a minute or later; None when none did."""
        kept = self.offsets >= minute - self.start
        if kept.all():
            return self
        return KeyRun.of(self.keys[kept], self.offsets[kept], self.start) if kept.any() else None

    def merged(self, newer: KeyRun) -> KeyRun:
        """This run and one with the same start whose keys came later."""
        places = np.searchsorted(self.keys, newer.keys, "right") + np.arange(len(newer.keys))
        old = np.ones(len(self.keys) + len(newer.keys), np.bool_)
        old[places] = False
        keys, offsets = np.empty(len(old), np.int64), np.empty(len(old), self.offsets.dtype)
        keys[places], keys[old] = newer.keys, self.keys
        offsets[places], offsets[old] = newer.offsets, self.offsets
        return KeyRun.of(keys, offsets, self.start)

    def _minutes(self, rows: Int64s) -> Int64s:
        return self.offsets[rows].astype(np.int64) + self.start

    def _last_up_to(self, wanted: Int64s, upper: _Halves) -> Int64s:
        """Index of the last key that is not greater; -1 where all are. One binary search for all.

        ``searchsorted`` goes over the whole run for each of them, and misses the cache each time.
        """
        entry = _places(upper, _entries(len(self.keys)))
        low = entry * _KEYS_PER_ENTRY + self.shifts[entry]
        high = (entry + 1) * _KEYS_PER_ENTRY + self.shifts[entry + 1]
        for _ in range(self.steps):
            middle = (low + high) >> 1
            above = (low == high) | (self.keys.take(middle, mode="clip") > wanted)
            high = np.where(above, middle, high)
            low = np.where(above, low, middle + 1)
        return low - 1


def _entries(keys: int) -> int:
    return -(-keys // _KEYS_PER_ENTRY)


def _places(upper: _Halves, count: int) -> Int64s:
    """Place of each key, of so many: in the order of the keys, spread evenly."""
    return (upper * np.uint64(count) >> _HALF).view(np.int64)


def _smallest_type(numbers: Int64s) -> np.dtype[np.signedinteger]:
    for kind in (np.int16, np.int32):
        ends = np.iinfo(kind)
        if ends.min <= numbers.min() and numbers.max() <= ends.max:
            return np.dtype(kind)
    return np.dtype(np.int64)
