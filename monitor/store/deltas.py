"""Deltas: additions of one flush of one shard, appended and never changed.

A :class:`Payload` holds the counts of a flush, summed by pane and cell; it is packed as bytes and
written as one row.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import COUNTERS, Counter, Counts, Int64s, Route
from monitor.core.counts.clusters import Repetition, UnitSizes
from monitor.core.probes.probe_decisions import ProbeDecision
from monitor.core.time import Grain, pane_of
from monitor.flushes import DecisionColumns, LabelRequest, ShardFlush
from monitor.records import Shard
from monitor.store import bulk
from monitor.store.schema import delta


@dataclass(frozen=True, slots=True)
class Payload:
    """Counts of a flush by (5-minute pane, cell), and its duplicate keys.

    Attributes:
        panes: 5-minute pane index of each row.
        cells: cell id of each row.
        values: int64 of shape (rows, COUNTERS).
        keys: duplicate keys of the counted decisions.
        arrivals: minute of event time at which each key arrived.
        probes: decisions of declared probe sets; the rows count them too.
        sizes: decisions by day, use case and unit, without their cells; None where no unit was
            named.
        repetition: repetition of requests on days that have ended.
    """

    panes: Int64s
    cells: Int64s
    values: Int64s
    keys: Int64s
    arrivals: Int64s
    probes: Sequence[ProbeDecision] = ()
    sizes: UnitSizes | None = None
    repetition: Sequence[Repetition] = ()


@dataclass(frozen=True, slots=True)
class StoredDelta:
    """Delta of a shard as the evaluator folds it, without duplicate keys."""

    shard: Shard
    seq: int
    payload: Payload


class _Encoded(msgspec.Struct, array_like=True):
    """Content of a payload, as it is compressed."""

    panes: bytes
    cells: bytes
    counters: list[int]  # counters that are not 0, a column of values each
    values: bytes
    arrivals: bytes
    probes: Sequence[ProbeDecision]
    sizes: bytes | None
    repetition: Sequence[Repetition]


class _Packed(msgspec.Struct, array_like=True):
    """Stored form of a payload."""

    compressed: bytes
    keys: bytes  # hashes: compressing them costs the most and saves nothing


def encode(payload: Payload) -> bytes:
    """Return a payload as compressed bytes."""
    used = np.flatnonzero(payload.values.any(axis=0))
    sizes = payload.sizes
    encoded = _Encoded(
        payload.panes.tobytes(),
        payload.cells.tobytes(),
        used.tolist(),
        payload.values[:, used].tobytes(),
        payload.arrivals.tobytes(),
        payload.probes,
        None if sizes is None else sizes.table.tobytes(),
        payload.repetition,
    )
    compressed = zlib.compress(msgspec.msgpack.encode(encoded), 1)
    return msgspec.msgpack.encode(_Packed(compressed, payload.keys.tobytes()))


def decode(data: bytes) -> Payload:
    """Return the payload that :func:`encode` packed."""
    packed = msgspec.msgpack.decode(data, type=_Packed)
    encoded = msgspec.msgpack.decode(zlib.decompress(packed.compressed), type=_Encoded)
    panes = _integers(encoded.panes)
    values = np.zeros((len(panes), COUNTERS), np.int64)
    shape = (len(panes), len(encoded.counters))
    values[:, encoded.counters] = _integers(encoded.values).reshape(shape)
    return Payload(
        panes,
        _integers(encoded.cells),
        values,
        _integers(packed.keys),
        _integers(encoded.arrivals),
        tuple(encoded.probes),
        None if encoded.sizes is None else UnitSizes(_integers(encoded.sizes).reshape(3, -1)),
        tuple(encoded.repetition),
    )


def _integers(data: bytes) -> Int64s:
    return np.frombuffer(data, np.int64)


def decision_payload(
    decisions: DecisionColumns,
    probes: Sequence[ProbeDecision] = (),
    repetition: Sequence[Repetition] = (),
) -> Payload:
    """Return the Payload of a flush's decisions, summed by (pane, cell), with probe decisions."""
    cells, cell_of = np.unique(decisions.cells, return_inverse=True)
    key = pane_of(decisions.ts, Grain.MINUTES5) * max(len(cells), 1) + cell_of
    rows, row_of = np.unique(key, return_inverse=True)
    values = np.zeros((len(rows), COUNTERS), np.int64)
    values[:, Counter.N] = np.bincount(row_of, minlength=len(rows))
    asked = decisions.request == LabelRequest.KEPT
    values[:, Counter.Q] = np.bincount(row_of[asked], minlength=len(rows))
    panes, positions = np.divmod(rows, max(len(cells), 1))
    sizes = None
    if len(decisions.units):
        served = decisions.routes == Route.AUTO_SERVE
        sizes = UnitSizes.from_decisions(decisions.units, decisions.ts, served)
    keys, arrivals = decisions.keys, decisions.arrivals
    cell = cells[positions]
    return Payload(panes, cell, values, keys, arrivals, probes, sizes, repetition)


def summed(body: Payload) -> Payload:
    """Return the payload with rows of equal (pane, cell) added up, without rows of zeros."""
    cells, cell_of = np.unique(body.cells, return_inverse=True)
    key = body.panes * max(len(cells), 1) + cell_of
    total = Counts.from_rows(key, body.values)
    alive = total.values.any(axis=1)
    rows = total.keys[alive]
    panes, positions = np.divmod(rows, max(len(cells), 1))
    values = total.values[alive]
    return replace(body, panes=panes, cells=cells[positions], values=values)


def write_delta(connection: sa.Connection, flush: ShardFlush, body: Payload) -> None:
    """Append a payload as the next delta of the flush's shard; an empty one is not written."""
    if not len(body.panes) and not len(body.keys) and not body.probes:
        return
    shard = {"topic": flush.shard.topic, "part": flush.shard.partition}
    seq = connection.execute(
        bulk.parsed(
            "UPDATE ownership SET seq = seq + 1 WHERE topic = :topic AND part = :part RETURNING seq"
        ),
        shard,
    ).scalar_one()
    connection.execute(
        sa.insert(delta),
        {
            **shard,
            "seq": seq,
            "start_offset": flush.expected_offset,
            "next_offset": flush.next_offset,
            "arrived": int(body.arrivals.max()) if len(body.arrivals) else None,
            "payload": encode(body),
        },
    )
