"""Endpoints of routes: a view for anyone, or one for admitted readers."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from alerts.http.access_log import AccessLog
from alerts.http.connection import CERTIFICATE
from alerts.http.guard import Guard
from alerts.http.responses import Turns, View, in_pieces, safely, status_only
from alerts.http.views import header

_CHALLENGE = {"WWW-Authenticate": "Bearer"}
_RETRY = {"Retry-After": "5"}


class Open:
    """A view for anyone, which only reads memory: it is answered at once, whoever else waits."""

    def __init__(self, path: str, view: View) -> None:
        self._path = path
        self._view = view

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def made() -> Response:
            return self._view(Request(scope, receive))

        response = await safely(self._path, made)
        await response(scope, receive, send)


class Guarded:
    """A view for admitted readers, on a thread, in its turn; every access is logged."""

    def __init__(
        self, path: str, view: View, guard: Guard, turns: Turns, access: AccessLog | None
    ) -> None:
        self._path = path
        self._view = view
        self._guard = guard
        self._turns = turns
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or say why not."""
        with contextlib.suppress(asyncio.CancelledError):  # the server stops; the client has gone
            await self._answer(Request(scope, receive), send)

    async def _answer(self, request: Request, send: Send) -> None:
        certificate = request.scope["state"].get(CERTIFICATE)
        admission = self._guard.admit(header(request, "authorization"), certificate)

        async def answer(response: Response) -> None:
            if self._access is not None:
                self._access.record(admission.reader, self._path, HTTPStatus(response.status_code))
            await response(request.scope, request.receive, in_pieces(send))

        if not admission.granted:
            challenge = _CHALLENGE if admission.status is HTTPStatus.UNAUTHORIZED else None
            await answer(status_only(admission.status, challenge))
        elif not await self._turns.take():
            await answer(status_only(HTTPStatus.SERVICE_UNAVAILABLE, _RETRY))
        else:
            try:
                made = partial(self._turns.made, self._view, request)
                await answer(await safely(self._path, made))
            finally:
                self._turns.give_back()
