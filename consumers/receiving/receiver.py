"""HTTP endpoint for events: writes good events to Kafka, or to the event log; then answers."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from consumers.event_words import why
from consumers.receiving.batches import BatchError, EventRefusal, events_of
from consumers.receiving.event_judge import EventJudge, Good
from monitor.errors import FullLogError, SourceError
from monitor.records import Record

PATH = "/v1/events"
MAX_SHOWN = 100
"""Refusals that an answer lists; ``refused`` counts all."""
_RETRY = {"Retry-After": "5"}
_FULL = HTTPStatus.INSUFFICIENT_STORAGE
_ADVICE = (
    ": the disk is full, and nothing of this batch was kept; free space there, and send the batch"
    " again"
)

_log = logging.getLogger("slicewatch.receiving")


class Writer(Protocol):
    """Protocol of a writer: a KafkaWriter, which connects when it is first used, or an EventLog."""

    def write(self, records: Sequence[Record]) -> None:
        """Write records, and wait until all are written; raise SourceError if any is not."""

    def close(self) -> None:
        """Close the connection to Kafka, or the log."""


Count = Callable[[Mapping[tuple[str, str], int]], None]
"""Counts unreadable events by reason and field."""


@dataclass(frozen=True, slots=True)
class RefusedEvent(EventRefusal):
    """Refused event in an answer, explained without its content.

    Attributes:
        message: reason and field in words, with what was expected.
    """

    message: str


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """Answer to a posted batch: numbers of written and refused events, and the first refusals.

    Attributes:
        written: number of events that Kafka or the event log has.
        refused: number of events that were not written.
        events: the first refused events.
    """

    written: int
    refused: int
    events: list[RefusedEvent]


class EventReceiver:
    """Receiver of posted batches, which it judges and writes. Any thread may use it.

    Args:
        judge: decides which events may be written.
        writer: writer to Kafka or to the event log.
        topics: topics of decisions and of labels.
        count: counts refused events.
    """

    def __init__(
        self, judge: EventJudge, writer: Writer, topics: tuple[str, str], count: Count
    ) -> None:
        self._judge = judge
        self._writer = writer
        self._topics = topics
        self._count = count
        self._failing = False

    def view(self, request: Request) -> Response:
        """Write a posted batch's good events; answer 200 if all are written, 422 if some are not.

        With 422 all other events are written. With 503 it is unknown how many were written, with
        507 (the disk of the event log is full) none are.
        """
        try:
            events = events_of(request.state.body, request.state.kind)
        except BatchError as error:
            if error.refusal is None:
                return _text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return self._answer(0, [error.refusal])
        good, refused = self._judge.judge(events)
        try:
            self._write(good)
        except SourceError as error:
            self._report(error)
            is_full = isinstance(error, FullLogError)
            return _text(_FULL if is_full else HTTPStatus.SERVICE_UNAVAILABLE, _RETRY)
        self._failing = False
        return self._answer(len(good), refused)

    def close(self) -> None:
        """Close the writer."""
        self._writer.close()

    def _write(self, good: Sequence[Good]) -> None:
        if good:
            self._writer.write([Record(self._topics[g.is_label], g.key, g.value) for g in good])

    def _answer(self, written: int, refused: Sequence[EventRefusal]) -> Response:
        """Return the answer: how many were written and why the others were refused."""
        self._count(Counter((refusal.reason, refusal.field) for refusal in refused))
        shown = [
            RefusedEvent(**asdict(refusal), message=why(refusal.reason, refusal.field))
            for refusal in refused[:MAX_SHOWN]
        ]
        body = msgspec.json.encode(BatchAnswer(written, len(refused), shown))
        status = HTTPStatus.UNPROCESSABLE_ENTITY if refused else HTTPStatus.OK
        return Response(body, status, media_type="application/json")

    def _report(self, error: SourceError) -> None:
        if not self._failing:
            self._failing = True
            _log.error("events over HTTP cannot be written: %s", error)


def _text(status: HTTPStatus, headers: Mapping[str, str] | None = None) -> Response:
    advice = _ADVICE if status is _FULL else ""
    return PlainTextResponse(f"{status.value} {status.phrase}{advice}\n", status, headers)
