"""Answers to requests: a few at a time, sent in pieces, with failures as status 500."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Send

View = Callable[[Request], Response]
"""Function that answers requests for one path; its exception becomes a 500 without details."""

PIECE = 256 * 1024  # bytes; most pages have one piece

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
    """Limit on answers that are made and sent at a time, with the threads that make them.

    Views run on threads of their own, which nobody joins at the end. The interpreter would wait for
    threads of asyncio and anyio: a silent database would keep a stopped service alive.
    """

    def __init__(self, number: int, patience: float) -> None:
        """Create free turns; threads start on demand and are kept.

        Args:
            number: most answers at a time.
            patience: seconds that a request waits for its turn.
        """
        self._free = asyncio.Semaphore(number)
        self._patience = patience
        self._waiting = self._busy = self._threads = 0
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

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

    async def answer(self, view: View, request: Request) -> Response:
        """Return the answer of a view, which runs on a thread; raise what it raises."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Response] = loop.create_future()

        def make() -> None:
            """Make the answer in a thread, and pass it or its error to the loop."""
            try:
                settled = partial(_settle, answer, answer.set_result, view(request))
            except Exception as error:
                settled = partial(_settle, answer, answer.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settled)

        self._busy += 1
        try:
            if self._busy > self._threads:
                self._threads += 1
                threading.Thread(target=self._run, name="view", daemon=True).start()
            self._work.put(make)
            return await answer
        finally:
            self._busy -= 1

    def _run(self) -> None:
        while make := self._work.get():
            make()

    def close(self) -> None:
        """Have each thread end after its present answer."""
        for _ in range(self._threads):
            self._work.put(None)


def _settle(
    answer: asyncio.Future[Response], settle: Callable[[Any], None], result: object
) -> None:
    if not answer.done():  # given up when the server stopped
        settle(result)


def in_pieces(send: Send) -> Send:
    """Return a sender that splits bodies, each piece sent once the client took those before.

    Sent at once, a page would lie in the connection's buffer for as long as its client likes, after
    its turn has ended.
    """

    async def send_pieces(message: Message) -> None:
        body, more = message.get("body", b""), message.get("more_body", False)
        for start in range(PIECE, len(body) + PIECE, PIECE) if body else ():
            last = start >= len(body)
            piece = {"body": body[start - PIECE : start], "more_body": more or not last}
            await send({**message, **piece})
        if not body:
            await send(message)

    return send_pieces
