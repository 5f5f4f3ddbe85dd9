"""Documents and tables for a terminal, and as plain text in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from monitor.core.publish.words import NONE
from monitor.present.document import Document, Section, Table, TableCell, Tone

PIPED_WIDTH = 160
_LONGEST = 44
"""Longest line of a row's name that is never folded: the longest name of a requirement."""
STYLES = {
    **{Tone.GOOD: "green", Tone.BAD: "bold red", Tone.UNSURE: "yellow", Tone.OLD: "cyan"},
    **{Tone.PLAIN: "", Tone.GREY: "dim", Tone.HIDDEN: "dim"},
}


def console(piped_width: int = PIPED_WIDTH) -> Console:
    """Return a Console as wide as the terminal, or of ``piped_width`` in a pipe."""
    return Console(width=None if sys.stdout.isatty() else piped_width, highlight=False)


def show_tables(*tables: Table) -> None:
    """Print tables with their titles, one below the other."""
    console().print(rendered(*tables), end="")


def rendered(*tables: Table) -> RenderableType:
    """Return a rich renderable of tables with their titles, one below the other."""
    return _Trimmed(Group(*(line for table in tables for line in _table(table))))


def printed(document: Document) -> RenderableType:
    """Return a rich renderable of a document; colours only repeat what words say."""
    return _Trimmed(Group(*_lines(document)))


@dataclass(frozen=True, slots=True)
class _Trimmed:
    """Rich content whose lines are printed without trailing blanks."""

    content: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for line in console.render_lines(self.content, options, pad=False):
            while line and not line[-1].text.strip():
                line.pop()
            if line:
                last = line.pop()
                yield from (*line, Segment(last.text.rstrip(), last.style))
            yield Segment.line()


def _lines(document: Document) -> Iterator[RenderableType]:
    yield Text(document.title, "bold")
    yield Text.assemble(_word(document), " ", document.verdict)
    if document.counts:
        yield Text(document.counts)
    if document.banner:
        yield Panel(Text(f"SYNTHETIC. {document.banner}", "bold"), box=box.ASCII, expand=False)
    yield facts(document.facts)
    for section in document.sections:
        yield from _section(section)
    yield Text.assemble("\n", _word(document), " ", document.banner or document.verdict)


def _word(document: Document) -> tuple[str, str]:
    return f"{document.word}.", f"bold {STYLES[document.tone]}"


def facts(names_and_values: Iterable[tuple[str, str]]) -> Grid:
    """Return a rich grid of names and values without headings."""
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in names_and_values:
        grid.add_row(Text(name), _text(TableCell(value)))
    return grid


def _section(section: Section) -> Iterator[RenderableType]:
    yield Text(f"\n{section.title}", "bold")
    yield from map(Text, section.notes)
    for table in section.tables:
        yield from _table(table)


def _table(table: Table) -> Iterator[RenderableType]:
    """Yield the title and the notes of a table, and its rows as a grid."""
    if table.title:
        yield Text(f"\n{table.title}", "bold")
    yield from map(Text, table.notes)
    grid = Grid(box=box.SIMPLE, padding=(0, 1, 0, 0), show_edge=False)
    grid.add_column(table.columns[0], overflow="fold", no_wrap=_is_short(table))
    for column in table.columns[1:]:
        grid.add_column(column, overflow="fold")
    for row in table.rows:
        grid.add_row(*map(_text, row))
    yield grid


def _is_short(table: Table) -> bool:
    """Return True if no row name in a table is longer than our longest requirement."""
    lines = (line for row in table.rows for line in row[0].text.split("\n"))
    return max(map(len, lines)) <= _LONGEST


def _text(cell: TableCell) -> Text:
    """Return the text of a cell; an absent value is a hyphen: terminals may lack the dash."""
    lines = ("-" if line == NONE else line for line in cell.text.split("\n"))
    return Text("\n".join(lines), STYLES[cell.tone])
