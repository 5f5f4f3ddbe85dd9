"""Incidents: one cause of one or more crossings, and the status of each after people's acts.

The evaluator owns an incident; people only add acts to it. Its status is derived here, from both.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.core.contract import Metric
from monitor.core.publish.annotations import IncidentKind, Outcome, Share
from monitor.core.publish.snapshot import PublishedValue

FIRST_ACT = 1
"""Number of the first act of an incident; after it they have no gap."""


class Action(enum.StrEnum):
    """Action of a person on an incident."""

    ACK = "ack"  # somebody looks after it
    CLOSE = "close"  # somebody says what it came to


class Stand(enum.StrEnum):
    """State of an incident."""

    OPEN = "open"  # nobody looks after it
    ACKNOWLEDGED = "acknowledged"
    ACCEPTED = "accepted"  # it is tolerated until some day, and does not page
    CLOSED = "closed"  # by somebody
    RESOLVED = "resolved"  # by the evaluator: what crossed is within its limit again


@dataclass(frozen=True, slots=True)
class Act:
    """Record of one action on an incident; never changed afterwards.

    Attributes:
        number: among the acts of its incident.
        at: wall clock.
        action: what was done.
        by: who did it.
        outcome: of a close.
        until: of ``accepted``: the instant (wall clock) from which on it pages again.
        note: why; may be empty.
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
        """True when it ends the incident; what is accepted goes on."""
        return self.action is Action.CLOSE and self.outcome is not Outcome.ACCEPTED


@dataclass(frozen=True, slots=True)
class Incident:
    """One cause, as the evaluator keeps it. What may be shown of it is in the Snapshot.

    Attributes:
        id: gap-free, from 1 on; never given twice.
        kind: a breach, or on the weekly list.
        contract: name.
        metric: of its streams.
        opened_at: event time of the end of the cohort that first crossed; of a ticket, the end of
            its first week.
        opened_wall: wall clock of the cycle that opened it.
        group_by: of the smallest slice that explains it; None once what it named was removed.
        slice: that slice; None likewise. Both may be refined until it is over.
        share: the share of the excess it accounts for; None where that is not known.
        first: what was shown of the slice at first; None while nothing was.
        versions_changed_at: when other versions began to answer the slice, within two days before
            it crossed; None without.
        settings_changed_at: the same of settings.
        snapshot: number of the stored Snapshot that first reported it; None before.
        resolved_at: event time; None while it is unresolved.
        crossings: their ids, increasing; empty for a ticket.
        streams: of a ticket, the keys of its streams, sorted.
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
    versions_changed_at: int | None = None
    settings_changed_at: int | None = None
    snapshot: int | None = None
    resolved_at: int | None = None
    crossings: tuple[int, ...] = ()
    streams: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """Status of an incident.

    Attributes:
        state: open, acknowledged, accepted, closed or resolved.
        by: who said so; None where nobody did.
        outcome: of ``accepted`` and ``closed``.
        until: of ``accepted``: the instant (wall clock) from which on it pages again.
        at: of ``closed``: wall clock.
    """

    state: Stand
    by: str | None = None
    outcome: Outcome | None = None
    until: int | None = None
    at: int | None = None

    @property
    def over(self) -> bool:
        """True when it is over, or will be after the evaluator's next cycle."""
        return self.state in (Stand.CLOSED, Stand.RESOLVED)

    @property
    def pages(self) -> bool:
        """True when it is to be reported: not while it is accepted, nor once it is over."""
        return self.state in (Stand.OPEN, Stand.ACKNOWLEDGED)


def standing(incident: Incident, acts: Sequence[Act], now: int) -> Standing:
    """Derive the status of an incident.

    Of several times that it was accepted the last one counts. When that is over, somebody has to
    acknowledge it anew: whoever did so before did not know how long it would last.

    Args:
        incident: as it is stored.
        acts: its own, in their order.
        now: wall clock.

    Example:
        >>> from monitor.core.publish.annotations import IncidentKind
        >>> kind, metric = IncidentKind.BREACH, Metric.TPR
        >>> one = Incident(1, kind, "replies", metric, 0, 0, "tone", "tone=plain")
        >>> standing(one, (Act(1, 5, Action.ACK, "triage"),), 9).state.value
        'acknowledged'
    """
    closed = next((act for act in acts if act.ends), None)
    if closed is not None:
        return Standing(Stand.CLOSED, closed.by, closed.outcome, at=closed.at)
    if incident.resolved_at is not None:
        return Standing(Stand.RESOLVED)
    accepted = next((act for act in reversed(acts) if act.until is not None), None)
    again = accepted.until if accepted is not None else None
    if accepted is not None and again is not None and now < again:
        return Standing(Stand.ACCEPTED, accepted.by, accepted.outcome, again)
    for act in reversed(acts):
        if act.action is Action.ACK and (again is None or act.at >= again):
            return Standing(Stand.ACKNOWLEDGED, act.by)
    return Standing(Stand.OPEN)
