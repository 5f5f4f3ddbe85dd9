"""Dashboards as Grafana's JSON, in the classic model that Grafana 10 to 13 read from files.

What Grafana wants to be told and is the same everywhere is added here: no joined gaps, no coloured
default thresholds, the data source as a variable.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from alerts.dashboards.declarations import (
    Annotation,
    Column,
    Dashboard,
    Panel,
    PanelRow,
    Query,
    Variable,
    shared,
)
from alerts.dashboards.shown_states import COLORS

Json = dict[str, Any]
Links = Mapping[str, Sequence[tuple[str, str]]]
"""Titles and addresses of links, by the key of their panel."""
SCHEMA_VERSION = 42
"""Version of the classic model; older Grafanas also read it, newer ones migrate it."""
TAG = "slicewatch"
COLUMNS = 24
ROW_IDS = 1000
"""First number of rows; panels have smaller numbers."""

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_REFRESH_WITH_TIME = 2
_SORT, _SORT_DESCENDING = 1, 2
_SHARED_CROSSHAIR = 1
_LINK: Json = {
    "type": "link",
    "tags": [],
    "asDropdown": False,
    "includeVars": False,
    "keepTime": False,
    "targetBlank": True,
    "icon": "external link",
    "tooltip": "",
}
_DASHBOARDS: Json = _LINK | {
    "type": "dashboards",
    "title": "slicewatch",
    "url": "",
    "tags": [TAG],
    "includeVars": True,
    "keepTime": True,
    "targetBlank": False,
}
"""Links to the other dashboards of slicewatch, with the present choices."""
_CHOICE: Json = {
    "current": {},
    "options": [],
    "multi": False,
    "includeAll": False,
    "hide": 0,
    "skipUrlSync": False,
    "regex": "",
}
_DATA_SOURCE: Json = _CHOICE | {
    "type": "datasource",
    "name": "datasource",
    "label": "Prometheus",
    "query": "prometheus",
    "refresh": 1,
}
_FILTERS: Json = {
    "type": "adhoc",
    "name": "filters",
    "label": "Filters",
    "description": "Further labels, such as that of a cluster.",
    "datasource": _SOURCE,
    "hide": 0,
    "skipUrlSync": False,
}
_BUILT_IN = {
    "builtIn": 1,
    "datasource": {"type": "grafana", "uid": "-- Grafana --"},
    "enable": True,
    "hide": True,
    "iconColor": "rgba(0, 211, 255, 1)",
    "name": "Annotations & Alerts",
    "type": "dashboard",
}


def document(dashboard: Dashboard, links: Links, status_page: str) -> Json:
    """Return a dashboard in Grafana's JSON model, with links from panels and to the status page.

    Args:
        dashboard: the dashboard.
        links: links of its panels, by the key of the panel.
        status_page: address of the service's own pages.
    """
    url = status_page.rstrip("/") + dashboard.status_page
    variables = map(_variable, dashboard.variables)
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
        "links": [_DASHBOARDS, _LINK | {"title": "Status page", "url": url}],
        "templating": {"list": [_DATA_SOURCE, *variables, _FILTERS]},
        "annotations": {"list": [_BUILT_IN, *map(_annotation, dashboard.annotations)]},
        "panels": list(_panels(dashboard, links)),
    }


def _variable(variable: Variable) -> Json:
    query = f"label_values({variable.values}, {variable.of})"
    return _CHOICE | {
        "type": "query",
        "name": variable.name,
        "label": variable.label,
        "datasource": _SOURCE,
        "definition": query,
        "query": {
            "qryType": 1,
            "query": query,
            "refId": "PrometheusVariableQueryEditor-VariableQuery",
        },
        "refresh": _REFRESH_WITH_TIME,
        "sort": _SORT_DESCENDING if variable.descending else _SORT,
    }


def _annotation(annotation: Annotation) -> Json:
    return {
        "name": annotation.name,
        "datasource": _SOURCE,
        "enable": True,
        "hide": False,
        "iconColor": annotation.color,
        "expr": annotation.query,
        "titleFormat": annotation.title,
        "textFormat": annotation.text,
        "step": "60s",
        "useValueForTime": annotation.at_value,
    }


# Places


def _panels(dashboard: Dashboard, links: Links) -> Iterator[Json]:
    """Yield the JSON of all rows and panels in reading order."""
    top = 0
    for number, row in enumerate(dashboard.rows):
        places, below = _grid_places(row, top + 1)
        yield {
            "id": ROW_IDS + number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
            "panels": [],
        }
        for panel, place in zip(row.panels, places, strict=True):
            yield _panel(panel, place, links.get(panel.key, ()))
        top = below


def _grid_places(row: PanelRow, top: int) -> tuple[list[Json], int]:
    """Return the grid places of a row's panels, wrapped from ``top`` on, and the next free line."""
    places: list[Json] = []
    left, tallest = 0, 0
    for width, height in (panel.size for panel in row.panels):
        if left + width > COLUMNS:
            top, left, tallest = top + tallest, 0, 0
        places.append({"x": left, "y": top, "w": width, "h": height})
        left, tallest = left + width, max(tallest, height)
    return places, top + tallest


# Panels


