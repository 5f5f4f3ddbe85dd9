"""Faults that speak against a release and appear in no rate.

TPR and FPR are over what passed the evidence gate. A reply that is served although score, threshold
or gate say otherwise is not what the signed threshold decides; and of real people, whose rates over
all items would reveal by subtraction what the gate stopped, a candidate could pass by stopping what
it gets wrong. Both are counted here, and for real people reported only where they are at least k
pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from monitor.audit.model import Row
from monitor.audit.slices import slice_of
from monitor.core.contract import Contract
from monitor.core.counts.cells import Route
from monitor.core.counts.coding import Coding
from monitor.core.probes.flips import explained


def unexplained(rows: Sequence[Row], contract: Contract) -> Iterator[str]:
    """Replies that are served against score, threshold or evidence gate."""
    found = [row for row in rows if _served(row) and not explained(row.observed)]
    if len({row.item.pair for row in found}) >= contract.k:
        who = f"{len(found):,} replies" if contract.synthetic else "replies"
        yield f"{who} served against score, threshold or evidence gate"


def lost_or_spoilt(
    baseline: Sequence[Row], candidate: Sequence[Row], contract: Contract, coding: Coding
) -> Iterator[str]:
    """Yield a fault where the whole or a slice is served worse than by the baseline, on all items.

    Pairs that are served better count against those that are served worse: what is compared are
    two rates of the very same items.

    Args:
        baseline: its rows of one part.
        candidate: its rows, of the same items.
        contract: whose slices are looked at, and whose k.
        coding: by which slices are named.
    """
    before = {(row.item.pair, row.item.variant): _served(row) for row in baseline}
    group_bys = ((), *(group.attributes for group in contract.group_bys))
    for ready, text in (
        (True, "fewer ready replies are served than by the baseline, over all items"),
        (False, "more replies that are not ready are served than by the baseline, over all items"),
    ):
        worse: dict[tuple[object, ...], set[str]] = {}
        better: dict[tuple[object, ...], set[str]] = {}
        for row in candidate:
            served = before[row.item.pair, row.item.variant]
            if row.item.expected_ready is not ready or _served(row) is served:
                continue
            found = worse if served is ready else better
            for attributes in group_bys:
                slice_ = attributes, slice_of(row, attributes, coding)
                found.setdefault(slice_, set()).add(row.item.pair)
        if any(len(some) - len(better.get(at, ())) >= contract.k for at, some in worse.items()):
            yield text


def _served(row: Row) -> bool:
    return row.observed.route is Route.AUTO_SERVE
