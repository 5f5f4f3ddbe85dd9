"""The application of one port: its routes, their endpoints, and who may read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alerts.http.access_log import AccessLog
from alerts.http.connection import CERTIFICATE, MAX_HEAD
from alerts.http.guard import Guard
from alerts.http.responses import Turns, View, in_pieces, safely, status_only
from alerts.http.views import HealthEndpoints, header

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


_CLOSE = (b"Connection", b"close")
_METHODS = ("GET", "HEAD")
_UNLISTED = ("/healthz",)  # another name of /livez


def make_app(
    views: Mapping[str, View],
    probes: HealthEndpoints,
    guard: Guard,
    turns: Turns,
    access: AccessLog | None = None,
) -> ASGIApp:
    """Application of one port.

    Args:
        views: by path, for admitted readers alone; they run on threads.
        probes: the health paths, open to anyone.
        guard: who may read the views.
        turns: of the views.
        access: logs every request for a view; None where no view is about slices.
    """
    health = probes.views()
    listed = [_shown(path) for path in (*views, *health) if path not in _UNLISTED]
    index = "\n".join(["slicewatch", *listed, ""])
    open_views: dict[str, View] = {"/": lambda _: PlainTextResponse(index), **health}
    app = Starlette(
        routes=[
            *(_route(path, Open(path, view)) for path, view in open_views.items()),
            *(
                _route(path, Guarded(_shown(path), view, guard, turns, access))
                for path, view in views.items()
            ),
        ],
        middleware=[Middleware(_Strict)],
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    app.router.redirect_slashes = False  # a path has one spelling
    return app


def _route(path: str, endpoint: ASGIApp) -> Route:
    return Route(path, endpoint, methods=_METHODS)


def _shown(path: str) -> str:
    """A path up to its parameter, whose value is nobody's business."""
    return path.partition("{")[0]


async def _refused(_: Request, error: Exception) -> Response:
    """Answer to a request that no route takes."""
    if not isinstance(error, HTTPException):
        raise error
    # The router's own list has no order.
    not_allowed = error.status_code == HTTPStatus.METHOD_NOT_ALLOWED
    return status_only(
        error.status_code, {"Allow": ", ".join(_METHODS)} if not_allowed else error.headers
    )


async def _failed(_: Request, __: Exception) -> Response:
    """A bug outside the views; uvicorn logs it."""
    return status_only(HTTPStatus.INTERNAL_SERVER_ERROR)


class _Strict:
    """Answers what the server would take, and we have no use for."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        refusal = _refusal(scope)
        # No body is ever read, and what is not read must not be taken for the next request.
        body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
        answer = self._app if refusal is None else status_only(refusal)
        await answer(scope, receive, _closing(send) if body or refusal else send)


def _refusal(scope: Scope) -> HTTPStatus | None:
    size = sum(len(name) + len(value) for name, value in scope["headers"])
    if size + len(scope["raw_path"]) + len(scope["query_string"]) > MAX_HEAD:
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    return None if scope["http_version"] in ("1.0", "1.1") else HTTPStatus.BAD_REQUEST


def _closing(send: Send) -> Send:
    """Send the answer as the last one of the connection."""

    async def send_last(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], _CLOSE]}
        await send(message)

    return send_last
