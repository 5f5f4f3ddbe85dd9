"""The views of the ports: the metrics, and Snapshots by their number."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from alerts.exposition.negotiation import accepts_gzip
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
