"""Markdown as GitHub and GitLab show it: a whole document, or a short one for a pull request.

GitHub refuses a comment of more than 65,536 characters, so a short one is cut: the folded details
go first, then rows that are not folded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from monitor.present.document import Brief, Document, Section, Table, TableCell, Tone

MAX_BYTES = 65_000
"""Limit in bytes of UTF-8: fewer than 65,536 characters, however they are counted."""
MAX_ROWS = 50
"""Most rows of a table in a short form."""
_MAX_CELL = 500
_SIZES = ((MAX_ROWS, True), (MAX_ROWS, False), (10, False))
"""Rows of a table, and True with details; the first size that fits is used."""
_FULL = "the full report (--html, --json)"
_SYMBOLS = {Tone.GOOD: "\u2705 ", Tone.BAD: "\u274c ", Tone.UNSURE: "\u26a0\ufe0f "}
"""Sign before a text, by its tone."""
_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")


def whole(document: Document) -> str:
    """Return the whole document as Markdown text, without charts."""
    lines = [*_heading(document), f"\n{_plain(document.verdict)}\n", *_facts(document)]
    lines += _sections(document.sections)
    return _joined([*lines, "", "---", *_sentences(document.footer)])


def short(document: Document) -> str:
    """Return the decision and failures as Markdown text, the rest folded, within MAX_BYTES."""
    for rows, details in _SIZES:
        ending = _details(document) if details else _no_details(document)
        text = _joined((*_unfolded(document, rows), *ending))
        if len(text.encode()) <= MAX_BYTES:
            return text
    first = [_limited(s, 10) for s in document.sections if s.brief is Brief.FIRST]
    return _joined((*_heading(document), *_sections(first), *_no_details(document)))


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Escape text so that Markdown shows it literally: no markup, table or mention."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = _SPECIAL.sub(r"\\\1", escaped).replace("@", "@<!-- -->")
    return escaped.replace("\n", "<br>")


def _heading(document: Document) -> Iterator[str]:
    yield f"# {_SYMBOLS.get(document.tone, '')}{_plain(document.title)}: {document.word}"
    if document.banner:
        yield f"\n> **SYNTHETIC. {_plain(document.banner)}**"
    yield from _sentences(filter(None, (document.counts,)))


def _facts(document: Document) -> Iterator[str]:
    return (f"- {_plain(name)}: {_plain(value)}" for name, value in document.facts)


def _sentences(sentences: Iterable[str]) -> Iterator[str]:
    return (f"\n{_plain(sentence)}" for sentence in sentences)


def _sections(sections: Iterable[Section]) -> Iterator[str]:
    for section in sections:
        yield f"\n## {_plain(section.title)}"
        yield from _sentences(section.notes)
        for table in section.tables:
            yield from _table(table)


def _table(table: Table) -> Iterator[str]:
    """Yield the lines of a table with its title and notes, and an empty line before them."""
    if table.title:
        yield f"\n### {_plain(table.title)}"
    yield from _sentences(table.notes)
    yield f"\n| {' | '.join(map(_plain, table.columns))} |"
    yield "|---" * len(table.columns) + "|"
    for row in table.rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(cell: TableCell) -> str:
    return _SYMBOLS.get(cell.tone, "") + _plain(cell.text)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CELL else f"{text[:_MAX_CELL]} ... (cut here)"


def _limited(section: Section, rows: int) -> Section:
    """Return the section with this many rows of each table, and with long cells cut."""
    tables = (table.first(rows, _FULL) for table in section.tables)
    return replace(section, tables=tuple(map(_with_short_cells, tables)))


def _with_short_cells(table: Table) -> Table:
    rows = ([replace(cell, text=_cut(cell.text)) for cell in row] for row in table.rows)
    return replace(table, rows=tuple(tuple(row) for row in rows))


def _unfolded(document: Document, rows: int) -> Iterator[str]:
    """Yield the lines that are never folded: heading, decision and short sections."""
    yield from _heading(document)
    for section in sorted(document.sections, key=lambda section: section.brief is not Brief.FIRST):
        if section.brief in (Brief.FIRST, Brief.ALL):
            yield from _sections([_limited(section, rows)])
        elif section.brief is Brief.FAILING:
            yield from _sections([_limited(section.failing(), rows)])


def _details(document: Document) -> Iterator[str]:
    """Yield the folded part: facts, and sections that are not shown as a whole above."""
    yield f"\n<details><summary>{document.folded}</summary>\n"
    yield from _facts(document)
    for section in document.sections:
        if section.brief in (Brief.NOTHING, Brief.FAILING):
            yield from _sections([_limited(section, MAX_ROWS)])
    yield "\n</details>"


def _no_details(document: Document) -> Iterator[str]:
    yield f"\n{document.folded}: too long for here; {_FULL} has them."
