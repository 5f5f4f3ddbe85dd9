from __future__ import annotations

import gzip
import io
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from consumers.sources import file_source
from consumers.sources.file_source import FileSource, LineFile
from monitor.errors import DataLossError, SourceError
from monitor.records import RecordBatch, Shard

SHARD = Shard("decisions", 0)


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def open_at(path: Path | str, offset: int = 0) -> FileSource:
    source = FileSource([("decisions", path)])
    source.poll(0)
    source.begin(SHARD, offset)
    return source


def read_all(source: FileSource) -> list[RecordBatch]:
    found: list[RecordBatch] = []
    with closing(source):
        while not source.finished:
            found.extend(source.poll(0).records)
    return found


def rows(found: list[RecordBatch]) -> list[tuple[int, bytes | None]]:
    return [row for one in found for row in zip(one.offsets, one.values, strict=True)]


@pytest.fixture(params=["a.jsonl", "a.jsonl.gz"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


@pytest.mark.parametrize(
    ("content", "expected", "lines"),
    [
        (b"", [], 0),
        (b"one\n", [(0, b"one")], 1),
        (b"one\ntwo", [(0, b"one"), (1, b"two")], 2),
        (b"one\r\ntwo\r\n", [(0, b"one"), (1, b"two")], 2),
        (b"\n\none\n \t\ntwo\n\n", [(2, b"one"), (4, b"two")], 6),
        (b"\n\n\n", [], 3),
        (b"one\nnull\n\nnull \n[null]\n", [(0, b"one"), (1, None), (3, None), (4, b"[null]")], 5),
    ],
)
def test_offsets_are_line_numbers_and_blank_lines_keep_theirs(
    path: Path, content: bytes, expected: list[tuple[int, bytes | None]], lines: int
) -> None:
    source = open_at(write(path, content))
    found = read_all(source)
    assert rows(found) == expected
    assert all(set(one.timestamps) == {-1} for one in found)
    assert source.high_water(SHARD) == source.position(SHARD) == lines


@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 20])
def test_any_chunk_and_any_start_give_the_same_rows(
    path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(file_source, "CHUNK_BYTES", chunk)
    content = [b"%d" % number * (number % 5) for number in range(60)]  # every fifth is blank
    write(path, b"\n".join(content) + b"\n")
    expected = [(at, line) for at, line in enumerate(content) if line]
    for start in (0, 1, 5, 31, 59, 60):
        assert rows(read_all(open_at(path, start))) == [row for row in expected if row[0] >= start]


def test_going_back_reads_again_and_too_far_is_data_loss(path: Path) -> None:
    source = open_at(write(path, b"one\ntwo\nthree\n"))
    while not source.finished:
        source.poll(0)
    source.begin(SHARD, 1)
    assert not source.finished
    assert rows(list(source.poll(0).records)) == [(1, b"two"), (2, b"three")]
    with pytest.raises(DataLossError, match="has 3 lines"):
        source.begin(SHARD, 4)
    source.close()


def test_progress_goes_from_nothing_to_everything(path: Path) -> None:
    source = open_at(write(path, b"x" * 100 + b"\n"))
    size = path.stat().st_size
    read_all(source)
    assert source.progress == (size, size)
    with closing(FileSource([("decisions", path)])) as fresh:
        assert fresh.progress == (0, size)


def test_files_of_a_topic_are_its_partitions(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, name.encode()) for name in ("b", "a", "c")]
    source = FileSource([("decisions", paths[0]), ("labels", paths[1]), ("decisions", paths[2])])
    assert source.shards("decisions") == [Shard("decisions", 0), Shard("decisions", 1)]
    for shard in source.poll(0).assigned:
        source.begin(shard, 0)
    found = {one.shard: one.values for one in read_all(source)}
    assert found == {
        Shard("decisions", 0): [b"b"],
        Shard("labels", 0): [b"a"],
        Shard("decisions", 1): [b"c"],
    }


@pytest.mark.parametrize("damage", ["cut", "not gzip", "garbage"])
def test_a_damaged_archive_is_one_clear_line(tmp_path: Path, damage: str) -> None:
    packed = gzip.compress(b"".join(b"line %d\n" % n for n in range(5000)))
    content = {"cut": packed[:-20], "not gzip": b"plain", "garbage": packed[:50] + b"x" * 99}
    path = tmp_path / "a.gz"
    path.write_bytes(content[damage])
    with pytest.raises(SourceError, match=r"cannot read .*a\.gz after line") as raised:
        read_all(open_at(path))
    assert "\n" not in str(raised.value)


def test_what_cannot_be_opened_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="absent: No such file"):
        FileSource([("decisions", tmp_path / "absent")])
    with pytest.raises(SourceError, match="Is a directory"):
        FileSource([("decisions", tmp_path)])
    with pytest.raises(SourceError, match="no file"):
        FileSource([])
    with pytest.raises(SourceError, match="once"):
        FileSource([("decisions", "-"), ("labels", "-")])


def test_a_file_without_lines_does_not_fill_the_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_source, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(file_source, "CHUNK_BYTES", 100)
    write(path, b"fine\n" + b"x" * 5000)
    with pytest.raises(SourceError, match=r"line 2 of .* is longer"):
        read_all(open_at(path))


def test_standard_input_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    piped = io.BufferedReader(io.BytesIO(b"one\ntwo\nthree\n"))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=piped))
    source = open_at("-", 1)
    assert rows(list(source.poll(0).records)) == [(1, b"two"), (2, b"three")]
    assert source.progress == (14, None)
    with pytest.raises(SourceError, match="cannot go back from line 3"):
        source.begin(SHARD, 0)
    source.close()
    assert not piped.closed


def test_lines_of_a_pipe_come_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as end:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=end))
        file = LineFile("-")
        os.write(writing, b"one\ntw")
        assert file.read() == [b"one"]
        os.write(writing, b"o\n")
        assert file.read() == [b"two"]
        os.close(writing)
        assert file.read() == []
        assert file.ended
