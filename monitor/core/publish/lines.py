"""Lines of a page or report from published rows: their cells and their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from monitor.core.contract import Role, role_of
from monitor.core.metric import USUAL_METRICS, Metric
from monitor.core.publish.conclusion import limited
from monitor.core.publish.deciding_limit import deciding_limit
from monitor.core.publish.reasons import Place, why_and_until
from monitor.core.publish.sides import judged_by, listed, mirrored, reference_rate
from monitor.core.publish.snapshot import (
    ContractTable,
    GroupTable,
    LimitKind,
    ShownGap,
    ShownIncident,
    ShownLimit,
    ShownRate,
    WindowTable,
)
from monitor.core.state import RANKS, SLICE_CLASSES, State
from monitor.core.time import optional_datetime, to_datetime


@dataclass(frozen=True, slots=True)
class Cell:
    """Metric of a slice in a window, with everything that a page shows of it.

    Attributes:
        metric: which rate.
        role: primary or guardrail; None where the contract does not limit it.
        state: what is known of it.
        rate: with its interval and the band of its support; None where it is withheld.
        gap: against the reference; None where it is withheld, or where there is none. Of a named
            reference that is worse off: against the slice that it is furthest behind.
        reference_rate: rate of the reference, or its bounds; None where it is not known.
        mirror_of: the slice whose check this is, seen from the other side; empty without one.
        max_gap: largest allowed gap; None without a limit.
        min_ratio: smallest allowed ratio of the lower to the higher of both rates.
        min_level: smallest allowed rate.
        max_level: largest allowed rate.
        decided_by: the limit that is broken, or not known to be kept; None where there is none.
        ends_at: event time to which it goes; None before the first table.
        why: why it is not decided; empty where it is.
        until: what has to happen, or until when it stays so; empty where it is decided.
        breach_since: end of the day that first showed the breach; None without one.
        evidence: progress of the sequential test towards a page, 0 to 4; None where hidden.
    """

    metric: Metric
    role: Role | None
    state: State
    rate: ShownRate | None
    gap: ShownGap | None
    reference_rate: ShownRate | None
    mirror_of: str
    max_gap: float | None
    min_ratio: float | None
    min_level: float | None
    max_level: float | None
    decided_by: ShownLimit | None
    ends_at: datetime | None
    why: str
    until: str
    breach_since: datetime | None
    evidence: int | None

    @property
    def limits(self) -> dict[LimitKind, float]:
        """Limits of the cell by kind; kinds without a limit are absent."""
        limits = (self.max_gap, self.min_ratio, self.min_level, self.max_level)
        return {k: x for k, x in zip(LimitKind, limits, strict=True) if x is not None}


@dataclass(frozen=True, slots=True)
class SliceLine:
    """Line of a page or report: one slice in a window, with a cell for each metric.

    Attributes:
        group_by: attribute names joined by ``+``; empty for all decisions.
        slice: slice text; empty for all decisions.
        completeness: labels received / labels requested; None where withheld.
        cells: its metrics, the primary one first.
    """

    group_by: str
    slice: str
    completeness: float | None
    cells: tuple[Cell, ...]

    @property
    def slice_class(self) -> str:
        """Class of the slice by its worst cell: one of :data:`SLICE_CLASSES`."""
        classes = (cell.state.row.slice_class for cell in self.cells)
        return min(classes, key=SLICE_CLASSES.index, default="within_limit")


def all_metrics(table: ContractTable) -> tuple[Metric, ...]:
    """Return all metrics that the contract shows, limited ones first."""
    first = limited(table)
    return (*first, *(metric for metric in USUAL_METRICS if metric not in first))


def window_of(table: ContractTable, name: str | None = None) -> WindowTable | None:
    """Return the table of a contract's window, by default of the deciding one; None if absent."""
    window_name = name or table.window
    return next((window for window in table.windows if window.window == window_name), None)


def places(contract: ContractTable, window: WindowTable) -> Iterator[Place]:
    """Yield each listed row of a window with its tables, group-by by group-by; no total."""
    for group in window.groups:
        for row in listed(group):
            yield Place(contract, window, group, row)


def all_places(contract: ContractTable, window: WindowTable) -> Iterator[Place]:
    """Yield the row of all decisions with its tables, then each listed row."""
    yield total_place(contract, window)
    yield from places(contract, window)


