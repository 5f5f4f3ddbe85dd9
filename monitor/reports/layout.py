"""Building blocks of a rendered report."""

from __future__ import annotations

from dataclasses import dataclass, replace

from markupsafe import Markup

from monitor.drawing.tables import Table, Tone


@dataclass(frozen=True, slots=True)
class Titled:
    """A table with its own heading and notes.

    Attributes:
        title: heading; empty where the section's is enough.
        table: its rows.
        notes: sentences above it.
        chart: drawn above it, in HTML alone; None without.
    """

    title: str
    table: Table
    notes: tuple[str, ...] = ()
    chart: Markup | None = None


def titled(
    table: Table | None, title: str = "", notes: tuple[str, ...] = (), chart: Markup | None = None
) -> tuple[Titled, ...]:
    """A table with its heading; nothing where there is no row."""
    return () if table is None else (Titled(title, table, notes, chart),)


@dataclass(frozen=True, slots=True)
class Section:
    """One heading of a report: it has sentences or tables, or both.

    Attributes:
        sentences: above all tables; where there is nothing to list, they say why.
        tables: in their order.
    """

    sentences: tuple[str, ...] = ()
    tables: tuple[Titled, ...] = ()


MOST_ROWS = 250
"""Rows of a section that pages show: nobody reads more of them, and a page has a size."""
_LEAST_ROWS = 10


def cut(section: Section, where: str) -> Section:
    """A section that is short enough to be read, with a sentence on what is left out.

    Args:
        section: of any length.
        where: the place that has all of it.
    """
    if sum(len(one.table.rows) for one in section.tables) <= MOST_ROWS:
        return section
    most = max(_LEAST_ROWS, MOST_ROWS // len(section.tables))
    return replace(section, tables=tuple(_cut(one, most, where) for one in section.tables))


def _cut(one: Titled, most: int, where: str) -> Titled:
    more = len(one.table.rows) - most
    if more <= 0:
        return one
    note = f"The first {most:,} rows; {more:,} more are in {where}."
    return replace(
        one, table=replace(one.table, rows=one.table.rows[:most]), notes=(*one.notes, note)
    )


@dataclass(frozen=True, slots=True)
class Document:
    """All of a report.

    Attributes:
        title: of the report.
        banner: said before anything else of declared test conditions; empty of people.
        word: APPROVED or BLOCKED.
        tone: of the word.
        verdict: the decision in a sentence.
        facts: what is reported: name and value.
        sections: title and content, in the order in which people should read them.
        footer: said at the end of every page.
    """

    title: str
    banner: str
    word: str
    tone: Tone
    verdict: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[tuple[str, Section], ...]
    footer: tuple[str, ...]
