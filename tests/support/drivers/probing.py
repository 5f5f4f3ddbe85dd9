"""Routers for tests of probes: the shipped example, one that misbehaves on cue, one in memory."""

from __future__ import annotations

import importlib.util
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from monitor.audit.inputs import Item, ProbeSet
from monitor.probing.protocol import Answer, Failure, Probe, read_answer

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples" / "probes"
KEY = "the probe key of the tests"
VERSIONS = {"judge": "j1", "rubric": "r1", "policy": "p1", "router": "t1"}
SAID: dict[str, Any] = {
    "route": "auto_serve",
    "judge_score": 0.81,
    "threshold": 0.7,
    "evidence_passed": True,
    "versions": VERSIONS,
}
MINUTE = 60.0
Reply = bytes | Sequence[bytes | None] | None


def example(name: str) -> ModuleType:
    """A script of the example, imported by its path."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def example_router(key: str, tls: ssl.SSLContext | None = None) -> Iterator[Any]:
    """The example router on a free port, in a thread; has ``url`` and ``router``."""
    module = example("router")
    server = module.Server(module.ExampleRouter(key))
    if tls is not None:
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(MINUTE)


def answer(**changed: object) -> Answer:
    found = read_answer(json.dumps(SAID | changed).encode())
    assert isinstance(found, Answer)
    return found


def http(content: object, status: str = "200 OK", *headers: str) -> bytes:
    """A whole answer, as it goes over the wire."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


@dataclass
class Asked:
    """A request as it arrived."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int


class ScriptedRouter:
    """Gives the next of its replies to each request, the last one again and again.

    A reply is what is written; None closes the connection. An empty one says nothing at all until
    the router is closed. A list is written piece by piece.
    """

    def __init__(self, *replies: Reply) -> None:
        self._replies = replies
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self.asked: list[Asked] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/probe"
        self._spawn(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(MINUTE)

    def _spawn(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        number = 0
        while not self._closing.is_set():
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            number += 1
            self._spawn(self._serve, connected, number)

    def _serve(self, connected: socket.socket, number: int) -> None:
        with connected, connected.makefile("rb") as stream:
            while (asked := self._read(stream, number)) is not None:
                reply = self._replies[min(len(self.asked), len(self._replies) - 1)]
                self.asked.append(asked)
                if not self._write(connected, reply):
                    return

    def _read(self, stream: Any, number: int) -> Asked | None:
        try:
            line = stream.readline().decode().strip()
            headers = {}
            while text := stream.readline().decode().strip():
                name, _, value = text.partition(": ")
                headers[name] = value
            body = stream.read(int(headers.get("Content-Length", 0)))
        except (OSError, ValueError):  # gone, or a TLS greeting
            return None
        return Asked(line, headers, body, number) if line else None

    def _write(self, connected: socket.socket, reply: Reply) -> bool:
        """Whether the connection goes on."""
        pieces = [reply] if isinstance(reply, bytes) or reply is None else reply
        try:
            for piece in pieces:
                if piece is None:
                    return False
                connected.sendall(piece)
                self._closing.wait(0.02 if len(pieces) > 1 else 0)
        except OSError:
            return False
        if reply == b"":
            self._closing.wait(MINUTE)
        return reply != b""


@dataclass
class StillClock:
    """Time that passes only where somebody waits; it is the stop, too."""

    seconds: float = 1000.0
    asked: bool = False
    stop_after: float | None = None
    waits: list[float] = field(default_factory=list)

    def now(self) -> int:
        return int(self.seconds * 1e6)

    def monotonic(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.seconds += seconds
        if self.stop_after is not None and self.seconds >= self.stop_after:
            self.asked = True
        return self.asked


class MemoryRouter:
    """Decides by a function; each request lasts so many seconds of the clock."""

    def __init__(
        self,
        decide: Callable[[Probe], Answer | Failure] = lambda _: answer(),
        clock: StillClock | None = None,
        lasts: float = 0.0,
    ) -> None:
        self.decide = decide
        self.clock = clock
        self._lasts = lasts
        self.probes: list[Probe] = []
        self.at: list[float] = []

    def ask(self, probe: Probe) -> Answer | Failure:
        self.probes.append(probe)
        if self.clock is not None:
            self.at.append(self.clock.seconds)
            self.clock.seconds += self._lasts
        return self.decide(probe)

    def close(self) -> None:
        """Nothing is open."""


class Watched:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.pairs = 0

    def failed(self, item: Item, why: str) -> None:
        self.lines.append(f"{item.pair}/{item.variant}: {why}")

    def mixed(self, pair: str) -> None:
        self.lines.append(f"{pair}: mixed")

    def advanced(self) -> None:
        self.pairs += 1


def item(pair: str = "p1", variant: str = "formal", **changed: Any) -> Item:
    fields: dict[str, Any] = {
        "attributes": {"language_variety": variant},
        "expected_ready": True,
        "policy": "p1",
        "reviewers_agree": True,
        "request": {"text": f"{pair} {variant}"},
    }
    return Item(pair, variant, **(fields | changed))


def probe_set(pairs: int = 3, variants: Sequence[str] = ("formal", "plain")) -> ProbeSet:
    items = (item(f"p{n:03d}", name) for n in range(pairs) for name in sorted(variants))
    return ProbeSet("pairs", "1", True, frozenset(), tuple(items))


def probe(**changed: Any) -> Probe:
    fields: Mapping[str, Any] = {
        "probe_set": "0" * 64,
        "pair": "p1",
        "variant": "formal",
        "attributes": {"channel": "chat"},
        "request": {"text": "Where is my parcel?"},
    }
    return Probe(**(dict(fields) | changed))
