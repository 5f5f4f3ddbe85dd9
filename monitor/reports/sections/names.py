"""Names of slices in tables that have all contracts in one, and sentences for what is left out."""

from __future__ import annotations

from monitor.core.publish.glossary import slice_name
from monitor.reports.planners.published import Named
from monitor.reports.weekly_report import WeeklyReport


def name_of(report: WeeklyReport, of: Named) -> str:
    """A slice, with its contract where there are several."""
    name = slice_name(of.slice)
    return name if len(report.release.contracts) == 1 else f"{of.contract}: {name}"


def without(report: WeeklyReport, shown: int, why: str) -> tuple[str, ...]:
    """How many slices a section says nothing about, and why; nothing where it has all of them."""
    missing = sum(1 for _ in report.places()) - shown
    if missing <= 0:
        return ()
    slices = "slice has" if missing == 1 else "slices have"
    return (f"{missing} {slices} no row here: {why}.",)


def slices_in(lines: set[Named]) -> int:
    """Number of slices among them; all decisions are none."""
    return sum(bool(one.slice) for one in lines)
