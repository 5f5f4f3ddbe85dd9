"""OpenAPI document of the API, generated from the types of its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from monitor.core.metric import Metric
from monitor.core.publish.incident_reports import IncidentReport
from monitor.core.state import SLICE_CLASSES
from monitor.core.time import WINDOWS
from monitor.reports.as_json import ReportDocument
from monitor.web.contents import HistoryContent, IncidentList, Overview, ReportList, SliceContent

SNAPSHOT = "/api/v1/snapshot"
SLICE = "/api/v1/slice"
HISTORY = "/api/v1/history"
INCIDENTS = "/api/v1/incidents"
INCIDENT = "/api/v1/incidents/{number}"
REPORTS = "/api/v1/reports"
REPORT = "/api/v1/report"
DOCUMENT = "/api/v1/openapi.json"

ANSWERS: Mapping[str, type] = {
    SNAPSHOT: Overview,
    SLICE: SliceContent,
    HISTORY: HistoryContent,
    INCIDENTS: IncidentList,
    INCIDENT: IncidentReport,
    REPORTS: ReportList,
    REPORT: ReportDocument,
}
"""The type of each answer, by path."""

_SUMMARIES = {
    SNAPSHOT: "Verdict, contracts with their slices from the worst on, incidents, pipeline.",
    SLICE: "One slice: all of its metrics, calibration, findings and history.",
    HISTORY: "What was published of one slice and metric, by day.",
    INCIDENTS: "The newest incidents, resolved ones too.",
    INCIDENT: "One incident with everything that people recorded about it.",
    REPORTS: "Weekly reports with their decision, revision and signatures, the newest first.",
    REPORT: "One weekly report: the Release, its decision, and what the settings say.",
}
_TEXT = {"type": "string"}
_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "contract": _TEXT,
    "window": {"type": "string", "enum": list(WINDOWS)},
    "group_by": _TEXT,
    "slice": _TEXT,
    "metric": {"type": "string", "enum": [metric.value for metric in Metric]},
    "as_of": {"type": "string", "format": "date-time"},
    "find": _TEXT,
    "show": {"type": "string", "enum": list(SLICE_CLASSES)},
    "week": {"type": "string", "pattern": "^[0-9]{4}-W[0-9]{2}$"},
    "revision": {"type": "integer", "minimum": 1},
}
_MEANINGS = {
    "contract": "Name of a contract; by default the first one, of the Snapshot all.",
    "window": "Name of a window; by default the one that the contract is decided on.",
    "group_by": "Attribute names joined by +; by default all decisions, of the Snapshot all.",
    "slice": "Slice text, such as channel=chat; by default all decisions.",
    "metric": "By default the contract's primary metric.",
    "as_of": "Event time: the newest stored Snapshot of then; by default the newest one.",
    "find": "Part of a slice's name, in any case; by default all slices.",
    "show": "Class of slices, by their worst state; by default all.",
    "week": "ISO week, such as 2026-W47; by default the newest that has a Release.",
    "revision": "Of its Release; by default the newest one.",
}
_PARAMETERS: Mapping[str, Sequence[str]] = {
    SNAPSHOT: ("contract", "window", "group_by", "as_of", "find", "show"),
    SLICE: ("contract", "window", "group_by", "slice", "metric", "as_of"),
    HISTORY: ("contract", "window", "group_by", "slice", "metric"),
    INCIDENTS: (),
    INCIDENT: (),
    REPORTS: (),
    REPORT: ("week", "revision"),
}


def document(version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document as a dict; ``version`` is that of slicewatch.

    Args:
        version: version of slicewatch.
    """
    _, components = msgspec.json.schema_components(
        list(ANSWERS.values()), ref_template="#/components/schemas/{name}"
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "slicewatch",
            "version": version,
            "description": "What the status page shows. Null is withheld or not known; times"
            " are in UTC; a gap is positive where the slice is worse off.",
        },
        "paths": {
            path: {"get": _operation(path, answer_type)} for path, answer_type in ANSWERS.items()
        },
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{}, {"token": []}, {"password": []}],
    }


def _operation(path: str, answer_type: type) -> dict[str, Any]:
    content = {"schema": {"$ref": f"#/components/schemas/{answer_type.__name__}"}}
    success = {"description": "Found.", "content": {"application/json": content}}
    return {
        "summary": _SUMMARIES[path],
        "parameters": [*_in_path(path), *map(_parameter, _PARAMETERS[path])],
        "responses": {"200": success, **_REFUSALS},
    }


_REFUSALS = {
    "400": {"description": "A parameter is none of those above, or names nothing there is."},
    "401": {"description": "A token is needed."},
    "403": {"description": "Asked under a name that is not this service's, or by a producer."},
    "404": {"description": "There is no such thing, or nothing is published yet."},
    "503": {"description": "The store cannot be read now; try again."},
}


def _in_path(path: str) -> list[dict[str, Any]]:
    """Return the parameter ``number`` if it is in the path."""
    if "{number}" not in path:
        return []
    schema = {"type": "integer", "minimum": 1}
    return [{"name": "number", "in": "path", "required": True, "schema": schema}]


def _parameter(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": _MEANINGS[name],
        "schema": _SCHEMAS[name],
    }
