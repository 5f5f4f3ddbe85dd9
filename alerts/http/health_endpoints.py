"""The health paths: yes or no to whoever asks, without credentials."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from alerts.http.responses import View, status_only

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
