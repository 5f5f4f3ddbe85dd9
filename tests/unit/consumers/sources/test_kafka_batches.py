"""Batches unpacked by us have the records that kafka-python finds in them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher, IsolationLevel
from kafka.errors import CorruptRecordError
from kafka.record.default_records import (
    ControlRecord,
    DefaultRecordBatch,
    DefaultRecordBatchBuilder,
)
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from kafka.record.util import calc_crc32c

from consumers.sources.kafka_batches import PackedBatch, PackedRecords, columns

WHERE = TopicPartition("decisions", 0)
Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Offset after the first, timestamp, key, value and headers."""

_texts = st.none() | st.binary(max_size=300)
_stamps = st.integers(-1, 2**45) | st.just(2**62)
_headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=200)), max_size=3)
_rows = st.lists(st.tuples(st.integers(1, 20_000), _stamps, _texts, _texts, _headers), max_size=12)


def batch(rows: Sequence[Row], base: int = 0, codec: int = 0, producer: int = -1) -> bytes:
    """A batch as a broker has it; the gaps between offsets are what compaction leaves."""
    state = (bool(producer + 1), producer, producer and 0, producer and 0)
    builder = DefaultRecordBatchBuilder(2, codec, *state, 1 << 30)
    for delta, stamp, key, value, headers in rows:
        assert builder.append(delta, stamp, key, value, headers)
    return struct.pack(">q", base) + bytes(builder.build())[8:]


def marker(base: int, producer: int, *, commits: bool) -> bytes:
    """The control record that ends a transaction."""
    key = ControlRecord.KEY_STRUCT.pack(0, int(commits))
    data = bytearray(batch([(0, 1, key, b"", [])], base, producer=producer))
    attributes = struct.unpack_from(">h", data, 21)[0]
    struct.pack_into(">h", data, 21, attributes | DefaultRecordBatch.CONTROL_MASK)
    return _summed(data)


def _summed(data: bytearray) -> bytes:
    struct.pack_into(">I", data, 17, calc_crc32c(memoryview(data)[21:]))
    return bytes(data)


def read(
    kind: type[Any], data: bytes, since: int = 0, aborted: Sequence[Any] = ()
) -> tuple[list[Any], int]:
    """All records that an answer has for us, and the offset after them."""
    records = kind(
        since,
        WHERE,
        MemoryRecords(data),
        isolation_level=IsolationLevel.READ_COMMITTED,
        aborted_transactions=aborted,
    )
    return records.take(), records.next_fetch_offset


def assert_same(data: bytes, since: int = 0, aborted: Sequence[Any] = ()) -> list[int]:
    """Our columns are the client's records; returns their offsets."""
    theirs, after = read(Fetcher.PartitionRecords, data, since, aborted)
    ours, ours_after = read(PackedRecords, data, since, aborted)
    found = columns(ours)
    assert found == (
        [one.offset for one in theirs],
        [one.value for one in theirs],
        [-1 if one.timestamp is None else one.timestamp for one in theirs],
    )
    assert ours_after == after
    assert all(type(number) is int for number in (*found[0], *found[2]))
    return found[0]


def _with_rising_offsets(rows: Sequence[Row]) -> list[Row]:
    offsets = accumulate(step for step, *_ in rows)
    return [(at - 1, *row[1:]) for at, row in zip(offsets, rows, strict=True)]


@given(st.lists(_rows, min_size=1, max_size=4), st.integers(0, 4), st.integers(0, 60_000))
def test_any_records_are_those_the_client_finds(
    batches: list[list[Row]], codec: int, since: int
) -> None:
    """Any keys, tombstones, headers, holes and clocks, from any offset on."""
    data, base = b"", 0
    for rows in batches:
        risen = _with_rising_offsets(rows)
        data += batch(risen, base, codec)
        base += risen[-1][0] + 1 if risen else 1
    assert_same(data, min(since, base))


