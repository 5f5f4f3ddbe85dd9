"""Panels as Grafana's JSON: places, queries and looks."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from alerts.dashboards.model import (
    Column,
    Dashboard,
    Look,
    Panel,
    PanelKind,
    PanelRow,
    Query,
    Source,
)
from alerts.dashboards.shown_states import LIMIT_COLOR

Json = dict[str, Any]
COLUMNS = 24
ROW_IDS = 1000
"""First number of rows; panels have smaller numbers."""
Links = Mapping[str, Sequence[tuple[str, str]]]
"""Titles and addresses of links, by the key of their panel."""
_NO_THRESHOLDS = {"mode": "absolute", "steps": [{"color": "text", "value": None}]}
"""Thresholds that keep Grafana from painting values above 80 red."""


def reference(source: Source) -> Json:
    """Return the JSON that refers a query to the data source chosen in a variable."""
    return {"type": source.value, "uid": f"${{{source.variable}}}"}


def panels(dashboard: Dashboard, links: Links) -> Iterator[Json]:
    """Yield the JSON of all rows and panels in reading order; a folded row contains its panels."""
    top = 0
    for number, row in enumerate(dashboard.rows):
        placed, below = _grid_places(row, top + 1)
        inside = [
            _panel(panel, place, links.get(panel.key, ()))
            for panel, place in zip(row.panels, placed, strict=True)
        ]
        yield {
            "id": ROW_IDS + number,
            "type": "row",
            "title": row.title,
            "collapsed": row.folded,
            "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
            "panels": inside if row.folded else [],
        }
        if not row.folded:
            yield from inside
        top = top + 1 if row.folded else below


def _grid_places(row: PanelRow, top: int) -> tuple[list[Json], int]:
    """Return the grid places of a row's panels, wrapped from ``top`` on, and the next free line."""
    places: list[Json] = []
    left, tallest = 0, 0
    for panel in row.panels:
        if left + panel.width > COLUMNS:
            top, left, tallest = top + tallest, 0, 0
        places.append({"x": left, "y": top, "w": panel.width, "h": panel.height})
        left, tallest = left + panel.width, max(tallest, panel.height)
    return places, top + tallest


def _panel(panel: Panel, place: Json, links: Sequence[tuple[str, str]]) -> Json:
    return {
        "id": panel.id,
        "type": panel.kind.value,
        "title": panel.title,
        "description": panel.about,
        "transparent": False,
        "gridPos": place,
        "datasource": reference(panel.queries[0].source),
        "targets": [
            _target(query, name)
            for query, name in zip(panel.queries, string.ascii_uppercase, strict=False)
        ],
        "links": [_link(title, url) for title, url in links],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": list(_overrides(panel))},
        "options": _OPTIONS[panel.kind](panel),
        "transformations": list(_transformations(panel)),
    }


def _link(title: str, url: str) -> Json:
    return {
        "type": "link",
        "title": title,
        "url": url,
        "targetBlank": True,
        "icon": "",
        "tooltip": "",
        "tags": [],
        "asDropdown": False,
        "includeVars": False,
        "keepTime": False,
    }


def _target(query: Query, name: str) -> Json:
    if query.source is Source.POSTGRESQL:
        return {
            "refId": name,
            "datasource": reference(query.source),
            "editorMode": "code",
            "format": "table" if query.table else "time_series",
            "rawQuery": True,
            "rawSql": query.text,
        }
    return {
        "refId": name,
        "datasource": reference(query.source),
        "editorMode": "code",
        "expr": query.text,
        "format": "table" if query.table else "time_series",
        "instant": query.now,
        "range": not query.now,
        "legendFormat": query.legend,
    }


def _defaults(panel: Panel) -> Json:
    defaults: Json = {
        "unit": panel.unit.value,
        "thresholds": _NO_THRESHOLDS if panel.limit is None else _limit(panel.limit),
        "color": {"mode": "palette-classic" if panel.kind is PanelKind.LINES else "thresholds"},
        "mappings": list(panel.mappings),
        "custom": _CUSTOM[panel.kind](panel),
        # Show an empty text instead of Grafana's "No data".
        "noValue": "-",
    }
    if panel.lowest is not None:
        defaults["min"] = panel.lowest
    if panel.highest is not None:
        defaults["max"] = panel.highest
    return defaults


