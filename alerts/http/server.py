"""HTTP server on a thread of its own: uvicorn with our acceptor instead of its listeners."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import ssl
import threading
from collections.abc import Callable, Sequence

import uvicorn
from starlette.types import ASGIApp

from alerts.http.acceptor import Acceptor
from alerts.http.config import HttpConfig, tls_context
from alerts.http.connection import MAX_HEAD, Connection, Patience
from alerts.http.responses import AnswerTurns
from monitor.errors import SlicewatchError

_BACKLOG = 4096  # connections that the system holds until they are accepted, most by default
DEADLINES = Patience(request=90.0, answer=10.0)
"""Most patience with any client: a request may take longer than any usual scrape interval."""
_WHILE_TURNS_ARE_WANTED = Patience(request=math.inf, answer=1.0)
_HEADERS = [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")]

_log = logging.getLogger(__name__)


class HttpServer:
    """HTTP server of an application on one port, on a thread of its own."""

    def __init__(
        self,
        config: HttpConfig,
        app: ASGIApp,
        turns: Sequence[AnswerTurns],
        *,
        tick: Callable[[], None] | None = None,
    ) -> None:
        """Check the policy and load the certificates, without binding the port.

        Args:
            config: address, time-outs and TLS.
            app: makes the answers.
            turns: all turns of the application.
            tick: called several times per second while the server runs; must not raise.

        Raises:
            SlicewatchError: the policy forbids the settings, or a file cannot be read.
        """
        config.check()
        self._config = config
        self._server = _Uvicorn(config, tls_context(config), app, turns, tick)
        self._thread: threading.Thread | None = None
        self._port = 0

    @property
    def port(self) -> int:
        """Return the bound port; 0 before :meth:`start`."""
        return self._port

    def start(self) -> None:
        """Bind the port, and serve on a thread of its own.

        Raises:
            SlicewatchError: the address cannot be bound.
        """
        listener = _listen(self._config)
        self._port = int(listener.getsockname()[1])
        if self._config.exposed:
            _log.warning("metrics are served to others without TLS and credentials (insecure)")
        self._thread = threading.Thread(
            target=self._serve, args=(listener,), name="http", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Close the port, finish the present answers, wait for the thread; safe to call twice."""
        self._server.should_exit = True
        if self._thread:
            self._thread.join()

    def _serve(self, listener: socket.socket) -> None:
        with listener:
            asyncio.run(self._server.serve([listener]))


class _Uvicorn(uvicorn.Server):
    """Server of uvicorn with our acceptor instead of its listeners."""

    def __init__(
        self,
        config: HttpConfig,
        tls: ssl.SSLContext | None,
        app: ASGIApp,
        turns: Sequence[AnswerTurns],
        tick: Callable[[], None] | None,
    ) -> None:
        super().__init__(_settings(config, app))
        self._slots = config.slots
        self._turns = turns
        self._tick = tick
        self._acceptor = Acceptor(config, tls, self._connection)
        self._opened: asyncio.Task[None] | None = None

    def _connection(self, gone: Callable[[Connection], None]) -> Connection:
        return Connection(self.config, self.server_state, gone)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections on the given sockets."""
        for listener in sockets or ():
            self._opened = asyncio.create_task(self._acceptor.open(listener))
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        """End clients that are too slow; return True to stop the server. Run every 0.1 s."""
        if self._opened and self._opened.done():
            self._opened.result()  # raises: a port that accepts nobody must not look alive
        self._acceptor.evict(DEADLINES, most=self._slots)
        # A client that does not take its answer loses its turn to a waiting one.
        if any(turns.wanted for turns in self._turns):
            self._acceptor.evict(_WHILE_TURNS_ARE_WANTED, most=1)
        if self._tick:
            self._tick()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, then end the open ones and the threads."""
        if self._opened:
            self._opened.cancel()
            await asyncio.wait([self._opened])
        for listener in sockets or ():
            listener.close()
        await self._acceptor.close()


def _settings(config: HttpConfig, app: ASGIApp) -> uvicorn.Config:
    """Return uvicorn's configuration for this application, silent except for errors."""
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        h11_max_incomplete_event_size=MAX_HEAD,
        timeout_keep_alive=math.ceil(DEADLINES.request),
        headers=_HEADERS,
        server_header=False,
        proxy_headers=False,
        log_config=None,
        log_level="error",
        access_log=False,
    )


def _listen(config: HttpConfig) -> socket.socket:
    """Return a listening socket for the configured address; raise SlicewatchError if it is taken.

    Raises:
        SlicewatchError: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    address = (config.host, config.port)
    try:
        listener = socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        place = f"{config.host} port {config.port}"
        message = f"{config.section}.listen: cannot listen on {place}: {error.strerror or error}"
        raise SlicewatchError(message) from error
    listener.setblocking(False)
    return listener
