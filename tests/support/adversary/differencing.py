"""Subtraction without a solver: what two publications with a common edge say of the rest.

Every count is a whole number, which a linear program does not know: here all whole numbers that
agree with what is shown of a row are listed, and those of two publications subtracted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from adversary.numbers import Bound, K, band, bounds_of
from adversary.pages import DECISIONS, Numbers, Publication

Ints = npt.NDArray[np.int64]
LARGEST = 100
"""Supports above this leave far too many possibilities to be worth listing."""

MOST_PAIRS = 300_000


@dataclass(frozen=True)
class Rest:
    """What one publication of a slice has more than another.

    Attributes:
        group_by: which.
        text: the slice.
        start: of the span.
        end: exclusive.
        low: smallest possible count by route.
        high: largest possible count by route.
        epoch: of the merge map.
        at: when the later of them was fetched.
    """

    group_by: tuple[str, ...]
    text: str
    start: int
    end: int
    low: tuple[int, ...]
    high: tuple[int, ...]
    epoch: tuple[int, int]
    at: int


def triples(row: dict[str, Numbers], *, exact: bool = False) -> Ints | None:
    """All (auto_serve, human_review, blocked) that agree with a row; None where too many do."""
    if "selection" not in row or row["selection"]["support"] > LARGEST:
        return None
    low, high = band(row["selection"]["support"], exact=exact)
    n = np.arange(low, high + 1)
    total, auto, blocked = np.meshgrid(n, np.arange(high + 1), np.arange(high + 1), indexing="ij")
    review = total - auto - blocked
    table = np.stack([auto, review, blocked], axis=-1)[review >= 0]
    for metric, told in row.items():
        for bound in bounds_of(DECISIONS, metric, told, exact=exact):
            if not bound.others:
                table = table[_holds(table, bound)]
    return table


RowEdge = tuple[tuple[str, ...], tuple[int, int], str, str, int]
"""(group-by, merge map, slice, which edge, where it is)."""


def _holds(table: Ints, bound: Bound) -> npt.NDArray[np.bool_]:
    value = table @ bound.weights
    return np.asarray((value >= bound.low - 1e-9) & (value <= bound.high + 1e-9), bool)


def rests(publications: Sequence[Publication], *, exact: bool = False) -> Iterator[Rest]:
    """Every pair of successive publications of a slice that share one edge."""
    mine = [p for p in publications if p.kind == DECISIONS and p.shown]
    by_row: dict[RowEdge, list[tuple[Publication, dict[str, Numbers]]]] = {}
    for p in mine:
        for text, row in p.rows.items():
            for side, edge in (("start", p.start), ("end", p.end)):
                key = (p.group_by, p.epoch, text, side, edge)
                by_row.setdefault(key, []).append((p, row))
    for (_, _, text, side, _), found in by_row.items():
        spans = {(p.start, p.end): (p, row) for p, row in found}
        ordered = sorted(spans, key=lambda span: span[1] - span[0])
        for short, long in pairwise(ordered):
            rest = _subtracted(spans[short][1], spans[long][1], exact=exact)
            if rest is not None:
                start, end = (short[1], long[1]) if side == "start" else (long[0], short[0])
                last = max((spans[short][0], spans[long][0]), key=lambda p: p.at)
                yield Rest(last.group_by, text, start, end, *rest, last.epoch, last.at)


def _subtracted(
    short: dict[str, Numbers], long: dict[str, Numbers], *, exact: bool
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Smallest and largest difference by route, of those that the block rule allows."""
    a, b = triples(short, exact=exact), triples(long, exact=exact)
    if a is None or b is None or len(a) * len(b) > MOST_PAIRS:
        return None
    d = (b[None, :] - a[:, None]).reshape(-1, 3)
    d = d[(d >= 0).all(axis=1)]
    if not exact:
        total = d.sum(axis=1)
        d = d[(total == 0) | (total >= K)]
    if not len(d):
        return None
    return tuple(d.min(axis=0).tolist()), tuple(d.max(axis=0).tolist())
