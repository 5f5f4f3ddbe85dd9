"""The producer of a router: it never waits, never fails, and counts what it could not send.

A router's call only encodes the event and puts it into a bounded buffer; a thread of the producer
sends it. What is in the buffer is lost if the process is killed. Decisions and labels have a
buffer, a thread and a connection each: a topic that is gone holds up its own events alone.
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
"""Messages: 5 MB of usual ones. A decision is never larger than some ten KB."""
BATCH = 500
EXIT_SECONDS = 2.0
"""Time that a process which ends without closing its producer gives it."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0  # seconds between attempts

_log = logging.getLogger("slicewatch.producing")


@dataclass(frozen=True, slots=True)
class Drawn:
    """Outcome of a decision: whether it is being sent, and how its label was drawn.

    Attributes:
        audit_p: probability with which its label is requested; None when it is not being sent.
        label_requested: whether to ask a reviewer. False when the decision is not being sent: no
            label could find it.
        buffered: whether it is being sent.
    """

    audit_p: float | None
    label_requested: bool
    buffered: bool


_NOT_SENT = Drawn(None, False, False)


class Producer:
    """Sends decisions and labels of a router. Every method may be called from any thread.

    It starts a thread with the first event of its kind; so it may be made before a server forks its
    workers, each of which then has buffers, threads and an account of its own.

    Args:
        connect: one of :func:`~consumers.producing.kafka_python`, ``confluent`` and ``http``, or
            any other function that connects.
        sampler: draws the audit sample; None where every decision brings its own ``audit_p`` and
            ``label_requested``.
        buffer: messages of a kind that may wait; what finds no room is dropped.
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
        self._begin()
        atexit.register(self.close, EXIT_SECONDS)
        if hasattr(os, "register_at_fork"):
            begin = weakref.WeakMethod(self._begin)
            os.register_at_fork(after_in_child=lambda: (there := begin()) and there())

    def _begin(self) -> None:
        """Without an event, and without a thread."""
        self._lanes: dict[Kind, _Lane] = {
            kind: _Lane(self._connect, self._room) for kind in get_args(Kind)
        }

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def counts(self) -> EventCounts:
        """Events of this process by what became of them."""
        accounts = zip(*(astuple(lane.buffer.counts) for lane in self._lanes.values()), strict=True)
        return EventCounts(*map(sum, accounts))

    @property
    def sent(self) -> int:
        """Events that were written."""
        return self.counts.sent

    @property
    def failed(self) -> int:
        """Events that the broker or the service refused for good."""
        return self.counts.failed

    @property
    def dropped(self) -> int:
        """Events that found no room, or were left when the producer was closed."""
        return self.counts.dropped

    @property
    def invalid(self) -> int:
        """Events that the service would not have counted, and that were not sent."""
        return self.counts.invalid

    def decision(self, source: object = None, /, **fields: object) -> Drawn:
        """Send a decision, with ``audit_p`` and ``label_requested`` filled in.

        Send a retry with the same id and the same ``decided_at``: it draws the same, and is counted
        once.

        Args:
            source: an object of the team's own with attributes named like the fields of a decision,
                or a mapping.
            fields: those that it lacks. With ``audit_p`` alone, the label is drawn at that
                probability; with ``label_requested`` too, nothing is drawn.

        Raises:
            EventError: only if strict.
        """
        try:
            said = self._drawn(fields_of("decision", source, fields))
            message = message_of("decision", said)
        except Exception as error:
            self._refuse("decision", error)
            return _NOT_SENT
        if not self._lanes["decision"].offer(message):
            return _NOT_SENT
        return Drawn(said["audit_p"], said["label_requested"], True)

    def label(self, source: object = None, /, **fields: object) -> bool:
        """Send a label, like :meth:`decision`; returns whether it is being sent."""
        try:
            message = message_of("label", fields_of("label", source, fields))
        except Exception as error:
            self._refuse("label", error)
            return False
        return self._lanes["label"].offer(message)

    def close(self, timeout: float = 5.0) -> bool:
        """Send what is in the buffers, for so many seconds at most; call it when the router stops.

        Returns:
            False when something was left, which is counted as dropped. Later events are dropped.
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

    def _drawn(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The same fields with the draw, unless they have it; what is wrong is not looked for."""
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
        """Count a wrong event, and say so the first time; or raise."""
        if self._strict:
            raise error
        self._lanes[kind].buffer.refuse()
        if isinstance(error, EventError):
            self._say_once(str(error), kind, error.reason, error.field)
        else:  # from the team's own objects: it may quote them
            self._say_once(f"{kind}: {type(error).__name__}", kind, type(error).__name__)

    def _say_once(self, text: str, *about: str) -> None:
        if about not in self._said:
            self._said.add(about)
            _log.warning("not sent, and counted as invalid: %s", text)


class _Lane:
    """Events of one kind on their way, with a thread that sends them."""

    def __init__(self, connect: Open, room: int) -> None:
        self.buffer = Buffer(room)
        self._connect = connect
        self._abandoned = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def offer(self, message: Message) -> bool:
        """Take an event, or drop it; returns whether it is being sent."""
        offered = self.buffer.offer(message)
        if self._thread is None and offered:
            with contextlib.suppress(RuntimeError):  # no thread to be had: the next call tries
                self._start()
        return offered

    def join(self, timeout: float) -> None:
        """Wait until all is sent, for so many seconds at most."""
        with self._starting:
            thread = self._thread
        if thread is not None:
            thread.join(max(0.0, timeout))

    def abandon(self) -> None:
        """Drop what is left."""
        self.buffer.abandon()
        self._abandoned.set()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="slicewatch", daemon=True)
                thread.start()
                self._thread = thread

    # On the thread

    def _run(self) -> None:
        sender = _Sender(self._connect, self.buffer, self._abandoned)
        while batch := self.buffer.take(BATCH):
            sender.send(batch)
        sender.close()


class _Sender:
    """Sends batch after batch, each until it is decided."""

    def __init__(self, connect: Open, buffer: Buffer, abandoned: threading.Event) -> None:
        self._connect = connect
        self._buffer = buffer
        self._abandoned = abandoned
        self._transport: Transport | None = None
        self._failing = False

    def send(self, batch: list[Message]) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                if self._transport is None:
                    self._transport = self._connect()
                written = self._transport.send(batch)
                break
            except Exception as error:
                self._report(error)
                self.close()  # a client whose topic is gone may never get over it
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
        if not self._failing:
            why = str(error) if isinstance(error, TransportError) else type(error).__name__
            _log.warning("events cannot be sent, they wait: %s", why)
            self._failing = True
