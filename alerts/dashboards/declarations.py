"""Types of the dashboards' YAML files, and the dashboards that they declare.

Texts in ``<< >>`` are inserted when a file is read: its own, the shared ones, and values of the
installation's settings.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import yaml
from msgspec import Meta, Struct, field

from alerts.dashboards.shown_states import WORDS, per_state
from alerts.declared import Name, PanelName, Part, Text, filled, is_declared
from monitor.core.metric import Metric
from monitor.settings import Settings

Width = Annotated[int, Meta(ge=1, le=24)]
Sentences = Annotated[str, Meta(min_length=20, pattern=r"\.$")]
Content = TypeVar("Content")

NAMES = ("fleet", "slice", "operations", "health")
"""Short names of the dashboards, each with a YAML file of its own."""


class DeclarationError(ValueError):
    """A YAML file of a dashboard has a mistake; the message names file, place and fix."""


class Declared(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all objects in the files; an unknown key is an error."""


class Query(Declared, frozen=True, kw_only=True):
    """PromQL of a panel, and the name of its lines, with labels in double braces.

    Attributes:
        per_state: True if ``query`` is repeated for each ``<state>`` and its ``<code>``.
    """

    query: Text
    legend: str = ""
    per_state: bool = False

    @property
    def promql(self) -> str:
        """Return the PromQL with Grafana's variables."""
        return per_state(self.query) if self.per_state else self.query


class Column(Declared, frozen=True, kw_only=True):
    """Column of a table.

    Attributes:
        source: a label, or ``Value #A`` for the number of the first of several queries.
        title: heading; by default the source.
        look: name of a shared look.
        words: name of shared words for its values.
        width: pixels; None shares the remaining width.
    """

    source: Text
    title: str = ""
    look: Name = "text"
    words: Name | None = None
    width: int | None = None

    @property
    def heading(self) -> str:
        """Return the title, or the source in its place."""
        return self.title or self.source


class Panel(Declared, frozen=True, kw_only=True):
    """Panel of a dashboard.

    Attributes:
        key: name, unique in its dashboard; alerts write ``dashboard.key``.
        also: further names by which alerts ask for it.
        id: number, unique in its dashboard; it never changes, because links name it.
        about: what is shown, until when, and what an empty panel means.
        size: width, of 24 columns, and height.
        unit: unit of its numbers, as Grafana names it.
        looks: names of shared looks, by the name of the lines or a pattern between slashes.
        words: name of shared words for its numbers.
        color_states: True if lines are named by states and get their colours.
        threshold: number at which a dashed line is drawn.
        empty: text in place of missing numbers.
        sort: title of the column by which a table is sorted, the largest first.
    """

    key: Name
    also: tuple[PanelName, ...] = ()
    id: Annotated[int, Meta(ge=1, lt=1000)]
    title: Text
    about: Sentences
    kind: Literal["timeseries", "stat", "table", "state-timeline"] = "timeseries"
    size: tuple[Width, Annotated[int, Meta(ge=3)]] = (12, 8)
    unit: Literal["short", "percentunit", "s", "cps", "dateTimeAsIso"] = "short"
    queries: Annotated[tuple[Query, ...], Meta(min_length=1, max_length=26)]
    looks: dict[Text, Name] = field(default_factory=dict)
    words: Name | None = None
    color_states: bool = False
    threshold: float | None = None
    min: float | None = None
    max: float | None = None
    empty: Text = "-"
    columns: tuple[Column, ...] = ()
    sort: Text | None = None


class PanelRow(Declared, frozen=True, kw_only=True):
    """Row of panels under one heading; with ``only_with``, where that is declared."""

    title: Text
    panels: tuple[Panel, ...]
    only_with: Part | None = None


class Variable(Declared, frozen=True, kw_only=True):
    """Choice at the top of a dashboard: the values of label ``of`` in the series ``values``."""

    name: Name
    label: Text
    values: Text
    of: Name
    descending: bool = False


class Annotation(Declared, frozen=True, kw_only=True):
    """Marks on all graphs: one for each value above 0, or at each value in milliseconds."""

    name: Text
    query: Text
    title: Text
    text: Text
    color: Text
    at_value: bool = False


class Shared(Declared, frozen=True, kw_only=True):
    """Content of shared.yaml: texts, looks as Grafana's properties, and words for values."""

    texts: dict[Name, Text]
    looks: dict[Name, dict[Text, Any]]
    words: dict[Name, dict[str, tuple[str, str]]]


class Dashboard(Declared, frozen=True, kw_only=True):
    """Dashboard of Grafana, as declared in the file of its name.

    Attributes:
        name: short name, from the file.
        about: the question that it answers.
        since: start of the shown time, such as ``now-24h``.
        status_page: path of the linked page below the service's address, with Grafana's variables.
    """

    name: Name
    title: Text
    about: Text
    since: Text = "now-7d"
    status_page: Text = "/"
    variables: tuple[Variable, ...]
    texts: dict[Name, Text] = field(default_factory=dict)
    annotations: tuple[Annotation, ...] = ()
    rows: tuple[PanelRow, ...]

    @property
    def uid(self) -> str:
        """Return the dashboard's identity in Grafana, which never changes."""
        return f"slicewatch-{self.name}"

    @property
    def path(self) -> str:
        """Return the dashboard's path below Grafana's address."""
        return _path(self.name)

    @property
    def panels(self) -> Iterator[Panel]:
        """Return an iterator over all panels, in reading order."""
        return (panel for row in self.rows for panel in row.panels)


