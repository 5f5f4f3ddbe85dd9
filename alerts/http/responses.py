"""Answers to requests: a few at a time, sent in pieces, with failures as status 500."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

View = Callable[[Request], Response]
"""Function that answers requests for one path; its exception becomes a 500 without details."""

PIECE = 64 * 1024  # bytes

_log = logging.getLogger(__name__)


def status_only(status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer of a status, with its phrase as the text."""
    return PlainTextResponse(f"{status} {HTTPStatus(status).phrase}\n", status, headers)


def refusal_of(error: HTTPException) -> Response:
    """Return an answer with the status and the detail of a refusal."""
    return PlainTextResponse(f"{error.status_code} {error.detail}\n", error.status_code)


async def safely(path: str, view: Callable[[], Awaitable[Response]]) -> Response:
    """Return the answer of a view; an exception becomes an answer with its status, or 500.

    Args:
        path: path of the route; the log must not repeat the requested path.
        view: makes the answer.
    """
    try:
        return await view()
    except HTTPException as error:
        return status_only(error.status_code, error.headers)
    except Exception:
        _log.exception("no answer to %s", path)
        return status_only(HTTPStatus.INTERNAL_SERVER_ERROR)


class AnswerTurns:
    """Limit on answers at a time; further requests wait for their turn."""

    def __init__(self, number: int, patience: float) -> None:
        """Create free turns.

        Args:
            number: most answers at a time.
            patience: seconds that a request waits for its turn.
        """
        self._free = asyncio.Semaphore(number)
        self._patience = patience
        self._waiting = 0

    @property
    def wanted(self) -> bool:
        """Return True if a request waits for its turn."""
        return self._waiting > 0

    async def take(self) -> bool:
        """Wait for a turn, which the caller must give back; return False if none came in time."""
        self._waiting += 1
        try:
            async with asyncio.timeout(self._patience):
                return await self._free.acquire()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1

    def give_back(self) -> None:
        """End a turn, so that a waiting request takes it."""
        self._free.release()


async def answer_on_thread(view: View, request: Request) -> Response:
    """Return the answer of a view, which runs on a thread of its own; raise what it raises.

    Nobody joins the thread at the end. The interpreter would wait for threads of asyncio and anyio:
    a silent database would keep a stopped service alive.
    """
    answer: Future[Response] = Future()
    answer.set_running_or_notify_cancel()  # nobody cancels it, even when the server stops

    def make() -> None:
        try:
            answer.set_result(view(request))
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=make, name="view", daemon=True).start()
    return await asyncio.wrap_future(answer)


class SharedResponse(Response):
    """Answer from parts that other answers share; a client that stalls holds one piece alone."""

    def __init__(self, parts: Sequence[bytes], headers: Mapping[str, str]) -> None:
        size = sum(map(len, parts))
        super().__init__(headers={**headers, "Content-Length": str(size)})
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the parts, each piece once the client took those before."""
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        for piece in _pieces(self._parts):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of all parts in pieces of about PIECE; no part is copied as a whole."""
    waiting = bytearray()
    for part in parts:
        for start in range(0, len(part), PIECE):
            waiting += part[start : start + PIECE]
            if len(waiting) >= PIECE:
                yield bytes(waiting)
                waiting.clear()
    yield bytes(waiting)


def in_pieces(send: Send) -> Send:
    """Return a sender that splits bodies, each piece sent once the client took those before.

    Sent at once, an answer would lie in the connection's buffer for as long as its client likes,
    after its turn has ended.
    """

    async def send_pieces(message: Message) -> None:
        body, sent = message.get("body", b""), 0
        while len(body) - sent > PIECE:
            await send({**message, "body": body[sent : sent + PIECE], "more_body": True})
            sent += PIECE
        await send({**message, "body": body[sent:]} if sent else message)

    return send_pieces
