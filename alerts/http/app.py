"""Application of one port: its routes, their endpoints, and access control."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alerts.http.access_log import AccessLog
from alerts.http.bodies import kind_of, read_body
from alerts.http.config import HttpConfig
from alerts.http.connection import CERTIFICATE, MAX_HEAD
from alerts.http.forms import check_origin, read_fields
from alerts.http.guard import Admission, Guard
from alerts.http.hosts import check_host
from alerts.http.responses import (
    AnswerTurns,
    SharedResponse,
    View,
    answer_on_thread,
    in_pieces,
    refusal_of,
    safely,
    status_only,
)
from alerts.http.views import HealthEndpoints, header
from monitor.settings.checks import is_loopback
from monitor.settings.sections import ANYBODY

_CHALLENGE = {"WWW-Authenticate": 'Bearer, Basic realm="slicewatch", charset="UTF-8"'}
_RETRY = {"Retry-After": "5"}

BATCH_KINDS = ("application/json", "application/x-ndjson")
MAX_BATCH = 1024 * 1024  # bytes
MAX_BATCHES = 8
"""Most batches in memory; clients send further ones again a moment later."""
_AGAIN = {"Retry-After": "1"}


def open_endpoint(path: str, view: View) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint for anyone, whose view only reads memory and is answered at once."""

    async def endpoint(request: Request) -> Response:
        async def respond() -> Response:
            return view(request)

        return await safely(path, respond)

    return endpoint


@dataclass(frozen=True, slots=True)
class Access:
    """Admission of a port's requests, their log, and the checks of their host names.

    Attributes:
        guard: admits requests.
        config: the port, with the addresses at which browsers reach it.
        log: log of every request for a view; None if no view is about slices.
    """

    guard: Guard
    config: HttpConfig
    log: AccessLog | None = None

    def check_reader(self, request: Request, admission: Admission) -> None:
        """Refuse (403) a reader without credentials who calls this machine by a foreign host name.

        A port that others reach may have any name, if its settings allow readers without
        credentials.
        """
        if is_loopback(self.config.host) and admission.reader == ANYBODY:
            check_host(request, self.config.origins)

    def check_actor(self, request: Request, admission: Admission) -> None:
        """Refuse (403) a sender without credentials who does not use this machine's own name."""
        if admission.reader == ANYBODY:
            check_host(request)


class Guarded:
    """Endpoint for admitted readers, answered on a thread in turn; every access is logged."""

    def __init__(
        self, path: str, view: View, access: Access, turns: AnswerTurns, *, form: bool = False
    ) -> None:
        self._path = path
        self._view = view
        self._access = access
        self._turns = turns
        self._form = form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request by the view, or with the status of its refusal."""
        with contextlib.suppress(asyncio.CancelledError):  # the server stops; the client has gone
            await self._answer(Request(scope, receive), send)

    async def _answer(self, request: Request, send: Send) -> None:
        """Admit or refuse a request, wait for its turn, and answer; log who asked what."""
        certificate = request.scope["state"].get(CERTIFICATE)
        admission = self._access.guard.admit(header(request, "authorization"), certificate)

        async def answer(response: Response) -> None:
            if self._access.log is not None:
                status = HTTPStatus(response.status_code)
                self._access.log.record(admission.reader, self._path, status)
            await response(request.scope, request.receive, in_pieces(send))

        if not admission.granted:
            challenge = _CHALLENGE if admission.status is HTTPStatus.UNAUTHORIZED else None
            await answer(status_only(admission.status, challenge))
        elif (refused := await self._prepare_or_refuse(request, admission)) is not None:
            await answer(refused)
        elif not await self._turns.take():
            await answer(status_only(HTTPStatus.SERVICE_UNAVAILABLE, _RETRY))
        else:
            try:
                respond = partial(answer_on_thread, self._view, request)
                response = await safely(self._path, respond)
                if is_held := not isinstance(response, SharedResponse):
                    await answer(response)
            finally:
                self._turns.give_back()
            if not is_held:  # slow scrapers must not keep the turns of others
                await answer(response)

    async def _prepare_or_refuse(self, request: Request, admission: Admission) -> Response | None:
        """Set reader and form in the request's state; return an answer if refused, else None."""
        if not admission.reads:
            return status_only(HTTPStatus.FORBIDDEN)
        request.state.reader, request.state.responds = admission.reader, admission.responds
        try:
            if self._form:
                await self._read_form(request, admission)
            else:
                self._access.check_reader(request, admission)
        except HTTPException as error:
            return refusal_of(error)
        return None

    async def _read_form(self, request: Request, admission: Admission) -> None:
        """Check who sends a form and from where, and read its fields."""
        if not admission.responds:
            raise HTTPException(HTTPStatus.FORBIDDEN)
        self._access.check_actor(request, admission)
        check_origin(request, self._access.config.origins)
        request.state.fields = await read_fields(request, self._access.config.body_seconds)


