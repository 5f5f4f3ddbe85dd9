"""Dashboards, and the places of their panels, which alerts name as ``dashboard.panel``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from alerts.dashboards.data_health import health
from alerts.dashboards.fleet import FLEET
from alerts.dashboards.model import Dashboard, Panel
from alerts.dashboards.operations import OPERATIONS
from alerts.dashboards.slices import SLICE
from monitor.settings import Settings


@dataclass(frozen=True, slots=True)
class PanelPlace:
    """Panel together with its dashboard, which gives it a name and a path."""

    dashboard: Dashboard
    panel: Panel

    @property
    def name(self) -> str:
        """Return the panel's name in alerts: ``dashboard.panel``."""
        return f"{self.dashboard.name}.{self.panel.key}"

    @property
    def path(self) -> str:
        """Return the panel's path below Grafana's address, without values of variables."""
        return f"/d/{self.dashboard.uid}/{self.dashboard.uid}?viewPanel={self.panel.id}"


def dashboards(settings: Settings) -> tuple[Dashboard, ...]:
    """Return all Grafana dashboards of an installation."""
    return FLEET, SLICE, OPERATIONS, health(float(settings.evaluate.completeness))


def places(settings: Settings) -> dict[str, PanelPlace]:
    """Return the place of every panel, by the panel's name in alerts."""
    return {place.name: place for place in _places(settings)}


def _places(settings: Settings) -> Iterator[PanelPlace]:
    for dashboard in dashboards(settings):
        yield from (PanelPlace(dashboard, panel) for panel in dashboard.panels)
