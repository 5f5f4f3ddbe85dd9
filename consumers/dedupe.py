"""Recognition of duplicate decisions, within a window of event time, in every stratum alike.

A duplicate has the same id and decided_at in the same partition: partitions may be read by
different workers. :mod:`monitor.store.ingest.pending` reports copies that were counted again.

To remove only the duplicates that happen to be stored would bias the rates, since reviewed
decisions are stored and most auto-served ones are not. So the keys of all decisions are kept for
the window.

Keys are kept as sorted arrays (:class:`KeyRun`), ten bytes per key; a set of Python integers takes
nine times as much. Each array has the keys of a span of minutes, so that most keys are forgotten
by whole arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.time import HOUR, MINUTE

WINDOW = HOUR
"""Event time for which a copy in the same partition is recognised: producers retry for minutes, and
each decision takes ten bytes of a worker's memory."""

_Halves = npt.NDArray[np.uint64]
_Offsets = npt.NDArray[np.unsignedinteger]
_BITS_PER_KEY = 6
_MANY = 1 << 14  # keys of a run from which on the bitmap is faster than to search for each key
_SIGN = np.uint64(1 << 63)
_HALF = np.uint64(32)


def upper_halves(keys: Int64s) -> _Halves:
    """Return the upper 32 bits of each key as uint64, ordered as the signed keys are."""
    return (keys.view(np.uint64) ^ _SIGN) >> _HALF


