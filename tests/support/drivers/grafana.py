"""What Grafana does with a dashboard's JSON: which queries it asks, with which values filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from declaring import DECLARING

from alerts.rules import rendered
from monitor.settings import Settings

FOLDER = Path(__file__).parents[3] / "deploy" / "grafana"
Document = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """One query of a dashboard.

    Attributes:
        where: dashboard, panel and name of the query.
        text: with Grafana's variables.
        now: whether it asks for the newest values alone.
    """

    where: str
    text: str
    now: bool


def documents(settings: Settings = DECLARING) -> dict[str, Document]:
    """Return the dashboards as they are rendered, by the name of their file."""
    files = {Path(name): text for name, text in rendered(settings).items()}
    return {
        path.stem: json.loads(text)
        for path, text in sorted(files.items())
        if path.parent.name == "dashboards" and path.suffix == ".json"
    }


def rows(document: Document) -> list[Document]:
    return [one for one in document["panels"] if one["type"] == "row"]


def panels(document: Document) -> Iterator[Document]:
    """All panels but rows."""
    return (panel for panel in document["panels"] if panel["type"] != "row")


def queries(document: Document) -> Iterator[Asked]:
    """What its panels and annotations ask."""
    name = document["uid"]
    for panel in panels(document):
        for target in panel["targets"]:
            where = f"{name}: {panel['title']}: {target['refId']}"
            yield Asked(where, target["expr"], target["instant"])
    for one in document["annotations"]["list"]:
        if not one.get("builtIn"):
            yield Asked(f"{name}: {one['name']}", one["expr"], False)


def variables(document: Document) -> dict[str, str]:
    """The queries of its variables, in their order, by name."""
    found = (one for one in document["templating"]["list"] if one["type"] == "query")
    return {one["name"]: one["query"]["query"] for one in found}


def sources(document: Document) -> dict[str, str]:
    """Names of the variables that choose data sources, and the type that each of them lists."""
    found = (one for one in document["templating"]["list"] if one["type"] == "datasource")
    return {one["name"]: one["query"] for one in found}


_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)")


def label_values(query: str) -> tuple[str, str]:
    """Series and label of a variable's query."""
    found = _LABEL_VALUES.fullmatch(query)
    assert found is not None, query
    return found["series"], found["label"]


BUILT_IN = {"__rate_interval": "1m", "__range": "1h", "__interval": "15s"}
_VARIABLE = re.compile(r"\$\{(\w+)(?::(\w+))?\}|\$(\w+)")


def filled(text: str, values: Mapping[str, str]) -> str:
    """PromQL with the values of variables, escaped as Grafana does for one that has one value."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[3]
        return BUILT_IN.get(name) or values[name].replace("\\", "\\\\")

    return _VARIABLE.sub(value, text)