def test_a_long_record_and_one_of_a_few_bytes() -> None:
    rows: list[Row] = [(0, 5, None, b"x" * 3_000_000, []), (1, 5, b"k" * 20_000, b"", [])]
    assert assert_same(batch(rows, base=2**40)) == [2**40, 2**40 + 1]


def test_the_broker_s_own_timestamps_are_of_the_whole_batch() -> None:
    data = bytearray(batch([(0, 5, None, b"a", []), (1, 9, None, b"b", [])]))
    data[22] |= DefaultRecordBatch.TIMESTAMP_TYPE_MASK
    struct.pack_into(">q", data, 35, 77)
    ours, _ = read(PackedRecords, _summed(data))
    assert columns(ours) == ([0, 1], [b"a", b"b"], [77, 77])
    assert_same(_summed(data))


def test_control_records_and_aborted_transactions_are_left_out() -> None:
    """The client decides about them; the offset after them is theirs."""
    data = (
        batch([(0, 1, None, b"gone", [])], base=0, producer=7)
        + batch([(0, 1, None, b"stays", [])], base=1, producer=8)
        + marker(2, 7, commits=False)
        + batch([(0, 1, None, b"again", [])], base=3, producer=7)
        + marker(4, 7, commits=True)
        + marker(5, 8, commits=True)
    )
    aborted = [SimpleNamespace(producer_id=7, first_offset=0)]
    assert assert_same(data, aborted=aborted) == [1, 3]
    assert read(PackedRecords, data, aborted=aborted)[1] == 6


def test_what_compaction_has_left_of_a_batch_may_end_before_what_was_asked_for() -> None:
    data = bytearray(batch([(0, 1, None, b"a", []), (9, 1, None, b"b", [])]))
    struct.pack_into(">i", data, 23, 30)  # its last records are gone
    ours, after = read(PackedRecords, _summed(data), since=20)
    assert columns(ours) == ([], [], [])
    assert after == 31
    assert_same(_summed(data), since=20)


@pytest.mark.parametrize("magic", [0, 1])
def test_batches_of_older_formats_are_read_record_by_record(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    for offset in range(3):
        builder.append(offset, timestamp=1_000 + offset, key=None, value=b"%d" % offset)
    new = (batch([(0, 5, None, b"new", [])], base) for base in (3, 4))
    assert assert_same(bytes(builder.build()) + b"".join(new)) == [0, 1, 2, 3, 4]


def test_a_wrong_checksum_is_the_client_s_error() -> None:
    data = bytearray(batch([(0, 1, None, b"value", [])]))
    data[-3] ^= 1
    with pytest.raises(CorruptRecordError, match="crc"):
        read(PackedRecords, bytes(data))


def _packed(data: bytes, count: int) -> Any:
    return SimpleNamespace(value=PackedBatch(data, count, 0, 0, appended=False, since=0))


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"\x0e\x00\x00\x00\x01\x02a\x00", 2),  # one record, where two should be
        (b"\x0e\x00\x00\x00\x01\x02a\x00\x00", 1),  # a byte too many
        (b"\x0e\x00\x00\x00\x01\x04a\x00", 1),  # a value that ends where its record does
        (b"\x0e\x00\x00\x00\x01\x7ea\x00", 1),  # a value longer than the batch
        (b"\x0e\x00\x00\x00\x7e\x02a\x00", 1),  # a key longer than the batch
        (b"\x0e\x00" + b"\xff" * 6, 1),  # a number that does not end
        (b"\x1e\x00" + b"\xff" * 14, 1),  # a number without end
    ],
)
def test_a_batch_that_is_not_what_its_head_says_is_an_error(data: bytes, count: int) -> None:
    with pytest.raises(CorruptRecordError):
        columns([_packed(data, count)])


def test_the_smallest_record_is_read() -> None:
    assert columns([_packed(b"\x0e\x00\x00\x00\x01\x02a\x00", 1)]) == ([0], [b"a"], [0])
