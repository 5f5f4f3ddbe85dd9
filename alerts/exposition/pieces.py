"""Pieces of a page: lines of one family in one part of the page, written and compressed once.

Parts are the group-bys of every window, and everything around them. Most parts and their pieces
stay the same from one publication to the next.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import is_
from typing import NamedTuple

from alerts.exposition.catalogue import Family
from alerts.exposition.samples import Block, Blocks

GZIP_LEVEL = 1
"""Takes a fifth of the time of level 6, for a page that is a tenth larger."""


class Piece(NamedTuple):
    """Consecutive lines of one family on a page, as text and compressed.

    Attributes:
        series: number of series; heads have none.
        text: the lines.
        deflated: the lines as complete deflate blocks without references to earlier ones, so that
            pieces can be joined in any order.
    """

    series: int
    text: bytes
    deflated: bytes


_Pieces = Mapping[Family, Piece]
PagePart = tuple[Hashable, Sequence[Blocks]]
"""Name of a part of a page, and the lines in it."""


class Press:
    """Writer of pieces; it reuses the last page's pieces of unchanged parts."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._known: dict[Hashable, tuple[Sequence[Blocks], _Pieces]] = {}
        self._heads: dict[Family, Piece] = {}

    def pieces(self, parts: Iterable[PagePart]) -> dict[Family, list[Piece]]:
        """Return the pieces of every family, in the order of the parts; remember these parts."""
        self._known = {name: (blocks, self._part(name, blocks)) for name, blocks in parts}
        pieces_by_family: dict[Family, list[Piece]] = {}
        for _, pieces in self._known.values():
            for family, piece in pieces.items():
                pieces_by_family.setdefault(family, []).append(piece)
        return pieces_by_family

    def head(self, family: Family) -> Piece:
        """Return the piece with a family's HELP and TYPE lines, typed gauge for both formats."""
        if family not in self._heads:
            self._heads[family] = self._pressed(0, head_text(family.name, family.help, "gauge"))
        return self._heads[family]

    def _part(self, name: Hashable, blocks: Sequence[Blocks]) -> _Pieces:
        """Return a part's lines by family; the same pieces if no block has changed."""
        last_blocks, pieces = self._known.get(name, ((), {}))
        if len(last_blocks) == len(blocks) and all(map(is_, last_blocks, blocks)):
            return pieces
        lines: dict[Family, list[Block]] = {}
        for part_blocks in blocks:
            for family, block in part_blocks.items():
                lines.setdefault(family, []).append(block)
        return {family: self._piece(family_blocks) for family, family_blocks in lines.items()}

    def _piece(self, blocks: Sequence[Block]) -> Piece:
        numbers, texts = zip(*blocks, strict=True)
        return self._pressed(sum(numbers), "".join(texts))

    def _pressed(self, series: int, text: str) -> Piece:
        """Return lines as plain bytes, and compressed so that pieces can be joined in any order."""
        plain = text.encode()
        # A full flush ends on a byte and drops the history, so any piece may precede or follow.
        packed = self._packer.compress(plain) + self._packer.flush(zlib.Z_FULL_FLUSH)
        return Piece(series, plain, packed)


def head_text(name: str, text: str, kind: str) -> str:
    """Return the HELP and TYPE lines that declare a family."""
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
