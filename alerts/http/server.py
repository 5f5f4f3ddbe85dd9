"""HTTP server on a thread of its own: uvicorn's protocol with our acceptor and loop."""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import socket
import threading
from collections.abc import Callable, Sequence
from email.utils import formatdate

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from alerts.http.acceptor import Acceptor
from alerts.http.config import HttpConfig, tls_context
from alerts.http.connection import MAX_HEAD, Connection, Patience
from alerts.http.responses import AnswerTurns
from monitor.errors import SlicewatchError

_BACKLOG = 4096  # connections that wait to be accepted; Linux's own limit by default
_DESCRIPTORS = 4096  # of this process: two ports, and what else it opens
_TICK = 0.1  # seconds between two looks at slow clients
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
        self._tls = tls_context(config)
        self._protocol = _settings(app)
        self._protocol.load()
        self._state = ServerState()
        self._turns = turns
        self._tick = tick
        self._stopping = threading.Event()
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
        _allow_descriptors()
        listener = _listen(self._config)
        self._port = int(listener.getsockname()[1])
        if self._config.exposed:
            _log.warning("metrics are served to others without TLS and credentials (insecure)")
        self._thread = threading.Thread(
            target=self._run, args=(listener,), name="http", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Close the port, finish the present answers, wait for the thread; safe to call twice."""
        self._stopping.set()
        if self._thread:
            self._thread.join()

    def _run(self, listener: socket.socket) -> None:
        try:
            with listener:
                asyncio.run(self._serve(listener))
        except Exception:
            _log.exception("port %d has failed", self._port)
            raise

    async def _serve(self, listener: socket.socket) -> None:
        """Accept connections and look at them ten times a second, until the server stops."""
        acceptor = Acceptor(self._config, self._tls, self._connection)
        accepting = asyncio.create_task(acceptor.open(listener))
        while not (self._stopping.is_set() or accepting.done()):
            self._look_at(acceptor)
            await asyncio.sleep(_TICK)
        accepting.cancel()
        await asyncio.wait([accepting])
        listener.close()
        await acceptor.close()
        if not accepting.cancelled():
            accepting.result()  # raises what ended it

    def _connection(self, gone: Callable[[Connection], None]) -> Connection:
        return Connection(self._protocol, self._state, gone)

    def _look_at(self, acceptor: Acceptor) -> None:
        """Date the answers, and end clients that are too slow."""
        date = (b"date", formatdate(usegmt=True).encode())
        self._state.default_headers = [date, *self._protocol.encoded_headers]
        acceptor.evict(DEADLINES, most=self._config.slots)
        # A client that does not take its answer loses its turn to a waiting one.
        if any(turns.wanted for turns in self._turns):
            acceptor.evict(_WHILE_TURNS_ARE_WANTED, most=1)
        if self._tick:
            self._tick()


def _settings(app: ASGIApp) -> uvicorn.Config:
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


def _allow_descriptors() -> None:
    """Raise the process's own limit on descriptors, as far as the system lets it.

    Its default leaves none for Kafka and the database when all slots of a port are taken.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


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
