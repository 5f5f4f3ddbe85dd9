"""A small HTTP server for scrapes and probes; hardened, since it faces whoever can reach it.

One bounded thread a connection; the TLS handshake happens in it, never in the accept loop. Every
phase (handshake, request head, response, idle) has an absolute deadline, so slow clients cost a
slot for seconds only, and when all slots are taken the client that has kept one waiting longest
is put out. ``/metrics`` may ask for credentials; the health paths are open and say nothing.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path

from alerts.connection import MAX_HEAD, Connection, Timeouts, listen, tls_context
from alerts.exporter import Exporter
from alerts.request import MalformedRequestError, Request, accepts_gzip, parse_request
from monitor.errors import SlicewatchError

_ACCEPT_WAIT = 0.2  # how soon stop() is noticed where closing does not wake accept()
_SLOW_RESPONSE = 1.0  # no reader needs longer for a page; matters only when all slots are taken
_MAX_PORT = 65_535
_PLAIN = "text/plain; charset=utf-8"
_INDEX = b"slicewatch\n/metrics\n/livez\n/readyz\n/startupz\n"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Where the server listens and whom it answers.

    Attributes:
        host: address; another than a loopback one needs TLS and credentials, or ``insecure``.
        port: 0 takes a free one.
        token: bearer token that ``/metrics`` asks for; None asks for none.
        cert_file: certificate chain (PEM); None is plain HTTP.
        key_file: its key; None if it is in ``cert_file``.
        client_ca_file: ``/metrics`` asks for a client certificate signed by these.
        insecure: serve without TLS and credentials on an address others can reach.
        slots: connections served at a time.
        timeouts: how long clients may take.
    """

    host: str = "127.0.0.1"
    port: int = 9095
    token: str | None = field(default=None, repr=False)
    cert_file: Path | None = None
    key_file: Path | None = None
    client_ca_file: Path | None = None
    insecure: bool = False
    slots: int = 16
    timeouts: Timeouts = field(default_factory=Timeouts)

    @property
    def exposed(self) -> bool:
        """Whether others can reach it without TLS and credentials."""
        guarded = self.cert_file and (self.token or self.client_ca_file)
        return not _is_loopback(self.host) and not guarded

    def check(self) -> None:
        """Raise SlicewatchError where a value is impossible or the policy forbids it."""
        if not 0 <= self.port <= _MAX_PORT:
            raise SlicewatchError(f"server.port: {self.port} is not between 0 and {_MAX_PORT}")
        if self.token is not None and not self.token.strip():
            raise SlicewatchError("server.token: is empty; remove it or set one")
        if self.client_ca_file and not self.cert_file:
            raise SlicewatchError("server.client_ca_file: needs server.tls_cert_file")
        if self.exposed and not self.insecure:
            raise SlicewatchError(
                f"server.host: {self.host} can be reached by others; set server.tls_cert_file and"
                " server.token or server.client_ca_file, or server.insecure = true"
            )


@dataclass(frozen=True, slots=True)
class Health:
    """What the probes ask; each must only read memory.

    Attributes:
        live: whether the loop turns; never broker, database or lag.
        ready: whether work can be done, and why not (logged, never sent).
        started: whether start-up has finished.
    """

    live: Callable[[], bool]
    ready: Callable[[], tuple[bool, str]]
    started: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class _Response:
    status: HTTPStatus
    body: bytes
    headers: tuple[tuple[str, str], ...] = (("Content-Type", _PLAIN),)


