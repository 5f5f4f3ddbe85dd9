"""Report for a pull request: the decision, flips and failures in full; the rest is folded.

GitHub refuses a comment of more than 65,536 characters, so a long report is cut: the folded
details go first, then rows that are not folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from monitor.audit.audit_report import AuditReport
from monitor.audit.render.document import document
from monitor.audit.render.layout import AuditDocument, AuditSection, Brief
from monitor.audit.render.words import counted
from monitor.drawing.markdown import SYMBOLS, plain, table_lines
from monitor.drawing.tables import Table

MAX_BYTES = 65_000
"""Limit in bytes of UTF-8: fewer than 65,536 characters, however they are counted."""
MAX_ROWS = 50
"""Most rows of a table that are written; further rows are counted."""
_MAX_CELL = 500
_SIZES = ((MAX_ROWS, True), (MAX_ROWS, False), (10, False))
"""Rows of a table, and True with details; the first size that fits is used."""

_FULL = "the full report has them (--html, --json)"


def render(report: AuditReport) -> str:
    """Render the report of an audit as Markdown text of at most :data:`MAX_BYTES`."""
    return text(document(report))


def text(contents: AuditDocument) -> str:
    """Render a laid-out document as Markdown text of at most :data:`MAX_BYTES`."""
    for rows, details in _SIZES:
        ending = _details(contents) if details else _no_details(contents)
        markdown = _joined((*_short(contents, rows), *ending))
        if len(markdown.encode()) <= MAX_BYTES:
            return markdown
    return _joined(
        (*_heading(contents), *_section(contents.decision, MAX_ROWS), *_no_details(contents))
    )


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def _heading(contents: AuditDocument) -> Iterator[str]:
    yield f"## {SYMBOLS[contents.tone]}{plain(contents.title)}: {contents.word}"
    if contents.banner:
        yield f"\n> **SYNTHETIC. {contents.banner}**"
    yield f"\n{plain(contents.counts)}"


def _short(contents: AuditDocument, rows: int) -> Iterator[str]:
    """Yield the Markdown lines that are never folded: heading, decision and short sections."""
    yield from _heading(contents)
    for section in (contents.decision, *contents.sections):
        if section.brief is Brief.ALL:
            yield from _section(section, rows)
        elif section.brief is Brief.FAILING:
            yield from _section(_failing(section), rows)


def _failing(section: AuditSection) -> AuditSection:
    """Return the section with its failing rows alone, or with the note "None."."""
    failing = section.table.failing() if section.table is not None else None
    title = f"{section.title} that fail"
    if failing is None or not failing.rows:
        return AuditSection(title, ("None.",))
    return replace(section, title=title, notes=(), table=failing)


def _details(contents: AuditDocument) -> Iterator[str]:
    """Yield the folded part: facts, and sections that the brief does not show as a whole."""
    yield f"\n<details><summary>{contents.folded}</summary>\n"
    yield from (f"- {plain(name)}: {_cell(value)}" for name, value in contents.facts)
    for section in contents.sections:
        if section.brief is not Brief.ALL:
            yield from _section(section, MAX_ROWS)
    yield "\n</details>"


def _no_details(contents: AuditDocument) -> Iterator[str]:
    yield f"\n{contents.folded}: too long for here; {_FULL}."


def _section(section: AuditSection, rows: int) -> Iterator[str]:
    yield f"\n### {plain(section.title)}"
    for note in section.notes:
        yield f"\n{plain(note)}"
    if section.table is not None:
        yield ""
        yield from _table(section.table, rows)


def _table(table: Table, rows: int) -> Iterator[str]:
    yield from table_lines(Table(table.columns, table.rows[:rows]), _cell)
    if len(table.rows) > rows:
        yield f"\n{counted(len(table.rows) - rows, 'more row')}: {_FULL}."


def _cell(text: str) -> str:
    return plain(text if len(text) <= _MAX_CELL else f"{text[:_MAX_CELL]} ... (cut here)")
