"""Documents that people read, for any format: sections of sentences and tables."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace

from markupsafe import Markup


class Tone(enum.StrEnum):
    """Emphasis of a text, which says the same in words; in HTML, the CSS class of its colour."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    UNSURE = "unsure"
    OLD = "old"
    GREY = "grey"
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class TableCell:
    """Cell of a table: text with emphasis and, in HTML, a chart or a link.

    Attributes:
        text: one or several lines.
        tone: emphasis.
        chart: chart that HTML draws below the text; None without one.
        link: path on the status page that HTML links to, where it is served; empty without one.
    """

    text: str
    tone: Tone = Tone.PLAIN
    chart: Markup | None = None
    link: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Table of a document; the first column names the rows.

    Attributes:
        title: heading; empty if the section's heading is enough.
        notes: sentences above the rows.
        chart: drawing above the rows, in HTML only; None without.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    title: str = ""
    notes: tuple[str, ...] = ()
    chart: Markup | None = None

    def first(self, row_limit: int, where: str) -> Table:
        """Return the table with its first rows; a note says that ``where`` has the others."""
        surplus = len(self.rows) - row_limit
        if surplus <= 0:
            return self
        note = f"The first {row_limit:,} rows; {surplus:,} more are in {where}."
        return replace(self, rows=self.rows[:row_limit], notes=(*self.notes, note))

    def failing(self) -> tuple[Table, ...]:
        """Return one table, of only the rows that have a bad cell, or no table without any."""
        bad = tuple(row for row in self.rows if any(cell.tone is Tone.BAD for cell in row))
        return (replace(self, rows=bad),) if bad else ()


def table(
    columns: str,
    rows: Iterable[Iterable[str | TableCell]],
    title: str = "",
    chart: Markup | None = None,
) -> tuple[Table, ...]:
    """Return a tuple of one Table, its texts without control characters; empty without rows.

    Args:
        columns: names of the columns, separated by ``|``.
        rows: cells; plain texts have no emphasis.
        title: heading of the table.
        chart: drawing above the rows.
    """
    cells = tuple(tuple(map(_cell, row)) for row in rows)
    return (Table(tuple(columns.split("|")), cells, title, chart=chart),) if cells else ()


def _cell(content: str | TableCell) -> TableCell:
    if not isinstance(content, TableCell):
        return TableCell(printable(content))
    return content if content.text.isprintable() else replace(content, text=printable(content.text))


def mark(good: bool, if_good: str, if_bad: str) -> TableCell:
    """Return a cell with text ``if_good`` in tone GOOD, or ``if_bad`` in tone BAD."""
    return TableCell(if_good, Tone.GOOD) if good else TableCell(if_bad, Tone.BAD)


def printable(text: str) -> str:
    """Replace unprintable characters, except newlines, with U+FFFD, for terminals and markup."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


class Brief(enum.Enum):
    """Part of a section that a short form shows: nothing, failing rows, all, or all of it first."""

    NOTHING = enum.auto()
    FAILING = enum.auto()  # rows with something bad in them
    ALL = enum.auto()
    FIRST = enum.auto()


MOST_ROWS = 250
"""Largest number of rows in a section: nobody reads more, and a page has a size."""
_LEAST_ROWS = 10


@dataclass(frozen=True, slots=True)
class Section:
    """Content under one heading of a document: sentences, then tables.

    Attributes:
        title: heading.
        notes: sentences above all tables; they say why if there is nothing to list.
        brief: extent in a short form.
        style: CSS class in HTML: ``new-sheet`` begins a sheet in print.
    """

    title: str = ""
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    brief: Brief = Brief.NOTHING
    style: str = ""

    def cut(self, where: str) -> Section:
        """Return the section with long tables cut; notes say that ``where`` has the other rows."""
        if sum(len(table.rows) for table in self.tables) <= MOST_ROWS:
            return self
        row_limit = max(_LEAST_ROWS, MOST_ROWS // len(self.tables))
        return replace(self, tables=tuple(table.first(row_limit, where) for table in self.tables))

    def failing(self) -> Section:
        """Return the section with its failing rows alone, or with the note "None."."""
        tables = tuple(failing for table in self.tables for failing in table.failing())
        notes = () if tables else ("None.",)
        return replace(self, title=f"{self.title} that fail", notes=notes, tables=tables)


@dataclass(frozen=True, slots=True)
class Document:
    """Audit, scorecard or weekly report, the same for every format.

    Attributes:
        word: decision: APPROVED, BLOCKED, ...
        tone: emphasis of the word.
        verdict: the decision in a sentence.
        facts: name and value of what was looked at.
        banner: first sentence on invented test conditions; empty for people.
        counts: how much was looked at, in a sentence; may be empty.
        footer: sentences at the end.
        folded: title of the details that a short form folds.
    """

    title: str
    word: str
    tone: Tone
    verdict: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    banner: str = ""
    counts: str = ""
    footer: tuple[str, ...] = ()
    folded: str = ""
