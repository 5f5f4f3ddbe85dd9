"""Forms of log files: JSON lines, one JSON array, and CSV; each becomes messages, one a line.

A form takes the lines of a file and returns as many messages, blank where a line has none, so that
the number of a message is the number of its line. The elements of an array are numbered instead.
Lines that are no whole message yet are held until the next ones come.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, ClassVar

import msgspec

from consumers.events import MAX_EVENTS_PER_MESSAGE
from consumers.field_values import DIGITS, FRACTIONS, TIMES, TRUTHS, number_of
from consumers.tolerance import BYTE_ORDER_MARK, decode_tolerantly
from monitor.errors import SourceError

MAX_ARRAY_BYTES = 128 << 20
"""Longest array, which memory holds at once."""
MAX_ROW_LINES = 10_000
"""Most lines of one row: with more, a quote was never closed, and each line is a row."""
_UNREADABLE_ROW = b","
"""A message that is no JSON, however tolerantly it is read: the row becomes a dead letter."""
_FOREIGN: Sequence[tuple[bytes, str]] = (
    (b"\x1f\x8b", "gzip on standard input"),
    (b"PAR1", "Parquet"),
    (b"PK\x03\x04", "a ZIP archive or an Excel workbook"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"(\xb5/\xfd", "Zstandard"),
    (b"Obj\x01", "an Avro file"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_TABLES = (".csv", ".tsv", ".tab", ".psv")
_COLUMN_NAMES = re.compile(rb"[\w .:/-]+([,;\t|][\w .:/-]*)+\Z")
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_NESTED = ("attributes", "versions")
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_any_json = msgspec.json.Decoder(msgspec.Raw).decode


class Form:
    """Form with a message in each line, JSON lines; the base of the other forms.

    Args:
        name: the file's name, for errors.

    Attributes:
        held: lines whose message has not ended yet.
    """

    _is_json: ClassVar = True

    def __init__(self, name: str) -> None:
        self._name = name
        self.held: list[bytes] = []

    def messages(self, lines: list[bytes], at_end: bool) -> list[bytes]:
        """Turn the next lines of a file into messages; ``at_end`` says that none follow."""
        return lines

    def is_whole(self, tail: bytes) -> bool:
        """Return True if the lines held and the rest of a file, without a newline, are a message.

        The end of a row of CSV is its newline alone: more digits could follow.
        """
        tail = tail.strip()
        if not tail or not self._is_json:
            return not tail
        try:
            decode_tolerantly(_any_json, tail)
        except (ValueError, RecursionError):
            return False
        return not tail.startswith(b'"')  # the tolerant reading ends a text that has no end


def without_mark(name: str, data: bytes) -> bytes:
    """Return a file's first bytes without a byte-order mark.

    Raises:
        SourceError: it is a kind of file that we do not read.
    """
    for beginning, kind in _FOREIGN:
        if data.startswith(beginning):
            raise SourceError(
                f"{name} is {kind}; save it as JSON lines or CSV in UTF-8, plain or as a .gz file"
            )
    return data.removeprefix(BYTE_ORDER_MARK)


def form_of(name: str, first: bytes) -> Form:
    """Return the form of a file, by its name and its first line that is not blank.

    Raises:
        SourceError: its first line begins a JSON object of several lines.
    """
    line = first.strip()
    if name.lower().removesuffix(".gz").endswith(_TABLES) or _COLUMN_NAMES.match(line):
        return CsvRows(name)
    if line == b"{":
        raise SourceError(
            f"{name}: a JSON object over several lines; write one in each line, as jq -c . does"
        )
    if line[:1] == b"[" and not _is_message(line):
        return ArrayElements(name)
    return Form(name)


def _is_message(line: bytes) -> bool:
    try:
        return len(decode_tolerantly(_elements, line)) <= MAX_EVENTS_PER_MESSAGE
    except (ValueError, RecursionError):
        return False


class ArrayElements(Form):
    """Form with one array, over any number of lines; each element is a message."""

    _size = 0

    def messages(self, lines: list[bytes], at_end: bool) -> list[bytes]:
        """Return nothing before the end, and then all elements; lines that are no array stay.

        Raises:
            SourceError: the array is longer than memory should hold.
        """
        self.held += lines
        self._size += sum(map(len, lines))
        if self._size > MAX_ARRAY_BYTES:
            raise SourceError(
                f"{self._name}: a JSON array of more than {MAX_ARRAY_BYTES >> 20} MiB; write its"
                " elements as lines, as jq -c '.[]' does"
            )
        if not at_end:
            return []
        lines, self.held = self.held, []
        try:
            return list(map(bytes, decode_tolerantly(_elements, b"\n".join(lines))))
        except (ValueError, RecursionError):
            return lines


class CsvRows(Form):
    """Form with column names in the first line, then rows; a row becomes an object of its cells.

    Empty cells, and columns without a name, are left out. Columns such as ``attributes.channel``
    become nested objects, and cells of columns that are named like fields get their types. A row
    that repeats the first one, as in files that were joined, is blank.
    """

    _is_json = False
    _first: Sequence[str] = ()
    _columns: Sequence[str] = ()
    _quotes = 0  # in the lines held

    def messages(self, lines: list[bytes], at_end: bool) -> list[bytes]:
        """Return a message for the first line of each row that is complete, else blank ones.

        Raises:
            SourceError: the first row names no columns.
        """
        return list(chain.from_iterable(map(self._next, lines))) + (
            self._finished() if at_end and self.held else []
        )

    def _next(self, line: bytes) -> list[bytes]:
        self._quotes = line.count(b'"') + (self._quotes if self.held else 0)
        self.held.append(line)
        is_open = self._quotes % 2 == 1 and len(self.held) < MAX_ROW_LINES
        return [] if is_open else self._finished()

    def _finished(self) -> list[bytes]:
        lines, self.held = self.held, []
        message = self._message(b"\n".join(lines))
        if message == _UNREADABLE_ROW and len(lines) > 1:
            return list(map(self._message, lines))  # a quote was a sign of inches, say
        return [message] + [b""] * (len(lines) - 1)

    def _message(self, row_bytes: bytes) -> bytes:
        """Return a CSV row as JSON; nothing for the header or an empty row."""
        row_bytes = row_bytes.removeprefix(BYTE_ORDER_MARK)  # of each file that was joined
        text = row_bytes.decode("utf-8", "surrogateescape").removesuffix("\r")
        if not text.strip():
            return b""
        try:
            cells = _cells(text)
        except csv.Error:
            cells = []
        if not self._columns:
            self._first, self._columns = cells, self._checked_names(cells)
        if cells == self._first:
            return b""
        if len(cells) != len(self._columns):
            return _UNREADABLE_ROW
        row: dict[str, Any] = {}
        for name, cell in zip(self._columns, cells, strict=True):
            if cell:
                _put(row, name, cell)
        return json.dumps(row).encode() if row else b""

    def _checked_names(self, cells: Sequence[str]) -> list[str]:
        names = [cell.strip() for cell in cells]
        if not names:
            raise SourceError(f"{self._name}: its first row is no CSV; name the columns there")
        for separator, words in _OTHER_SEPARATORS.items():
            if len(names) == 1 and separator in names[0]:
                raise SourceError(
                    f"{self._name}: its columns are separated by {words}; save it with commas"
                )
        for name in names:
            if name and names.count(name) > 1:
                first = names.index(name) + 1
                second = names.index(name, first) + 1
                raise SourceError(
                    f"{self._name}: columns {first} and {second} have one name; rename one"
                )
        return names


def _put(row: dict[str, Any], name: str, cell: str) -> None:
    """Put a cell that is not empty into the object of its row, by the name of its column."""
    outer, _, inner = name.partition(".")
    if inner and outer in _NESTED:
        part = row.setdefault(outer, {})
        if isinstance(part, dict):  # else there is a column of that name, too
            part[inner] = cell
    elif name:
        row[name] = _typed(name, cell)


def _typed(name: str, cell: str) -> object:
    """Return a cell by its column's name: only what can mean nothing else becomes no text."""
    if name in TRUTHS:
        return {"true": True, "false": False}.get(cell.strip().lower(), cell)
    if name in TIMES:
        return int(cell) if cell.isdecimal() and len(cell) <= DIGITS else cell
    number = number_of(cell) if name in FRACTIONS or name == "version" else None
    return cell if number is None else number


def _cells(text: str) -> list[str]:
    """Return the cells of a CSV row, however long they are."""
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error:
        limit = csv.field_size_limit(len(text))  # a long cell, which perhaps nobody reads
        try:
            return next(csv.reader([text], strict=True))
        finally:
            csv.field_size_limit(limit)
