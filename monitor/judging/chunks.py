"""Long texts in pieces that a judge can read at once.

Example:
    >>> [chunk.text for chunk in chunks("One. Two two. Three.", 10)]
    ['One. ', 'Two two. ', 'Three.']
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Best place to cut first: after a paragraph, a sentence, a line, a blank.
_CUTS = (
    re.compile(r"\n\s*\n\s*"),
    re.compile(r"[.!?\u2026\u3002\uff01\uff1f][\"'\u201d\u2019)\]]*\s+|[\u3002\uff01\uff1f]"),
    re.compile(r"\n"),
    re.compile(r"\s+"),
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Piece of a text that a judge reads at once, with its place in the text.

    Attributes:
        start: index of its first character (Unicode code point) in the text.
        text: unchanged text of the piece.
    """

    start: int
    text: str


def chunks(text: str, longest: int) -> list[Chunk]:
    """Cut a text, in order and without loss, into Chunks of at most ``longest`` characters each.

    A bias that only shows across a cut may be missed. An empty text has no pieces.
    """
    pieces, start = [], 0
    while start < len(text):
        end = _end_of_piece(text, start, longest)
        pieces.append(Chunk(start, text[start:end]))
        start = end
    return pieces


def _end_of_piece(text: str, start: int, longest: int) -> int:
    """Return the index at which the piece from ``start`` ends: the last good place in reach."""
    end = start + longest
    if end >= len(text):
        return len(text)
    for cut in _CUTS:
        places = [
            cut_match.end()
            for cut_match in cut.finditer(text, start, end)
            if cut_match.end() > start
        ]
        if places:
            return places[-1]
    return end
