"""Encoding of successive Snapshots; the bytes of unchanged rows are reused."""

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
    """Encoded Snapshot, with the bytes of each row for the next encoding.

    Attributes:
        body: canonical JSON.
        rows: bytes of every known row.
    """

    body: bytes
    rows: Made[msgspec.Raw] = field(default_factory=dict)


def encode_after(snapshot: Snapshot, before: Encoded | None) -> Encoded:
    """Encode a Snapshot as canonical JSON, with bytes from ``before`` for rows that are equal."""
    rows = each_row(snapshot, _encoded, before.rows if before else {})
    # The encoder copies bytes that stand in the place of a row.
    parts = (cast(SliceRow, part) for _, part in rows.values())
    contracts = [
        replace(contract, windows=tuple(_with_parts(window, parts) for window in contract.windows))
        for contract in snapshot.contracts
    ]
    return Encoded(encode(replace(snapshot, contracts=tuple(contracts))), rows)


def _with_parts(window: WindowTable, parts: Iterator[SliceRow]) -> WindowTable:
    """Return a window with the next parts in the place of its rows, which have the same order."""
    total = next(parts)
    groups = [replace(group, rows=tuple(islice(parts, len(group.rows)))) for group in window.groups]
    return replace(window, total=total, groups=tuple(groups))


def _encoded(_: RowPlace, row: SliceRow) -> msgspec.Raw:
    return msgspec.Raw(canonical(row))
