"""Recognition of duplicate decisions, within a window of event time, in every stratum alike.

Recognised is a copy with the same id and decided_at in the same partition: partitions may be read
by different workers. A copy that was counted again is reported by
:mod:`monitor.store.ingest.pending`.

Removing only the duplicates that happen to be stored would bias the rates, since review is
stored and most of auto_serve is not; so the keys of all decisions are kept for the window.

They are kept as sorted arrays (:class:`KeyRun`), ten bytes a key; a set of Python
integers takes nine times as much. Each array has the keys of one span of minutes, so that most of
what is forgotten goes as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.time import MINUTE

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
    """Sorted keys, at least one, made to be searched by whole batches; equal ones as they arrived.

    Nearly every key that is looked up is not there. A bitmap says so of three in four of them;
    where the others would lie, an index by their upper bits knows to within a few keys. Both expect
    keys that are spread evenly, as hashes are; others are found more slowly.

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


_Bools = npt.NDArray[np.bool_]
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: spreads neighbouring times
_SPANS = 6  # of a window: fewer are searched faster; 24 h / 6 still has its minutes in a byte
_PORTIONS = 8  # of a span: what has gone out of the window is deleted so often
_SHORTER = 8  # a run is at most so much shorter than the one before it: fewer runs, more merging
_NEVER = np.iinfo(np.int64).min


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
        self._length = max(1, -(-self._minutes // _SPANS))
        self._spans: dict[int, _Span] = {}
        self._newest: int | None = None

    @property
    def nbytes(self) -> int:
        """Memory of what is remembered."""
        return sum(run.nbytes for run in self._runs())

    def __len__(self) -> int:
        """Number of keys kept, some of them out of the window already."""
        return sum(len(run.keys) for run in self._runs())

    def restore(self, keys: Int64s, arrivals: Int64s) -> None:
        """Remember keys that arrived before a restart."""
        numbers = arrivals // self._length
        for number in np.unique(numbers).tolist():  # sorting all at once takes many times as much
            chosen = np.flatnonzero(numbers == number)
            chosen = chosen[np.lexsort((arrivals[chosen], keys[chosen]))]
            self._span(number).add(keys[chosen], arrivals[chosen])

    def fresh(self, keys: Int64s, running: Int64s) -> tuple[_Bools, Int64s]:
        """Mask of the events that are first copies, and the minute each arrived at; remembers them.

        Args:
            keys: of :func:`duplicate_keys`.
            running: the shard's running maximum of decided_at at each event, not decreasing.
        """
        minutes = running // MINUTE
        if not len(keys):
            return np.ones(0, np.bool_), minutes
        order = np.argsort(keys, kind="stable")
        ordered, at = keys[order], minutes[order]
        first = self._first_copies(ordered, at)
        self._remember(ordered[first], at[first], int(minutes[-1]))
        fresh = np.empty(len(keys), np.bool_)
        fresh[order] = first
        return fresh, minutes

    def _runs(self) -> Iterator[KeyRun]:
        return (run for span in self._spans.values() for run in span.runs)

    def _first_copies(self, keys: Int64s, minutes: Int64s) -> _Bools:
        """Mask of first copies among sorted keys; minutes do not decrease among equal ones."""
        arrived, upper = np.full(len(keys), _NEVER), upper_halves(keys)
        for run in self._runs():
            run.look_up(keys, upper, arrived)
        since = minutes - self._minutes
        begins = np.append(True, keys[1:] != keys[:-1])
        fresh = begins & (arrived < since)
        if not begins.all():
            _find_later_ones(begins, minutes, since, arrived[begins], fresh)
        return fresh

    def _remember(self, keys: Int64s, minutes: Int64s, now: int) -> None:
        """Take sorted keys in, and forget what is out of the window at this minute."""
        since = now - self._minutes
        oldest = since // self._length
        self._spans = {n: span for n, span in self._spans.items() if n >= oldest}
        if oldest in self._spans:
            self._spans[oldest].forget(since)
        numbers = minutes // self._length
        for number in np.unique(numbers[numbers >= oldest]).tolist():
            chosen = numbers == number
            self._span(number).add(keys[chosen], minutes[chosen])

    def _span(self, number: int) -> _Span:
        if number != self._newest and self._newest in self._spans:
            self._spans[self._newest].close()
        self._newest = number
        start = number * self._length
        return self._spans.setdefault(number, _Span(start, self._length, start, []))


def _find_later_ones(
    begins: _Bools, minutes: Int64s, since: Int64s, last: Int64s, fresh: _Bools
) -> None:
    """Mark copies that are first again, since the window has passed within one batch.

    Every round finds at most one of each key: the next that its last first copy does not cover.

    Args:
        begins: where the next key begins.
        minutes: when each copy arrived.
        since: from when on it would have been remembered.
        last: when each key was last remembered before.
        fresh: the first copies, so far among those at which a key begins.
    """
    group = np.cumsum(begins) - 1
    last[group[fresh]] = minutes[fresh]
    while len(uncovered := np.flatnonzero(last[group] < since)):
        owners = group[uncovered]
        found = uncovered[np.append(True, owners[1:] != owners[:-1])]
        fresh[found] = True
        last[group[found]] = minutes[found]


@dataclass(slots=True)
class _Span:
    """Keys that arrived within some minutes.

    Attributes:
        start: its first minute.
        length: how many minutes it has.
        since: the first minute whose keys are still there.
        runs: the keys, older ones first.
    """

    start: int
    length: int
    since: int
    runs: list[KeyRun]

    def add(self, keys: Int64s, minutes: Int64s) -> None:
        """Take sorted keys in."""
        offsets = (minutes - self.start).astype(np.min_scalar_type(self.length - 1))
        self.runs.append(KeyRun.of(keys, offsets, self.start))
        while len(self.runs) > 1 and len(self.runs[-2].keys) < _SHORTER * len(self.runs[-1].keys):
            self._merge_last()

    def close(self) -> None:
        """Make it one run: most likely nothing more comes."""
        while len(self.runs) > 1:
            self._merge_last()

    def forget(self, since: int) -> None:
        """Delete what arrived before a minute, a portion at a time."""
        if since - self.since >= max(1, self.length // _PORTIONS):
            self.since = since
            kept = (run.arrived_since(since) for run in self.runs)
            self.runs = [run for run in kept if run is not None]

    def _merge_last(self) -> None:
        newer, older = self.runs.pop(), self.runs.pop()
        self.runs.append(older.merged(newer))
