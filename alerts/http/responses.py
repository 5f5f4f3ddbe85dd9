"""Answers to requests, made and sent safely, a few at a time, in pieces that a client takes."""

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
"""Makes the answer to a request for one path; what it raises becomes a 500 that says nothing."""

PIECE = 256 * 1024  # bytes; most pages are one

_log = logging.getLogger(__name__)


def status_only(status: int, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says its status and nothing else."""
    return PlainTextResponse(f"{status} {HTTPStatus(status).phrase}\n", status, headers)


def refusal_of(error: HTTPException) -> Response:
    """An answer that says the status, and why where that helps whoever asked."""
    return PlainTextResponse(f"{error.status_code} {error.detail}\n", error.status_code)


async def safely(path: str, view: Callable[[], Awaitable[Response]]) -> Response:
    """The answer of a view, whatever happens in it.

    Args:
        path: as the routes have it; the log must not repeat what was asked for.
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
    """Answers are made and sent a few at a time, since each may hold a page in memory.

    Their views run on threads that nobody waits for at the end. Those of asyncio and anyio are
    waited for when the interpreter ends: a database that does not answer would keep a stopped
    service alive.
    """

    def __init__(self, number: int, patience: float) -> None:
        """All are free; threads are started when they are needed, and kept.

        Args:
            number: of answers at a time.
            patience: seconds that a request waits for its turn.
        """
        self._free = asyncio.Semaphore(number)
        self._patience = patience
        self._waiting = self._busy = self._threads = 0
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    @property
    def wanted(self) -> bool:
        """True when a request waits for its turn."""
        return self._waiting > 0

    async def take(self) -> bool:
        """Wait for a turn, which must be given back; False if there was none in time."""
        self._waiting += 1
        try:
            async with asyncio.timeout(self._patience):
                return await self._free.acquire()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1

    def give_back(self) -> None:
        """End a turn."""
        self._free.release()

    async def made(self, view: View, request: Request) -> Response:
        """The answer of a view, which may take its time."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Response] = loop.create_future()

        def make() -> None:
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
        """Let the threads end, each when it has made its answer."""
        for _ in range(self._threads):
            self._work.put(None)


def _settle(
    answer: asyncio.Future[Response], settle: Callable[[Any], None], result: object
) -> None:
    if not answer.done():  # given up when the server stopped
        settle(result)


def in_pieces(send: Send) -> Send:
    """Send bodies piece by piece: each waits until the client has taken most of those before.

    As a whole, a page would lie in the connection's buffer for as long as its client likes, and
    its turn would be over.
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
