"""From messages to typed events: the hot path decodes a whole batch in one ``try``.

Only a batch that fails is read message by message and event by event. An unreadable event
becomes a dead letter that names the field and never holds the payload.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from consumers.dead_letters import DeadLetterBuffer
from consumers.events import MAX_EVENTS_PER_MESSAGE, FastDecision, Label
from monitor.core.counts.cells import Int64s
from monitor.ports import RecordBatch

Event = TypeVar("Event", FastDecision, Label)

# Anchored at both ends: what lies between may quote the payload, of which nothing may be kept.
_PATH = re.compile(r" - at `\$\.?([a-z_.]*)[^`]*`\Z")
_WRONG_TYPE = re.compile(r"Expected `[^`]*`, got `")
_MISSING = re.compile(r"Object missing required field `([a-z_]+)`")


@dataclass(frozen=True, slots=True)
class Decoded(Generic[Event]):
    """Events of one batch with the place of each; what could not be read is in the letters.

    Attributes:
        events: in order of arrival.
        offsets: offset of the message of each event.
        items: index of each event within its message.
        timestamps: the broker's timestamp of its message, milliseconds, -1 when unknown.
    """

    events: list[Event]
    offsets: Int64s
    items: Int64s
    timestamps: Int64s

    def take(self, rows: Sequence[int]) -> Decoded[Event]:
        """The chosen events, in the order given."""
        chosen = np.array(rows, np.int64)
        return Decoded(
            [self.events[row] for row in rows],
            self.offsets[chosen],
            self.items[chosen],
            self.timestamps[chosen],
        )


class Reader(Generic[Event]):
    """Decodes messages of one topic; a message holds one event or an array of them."""

    def __init__(self, event: type[Event]) -> None:
        self._decode_any: Callable[[bytes], Any] = msgspec.json.Decoder(event | list[event]).decode  # type: ignore[valid-type]
        self._decode_one: Callable[[bytes], Event] = msgspec.json.Decoder(event).decode
        self._decode_raw = msgspec.json.Decoder(list[msgspec.Raw]).decode

    def read(self, records: RecordBatch, letters: DeadLetterBuffer) -> Decoded[Event]:
        """Decode all messages of a batch; what is unreadable goes to ``letters``."""
        try:
            decoded = [self._decode_any(value) for value in records.values]  # type: ignore[arg-type]
        except (ValueError, TypeError, RecursionError):
            return self._one_by_one(records, letters)  # find out what is unreadable or missing
        sizes = [len(item) if type(item) is list else 1 for item in decoded]
        if max(sizes, default=0) > MAX_EVENTS_PER_MESSAGE:
            return self._one_by_one(records, letters)
        return self._together(records, decoded, sizes)

    def _together(
        self, records: RecordBatch, decoded: list[Any], sizes: list[int]
    ) -> Decoded[Event]:
        offsets = np.asarray(records.offsets, np.int64)
        timestamps = np.asarray(records.timestamps, np.int64)
        if not any(type(item) is list for item in decoded):
            return Decoded(decoded, offsets, np.zeros(len(decoded), np.int64), timestamps)
        events: list[Event] = []
        for item in decoded:
            if type(item) is list:
                events.extend(item)
            else:
                events.append(item)
        counts = np.array(sizes, np.int64)
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        return Decoded(
            events,
            np.repeat(offsets, counts),
            np.arange(len(events)) - starts,
            np.repeat(timestamps, counts),
        )

    def _one_by_one(self, records: RecordBatch, letters: DeadLetterBuffer) -> Decoded[Event]:
        events: list[Event] = []
        places: list[tuple[int, int, int]] = []
        for offset, value, at in zip(
            records.offsets, records.values, records.timestamps, strict=True
        ):
            for item, event in self._message(offset, value, letters):
                events.append(event)
                places.append((offset, item, at))
        offsets, items, timestamps = np.array(places, np.int64).reshape(-1, 3).T
        return Decoded(events, offsets, items, timestamps)

    def _message(
        self, offset: int, value: bytes | None, letters: DeadLetterBuffer
    ) -> list[tuple[int, Event]]:
        if value is None:
            letters.refuse(offset, 0, "tombstone", "")
            return []
        if value.lstrip()[:1] != b"[":
            return self._parts(offset, [value], letters)
        try:
            parts = self._decode_raw(value)
        except (ValueError, RecursionError) as error:
            letters.refuse(offset, 0, *_why(error))
            return []
        if len(parts) > MAX_EVENTS_PER_MESSAGE:
            letters.refuse(offset, 0, "too_many_events", "")
            return []
        return self._parts(offset, parts, letters)

    def _parts(
        self, offset: int, parts: Sequence[bytes | msgspec.Raw], letters: DeadLetterBuffer
    ) -> list[tuple[int, Event]]:
        events: list[tuple[int, Event]] = []
        for item, part in enumerate(parts):
            try:
                events.append((item, self._decode_one(bytes(part))))
            except (ValueError, RecursionError) as error:
                letters.refuse(offset, item, *_why(error))
        return events


def _why(error: Exception) -> tuple[str, str]:
    """Reason and field of an unreadable event; never a word of its content."""
    if not isinstance(error, msgspec.ValidationError):
        return "malformed_json", ""
    text = str(error)
    if text.startswith("Object contains unknown field"):
        return "unknown_field", ""
    if missing := _MISSING.match(text):
        return "missing_field", missing.group(1)
    path = _PATH.search(text)
    reason = "wrong_type" if _WRONG_TYPE.match(text) else "invalid_value"
    return reason, path.group(1) if path else ""
