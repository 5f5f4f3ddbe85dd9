"""Names and remarks that people type: one line, of a length that can be stored and shown."""

from __future__ import annotations

from monitor.errors import SlicewatchError

LONGEST_NAME, LONGEST_NOTE = 80, 500
"""A name and a remark; there is room for a story in the ticket that the note names."""


def plain_line(field: str, text: str, longest: int) -> str:
    """Text as it was typed, without spaces around it, fit to be stored and shown.

    Args:
        field: name of the option or field that it was typed into, for the message.
        text: as it was typed.
        longest: number of characters that it may have.

    Raises:
        SlicewatchError: it is not one line of plain text, or longer than that; the text itself
            is not repeated.
    """
    if not text.isprintable():
        raise SlicewatchError(f"{field} must be one line of plain text")
    if len(text.strip()) > longest:
        raise SlicewatchError(f"{field} must have at most {longest} characters")
    return text.strip()
