"""Dashboards as Grafana's JSON; its constant parts are in grafana.yaml."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

import yaml

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
from alerts.dashboards.shown_states import BY_CODE

Json = dict[str, Any]
Links = Mapping[str, Sequence[tuple[str, str]]]
"""Titles and addresses of links, by the key of their panel."""
COLUMNS = 24
ROW_IDS = 1000
"""First number of rows; panels have smaller numbers."""
CONSTANT: Mapping[str, Json] = yaml.safe_load(
    (resources.files(__package__) / "grafana.yaml").read_text(encoding="utf-8")
)
_SORT, _SORT_DESCENDING = 1, 2


def document(dashboard: Dashboard, links: Links, status_page: str) -> Json:
    """Return a dashboard in Grafana's JSON model, with links from panels and to the status page.

    Args:
        dashboard: the dashboard.
        links: links of its panels, by the key of the panel.
        status_page: address of the service's own pages.
    """
    url = status_page.rstrip("/") + dashboard.status_page
    page = CONSTANT["link"] | {"title": "Status page", "url": url}
    variables = [CONSTANT["data_source"], *map(_variable, dashboard.variables), CONSTANT["filters"]]
    marks = [CONSTANT["built_in_annotation"], *map(_annotation, dashboard.annotations)]
    return CONSTANT["dashboard"] | {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "time": {"from": dashboard.since, "to": "now"},
        "links": [CONSTANT["dashboards_link"], page],
        "templating": {"list": variables},
        "annotations": {"list": marks},
        "panels": list(_panels(dashboard, links)),
    }


def _variable(variable: Variable) -> Json:
    query = f"label_values({variable.values}, {variable.of})"
    named = {"query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"}
    return CONSTANT["variable"] | {
        "name": variable.name,
        "label": variable.label,
        "definition": query,
        "query": {"qryType": 1, **named},
        "sort": _SORT_DESCENDING if variable.descending else _SORT,
    }


def _annotation(annotation: Annotation) -> Json:
    return CONSTANT["annotation"] | {
        "name": annotation.name,
        "iconColor": annotation.color,
        "expr": annotation.query,
        "titleFormat": annotation.title,
        "textFormat": annotation.text,
        "useValueForTime": annotation.at_value,
    }


# Places


def _panels(dashboard: Dashboard, links: Links) -> Iterator[Json]:
    """Yield the JSON of all rows and panels in reading order."""
    top = 0
    for number, row in enumerate(dashboard.rows):
        places, below = _grid_places(row, top + 1)
        place = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        yield CONSTANT["row"] | {"id": ROW_IDS + number, "title": row.title, "gridPos": place}
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
    queries = zip(panel.queries, string.ascii_uppercase, strict=False)
    return CONSTANT["panel"] | {
        "id": panel.id,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "gridPos": place,
        "targets": [_target(query, name, panel.kind) for query, name in queries],
        "links": [
            CONSTANT["link"] | {"title": title, "url": url, "icon": ""} for title, url in links
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": list(_overrides(panel))},
        "options": _options(panel),
        "transformations": list(_transformations(panel)),
    }


def _target(query: Query, name: str, kind: str) -> Json:
    """Return a query's JSON; stats and tables ask only for the newest values."""
    now = kind in ("stat", "table")
    return CONSTANT["query"] | {
        "refId": name,
        "expr": query.promql,
        "format": "table" if kind == "table" else "time_series",
        "instant": now,
        "range": not now,
        "legendFormat": query.legend,
    }


def _defaults(panel: Panel) -> Json:
    bounds = {"min": panel.min, "max": panel.max}
    return {
        "unit": panel.unit,
        "thresholds": {"mode": "absolute", "steps": list(_steps(panel))},
        "color": CONSTANT["color"][panel.kind],
        "mappings": _mappings(panel.words) if panel.words else [],
        "custom": CONSTANT["custom"][panel.kind],
        "noValue": panel.empty,
        **{name: value for name, value in bounds.items() if value is not None},
    }


def _steps(panel: Panel) -> Iterator[Json]:
    """Yield the colours of a panel's numbers; Grafana's own default would paint them."""
    yield {"color": "text", "value": None}
    if panel.threshold is not None:
        yield {"color": "red", "value": panel.threshold}


def _mappings(name: str) -> list[Json]:
    options = {
        value: {"text": word, "color": color, "index": index}
        for index, (value, (word, color)) in enumerate(shared().words[name].items())
    }
    return [{"type": "value", "options": options}]


def _options(panel: Panel) -> Json:
    """Return Grafana's options of a panel; only words and states have a coloured background."""
    options: Json = CONSTANT["options"][panel.kind]
    colored = panel.kind == "stat" and (panel.words or panel.color_states)
    return options | {"colorMode": "background"} if colored else options


# Lines and columns with looks of their own


def _overrides(panel: Panel) -> Iterator[Json]:
    if panel.color_states:
        for state in reversed(BY_CODE):
            yield _override(
                state.value, {"color": {"mode": "fixed", "fixedColor": state.row.color}}
            )
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
    """Yield the transformations of a table: which columns, in which order, sorted by which."""
    if not panel.columns:
        return
    titles = {column.source: column.heading for column in panel.columns}
    # Without the times of the queries, rows are merged only by their labels.
    yield {"id": "filterFieldsByName", "options": {"include": {"names": list(titles)}}}
    if len(panel.queries) > 1:
        yield {"id": "merge", "options": {}}
    order = {source: index for index, source in enumerate(titles)}
    names = {"indexByName": order, "renameByName": titles}
    yield {"id": "organize", "options": {"excludeByName": {}, "includeByName": {}, **names}}
    if panel.sort:
        fields = [{"field": panel.sort, "desc": True}]
        yield {"id": "sortBy", "options": {"fields": {}, "sort": fields}}
