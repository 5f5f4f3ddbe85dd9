"""Tables of a report, for any format: cells with their emphasis."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace

from markupsafe import Markup


class Tone(enum.StrEnum):
    """Emphasis of a table cell; its text says the same, so that nothing depends on colour."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    UNSURE = "unsure"


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
    """Table of a report; the first column names the rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]

    def failing(self) -> Table:
        """Return a table of only the rows that have a bad cell."""
        bad = (row for row in self.rows if any(cell.tone is Tone.BAD for cell in row))
        return Table(self.columns, tuple(bad))


def table(columns: str, rows: Iterable[Iterable[str | TableCell]]) -> Table | None:
    """Build a Table of cells without control characters; None if there are no rows.

    Args:
        columns: names of the columns, separated by ``|``.
        rows: cells; plain texts have no emphasis.
    """
    cells = tuple(tuple(map(_cell, row)) for row in rows)
    return Table(tuple(columns.split("|")), cells) if cells else None


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
