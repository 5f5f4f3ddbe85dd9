"""Building blocks of a rendered audit: sections with notes and a table."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from monitor.audit.render.words import printable


class Tone(enum.StrEnum):
    """Emphasis of a cell; its text says the same, so that nothing depends on colour."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class TableCell:
    """One cell of a table; its text may have several lines."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first column names its rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]

    def failing(self) -> Table:
        """The table reduced to the rows that have something bad."""
        bad = (row for row in self.rows if any(cell.tone is Tone.BAD for cell in row))
        return Table(self.columns, tuple(bad))


class Brief(enum.Enum):
    """Extent to which a short report includes a section."""

    NOTHING = enum.auto()
    FAILING = enum.auto()  # rows with something bad in them
    ALL = enum.auto()


@dataclass(frozen=True, slots=True)
class Section:
    """One heading of a report.

    Attributes:
        title: heading.
        notes: sentences above the table.
        table: None where there is nothing to list; a note then says so.
        brief: what a short report has of it.
    """

    title: str
    notes: tuple[str, ...] = ()
    table: Table | None = None
    brief: Brief = Brief.NOTHING


@dataclass(frozen=True, slots=True)
class Document:
    """All of a report.

    Attributes:
        title: of the report.
        word: APPROVED, BLOCKED or COULD NOT EVALUATE.
        tone: of the word.
        verdict: the decision in a sentence.
        counts: flips and pairs in a sentence.
        banner: what is said before anything else of an invented set; empty for reviewed data.
        facts: what was audited: name and value.
        sections: in order.
        decision: who has said what; the last section of a report that is read to its end.
    """

    title: str
    word: str
    tone: Tone
    verdict: str
    counts: str
    banner: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    decision: Section


def table(columns: str, rows: Iterable[Iterable[str | TableCell]]) -> Table | None:
    """A table, or None without rows.

    Args:
        columns: their names, separated by ``|``.
        rows: cells; plain texts have no emphasis.
    """
    made = tuple(tuple(map(_cell, row)) for row in rows)
    return Table(tuple(columns.split("|")), made) if made else None


def _cell(content: str | TableCell) -> TableCell:
    one = content if isinstance(content, TableCell) else TableCell(content)
    return TableCell(printable(one.text), one.tone)


def mark(good: bool, if_good: str, if_bad: str) -> TableCell:
    """A yes or no, in words."""
    return TableCell(if_good, Tone.GOOD) if good else TableCell(if_bad, Tone.BAD)
