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
    """Type of the data source that a query goes to, as Grafana names its plugins."""

    PROMETHEUS = "prometheus"
    POSTGRESQL = "grafana-postgresql-datasource"

    @property
    def variable(self) -> str:
        """The variable in which a reader chooses the data source."""
        return {Source.PROMETHEUS: "datasource", Source.POSTGRESQL: "history"}[self]


class Unit(enum.StrEnum):
    """Units of numbers, as Grafana names them."""

    SHARE = "percentunit"
    SECONDS = "s"
    INSTANT = "dateTimeAsIso"  # of milliseconds
    COUNT = "short"
    PER_SECOND = "cps"
    TEXT = "string"
    FLAG = "bool"


class PanelKind(enum.StrEnum):
    """Kinds of panels, as Grafana names them."""

    LINES = "timeseries"
    NUMBERS = "stat"
    TABLE = "table"
    STATES = "state-timeline"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel.

    Attributes:
        text: PromQL or SQL with Grafana's variables.
        legend: name of its lines, with labels in double braces; SQL names them by its columns.
        source: where it is asked.
        now: ask for the newest values alone.
        table: one row for each series, with its labels as columns.
    """

    text: str
    legend: str = ""
    source: Source = Source.PROMETHEUS
    now: bool = False
    table: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Difference in looks of some lines or columns from the others.

    Attributes:
        name: their name, or a pattern between slashes.
        properties: what Grafana is told, by the names of its properties.
    """

    name: str
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        source: a label, or ``Value #A`` for the number of the first query.
        title: heading.
        unit: of its numbers.
        decimals: digits after the point; None leaves them to Grafana.
        link: title and address of a link on every cell.
        mappings: words for its numbers.
        width: in pixels; None shares what is left.
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
    """One panel.

    Attributes:
        id: number, unique in its dashboard; it never changes, links name it.
        key: name, unique in its dashboard; alerts name it.
        title: heading.
        about: what it shows, until when, and what an empty panel means.
        kind: how it shows it.
        queries: what it shows.
        unit: of its numbers.
        width: of 24 columns.
        height: in Grafana's units.
        looks: lines that look otherwise.
        columns: of a table, in their order; other fields are left out.
        sort: title of the column by which a table is sorted, the largest first.
        mappings: words for numbers.
        stacked: whether lines are stacked on each other.
        lowest: where the axis begins; None leaves it to Grafana.
        highest: where it ends; likewise.
        limit: a limit from the settings, drawn as a line; None draws none.
        text: Markdown of a panel that is text.
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
    """Panels under one heading.

    Attributes:
        title: heading.
        panels: in reading order.
        folded: whether it is closed, and so asks nothing until somebody opens it.
    """

    title: str
    panels: tuple[Panel, ...]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """Choice of a reader at the top of a dashboard.

    Attributes:
        name: as queries name it.
        label: as readers see it.
        query: whose answers are the choices: ``label_values(...)``, or the type of a data source.
        descending: whether the choices are sorted backwards; the first one is chosen at the start.
    """

    name: str
    label: str
    query: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class GraphAnnotation:
    """Marks on all graphs.

    Attributes:
        name: as readers see it.
        query: PromQL; a mark wherever it has a value above 0.
        title: of a mark, with labels in double braces.
        text: of a mark; likewise.
        color: of the marks.
        at_value: whether the value says when it was, in milliseconds.
        shown: whether it is on at the start.
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
    """One dashboard.

    Attributes:
        name: short; its file and the alerts' links are named by it.
        title: as readers see it.
        about: the question that it answers.
        variables: in their order; those that choose the data sources come first by themselves.
        rows: its panels.
        annotations: its marks.
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
        """Identity in Grafana; it never changes."""
        return f"slicewatch-{self.name}"

    @property
    def panels(self) -> Iterator[Panel]:
        """All panels, in reading order."""
        return (panel for row in self.rows for panel in row.panels)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The data sources that its panels need, Prometheus first."""
        used = {query.source for panel in self.panels for query in panel.queries}
        return tuple(source for source in Source if source in used)
