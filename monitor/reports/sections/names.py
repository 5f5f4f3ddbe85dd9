"""Tables of planners' rows: names of slices, and sentences on missing rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from monitor.core.publish.glossary import slice_name
from monitor.drawing.tables import TableCell, table
from monitor.reports.layout import Section, cut, titled
from monitor.reports.planners.published_rates import Named
from monitor.reports.weekly_report import WeeklyReport


def name_of(report: WeeklyReport, row_name: Named) -> str:
    """Return the name of a slice, with its contract if the Release has several."""
    name = slice_name(row_name.slice)
    return name if len(report.release.contracts) == 1 else f"{row_name.contract}: {name}"


def without(report: WeeklyReport, shown: int, why: str) -> tuple[str, ...]:
    """Return a sentence that counts slices without a row and says why; empty if none lack one."""
    missing = sum(1 for _ in report.places()) - shown
    if missing <= 0:
        return ()
    slices = "slice has" if missing == 1 else "slices have"
    return (f"{missing} {slices} no row here: {why}.",)


def slices_in(row_names: set[Named]) -> int:
    """Return how many of the names are slices; the name of all decisions is none."""
    return sum(bool(row_name.slice) for row_name in row_names)


def listed(
    columns: str,
    rows: Iterable[Sequence[str | TableCell]],
    sentences: Sequence[str],
    name: str,
) -> Section:
    """Return a section with a table of rows, cut with a note that names the JSON key ``name``.

    Args:
        columns: headings, as :func:`monitor.drawing.tables.table` takes them.
        rows: cells of each row.
        sentences: text above the table.
        name: key of the rows in the JSON file; empty for rows of the Release.
    """
    where = f"the JSON file, under {f'planned.{name}' if name else 'release'}"
    return cut(Section(tuple(sentences), titled(table(columns, rows))), where)
