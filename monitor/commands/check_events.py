"""``slicewatch check --events``: report how each event of a file would be counted.

Decoding, coding and clocks are those of ``slicewatch replay``, but nothing is stored. No content
of an event is printed: it may be about real people, and output may end in a log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from consumers.event_words import EXPECTED, kind_of, nearest, refusal_text
from consumers.events import MAX_EVENTS_PER_MESSAGE
from consumers.field_values import TIMES, value_text
from consumers.shard import Codecs, ShardState
from consumers.sources.file_source import LineFile, value_of
from consumers.tolerance import decode_tolerantly
from consumers.unknown_fields import is_plain
from monitor.commands.replay import topic_and_path
from monitor.composition.ingest import as_history, checking_codecs, event_mappings
from monitor.core.counts.coding import Attribute
from monitor.core.publish.words import times
from monitor.flushes import DeadLetter
from monitor.records import RecordBatch, Shard
from monitor.settings import Settings
from monitor.shard_status import Claim, Tallies

LINES_AT_ONCE = 500
"""Lines per batch: fewer than the dead letters that a batch keeps."""
SHOWN_EACH = 5
"""Lines printed per kind of finding; further lines are only counted."""


class _Findings:
    """Counter of findings in one file; the first of each kind are shown with their line."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._seen: Counter[str] = Counter()

    def add(self, line: int, text: str) -> Iterator[str]:
        """Count a finding at ``line`` (from 1); yield its text if few of its kind are shown."""
        self._seen[text] += 1
        if self._seen[text] <= SHOWN_EACH:
            yield f"{self._name}:{line}: {text}"

    def rest(self) -> Iterator[str]:
        """Yield a line per kind of finding with the number that was not shown."""
        for text, number in self._seen.items():
            if number > SHOWN_EACH:
                yield f"{self._name}: {number - SHOWN_EACH:,} more lines: {text}"


class EventCheck:
    """Check of event files one after the other; counts bad events and collects ids.

    Attributes:
        bad: number of events that would not be counted.
    """

    def __init__(
        self, settings: Settings, now: int, labelled: frozenset[str] = frozenset()
    ) -> None:
        self._settings = as_history(settings)
        self._requested = labelled
        self._now = now
        self._decided: set[str] = set()
        self._labelled: list[str] = []
        self.bad = 0

    def lines(self, name: str) -> Iterator[str]:
        """Check one file, and yield the lines to print about it.

        Raises:
            SourceError: the file cannot be read, or its kind of event is unknown.
        """
        topic, path = topic_and_path(name, self._settings)
        of_decisions = topic == self._settings.stream.decisions_topic
        check = _FileCheck(self._settings, path, of_decisions, self._now, self._requested)
        yield from check.lines()
        (self._decided.update if of_decisions else self._labelled.extend)(check.ids)
        self.bad += check.bad

    def joined(self) -> Iterator[str]:
        """Yield a line on how many labels have their decision in the files; none without both."""
        if self._decided and self._labelled:
            matched = sum(decision_id in self._decided for decision_id in self._labelled)
            yield (
                f"{matched:,} of {len(self._labelled):,} labels have their decision in these files;"
                " the others would wait for it"
            )