def hidden_rates(contract: ContractTable, window: WindowTable) -> tuple[int, int]:
    """Return how many rates a window lists, and how many of these it hides."""
    states = [s for place in all_places(contract, window) for s in place.row.states.values()]
    return len(states), states.count(State.SUPPRESSED)


def total_place(contract: ContractTable, window: WindowTable) -> Place:
    """Return the row of all decisions with its tables."""
    return Place(contract, window, window, window.total)


def find_place(
    contract: ContractTable, window: WindowTable, group_by: str, slice_: str
) -> Place | None:
    """Return a row with its tables, by group-by and slice; None if the window lacks the row."""
    if not group_by:
        return total_place(contract, window) if not slice_ else None
    names = (group_by, slice_)
    matches = (p for p in places(contract, window) if (p.table.group_by, p.row.slice) == names)
    return next(matches, None)


def line(place: Place, metrics: Iterable[Metric]) -> SliceLine:
    """Return the line of a row, with a cell for each of these metrics that the row has."""
    shown = tuple(cell(place, metric) for metric in metrics if metric in place.row.states)
    return SliceLine(place.table.group_by, place.row.slice, place.row.completeness, shown)


def incident_cell(table: ContractTable, incident: ShownIncident) -> Cell | None:
    """Return an incident's slice and metric in the contract's window; None where it is hidden."""
    window, metric = window_of(table, ""), incident.metric
    place = find_place(table, window, incident.group_by, incident.slice) if window else None
    return cell(place, metric) if place is not None and metric in place.row.states else None


def _reference_rate(place: Place, metric: Metric, gap: ShownGap | None) -> ShownRate | None:
    """Return the rate that a row is compared with; None for the total, or if it is not shown."""
    if not isinstance(place.table, GroupTable):
        return None
    return reference_rate(place.table.rows, place.row, metric, gap)


def cell(place: Place, metric: Metric) -> Cell:
    """Return the cell of one metric of a row."""
    contract, row = place.contract, place.row
    gap, limits = _judged_by(place, metric)
    period, rate = place.period(metric), row.rates.get(metric)
    why, until = why_and_until(place, metric)
    return Cell(
        metric=metric,
        role=_role(contract, metric),
        state=row.states[metric],
        rate=rate,
        gap=gap,
        reference_rate=_reference_rate(place, metric, gap),
        mirror_of=_mirror_of(place, metric),
        max_gap=limits.get(LimitKind.MAX_GAP),
        min_ratio=limits.get(LimitKind.MIN_RATIO),
        min_level=limits.get(LimitKind.MIN_LEVEL),
        max_level=limits.get(LimitKind.MAX_LEVEL),
        decided_by=deciding_limit(row, metric, limits, gap),
        ends_at=None if period is None else to_datetime(period.end),
        why=why,
        until=until,
        breach_since=optional_datetime(row.breach_since.get(metric)),
        evidence=row.evidence.get(metric),
    )


def _judged_by(place: Place, metric: Metric) -> tuple[ShownGap | None, dict[LimitKind, float]]:
    if isinstance(place.table, GroupTable):
        return judged_by(place.contract, place.table, place.row, metric)
    return place.row.gaps.get(metric), place.contract.limits_of("", place.row.slice, metric)


def _mirror_of(place: Place, metric: Metric) -> str:
    if not isinstance(place.table, GroupTable) or _role(place.contract, metric) is None:
        return ""
    return mirrored(place.contract, place.table, place.row, metric)


def ranked(lines: Iterable[SliceLine]) -> tuple[SliceLine, ...]:
    """Return the lines sorted from the worst to the unknown ones; ties by gap, then by name."""
    return tuple(sorted(lines, key=_sort_key))


def _sort_key(slice_line: SliceLine) -> tuple[int, int, float, str, str]:
    """Return the sort key of a line: rank of the worst state, first metric in it, gap, names."""
    ranks = [RANKS.index(cell.state) for cell in slice_line.cells]
    worst = min(ranks, default=len(RANKS))
    at = ranks.index(worst) if ranks else 0
    gap = slice_line.cells[at].gap if slice_line.cells else None
    worse_off = gap.value if gap and gap.value is not None else 0.0
    return worst, at, -worse_off, slice_line.group_by, slice_line.slice


def _role(contract: ContractTable, metric: Metric) -> Role | None:
    return role_of(metric, contract.primary) if metric in limited(contract) else None
