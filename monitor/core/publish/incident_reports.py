"""Report of an incident: its status after people's acts, and its figures in a Snapshot.

Reports hold datetimes, which JSON shows as text; Snapshots and the store hold microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.core.contract import Severity
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Behind, IncidentKind, Outcome, Share
from monitor.core.publish.incidents import Act, Action, Incident, Stand, standing
from monitor.core.publish.lines import Cell
from monitor.core.publish.snapshot import (
    WITHHELD,
    ComponentChange,
    PublishedValue,
    ShownIncident,
    ShownLimit,
    ShownStage,
)
from monitor.core.publish.window_says import WindowSays, window_says
from monitor.core.time import optional_datetime, to_datetime


@dataclass(frozen=True, slots=True)
class ValueReport:
    """Gap or rate as a Snapshot showed it, with the end of its tables.

    Attributes:
        value: None where it is coded.
        lower: lower bound.
        upper: upper bound.
        at: event time of the end of the tables that it is of.
    """

    value: float | None
    lower: float | None
    upper: float | None
    at: datetime


@dataclass(frozen=True, slots=True)
class ActReport:
    """Act of a person on an incident: acknowledgement or close.

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
    """Incident with everything that may be shown of it.

    Attributes:
        id: of the incident.
        kind: a breach, or on the weekly list.
        severity: page or ticket; None where no Snapshot shows it.
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
        further: the other slices of the same fault; ``withheld`` stands for hidden ones.
        since: event time of the end of the cohort that first crossed.
        began: the day on which the change probably began: an estimate; None where it is not known.
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
        limit: the one that is broken; None where that is withheld.
        now: rates, gap, ratio and limits as published now; None where hidden, or when it is over.
        window_says: how these stand to the broken limit; empty where that is not known.
        acts: all that people said, in their order.
    """

    id: int
    kind: IncidentKind
    severity: Severity | None
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
    further: tuple[str, ...]
    since: datetime
    began: datetime | None
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
    limit: ShownLimit | None
    now: Cell | None
    window_says: WindowSays
    acts: tuple[ActReport, ...]


def report(
    incident: Incident,
    acts: Sequence[Act],
    shown: ShownIncident | None,
    now: int,
    cell: Cell | None = None,
) -> IncidentReport:
    """Return the report of an incident: status after its acts, and figures that a Snapshot shows.

    Args:
        incident: incident kept by the evaluator; only its state is reported.
        acts: acts on the incident, in their order.
        shown: incident in a Snapshot, the source of everything about its slice; None reports
            nothing about it.
        now: wall clock.
        cell: metric of its slice in the newest Snapshot; None where it is hidden.
    """
    status, page = standing(incident, acts, now), shown or _withheld_incident(incident)
    return IncidentReport(
        id=incident.id,
        kind=incident.kind,
        severity=shown.severity if shown else None,
        state=status.state,
        by=status.by,
        outcome=status.outcome,
        accepted_until=optional_datetime(status.until),
        contract=incident.contract,
        metric=incident.metric,
        group_by=page.group_by,
        slice=page.slice,
        share=page.share,
        inherited=page.inherited,
        further=page.further,
        since=to_datetime(incident.opened_at),
        began=optional_datetime(page.began),
        noticed_at=to_datetime(incident.opened_wall),
        resolved_at=optional_datetime(incident.resolved_at),
        first=_value_report(page.first),
        latest=_value_report(page.latest),
        stage=page.stage,
        versions_changed_at=optional_datetime(page.versions_changed_at),
        versions_changed=page.versions_changed,
        settings_changed_at=optional_datetime(page.settings_changed_at),
        sampling=page.sampling,
        resolvable_at=optional_datetime(page.resolvable_at),
        snapshot=incident.snapshot,
        behind=page.behind,
        limit=page.limit,
        now=cell,
        window_says=window_says(page, cell.gap if cell else None),
        acts=tuple(map(_act_report, acts)),
    )


def _withheld_incident(incident: Incident) -> ShownIncident:
    about = incident.id, incident.kind, Severity.TICKET, incident.metric, incident.opened_at
    return ShownIncident(*about, "", WITHHELD)


def _value_report(shown: PublishedValue | None) -> ValueReport | None:
    if shown is None:
        return None
    return ValueReport(shown.value, shown.lower, shown.upper, to_datetime(shown.at))


def _act_report(act: Act) -> ActReport:
    at, until = to_datetime(act.at), optional_datetime(act.until)
    return ActReport(act.number, at, act.action, act.by, act.outcome, until, act.note)
