"""The bytes of one Snapshot after the other: those of rows that stay the same are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import cast

import msgspec

from monitor.core.publish.each_row import Made, RowPlace, each_row
from monitor.core.publish.snapshot import SliceRow, Snapshot, WindowTable, canonical, encode


@dataclass(frozen=True, slots=True)
class Encoded:
    """A Snapshot as it is stored.

    Attributes:
        body: its canonical JSON.
        rows: the part of every row, as far as it is known.
    """

    body: bytes
    rows: Made[msgspec.Raw] = field(default_factory=dict)


def encode_after(snapshot: Snapshot, before: Encoded | None) -> Encoded:
    """What :func:`~monitor.core.publish.snapshot.encode` makes of it, after another one."""
    rows = each_row(snapshot, _encoded, before.rows if before else {})
    # In the place of a row, its bytes: the encoder takes them as they are.
    parts = (cast(SliceRow, part) for _, part in rows.values())
    contracts = [
        replace(one, windows=tuple(_with_parts(window, parts) for window in one.windows))
        for one in snapshot.contracts
    ]
    return Encoded(encode(replace(snapshot, contracts=tuple(contracts))), rows)


def _with_parts(window: WindowTable, parts: Iterator[SliceRow]) -> WindowTable:
    """A window with what comes next in the place of its rows, which are in the same order."""
    total = next(parts)
    groups = [replace(group, rows=tuple(islice(parts, len(group.rows)))) for group in window.groups]
    return replace(window, total=total, groups=tuple(groups))


def _encoded(_: RowPlace, row: SliceRow) -> msgspec.Raw:
    return msgspec.Raw(canonical(row))
