"""Forms of log files: what becomes of their lines, and files that are refused with the fix."""

from __future__ import annotations

import csv
import gzip
import io
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.sources.file_forms import MAX_ROW_LINES, CsvRows
from consumers.sources.file_source import LineFile
from monitor.errors import SourceError

ROWS = b'id,note,"attributes.channel",,ready\n1,"a ""b"",\nc",chat,x,TRUE\n\n2,,email,y,0\n'
OBJECTS = [
    {"id": "1", "note": 'a "b",\nc', "attributes": {"channel": "chat"}, "ready": True},
    {"id": "2", "attributes": {"channel": "email"}, "ready": "0"},
]


def numbered(path: Path) -> dict[int, Any]:
    """Return the content of each message of a file, by the number of its line from 1."""
    return {number: json.loads(line) for number, line in enumerate(lines_of(path), 1) if line}


def numbered_or_bad(path: Path) -> list[Any]:
    return [None if line == b"," else json.loads(line) for line in lines_of(path) if line]


def lines_of(path: Path) -> list[bytes]:
    with closing(LineFile(str(path))) as file:
        lines = list(file)
        assert file.line == len(lines)
    return lines


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", ["a.csv", "A.CSV", "a.csv.gz", "zipped.log", "a.txt"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_rows_become_objects_and_keep_their_lines(
    name: str, mark: bytes, ends: bytes, tmp_path: Path
) -> None:
    rows = ROWS.replace(b'"attributes.channel"', b"attributes.channel")
    data = mark + rows.replace(b"\n", ends)
    packed = gzip.compress(data) if name.endswith((".gz", ".log")) else data
    first, second = numbered(written(tmp_path / name, packed)).items()
    assert (first[0], second[0]) == (2, 5)
    objects = [first[1] | {"note": first[1]["note"].replace("\r", "")}, second[1]]
    assert objects == OBJECTS


@pytest.mark.parametrize("indent", [None, 2])
def test_the_elements_of_an_array_are_messages(indent: int | None, tmp_path: Path) -> None:
    many = [{"id": number} for number in range(10_001 if indent is None else 5)]
    path = written(tmp_path / "a.json", json.dumps(many, indent=indent).encode())
    assert list(numbered(path).values()) == many


def test_lines_that_are_arrays_stay_lines(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", b'[{"id": 1}, {"id": 2}]\n[{"id": 3}]\n')
    assert numbered(path) == {1: [{"id": 1}, {"id": 2}], 2: [{"id": 3}]}


def test_lines_that_are_no_array_after_all_stay_lines(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", b'[{"id": 1},\n{"id": 2}\n')
    assert lines_of(path) == [b'[{"id": 1},', b'{"id": 2}']


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_rows_do_not_depend_on_how_a_file_is_cut(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consumers.sources.file_source.CHUNK_BYTES", chunk)
    path = written(tmp_path / "a.csv", ROWS)
    assert numbered(path) == {2: OBJECTS[0], 5: OBJECTS[1]}
    whole = lines_of(path)
    for skipped in range(len(whole)):
        with closing(LineFile(str(path))) as file:
            assert file.skip(skipped)
            assert list(file) == whole[skipped:]


@pytest.mark.parametrize("row", [b"1", b"1,2,3", b'1,"2', b'1,"2"3'])
def test_a_row_without_a_cell_in_each_column_is_no_json(row: bytes, tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"a,b\n" + row + b"\n")
    assert [line for line in lines_of(path) if line] == [b","]


def test_a_long_cell_that_nobody_reads_loses_no_row(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"id,text\n1," + b"x" * 200_000 + b"\n")
    assert numbered(path)[2]["id"] == "1"
    assert csv.field_size_limit() == 131_072


def test_quotes_that_quote_nothing_lose_no_row(tmp_path: Path) -> None:
    rows = [b"id,screen", b'1,13"', b"2,x", b'3,"never closed', *[b"4,y"] * (MAX_ROW_LINES + 1)]
    read = numbered_or_bad(written(tmp_path / "a.csv", b"\n".join(rows)))
    assert read[:3] == [{"id": "1", "screen": '13"'}, {"id": "2", "screen": "x"}, None]
    assert read[3:] == [{"id": "4", "screen": "y"}] * (MAX_ROW_LINES + 1)


def test_names_of_columns_that_are_repeated_are_no_row(tmp_path: Path) -> None:
    rows = b"\xef\xbb\xbfid, route\r\n1,x\r\n"
    path = written(tmp_path / "joined.csv", rows + rows + b"id,route\r\n")
    expected = {2: {"id": "1", "route": "x"}, 4: {"id": "1", "route": "x"}}
    assert numbered(path) == expected | {5: {"id": "id", "route": "route"}}


def test_a_whole_beside_its_parts_is_no_failure(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"attributes,attributes.channel\nx,chat\n")
    assert numbered(path) == {2: {"attributes": "x"}}


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.csv", b"id;route\n1;x\n", "separated by semicolons; save it with commas"),
        ("a.tsv", b"id\troute\n1\tx\n", "its columns are separated by tabs; save it with commas"),
        ("a.log", b"id|route\n1|x\n", "its columns are separated by bars; save it with commas"),
        ("a.csv", b"id,route,id\n1,x,2\n", "columns 1 and 3 have one name; rename one"),
        ("a.csv", b'"id\n', "its first row is no CSV; name the columns there"),
        ("a.json", b'{\n  "id": 1\n}\n', "a JSON object over several lines; write one in each"),
        ("a.parquet", b"PAR1....", "is Parquet; save it as JSON lines or CSV in UTF-8"),
        ("a.xlsx", b"PK\x03\x04..", "is a ZIP archive or an Excel workbook; save it as"),
        ("a.jsonl.zst", b"(\xb5/\xfd..", "is Zstandard; save it as JSON lines or CSV"),
        ("a.csv", "id,route\n".encode("utf-16"), "is UTF-16; save it as JSON lines or CSV"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_fix(
    name: str, content: bytes, text: str, tmp_path: Path
) -> None:
    with pytest.raises(SourceError) as caught:
        numbered(written(tmp_path / name, content))
    assert text in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / name))


CELLS = st.text(st.characters(exclude_characters="\x00\r", exclude_categories=["Cs"]), max_size=8)


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=8))
def test_what_pythons_writer_writes_is_read_again(rows: list[list[str]]) -> None:
    names = ["a", "b", "c"]
    output = io.StringIO()
    csv.writer(output, lineterminator="\n").writerows([names, *rows])
    lines = output.getvalue().encode().split(b"\n")
    messages = CsvRows("x").messages(lines, at_end=True)
    assert len(messages) == len(lines)
    expected = [{name: cell for name, cell in zip(names, row, strict=True) if cell} for row in rows]
    read = [json.loads(message) for message in messages if message]
    assert read == [row for row in expected if row]
    assert len(lines) < MAX_ROW_LINES
