"""Inbox: a folder whose files of events are copied into the event log, each event once.

A file that grows is read on from where it ended. A file that was read may be renamed or deleted: it
is known by its first event.
"""

from __future__ import annotations

import gzip
import logging
import zlib
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from io import BufferedReader
from pathlib import Path

import msgspec

from consumers.sources.event_log import EventLog, Mark
from consumers.sources.file_source import CHUNK_BYTES, MAX_LINE_BYTES, value_of
from monitor.errors import SourceError
from monitor.records import Shard

Chunks = Iterator[tuple[list[bytes], int]]
"""Events of a file in chunks, each with the position after it."""
Reader = Callable[[Path, int], Chunks]
"""Reader of one kind of file, from a position on; 0 is the beginning."""
DECISIONS, LABELS = "decisions", "labels"

_log = logging.getLogger("slicewatch.inbox")


class UnfinishedError(SourceError):
    """Error: the last event of a file is incomplete; all events before it were read."""


class _Event(msgspec.Struct):
    label_id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    type: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


BIAS_RESULT = msgspec.Raw(b'"bias_result"')
_events = msgspec.json.Decoder(_Event | list[_Event]).decode
_any_json = msgspec.json.Decoder(msgspec.Raw).decode


def read_json_lines(path: Path, position: int) -> Chunks:
    """Yield the lines of a file (plain, or .gz) from a byte position on, in chunks.

    A last line without an end is left for later while it is no whole JSON value: it is being
    written.
    """
    with _opened(path) as stream:
        stream.seek(position)
        rest = b""
        while data := stream.read(CHUNK_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                raise SourceError(f"it has a line of {len(rest) >> 20} MiB: no JSON lines")
            position += sum(map(len, lines)) + len(lines)
            yield lines, position
    if rest.strip():
        try:
            _any_json(rest)
        except (ValueError, RecursionError):
            raise UnfinishedError("its last line ends in the middle") from None
        yield [rest], position + len(rest)


_OF_JSON_LINES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
READERS: dict[str, Reader] = dict.fromkeys(_OF_JSON_LINES, read_json_lines)
"""Readers by the end of a file's name."""


class Inbox:
    """Folder that is looked at again and again; what is new in its files goes into the log.

    A name that begins with ``decisions`` or ``labels`` says what a file holds; in any other file
    each event says so itself.

    Args:
        folder: the folder, created if it is missing.
        log: where events are appended.
        topics: topics of decisions and of labels.
        mapped: whether the messages are mapped to events, so that only the name says their kind.
    """

    def __init__(
        self, folder: Path, log: EventLog, topics: tuple[str, str], *, mapped: bool = False
    ) -> None:
        self._folder = folder
        self._event_log = log
        self._shards = {
            kind: Shard(topic, 0) for kind, topic in zip((DECISIONS, LABELS), topics, strict=True)
        }
        self._mapped = mapped
        self._looked: dict[str, tuple[int, int]] = {}
        self._unfinished: set[str] = set()
        self._reported: dict[str, str] = {}
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def look(self) -> int:
        """Append what is new in all files; return the number of events; log what cannot be read."""
        events = 0
        for path in sorted(self._folder.iterdir()):
            if path.name.startswith(".") or not path.is_file():
                continue
            try:
                events += self._look_at(path)
            except (OSError, EOFError, zlib.error, SourceError) as error:
                self._report(path.name, str(getattr(error, "strerror", None) or error))
        return events

    def _look_at(self, path: Path) -> int:
        """Append what is new in one file, if it has changed; return the number of events."""
        status, name = path.stat(), path.name
        state = status.st_size, status.st_mtime_ns
        if self._looked.get(name) == state:
            if name in self._unfinished:  # its writer has had a whole interval
                self._report(name, "its last line ends in the middle, and waits for its end")
            return 0
        self._unfinished.discard(name)
        events = self._take(path)
        self._looked[name] = state
        self._reported.pop(name, None)
        return events

    def _take(self, path: Path) -> int:
        """Append a file's events to the log, from where it was left; return how many."""
        reader = READERS.get("".join(path.suffixes[-2:]).lower()) or READERS.get(path.suffix)
        if reader is None:
            raise SourceError(f"its name must end in {', '.join(READERS)}; rename or convert it")
        kind = next((kind for kind in self._shards if path.name.startswith(kind)), None)
        if kind is None and self._mapped:
            raise SourceError("with [mapping] its name must begin with decisions or labels")
        events = 0
        try:
            head = _head(reader(path, 0))
            for lines, position in reader(path, self._event_log.position(head)):
                values = [value for line in lines if (value := value_of(line)) != b""]
                self._event_log.append(self._by_shard(values, kind), Mark(head, position))
                events += len(values)
        except UnfinishedError:
            self._unfinished.add(path.name)
        if events and path.name not in self._looked:  # once, since it may grow every second
            _log.info("%s in the inbox was read", path.name)
        return events

    def _by_shard(
        self, values: Sequence[bytes | None], kind: str | None
    ) -> dict[Shard, list[bytes | None]]:
        sorted_values: dict[Shard, list[bytes | None]] = {}
        for value in values:
            shard = self._shards[kind or _kind(value)]
            sorted_values.setdefault(shard, []).append(value)
        return sorted_values

    def _report(self, name: str, reason: str) -> None:
        if self._reported.get(name) != reason:
            self._reported[name] = reason
            _log.error("%s in the inbox is not read, and tried again: %s", name, reason)


def _opened(path: Path) -> BufferedReader | gzip.GzipFile:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _head(chunks: Chunks) -> bytes:
    """Return the hash of a file's first event; that of nothing while it has only blank lines."""
    lines = (line.strip() for chunk, _ in chunks for line in chunk)
    return blake2b(next(filter(None, lines), b""), digest_size=16).digest()


def _kind(value: bytes | None) -> str:
    """Return whether a message holds labels (or bias results) or decisions, as it says itself."""
    try:
        event = _events(value or b"{}")
    except (ValueError, RecursionError):
        return DECISIONS
    first = event if isinstance(event, _Event) else next(iter(event), _Event())
    is_label = first.label_id is not msgspec.UNSET or first.type == BIAS_RESULT
    return LABELS if is_label else DECISIONS
