"""Batches of kafka-python's records as columns: the client makes two objects per record.

The client still decides about a batch: checksums, compression, aborted transactions, control
records, and the position after it. A batch only looks like one record whose value is the whole
batch (:class:`PackedBatch`). The records of a whole answer are unpacked together.

The format is that of batches since Kafka 0.11, https://kafka.apache.org/documentation/#record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecord

from monitor.core.counts.cells import Int64s

Columns = tuple[list[int], list[bytes | None], list[int]]
"""Offsets, values, and timestamps (milliseconds)."""

_PACKED = 2  # the first version of batches in this format
_MORE, _BITS = 0x80, 0x7F  # bits of a byte of a number: another byte follows; its digits
_LONGEST = 70  # most bits in the bytes of a number


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Records of one Kafka batch in their binary form, decompressed.

    Attributes:
        data: the records and nothing else.
        count: number of records.
        offset: base of their offsets.
        timestamp: base of their timestamps, milliseconds.
        appended: whether all have this timestamp, which the broker gave them.
        since: offset that was asked for; earlier records are left out.
    """

    data: bytes
    count: int
    offset: int
    timestamp: int
    appended: bool
    since: int

    @classmethod
    def from_batch(cls, batch: Any, since: int) -> PackedBatch:
        """Return a client's batch in packed form; unpacking drops records below ``since``."""
        iter(batch)  # decompresses the batch
        appended = batch.timestamp_type == batch.LOG_APPEND_TIME
        return cls(
            data=bytes(memoryview(batch._buffer)[batch._pos :]),
            count=batch.records_count,
            offset=batch.base_offset,
            timestamp=batch.max_timestamp if appended else batch.first_timestamp,
            appended=appended,
            since=since,
        )

    def __len__(self) -> int:
        return len(self.data)


class PackedRecords(Fetcher.PartitionRecords):  # type: ignore[misc]
    """Records of one fetch, handed out as one packed value per batch instead of one per record."""

    def _unpack_records(self, partition: Any, records: Any, *deserializers: Any) -> Any:
        packing = _Packing(records, self.fetch_offset)
        return super()._unpack_records(partition, packing, *deserializers)


@dataclass(frozen=True, slots=True)
class _Packing:
    """Batches of one fetch; each batch of the packed format comes as one record."""

    records: Any
    since: int

    def next_batch(self) -> Any:
        """Return the next batch as one record, unchanged if old or of control; None at the end."""
        batch = self.records.next_batch()
        if batch is None or batch.magic < _PACKED or batch.is_control_batch:
            return batch
        return _OneRecord(batch, self.since)


class _OneRecord:
    """Batch that yields one record: its last offset, with all records packed as the value."""

    def __init__(self, batch: Any, since: int) -> None:
        self._batch = batch
        self._since = since

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[DefaultRecord]:
        batch, packed = self._batch, PackedBatch.from_batch(self._batch, self._since)
        yield DefaultRecord(
            size_in_bytes=len(packed),
            offset=batch.last_offset,
            timestamp=batch.max_timestamp,
            timestamp_type=batch.timestamp_type,
            key=None,
            value=packed,
            headers=[],
        )


def columns(records: Sequence[Any]) -> Columns:
    """Return polled records of one partition as columns, unpacking packed batches.

    Raises:
        CorruptRecordError: a batch is not as its head says.
    """
    offsets, values, timestamps = [], [], []
    for is_packed, run in groupby(records, lambda record: isinstance(record.value, PackedBatch)):
        run_records = list(run)
        run_columns = (
            _unpacked([record.value for record in run_records])
            if is_packed
            else _unpacked_records(run_records)
        )
        offsets += run_columns[0]
        values += run_columns[1]
        timestamps += run_columns[2]
    return offsets, values, timestamps


def _unpacked_records(records: Sequence[Any]) -> Columns:
    # The oldest ones have no timestamp.
    rows = [(o.offset, o.value, -1 if o.timestamp is None else o.timestamp) for o in records]
    offsets, values, timestamps = (list(column) for column in zip(*rows, strict=True))
    return offsets, values, timestamps


def _unpacked(batches: Sequence[PackedBatch]) -> Columns:
    try:
        return _split_records(batches, [_record_edges(batch) for batch in batches])
    except IndexError:
        raise CorruptRecordError("a record ends behind its batch") from None


def _record_edges(batch: PackedBatch) -> list[int]:
    """Return the places in the batch where each record begins (at its length), and its end."""
    data, at, edges = batch.data, 0, [0]
    for _ in range(batch.count):
        first, second = data[at], data[at + 1]
        if first < _MORE:
            at += 1 + (first >> 1)
        elif second < _MORE:
            at += 2 + ((first & _BITS | second << 7) >> 1)
        else:
            length, begin = _read_numbers(np.frombuffer(data, np.uint8), np.array([at]))
            at = int(begin[0] + length[0])
        edges.append(at)
    if at != len(data):
        raise CorruptRecordError(f"{batch.count} records have {at} bytes, their batch {len(data)}")
    return edges


def _split_records(batches: Sequence[PackedBatch], edges: Sequence[Sequence[int]]) -> Columns:
    """Split the packed records of all batches into columns, given the edges of each batch."""
    counts = [batch.count for batch in batches]
    sizes = np.array([len(batch) for batch in batches], np.int64)

    def each(numbers: Iterable[int]) -> Int64s:
        return np.repeat(np.fromiter(numbers, np.int64, len(batches)), counts)

    before = each(np.cumsum(sizes) - sizes)
    begins = before + np.array([at for batch_edges in edges for at in batch_edges[:-1]], np.int64)
    ends = before + np.array([at for batch_edges in edges for at in batch_edges[1:]], np.int64)
    data = b"".join(batch.data for batch in batches)
    fields = np.frombuffer(data, np.uint8)
    _, at = _read_numbers(fields, begins)
    delays, at = _read_numbers(fields, at + 1)  # after a byte of attributes
    deltas, at = _read_numbers(fields, at)
    keys, at = _read_numbers(fields, at)
    lengths, at = _read_numbers(fields, at + np.maximum(keys, 0))
    if (at + np.maximum(lengths, 0) >= ends).any():  # headers or their absence follow
        raise CorruptRecordError("a field ends behind its record")
    offsets = each(batch.offset for batch in batches) + deltas
    stamps = each(batch.timestamp for batch in batches)
    stamps += np.where(each(batch.appended for batch in batches), 0, delays)
    rows = np.flatnonzero(offsets >= each(batch.since for batch in batches))
    places = zip(at[rows].tolist(), lengths[rows].tolist(), strict=True)
    values = [None if length < 0 else data[at : at + length] for at, length in places]
    return offsets[rows].tolist(), values, stamps[rows].tolist()


def _read_numbers(data: npt.NDArray[np.uint8], at: Int64s) -> tuple[Int64s, Int64s]:
    """Return the variable-length integers at these places, and the places that follow them.

    A byte has seven bits, the lowest first; the lowest bit of all is the sign.
    """
    byte, ends = data[at], at + 1
    numbers = (byte & _BITS).astype(np.uint64)
    rows, shift = np.flatnonzero(byte & _MORE), 7
    while len(rows):
        if shift >= _LONGEST:
            raise CorruptRecordError("a number has too many bytes")
        byte = data[ends[rows]]
        numbers[rows] |= (byte & _BITS).astype(np.uint64) << np.uint64(shift)
        ends[rows] += 1
        rows, shift = rows[byte >= _MORE], shift + 7
    sign = (numbers & np.uint64(1)).view(np.int64)
    return (numbers >> np.uint64(1)).view(np.int64) ^ -sign, ends
