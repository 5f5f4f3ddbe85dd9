"""Tables of planners' rows: names of slices, and sentences for what is left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from monitor.core.publish.glossary import slice_name
from monitor.drawing.tables import TableCell, table
from monitor.reports.layout import Section, cut, titled
from monitor.reports.planners.published_rates import Named
from monitor.reports.weekly_report import WeeklyReport


def name_of(report: WeeklyReport, of: Named) -> str:
    """A slice, with its contract where there are several."""
    name = slice_name(of.slice)
    return name if len(report.release.contracts) == 1 else f"{of.contract}: {name}"


def without(report: WeeklyReport, shown: int, why: str) -> tuple[str, ...]:
    """Number of slices a section says nothing about, and why; nothing where it has all of them."""
    missing = sum(1 for _ in report.places()) - shown
    if missing <= 0:
        return ()
    slices = "slice has" if missing == 1 else "slices have"
    return (f"{missing} {slices} no row here: {why}.",)


def slices_in(lines: set[Named]) -> int:
    """Number of slices among them; all decisions are none."""
    return sum(bool(one.slice) for one in lines)


def listed(
    columns: str,
    rows: Iterable[Sequence[str | TableCell]],
    sentences: Sequence[str],
    name: str,
) -> Section:
    """A section with a table of a planner's rows, short enough to be read.

    Args:
        columns: as of :func:`monitor.drawing.tables.table`.
        rows: of the table.
        sentences: above it.
        name: of the rows in the JSON file; empty where they are those of the Release.
    """
    where = f"the JSON file, under {f'planned.{name}' if name else 'release'}"
    return cut(Section(tuple(sentences), titled(table(columns, rows))), where)