class PanelPlace(Struct, frozen=True):
    """Panel together with its dashboard, which gives it a path."""

    dashboard: Dashboard
    panel: Panel

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names by which alerts ask for the panel."""
        return (f"{self.dashboard.name}.{self.panel.key}", *self.panel.also)

    @property
    def path(self) -> str:
        """Return the panel's path below Grafana's address, without values of variables."""
        return f"{self.dashboard.path}?viewPanel={self.panel.id}"


def dashboards(settings: Settings) -> tuple[Dashboard, ...]:
    """Return the dashboards with the rows that show anything in this installation."""
    return tuple(
        msgspec.structs.replace(
            dashboard,
            rows=tuple(row for row in dashboard.rows if is_declared(settings, row.only_with)),
        )
        for dashboard in _declared(settings)
    )


def places(settings: Settings) -> dict[str, PanelPlace]:
    """Return the place of every declared panel, by each of its names in alerts."""
    all_places = (
        PanelPlace(dashboard, panel)
        for dashboard in _declared(settings)
        for panel in dashboard.panels
    )
    return {name: place for place in all_places for name in place.names}


def address(settings: Settings, name: str) -> str | None:
    """Return the address of the dashboard of this name; None without a Grafana."""
    grafana = settings.links.grafana
    return None if grafana is None else grafana.rstrip("/") + _path(name)


def _path(name: str) -> str:
    return f"/d/slicewatch-{name}/slicewatch-{name}"


def _declared(settings: Settings) -> tuple[Dashboard, ...]:
    completeness = f"{float(settings.evaluate.completeness):g}"
    return tuple(_dashboard(name, completeness) for name in NAMES)


@functools.cache
def _dashboard(name: str, completeness: str) -> Dashboard:
    return read(name, _text(name), {"completeness": completeness})


@functools.cache
def shared() -> Shared:
    """Return the content of shared.yaml, with the words of states."""
    content = yaml.safe_load(_text("shared"))
    content["words"]["states"] = WORDS
    return _converted("shared", _filled("shared", content, content["texts"]), Shared)


def _text(name: str) -> str:
    return (resources.files(__package__) / f"{name}.yaml").read_text(encoding="utf-8")


def read(name: str, text: str, parameters: Mapping[str, str]) -> Dashboard:
    """Return the dashboard that a YAML text declares; raise DeclarationError for a mistake."""
    try:
        content = {"name": name, **yaml.safe_load(text)}
    except (yaml.YAMLError, TypeError) as error:
        fault = " ".join(str(error).split())
        raise DeclarationError(f"{name}.yaml is no YAML of a dashboard: {fault}") from error
    less = {"harmed_by_less": "|".join(m for m in Metric if m.harmed_by_less)}
    texts = {**shared().texts, **less, **parameters, **content.get("texts", {})}
    dashboard = _converted(name, _filled(name, content, texts), Dashboard)
    for fault in _faults(dashboard):
        raise DeclarationError(f"{name}.yaml: {fault}")
    return dashboard


def _converted(name: str, content: Any, kind: type[Content]) -> Content:
    try:
        return msgspec.convert(content, kind, strict=False)
    except msgspec.ValidationError as error:
        raise DeclarationError(f"{name}.yaml: {error}") from error


def _filled(name: str, content: Any, texts: Mapping[str, str]) -> Any:
    """Return YAML content with all placeholders replaced, also those inside the replacements."""
    if isinstance(content, str):
        try:
            return filled(content, texts)
        except KeyError as error:
            missing = f"<< {error.args[0]} >>"
            raise DeclarationError(f"{name}.yaml: {missing} is in no texts; add it there") from None
    if isinstance(content, dict):
        return {key: _filled(name, value, texts) for key, value in content.items()}
    if isinstance(content, list):
        return [_filled(name, value, texts) for value in content]
    return content


def _faults(dashboard: Dashboard) -> Iterator[str]:
    """Yield the mistakes that types cannot see: repeated and unknown names."""
    for kind in ("key", "id", "title"):
        values = [getattr(panel, kind) for panel in dashboard.panels]
        for value in sorted({value for value in values if values.count(value) > 1}):
            yield f"two panels have the {kind} {value!r}; change one"
    for panel in dashboard.panels:
        for fault in _faults_of_panel(panel):
            yield f"panel {panel.key} {fault}"


def _faults_of_panel(panel: Panel) -> Iterator[str]:
    """Yield what is wrong with a panel's declaration: unknown looks, words or columns."""
    looks = [*panel.looks.values(), *(column.look for column in panel.columns)]
    words = [panel.words, *(column.words for column in panel.columns)]
    for look in looks:
        if look not in shared().looks:
            yield f"has the look {look!r}; add it to looks in shared.yaml"
    for name in filter(None, words):
        if name not in shared().words:
            yield f"has the words {name!r}; add them to words in shared.yaml"
    if (panel.kind == "table") != bool(panel.columns):
        yield f"is a {panel.kind}; a table has columns, and nothing else has"
    if panel.sort and panel.sort not in [column.heading for column in panel.columns]:
        yield f"is sorted by {panel.sort!r}; name the title of a column"
