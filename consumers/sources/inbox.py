"""Inbox: a folder whose files of events are copied into the event log, each event once.

A file that grows is read on from where it ended. A file that was read may be renamed or deleted: it
is known by its first event.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path

from consumers.event_words import seems_label
from consumers.sources.event_log import EventLog, Mark
from consumers.sources.file_source import LineFile, value_of
from monitor.errors import SourceError
from monitor.records import Shard

Numbered = tuple[int, bytes | None]
"""Line of a message, from 1, and the message."""
Explain = Callable[[Sequence[Numbered], bool], Mapping[int, str]]
"""Says by line, in words, why messages cannot be counted; the flag says that they are labels."""
ARE_LABELS = {"decisions": False, "labels": True}
"""Beginnings of names that say what a file holds."""
SUFFIXES = (".jsonl", ".ndjson", ".csv", ".jsonl.gz", ".ndjson.gz", ".csv.gz")
SHOWN = 5
"""Lines of a file that are named with the same reason: a file may have a million of them."""

IDLE_SECONDS = 10
"""Age of a file whose unfinished line is named. No age says that a row of CSV is whole: writers
hold back half rows for hours, and a score of 0.9 may become 0.95."""
UNFINISHED = (
    "is read, but for line %d, which waits for its end (in CSV: a newline, or the end of a quote);"
    " if nobody writes the file any more, end it: echo >> FILE (of .gz: echo | gzip >> FILE)"
)

_log = logging.getLogger("slicewatch.inbox")


class Inbox:
    """Folder that is looked at again and again; what is new in its files goes into the log.

    A name that begins with ``decisions`` or ``labels`` says what a file holds; in any other file
    each event says so itself.

    Args:
        folder: the folder, created if it is missing.
        log: where events are appended.
        topics: topics of decisions and of labels.
        explain: says which messages cannot be counted, and why.
        mapped: whether labels are mapped, too, so that only the name says what a message is.
    """

    def __init__(
        self,
        folder: Path,
        log: EventLog,
        topics: tuple[str, str],
        explain: Explain,
        *,
        mapped: bool = False,
    ) -> None:
        self._folder = folder
        self._event_log = log
        self._shards = [Shard(topic, 0) for topic in topics]
        self._explain = explain
        self._mapped = mapped
        self._looked: dict[str, tuple[int, int]] = {}
        self._unfinished: dict[str, int] = {}
        self._reported: dict[str, str] = {}
        self._refused: Counter[tuple[str, str]] = Counter()
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
                self._report(path.name, f"is not read, and tried again: {error}")
        return events

    def _look_at(self, path: Path) -> int:
        """Append what is new in one file, if it has changed; return the number of events."""
        status, name = path.stat(), path.name
        state = status.st_size, status.st_mtime_ns
        if self._looked.get(name) == state:
            if self._unfinished[name] and time.time() - status.st_mtime > IDLE_SECONDS:
                self._report(name, UNFINISHED % self._unfinished[name])
            return 0
        events = self._take(path)
        self._looked[name] = state
        self._reported.pop(name, None)
        return events

    def _take(self, path: Path) -> int:
        """Append a file's events to the log, from where it was left; return how many."""
        name = path.name
        if not name.lower().endswith(SUFFIXES):
            raise SourceError(f"its name must end in {', '.join(SUFFIXES)}; rename or convert it")
        are_labels = next((ARE_LABELS[kind] for kind in ARE_LABELS if name.startswith(kind)), None)
        if are_labels is None and self._mapped:
            raise SourceError("with [mapping.labels] its name must begin with decisions or labels")
        events = 0
        with closing(LineFile(str(path), grows=True)) as file:
            head = blake2b(file.first(), digest_size=16).digest()
            mark = self._event_log.mark(head)
            file.seek(mark.position, mark.line)
            while not file.ended:
                first = file.line + 1
                messages = [
                    (number, value)
                    for number, line in enumerate(file.read(), first)
                    if (value := value_of(line)) != b""
                ]
                if messages:
                    self._append(name, messages, are_labels, Mark(head, file.position, file.line))
                    events += len(messages)
        self._unfinished[name] = file.line + 1 if file.unfinished else 0
        if events and name not in self._looked:  # once, since it may grow every second
            _log.info("%s in the inbox was read", name)
        return events

    def _append(
        self, name: str, messages: Sequence[Numbered], are_labels: bool | None, mark: Mark
    ) -> None:
        """Append messages of one file, and then name those that cannot be counted."""
        parts: dict[bool, list[Numbered]] = {}
        for line, value in messages:
            is_label = seems_label(value) if are_labels is None else are_labels
            parts.setdefault(is_label, []).append((line, value))
        values = {self._shards[kind]: [value for _, value in part] for kind, part in parts.items()}
        self._event_log.append(values, mark)
        for kind, part in parts.items():
            for line, text in sorted(self._explain(part, kind).items()):
                self._refused[name, text] += 1
                if self._refused[name, text] <= SHOWN:
                    _log.warning("%s in the inbox, line %d: %s; not counted", name, line, text)

    def _report(self, name: str, text: str) -> None:
        if self._reported.get(name) != text:
            self._reported[name] = text
            _log.error("%s in the inbox %s", name, text)
