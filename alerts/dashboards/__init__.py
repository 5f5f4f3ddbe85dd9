"""Grafana dashboards, rendered for an installation: pure functions and data.

``fleet``, ``slices``, ``operations``, ``data_health`` and ``history`` declare the dashboards, and
:mod:`~alerts.dashboards.grafana` writes them as Grafana's JSON. Alerts name the panel of their
subject; panels link to the runbooks of these alerts.
"""

from alerts.dashboards.boards import PanelPlace, dashboards, places
from alerts.dashboards.fleet import FLEET
from alerts.dashboards.rendering import rendered
from alerts.dashboards.slices import SLICE

__all__ = ["FLEET", "SLICE", "PanelPlace", "dashboards", "model", "places", "rendered"]
