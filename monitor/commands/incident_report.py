"""Incidents as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from rich.table import Table
from rich.text import Text

from monitor.commands.console import NONE, moment, plain_table
from monitor.core.publish.annotations import Behind
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.headlines import incident_sentence
from monitor.core.publish.incident_reports import ActReport, IncidentReport, ValueReport
from monitor.core.publish.limit_words import limit_text, numbers_text
from monitor.core.publish.window_says import SURE_ANYWAY
from monitor.core.publish.words import stage_text


def table_of(incidents: Iterable[IncidentReport]) -> Table:
    """Return a table with a line per incident."""
    names = ("id", "severity", "state", "contract", "metric", "slice", "limit", "share", "since",
             "by")  # fmt: skip
    return plain_table(
        names,
        (
            (str(incident.id), _severity(incident), _state(incident), incident.contract,
             incident.metric.value, incident.slice or slice_name(""),
             _limit_words(incident) or NONE, incident.share or NONE, moment(incident.since),
             incident.by or NONE)
            for incident in incidents
        ),
    )  # fmt: skip


def details(incident: IncidentReport, again: str = "") -> Table:
    """Return a grid of names and texts: all facts of an incident, without acts.

    Args:
        incident: the incident.
        again: how often it came before, in words.
    """
    grid = Table.grid(padding=(0, 2))
    for name, text in (*_lines(incident), ("again", again)):
        if text:
            grid.add_row(Text(name), Text(text))
    return grid


def _lines(incident: IncidentReport) -> Iterator[tuple[str, str]]:
    yield "incident", f"{incident.id} ({_severity(incident)})"
    yield "state", _state(incident)
    yield "by", incident.by or ""
    yield "contract", f"{incident.contract}, {incident.metric.value}"
    yield "slice", incident.slice or slice_name("")
    facts = incident.metric, incident.slice, incident.behind, incident.limit
    yield "what", incident_sentence(*facts)
    if incident.now is not None:
        yield "now", numbers_text(incident.now)
        yield "", SURE_ANYWAY.get(incident.window_says, "")
    yield "share of the excess", incident.share or ""
    yield "inherited by", ", ".join(incident.inherited)
    yield "crossed the limit", moment(incident.since)
    yield "probably began", _optional(incident.began)
    yield "noticed", moment(incident.noticed_at)
    yield "resolved", _optional(incident.resolved_at)
    yield "shown first", _value_text(incident.first, incident.behind)
    yield "shown last", _value_text(incident.latest, incident.behind)
    yield "stage", stage_text(incident.stage) if incident.stage else ""
    yield "versions changed", _optional(incident.versions_changed_at)
    for change in incident.versions_changed:
        yield f"  {change.component}", f"{change.before or NONE} -> {change.after or NONE}"
    yield "settings changed", _optional(incident.settings_changed_at)
    yield "labels", incident.sampling
    yield "can be resolved from", _optional(incident.resolvable_at)
    yield "Snapshot", "" if incident.snapshot is None else f"/snapshot/{incident.snapshot}"


def acts_table(acts: Iterable[ActReport]) -> Table:
    """Return a table with a line per act on an incident: who did what, when, with what note."""
    names = ("number", "when", "action", "outcome", "until", "by", "note")
    return plain_table(
        names,
        (
            (str(act.number), moment(act.at), act.action.value, act.outcome or NONE,
             _optional(act.until) or NONE, act.by, act.note)
            for act in acts
        ),
    )  # fmt: skip


def _severity(incident: IncidentReport) -> str:
    return incident.severity.value if incident.severity else "not known yet"


def _state(incident: IncidentReport) -> str:
    if incident.accepted_until is not None:
        return f"{incident.state.value} until {moment(incident.accepted_until)}"
    outcome = f": {incident.outcome.value}" if incident.outcome else ""
    return f"{incident.state.value}{outcome}"


def _limit_words(incident: IncidentReport) -> str:
    """Return the broken limit in words; empty without one."""
    return "" if incident.limit is None else limit_text(incident.limit)


def _value_text(shown: ValueReport | None, behind: Behind | None) -> str:
    """Return value, bounds and time: a signed gap (above 0: slice worse off), or a level's rate."""
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
