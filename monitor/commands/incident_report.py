"""Incidents as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from rich.table import Table
from rich.text import Text

from monitor.commands.console import NONE, moment, plain_table
from monitor.core.publish.annotations import Behind
from monitor.core.publish.incident_reports import ActReport, IncidentReport, ValueReport
from monitor.core.publish.limit_words import limit_text
from monitor.core.publish.words import stage_text
from monitor.core.rates.gap_words import said_of_slice


def table_of(found: Iterable[IncidentReport]) -> Table:
    """A line for each."""
    names = (
        "id",
        "severity",
        "state",
        "contract",
        "metric",
        "slice",
        "limit",
        "share",
        "since",
        "by",
    )
    return plain_table(
        names,
        (
            (str(one.id), _severity(one), _state(one), one.contract, one.metric.value,
             one.slice, _limit(one) or NONE, one.share or NONE, moment(one.since), one.by or NONE)
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
    yield "incident", f"{one.id} ({_severity(one)})"
    yield "state", _state(one)
    yield "by", one.by or ""
    yield "contract", f"{one.contract}, {one.metric.value}"
    yield "slice", one.slice
    yield "worse off", _behind(one)
    yield "limit", _limit(one)
    yield "share of the excess", one.share or ""
    yield "inherited by", ", ".join(one.inherited)
    yield "since", moment(one.since)
    yield "noticed", moment(one.noticed_at)
    yield "resolved", _optional(one.resolved_at)
    yield "shown first", _value_text(one.first, one.behind)
    yield "shown last", _value_text(one.latest, one.behind)
    yield "stage", stage_text(one.stage) if one.stage else ""
    yield "versions changed", _optional(one.versions_changed_at)
    for change in one.versions_changed:
        yield f"  {change.component}", f"{change.before or NONE} -> {change.after or NONE}"
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


def _severity(one: IncidentReport) -> str:
    return one.severity.value if one.severity else "not known yet"


def _state(one: IncidentReport) -> str:
    if one.accepted_until is not None:
        return f"{one.state.value} until {moment(one.accepted_until)}"
    return f"{one.state.value}: {one.outcome.value}" if one.outcome else one.state.value


def _limit(one: IncidentReport) -> str:
    """The limit that is broken, in words."""
    return "" if one.limit is None else limit_text(one.limit)


def _behind(one: IncidentReport) -> str:
    """The side that is, and in what, in words."""
    if one.behind is Behind.SLICE:
        return f"the slice: {said_of_slice(one.metric, 1)} than its reference's"
    if one.behind is Behind.REFERENCE:
        return f"its reference: of the slice, {said_of_slice(one.metric, -1)}"
    return "the slice, which does not keep its level" if one.behind else ""


def _value_text(shown: ValueReport | None, behind: Behind | None) -> str:
    """A gap with its sign, above 0 where the slice is worse off; a rate without."""
    if shown is None:
        return ""
    sign = "" if behind is Behind.LEVEL else "+"
    bounds = f"[{_number(shown.lower, sign)}, {_number(shown.upper, sign)}]"
    value = "" if shown.value is None else f"{_number(shown.value, sign)} "
    return f"{value}{bounds}, of {moment(shown.at)}"


def _number(bound: float | None, sign: str) -> str:
    return NONE if bound is None else f"{bound:{sign}.2f}"


def _optional(at: datetime | None) -> str:
    return "" if at is None else moment(at)
