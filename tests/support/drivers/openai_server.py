"""A local HTTP server that speaks the OpenAI protocol, as well or badly as a test wants."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Reply:
    """One answer: a status and a body, after a while.

    Attributes:
        pieces: in place of status and body: what is sent, head included, with pauses between.
        pause: seconds between two pieces.
    """

    status: int = 200
    body: bytes = b"{}"
    seconds: float = 0.0
    pieces: tuple[bytes, ...] = ()
    pause: float = 0.0


def completion(content: str | None, *, finish: str = "stop", refusal: str | None = None) -> Reply:
    """A chat completion that says ``content``."""
    message = {"role": "assistant", "content": content, "refusal": refusal}
    choice = {"index": 0, "finish_reason": finish, "message": message, "logprobs": None}
    usage = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}
    body = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "judge-model",
        "choices": [choice],
        "usage": usage,
    }
    return Reply(body=json.dumps(body).encode())


def finding(quote: str, category: str = "age", **more: object) -> dict[str, object]:
    """A finding as a judge answers it."""
    return {
        "category": category,
        "kind": "unfair_generalisation",
        "quote": quote,
        "confidence": 0.9,
        "reason": "It ascribes one trait to all.",
        **more,
    }


def findings(*found: dict[str, object]) -> Reply:
    """A completion with these findings."""
    return completion(json.dumps({"findings": found}))


@dataclass
class OpenAIServer:
    """Serves ``answer``, which gets the request's body; stops with the block.

    Attributes:
        asked: bodies of all requests, in order of arrival.
    """

    answer: Callable[[dict[str, Any]], Reply]
    asked: list[dict[str, Any]] = field(default_factory=list)

    def __enter__(self) -> Self:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append(body)
                reply = outer.answer(body)
                time.sleep(reply.seconds)
                with suppress(OSError):  # the client has given up
                    self.send_pieces(reply) if reply.pieces else self.send_whole(reply)

            def send_whole(self, reply: Reply) -> None:
                self.send_response(reply.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            def send_pieces(self, reply: Reply) -> None:
                self.close_connection = True
                for piece in reply.pieces:
                    self.wfile.write(piece)
                    time.sleep(reply.pause)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Base address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"


def asked_about(body: dict[str, Any]) -> dict[str, Any]:
    """The user message of a request."""
    found: dict[str, Any] = json.loads(body["messages"][1]["content"])
    return found