class _FileCheck:
    """Check of one file of events: what of it would be counted, and why not the rest."""

    def __init__(
        self, settings: Settings, path: str, of_decisions: bool, now: int, labelled: frozenset[str]
    ) -> None:
        self._file = LineFile(path)
        self._kind = "decision" if of_decisions else "label"
        self._of_decisions = of_decisions
        self._now = now
        self._mapping = event_mappings(settings, labelled)[not of_decisions]
        self._attributes = settings.coding.attributes
        self._findings = _Findings(self._file.name)
        self._coded: dict[str, Counter[str]] = {a.name: Counter() for a in self._attributes}
        self._unknown: Counter[str] = Counter()
        self._kept: dict[int, bytes] = {}
        codecs: Codecs = checking_codecs(settings, labelled)
        claim = Claim(Shard(self._kind, 0), 1, 0, 0, None, None, Tallies())
        self._state = ShardState.from_claim(claim, codecs, of_decisions, 0)
        self._unkept, self._complete = 0, True
        self.ids: list[str] = []

    @property
    def bad(self) -> int:
        """Number of events refused so far."""
        return sum(self._state.tallies.dead_letters.values())

    def lines(self) -> Iterator[str]:
        for batch in self._batches():
            self._state.add(batch, self._now)
            yield from self._flush_lines()
        self._state.judge_aside(self._now, None, ended=True)
        yield from self._flush_lines()
        yield from self._findings.rest()
        yield from self._summary()

    def _batches(self) -> Iterator[RecordBatch]:
        """Yield the file's lines in batches, and keep them until their findings are printed."""
        while not self._file.ended:
            first, lines = self._file.line, iter(self._file.read())
            while chunk := list(islice(lines, LINES_AT_ONCE)):
                numbered = [(first + i, line) for i, line in enumerate(chunk) if line.strip()]
                first += len(chunk)
                self._kept |= dict(numbered)
                offsets, values = [n for n, _ in numbered], [value_of(line) for _, line in numbered]
                yield RecordBatch(self._state.shard, offsets, values, [-1] * len(values))
        self._file.close()

    def _flush_lines(self) -> Iterator[str]:
        """Flush the judged lines, and yield their findings."""
        flush = self._state.flush()
        refused = {(letter.offset, letter.index): letter for letter in flush.dead_letters}
        self._unknown.update(self._state.flushed(flush.tallies).unknown)
        self._complete = flush.tallies.unkept == self._unkept
        if not self._complete:
            unkept = flush.tallies.unkept - self._unkept
            yield (
                f"{self._file.name}: {unkept:,} more events that could not be read, up to line"
                f" {self._state.next_offset:,}"
            )
        self._unkept = flush.tallies.unkept
        for line in [number for number in self._kept if number < self._state.next_offset]:
            yield from self._line(line, self._kept.pop(line), refused)

    def _line(
        self, line: int, value: bytes, refused: Mapping[tuple[int, int], DeadLetter]
    ) -> Iterator[str]:
        """Yield what is to be said of each event of a line: refused, or with what defects."""
        value = value if self._mapping is None else self._mapping(value)
        events = _events(value)[:MAX_EVENTS_PER_MESSAGE]
        for index in range(max(len(events), 1)):
            event = events[index] if index < len(events) else None
            letter = refused.get((line, index))
            if letter is not None:
                text = f"{_refusal(letter, event)}{self._zone_hint(letter)}: not counted"
                yield from self._findings.add(line + 1, text)
                if letter.reason == "too_many_events":
                    return
            elif isinstance(event, dict) and self._complete:  # else it may be bad itself
                for text in self._event_notes(event):
                    yield from self._findings.add(line + 1, text)

    def _zone_hint(self, letter: DeadLetter) -> str:
        """Return how a mapping can read a time that was refused; else no text."""
        if self._mapping is None or letter.field not in TIMES or letter.reason == "missing_field":
            return ""
        return f"; set time_zone, or times, in [mapping.{self._kind}s]"

    def _event_notes(self, event: Mapping[str, Any]) -> Iterator[str]:
        """Collect the event's id; yield notes on values that may be counted other than meant."""
        self.ids.append(str(event["decision_id"]))
        if not self._of_decisions:
            return
        versions = event.get("versions") or {}
        for attribute in self._attributes:
            part = attribute.version_of
            sent = event["attributes"].get(attribute.name) if part is None else versions.get(part)
            yield from self._attribute(attribute, sent)
        score, threshold = event.get("judge_score"), event.get("threshold")
        floor = 0 if threshold is None else threshold
        if event["route"] == "auto_serve" and score is not None and score < floor:
            yield "auto_serve although judge_score is below threshold: counted as it is"

    def _attribute(self, attribute: Attribute, value: Any) -> Iterator[str]:
        """Count an attribute's value, and yield a finding if it is not listed."""
        code = attribute.code(None if value is None else value_text(value))
        is_listed = code in attribute.values
        self._coded[attribute.name]["listed" if is_listed else code] += 1
        if value is not None and not is_listed:
            near = nearest(value_text(value), attribute.values)
            meant = f"; did you mean {near}?" if near else ""
            kind = kind_of(value)
            yield (
                f"attribute {attribute.name} is {kind} that is not listed: counted as {code}{meant}"
            )

    def _summary(self) -> Iterator[str]:
        name, tallies = self._file.name, self._state.tallies
        yield (
            f"{name}: {tallies.events:,} {self._kind}s in {self._file.line:,} lines;"
            f" {tallies.events - self.bad - tallies.duplicates:,} would be counted,"
            f" {tallies.duplicates:,} are copies, {self.bad:,} could not be counted"
        )
        for attribute, codes in self._coded.items() if self._of_decisions else ():
            parts = ", ".join(f"{number:,} {code}" for code, number in sorted(codes.items()))
            yield f"{name}: attribute {attribute}: {parts or 'no decisions'}"
        for field, events in self._unknown.most_common():
            shown = field if is_plain(field) else "with names that look like no field"
            yield f"{name}: field {shown}: dropped unread, {times(events)}{self._hint(field)}"

    def _hint(self, field: str) -> str:
        """Return a hint at the field that a dropped ``field`` may have meant; else no text."""
        for attribute in self._attributes:
            if attribute.version_of and field == f"attributes.{attribute.name}":
                return f"; the value is taken from versions.{attribute.version_of}"
        near = nearest(field, tuple(EXPECTED)) if "." not in field else None
        return f"; did you mean {near}?" if near else ""


def _events(value: bytes) -> list[Any]:
    try:
        content = decode_tolerantly(msgspec.json.decode, value)
    except (ValueError, RecursionError):
        return []
    return content if isinstance(content, list) else [content]


def _refusal(letter: DeadLetter, event: Any) -> str:
    field_value = event.get(letter.field) if isinstance(event, dict) else None
    return refusal_text(letter.reason, letter.field, field_value)
