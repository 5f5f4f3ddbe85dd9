"""A server with a small page, and clients that speak to it byte by byte."""

from __future__ import annotations

import contextlib
import http.client
import logging
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from alerts.exposition.exporter import Exporter
from alerts.exposition.service_metrics import ServiceMetrics
from alerts.http import HealthChecks, HttpConfig, Servers
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import ContractTable, SliceRow, Snapshot, WindowTable
from monitor.core.state import State

FAR = 20.0
GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
_CLOSING = b"Accept-Encoding: gzip\r\nConnection: close\r\n\r\n"
SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + _CLOSING
Start = Callable[..., Servers]
LISTENING = "0A"  # in /proc/net/tcp


class StillClock:
    def now(self) -> int:
        return 0

    def monotonic(self) -> float:
        return 0.0


class Switches:
    """Health as a test sets it."""

    def __init__(self) -> None:
        self.live = self.started = True
        self.ready: tuple[bool, str] = (True, "")

    def health(self) -> HealthChecks:
        return HealthChecks(lambda: self.live, lambda: self.ready, lambda: self.started)


def small_exporter() -> Exporter:
    row = SliceRow("", dict.fromkeys(Metric, State.SUPPRESSED))
    table = WindowTable("7d", row, ())
    contract = ContractTable("lesson", "1", "team", True, 1, "7d", {}, {}, {}, {}, (table,))
    made = Exporter(ServiceMetrics(), max_series=1_000, clock=StillClock())
    made.publish(Snapshot(None, None, (contract,)))
    return made


def servers(config: HttpConfig, exporter: Exporter, switches: Switches) -> Servers:
    return Servers(config, None, exporter, switches.health(), StillClock())


@contextlib.contextmanager
def starter(exporter: Exporter, switches: Switches) -> Iterator[Start]:
    """Starts servers, and stops them in the end."""
    running: list[Servers] = []

    def start(config: HttpConfig | None = None, **more: object) -> Servers:
        config = replace(config or HttpConfig(port=0), **more)  # type: ignore[arg-type]
        server = servers(config, exporter, switches)
        server.start()
        running.append(server)
        return server

    yield start
    for server in running:
        server.stop()


def connect(server: Servers) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=FAR)


def open_connections(server: Servers) -> int:
    """Accepted connections that the server still holds a descriptor of, as the system says.

    Neither those that wait in the backlog nor those it has let go of, whose rest the system sends.
    """
    held = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_, inode = line.split()[:10]
        held += int(local[-4:], 16) == server.port and state != LISTENING and inode != "0"
    return held


def fetch(
    server: Servers, path: str, method: str = "GET", body: str | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=FAR)
    with contextlib.closing(client):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        client.request(method, path, body, named)
        response = client.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()


def read_all(client: socket.socket) -> bytes:
    """Everything until the server closes, politely or not."""
    chunks = []
    with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
        while chunk := client.recv(65_536):
            chunks.append(chunk)
    return b"".join(chunks)


def read_answer(client: socket.socket) -> bytes:
    """One answer of a connection that stays open."""
    answer = b""
    while not whole(answer):
        chunk = client.recv(65_536)
        assert chunk, answer
        answer += chunk
    return answer


def ask(server: Servers, request: bytes) -> bytes:
    with connect(server) as client:
        with contextlib.suppress(OSError):  # closed by the server already
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
        return read_all(client)


def whole(answer: bytes) -> bool:
    """Whether it is a good answer, and all of it."""
    head, end, body = answer.partition(b"\r\n\r\n")
    length = b"\r\ncontent-length: %d\r\n" % len(body)
    return head.startswith(b"HTTP/1.1 200 ") and bool(end) and length in head.lower() + b"\r\n"


def statuses(answers: bytes) -> list[int]:
    """Of everything that a connection was answered."""
    return [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]


LOGGERS = ("alerts", "asyncio", "h11", "slicewatch.access", "starlette", "uvicorn")


def of_the_server(records: Iterable[logging.LogRecord]) -> list[logging.LogRecord]:
    """Records of the ports and of what they are made of: other tests may have left threads."""
    return [one for one in records if f"{one.name}.".startswith(tuple(f"{n}." for n in LOGGERS))]