def _panel(panel: Panel, place: Json, links: Sequence[tuple[str, str]]) -> Json:
    return {
        "id": panel.id,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "transparent": False,
        "gridPos": place,
        "datasource": _SOURCE,
        "targets": [
            _target(query, name, panel.kind)
            for query, name in zip(panel.queries, string.ascii_uppercase, strict=False)
        ],
        "links": [_LINK | {"title": title, "url": url, "icon": ""} for title, url in links],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": list(_overrides(panel))},
        "options": _options(panel),
        "transformations": list(_transformations(panel)),
    }


def _target(query: Query, name: str, kind: str) -> Json:
    """Return a query's JSON; stats and tables ask only for the newest values."""
    now = kind in ("stat", "table")
    return {
        "refId": name,
        "datasource": _SOURCE,
        "editorMode": "code",
        "expr": query.promql,
        "format": "table" if kind == "table" else "time_series",
        "instant": now,
        "range": not now,
        "legendFormat": query.legend,
    }


def _defaults(panel: Panel) -> Json:
    custom = dict(_CUSTOM[panel.kind])
    if panel.threshold is not None:
        custom["thresholdsStyle"] = {"mode": "dashed"}
    defaults: Json = {
        "unit": panel.unit,
        "thresholds": {"mode": "absolute", "steps": list(_steps(panel))},
        "color": {"mode": "palette-classic" if panel.kind == "timeseries" else "thresholds"},
        "mappings": _mappings(panel.words) if panel.words else [],
        "custom": custom,
        "noValue": panel.empty,
    }
    bounds = {"min": panel.min, "max": panel.max}
    return defaults | {name: value for name, value in bounds.items() if value is not None}


def _steps(panel: Panel) -> Iterator[Json]:
    """Yield the colours of a panel's numbers; without a threshold, Grafana colours none."""
    if panel.threshold is None:
        yield {"color": "text", "value": None}
    else:
        yield {"color": "red", "value": None}
        yield {"color": "text", "value": panel.threshold}


def _mappings(name: str) -> list[Json]:
    options = {
        value: {"text": word, "color": color, "index": index}
        for index, (value, (word, color)) in enumerate(shared().words[name].items())
    }
    return [{"type": "value", "options": options}]


_CUSTOM: Mapping[str, Json] = {
    "timeseries": {
        "drawStyle": "line",
        "lineInterpolation": "stepAfter",
        "lineWidth": 1,
        "fillOpacity": 0,
        "pointSize": 4,
        "showPoints": "auto",
        # A withheld number leaves a gap in the line.
        "spanNulls": False,
        "thresholdsStyle": {"mode": "off"},
    },
    "stat": {},
    "table": {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False},
    "state-timeline": {"fillOpacity": 80, "lineWidth": 0, "spanNulls": False},
}


def _legend(*, shown: bool) -> Json:
    return {"showLegend": shown, "displayMode": "list", "placement": "bottom", "calcs": []}


_OPTIONS: Mapping[str, Json] = {
    "timeseries": {
        "legend": _legend(shown=True),
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "colorMode": "none",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "percentChangeColorMode": "standard",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "showPercentChange": False,
        "textMode": "value_and_name",
        "wideLayout": True,
    },
    "table": {"cellHeight": "sm", "showHeader": True},
    "state-timeline": {
        "alignValue": "left",
        "legend": _legend(shown=False),
        "mergeValues": True,
        "rowHeight": 0.9,
        "showValue": "never",
        "tooltip": {"mode": "single", "sort": "none"},
    },
}


def _options(panel: Panel) -> Json:
    """Return Grafana's options of a panel; only words and states have a coloured background."""
    options = _OPTIONS[panel.kind]
    if panel.kind == "stat" and (panel.words or panel.color_states):
        return options | {"colorMode": "background"}
    return options


# Lines and columns with looks of their own


def _overrides(panel: Panel) -> Iterator[Json]:
    if panel.color_states:
        for state, color in COLORS.items():
            yield _override(state.value, {"color": {"mode": "fixed", "fixedColor": color}})
    for name, look in panel.looks.items():
        yield _override(name, shared().looks[look])
    for column in panel.columns:
        yield _override(column.heading, _column_properties(column))


def _override(name: str, properties: Mapping[str, Any]) -> Json:
    return {
        "matcher": {"id": "byRegexp" if name.startswith("/") else "byName", "options": name},
        "properties": [{"id": key, "value": value} for key, value in properties.items()],
    }


def _column_properties(column: Column) -> Json:
    properties = dict(shared().looks[column.look])
    if column.words:
        properties["mappings"] = _mappings(column.words)
        properties["custom.cellOptions"] = {"type": "color-background", "mode": "basic"}
    if column.width is not None:
        properties["custom.width"] = column.width
    return properties


def _transformations(panel: Panel) -> Iterator[Json]:
    if not panel.columns:
        return
    titles = {column.source: column.heading for column in panel.columns}
    # Without the times of the queries, rows are merged only by their labels.
    yield {"id": "filterFieldsByName", "options": {"include": {"names": list(titles)}}}
    if len(panel.queries) > 1:
        yield {"id": "merge", "options": {}}
    order = {source: index for index, source in enumerate(titles)}
    yield {
        "id": "organize",
        "options": {
            "excludeByName": {},
            "includeByName": {},
            "indexByName": order,
            "renameByName": titles,
        },
    }
    if panel.sort:
        fields = [{"field": panel.sort, "desc": True}]
        yield {"id": "sortBy", "options": {"fields": {}, "sort": fields}}
