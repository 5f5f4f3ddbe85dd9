"""Parts of a dashboard, in slicewatch's words; :mod:`alerts.dashboards.grafana` writes them.

Panels are data. Everything that Grafana wants to be told and that is the same everywhere (no joined
gaps, no coloured default thresholds, the data sources as variables) is added when they are written.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


class Source(enum.StrEnum):
    """Type of a query's data source, as Grafana names its plugins."""

    PROMETHEUS = "prometheus"
    POSTGRESQL = "grafana-postgresql-datasource"

    @property
    def variable(self) -> str:
        """Return the name of the dashboard's variable in which a reader chooses the data source."""
        return {Source.PROMETHEUS: "datasource", Source.POSTGRESQL: "history"}[self]


class Unit(enum.StrEnum):
    """Unit of displayed numbers, as Grafana names it."""

    SHARE = "percentunit"
    SECONDS = "s"
    INSTANT = "dateTimeAsIso"  # a number of milliseconds
    COUNT = "short"
    PER_SECOND = "cps"
    TEXT = "string"
    FLAG = "bool"


class PanelKind(enum.StrEnum):
    """Kind of a panel, as Grafana names it."""

    LINES = "timeseries"
    NUMBERS = "stat"
    TABLE = "table"
    STATES = "state-timeline"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Query:
    """Query of a panel, in PromQL or SQL.

    Attributes:
        text: PromQL or SQL with Grafana's variables.
        legend: name of its lines, with labels in double braces; SQL names them by its columns.
        now: True to ask only for the newest values.
        table: True for one row per series, with its labels as columns.
    """

    text: str
    legend: str = ""
    source: Source = Source.PROMETHEUS
    now: bool = False
    table: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Look of the lines or columns of one name, different from the panel's others.

    Attributes:
        name: name of the lines or columns, or a pattern between slashes.
        properties: values by the names of Grafana's properties.
    """

    name: str
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table panel: its source, title, unit and link.

    Attributes:
        source: a label, or ``Value #A`` for the number of the first query.
        title: heading.
        decimals: digits after the point; None leaves them to Grafana.
        link: title and address of a link on every cell.
        mappings: words for its numbers.
        width: pixels; None shares the remaining width.
    """

    source: str
    title: str
    unit: Unit = Unit.TEXT
    decimals: int | None = None
    link: tuple[str, str] | None = None
    mappings: tuple[dict[str, Any], ...] = ()
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """Panel of a dashboard: its texts, queries, size and looks.

    Attributes:
        id: number, unique in its dashboard; it never changes, links name it.
        key: name, unique in its dashboard; alerts name it.
        title: heading.
        about: description of the shown values, of their end in time, and of an empty panel.
        width: of 24 columns.
        height: in Grafana's units.
        looks: looks of lines that differ from the others.
        columns: columns of a table in their order; other fields are left out.
        sort: title of the column by which a table is sorted, the largest first.
        mappings: words for numbers.
        stacked: True if lines are stacked on each other.
        lowest: start of the axis; None leaves it to Grafana.
        highest: end of the axis; None leaves it to Grafana.
        limit: limit from the settings, drawn as a line; None draws none.
        text: Markdown of a text panel.
    """

    id: int
    key: str
    title: str
    about: str
    kind: PanelKind = PanelKind.LINES
    queries: tuple[Query, ...] = ()
    unit: Unit = Unit.COUNT
    width: int = 12
    height: int = 8
    looks: tuple[Look, ...] = ()
    columns: tuple[Column, ...] = ()
    sort: str | None = None
    mappings: tuple[dict[str, Any], ...] = ()
    stacked: bool = False
    lowest: float | None = None
    highest: float | None = None
    limit: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class PanelRow:
    """Row of a dashboard: panels under one heading.

    Attributes:
        title: heading.
        panels: in reading order.
        folded: True for a closed row, which queries nothing until somebody opens it.
    """

    title: str
    panels: tuple[Panel, ...]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """Variable at the top of a dashboard, in which a reader makes a choice.

    Attributes:
        name: name in queries.
        label: name for readers.
        query: query for the choices: ``label_values(...)``, or the type of a data source.
        descending: True sorts the choices backwards; the first choice is the default.
    """

    name: str
    label: str
    query: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class GraphAnnotation:
    """Annotation of all graphs of a dashboard: marks at the results of a query.

    Attributes:
        name: name for readers.
        query: PromQL; every value above 0 is a mark.
        title: title of a mark, with labels in double braces.
        text: text of a mark, with labels in double braces.
        at_value: True if the value is the time of the mark, in milliseconds.
        shown: True if the marks are shown by default.
    """

    name: str
    query: str
    title: str
    text: str
    color: str
    at_value: bool = False
    shown: bool = True


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Dashboard of Grafana: rows of panels, with variables and annotations.

    Attributes:
        name: short name, used for its file and in links of alerts.
        title: name for readers.
        about: the question that it answers.
        variables: variables in their order; variables of data sources are added before them.
        since: start of the shown time, such as ``now-24h``.
    """

    name: str
    title: str
    about: str
    variables: tuple[Variable, ...]
    rows: tuple[PanelRow, ...]
    annotations: tuple[GraphAnnotation, ...] = field(default=())
    since: str = "now-7d"

    @property
    def uid(self) -> str:
        """Return the dashboard's identity in Grafana, which never changes."""
        return f"slicewatch-{self.name}"

    @property
    def panels(self) -> Iterator[Panel]:
        """Return an iterator over all panels, in reading order."""
        return (panel for row in self.rows for panel in row.panels)

    @property
    def sources(self) -> tuple[Source, ...]:
        """Return the data sources that the panels need, Prometheus first."""
        used = {query.source for panel in self.panels for query in panel.queries}
        return tuple(source for source in Source if source in used)