class Received(Guarded):
    """Endpoint for batches of events from producers; the view finds ``body`` and ``kind``.

    No page in a browser can send a batch: a browser names the page's origin, and asks before it
    sends anything but a form.
    """

    def __init__(self, path: str, view: View, access: Access, turns: AnswerTurns) -> None:
        super().__init__(path, view, access, turns)
        self._batches = 0

    async def _answer(self, request: Request, send: Send) -> None:
        """Answer a batch, and count it as long as it takes."""
        self._batches += 1
        try:
            await super()._answer(request, send)
        finally:
            self._batches -= 1

    async def _prepare_or_refuse(self, request: Request, admission: Admission) -> Response | None:
        """Read the body of a batch; return the refusal if it may not be sent."""
        if not admission.sends or "origin" in request.headers:
            return status_only(HTTPStatus.FORBIDDEN)
        if self._batches > MAX_BATCHES:
            return status_only(HTTPStatus.TOO_MANY_REQUESTS, _AGAIN)
        try:
            self._access.check_actor(request, admission)
            seconds = self._access.config.body_seconds
            body = await read_body(request, BATCH_KINDS, most=MAX_BATCH, seconds=seconds)
        except HTTPException as error:
            return refusal_of(error)
        request.state.body, request.state.kind = body, kind_of(request)
        return None


@dataclass(frozen=True, slots=True)
class PortViews:
    """Views of a port for admitted clients, by path; they run on threads.

    Attributes:
        read: views for people and programs.
        forms: views for responders. The request's state has ``reader``, ``responds`` and
            ``fields``.
        events: views for producers. The request's state has ``body`` and ``kind``.
        scraped: views for scrapers, with turns of their own: no page delays a scrape.
    """

    read: Mapping[str, View] = field(default_factory=dict)
    forms: Mapping[str, View] = field(default_factory=dict)
    events: Mapping[str, View] = field(default_factory=dict)
    scraped: Mapping[str, View] = field(default_factory=dict)

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths of views that are read, without forms and events."""
        return (*self.scraped, *self.read)


class PortTurns(NamedTuple):
    """Turns of a port, separate for scrapes, pages and events, so that none waits for another."""

    scraped: AnswerTurns
    pages: AnswerTurns
    events: AnswerTurns


_CLOSE = (b"Connection", b"close")
_METHODS = ("GET", "HEAD")
_UNLISTED = ("/healthz",)  # another name of /livez


def make_app(
    views: PortViews, probes: HealthEndpoints, access: Access, turns: PortTurns
) -> ASGIApp:
    """Return the application of one port: health paths open, all other views guarded.

    Args:
        views: views for admitted readers only.
        probes: the health paths, open to anyone.
        access: access control.
        turns: turns of the answers.
    """
    health = probes.views()
    listed_paths = [
        _path_for_log(path) for path in (*views.paths, *health) if path not in _UNLISTED
    ]
    index = "\n".join(["slicewatch", *listed_paths, ""])
    open_views: dict[str, View] = {**health}
    if "/" not in views.read:
        open_views["/"] = lambda _: PlainTextResponse(index)

    def guarded(path: str, view: View, answer_turns: AnswerTurns, *, form: bool = False) -> Route:
        endpoint = Guarded(_path_for_log(path), view, access, answer_turns, form=form)
        return Route(path, endpoint, methods=("POST",) if form else _METHODS)

    app = Starlette(
        routes=[
            *(
                Route(path, open_endpoint(path, view), methods=_METHODS)
                for path, view in open_views.items()
            ),
            *(guarded(path, view, turns.scraped) for path, view in views.scraped.items()),
            *(guarded(path, view, turns.pages) for path, view in views.read.items()),
            *(guarded(path, view, turns.pages, form=True) for path, view in views.forms.items()),
            *(
                Route(path, Received(path, view, access, turns.events), methods=("POST",))
                for path, view in views.events.items()
            ),
        ],
        middleware=[Middleware(_Strict)],
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    app.router.redirect_slashes = False  # a path has one spelling
    return app


def _path_for_log(path: str) -> str:
    """Return a path up to its first parameter, whose value must not be shown."""
    return path.partition("{")[0]


async def _refused(_: Request, error: Exception) -> Response:
    """Return the answer to a request that no route takes; allowed methods are sorted."""
    if not isinstance(error, HTTPException):
        raise error
    headers = error.headers
    if headers and "Allow" in headers:  # the router's own list has no order
        headers = {"Allow": ", ".join(sorted(headers["Allow"].split(", ")))}
    return status_only(error.status_code, headers)


async def _failed(_: Request, __: Exception) -> Response:
    """Return status 500 for a bug outside the views; uvicorn logs it."""
    return status_only(HTTPStatus.INTERNAL_SERVER_ERROR)


class _Strict:
    """Middleware that refuses requests that are valid for the server but needed by no view."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        refusal = _refusal(scope)
        # Close after a body: the unread rest must not be taken for the next request.
        body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
        answer = self._app if refusal is None else status_only(refusal)
        await answer(scope, receive, _closing(send) if body or refusal else send)


def _refusal(scope: Scope) -> HTTPStatus | None:
    """Return the status that refuses a head too large or of another HTTP; None if neither."""
    size = sum(len(name) + len(value) for name, value in scope["headers"])
    if size + len(scope["raw_path"]) + len(scope["query_string"]) > MAX_HEAD:
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    return None if scope["http_version"] in ("1.0", "1.1") else HTTPStatus.BAD_REQUEST


def _closing(send: Send) -> Send:
    """Return a sender that closes the connection after its answer."""

    async def send_last(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], _CLOSE]}
        await send(message)

    return send_last
