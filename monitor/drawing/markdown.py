"""Markdown as GitHub and GitLab show it."""

from __future__ import annotations

import re

from monitor.drawing.tables import Tone

SYMBOLS = {Tone.GOOD: "\u2705 ", Tone.BAD: "\u274c ", Tone.UNSURE: "\u26a0\ufe0f ", Tone.PLAIN: ""}
"""Sign before a text of each tone."""
_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")


def plain(text: str) -> str:
    """Escape text so that Markdown shows it literally: no markup, table or mention."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = _SPECIAL.sub(r"\\\1", escaped).replace("@", "@<!-- -->")
    return escaped.replace("\n", "<br>")
