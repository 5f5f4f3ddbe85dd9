"""A batch of events as a producer posts it: JSON lines, a JSON array, or one event."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass

import msgspec

JSON_LINES = "application/x-ndjson"
MAX_EVENTS = 1_000
MAX_EVENT = 64 * 1024
"""Bytes of one event; the largest that can be counted has some ten KB."""

_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


@dataclass(frozen=True, slots=True)
class EventRefusal:
    """An event that is not written, since it would not be counted.

    Attributes:
        line: its line, or its place in the array, counted from 1.
        kind: decision or label.
        reason: as a dead letter has it.
        field: as a dead letter has it; empty where none is to blame.
    """

    line: int
    kind: str
    reason: str
    field: str


class BatchError(ValueError):
    """A batch that no event can be taken from.

    Attributes:
        refusal: what is wrong with it; None when it has too many events.
    """

    def __init__(self, refusal: EventRefusal | None = None) -> None:
        super().__init__()
        self.refusal = refusal


def events_of(body: bytes, kind: str) -> list[tuple[int, bytes]]:
    """The events of a batch, each with its line; blank lines are none.

    Args:
        body: of the request.
        kind: its media type.

    Raises:
        BatchError: too many events, or no JSON array where one begins.
    """
    if kind == JSON_LINES:
        lines = [(i, line) for i, line in enumerate(body.split(b"\n"), 1) if line.strip()]
    elif body.lstrip()[:1] == b"[":
        elements = _elements(body)
        _check_number(elements)  # a small body may have a million of them
        lines = [(i, bytes(one)) for i, one in enumerate(elements, 1)]
    else:
        lines = [(1, body)]
    _check_number(lines)
    return lines


def _elements(body: bytes) -> list[msgspec.Raw]:
    try:
        return _array(body)
    except (ValueError, RecursionError):
        raise BatchError(EventRefusal(1, "decision", "malformed_json", "")) from None


def _check_number(events: Sized) -> None:
    if len(events) > MAX_EVENTS:
        raise BatchError
