"""Connection of a client: uvicorn's HTTP protocol that knows since when its client stalls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from alerts.http.config import common_name

CERTIFICATE = "certificate"
"""Key in a request's state for the name in the client's checked certificate, or None."""
MAX_HEAD = 16 * 1024  # bytes; the head of a scrape is under 1 KiB
_BUFFER = 64 * 1024  # bytes of a response that wait for the client, in addition to a piece


class Patience(NamedTuple):
    """Seconds that a client may keep us waiting for its request, and for taking an answer."""

    request: float
    answer: float


class Connection(H11Protocol):
    """Protocol of one client's connection, which knows since when the client keeps us waiting.

    Attributes:
        since: monotonic time at which we began to wait: for the handshake, for a request, or for
            the client to take an answer that did not fit into the buffer.
    """

    def __init__(
        self, config: Config, state: ServerState, gone: Callable[[Connection], None]
    ) -> None:
        """Create the protocol of a connection.

        Args:
            config: settings of uvicorn.
            state: uvicorn's state of all connections.
            gone: called at the end of the connection.
        """
        super().__init__(config, state, {CERTIFICATE: None})
        self._gone = gone
        self._half_closed = self._writing = False
        self.since = time.monotonic()

    @property
    def connected(self) -> bool:
        """Return True once the handshake is over."""
        return self.transport is not None

    @property
    def answering(self) -> bool:
        """Return True if a request has come whose answer is not complete."""
        return not getattr(self.cycle, "response_complete", True)  # None before the first request

    def stalls(self, patience: Patience, now: float) -> bool:
        """Return True if the client has kept us waiting for too long; never while we work."""
        if self.answering:
            return self._writing and now - self.since > patience.answer
        return now - self.since > patience.request

    # Called by the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Record the client's certificate, and begin to read, after the handshake."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(_BUFFER)
        shown = transport.get_extra_info("peercert")
        self.app_state[CERTIFICATE] = common_name(shown) if shown else None
        self.since = time.monotonic()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Return True to keep a half-closed connection open while a request is unanswered."""
        self._half_closed = True
        return self.answering and self.scheme == "http"  # TLS cannot be closed on one side

    def pause_writing(self) -> None:
        """Begin to wait for the client, until the end of the response."""
        super().pause_writing()
        if not self._writing:
            self._writing, self.since = True, time.monotonic()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that the connection is gone, which frees its slot."""
        super().connection_lost(exc)
        self._gone(self)

    # Called by uvicorn's half of the protocol

    def on_response_complete(self) -> None:
        """Begin to wait for a request; hang up if none will come."""
        self._writing, self.since = False, time.monotonic()
        super().on_response_complete()
        if self._half_closed and not self.answering:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer an unreadable head; a request with an unreadable body is answered, and the last.

        uvicorn would begin a second answer.
        """
        if self.answering:
            self.cycle.keep_alive = False
        else:
            super().send_400_response(msg)
