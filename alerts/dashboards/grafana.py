"""Dashboards as Grafana's JSON, in the classic model that Grafana 10 to 13 read from files."""

from __future__ import annotations

from collections.abc import Iterator

from alerts.dashboards.grafana_panels import Json, Links, panels, reference
from alerts.dashboards.model import Dashboard, GraphAnnotation, Source, Variable

SCHEMA_VERSION = 42
"""Version of the classic model; older Grafanas also read it, newer ones migrate it."""
TAG = "slicewatch"

_SOURCE_LABELS = {Source.PROMETHEUS: "Prometheus", Source.POSTGRESQL: "Published tables"}
_BUILT_IN = {
    "builtIn": 1,
    "datasource": {"type": "grafana", "uid": "-- Grafana --"},
    "enable": True,
    "hide": True,
    "iconColor": "rgba(0, 211, 255, 1)",
    "name": "Annotations & Alerts",
    "type": "dashboard",
}
_REFRESH_WITH_TIME = 2
_SORT, _SORT_DESCENDING = 1, 2
_SHARED_CROSSHAIR = 1


def document(dashboard: Dashboard, links: Links, status_page: str) -> Json:
    """Return a dashboard in Grafana's JSON model, with links from panels and to the status page.

    Args:
        dashboard: the dashboard.
        links: links of its panels, by the key of the panel.
        status_page: address of the service's own pages.
    """
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": [TAG],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": False,
        "graphTooltip": _SHARED_CROSSHAIR,
        "fiscalYearStartMonth": 0,
        "timezone": "utc",
        "refresh": "1m",
        "time": {"from": dashboard.since, "to": "now"},
        "timepicker": {},
        "links": [_DASHBOARDS, _status_link(dashboard, status_page)],
        "templating": {"list": list(_variables(dashboard))},
        "annotations": {"list": [_BUILT_IN, *map(_annotation, dashboard.annotations)]},
        "panels": list(panels(dashboard, links)),
    }


_DASHBOARDS: Json = {
    "type": "dashboards",
    "title": "slicewatch",
    "tags": [TAG],
    "asDropdown": False,
    "includeVars": True,
    "keepTime": True,
    "targetBlank": False,
    "icon": "external link",
    "tooltip": "",
    "url": "",
}
"""Links to the other dashboards of slicewatch, with the present choices."""


def _status_link(dashboard: Dashboard, address: str) -> Json:
    """Return Grafana's link to the status page, or from a slice's dashboard to the slice's page."""
    path = "/"
    if {"group_by", "slice"} <= {variable.name for variable in dashboard.variables}:
        chosen = ("contract", "window", "group_by", "slice", "metric")
        path = "/slice?" + "&".join(f"{name}=${{{name}:percentencode}}" for name in chosen)
    return {
        "type": "link",
        "title": "Status page",
        "url": address.rstrip("/") + path,
        "tags": [],
        "asDropdown": False,
        "includeVars": False,
        "keepTime": False,
        "targetBlank": True,
        "icon": "external link",
        "tooltip": "",
    }


# Choices of a reader, and marks


def _variables(dashboard: Dashboard) -> Iterator[Json]:
    yield from map(_source_variable, dashboard.sources)
    yield from map(_variable, dashboard.variables)
    yield {
        "type": "adhoc",
        "name": "filters",
        "label": "Filters",
        "description": "Further labels, such as that of a cluster.",
        "datasource": reference(Source.PROMETHEUS),
        "hide": 0,
        "skipUrlSync": False,
    }


def _source_variable(source: Source) -> Json:
    return {
        "type": "datasource",
        "name": source.variable,
        "label": _SOURCE_LABELS[source],
        "query": source.value,
        "regex": "",
        "refresh": 1,
        **_CHOICE,
    }


def _variable(variable: Variable) -> Json:
    return {
        "type": "query",
        "name": variable.name,
        "label": variable.label,
        "datasource": reference(Source.PROMETHEUS),
        "definition": variable.query,
        "query": {
            "qryType": 1,
            "query": variable.query,
            "refId": "PrometheusVariableQueryEditor-VariableQuery",
        },
        "regex": "",
        "refresh": _REFRESH_WITH_TIME,
        "sort": _SORT_DESCENDING if variable.descending else _SORT,
        **_CHOICE,
    }


_CHOICE: Json = {
    "current": {},
    "options": [],
    "multi": False,
    "includeAll": False,
    "hide": 0,
    "skipUrlSync": False,
}


def _annotation(annotation: GraphAnnotation) -> Json:
    return {
        "name": annotation.name,
        "datasource": reference(Source.PROMETHEUS),
        "enable": annotation.shown,
        "hide": False,
        "iconColor": annotation.color,
        "expr": annotation.query,
        "titleFormat": annotation.title,
        "textFormat": annotation.text,
        "step": "60s",
        "useValueForTime": annotation.at_value,
    }
