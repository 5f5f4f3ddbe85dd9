"""Documents and tables for a terminal, and as plain text elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from monitor.present.document import Document, Section, Table, TableCell, Tone

_LONGEST = 44
"""Longest line of a row's name that is never folded: the longest name of a requirement."""
_STYLES = {Tone.PLAIN: "", Tone.GOOD: "green", Tone.BAD: "bold red", Tone.UNSURE: "yellow"}


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
    yield _facts(document.facts)
    for section in document.sections:
        yield from _section(section)
    yield Text.assemble("\n", _word(document), " ", document.banner or document.verdict)


def _word(document: Document) -> tuple[str, str]:
    return f"{document.word}.", f"bold {_STYLES[document.tone]}"


def _facts(facts: tuple[tuple[str, str], ...]) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts:
        grid.add_row(Text(name), Text(value))
    return grid


def _section(section: Section) -> Iterator[RenderableType]:
    yield Text(f"\n{section.title}", "bold")
    for note in section.notes:
        yield Text(note)
    yield from map(_grid, section.tables)


def _grid(table: Table) -> Grid:
    grid = Grid(box=box.SIMPLE, padding=(0, 1, 0, 0), show_edge=False)
    grid.add_column(table.columns[0], overflow="fold", no_wrap=_is_short(table))
    for column in table.columns[1:]:
        grid.add_column(column, overflow="fold")
    for row in table.rows:
        grid.add_row(*map(_text, row))
    return grid


def _is_short(table: Table) -> bool:
    """Return True if no row name in a table is longer than our longest requirement."""
    lines = (line for row in table.rows for line in row[0].text.split("\n"))
    return max(map(len, lines)) <= _LONGEST


def _text(cell: TableCell) -> Text:
    return Text(cell.text, _STYLES[cell.tone])