class HttpServer:
    """Serves one exporter and the health of one process."""

    def __init__(self, config: HttpConfig, exporter: Exporter, health: Health) -> None:
        """Check the policy and load the certificates; nothing is bound yet.

        Raises:
            SlicewatchError: the policy forbids the settings, or a file cannot be read.
        """
        config.check()
        self._config = config
        self._exporter = exporter
        self._health = health
        self._tls = tls_context(config.cert_file, config.key_file, config.client_ca_file)
        self._port = 0
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._connections: dict[Connection, threading.Thread] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._why_not_ready = ""

    @property
    def port(self) -> int:
        """The bound port; 0 before :meth:`start`."""
        return self._port

    def start(self) -> None:
        """Bind and serve on threads of its own.

        Raises:
            SlicewatchError: the address cannot be bound.
        """
        listener = listen(self._config.host, self._config.port)
        listener.settimeout(_ACCEPT_WAIT)
        self._port = int(listener.getsockname()[1])
        self._listener = listener
        self._exporter.metrics.set_insecure(self._config.exposed)
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
        with self._lock:
            threads = list(self._connections.items())
        for connection, _ in threads:
            connection.abort()
        for _, thread in threads:
            thread.join()

    def _respond(self, request: Request, certified: bool = False) -> _Response:
        """The answer to one request; ``certified`` when the client's certificate was checked."""
        if request.method not in ("GET", "HEAD"):
            allow = (("Allow", "GET, HEAD"), ("Content-Type", _PLAIN))
            return _status(HTTPStatus.METHOD_NOT_ALLOWED, allow)
        try:
            return self._answer(request, certified)
        except Exception:
            _log.exception("no answer to %s", request.path)
            return _status(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _answer(self, request: Request, certified: bool) -> _Response:
        match request.path:
            case "/metrics":
                return self._metrics(request, certified)
            case "/livez" | "/healthz":
                return _probe(self._health.live())
            case "/readyz":
                return _probe(self._ready())
            case "/startupz":
                return _probe(self._health.started())
            case "/":
                return _Response(HTTPStatus.OK, _INDEX)
        return _status(HTTPStatus.NOT_FOUND)

    def _metrics(self, request: Request, certified: bool) -> _Response:
        if self._config.client_ca_file and not certified:
            return _status(HTTPStatus.FORBIDDEN)
        if not _authorized(request.headers.get("authorization", ""), self._config.token):
            challenge = (("WWW-Authenticate", "Bearer"), ("Content-Type", _PLAIN))
            return _status(HTTPStatus.UNAUTHORIZED, challenge)
        gzip = accepts_gzip(request.headers.get("accept-encoding", ""))
        body, content_type = self._exporter.body(request.headers.get("accept", ""), gzip)
        headers = (("Content-Type", content_type), ("Vary", "Accept, Accept-Encoding"))
        encoding = (("Content-Encoding", "gzip"),) if gzip else ()
        return _Response(HTTPStatus.OK, body, headers + encoding)

    def _ready(self) -> bool:
        ready, why = self._health.ready()
        why = "" if ready else why
        if why != self._why_not_ready:
            _log.info("readiness changed: %s", why or "ready")
            self._why_not_ready = why
        return ready

    def _accept(self, listener: socket.socket) -> None:
        with listener:
            while not self._stopping.is_set():
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
        with self._lock:
            if len(self._connections) >= self._config.slots:
                self._make_room()
            if len(self._connections) >= self._config.slots:
                connection.close()
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            # Entered first, inside the lock: the thread takes itself out at its end.
            self._connections[connection] = thread
            thread.start()

    def _make_room(self) -> None:
        # The thread ends by itself; the slot is free at once, so that a flood cannot hold it.
        oldest = min(self._connections, key=lambda c: (c.responding, c.since))
        if not oldest.responding or time.monotonic() - oldest.since > _SLOW_RESPONSE:
            del self._connections[oldest]
            oldest.abort()

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
            with self._lock:
                self._connections.pop(connection, None)

    def _exchange(self, connection: Connection, head: bytes) -> bool:
        if len(head) > MAX_HEAD:
            connection.write(_encode(_status(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)))
            return False
        try:
            request = parse_request(head)
        except MalformedRequestError:
            connection.write(_encode(_status(HTTPStatus.BAD_REQUEST)))
            return False
        connection.begin(responding=True)
        keep = request.keep_alive and not self._stopping.is_set()
        response = self._respond(request, connection.certified)
        connection.write(_encode(response, keep=keep, body=request.method != "HEAD"))
        return keep


def _status(
    status: HTTPStatus, headers: tuple[tuple[str, str], ...] = (("Content-Type", _PLAIN),)
) -> _Response:
    return _Response(status, f"{status.value} {status.phrase}\n".encode(), headers)


def _probe(good: bool) -> _Response:
    return _Response(HTTPStatus.OK, b"ok\n") if good else _status(HTTPStatus.SERVICE_UNAVAILABLE)


def _encode(response: _Response, *, keep: bool = False, body: bool = True) -> bytes:
    headers = (
        *response.headers,
        ("Content-Length", str(len(response.body))),
        ("Date", formatdate(usegmt=True)),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("Connection", "keep-alive" if keep else "close"),
    )
    status = f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n"
    head = status + "".join(f"{name}: {value}\r\n" for name, value in headers) + "\r\n"
    return head.encode("latin-1") + (response.body if body else b"")


def _authorized(header: str, token: str | None) -> bool:
    if token is None:
        return True
    scheme, _, given = header.partition(" ")
    # Header bytes arrive as latin-1; the comparison must not tell how much matched.
    same = hmac.compare_digest(given.strip().encode("latin-1"), token.strip().encode())
    return same and scheme.lower() == "bearer"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
