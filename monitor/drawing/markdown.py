"""Markdown as GitHub and GitLab show it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from monitor.drawing.tables import Table, Tone

SYMBOLS = {Tone.GOOD: "\u2705 ", Tone.BAD: "\u274c ", Tone.UNSURE: "\u26a0\ufe0f ", Tone.PLAIN: ""}
"""Sign before a text of each tone."""
_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")


def plain(text: str) -> str:
    """Escape text so that Markdown shows it literally: no markup, table or mention."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = _SPECIAL.sub(r"\\\1", escaped).replace("@", "@<!-- -->")
    return escaped.replace("\n", "<br>")


def table_lines(table: Table, text: Callable[[str], str] = plain) -> Iterator[str]:
    """Yield the lines of a table; ``text`` escapes the text of a cell."""
    yield f"| {' | '.join(map(plain, table.columns))} |"
    yield "|---" * len(table.columns) + "|"
    for row in table.rows:
        yield f"| {' | '.join(SYMBOLS[cell.tone] + text(cell.text) for cell in row)} |"
