"""Incidents: causes of one or more crossings, and their status after people's acts.

The evaluator owns an incident; people only add acts to it. The status follows from both.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.core.metric import Metric
from monitor.core.publish.annotations import IncidentKind, Outcome, Share
from monitor.core.publish.snapshot import PublishedValue

FIRST_ACT = 1
"""Number of the first act of an incident; numbers have no gaps."""


class Action(enum.StrEnum):
    """Action of a person on an incident."""

    ACK = "ack"  # somebody looks after it
    CLOSE = "close"  # somebody says what it came to


class Stand(enum.StrEnum):
    """State of an incident after people's acts and the evaluator's findings."""

    OPEN = "open"  # nobody looks after it
    ACKNOWLEDGED = "acknowledged"
    ACCEPTED = "accepted"  # it is tolerated until some day, and does not page
    CLOSED = "closed"  # by somebody
    RESOLVED = "resolved"  # by the evaluator: what crossed is within its limit again


@dataclass(frozen=True, slots=True)
class Act:
    """Record of one action on an incident; it never changes.

    Attributes:
        number: number among the acts of its incident.
        at: wall clock.
        by: name of the person.
        outcome: outcome of a close.
        until: instant (wall clock) from which an ``accepted`` incident pages again.
        note: the reason; may be empty.
    """

    number: int
    at: int
    action: Action
    by: str
    outcome: Outcome | None = None
    until: int | None = None
    note: str = ""

    @property
    def ends(self) -> bool:
        """True when the act ends the incident; an accepted incident goes on."""
        return self.action is Action.CLOSE and self.outcome is not Outcome.ACCEPTED


@dataclass(frozen=True, slots=True)
class Incident:
    """Incident as the evaluator keeps it; the Snapshot has the parts that may be shown.

    Attributes:
        id: gap-free, from 1 on; never given twice.
        kind: a breach, or on the weekly list.
        contract: name.
        metric: metric of its streams.
        opened_at: event time of the end of the cohort that first crossed; for a ticket, the end of
            its first week.
        opened_wall: wall clock of the cycle that opened it.
        group_by: group-by of the smallest slice that explains it; None after its removal.
        slice: the smallest slice that explains it; None after its removal. It and ``group_by`` may
            be refined until the incident is over.
        further: slices of the same fault, sorted: each shares a value with ``slice`` or another of
            these and is worse off since the same time, but none explains the others.
        share: share of the excess in that slice; None if unknown.
        first: first shown value of the slice; None while nothing was shown.
        began: estimated time of the change that made it cross; None if unknown, as for a ticket.
        versions_changed_at: when other versions began to answer the slice, from two days before
            it began until it crossed; None without a change.
        settings_changed_at: when settings changed in that time; None without a change.
        snapshot: number of the stored Snapshot that first reported it; None before.
        resolved_at: event time; None while it is unresolved.
        crossings: increasing ids of the crossings; empty for a ticket.
        streams: sorted keys of the streams that the weekly list adds; all of them for a ticket.
    """

    id: int
    kind: IncidentKind
    contract: str
    metric: Metric
    opened_at: int
    opened_wall: int
    group_by: str | None
    slice: str | None
    share: Share | None = None
    first: PublishedValue | None = None
    began: int | None = None
    versions_changed_at: int | None = None
    settings_changed_at: int | None = None
    snapshot: int | None = None
    resolved_at: int | None = None
    crossings: tuple[int, ...] = ()
    streams: tuple[str, ...] = ()
    further: tuple[str, ...] = ()

    @property
    def slices(self) -> tuple[str, ...]:
        """Return all slices that explain it, the main one first; empty after its removal."""
        return () if self.slice is None else (self.slice, *self.further)


@dataclass(frozen=True, slots=True)
class Standing:
    """Status of an incident: its state, who set it, and until when.

    Attributes:
        state: open, acknowledged, accepted, closed or resolved.
        by: person who set the state; None if nobody did.
        outcome: outcome of ``accepted`` and ``closed``.
        until: instant (wall clock) from which an ``accepted`` incident pages again.
        at: wall clock of the close.
    """

    state: Stand
    by: str | None = None
    outcome: Outcome | None = None
    until: int | None = None
    at: int | None = None

    @property
    def over(self) -> bool:
        """True when the incident is over, or will be after the evaluator's next cycle."""
        return self.state in (Stand.CLOSED, Stand.RESOLVED)


def standing(incident: Incident, acts: Sequence[Act], now: int) -> Standing:
    """Return the status of an incident after people's acts, as of ``now``.

    The last of several acceptances counts. When it is over, somebody must acknowledge the incident
    again, because earlier acknowledgements did not know how long it would last.

    Args:
        incident: stored incident.
        acts: acts on the incident, in their order.
        now: wall clock.

    Example:
        >>> from monitor.core.publish.annotations import IncidentKind
        >>> kind, metric = IncidentKind.BREACH, Metric.TPR
        >>> incident = Incident(1, kind, "replies", metric, 0, 0, "tone", "tone=plain")
        >>> standing(incident, (Act(1, 5, Action.ACK, "triage"),), 9).state.value
        'acknowledged'
    """
    closed = next((act for act in acts if act.ends), None)
    if closed is not None:
        return Standing(Stand.CLOSED, closed.by, closed.outcome, at=closed.at)
    if incident.resolved_at is not None:
        return Standing(Stand.RESOLVED)
    accepted = next((act for act in reversed(acts) if act.until is not None), None)
    acceptance_end = accepted.until if accepted is not None else None
    if accepted is not None and acceptance_end is not None and now < acceptance_end:
        return Standing(Stand.ACCEPTED, accepted.by, accepted.outcome, acceptance_end)
    for act in reversed(acts):
        if act.action is Action.ACK and (acceptance_end is None or act.at >= acceptance_end):
            return Standing(Stand.ACKNOWLEDGED, act.by)
    return Standing(Stand.OPEN)