@dataclass(frozen=True, slots=True)
class KeyRun:
    """Sorted keys, at least one, with arrival minutes; equal keys by arrival.

    Most keys that are looked up are absent. Where a run has many keys, a bitmap shows this for six
    in seven of them. It expects evenly spread keys, as hashes are; others are found more slowly.

    Attributes:
        keys: the keys.
        offsets: minute of arrival of each, after ``start``.
        start: the minute that offsets count from.
        bitmap: the bit of every key is set; bits are in the order of the keys. Empty for few keys.
    """

    keys: Int64s
    offsets: _Offsets
    start: int
    bitmap: npt.NDArray[np.uint8]

    @staticmethod
    def from_sorted(keys: Int64s, offsets: _Offsets, start: int) -> KeyRun:
        """Return a run of sorted keys; key i arrived at minute ``start + offsets[i]``."""
        places = -(-len(keys) * _BITS_PER_KEY // 8) * 8 if len(keys) >= _MANY else 0
        bits = np.zeros(places, np.bool_)
        if places:
            bits[_places(upper_halves(keys), places)] = True
        return KeyRun(keys, offsets, start, np.packbits(bits, bitorder="little"))

    @property
    def nbytes(self) -> int:
        """Return the memory of the arrays, in bytes."""
        return sum(a.nbytes for a in (self.keys, self.offsets, self.bitmap))

    def look_up(self, keys: Int64s, upper: _Halves, arrived: Int64s) -> None:
        """Raise each ``arrived`` to the minute when this run's newest copy of its key arrived.

        Args:
            keys: sorted, which is faster.
            upper: result of :func:`upper_halves`.
            arrived: newest arrival of each key so far; unchanged for keys not in this run.
        """
        rows = self._candidates(upper)
        places_below = np.searchsorted(self.keys, keys[rows], "right") - 1
        hit = self.keys[places_below] == keys[rows]  # -1 is the last key: it is none of these
        rows, places_below = rows[hit], places_below[hit]
        arrived[rows] = np.maximum(arrived[rows], self._minutes(places_below))

    def _candidates(self, upper: _Halves) -> Int64s:
        """Return the rows of keys that may be in this run."""
        if not len(self.bitmap):
            return np.arange(len(upper))
        places = _places(upper, len(self.bitmap) * 8)
        bits = self.bitmap[places >> 3] >> (places & 7).astype(np.uint8)
        return np.flatnonzero(bits & 1)

    def arrived_since(self, minute: int) -> KeyRun | None:
        """Return a run of the keys that arrived at this minute or later; None if there are none."""
        kept = self.offsets >= minute - self.start
        if kept.all():
            return self
        return (
            KeyRun.from_sorted(self.keys[kept], self.offsets[kept], self.start)
            if kept.any()
            else None
        )

    def merged(self, newer: KeyRun) -> KeyRun:
        """Return one run of the keys of this run and a newer one with the same start."""
        places = np.searchsorted(self.keys, newer.keys, "right") + np.arange(len(newer.keys))
        old = np.ones(len(self.keys) + len(newer.keys), np.bool_)
        old[places] = False
        keys, offsets = np.empty(len(old), np.int64), np.empty(len(old), self.offsets.dtype)
        keys[places], keys[old] = newer.keys, self.keys
        offsets[places], offsets[old] = newer.offsets, self.offsets
        return KeyRun.from_sorted(keys, offsets, self.start)

    def _minutes(self, rows: Int64s) -> Int64s:
        return self.offsets[rows].astype(np.int64) + self.start


def _places(upper: _Halves, count: int) -> Int64s:
    """Map upper halves of keys to places 0 to ``count - 1``, in the keys' order, spread evenly."""
    return (upper * np.uint64(count) >> _HALF).view(np.int64)


_Bools = npt.NDArray[np.bool_]
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: spreads neighbouring times
_SPANS = 6  # per window: fewer are searched faster, and the minutes of 24 h / 6 fit a byte
_PORTIONS = 8  # per span: keys past the window are deleted so often
# A run has at most 1/8 of the keys of the one before it. More: fewer runs, and more merging.
_SHORTER = 8
_NEVER = np.iinfo(np.int64).min


def duplicate_keys(ids: Int64s, ts: Int64s) -> Int64s:
    """Return one 64-bit key for each (decision id, decided_at)."""
    return (ids.view(np.uint64) * _ODD + ts.view(np.uint64)).view(np.int64)


class DuplicateFilter:
    """Filter of duplicate decisions in one shard; it keeps the keys that arrived within the window.

    Args:
        window: microseconds of event time that a key is remembered after it arrived.
    """

    def __init__(self, window: int) -> None:
        self._minutes = window // MINUTE
        self._length = max(1, -(-self._minutes // _SPANS))
        self._spans: dict[int, _Span] = {}
        self._newest: int | None = None

    @property
    def nbytes(self) -> int:
        """Return the memory of the kept keys, in bytes."""
        return sum(run.nbytes for run in self._runs())

    def __len__(self) -> int:
        """Return the number of keys kept; some may already be past the window."""
        return sum(len(run.keys) for run in self._runs())

    def restore(self, keys: Int64s, arrivals: Int64s) -> None:
        """Remember keys that arrived before a restart, with the arrival minute of each."""
        numbers = arrivals // self._length
        for number in np.unique(numbers).tolist():  # to sort all at once takes many times as long
            rows = np.flatnonzero(numbers == number)
            rows = rows[np.lexsort((arrivals[rows], keys[rows]))]
            self._span(number).add(keys[rows], arrivals[rows])

    def fresh(self, keys: Int64s, running: Int64s) -> tuple[_Bools, Int64s]:
        """Remember keys; return a mask of first copies, and each key's arrival minute.

        Args:
            keys: result of :func:`duplicate_keys`.
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
        """Return a mask of first copies among sorted keys; minutes of equal keys never decrease."""
        arrived, upper = np.full(len(keys), _NEVER), upper_halves(keys)
        for run in self._runs():
            run.look_up(keys, upper, arrived)
        since = minutes - self._minutes
        begins = np.append(True, keys[1:] != keys[:-1])
        fresh = begins & (arrived < since)
        if not begins.all():
            _mark_later_copies(begins, minutes, since, arrived[begins], fresh)
        return fresh

    def _remember(self, keys: Int64s, minutes: Int64s, now: int) -> None:
        """Remember sorted keys, and forget keys that are past the window at minute ``now``."""
        since = now - self._minutes
        oldest = since // self._length
        self._spans = {n: span for n, span in self._spans.items() if n >= oldest}
        if oldest in self._spans:
            self._spans[oldest].forget(since)
        numbers = minutes // self._length
        for number in np.unique(numbers[numbers >= oldest]).tolist():
            rows = numbers == number
            self._span(number).add(keys[rows], minutes[rows])

    def _span(self, number: int) -> _Span:
        """Return the span of this number, made if absent; the newest one before is closed."""
        if number != self._newest and self._newest in self._spans:
            self._spans[self._newest].close()
        self._newest = number
        start = number * self._length
        return self._spans.setdefault(number, _Span(start, self._length, start, []))


def _mark_later_copies(
    begins: _Bools, minutes: Int64s, since: Int64s, last: Int64s, fresh: _Bools
) -> None:
    """Set ``fresh`` for copies that are first again: the window has passed within one batch.

    Every round finds at most one copy per key: the next that its last first copy does not cover.

    Args:
        begins: True where the next key begins.
        minutes: minute of arrival of each copy.
        since: earliest minute that is still remembered at each copy.
        last: minute at which each key was last remembered before.
        fresh: mask of first copies, so far only where a key begins.
    """
    group = np.cumsum(begins) - 1
    last[group[fresh]] = minutes[fresh]
    while len(uncovered := np.flatnonzero(last[group] < since)):
        owners = group[uncovered]
        later_copies = uncovered[np.append(True, owners[1:] != owners[:-1])]
        fresh[later_copies] = True
        last[group[later_copies]] = minutes[later_copies]


@dataclass(slots=True)
class _Span:
    """Keys that arrived within one span of minutes, in sorted runs.

    Attributes:
        start: first minute of the span.
        length: number of its minutes.
        since: first minute whose keys are still there.
        runs: the keys, older ones first.
    """

    start: int
    length: int
    since: int
    runs: list[KeyRun]

    def add(self, keys: Int64s, minutes: Int64s) -> None:
        """Add sorted keys that arrived at these minutes; merge runs of similar length."""
        offsets = (minutes - self.start).astype(np.min_scalar_type(self.length - 1))
        self.runs.append(KeyRun.from_sorted(keys, offsets, self.start))
        while len(self.runs) > 1 and len(self.runs[-2].keys) < _SHORTER * len(self.runs[-1].keys):
            self._merge_last()

    def close(self) -> None:
        """Merge all runs into one, since probably no more keys come."""
        while len(self.runs) > 1:
            self._merge_last()

    def forget(self, since: int) -> None:
        """Delete keys that arrived before minute ``since``, a portion of the span at a time."""
        if since - self.since >= max(1, self.length // _PORTIONS):
            self.since = since
            kept = (run.arrived_since(since) for run in self.runs)
            self.runs = [run for run in kept if run is not None]

    def _merge_last(self) -> None:
        newer, older = self.runs.pop(), self.runs.pop()
        self.runs.append(older.merged(newer))
