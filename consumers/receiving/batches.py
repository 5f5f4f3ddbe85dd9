"""Batches of events as producers post them: JSON lines, a JSON array, or one event."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import msgspec

from consumers.tolerance import decode_tolerantly

JSON_LINES = "application/x-ndjson"
MAX_EVENTS = 1_000
MAX_EVENT = 64 * 1024
"""Most bytes of an event; the largest that can be counted has about ten KB."""

_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


@dataclass(frozen=True, slots=True)
class EventRefusal:
    """Refusal of one posted event: its line, kind, reason and field.

    Attributes:
        line: line of the event, or its place in the array, counted from 1.
        kind: decision or label; decision where it is unknown.
        reason: as in a dead letter.
        field: field of the schema; empty where none is to blame.
    """

    line: int
    kind: str
    reason: str
    field: str


class BatchError(ValueError):
    """Error for a posted batch as a whole: one refusal, or None if it has too many events.

    Attributes:
        refusal: refusal of the whole batch; None when it has too many events.
    """

    def __init__(self, refusal: EventRefusal | None = None) -> None:
        super().__init__()
        self.refusal = refusal


def events_of(body: bytes, kind: str) -> list[tuple[int, bytes]]:
    """Return the events in the body of a batch, each with its line from 1; blank lines are skipped.

    Args:
        body: body of the request.
        kind: media type of the body.

    Raises:
        BatchError: too many events, or a broken JSON array.
    """
    if kind == JSON_LINES:
        lines = [(i, line) for i, line in enumerate(body.split(b"\n"), 1) if line.strip()]
    elif body.lstrip()[:1] == b"[":
        # A small body may have a million events.
        lines = [(i, bytes(e)) for i, e in enumerate(islice(_elements(body), MAX_EVENTS + 1), 1)]
    else:
        lines = [(1, body)]
    if len(lines) > MAX_EVENTS:
        raise BatchError
    return lines


def _elements(body: bytes) -> list[msgspec.Raw]:
    try:
        return decode_tolerantly(_array, body)
    except (ValueError, RecursionError):
        raise BatchError(EventRefusal(1, "decision", "malformed_json", "")) from None
