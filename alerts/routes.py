"""What one port answers: its views, to those who may read them, and the health of the process."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from alerts.access import AccessLog
from alerts.guard import Guard
from alerts.request import Request, accepts_gzip
from alerts.responses import Response, just
from monitor.errors import StoreError

View = Callable[[Request], Response]
Find = Callable[[int], bytes | None]
"""The stored Snapshot of a number; None where there is none. Raises StoreError."""

SNAPSHOT = "/snapshot/"

_CHALLENGE = (("WWW-Authenticate", "Bearer"),)
_HEALTH_PATHS = ("/livez", "/readyz", "/startupz")
_JSON = (("Content-Type", "application/json"),)
_NUMBER = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)  # within a database's integers
_UNAVAILABLE = HTTPStatus.SERVICE_UNAVAILABLE
_BUSY = (("Retry-After", "1"),)
_TURN_SECONDS = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Health:
    """What the probes ask; each must only read memory.

    Attributes:
        live: whether the loop turns; never broker, database or lag.
        ready: whether work can be done, and why not: logged, and sent to whoever asks.
        started: whether start-up has finished.
    """

    live: Callable[[], bool]
    ready: Callable[[], tuple[bool, str]]
    started: Callable[[], bool]


class Probes:
    """Answers the health paths, on every port of a process, with yes or no."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._why_not_ready = ""

    def answer(self, path: str) -> Response | None:
        """The answer to a health path; None for any other path."""
        match path:
            case "/livez" | "/healthz":
                return _yes_or_no(self._health.live())
            case "/readyz":
                return self._readiness()
            case "/startupz":
                return _yes_or_no(self._health.started())
        return None

    def _readiness(self) -> Response:
        ready, why = self._health.ready()
        why = "" if ready else why
        if why != self._why_not_ready:
            _log.info("readiness changed: %s", why or "ready")
            self._why_not_ready = why
        return _yes_or_no(True) if ready else Response(_UNAVAILABLE, f"{why}\n".encode())


class Routes:
    """Answers the requests of one port."""

    def __init__(
        self,
        views: Mapping[str, View],
        probes: Probes,
        guard: Guard,
        access: AccessLog | None = None,
    ) -> None:
        """Set up what is answered.

        Args:
            views: by path, or by how the paths begin, which ends with a slash then; all of them
                are for admitted readers alone.
            probes: the health paths, open to anyone.
            guard: who may read the views.
            access: told of every request for a view; None where no view is about slices.
        """
        self._views = views
        self._probes = probes
        self._guard = guard
        self._access = access
        self._index = "\n".join(["slicewatch", *views, *_HEALTH_PATHS, ""]).encode()

    def respond(self, request: Request, certificate: str | None = None) -> Response:
        """The answer to one request.

        Args:
            request: as read.
            certificate: name of the client's checked certificate, None without one.
        """
        if request.method not in ("GET", "HEAD"):
            return just(HTTPStatus.METHOD_NOT_ALLOWED, (("Allow", "GET, HEAD"),))
        path = self._path(request.path)
        if path in self._views:
            return self._view(path, request, certificate)
        return _safely(self._open, request)

    def _path(self, asked: str) -> str:
        """As the views have it; the log must not tell what comes after it."""
        return asked if asked in self._views else asked[: asked.rfind("/") + 1]

    def _open(self, request: Request) -> Response:
        if request.path == "/":
            return Response(HTTPStatus.OK, self._index)
        return self._probes.answer(request.path) or just(HTTPStatus.NOT_FOUND)

    def _view(self, path: str, request: Request, certificate: str | None) -> Response:
        admission = self._guard.admit(request.headers.get("authorization", ""), certificate)
        if admission.granted:
            response = _safely(self._views[path], request)
        else:
            challenge = _CHALLENGE if admission.status is HTTPStatus.UNAUTHORIZED else ()
            response = just(admission.status, challenge)
        if self._access is not None:
            self._access.record(admission.reader, path, response.status)
        return response


def metrics_view(body: Callable[[str, bool], tuple[bytes, str]]) -> View:
    """The view of an exposition.

    Args:
        body: makes the body, compressed if asked for, and its content type from an Accept header.
    """

    def view(request: Request) -> Response:
        gzip = accepts_gzip(request.headers.get("accept-encoding", ""))
        content, content_type = body(request.headers.get("accept", ""), gzip)
        headers = (("Content-Type", content_type), ("Vary", "Accept, Accept-Encoding"))
        encoding = (("Content-Encoding", "gzip"),) if gzip else ()
        return Response(HTTPStatus.OK, content, headers + encoding)

    return view


def snapshot_view(find: Find) -> View:
    """The view of stored Snapshots by their number, as they were published.

    One is read at a time: readers must not take the connections that the service works with.
    """
    turn = threading.Lock()

    def view(request: Request) -> Response:
        number = request.path.removeprefix(SNAPSHOT)
        if not _NUMBER.fullmatch(number):
            return just(HTTPStatus.NOT_FOUND)
        if not turn.acquire(timeout=_TURN_SECONDS):
            return just(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY)
        try:
            body = find(int(number))
        except StoreError:
            return just(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY)
        finally:
            turn.release()
        return just(HTTPStatus.NOT_FOUND) if body is None else Response(HTTPStatus.OK, body, _JSON)

    return view


def _safely(view: View, request: Request) -> Response:
    try:
        return view(request)
    except Exception:
        _log.exception("no answer to %s", request.path)
        return just(HTTPStatus.INTERNAL_SERVER_ERROR)


def _yes_or_no(good: bool) -> Response:
    return Response(HTTPStatus.OK, b"ok\n") if good else just(HTTPStatus.SERVICE_UNAVAILABLE)
