"""Files as a source: one message per line, for ``replay``; forms: :mod:`file_forms`.

Every file is one shard of the topic given for it: the first file of a topic is partition 0, the
next one 1. The offset is the line number, counted from 0. A blank line is skipped and keeps its
number, so offsets of a file are the same on every run and a replay can be resumed. A line with
only ``null`` is a tombstone, as Kafka's console consumer prints it.
"""

from __future__ import annotations

import gzip
import sys
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from io import BufferedReader
from itertools import count
from pathlib import Path
from typing import cast

from consumers.sources.base import Source, data_loss
from consumers.sources.file_forms import Form, form_of, without_mark
from monitor.errors import SourceError
from monitor.records import Polled, RecordBatch, Shard, Start

STDIN = "-"
GZIP_MARK = b"\x1f\x8b"
CHUNK_BYTES = 1 << 20
"""Bytes read per file and poll: about 3,000 events, so memory stays at a few MB per file."""
MAX_LINE_BYTES = 128 << 20
"""Longest line, as long as the largest Kafka message we accept; else the file has no lines."""
IDLE_SECONDS = 0.01
"""Longest wait while all files are paused: only the caller can resume them."""


class LineFile:
    """File (plain, gzip or standard input), read once to its end in chunks of whole lines.

    Args:
        path: a file, plain or gzipped, or ``-`` for standard input.
        grows: the file may be read while it is written: a half message at its end is left.

    Attributes:
        line: number of the next line; after the end, the number of lines.
        bytes_read: bytes of the file read so far; compressed bytes for gzip.
        unfinished: whether a half message was left at the end.

    Raises SourceError, here and while reading, when the file cannot be read.
    """

    def __init__(self, path: str, *, grows: bool = False) -> None:
        self.path = path
        self.line = 0
        self.unfinished = False
        self._grows = grows
        self._raw = self._open()
        self._stream = (
            gzip.GzipFile(fileobj=self._raw, mode="rb") if self._is_zipped() else self._raw
        )
        self._form: Form | None = None
        self._rest = b""  # start of a line whose end was not read yet
        self._left: list[bytes] = []  # whole lines that :meth:`skip` read in excess
        self._at_end = False
        self.bytes_read = 0
        self._taken = 0  # bytes, decompressed

    def __iter__(self) -> Iterator[bytes]:
        """Yield the messages that are left, to the end."""
        while not self.ended:
            yield from self.read()

    @property
    def name(self) -> str:
        """Return the file's name for people: its path, or "standard input"."""
        return "standard input" if self.path == STDIN else self.path

    @property
    def ended(self) -> bool:
        """Return True if the last line was returned."""
        return self._at_end and not self._left

    @property
    def position(self) -> int:
        """Return the decompressed bytes before the next message; ask it after :meth:`read`."""
        return self._taken - len(self._tail)

    def seek(self, position: int, line: int) -> None:
        """Go on after :meth:`first` where a file with the same first message was left.

        Args:
            position: what :attr:`position` was; 0 is the beginning.
            line: what :attr:`line` was.
        """
        if not position or self._form is None:
            return
        self._stream.seek(position - 1)
        # Without a newline before it the last line was whole: what follows is its newline.
        self.line = line if self._stream.read(1) == b"\n" else line - 1
        self._taken = position
        self._rest, self._left, self._at_end = b"", [], False
        self._form.held.clear()

    def read(self) -> list[bytes]:
        """Return the next whole lines; empty at the end, and in the middle of a very long line."""
        lines = self._take()
        self.line += len(lines)
        return lines

    def skip(self, lines: int) -> bool:
        """Skip this many lines; return False if the file has fewer."""
        while lines and not self.ended:
            chunk = self._take()
            self._left = chunk[lines:]
            passed = len(chunk) - len(self._left)
            self.line += passed
            lines -= passed
        return not lines

    def first(self) -> bytes:
        """Return the first non-blank line, stripped, without consuming it; empty if there is none.

        Call it before anything is read; it waits for input on standard input.
        """
        lines: list[bytes] = []
        while not self._at_end and not any(line.strip() for line in lines):
            lines += self._take()
        self._left = lines
        return next((line.strip() for line in lines if line.strip()), b"")

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self.path != STDIN:
            self._stream.close()
            self._raw.close()

    @property
    def _tail(self) -> bytes:
        return b"\n".join([*(self._form.held if self._form else ()), self._rest])

    def _open(self) -> BufferedReader:
        if self.path == STDIN:
            return cast(BufferedReader, sys.stdin.buffer)
        try:
            return Path(self.path).open("rb")
        except OSError as error:
            raise SourceError(f"cannot read {self.path}: {error.strerror}") from error

    def _is_zipped(self) -> bool:
        named = self.path.endswith(".gz")
        return named or (self.path != STDIN and self._raw.peek(2).startswith(GZIP_MARK))

    def _take(self) -> list[bytes]:
        """Return the next lines, as far as they can be read without waiting."""
        if self._left:
            lines, self._left = self._left, []
            return lines
        try:
            # read1 returns what a pipe has now, instead of waiting for a full chunk.
            data = self._stream.read1(CHUNK_BYTES)
            self._taken += len(data)
            self.bytes_read = self._taken if self.path == STDIN else self._raw.tell()
        except (OSError, EOFError, zlib.error) as error:
            raise SourceError(f"cannot read {self.name} after line {self.line}: {error}") from error
        if self._form is None:
            data = without_mark(self.name, data)
        return self._shaped(self._split(data))

    def _shaped(self, lines: list[bytes]) -> list[bytes]:
        """Return lines as events; the first line that is not empty tells the form."""
        if self._form is None:
            first = next((line for line in lines if line.strip()), b"")
            if not first and not self._at_end:
                return lines
            self._form = form_of(self.name, first)
        return self._form.messages(lines, self._at_end and not self.unfinished)

    def _split(self, data: bytes) -> list[bytes]:
        """Return the whole lines in ``data``, and keep the rest; no data means the end."""
        if not data:
            self._at_end = True
            form = self._form or form_of(self.name, self._rest)
            self.unfinished = self._grows and not form.is_whole(self._tail)
            if self.unfinished or not self._rest:
                return []
            lines, self._rest = [self._rest], b""
            return lines
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            raise SourceError(
                f"line {self.line + len(lines) + 1} of {self.name} is longer than "
                f"{MAX_LINE_BYTES >> 20} MiB: not JSON lines?"
            )
        return lines


