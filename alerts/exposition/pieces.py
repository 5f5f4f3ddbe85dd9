"""Pieces of a page: the lines of one family in one part of it, written and compressed once.

Parts are the group-bys of every window, and all that is around them. From one publication to the
next most parts stay as they are, and so do their pieces.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import is_
from typing import NamedTuple

from alerts.exposition.catalogue import Family
from alerts.exposition.samples import Block, Blocks

GZIP_LEVEL = 1
"""A fifth of the time of level 6 for a page a tenth larger."""


class Piece(NamedTuple):
    """Lines that follow each other on a page.

    Attributes:
        series: their number; heads are none.
        text: the lines.
        deflated: the same as whole deflate blocks that refer to nothing before them: pieces can be
            put together in any order.
    """

    series: int
    text: bytes
    deflated: bytes


_Pieces = Mapping[Family, Piece]
PagePart = tuple[Hashable, Sequence[Blocks]]
"""A part of a page by its name, and the lines of what is in it."""


class Press:
    """Makes pieces; those of a part that the last page had already are taken from it."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._known: dict[Hashable, tuple[Sequence[Blocks], _Pieces]] = {}
        self._heads: dict[Family, Piece] = {}

    def pieces(self, parts: Iterable[PagePart]) -> dict[Family, list[Piece]]:
        """The pieces of every family, part after part."""
        self._known = {name: (blocks, self._of(name, blocks)) for name, blocks in parts}
        found: dict[Family, list[Piece]] = {}
        for _, pieces in self._known.values():
            for family, piece in pieces.items():
                found.setdefault(family, []).append(piece)
        return found

    def head(self, family: Family) -> Piece:
        """What comes before the lines of a gauge; also of an info, so that one body fits both."""
        if family not in self._heads:
            self._heads[family] = self._pressed(0, head_text(family.name, family.help, "gauge"))
        return self._heads[family]

    def _of(self, name: Hashable, blocks: Sequence[Blocks]) -> _Pieces:
        before, pieces = self._known.get(name, ((), {}))
        if len(before) == len(blocks) and all(map(is_, before, blocks)):
            return pieces
        lines: dict[Family, list[Block]] = {}
        for one in blocks:
            for family, block in one.items():
                lines.setdefault(family, []).append(block)
        return {family: self._piece(some) for family, some in lines.items()}

    def _piece(self, blocks: Sequence[Block]) -> Piece:
        numbers, texts = zip(*blocks, strict=True)
        return self._pressed(sum(numbers), "".join(texts))

    def _pressed(self, series: int, text: str) -> Piece:
        plain = text.encode()
        # A full flush ends on a byte and forgets history: anything may follow, or come before.
        packed = self._packer.compress(plain) + self._packer.flush(zlib.Z_FULL_FLUSH)
        return Piece(series, plain, packed)


def head_text(name: str, text: str, kind: str) -> str:
    """The lines that declare a family."""
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
