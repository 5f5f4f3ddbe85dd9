"""Values that an ingest worker passes to the store at each flush, and values that come back."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.core.bias_scores import BiasScore
from monitor.core.counts.cells import Int64s
from monitor.core.counts.clusters import Repetition
from monitor.core.counts.labels import Bools, LabelColumns
from monitor.core.probes.probe_decisions import ProbeDecision
from monitor.records import Shard
from monitor.shard_status import Tallies


class LabelRequest(enum.IntEnum):
    """Request for a decision's label: none, counted in the sample, or thinned out of it."""

    NONE = 0  # nobody was asked: no label finds the decision
    KEPT = 1  # asked, and counted
    THINNED = 2  # asked, and left out to bring the audit rate down to the grid


@dataclass(frozen=True, slots=True)
class DecisionColumns:
    """Counted decisions of one shard as columns of equal length.

    Attributes:
        ids: keyed 63-bit hash of the decision id; 0 where it is not needed.
        ts: decided_at, microseconds.
        cells: cell id.
        request: :class:`LabelRequest` code; labels find the decisions with a request.
        routes: route code.
        arrivals: minute of the shard's event time when the event arrived; recognises duplicates
            together with ``keys``.
        keys: 64-bit hashes of id and time; empty when de-duplication is off.
        units: hash of the unit with the number of its use case, 0 without one; empty when no unit
            was sent. See :func:`monitor.core.counts.clusters.units_in_populations`.
    """

    ids: Int64s
    ts: Int64s
    cells: Int64s
    request: Int64s
    routes: Int64s
    arrivals: Int64s
    keys: Int64s
    units: Int64s = field(default_factory=lambda: np.empty(0, np.int64))

    def take(self, rows: Bools) -> DecisionColumns:
        """Return the chosen rows; empty (unneeded) columns stay empty."""
        columns = (getattr(self, f.name) for f in fields(self))
        return DecisionColumns(*(c[rows] if len(c) else c for c in columns))

    @staticmethod
    def concat(parts: Sequence[DecisionColumns]) -> DecisionColumns:
        """Join the rows of at least one part; columns that some parts lack are 0 there."""
        if len(parts) == 1:
            return parts[0]
        names = [f.name for f in fields(DecisionColumns)]
        return DecisionColumns(*(np.concatenate(_filled(parts, n)) for n in names))


def _filled(parts: Sequence[DecisionColumns], name: str) -> list[npt.NDArray[Any]]:
    """Return one column of all parts; where some have it, absent ones are filled with 0."""
    columns = [getattr(part, name) for part in parts]
    if not any(map(len, columns)):
        return columns
    return [
        column if len(column) else np.zeros(len(part.ts), column.dtype)
        for part, column in zip(parts, columns, strict=True)
    ]


OtherIds = Mapping[tuple[int, int], int]
"""Second hash of a decision id, by its first hash and the label's decided_at."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Place and reason of an unreadable event, never its content."""

    offset: int
    index: int
    reason: str
    field: str
    payload_hash: str


@dataclass(frozen=True, slots=True)
class ShardFlush:
    """Flush of one shard: additions, and the positions afterwards.

    A shard has decisions or labels, never both.

    Attributes:
        holds_back: False if the watermark need not wait for the shard, because it never held an
            event or has ended.
        tallies: totals after the flush, without the outcome of the labels, which the store adds.
        other_ids: for labels within a minute of a change of the id key, the decision's hash by
            the key of the other side, by id and ts; the decision may be stored under it.
        probes: decisions of declared probe sets among ``decisions``.
        repetition: repeated requests of days that ended with ``decisions``.
        results: bias evaluations among ``labels``.
        arrivals: decisions by the slot of five minutes since 1970 in which they came to the
            broker.
        flushes: number of earlier flushes, so that a flush that moves no offset is not stored
            twice; None if unknown.
    """

    shard: Shard
    epoch: int
    expected_offset: int
    next_offset: int
    max_decided_at: int | None
    watermark: int | None
    holds_back: bool
    tallies: Tallies
    decisions: DecisionColumns | None = None
    labels: LabelColumns | None = None
    other_ids: OtherIds = field(default_factory=dict)
    dead_letters: Sequence[DeadLetter] = ()
    probes: Sequence[ProbeDecision] = ()
    repetition: Sequence[Repetition] = ()
    results: Sequence[BiasScore] = ()
    arrivals: Mapping[int, int] = field(default_factory=dict)
    flushes: int | None = None


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Content ids that may be new to the store: texts of atoms and versions, and cells."""

    atoms: Mapping[int, str] = field(default_factory=dict)
    versions: Mapping[int, str] = field(default_factory=dict)
    cells: Mapping[int, tuple[int, int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlushResult:
    """Result of a flush in the store.

    Attributes:
        tallies: totals by shard, with the outcomes of its labels.
        delays: seconds from decision to label, for each counted label.
    """

    tallies: Mapping[Shard, Tallies]
    delays: npt.NDArray[np.float64]
