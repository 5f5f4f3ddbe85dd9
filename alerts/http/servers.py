"""Ports of one process: one for everything, or one for slices and one for operations."""

from __future__ import annotations

from dataclasses import replace

from alerts.exposition.exporter import Exporter
from alerts.http.access_log import AccessLog
from alerts.http.app import Access, PortTurns, PortViews, make_app
from alerts.http.config import HttpConfig
from alerts.http.guard import Guard
from alerts.http.responses import AnswerTurns
from alerts.http.server import HttpServer
from alerts.http.views import (
    METRICS,
    SNAPSHOT,
    Body,
    Find,
    HealthChecks,
    HealthEndpoints,
    metrics_view,
    snapshot_view,
)
from monitor.errors import SlicewatchError
from monitor.ports import Clock

_NO_PAGES = PortViews()


class Servers:
    """HTTP servers of one process, for its exporter and its health.

    The fairness port serves everything about slices. It also serves the service's own metrics,
    unless there is an operations port. Both answer the health paths.
    """

    def __init__(
        self,
        fairness: HttpConfig,
        operations: HttpConfig | None,
        exporter: Exporter,
        health: HealthChecks,
        clock: Clock,
        *,
        snapshots: Find | None = None,
        pages: PortViews = _NO_PAGES,
    ) -> None:
        """Check the policy and load the certificates, without binding a port.

        Args:
            fairness: port of the slices.
            operations: port of the service's own metrics; None serves them with the slices.
            exporter: renders the metrics.
            health: health of the process.
            clock: clock of the access log.
            snapshots: finds stored Snapshots; None serves none.
            pages: views of the status page and the API, on the fairness port.

        Raises:
            SlicewatchError: the policy forbids the settings, or a file cannot be read.
        """
        self._access = AccessLog(clock)
        probes = HealthEndpoints(health)
        body = exporter.fairness if operations else exporter.body
        read = dict(pages.read)
        if snapshots is not None:
            read[SNAPSHOT] = snapshot_view(snapshots)
        views = replace(pages, read=read, scraped={METRICS: metrics_view(body)})
        self._fairness = _server(fairness, views, probes, self._access)
        self._operations = (
            _server(operations, _metrics_alone(exporter.operations), probes) if operations else None
        )
        exporter.metrics.show_process("server_insecure", fairness.exposed)

    @property
    def port(self) -> int:
        """Return the number of the fairness port, or the only one; 0 before :meth:`start`."""
        return self._fairness.port

    @property
    def operations_port(self) -> int | None:
        """Return the number of the operations port; 0 before :meth:`start`, None without one."""
        return self._operations.port if self._operations else None

    def start(self) -> None:
        """Bind all ports or none, and serve on threads of their own.

        Raises:
            SlicewatchError: an address cannot be bound.
        """
        self._fairness.start()
        if self._operations:
            try:
                self._operations.start()
            except SlicewatchError:
                self._fairness.stop()
                raise

    def stop(self) -> None:
        """Close all ports and connections, and write the rest of the access log; repeatable."""
        self._fairness.stop()
        if self._operations:
            self._operations.stop()
        self._access.close()


def metrics_server(config: HttpConfig, body: Body, health: HealthChecks) -> HttpServer:
    """Return a server of health paths and of the metrics that ``body`` makes, without slices.

    Raises:
        SlicewatchError: the policy forbids the settings, or a file cannot be read.
    """
    return _server(config, _metrics_alone(body), HealthEndpoints(health))


def _metrics_alone(body: Body) -> PortViews:
    return PortViews(scraped={METRICS: metrics_view(body)})


def _server(
    config: HttpConfig, views: PortViews, probes: HealthEndpoints, log: AccessLog | None = None
) -> HttpServer:
    """Build a port's server: guard, log, turns of answers, and views."""
    guard = Guard(
        config.tokens,
        certificates=config.client_ca_file is not None,
        responders=config.responders,
        producers=config.producers,
    )
    access = Access(guard, config, log)
    sizes = config.answers, config.pages, config.batches
    turns = PortTurns(*(AnswerTurns(size, config.turn_seconds) for size in sizes))
    app = make_app(views, probes, access, turns)
    return HttpServer(config, app, turns, tick=log.sweep if log else None)
