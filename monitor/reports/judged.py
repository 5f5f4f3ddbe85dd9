"""Checks of a week with their rows, and those that page one shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from monitor.core.contract import Verdict
from monitor.core.metric import Metric
from monitor.core.publish.conclusion import LimitCheck, checks, limited
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.lines import Cell, cell, places
from monitor.core.publish.reasons import Place
from monitor.core.publish.sides import BAD
from monitor.core.publish.snapshot import ContractTable, WindowTable
from monitor.core.state import RANKS, State
from monitor.reports.weekly_report import WeeklyReport

MOST_LISTED = 12
"""Number of rows on page one: more do not fit on one sheet with the rest of it."""
UNDECIDED = (Verdict.INSUFFICIENT_SUPPORT, Verdict.INCONCLUSIVE)


@dataclass(frozen=True, slots=True)
class Judged:
    """Limited metric of one row, with its check.

    Attributes:
        place: row of the slice with its tables.
        cell: what is shown of the metric.
        check: its check; None for a reference, a mirror or a slice that is better off.
    """

    place: Place
    cell: Cell
    check: LimitCheck | None

    @property
    def name(self) -> str:
        """Name of the side that is judged: the slice, or all but that slice."""
        return self.check.name if self.check else slice_name(self.place.row.slice)

    @property
    def short(self) -> str:
        """Metric and judged side, such as ``tpr of channel=chat``."""
        return f"{self.cell.metric.value} of {self.name}"

    @property
    def failed(self) -> bool:
        """True when the limit is broken."""
        return self.check is not None and self.check.verdict is Verdict.FAIL

    @property
    def undecided(self) -> bool:
        """True when the check could not be decided."""
        return self.check is not None and self.check.verdict in UNDECIDED


def judged_in(contract: ContractTable, window: WindowTable) -> Iterator[Judged]:
    """Yield every limited metric of every slice of a contract, with its check."""
    by_cell = {(check.metric, check.slice): check for check in checks(contract, window)}
    for place in places(contract, window):
        for metric in limited(contract):
            if metric in place.row.states:
                yield Judged(place, cell(place, metric), by_cell.get((metric, place.row.slice)))


def judged_cells(report: WeeklyReport) -> Iterator[Judged]:
    """Yield every limited metric of every slice of a report, with its check."""
    for contract, window in report.windows():
        yield from judged_in(contract, window)


def leading(report: WeeklyReport) -> list[Judged]:
    """Return the rows of page one: broken limits, then the primary metric of every slice."""
    return sorted(filter(_is_leading, judged_cells(report)), key=_rank)[:MOST_LISTED]


def leading_total(report: WeeklyReport) -> int:
    """Return how many rows page one would have with space for all."""
    return sum(map(_is_leading, judged_cells(report)))


def _is_leading(judged: Judged) -> bool:
    """Return True if a cell belongs on the first page: it fails, or is of the primary metric."""
    return judged.failed or judged.cell.metric is limited(judged.place.contract)[0]


def _rank(judged: Judged) -> tuple[bool, int]:
    return not judged.failed, RANKS.index(judged.cell.state)


def state_text(state: State) -> str:
    """Return a state in words; each kind of breach reads as over the limit."""
    return "over the limit" if state in BAD else state.row.words


def cell_key(judged: Judged) -> tuple[str, str, str, Metric]:
    """Return contract, group-by, slice and metric of a judged cell."""
    place = judged.place
    return place.contract.contract, place.table.group_by, place.row.slice, judged.cell.metric
