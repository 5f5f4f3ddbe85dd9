"""Grafana dashboards, rendered for an installation from one YAML file each.

:mod:`~alerts.dashboards.declarations` reads and checks the files, and
:mod:`~alerts.dashboards.grafana` writes Grafana's JSON. Alerts name the panel of their subject;
panels link to the runbooks of these alerts.
"""

from alerts.dashboards.declarations import address, dashboards, places
from alerts.dashboards.rendering import rendered

__all__ = ["address", "dashboards", "places", "rendered"]
