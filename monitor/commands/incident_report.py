"""Incidents as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from monitor.core.publish.glossary import slice_name
from monitor.core.publish.headlines import incident_sentence, value_text
from monitor.core.publish.incident_reports import ActReport, IncidentReport
from monitor.core.publish.limit_words import limit_text, numbers_text
from monitor.core.publish.window_says import SURE_ANYWAY
from monitor.core.publish.words import NONE, iso_text, stage_text
from monitor.present.document import Table, table


def table_of(incidents: Iterable[IncidentReport]) -> tuple[Table, ...]:
    """Return a table with a line per incident; empty without any."""
    return table(
        "id|severity|state|contract|metric|slice|limit|share|since|by",
        (
            (str(incident.id), _severity(incident), _state(incident), incident.contract,
             incident.metric.value, incident.slice or slice_name(""),
             limit_text(incident.limit) if incident.limit else NONE,
             incident.share or NONE, iso_text(incident.since), incident.by or NONE)
            for incident in incidents
        ),
    )  # fmt: skip


def details(incident: IncidentReport, again: str = "") -> list[tuple[str, str]]:
    """Return names and texts: all facts of an incident, without acts.

    Args:
        incident: the incident.
        again: how often it came before, in words.
    """
    return [(name, text) for name, text in (*lines(incident), ("again", again)) if text]


def lines(incident: IncidentReport) -> Iterator[tuple[str, str]]:
    """Yield the name and text of every line; the text of one without a fact is empty."""
    yield "incident", f"{incident.id} ({_severity(incident)})"
    yield "state", _state(incident)
    yield "by", incident.by or ""
    yield "contract", f"{incident.contract}, {incident.metric.value}"
    yield "slice", incident.slice or slice_name("")
    yield "further slices", "; ".join(text or slice_name("") for text in incident.further)
    facts = incident.metric, incident.slice, incident.behind, incident.limit
    yield "what", incident_sentence(*facts)
    yield "now", "" if incident.now is None else numbers_text(incident.now)
    yield "", "" if incident.now is None else SURE_ANYWAY.get(incident.window_says, "")
    yield "share of the excess", incident.share or ""
    yield "inherited by", ", ".join(incident.inherited)
    yield "crossed the limit", iso_text(incident.since)
    yield "probably began", _optional(incident.began)
    yield "noticed", iso_text(incident.noticed_at)
    yield "resolved", _optional(incident.resolved_at)
    for name, evidence in (("shown first", incident.first), ("shown last", incident.latest)):
        yield name, value_text(incident.behind, evidence) if evidence else ""
    yield "stage", stage_text(incident.stage) if incident.stage else ""
    yield "versions changed", _optional(incident.versions_changed_at)
    for change in incident.versions_changed:
        yield f"  {change.component}", f"{change.before or '(none)'} -> {change.after or '(none)'}"
    yield "settings changed", _optional(incident.settings_changed_at)
    yield "labels", incident.sampling
    yield "can be resolved from", _optional(incident.resolvable_at)
    yield "Snapshot", "" if incident.snapshot is None else f"/snapshot/{incident.snapshot}"


def acts_table(acts: Iterable[ActReport]) -> tuple[Table, ...]:
    """Return a table with a line per act on an incident: who did what, when, with what note."""
    return table(
        "number|when|action|outcome|until|by|note",
        (
            (str(act.number), iso_text(act.at), act.action.value, act.outcome or NONE,
             iso_text(act.until), act.by, act.note)
            for act in acts
        ),
    )  # fmt: skip


def _severity(incident: IncidentReport) -> str:
    return incident.severity.value if incident.severity else "not known yet"


def _state(incident: IncidentReport) -> str:
    if incident.accepted_until is not None:
        return f"{incident.state.value} until {iso_text(incident.accepted_until)}"
    outcome = f": {incident.outcome.value}" if incident.outcome else ""
    return f"{incident.state.value}{outcome}"


def _optional(at: datetime | None) -> str:
    return "" if at is None else iso_text(at)
