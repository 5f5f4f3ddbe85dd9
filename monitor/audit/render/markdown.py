"""The report for a pull request: the decision, flips and checks; all else is folded."""

from __future__ import annotations

import re
from collections.abc import Iterator

from monitor.audit.render.document import document
from monitor.audit.render.sections import Document, Section, Table, Tone
from monitor.audit.report import AuditReport

_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
_SYMBOLS = {Tone.GOOD: "\u2705 ", Tone.BAD: "\u274c ", Tone.UNSURE: "\u26a0\ufe0f ", Tone.PLAIN: ""}


def render(report: AuditReport) -> str:
    """Markdown as GitHub and GitLab show it."""
    return "\n".join(_lines(document(report))) + "\n"


def _lines(found: Document) -> Iterator[str]:
    yield f"## {_SYMBOLS[found.tone]}{_plain(found.title)}: {found.word}"
    if found.banner:
        yield f"\n> **SYNTHETIC. {found.banner}**"
    for section in (found.decision, *found.sections):
        if section.short:
            yield from _section(section)
    yield "\n<details><summary>Versions, rates, support, calibration, what to try</summary>\n"
    yield from (f"- {_plain(name)}: {_plain(value)}" for name, value in found.facts)
    for section in found.sections:
        if not section.short:
            yield from _section(section)
    yield "\n</details>"


def _section(section: Section) -> Iterator[str]:
    yield f"\n### {_plain(section.title)}"
    for note in section.notes:
        yield f"\n{_plain(note)}"
    if section.table is not None:
        yield ""
        yield from _table(section.table)


def _table(table: Table) -> Iterator[str]:
    yield f"| {' | '.join(map(_plain, table.columns))} |"
    yield "|---" * len(table.columns) + "|"
    for row in table.rows:
        yield f"| {' | '.join(_SYMBOLS[cell.tone] + _plain(cell.text) for cell in row)} |"


def _plain(text: str) -> str:
    """Text that is nothing but text: no markup, no table, no mention of anybody."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = _SPECIAL.sub(r"\\\1", escaped).replace("@", "@<!-- -->")
    return escaped.replace("\n", "<br>")
