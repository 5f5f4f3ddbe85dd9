"""Markdown form of the report, for a merge request or a wiki."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.drawing.markdown import SYMBOLS, plain, table_lines
from monitor.reports.document import document
from monitor.reports.layout import Document, Section
from monitor.reports.weekly_report import WeeklyReport


def render(report: WeeklyReport) -> str:
    """Return the whole report as Markdown text, without charts."""
    content = document(report)
    lines = [*_heading(content)]
    for title, section in content.sections:
        lines += _section(title, section)
    lines += ["", "---", *(f"\n{plain(sentence)}" for sentence in content.footer)]
    return "\n".join(lines) + "\n"


def _heading(content: Document) -> Iterator[str]:
    yield f"# {SYMBOLS[content.tone]}{plain(content.title)}: {content.word}"
    if content.banner:
        yield f"\n> **SYNTHETIC. {plain(content.banner)}**"
    yield f"\n{plain(content.verdict)}\n"
    yield from (f"- {plain(name)}: {plain(value)}" for name, value in content.facts)


def _section(title: str, section: Section) -> Iterator[str]:
    yield f"\n## {plain(title)}"
    yield from (f"\n{plain(sentence)}" for sentence in section.sentences)
    for titled_table in section.tables:
        if titled_table.title:
            yield f"\n### {plain(titled_table.title)}"
        yield from (f"\n{plain(note)}" for note in titled_table.notes)
        yield ""
        yield from table_lines(titled_table.table)
