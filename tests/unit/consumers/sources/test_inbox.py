"""The inbox: each event of its files is in the log once, and what is not read is named."""

from __future__ import annotations

import gzip
import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.sources import file_source
from consumers.sources.event_log import EventLog
from consumers.sources.file_source import LineFile
from consumers.sources.inbox import IDLE_SECONDS, SHOWN, Inbox, Numbered
from monitor.records import Shard

TOPICS = ("decisions", "labels")


def explained(messages: Sequence[Numbered], are_labels: bool) -> dict[int, str]:
    kind = "label" if are_labels else "decision"
    return {line: f"no {kind}" for line, value in messages if value and b"no JSON" in value}


class World:
    """A log and an inbox, which a test starts again as often as it likes."""

    def __init__(self, folder: Path, *, mapped: bool = False) -> None:
        self.folder, self.mapped = folder / "inbox", mapped
        self.log = EventLog(folder / "log.db", dict.fromkeys(TOPICS, 1), lambda: 0)
        self.restart()

    def restart(self) -> None:
        self.inbox = Inbox(self.folder, self.log, TOPICS, explained, mapped=self.mapped)

    def write(self, name: str, *lines: bytes, mode: str = "ab") -> None:
        with (self.folder / name).open(mode) as file:
            file.write(b"".join(lines))

    def kept(self, topic: str = "decisions") -> list[bytes | None]:
        return list(self.log.read(Shard(topic, 0), 0, 100_000).values)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., World]]:
    worlds: list[World] = []

    def make(*, mapped: bool = False) -> World:
        worlds.append(World(tmp_path, mapped=mapped))
        return worlds[-1]

    yield make
    for world in worlds:
        world.log.close()


def decision(number: int) -> bytes:
    return b'{"decision_id": "d-%d"}\n' % number


def label(number: int) -> bytes:
    return b'{"label_id": "l-%d", "decision_id": "d-%d"}\n' % (number, number)


def stripped(*lines: bytes) -> list[bytes]:
    return [line.strip() for line in lines]


def test_a_file_of_both_kinds_goes_to_both_topics(opened: Callable[..., World]) -> None:
    world = opened()
    result = b'{"type":"bias_result","id":"b-1"}\n'
    array = b"[" + decision(2).strip() + b"]\n"
    labels = b"[" + label(3).strip() + b"]\n"
    broken = b"{no JSON\n"
    world.write("all.jsonl", decision(1), b"\n", label(1), result, array, labels, broken)
    assert world.inbox.look() == 6
    assert world.kept() == stripped(decision(1), array, broken)
    assert world.kept("labels") == stripped(label(1), result, labels)


def test_what_grows_is_read_on_whatever_its_name(opened: Callable[..., World]) -> None:
    world = opened()
    world.write("now.jsonl", decision(1), decision(2)[:9])
    assert (world.inbox.look(), world.inbox.look()) == (1, 0)
    world.write("now.jsonl", decision(2)[9:])
    assert world.inbox.look() == 1
    (world.folder / "now.jsonl").rename(world.folder / "now.1.jsonl")
    world.restart()
    assert world.inbox.look() == 0
    world.write("copy.jsonl", decision(1), decision(2), decision(3).strip())
    assert world.inbox.look() == 1, "the copy of a file goes on where the file ended"
    assert world.kept() == stripped(*map(decision, (1, 2, 3)))


JSON_LINES = b"".join(decision(n) if n % 3 else label(n) for n in range(8))
ROWS = b"\xef\xbb\xbfdecision_id,label_id,note\r\n" + b"".join(
    [b'd-1,,"a ""b"",\nc"\r\n', b"d-2,l-2,\xc3\xa4\r\n", b"\r\n", b"d-3,,1\r\n", b"d-4,no row\r\n"]
)
JOINED_ROWS = ROWS + ROWS.replace(b"d-", b"e-")
ARRAY = b'[\n{"decision_id": "d-1"},\n{"label_id":\n"l-1"}\n]\n'


@given(
    written=st.sampled_from([("a.jsonl", JSON_LINES), ("a.csv", JOINED_ROWS), ("a.jsonl", ARRAY)]),
    cuts=st.lists(st.tuples(st.integers(0, 200), st.booleans(), st.booleans()), max_size=8),
    chunk=st.sampled_from([64, 1 << 20]),
)
def test_every_event_is_kept_once_however_a_file_is_written(
    tmp_path_factory: pytest.TempPathFactory,
    written: tuple[str, bytes],
    cuts: list[tuple[int, bool, bool]],
    chunk: int,
) -> None:
    """It is looked at and started again between any two bytes; replay reads the same messages."""
    name, whole = written
    world = World(tmp_path_factory.mktemp("world"))
    position = 0
    with patch.object(file_source, "CHUNK_BYTES", chunk):
        for length, looks, restarts in cuts:
            world.write(name, whole[position : position + length])
            position += length
            if looks:
                world.inbox.look()
            if restarts:
                world.restart()
        world.write(name, whole[position:])
        world.inbox.look()
    with closing(LineFile(str(world.folder / name))) as file:
        messages = [line for line in file if line.strip()]
    assert world.kept() == stripped(*(line for line in messages if b"label_id" not in line))
    assert world.kept("labels") == stripped(*(line for line in messages if b"label_id" in line))
    world.log.close()


