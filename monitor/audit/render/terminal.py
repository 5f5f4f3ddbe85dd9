"""Report for a terminal, and as plain text elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from monitor.audit.audit_report import AuditReport, Requirement
from monitor.audit.render.document import document
from monitor.audit.render.layout import AuditDocument, AuditSection
from monitor.drawing.tables import Table, TableCell, Tone

_LONGEST = max(len(requirement) for requirement in Requirement)
_STYLES = {Tone.PLAIN: "", Tone.GOOD: "green", Tone.BAD: "bold red", Tone.UNSURE: "yellow"}


def render(report: AuditReport) -> RenderableType:
    """Return a rich renderable of an audit; colours only repeat what words say."""
    return printed(document(report))


def printed(contents: AuditDocument) -> RenderableType:
    """Return a rich renderable of a laid-out document."""
    return _Trimmed(Group(*_lines(contents)))


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


def _lines(contents: AuditDocument) -> Iterator[RenderableType]:
    yield Text(contents.title, "bold")
    yield Text.assemble(_word(contents), " ", contents.verdict)
    yield Text(contents.counts)
    if contents.banner:
        yield Panel(Text(f"SYNTHETIC. {contents.banner}", "bold"), box=box.ASCII, expand=False)
    yield _facts(contents.facts)
    for section in (*contents.sections, contents.decision):
        yield from _section(section)
    yield Text.assemble("\n", _word(contents), " ", contents.banner or contents.verdict)


def _word(contents: AuditDocument) -> tuple[str, str]:
    return f"{contents.word}.", f"bold {_STYLES[contents.tone]}"


def _facts(facts: tuple[tuple[str, str], ...]) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts:
        grid.add_row(Text(name), Text(value))
    return grid


def _section(section: AuditSection) -> Iterator[RenderableType]:
    yield Text(f"\n{section.title}", "bold")
    for note in section.notes:
        yield Text(note)
    if section.table is not None:
        yield _grid(section.table)


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
