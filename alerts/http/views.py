"""The views of the ports: the metrics, Snapshots by their number, and the health of the process.

The health paths say yes or no to whoever asks, without credentials.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from alerts.exposition.exporter import accepts_gzip
from alerts.http.responses import View, status_only
from monitor.errors import StoreError

Find = Callable[[int], bytes | None]
"""The stored Snapshot of a number; None where there is none. Raises StoreError."""

METRICS = "/metrics"
SNAPSHOT = "/snapshot/{number}"

_NUMBER = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)  # within a database's integers
_BUSY = {"Retry-After": "1"}
_TURN_SECONDS = 1.0


def metrics_view(body: Callable[[str, bool], tuple[bytes, str]]) -> View:
    """The view of an exposition.

    Args:
        body: makes the body, compressed if asked for, and its content type from an Accept header.
    """

    def view(request: Request) -> Response:
        gzip = accepts_gzip(header(request, "accept-encoding"))
        content, content_type = body(header(request, "accept"), gzip)
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        return Response(content, headers=headers | ({"Content-Encoding": "gzip"} if gzip else {}))

    return view


def snapshot_view(find: Find) -> View:
    """The view of stored Snapshots by their number, as they were published.

    One is read at a time: readers must not take the connections that the service works with.
    """
    turn = threading.Lock()

    def view(request: Request) -> Response:
        number = request.path_params["number"]
        if not _NUMBER.fullmatch(number):
            return status_only(HTTPStatus.NOT_FOUND)
        if not turn.acquire(timeout=_TURN_SECONDS):
            return status_only(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY)
        try:
            body = find(int(number))
        except StoreError:
            return status_only(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY)
        finally:
            turn.release()
        if body is None:
            return status_only(HTTPStatus.NOT_FOUND)
        return Response(body, media_type="application/json")

    return view


def header(request: Request, name: str) -> str:
    """A header's value, empty where there is none; repeated ones are joined, as HTTP has it."""
    return ",".join(request.headers.getlist(name))


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HealthChecks:
    """Checks that the health paths answer with; each must only read memory.

    Attributes:
        live: whether the loop turns; never broker, database or lag.
        ready: whether work can be done, and why not: logged, and sent to whoever asks.
        started: whether start-up has finished.
    """

    live: Callable[[], bool]
    ready: Callable[[], tuple[bool, str]]
    started: Callable[[], bool]


class HealthEndpoints:
    """Answers the health paths, on every port of a process."""

    def __init__(self, health: HealthChecks) -> None:
        self._health = health
        self._why_not_ready = ""

    def views(self) -> dict[str, View]:
        """The views by path."""
        return {
            "/livez": self._live,
            "/readyz": self._ready,
            "/startupz": self._started,
            "/healthz": self._live,
        }

    def _live(self, _: Request) -> Response:
        return _yes_or_no(self._health.live())

    def _started(self, _: Request) -> Response:
        return _yes_or_no(self._health.started())

    def _ready(self, _: Request) -> Response:
        ready, why = self._health.ready()
        why = "" if ready else why
        if why != self._why_not_ready:
            _log.info("readiness changed: %s", why or "ready")
            self._why_not_ready = why
        if ready:
            return _yes_or_no(True)
        return PlainTextResponse(f"{why}\n", HTTPStatus.SERVICE_UNAVAILABLE)


def _yes_or_no(good: bool) -> Response:
    return PlainTextResponse("ok\n") if good else status_only(HTTPStatus.SERVICE_UNAVAILABLE)
