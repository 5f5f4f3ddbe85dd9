"""Producer for a router: it never waits, never fails, and counts events that it could not send.

A router's call only encodes the event and puts it into a bounded buffer; a thread of the producer
sends it. Buffered events are lost if the process is killed. Decisions and labels have a buffer, a
thread and a connection each: a deleted topic holds up its own events only.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
import weakref
from dataclasses import astuple, dataclass
from typing import Any, get_args

from consumers.producing.buffer import Buffer, EventCounts
from consumers.producing.making import EventError, Kind, Message, fields_of, message_of
from consumers.producing.sampling import ROUTES, AuditSampler
from consumers.producing.transports import Open, Transport, TransportError

BUFFER = 10_000
"""Messages in the buffer: 5 MB of usual ones. A decision has at most about ten KB."""
BATCH = 500
EXIT_SECONDS = 2.0
"""Time for sending when a process ends without closing its producer."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0  # seconds between attempts

_log = logging.getLogger("slicewatch.producing")


@dataclass(frozen=True, slots=True)
class Drawn:
    """Outcome of sending a decision: whether it is buffered, and how its label was drawn.

    Attributes:
        audit_p: probability that its label is requested; None when it is not being sent.
        label_requested: whether to ask a reviewer; False when the decision is not being sent, since
            no label could find it.
        buffered: whether the decision is being sent.
    """

    audit_p: float | None
    label_requested: bool
    buffered: bool


_NOT_SENT = Drawn(None, False, False)


