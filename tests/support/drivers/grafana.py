"""What Grafana does with a dashboard's JSON: which queries it asks, with which values filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[3] / "deploy" / "grafana"
PROMETHEUS, POSTGRESQL = "prometheus", "grafana-postgresql-datasource"
Document = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """One query of a dashboard.

    Attributes:
        where: dashboard, panel and name of the query.
        source: type of the data source.
        text: with Grafana's variables.
        now: whether it asks for the newest values alone.
    """

    where: str
    source: str
    text: str
    now: bool


def documents() -> dict[str, Document]:
    """The dashboards that are in the repository, by the name of their file."""
    files = sorted((FOLDER / "dashboards").glob("*.json"))
    return {path.stem: json.loads(path.read_text()) for path in files}


def rows(document: Document) -> list[Document]:
    return [one for one in document["panels"] if one["type"] == "row"]


def panels(document: Document) -> Iterator[Document]:
    """All panels but rows, those in folded rows too."""
    for one in document["panels"]:
        yield from one["panels"] if one["type"] == "row" else [one]


def queries(document: Document) -> Iterator[Asked]:
    """What its panels and annotations ask."""
    name = document["uid"]
    for panel in panels(document):
        for target in panel["targets"]:
            source = target["datasource"]["type"]
            text = target["rawSql"] if source == POSTGRESQL else target["expr"]
            where = f"{name}: {panel['title']}: {target['refId']}"
            yield Asked(where, source, text, target.get("instant", False))
    for one in document["annotations"]["list"]:
        if not one.get("builtIn"):
            yield Asked(f"{name}: {one['name']}", PROMETHEUS, one["expr"], False)


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


_TIME_FILTER = re.compile(r"\$__timeFilter\(([\w.]+)\)")


def filled_sql(text: str, values: Mapping[str, str], first: str, last: str) -> str:
    """SQL with the values of variables as literals, and the shown time as conditions."""
    text = _TIME_FILTER.sub(rf"\1 BETWEEN '{first}' AND '{last}'", text)

    def value(found: re.Match[str]) -> str:
        assert found[2] == "sqlstring", "anything else would not be quoted"
        return "'" + values[found[1]].replace("'", "''") + "'"

    return _VARIABLE.sub(value, text)
