"""Grafana dashboards, rendered for an installation: pure functions and data.

What is shown is declared in ``fleet``, ``slices``, ``operations``, ``data_health`` and ``history``;
:mod:`~alerts.dashboards.grafana` writes it in Grafana's words. Alerts name the panel that shows
what they are about, panels link to the runbooks of those alerts.
"""

from alerts.dashboards.boards import PanelPlace, dashboards, places
from alerts.dashboards.fleet import FLEET
from alerts.dashboards.rendering import rendered
from alerts.dashboards.slices import SLICE

__all__ = ["FLEET", "SLICE", "PanelPlace", "dashboards", "model", "places", "rendered"]
