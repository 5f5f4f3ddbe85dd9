"""Views of the ports: metrics, Snapshots by number, and the health of the process.

The health paths answer anyone, without credentials.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from alerts.exposition.exporter import accepts_gzip
from alerts.http.responses import SharedResponse, View, status_only
from monitor.errors import StoreError

Body = Callable[[str, bool], tuple[Sequence[bytes], str]]
"""Function from an Accept header, and whether to compress, to a body's parts and content type."""
Find = Callable[[int], bytes | None]
"""Function from a number to its stored Snapshot, or None. Raises StoreError."""

METRICS = "/metrics"
SNAPSHOT = "/snapshot/{number}"

_NUMBER = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)  # within a database's integers
_BUSY = {"Retry-After": "1"}
_TURN_SECONDS = 1.0


def metrics_view(body: Body) -> View:
    """Return the view that answers with the metrics that ``body`` makes for its request.

    Args:
        body: returns parts and content type for an Accept header, compressed if asked for.
    """

    def view(request: Request) -> Response:
        gzip = accepts_gzip(header(request, "accept-encoding"))
        parts, content_type = body(header(request, "accept"), gzip)
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        return SharedResponse(parts, headers | ({"Content-Encoding": "gzip"} if gzip else {}))

    return view


def snapshot_view(find: Find) -> View:
    """Return the view of a stored Snapshot by its number, as it was published.

    It reads one at a time, so that a database that hangs leaves turns to other pages.
    """
    turn = threading.Lock()

    def view(request: Request) -> Response:
        """Return a stored Snapshot by its number as JSON; 404 without one, 503 if busy."""
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
    """Return a header's value, repeated values joined by commas; empty without the header."""
    return ",".join(request.headers.getlist(name))


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HealthChecks:
    """Checks that answer the health paths; each may only read memory.

    Attributes:
        live: True while the loop turns, whatever the state of broker, database or lag.
        ready: whether work can be done, and the reason if not, which is logged and sent.
        started: True when start-up has finished.
    """

    live: Callable[[], bool]
    ready: Callable[[], tuple[bool, str]]
    started: Callable[[], bool]


class HealthEndpoints:
    """Health endpoints, the same on every port of a process; changes of readiness are logged."""

    def __init__(self, health: HealthChecks) -> None:
        self._health = health
        self._why_not_ready = ""

    def views(self) -> dict[str, View]:
        """Return the views of live, ready and started, by path."""
        return {
            "/livez": lambda _: _yes_or_no(self._health.live()),
            "/readyz": self._ready,
            "/startupz": lambda _: _yes_or_no(self._health.started()),
            "/healthz": lambda _: _yes_or_no(self._health.live()),
        }

    def _ready(self, _: Request) -> Response:
        """Answer 200 if ready, else 503 with the reason; log each change."""
        ready, reason = self._health.ready()
        reason = "" if ready else reason
        if reason != self._why_not_ready:
            _log.info("readiness changed: %s", reason or "ready")
            self._why_not_ready = reason
        if ready:
            return _yes_or_no(True)
        return PlainTextResponse(f"{reason}\n", HTTPStatus.SERVICE_UNAVAILABLE)


def _yes_or_no(good: bool) -> Response:
    return PlainTextResponse("ok\n") if good else status_only(HTTPStatus.SERVICE_UNAVAILABLE)