def test_compressed_files_are_read(opened: Callable[..., World]) -> None:
    world = opened()
    whole = gzip.compress(decision(1) + decision(2))
    world.write("old.jsonl.gz", whole[:-9])
    world.inbox.look()
    world.write("old.jsonl.gz", whole[-9:])
    world.inbox.look()
    assert world.kept() == stripped(decision(1), decision(2))
    more = gzip.compress(b"".join(map(decision, range(3, 9_000))))
    world.write("old.jsonl.gz", more)
    world.inbox.look()
    world.write("old.jsonl.gz", whole, more[:-9_000], mode="wb")
    assert world.inbox.look() == 0, "a file that was cut short is named, and ends nothing"
    assert world.kept() == stripped(*map(decision, range(1, 9_000)))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("events.xlsx", b"PK", "its name must end in .jsonl, .ndjson, .csv, .jsonl.gz"),
        ("events.csv", b"a;b\n1;2\n", "separated by semicolons; save it with commas"),
        ("events.csv", b'a,b\n"1\n",2\n3,4', "is read, but for line 4, which waits for its end"),
        ("events.jsonl", decision(1), "its name must begin with decisions or labels"),
        ("events.jsonl.gz", b"not compressed", "Not a gzipped file"),
        ("events.jsonl", decision(1) + b'{"cut', "is read, but for line 2, which waits"),
    ],
)
def test_what_is_not_read_is_named_once(
    opened: Callable[..., World],
    caplog: pytest.LogCaptureFixture,
    name: str,
    content: bytes,
    reason: str,
) -> None:
    world = opened(mapped="must begin" in reason)
    world.write(name, content)
    with caplog.at_level(logging.ERROR, "slicewatch.inbox"):
        for _ in range(3):
            world.inbox.look()
        assert ("but for" in reason) != bool(caplog.messages), "its writer may go on"
        old = (world.folder / name).stat().st_mtime - IDLE_SECONDS - 1
        os.utime(world.folder / name, (old, old))
        for _ in range(3):
            world.inbox.look()
    (message,) = caplog.messages
    assert message.startswith(f"{name} in the inbox is")
    assert reason in message


def test_the_name_says_what_a_mapped_file_holds(opened: Callable[..., World]) -> None:
    world = opened(mapped=True)
    world.write("decisions-1.jsonl", b'{"id": 1}\n')
    world.write("labels-1.jsonl", b'{"id": 1, "of": 1}\n')
    assert world.inbox.look() == 2
    assert [len(world.kept(topic)) for topic in TOPICS] == [1, 1]


@pytest.mark.parametrize(
    ("name", "rows"),
    [("a.jsonl", b'{"decision_id": 1}'), ("a.jsonl.gz", b"\n"), ("a.csv", b"decision_id\n1\n")],
)
def test_lines_that_cannot_be_counted_are_named(
    opened: Callable[..., World], caplog: pytest.LogCaptureFixture, name: str, rows: bytes
) -> None:
    """The line is exact when the file was read on, too; the first of many lines are enough."""
    world = opened()
    pack = gzip.compress if name.endswith(".gz") else bytes
    world.write(name, pack(rows))
    world.inbox.look()
    world.restart()
    more = b"" if rows.endswith(b"\n") else b"\n"
    world.write(name, pack(more + b"\n" + b"no JSON\n" * (SHOWN + 2)))
    world.inbox.look()
    first = len((rows + more).splitlines()) + 2
    assert caplog.messages == [
        f"{name} in the inbox, line {first + n}: no decision; not counted" for n in range(SHOWN)
    ]


def test_a_full_disk_is_named_and_the_file_is_read_later(
    opened: Callable[..., World], caplog: pytest.LogCaptureFixture
) -> None:
    world = opened()
    lines = [json.dumps({"decision_id": "d" * 500, "n": n}).encode() + b"\n" for n in range(50)]
    world.write("big.jsonl", *lines)
    world.log._database.execute("PRAGMA max_page_count = 10")
    assert world.inbox.look() == 0
    assert "is full" in caplog.text
    world.log._database.execute("PRAGMA max_page_count = 100000")
    assert world.inbox.look()
    assert world.kept() == stripped(*lines)
