"""Building blocks of a rendered report."""

from __future__ import annotations

from dataclasses import dataclass, replace

from markupsafe import Markup

from monitor.drawing.tables import Table, Tone


@dataclass(frozen=True, slots=True)
class Titled:
    """Table in a report, with its title, notes and optional chart.

    Attributes:
        title: heading; empty if the section's heading is enough.
        notes: sentences above the table.
        chart: drawing above the table, in HTML only; None without.
    """

    title: str
    table: Table
    notes: tuple[str, ...] = ()
    chart: Markup | None = None


def titled(
    table: Table | None, title: str = "", notes: tuple[str, ...] = (), chart: Markup | None = None
) -> tuple[Titled, ...]:
    """Return a tuple of one Titled; empty if ``table`` is None."""
    return () if table is None else (Titled(title, table, notes, chart),)


@dataclass(frozen=True, slots=True)
class Section:
    """Content under one heading of a report: sentences, then tables.

    Attributes:
        sentences: text above all tables; it says why if there is nothing to list.
        new_sheet: True if print begins a new sheet with the section.
    """

    sentences: tuple[str, ...] = ()
    tables: tuple[Titled, ...] = ()
    new_sheet: bool = False


MOST_ROWS = 250
"""Largest number of rows in a section: nobody reads more, and a page has a size."""
_LEAST_ROWS = 10


def cut(section: Section, where: str) -> Section:
    """Return a section with long tables cut; a note says that ``where`` has the other rows.

    Args:
        section: section of any length.
        where: place that has all rows.
    """
    if sum(len(titled_table.table.rows) for titled_table in section.tables) <= MOST_ROWS:
        return section
    rows_per_table = max(_LEAST_ROWS, MOST_ROWS // len(section.tables))
    return replace(
        section,
        tables=tuple(_cut(titled_table, rows_per_table, where) for titled_table in section.tables),
    )


def _cut(titled_table: Titled, row_limit: int, where: str) -> Titled:
    """Return the table with its first rows and a note where the rest is, if it is too long."""
    surplus = len(titled_table.table.rows) - row_limit
    if surplus <= 0:
        return titled_table
    note = f"The first {row_limit:,} rows; {surplus:,} more are in {where}."
    return replace(
        titled_table,
        table=replace(titled_table.table, rows=titled_table.table.rows[:row_limit]),
        notes=(*titled_table.notes, note),
    )


@dataclass(frozen=True, slots=True)
class Document:
    """Content of a whole weekly report, the same for every format.

    Attributes:
        banner: first sentence of a report on declared test conditions; empty for people.
        word: APPROVED, BLOCKED or UNDECIDED.
        tone: colour class of the word.
        verdict: the reason for the word.
        facts: facts about the report: name and value.
        sections: title and content, in reading order.
        footer: sentences at the end of every page.
    """

    title: str
    banner: str
    word: str
    tone: Tone
    verdict: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[tuple[str, Section], ...]
    footer: tuple[str, ...]
