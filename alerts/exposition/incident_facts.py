"""Facts for the notification of an incident, taken from the tables of its Snapshot.

They reveal nothing that the tables do not show: an incident of a withheld slice has no facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from monitor.core.publish.annotations import Behind
from monitor.core.publish.limit_words import relative_rate
from monitor.core.publish.lines import Cell, incident_cell
from monitor.core.publish.snapshot import (
    ContractTable,
    LimitKind,
    ShownGap,
    ShownIncident,
    ShownRate,
)
from monitor.core.publish.window_says import WindowSays, window_says


@dataclass(frozen=True, slots=True)
class SideRate:
    """Shown rate of one side of a comparison: the slice or its reference.

    Attributes:
        side: ``slice`` or ``reference``.
        slice: slice text, or ``complement``; ``""`` is the total.
        rate: rate in the tables.
        bound: ``at_least`` or ``at_most`` if the tables show only a bound; else empty.
    """

    side: str
    slice: str
    rate: float
    bound: str = ""


@dataclass(frozen=True, slots=True)
class IncidentFacts:
    """Figures of an incident's slice in the contract's window, for its notification.

    Attributes:
        sides: rates of the slice and of its reference; empty if withheld.
        relative: the lower of both rates over the higher one, for a broken ratio; None if
            withheld, or without a comparison.
        window_end: end of the latest number's window (microseconds); None without a number.
        window_says: whether that number shows the breach.
        versions: parts of the router that changed before it, in words; ``not sent`` or
            ``not shown`` if a change could not be seen; empty if no known change is recorded.
    """

    sides: tuple[SideRate, ...] = ()
    relative: float | None = None
    window_end: int | None = None
    window_says: WindowSays = WindowSays.UNKNOWN
    versions: str = ""

    @classmethod
    def from_incident(cls, table: ContractTable, incident: ShownIncident) -> IncidentFacts:
        """Return the facts of an incident, from the published table of its contract."""
        latest, versions = incident.latest, _versions_text(incident)
        if latest is None:
            return cls(versions=versions)
        cell = incident_cell(table, incident)
        gap = None if cell is None else cell.gap
        return cls(
            () if cell is None else tuple(_sides(incident, cell)),
            _relative(incident, gap),
            latest.at,
            window_says(incident, gap),
            versions,
        )


_LONGEST_VERSION = 40
"""Longest text per version: five parts with two versions each stay below 500 characters."""


def _versions_text(incident: ShownIncident) -> str:
    """Return the changed versions as ``judge a -> b, policy c -> d``; empty without changes."""
    if incident.versions_changed_at is None and not incident.versions_changed:
        return ""
    return ", ".join(
        f"{change.component} {_version(change.before)} -> {_version(change.after)}"
        for change in incident.versions_changed
    )


def _version(text: str) -> str:
    short = text if len(text) <= _LONGEST_VERSION else f"{text[: _LONGEST_VERSION - 3]}..."
    return short or "(none)"


def _sides(incident: ShownIncident, cell: Cell) -> Iterator[SideRate]:
    """Yield the published rates that an incident compares: slice, and reference if there is one."""
    if cell.rate is not None:
        yield from _side("slice", incident.slice, cell.rate)
    if incident.behind is not Behind.LEVEL and cell.gap and cell.reference_rate:
        yield from _side("reference", cell.gap.reference, cell.reference_rate)


def _side(side: str, name: str, rate: ShownRate) -> Iterator[SideRate]:
    """Yield the rate, or the bound shown in its place; nothing for an interval alone."""
    numbers = {"at_least": rate.at_least, "at_most": rate.at_most, "": rate.value}
    shown = ((bound, number) for bound, number in numbers.items() if number is not None)
    for bound, number in islice(shown, 1):
        yield SideRate(side, name, number, bound)


def _relative(incident: ShownIncident, gap: ShownGap | None) -> float | None:
    """Return the lower rate over the higher one if the broken limit is a ratio; else None."""
    broken = incident.limit is not None and incident.limit.kind is LimitKind.MIN_RATIO
    return relative_rate(gap) if broken and gap is not None else None
