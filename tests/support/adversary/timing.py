"""What the edges themselves tell: a group-by that does not advance has a slice that is too small.

A family advances at an hour at which those it refines do, and every slice has none or at least k.
Where it does not, some slice of it has 1 to k - 1; if all but one can be excluded, it is that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from adversary.pages import DECISIONS, Publication

HOUR = 3_600_000_000


@dataclass(frozen=True)
class Pause:
    """An hour at which a group-by could have advanced and did not.

    Attributes:
        group_by: which.
        since: where its open block begins.
        at: the hour.
        until: where the block ended.
        epoch: of the merge map.
    """

    group_by: tuple[str, ...]
    since: int
    at: int
    until: int
    epoch: tuple[int, int]


def pauses(publications: Sequence[Publication]) -> Iterator[Pause]:
    """Every pause between two edges that were seen under one merge map."""
    ends: dict[object, dict[tuple[str, ...], set[int]]] = {}
    for p in publications:
        if p.kind == DECISIONS and p.end % HOUR == 0 and p.start != p.end:
            ends.setdefault(p.epoch, {}).setdefault(p.group_by, set()).add(p.end)
    for epoch, families in ends.items():
        for group_by, own in families.items():
            parents = [there for names, there in families.items() if set(names) < set(group_by)]
            if not parents:
                continue
            could = sorted(set.intersection(*parents) - own)
            for at in could:
                since = max((edge for edge in own if edge < at), default=None)
                until = min((edge for edge in own if edge > at), default=None)
                if since is not None and until is not None:
                    yield Pause(group_by, since, at, until, epoch)  # type: ignore[arg-type]