class FileSource(Source):
    """Source that reads files of messages side by side; fulfils ``RecordSource``.

    A poll delivers one chunk of every file that is not paused, so decisions and labels advance
    together and the caller steers them by pausing.

    Args:
        files: (topic, path) pairs; ``-`` is standard input, once.
        by_content: number the shards by the first event of each file instead of by their order: a
            file keeps its stored position whichever files are read with it or later.

    Raises SourceError when a file cannot be opened or there is none.

    Example:
        >>> source = FileSource([("decisions", "/dev/null")])
        >>> source.poll(0).assigned
        [Shard(topic='decisions', partition=0)]
        >>> source.close()
    """

    def __init__(
        self, files: Sequence[tuple[str, str | Path]], *, by_content: bool = False
    ) -> None:
        super().__init__()
        paths = [str(path) for _, path in files]
        if not paths or paths.count(STDIN) > 1:
            raise SourceError(
                "standard input can be read once" if paths else "there is no file to read"
            )
        self._by_content = by_content
        self._files: dict[Shard, LineFile] = {}
        numbers = {topic: count() for topic, _ in files}
        try:
            for (topic, _), path in zip(files, paths, strict=True):
                file = LineFile(path)
                number = _content_number(file) if by_content else next(numbers[topic])
                self._add(Shard(topic, number), file)
        except SourceError:
            self.close()
            raise

    def _add(self, shard: Shard, file: LineFile) -> None:
        twin = self._files.get(shard)
        if twin is not None:
            file.close()
            raise SourceError(f"{twin.name} and {file.name} begin with the same event: one file?")
        self._files[shard] = file

    @property
    def finished(self) -> bool:
        """Return True if every file has begun and was read to its end."""
        begun = self._delivery.positions
        return all(shard in begun and file.ended for shard, file in self._files.items())

    @property
    def progress(self) -> tuple[int, int | None]:
        """Return (bytes read, all bytes) for a progress bar; all is None with standard input."""
        bytes_read = sum(file.bytes_read for file in self._files.values())
        paths = [file.path for file in self._files.values()]
        return bytes_read, None if STDIN in paths else sum(
            Path(path).stat().st_size for path in paths
        )

    def shards(self, topic: str) -> Sequence[Shard]:
        """Return a topic's files as shards; raise SourceError if it has none, unless by content."""
        shards_of_topic = [shard for shard in self._files if shard.topic == topic]
        if not shards_of_topic and not self._by_content:
            raise SourceError(f"no file was given for the topic {topic}")
        return shards_of_topic

    def topic_id(self, topic: str) -> str | None:
        """Return None: a file that is read again is known by the number of its shard."""
        return None

    def poll(self, timeout: float) -> Polled:
        """Return one chunk from every file that may be read; wait a moment only if all are paused.

        Raises SourceError when a file is damaged.
        """
        if self._closed:
            raise SourceError("the source is closed")
        assigned = self._assign_once(self._files)
        ready = [shard for shard in self._delivery.flowing() if not self._files[shard].ended]
        if not ready and not assigned and not self.finished:
            time.sleep(min(timeout, IDLE_SECONDS))
        records = [batch for shard in ready if (batch := self._chunk(shard)) is not None]
        return Polled(records, assigned)

    def first_offset(self, shard: Shard, start: Start) -> int:
        """Return 0: files are read as history, from their first line."""
        return 0

    def begin(self, shard: Shard, offset: int) -> None:
        """Deliver a file from line ``offset`` on; raise DataLossError if it has fewer lines.

        By content that is a plain SourceError, for the whole run: no file is parked alone. This
        reads the lines before it. Standard input cannot go back: SourceError.
        """
        self._delivery.begin(shard, offset)
        file = self._files[shard]
        if file.line > offset:
            file = self._files[shard] = self._again(file)
        if not file.skip(offset - file.line):
            self._delivery.park(shard)
            raise self._cut(shard, offset)

    def high_water(self, shard: Shard) -> int | None:
        """Return the number of lines in the file; None before its end was reached."""
        file = self._files[shard]
        return file.line if file.ended else None

    def position(self, shard: Shard) -> int | None:
        """Return the number of the next line, counted from 0; None before the file has begun."""
        return self._files[shard].line if shard in self._delivery.positions else None

    def ended(self, shard: Shard) -> bool:
        """Return True if the last line of the file was returned."""
        return self._files[shard].ended

    def report(self, positions: Mapping[Shard, int]) -> None:
        """Do nothing, since no group waits for positions of files."""

    def close(self) -> None:
        """Close the files."""
        self._closed = True
        for file in self._files.values():
            file.close()

    def _chunk(self, shard: Shard) -> RecordBatch | None:
        """Return the next messages of a shard, without empty lines; None if there are none."""
        file = self._files[shard]
        first = file.line
        values = [value_of(line) for line in file.read()]
        offsets: Sequence[int] = range(first, file.line)
        if b"" in values:
            offsets = [at for at, value in zip(offsets, values, strict=True) if value != b""]
            values = [value for value in values if value != b""]
        if not values:
            return None
        return RecordBatch(shard, offsets, values, [-1] * len(values), self.high_water(shard))

    def _cut(self, shard: Shard, offset: int) -> SourceError:
        size = f"{self._files[shard].name} has {self._files[shard].line} lines"
        if not self._by_content:
            return data_loss(shard, offset, size)
        # The file has its own number: no other offset would help, so parking is pointless.
        return SourceError(
            f"{size}, and {offset} were counted before: it was cut short since; give the whole file"
        )

    def _again(self, file: LineFile) -> LineFile:
        """Return the file opened anew; an error for standard input."""
        if file.path == STDIN:
            raise SourceError(
                f"standard input cannot go back from line {file.line}: run the replay again with "
                "the same input, it resumes where it was stored"
            )
        file.close()
        return LineFile(file.path)


def value_of(line: bytes) -> bytes | None:
    """Return the stripped line as a message's value; None for ``null``, a tombstone."""
    value = line.strip()
    return None if value == b"null" else value


def _content_number(file: LineFile) -> int:
    """Return 31 bits of the hash of the file's first event, as the number of its shard."""
    return int.from_bytes(blake2b(file.first(), digest_size=4).digest(), "big") >> 1
