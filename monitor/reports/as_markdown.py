"""The report as Markdown, for a merge request or a wiki."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.drawing.markdown import SYMBOLS, plain
from monitor.drawing.tables import Table
from monitor.reports.document import document
from monitor.reports.layout import Document, Section
from monitor.reports.weekly_report import WeeklyReport


def render(report: WeeklyReport) -> str:
    """All of the report; charts are in HTML alone."""
    found = document(report)
    lines = [*_heading(found)]
    for title, section in found.sections:
        lines += _section(title, section)
    lines += ["", "---", *(f"\n{plain(sentence)}" for sentence in found.footer)]
    return "\n".join(lines) + "\n"


def _heading(found: Document) -> Iterator[str]:
    yield f"# {SYMBOLS[found.tone]}{plain(found.title)}: {found.word}"
    if found.banner:
        yield f"\n> **SYNTHETIC. {plain(found.banner)}**"
    yield f"\n{plain(found.verdict)}\n"
    yield from (f"- {plain(name)}: {plain(value)}" for name, value in found.facts)


def _section(title: str, section: Section) -> Iterator[str]:
    yield f"\n## {plain(title)}"
    yield from (f"\n{plain(sentence)}" for sentence in section.sentences)
    for one in section.tables:
        if one.title:
            yield f"\n### {plain(one.title)}"
        yield from (f"\n{plain(note)}" for note in one.notes)
        yield ""
        yield from _table(one.table)


def _table(table: Table) -> Iterator[str]:
    yield f"| {' | '.join(map(plain, table.columns))} |"
    yield "|---" * len(table.columns) + "|"
    for row in table.rows:
        yield f"| {' | '.join(SYMBOLS[cell.tone] + plain(cell.text) for cell in row)} |"
