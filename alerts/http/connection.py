"""Connection of a client: uvicorn's HTTP protocol with deadlines and client certificates."""

from __future__ import annotations

import asyncio
import enum
import math
import time
from collections.abc import Callable
from http import HTTPStatus

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from alerts.http.config import Timeouts, common_name

CERTIFICATE = "certificate"
"""Key in a request's state for the name in the client's checked certificate, or None."""
MAX_HEAD = 16 * 1024  # bytes; the head of a scrape is under 1 KiB
_BUFFER = 64 * 1024  # bytes of a response that wait for the client, in addition to a piece
_PATIENCE = 0.25  # seconds of a request while others wait for its slot
_STALLED = 1.0  # seconds; no reader needs longer for a piece


class Phase(enum.Enum):
    """Phase of a connection, named by what it waits for."""

    READING = enum.auto()  # for the client's handshake or request
    WORKING = enum.auto()  # for us
    WRITING = enum.auto()  # for the client to take the response


_KEPT_WAITING = {Phase.READING: _PATIENCE, Phase.WRITING: _STALLED, Phase.WORKING: math.inf}


class Connection(H11Protocol):
    """Protocol of one client's connection, with its phase, the phase's start, and a deadline.

    uvicorn sets no deadline for the first request or for taking a response, and it cuts off a
    client that has closed its sending side before the answer.

    Attributes:
        since: monotonic time at which the phase began.
        deadline: monotonic time at which the connection is ended.
    """

    def __init__(
        self,
        config: Config,
        state: ServerState,
        timeouts: Timeouts,
        gone: Callable[[Connection], None],
    ) -> None:
        """Create the protocol of a connection.

        Args:
            config: settings of uvicorn.
            state: uvicorn's state of all connections.
            timeouts: time-outs of the client.
            gone: called at the end of the connection.
        """
        super().__init__(config, state, {CERTIFICATE: None})
        self._timeouts = timeouts
        self._gone = gone
        self._phase = Phase.READING
        self._head_begun = self._half_closed = self._refused = False
        self._write_by = math.inf
        self.since = time.monotonic()
        self.deadline = math.inf  # asyncio keeps the deadline of the handshake

    @property
    def connected(self) -> bool:
        """Return True once the handshake is over."""
        return self.transport is not None

    @property
    def answering(self) -> bool:
        """Return True if a request has come whose answer is not complete."""
        return not getattr(self.cycle, "response_complete", True)  # None before the first request

    def stalled(self, phases: tuple[Phase, ...], now: float) -> bool:
        """Return True if the client is in one of these phases for too long while others wait."""
        return self._phase in phases and now - self.since > _KEPT_WAITING[self._phase]

    def _begin(self, phase: Phase, seconds: float) -> None:
        """Enter a phase, whose deadline is in ``seconds``."""
        self._phase = phase
        self.since = time.monotonic()
        self.deadline = self.since + seconds

    def _enter_working(self) -> None:
        """Enter the phase of working, or of writing until the client takes pending data."""
        if not self.flow.write_paused:
            self._begin(Phase.WORKING, math.inf)
            return
        self._begin(Phase.WRITING, self._timeouts.write)
        self.deadline = self._write_by = min(self._write_by, self.deadline)

    # Called by the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Record the client's certificate, and begin to read, after the handshake."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(_BUFFER)
        shown = transport.get_extra_info("peercert")
        self.app_state[CERTIFICATE] = common_name(shown) if shown else None
        self._begin(Phase.READING, self._timeouts.idle)

    def data_received(self, data: bytes) -> None:
        """Read data in parts no larger than a head; a head's first byte starts its deadline."""
        for start in range(0, len(data), MAX_HEAD):
            if self._refused:
                return  # dropped, until the deadline of the refusal
            if self._phase is Phase.READING and not self._head_begun:
                self._head_begun = True
                self.deadline = time.monotonic() + self._timeouts.head
            super().data_received(data[start : start + MAX_HEAD])
            if self._phase is Phase.READING and self.answering:
                self._enter_working()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Return True to keep a half-closed connection open while a request is unanswered."""
        self._half_closed = True
        return self.answering and self.scheme == "http"  # TLS cannot be closed on one side

    def pause_writing(self) -> None:
        """Enter the phase of writing; the whole response has one deadline."""
        super().pause_writing()
        self._enter_working()

    def resume_writing(self) -> None:
        """Return to working after the client has taken most of the sent data."""
        super().resume_writing()
        if self.answering:
            self._enter_working()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that the connection is gone, which frees its slot."""
        super().connection_lost(exc)
        self._gone(self)

    # Called by uvicorn's half of the protocol

    def on_response_complete(self) -> None:
        """Enter the phase of reading, unless a request waits already or none will come."""
        self._head_begun = False
        self._write_by = math.inf
        super().on_response_complete()
        if self._refused:
            return
        if self.answering:
            self._enter_working()
            return
        if self._half_closed:
            self.transport.close()
        if self.transport.is_closing():
            self._begin(Phase.WRITING, self._timeouts.write)
            return
        self._head_begun = bool(self.conn.trailing_data[0])
        times = self._timeouts
        self._begin(Phase.READING, times.head if self._head_begun else times.idle)

    def send_400_response(self, msg: str) -> None:
        """Answer an unreadable head with 400 or 431 and drop further data; closing would cut it.

        An unreadable body gets no answer of its own: its request is the last one that is answered.
        """
        if self.answering:  # the body of a request is broken: it is the last one answered
            self.cycle.keep_alive = False
            return
        self._refused = True
        too_large = len(self.conn.trailing_data[0]) > MAX_HEAD
        self.transport.write(self._refusal(431 if too_large else 400))
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._begin(Phase.READING, self._timeouts.drain)
        else:
            self.transport.close()
            self._begin(Phase.WRITING, self._timeouts.drain)

    def _refusal(self, status: int) -> bytes:
        """Return the whole response of a status as bytes; it closes the connection."""
        body = f"{status} {HTTPStatus(status).phrase}\n".encode()
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        reason = HTTPStatus(status).phrase.encode()
        head = h11.Response(status_code=status, headers=headers, reason=reason)
        events = (head, h11.Data(data=body), h11.EndOfMessage())
        return b"".join(self.conn.send(event) or b"" for event in events)

    # Called by the server

    def shutdown(self) -> None:
        """Close the connection, after the present answer if there is one."""
        if self.answering:
            self.cycle.keep_alive = False
        elif self.connected:
            self.transport.close()
