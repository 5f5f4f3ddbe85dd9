"""Facts that a notification of an incident states, read off the tables of its own Snapshot.

Nothing here is known that the tables do not show: an incident whose slice is withheld has none.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from monitor.core.contract import COMPLEMENT, Metric
from monitor.core.publish.annotations import Behind
from monitor.core.publish.deciding_limit import allowed
from monitor.core.publish.limit_words import relative_rate
from monitor.core.publish.snapshot import (
    ContractTable,
    LimitKind,
    PublishedValue,
    ShownGap,
    ShownIncident,
    ShownRate,
    SliceRow,
)
from monitor.core.rates.gaps import HARMED_BY_LESS


class WindowSays(enum.StrEnum):
    """Finding of the published window on its incident."""

    NOTHING_YET = "nothing_yet"  # it ends before the breach was found
    WITHIN_LIMIT = "within_limit"  # it also holds days from before the breach, which outweigh it
    OUTSIDE_LIMIT = "outside_limit"
    UNKNOWN = ""  # the number is withheld or coded


@dataclass(frozen=True, slots=True)
class SideRate:
    """The shown rate of one side of a comparison.

    Attributes:
        side: ``slice`` or ``reference``.
        slice: slice text, or ``complement``; ``""`` is the total.
        rate: as the tables show it.
    """

    side: str
    slice: str
    rate: float


@dataclass(frozen=True, slots=True)
class IncidentFacts:
    """Figures of an incident's slice in the contract's window.

    Attributes:
        sides: the rate of the slice, then that of its reference; empty where it is not shown.
        relative: the lower of both rates over the higher one, where a ratio is broken; None
            where it is not shown, or the incident is no comparison.
        support: lower edge of the band of the slice's support; None where that is not shown.
        window_end: end of what the latest number is of (microseconds); None without a number.
        window_says: whether that number shows the breach.
        versions: the parts of the router that changed before it, in words; empty where that is not
            known, or withheld.
    """

    sides: tuple[SideRate, ...] = ()
    relative: float | None = None
    support: int | None = None
    window_end: int | None = None
    window_says: WindowSays = WindowSays.UNKNOWN
    versions: str = ""

    @classmethod
    def of(cls, table: ContractTable, incident: ShownIncident) -> IncidentFacts:
        """The facts of one incident of a contract."""
        latest, versions = incident.latest, _versions(incident)
        if latest is None:
            return cls(versions=versions)
        rows = {row.slice: row for row in _rows(table, incident.group_by)}
        rate = _rate(rows, incident.slice, incident.metric)
        gap = rows[incident.slice].gaps.get(incident.metric) if incident.slice in rows else None
        relative = _relative(incident, gap)
        return cls(
            tuple(_sides(incident, rows, rate)),
            relative,
            rate.support if rate else None,
            latest.at,
            _window_says(incident, latest, relative),
            versions,
        )


_LONGEST_VERSION = 40
"""Of a label's value: five parts with two versions each stay below 500 characters."""


def _versions(incident: ShownIncident) -> str:
    """Changed versions, as ``judge a -> b, policy 2026-11-01 -> 2026-11-15``."""
    return ", ".join(
        f"{one.component} {_version(one.before)} -> {_version(one.after)}"
        for one in incident.versions_changed
    )


def _version(text: str) -> str:
    short = text if len(text) <= _LONGEST_VERSION else f"{text[: _LONGEST_VERSION - 3]}..."
    return short or "(none)"


def _rows(table: ContractTable, group_by: str) -> Iterator[SliceRow]:
    """Rows of a group-by, or the total, in the window that decides."""
    for window in table.windows:
        if window.window == table.window:
            if not group_by:
                yield window.total
            for group in window.groups:
                if group.group_by == group_by:
                    yield from group.rows


def _rate(rows: Mapping[str, SliceRow], name: str, metric: Metric) -> ShownRate | None:
    return rows[name].rates.get(metric) if name in rows else None


def _sides(
    incident: ShownIncident, rows: Mapping[str, SliceRow], rate: ShownRate | None
) -> Iterator[SideRate]:
    metric = incident.metric
    if rate is None or rate.value is None:
        return
    yield SideRate("slice", incident.slice, rate.value)
    gap = rows[incident.slice].gaps.get(metric)
    if incident.behind is Behind.LEVEL or gap is None or gap.value is None:
        return
    if gap.reference == COMPLEMENT:
        less = metric in HARMED_BY_LESS
        yield SideRate("reference", COMPLEMENT, rate.value + (gap.value if less else -gap.value))
        return
    other = _rate(rows, gap.reference, metric)
    if other is not None and other.value is not None:
        yield SideRate("reference", gap.reference, other.value)


def _relative(incident: ShownIncident, gap: ShownGap | None) -> float | None:
    """The lower rate over the higher one, to the two decimals of what is shown."""
    broken = incident.limit is not None and incident.limit.kind is LimitKind.MIN_RATIO
    return relative_rate(gap) if broken and gap is not None else None


def _window_says(
    incident: ShownIncident, latest: PublishedValue, relative: float | None
) -> WindowSays:
    if latest.at < incident.since:
        return WindowSays.NOTHING_YET
    limit = incident.limit
    if limit is None:
        return WindowSays.UNKNOWN
    shown = relative if limit.kind is LimitKind.MIN_RATIO else latest.value
    if shown is None:
        return WindowSays.UNKNOWN
    return WindowSays.WITHIN_LIMIT if allowed(limit).holds(shown) else WindowSays.OUTSIDE_LIMIT
