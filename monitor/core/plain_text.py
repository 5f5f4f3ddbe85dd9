"""Names and remarks typed by people: one line of bounded length."""

from __future__ import annotations

from monitor.errors import SlicewatchError

LONGEST_NAME, LONGEST_NOTE = 80, 500
"""Longest name and remark; a longer story belongs into a ticket."""


def plain_line(field: str, text: str, longest: int) -> str:
    """Return typed text without surrounding spaces; refuse it if too long or not one plain line.

    Args:
        field: option or field of the text, for the message.
        text: text as typed.
        longest: largest number of characters.

    Raises:
        SlicewatchError: the text is too long or not one line of plain text; the message does not
            repeat it.
    """
    if not text.isprintable():
        raise SlicewatchError(f"{field} must be one line of plain text")
    if len(text.strip()) > longest:
        raise SlicewatchError(f"{field} must have at most {longest} characters")
    return text.strip()
