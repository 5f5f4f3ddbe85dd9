"""Decisions that this worker stored lately, in memory: most labels find theirs among them.

The memory is never the truth: missing decisions are looked up in ``pending``. A row of ``pending``
is never changed, so a stored row stays right until it is deleted. Whoever deletes rows fences the
worker, as a change of codings does, or is seen by :func:`monitor.store.erasure.read_deletions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.time import Grain, pane_of

MAX_ROWS = 1 << 20
"""Most rows that are kept; the oldest go first."""

# A run has at most 1/4 of the rows of the one before it. More: fewer runs, and more merging.
_SHORTER = 4
_KEPT = 0.75  # share of the rows that stay when there are too many
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: spreads neighbouring hours


@dataclass(frozen=True, slots=True)
class FoundDecisions:
    """Decisions found for labels, as columns with a row per label; -1 where none was found.

    Attributes:
        hour: hour of decided_at.
        id: keyed hash of the decision's id.
        ts: decided_at, microseconds.
        cell: cell that it is counted in.
        request: value of :class:`monitor.flushes.LabelRequest`.
        labelled: 0 where no label can have been stored yet, as far as this worker knows.
    """

    hour: Int64s
    id: Int64s
    ts: Int64s
    cell: Int64s
    request: Int64s
    labelled: Int64s

    @classmethod
    def nothing(cls, length: int) -> FoundDecisions:
        """Return ``length`` rows without a decision, -1 in every column."""
        return cls(*(np.full(length, -1, np.int64) for _ in fields(cls)))

    def take(self, rows: npt.NDArray[np.bool_] | Int64s) -> FoundDecisions:
        """Return the chosen rows, in the order given."""
        return FoundDecisions(*(getattr(self, column.name)[rows] for column in fields(self)))

    def put(self, rows: Int64s, decisions: FoundDecisions) -> None:
        """Overwrite these rows with the rows of ``decisions``, in their order."""
        for column in fields(self):
            getattr(self, column.name)[rows] = getattr(decisions, column.name)


@dataclass(frozen=True, slots=True)
class _SortedRows:
    """Rows of ``pending`` in memory, sorted by key; key and hour of ``ts`` determine the id."""

    keys: Int64s
    ts: Int64s
    cell: Int64s
    request: npt.NDArray[np.int8]
    labelled: npt.NDArray[np.bool_]

    @classmethod
    def merged(cls, runs: Sequence[_SortedRows]) -> _SortedRows:
        """Merge runs into one, sorted by key."""
        columns = [np.concatenate([getattr(r, f.name) for r in runs]) for f in fields(cls)]
        order = np.argsort(columns[0], kind="stable")  # fast where parts are sorted
        return cls(*(column[order] for column in columns))

    def take(self, rows: npt.NDArray[np.bool_]) -> _SortedRows:
        return _SortedRows(*(getattr(self, column.name)[rows] for column in fields(self)))


def _keys(hours: Int64s, ids: Int64s) -> Int64s:
    """Return a hash of hour and id; the ids are hashes, so two are equal once in 2**63."""
    return (hours.view(np.uint64) * _ODD).view(np.int64) ^ ids


class RecentDecisions:
    """Rows of ``pending`` that this worker inserted lately, in memory by hour and id.

    Args:
        most: rows that are kept at most; the oldest go first.
    """

    def __init__(self, most: int = MAX_ROWS) -> None:
        self._most = most
        self._runs: list[_SortedRows] = []

    def __len__(self) -> int:
        return sum(len(run.keys) for run in self._runs)

    def clear(self) -> None:
        """Forget all rows: whether they are stored is unknown from now on."""
        self._runs = []

    def add(self, hours: Int64s, ids: Int64s, ts: Int64s, cell: Int64s, request: Int64s) -> None:
        """Keep rows that were just inserted without labels; drop the oldest beyond the limit."""
        if not len(ids):
            return
        labelled = np.zeros(len(ids), np.bool_)
        run = _SortedRows(_keys(hours, ids), ts, cell, request.astype(np.int8), labelled)
        self._runs.append(_SortedRows.merged([run]))
        while len(self._runs) > 1 and self._is_short():
            self._runs[-2:] = [_SortedRows.merged(self._runs[-2:])]
        if len(self) > self._most:
            self._keep_newest(int(_KEPT * self._most))

    def _is_short(self) -> bool:
        """Return True if the last run is so long against the one before that both are merged."""
        older, newer = self._runs[-2:]
        return len(older.keys) < _SHORTER * len(newer.keys)

    def _keep_newest(self, number: int) -> None:
        """Merge all runs and keep the newest ``number`` rows, or more of the same time."""
        run = _SortedRows.merged(self._runs)
        surplus = len(run.keys) - number
        self._runs = [run.take(run.ts >= np.partition(run.ts, surplus)[surplus])]

    def find(self, hours: Int64s, ids: Int64s, since: int) -> FoundDecisions:
        """Return the decisions with these hours and ids, since an hour; mark them as labelled."""
        decisions = FoundDecisions.nothing(len(ids))
        wanted = _keys(hours, ids)
        left = np.flatnonzero(hours >= since)
        left = left[np.argsort(wanted[left])]  # neighbours share what is in the processor's cache
        for run in self._runs:
            places = np.minimum(np.searchsorted(run.keys, wanted[left]), len(run.keys) - 1)
            ts = run.ts[places]
            hit = (run.keys[places] == wanted[left]) & (pane_of(ts, Grain.HOUR) == hours[left])
            rows, places = left[hit], places[hit]
            columns = (run.ts, run.cell, run.request, run.labelled)
            stored = (column[places].astype(np.int64) for column in columns)
            decisions.put(rows, FoundDecisions(hours[rows], ids[rows], *stored))
            run.labelled[places] = True
            left = left[~hit]
        return decisions
