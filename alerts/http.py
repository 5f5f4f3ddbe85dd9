"""A small HTTP server for scrapes and probes; hardened, since it faces whoever can reach it.

One bounded thread a connection; the TLS handshake happens in it, never in the accept loop. Every
phase (handshake, request head, response, idle) has an absolute deadline, so slow clients cost a
slot for seconds only, and when all slots are taken the client that has kept one waiting longest
is put out. Whoever does not keep us waiting is never put out: a crowd of scrapers queues, first in
the system's backlog, then for the few answers that are made at a time. What is answered, and to
whom, is :mod:`alerts.routes`' to say.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from alerts.connection import MAX_HEAD, Connection, Phase, Timeouts, listen, tls_context
from alerts.request import MalformedRequestError, Request, parse_request
from alerts.responses import Headers, Response, encode, just
from monitor.errors import SlicewatchError
from monitor.settings.check_server import is_loopback

_ACCEPT_WAIT = 0.2  # how soon stop() is noticed where closing does not wake accept()
_MOMENT = 0.05  # how soon it is seen that somebody keeps others waiting
_RETRY: Headers = (("Retry-After", "5"),)
_MAX_PORT = 65_535

Respond = Callable[[Request, str | None], Response]
"""The answer to a request and the name of the client's checked certificate."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Where a server listens and whom it answers.

    Attributes:
        host: address; another than a loopback one needs TLS and credentials, or ``insecure``.
        port: 0 takes a free one.
        tokens: bearer tokens by name, one of which the views ask for; empty asks for none.
        cert_file: certificate chain (PEM); None is plain HTTP.
        key_file: its key; None if it is in ``cert_file``.
        client_ca_file: the views ask for a client certificate signed by these.
        insecure: serve without TLS and credentials on an address others can reach.
        slices: whether a view tells of slices. Without one any address may do without TLS and
            credentials: probes and scrapers of operators come without, and learn nothing.
        section: of the settings, for messages.
        slots: connections open at a time; most of them wait for their client or their turn.
        answers: made and sent at a time; each may hold a page in memory.
        timeouts: how long clients may take.
    """

    host: str = "127.0.0.1"
    port: int = 9095
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    cert_file: Path | None = None
    key_file: Path | None = None
    client_ca_file: Path | None = None
    insecure: bool = False
    slices: bool = True
    section: str = "server"
    slots: int = 128
    answers: int = 16
    timeouts: Timeouts = field(default_factory=Timeouts)

    @property
    def exposed(self) -> bool:
        """Whether others can reach views of slices without TLS and credentials."""
        guarded = self.cert_file and (self.tokens or self.client_ca_file)
        return self.slices and not is_loopback(self.host) and not guarded

    def check(self) -> None:
        """Raise SlicewatchError where a value is impossible or the policy forbids it."""
        if not 0 <= self.port <= _MAX_PORT:
            raise self._wrong("port", f"{self.port} is not between 0 and {_MAX_PORT}")
        if not all(token.strip() for token in self.tokens.values()):
            raise self._wrong("token", "is empty; remove it or set one")
        if self.client_ca_file and not self.cert_file:
            raise self._wrong("client_ca_file", f"needs {self.section}.tls_cert_file")
        if self.exposed and not self.insecure:
            fix = f"{self.section}.tls_cert_file and a token or client_ca_file, or insecure = true"
            raise self._wrong("host", f"{self.host} can be reached by others; set {fix}")

    def _wrong(self, key: str, text: str) -> SlicewatchError:
        return SlicewatchError(f"{self.section}.{key}: {text}")


class HttpServer:
    """Listens on one port, and hands each request to whoever makes the answers."""

    def __init__(
        self, config: HttpConfig, respond: Respond, *, tick: Callable[[], None] | None = None
    ) -> None:
        """Check the policy and load the certificates; nothing is bound yet.

        Args:
            config: where it listens and whom it answers.
            respond: makes the answer to a request; called on many threads, must not raise.
            tick: called several times a second while the server runs; must not raise.

        Raises:
            SlicewatchError: the policy forbids the settings, or a file cannot be read.
        """
        config.check()
        self._config = config
        self._respond = respond
        self._tick = tick
        self._tls = tls_context(
            config.cert_file, config.key_file, config.client_ca_file, config.section
        )
        self._port = 0
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._connections: dict[Connection, threading.Thread] = {}
        self._room = threading.Condition()
        self._turns = threading.Semaphore(config.answers)
        self._stopping = threading.Event()

    @property
    def port(self) -> int:
        """The bound port; 0 before :meth:`start`."""
        return self._port

    def start(self) -> None:
        """Bind and serve on threads of its own.

        Raises:
            SlicewatchError: the address cannot be bound.
        """
        listener = listen(self._config.host, self._config.port, self._config.section)
        listener.settimeout(_ACCEPT_WAIT)
        self._port = int(listener.getsockname()[1])
        self._listener = listener
        if self._config.exposed:
            _log.warning("metrics are served to others without TLS and credentials (insecure)")
        self._thread = threading.Thread(
            target=self._accept, args=(listener,), name="http", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Close the port and every connection; safe to call twice."""
        self._stopping.set()
        if self._listener:
            with contextlib.suppress(OSError):  # wakes accept() at once where the system can
                self._listener.shutdown(socket.SHUT_RDWR)
        if self._thread:
            self._thread.join()
        with self._room:
            threads = list(self._connections.items())
        for connection, _ in threads:
            connection.abort()
        for _, thread in threads:
            thread.join()

    def _accept(self, listener: socket.socket) -> None:
        with listener:
            while not self._stopping.is_set():
                if self._tick:
                    self._tick()
                try:
                    client, _ = listener.accept()
                except TimeoutError:
                    continue
                except OSError as error:  # stopped; or out of descriptors: wait for better times
                    if not self._stopping.wait(_ACCEPT_WAIT):
                        _log.warning("accept failed: %s", error)
                    continue
                self._admit(client)

    def _admit(self, client: socket.socket) -> None:
        try:
            connection = Connection(client, self._tls, self._config.timeouts)
        except OSError:  # reset since it was accepted
            client.close()
            return
        with self._room:
            if not self._wait_for_room():
                connection.close()
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            # Entered first, inside the lock: the thread takes itself out at its end.
            self._connections[connection] = thread
            thread.start()

    def _wait_for_room(self) -> bool:
        """Whether there is a slot; others wait in the system's backlog meanwhile."""
        while len(self._connections) >= self._config.slots:
            if self._stopping.is_set():
                return False
            if self._tick:
                self._tick()
            if not self._put_out(Phase.READING, Phase.WRITING):
                self._room.wait(_MOMENT)
        return True

    def _put_out(self, *phases: Phase) -> bool:
        """End who has kept others waiting longest in these phases; whether there was anybody."""
        stalled = [one for one in self._connections if one.stalled(*phases)]
        if not stalled:
            return False
        oldest = min(stalled, key=lambda one: one.since)
        # The thread ends by itself; the slot is free at once, so that a flood cannot hold it.
        del self._connections[oldest]
        oldest.abort()
        return True

    def _serve(self, connection: Connection) -> None:
        try:
            connection.shake_hands()
            while (head := connection.read_head()) is not None:
                if not self._exchange(connection, head):
                    connection.drain()
                    break
        except OSError as error:  # resets, timeouts and failed handshakes are the client's
            _log.debug("connection ended: %s", error)
        finally:
            connection.close()
            with self._room:
                self._connections.pop(connection, None)
                self._room.notify()

    def _exchange(self, connection: Connection, head: bytes) -> bool:
        if len(head) > MAX_HEAD:
            connection.write(encode(just(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)))
            return False
        try:
            request = parse_request(head)
        except MalformedRequestError:
            connection.write(encode(just(HTTPStatus.BAD_REQUEST)))
            return False
        keep = request.keep_alive and not self._stopping.is_set()
        connection.begin(Phase.WORKING)
        if not self._take_turn():
            connection.write(encode(just(HTTPStatus.SERVICE_UNAVAILABLE, _RETRY)))
            return False
        try:
            response = self._respond(request, connection.certificate)
            connection.write(encode(response, keep=keep, body=request.method != "HEAD"))
        finally:
            self._turns.release()
        return keep

    def _take_turn(self) -> bool:
        """Wait until an answer can be made; whoever does not take his is put out for it."""
        deadline = time.monotonic() + self._config.timeouts.turn
        while not self._turns.acquire(timeout=_MOMENT):
            if self._stopping.is_set() or time.monotonic() > deadline:
                return False
            with self._room:
                self._put_out(Phase.WRITING)
        return True
