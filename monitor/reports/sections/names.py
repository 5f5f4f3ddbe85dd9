"""Tables of planners' rows, and the names of slices in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from monitor.core.publish.glossary import slice_name
from monitor.present.document import Section, TableCell, table
from monitor.reports.planners.published_rates import Named
from monitor.reports.weekly_report import WeeklyReport


def name_of(report: WeeklyReport, row_name: Named) -> str:
    """Return the name of a slice, with its contract if the Release has several."""
    name = slice_name(row_name.slice)
    return name if len(report.release.contracts) == 1 else f"{row_name.contract}: {name}"


def listed(
    columns: str, rows: Iterable[Sequence[str | TableCell]], sentence: str, name: str
) -> Section:
    """Return a section with a table of planners' rows; it is empty without rows.

    Args:
        columns: headings, as :func:`monitor.present.document.table` takes them.
        rows: cells of each row.
        sentence: text above the table.
        name: key of the rows in the JSON file, which a note names if the table is cut.
    """
    tables = table(columns, rows)
    section = Section(notes=(sentence,) if tables else (), tables=tables)
    return section.cut(f"the JSON file, under planned.{name}")
