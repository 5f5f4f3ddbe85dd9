"""The ports of one process: one for everything, or one for slices and one for operations."""

from __future__ import annotations

from collections.abc import Mapping

from alerts.exposition.exporter import Exporter
from alerts.http.access_log import AccessLog
from alerts.http.app import make_app
from alerts.http.config import HttpConfig
from alerts.http.guard import Guard
from alerts.http.responses import Turns, View
from alerts.http.server import HttpServer
from alerts.http.views import (
    METRICS,
    SNAPSHOT,
    Find,
    HealthChecks,
    HealthEndpoints,
    metrics_view,
    snapshot_view,
)
from monitor.errors import SlicewatchError
from monitor.ports import Clock


class Servers:
    """Serves one exporter and the health of one process.

    The fairness port serves whatever is about slices. The service's own metrics are there, too,
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
    ) -> None:
        """Check the policy and load the certificates; nothing is bound yet.

        Args:
            fairness: where slices are served.
            operations: where the service's own metrics are served; None: there, too.
            exporter: what is served.
            health: of the process.
            clock: of the access log.
            snapshots: finds what was published before; None serves none of that.

        Raises:
            SlicewatchError: the policy forbids the settings, or a file cannot be read.
        """
        self._access = AccessLog(clock)
        probes = HealthEndpoints(health)
        body = exporter.fairness if operations else exporter.body
        views = {METRICS: metrics_view(body)}
        if snapshots is not None:
            views[SNAPSHOT] = snapshot_view(snapshots)
        self._fairness = _server(fairness, views, probes, self._access)
        self._operations = (
            _server(operations, {METRICS: metrics_view(exporter.operations)}, probes)
            if operations
            else None
        )
        exporter.metrics.set_insecure(fairness.exposed)

    @property
    def port(self) -> int:
        """The fairness port, or the only one; 0 before :meth:`start`."""
        return self._fairness.port

    @property
    def operations_port(self) -> int | None:
        """The operations port, 0 before :meth:`start`; None where there is none."""
        return self._operations.port if self._operations else None

    def start(self) -> None:
        """Bind and serve on threads of their own; all ports or none.

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
        """Close all ports and connections, and end the access log; safe to call twice."""
        self._fairness.stop()
        if self._operations:
            self._operations.stop()
        self._access.close()


def _server(
    config: HttpConfig,
    views: Mapping[str, View],
    probes: HealthEndpoints,
    access: AccessLog | None = None,
) -> HttpServer:
    guard = Guard(config.tokens, certificates=config.client_ca_file is not None)
    turns = Turns(config.answers, config.timeouts.turn)
    app = make_app(views, probes, guard, turns, access)
    return HttpServer(config, app, turns, tick=access.sweep if access else None)
