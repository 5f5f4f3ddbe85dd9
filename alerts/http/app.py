"""The application of one port: its routes, who may read, and the health of the process."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alerts.http.access_log import AccessLog
from alerts.http.connection import MAX_HEAD
from alerts.http.endpoints import Guarded, Open
from alerts.http.guard import Guard
from alerts.http.health_endpoints import HealthEndpoints
from alerts.http.responses import Turns, View, status_only

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