class Producer:
    """Sender of a router's decisions and labels. Every method may be called from any thread.

    It starts a thread with the first event of a kind. So it may be made before a server forks its
    workers; each then has buffers, threads and counts of its own.

    Args:
        connect: one of :func:`~consumers.producing.kafka_python`, ``confluent`` and ``http``, or
            any other function that connects.
        sampler: draws the audit sample; None where every decision has its own ``audit_p`` and
            ``label_requested``.
        buffer: most waiting messages of a kind; further ones are dropped.
        strict: raise EventError for a wrong event instead of counting it: for tests.
    """

    def __init__(
        self,
        connect: Open,
        sampler: AuditSampler | None = None,
        *,
        buffer: int = BUFFER,
        strict: bool = False,
    ) -> None:
        if buffer < 1:
            raise ValueError("buffer must be at least 1: it is a number of messages")
        self._connect = connect
        self._sampler = sampler
        self._room = buffer
        self._strict = strict
        self._said: set[tuple[str, ...]] = set()
        self._reset_lanes()
        atexit.register(self.close, EXIT_SECONDS)
        if hasattr(os, "register_at_fork"):
            begin = weakref.WeakMethod(self._reset_lanes)
            os.register_at_fork(after_in_child=lambda: (restart := begin()) and restart())

    def _reset_lanes(self) -> None:
        """Replace the lanes by empty ones without threads, at the start and in a forked process."""
        self._lanes: dict[Kind, _Lane] = {
            kind: _Lane(self._connect, self._room) for kind in get_args(Kind)
        }

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def counts(self) -> EventCounts:
        """Return the number of this process's events by outcome, of both kinds together."""
        accounts = zip(*(astuple(lane.buffer.counts) for lane in self._lanes.values()), strict=True)
        return EventCounts(*map(sum, accounts))

    @property
    def sent(self) -> int:
        """Return the number of events that were written."""
        return self.counts.sent

    @property
    def failed(self) -> int:
        """Return the number of events that the broker or the service refused for good."""
        return self.counts.failed

    @property
    def dropped(self) -> int:
        """Return the number of events that found no room, or were left at the close."""
        return self.counts.dropped

    @property
    def invalid(self) -> int:
        """Return the number of events that were not sent since the service would not count them."""
        return self.counts.invalid

    def decision(self, source: object = None, /, **fields: object) -> Drawn:
        """Buffer a decision, with the audit draw filled in; return the draw, or that it is lost.

        Send a retry with the same id and the same ``decided_at``: it draws the same, and is counted
        once.

        Args:
            source: an object of the team's own with attributes named like the fields of a decision,
                or a mapping.
            fields: further fields. With ``audit_p`` alone, the label is drawn at that probability;
                with ``label_requested`` too, nothing is drawn.

        Raises:
            EventError: only if strict.
        """
        try:
            event_fields = self._with_draw(fields_of("decision", source, fields))
            message = message_of("decision", event_fields)
        except Exception as error:
            self._refuse("decision", error)
            return _NOT_SENT
        if not self._lanes["decision"].offer(message):
            return _NOT_SENT
        return Drawn(event_fields["audit_p"], event_fields["label_requested"], True)

    def label(self, source: object = None, /, **fields: object) -> bool:
        """Buffer a label, made like :meth:`decision`; return whether it is being sent."""
        try:
            message = message_of("label", fields_of("label", source, fields))
        except Exception as error:
            self._refuse("label", error)
            return False
        return self._lanes["label"].offer(message)

    def close(self, timeout: float = 5.0) -> bool:
        """Send buffered events within ``timeout`` seconds and close; return True if none remain.

        Returns:
            False when events were left, which are counted as dropped. Later events are dropped.
        """
        atexit.unregister(self.close)
        deadline = time.monotonic() + timeout
        for lane in self._lanes.values():
            lane.buffer.close()
        for lane in self._lanes.values():
            lane.join(deadline - time.monotonic())
        left = self.counts.waiting
        for lane in self._lanes.values():
            lane.abandon()
        return not left

    def _with_draw(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with the audit draw, unless they have one or are too wrong for it."""
        decision_id, route, rate = (fields.get(n) for n in ("decision_id", "route", "audit_p"))
        if (
            self._sampler is None
            or "label_requested" in fields
            or not isinstance(decision_id, str | int)
        ):
            return fields
        if isinstance(rate, int | float):
            draw = self._sampler.draw_at(decision_id, rate)
        elif rate is None and isinstance(route, str) and route in ROUTES:
            draw = self._sampler.draw(decision_id, route)
        else:
            return fields
        return fields | {"audit_p": draw.audit_p, "label_requested": draw.label_requested}

    def _refuse(self, kind: Kind, error: Exception) -> None:
        """Count an invalid event and log each kind of error once; if strict, raise the error."""
        if self._strict:
            raise error
        self._lanes[kind].buffer.refuse()
        if isinstance(error, EventError):
            self._say_once(str(error), kind, error.reason, error.field)
        else:  # an error of the team's own objects may quote them
            self._say_once(f"{kind}: {type(error).__name__}", kind, type(error).__name__)

    def _say_once(self, text: str, *about: str) -> None:
        """Log why an event is not sent, once for each kind and reason."""
        if about not in self._said:
            self._said.add(about)
            _log.warning("not sent, and counted as invalid: %s", text)


class _Lane:
    """Buffer for one kind of events, with a thread that sends them; part of a Producer."""

    def __init__(self, connect: Open, room: int) -> None:
        self.buffer = Buffer(room)
        self._connect = connect
        self._abandoned = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def offer(self, message: Message) -> bool:
        """Buffer or drop a message, and start the thread; return whether it is buffered."""
        offered = self.buffer.offer(message)
        if self._thread is None and offered:
            # Where no thread can start now, the next call tries again.
            with contextlib.suppress(RuntimeError):
                self._start()
        return offered

    def join(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds for the thread to send all events of a closed buffer."""
        with self._starting:
            thread = self._thread
        if thread is not None:
            thread.join(max(0.0, timeout))

    def abandon(self) -> None:
        """Count remaining events as dropped, and let the thread end."""
        self.buffer.abandon()
        self._abandoned.set()

    def _start(self) -> None:
        """Start the thread that sends, at the first event."""
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="slicewatch", daemon=True)
                thread.start()
                self._thread = thread

    # On the thread

    def _run(self) -> None:
        """Send batches until the producer closes."""
        sender = _Sender(self._connect, self.buffer, self._abandoned)
        while batch := self.buffer.take(BATCH):
            sender.send(batch)
        sender.close()


class _Sender:
    """Sender of batches to a transport, each retried until its outcome is known."""

    def __init__(self, connect: Open, buffer: Buffer, abandoned: threading.Event) -> None:
        self._connect = connect
        self._buffer = buffer
        self._abandoned = abandoned
        self._transport: Transport | None = None
        self._failing = False

    def send(self, batch: list[Message]) -> None:
        """Send a batch until it is written or abandoned, with growing pauses between tries."""
        pause = _FIRST_PAUSE
        while True:
            try:
                if self._transport is None:
                    self._transport = self._connect()
                written = self._transport.send(batch)
                break
            except Exception as error:
                self._report(error)
                self.close()  # a client whose topic was deleted may never recover
            if self._abandoned.wait(pause):
                return
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._buffer.settle(written)
        if self._failing:
            _log.warning("events are being sent again")
            self._failing = False

    def close(self) -> None:
        if self._transport is not None:
            with contextlib.suppress(Exception):
                self._transport.close()
            self._transport = None

    def _report(self, error: Exception) -> None:
        """Log the first failure of a row of failures."""
        if not self._failing:
            why = str(error) if isinstance(error, TransportError) else type(error).__name__
            _log.warning("events cannot be sent, they wait: %s", why)
            self._failing = True
