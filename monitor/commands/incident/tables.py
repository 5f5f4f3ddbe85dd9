"""Tables of incidents, of one in detail, and of what people did, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from rich.table import Table
from rich.text import Text

from monitor.commands.incident.report import ActReport, IncidentReport, ValueReport
from monitor.commands.tables import NONE, moment, plain_table
from monitor.core.publish.snapshot import ShownStage


def table_of(found: Iterable[IncidentReport]) -> Table:
    """A line for each."""
    names = ("id", "kind", "state", "contract", "metric", "slice", "share", "since", "by")
    return plain_table(
        names,
        (
            (str(one.id), one.kind.value, _state(one), one.contract, one.metric.value,
             one.slice, one.share or NONE, moment(one.since), one.by or NONE)
            for one in found
        ),
    )  # fmt: skip


def details(one: IncidentReport) -> Table:
    """All that is known of one, but what people said."""
    grid = Table.grid(padding=(0, 2))
    for name, text in _lines(one):
        if text:
            grid.add_row(Text(name), Text(text))
    return grid


def _lines(one: IncidentReport) -> Iterator[tuple[str, str]]:
    yield "incident", f"{one.id} ({one.kind.value})"
    yield "state", _state(one)
    yield "by", one.by or ""
    yield "contract", f"{one.contract}, {one.metric.value}"
    yield "slice", one.slice
    yield "share of the excess", one.share or ""
    yield "inherited by", ", ".join(one.inherited)
    yield "since", moment(one.since)
    yield "noticed", moment(one.noticed_at)
    yield "resolved", _optional(one.resolved_at)
    yield "shown first", _value(one.first)
    yield "shown last", _value(one.latest)
    yield "stage", _stage(one.stage)
    yield "versions changed", _optional(one.versions_changed_at)
    yield "settings changed", _optional(one.settings_changed_at)
    yield "labels", one.sampling
    yield "can be resolved from", _optional(one.resolvable_at)
    yield "Snapshot", "" if one.snapshot is None else f"/snapshot/{one.snapshot}"


def acts_table(acts: Iterable[ActReport]) -> Table:
    """Table of what people did and said, a line each."""
    names = ("number", "when", "action", "outcome", "until", "by", "note")
    return plain_table(
        names,
        (
            (str(act.number), moment(act.at), act.action.value, act.outcome or NONE,
             _optional(act.until) or NONE, act.by, act.note)
            for act in acts
        ),
    )  # fmt: skip


def _state(one: IncidentReport) -> str:
    if one.accepted_until is not None:
        return f"{one.state.value} until {moment(one.accepted_until)}"
    return f"{one.state.value}: {one.outcome.value}" if one.outcome else one.state.value


def _value(shown: ValueReport | None) -> str:
    if shown is None:
        return ""
    bounds = f"[{_number(shown.lower)}, {_number(shown.upper)}]"
    value = "" if shown.value is None else f"{shown.value:.2f} "
    return f"{value}{bounds}, of {moment(shown.at)}"


def _number(bound: float | None) -> str:
    return NONE if bound is None else f"{bound:.2f}"


def _stage(stage: ShownStage | None) -> str:
    if stage is None:
        return ""
    return stage.stage.value if stage.share is None else f"{stage.stage.value}, {stage.share.value}"


def _optional(at: datetime | None) -> str:
    return "" if at is None else moment(at)
