"""Report of an incident for people, and its tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.table import Table
from rich.text import Text

from monitor.commands.console import NONE, moment, plain_table
from monitor.core.contract import Metric
from monitor.core.publish.annotations import Behind, IncidentKind, Outcome, Share
from monitor.core.publish.incidents import Act, Action, Incident, Stand, standing
from monitor.core.publish.snapshot import (
    WITHHELD,
    ComponentChange,
    PublishedValue,
    ShownIncident,
    ShownStage,
)
from monitor.core.rates.gap_words import said_of_slice
from monitor.core.time import to_datetime


@dataclass(frozen=True, slots=True)
class ValueReport:
    """A gap or a rate as a Snapshot showed it.

    Attributes:
        value: None where it is coded.
        lower: lower bound.
        upper: upper bound.
        at: event time of the end of the release block that it is of.
    """

    value: float | None
    lower: float | None
    upper: float | None
    at: datetime


@dataclass(frozen=True, slots=True)
class ActReport:
    """An act of a person on an incident.

    Attributes:
        number: among the acts of the incident.
        at: wall clock.
        action: ack or close.
        by: who.
        outcome: of a close.
        until: of ``accepted``: the instant from which on it pages again.
        note: why; may be empty.
    """

    number: int
    at: datetime
    action: Action
    by: str
    outcome: Outcome | None
    until: datetime | None
    note: str


@dataclass(frozen=True, slots=True)
class IncidentReport:
    """One incident.

    Attributes:
        id: of the incident.
        kind: page or ticket.
        state: open, acknowledged, accepted, closed or resolved.
        by: who said so; None where nobody did.
        outcome: of what is accepted or closed.
        accepted_until: wall clock from which on what is accepted pages again.
        contract: name.
        metric: of its streams.
        group_by: of the slice; empty where that is withheld.
        slice: the smallest that explains it; ``withheld`` where the guards hide it.
        share: of the excess that it accounts for, in words.
        inherited: shown slices that are only worse since they contain that slice, or lie in it.
        since: event time of the end of the cohort that first crossed.
        noticed_at: wall clock of the evaluation that opened it.
        resolved_at: event time; None while it is not resolved.
        first: what was shown when it first crossed.
        latest: what is shown now; of what is resolved, what was shown with ``snapshot``.
        stage: of the router at which the slice and its reference diverge.
        versions_changed_at: when other versions began to answer the slice.
        versions_changed: which they were before and after; empty where that is not known.
        settings_changed_at: when settings changed.
        sampling: how its labels were sampled, in words.
        resolvable_at: the earliest moment at which it can be resolved if it were repaired now.
        snapshot: number of the stored Snapshot that first showed it.
        behind: who is worse off; None where that is withheld, or not known.
        acts: all that people said, in their order.
    """

    id: int
    kind: IncidentKind
    state: Stand
    by: str | None
    outcome: Outcome | None
    accepted_until: datetime | None
    contract: str
    metric: Metric
    group_by: str
    slice: str
    share: Share | None
    inherited: tuple[str, ...]
    since: datetime
    noticed_at: datetime
    resolved_at: datetime | None
    first: ValueReport | None
    latest: ValueReport | None
    stage: ShownStage | None
    versions_changed_at: datetime | None
    versions_changed: tuple[ComponentChange, ...]
    settings_changed_at: datetime | None
    sampling: str
    resolvable_at: datetime | None
    snapshot: int | None
    behind: Behind | None
    acts: tuple[ActReport, ...]


def report(
    incident: Incident, acts: Sequence[Act], shown: ShownIncident | None, now: int
) -> IncidentReport:
    """Report of an incident.

    Args:
        incident: as the evaluator keeps it: of this only its state is reported.
        acts: its own, in their order.
        shown: what a Snapshot shows of it: all that is reported of its slice. None: nothing is.
        now: wall clock.
    """
    how, page = standing(incident, acts, now), shown or _hidden(incident)
    return IncidentReport(
        id=incident.id,
        kind=incident.kind,
        state=how.state,
        by=how.by,
        outcome=how.outcome,
        accepted_until=_time(how.until),
        contract=incident.contract,
        metric=incident.metric,
        group_by=page.group_by,
        slice=page.slice,
        share=page.share,
        inherited=page.inherited,
        since=to_datetime(incident.opened_at),
        noticed_at=to_datetime(incident.opened_wall),
        resolved_at=_time(incident.resolved_at),
        first=_value(page.first),
        latest=_value(page.latest),
        stage=page.stage,
        versions_changed_at=_time(page.versions_changed_at),
        versions_changed=page.versions_changed,
        settings_changed_at=_time(page.settings_changed_at),
        sampling=page.sampling,
        resolvable_at=_time(page.resolvable_at),
        snapshot=incident.snapshot,
        behind=page.behind,
        acts=tuple(map(_act, acts)),
    )


def _hidden(incident: Incident) -> ShownIncident:
    kind, metric, since = incident.kind, incident.metric, incident.opened_at
    return ShownIncident(incident.id, kind, metric, since, "", WITHHELD)


def _value(shown: PublishedValue | None) -> ValueReport | None:
    if shown is None:
        return None
    return ValueReport(shown.value, shown.lower, shown.upper, to_datetime(shown.at))


def _act(act: Act) -> ActReport:
    at, until = to_datetime(act.at), _time(act.until)
    return ActReport(act.number, at, act.action, act.by, act.outcome, until, act.note)


def _time(at: int | None) -> datetime | None:
    return None if at is None else to_datetime(at)


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
    yield "worse off", _behind(one)
    yield "share of the excess", one.share or ""
    yield "inherited by", ", ".join(one.inherited)
    yield "since", moment(one.since)
    yield "noticed", moment(one.noticed_at)
    yield "resolved", _optional(one.resolved_at)
    yield "shown first", _value_text(one.first, one.behind)
    yield "shown last", _value_text(one.latest, one.behind)
    yield "stage", _stage(one.stage)
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


def _state(one: IncidentReport) -> str:
    if one.accepted_until is not None:
        return f"{one.state.value} until {moment(one.accepted_until)}"
    return f"{one.state.value}: {one.outcome.value}" if one.outcome else one.state.value


def _behind(one: IncidentReport) -> str:
    """Who is, and in what, in words."""
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


def _stage(stage: ShownStage | None) -> str:
    if stage is None:
        return ""
    return stage.stage.value if stage.share is None else f"{stage.stage.value}, {stage.share.value}"


def _optional(at: datetime | None) -> str:
    return "" if at is None else moment(at)