def _limit(limit: float) -> Json:
    steps = [{"color": LIMIT_COLOR, "value": None}, {"color": "text", "value": limit}]
    return {"mode": "absolute", "steps": steps}


def _lines(panel: Panel) -> Json:
    return {
        "drawStyle": "line",
        "lineInterpolation": "stepAfter",
        "lineWidth": 1,
        "fillOpacity": 60 if panel.stacked else 0,
        "pointSize": 4,
        "showPoints": "auto" if panel.queries[0].source is Source.PROMETHEUS else "always",
        # A withheld number leaves a gap in the line.
        "spanNulls": False,
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "off" if panel.limit is None else "dashed"},
    }


_CUSTOM: Mapping[PanelKind, Any] = {
    PanelKind.LINES: _lines,
    PanelKind.NUMBERS: lambda _: {},
    PanelKind.TABLE: lambda _: {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False},
    PanelKind.STATES: lambda _: {"fillOpacity": 80, "lineWidth": 0, "spanNulls": False},
}


def _legend(*, shown: bool) -> Json:
    return {"showLegend": shown, "displayMode": "list", "placement": "bottom", "calcs": []}


def _numbers(panel: Panel) -> Json:
    colored = bool(panel.looks or panel.mappings)
    return {
        "colorMode": "background" if colored else "none",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "percentChangeColorMode": "standard",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "showPercentChange": False,
        "textMode": "value_and_name",
        "wideLayout": True,
    }


_TOOLTIP = {"mode": "multi", "sort": "desc"}
_OPTIONS: Mapping[PanelKind, Any] = {
    PanelKind.LINES: lambda _: {"legend": _legend(shown=True), "tooltip": _TOOLTIP},
    PanelKind.NUMBERS: _numbers,
    PanelKind.TABLE: lambda _: {"cellHeight": "sm", "showHeader": True},
    PanelKind.STATES: lambda _: {
        "alignValue": "left",
        "legend": _legend(shown=False),
        "mergeValues": True,
        "rowHeight": 0.9,
        "showValue": "never",
        "tooltip": {"mode": "single", "sort": "none"},
    },
}


# Lines and columns with looks of their own


def _overrides(panel: Panel) -> Iterator[Json]:
    yield from (_override(look) for look in panel.looks)
    yield from (_override(_column_look(column)) for column in panel.columns)


def _override(look: Look) -> Json:
    kind = "byRegexp" if look.name.startswith("/") else "byName"
    properties = [{"id": name, "value": value} for name, value in look.properties.items()]
    return {"matcher": {"id": kind, "options": look.name}, "properties": properties}


def _column_look(column: Column) -> Look:
    properties: Json = {"unit": column.unit.value}
    if column.decimals is not None:
        properties["decimals"] = column.decimals
    if column.mappings:
        properties["mappings"] = list(column.mappings)
        properties["custom.cellOptions"] = {"type": "color-background", "mode": "basic"}
    if column.link:
        title, url = column.link
        properties["links"] = [{"title": title, "url": url}]
    if column.width is not None:
        properties["custom.width"] = column.width
    return Look(column.title, properties)


def _transformations(panel: Panel) -> Iterator[Json]:
    if panel.kind is not PanelKind.TABLE:
        return
    names = [column.source for column in panel.columns]
    # Without the times of the queries, rows are merged only by their labels.
    yield {"id": "filterFieldsByName", "options": {"include": {"names": names}}}
    if len(panel.queries) > 1:
        yield {"id": "merge", "options": {}}
    yield {
        "id": "organize",
        "options": {
            "excludeByName": {},
            "includeByName": {},
            "indexByName": {name: index for index, name in enumerate(names)},
            "renameByName": {column.source: column.title for column in panel.columns},
        },
    }
    if panel.sort:
        yield {
            "id": "sortBy",
            "options": {"fields": {}, "sort": [{"field": panel.sort, "desc": True}]},
        }
