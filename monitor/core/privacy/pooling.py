"""Pooling of rare attribute values into ``__other__``, so that one rare value hides nothing else.

The merge map is made per group-by, once a week from the last four, and used in every window: two
windows with different maps could be subtracted from each other. An intersection keeps no value
that its marginals pool, so its rows add up to (sums of) theirs.

Example:
    >>> keep({"chat": 100, "email": 30, "fax": 4}, 11)
    ('__other__', 'chat')
    >>> keep({"chat": 100, "email": 30, "fax": 4, "__other__": 9}, 11)
    ('__other__', 'chat', 'email')
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import OTHER, Counter, Int64s, atom_text, parse_atom
from monitor.core.counts.coding import Listed
from monitor.core.counts.rollup import SliceCounts
from monitor.core.counts.strata import by_route, production

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MergeMap:
    """Attribute values of a group-by that keep their name.

    Attributes:
        kept: per attribute, the values that do; every other value is ``__other__``.
    """

    kept: Mapping[str, tuple[str, ...]]

    def name(self, text: str) -> str:
        """The slice that a slice is shown in."""
        pairs = parse_atom(text).items()
        return atom_text({name: v if v in self.kept[name] else OTHER for name, v in pairs})

    def without(self, late: Collection[Listed]) -> MergeMap:
        """The map that pools these values too."""
        return MergeMap(
            {
                name: tuple(value for value in values if (name, value) not in late)
                for name, values in self.kept.items()
            }
        )

    @property
    def slices(self) -> tuple[str, ...]:
        """All rows of the group-by, sorted: every combination, so that a row reveals no cell."""
        names = sorted(self.kept)
        combinations = product(*(self.kept[name] for name in names))
        return tuple(sorted(atom_text(dict(zip(names, c, strict=True))) for c in combinations))

    def apply(self, counts: SliceCounts) -> SliceCounts:
        """Pool a window's counts; rows without decisions hold zeros."""
        pooled = counts.pooled([self.name(text) for text in counts.slices])
        return aligned(pooled, tuple(sorted({*self.slices, *pooled.slices})))


@dataclass(frozen=True, slots=True)
class Flow:
    """Traffic of the weeks that a merge map is made from, shape (S,) or one value.

    Attributes:
        decisions: production decisions.
        labels: labels of reviewed decisions, shape (S, 2) by route.
        routes: reviewed decisions by route, the same shape.
    """

    decisions: Int64s
    labels: Int64s
    routes: Int64s

    @classmethod
    def of(cls, counts: SliceCounts) -> Flow:
        """The flow of every slice."""
        table = by_route(counts).swapaxes(0, 1)
        return cls(decisions_of(counts), table[:, :, Counter.LABELLED], table[:, :, Counter.N])


def merge_map(
    counts: SliceCounts,
    attributes: Sequence[str],
    k: int,
    *,
    need: int | None = None,
    within: Sequence[MergeMap] = (),
    before: MergeMap | None = None,
) -> MergeMap:
    """The merge map of one group-by.

    An intersection begins with what its marginals keep; then, as long as one of its cells has
    1 to ``need`` - 1 decisions, the smallest value of those cells is pooled.

    Args:
        counts: decisions of the weeks that decide, before pooling.
        attributes: of the group-by.
        k: smallest cell that may be shown; 1 pools nothing. Above 1 the row ``__other__``
            always exists, so that its appearance reveals no arrival.
        need: decisions that a value, or a cell of an intersection, needs to keep its name. None
            where ``__other__`` must not be left out: then it is ``k``, and values are pooled,
            smallest first, until ``__other__`` has 0 or at least k too.
        within: maps of the group-bys that this one refines: it keeps no more than they do.
        before: the map that this one replaces: what it keeps needs half as much to stay.
    """
    if k == 1:
        tallies = _value_counts(counts, attributes)
        return MergeMap({name: tuple(sorted(tallies[name])) for name in attributes})
    kept = {}
    for name in attributes:
        tally = _tally_of(counts, name, within)
        stays = before.kept.get(name, ()) if before else ()
        kept[name] = keep(tally, k) if need is None else _enough(tally, need, stays)
    if len(attributes) > 1:
        kept = _coarsened(counts, kept, need or k)
    return MergeMap({name: tuple(sorted({*kept[name], OTHER})) for name in attributes})


def _tally_of(counts: SliceCounts, name: str, within: Sequence[MergeMap]) -> Tally[str]:
    """Decisions of the values of one attribute; what another map pools is ``__other__``."""
    tally: Tally[str] = Tally()
    maps = [pooling.kept[name] for pooling in within if name in pooling.kept]
    for value, n in _value_counts(counts, (name,))[name].items():
        tally[value if all(value in kept for kept in maps) else OTHER] += n
    return tally


def _enough(tally: Tally[str], need: int, stays: Collection[str]) -> tuple[str, ...]:
    """Values with as many decisions as they need: half as many to stay."""
    enough = (v for v, n in tally.items() if n * (2 if v in stays else 1) >= need)
    return tuple(sorted(value for value in enough if value != OTHER))


def _coarsened(
    counts: SliceCounts, kept: dict[str, tuple[str, ...]], need: int
) -> dict[str, tuple[str, ...]]:
    """Fewer values, until every cell has no decisions or what it needs."""
    rows = [parse_atom(text) for text in counts.slices]
    decisions = decisions_of(counts).tolist()
    while True:
        cells: Tally[tuple[str, ...]] = Tally()
        for values, n in zip(rows, decisions, strict=True):
            cells[tuple(v if (v := values[name]) in kept[name] else OTHER for name in kept)] += n
        small = [cell for cell, n in cells.items() if 0 < n < need]
        found = _smallest(kept, cells, small) or _smallest(kept, cells, list(cells))
        if not small or found is None:
            return kept
        name, value = found
        kept = kept | {name: tuple(v for v in kept[name] if v != value)}


def _smallest(
    names: Collection[str], cells: Mapping[tuple[str, ...], int], among: Collection[tuple[str, ...]]
) -> tuple[str, str] | None:
    """The value with a name, of those that occur ``among`` cells, that has fewest decisions."""
    sizes: Tally[tuple[str, str]] = Tally()
    for cell, n in cells.items():
        for pair in zip(names, cell, strict=True):
            sizes[pair] += n
    named = {p for cell in among for p in zip(names, cell, strict=True) if p[1] != OTHER}
    return min(named, key=lambda pair: (sizes[pair], pair), default=None)


def unlabelled_rows(flow: Flow, need: Int64s) -> Bools:
    """Rows whose labels of a route are too few to be published, shape (S, 2 routes).

    Nothing could be published of the whole group-by until such a row has k labels. Its labels of
    that route are taken as not given instead, by every reader alike; the row's labelled rates are
    then not identified, and the others' advance.
    """
    return np.asarray((flow.routes > 0) & (flow.labels < need), bool)


def keep(decisions: Mapping[str, int], k: int) -> tuple[str, ...]:
    """Values of one attribute that keep their name, sorted.

    Values below k are merged into ``__other__``, then the smallest ones left (ties by name),
    until ``__other__`` has 0 or at least k decisions.
    """
    other = decisions.get(OTHER, 0)
    left = sorted((n, value) for value, n in decisions.items() if value != OTHER)
    while left and (left[0][0] < k or 0 < other < k):
        other += left.pop(0)[0]
    return tuple(sorted([value for _, value in left] + ([OTHER] if other else [])))


def decisions_of(counts: SliceCounts) -> Int64s:
    """Production decisions of every slice; probe traffic never counts."""
    columns = counts.values[:, production(counts), Counter.N]
    return np.asarray(columns.sum(axis=1), np.int64)


def aligned(counts: SliceCounts, slices: tuple[str, ...]) -> SliceCounts:
    """The same counts with a row for every one of ``slices`` (a superset of its own)."""
    position = {name: i for i, name in enumerate(slices)}
    values = np.zeros((len(slices), *counts.values.shape[1:]), np.int64)
    values[[position[name] for name in counts.slices]] = counts.values
    return SliceCounts(slices, counts.strata, values)


def _value_counts(counts: SliceCounts, attributes: Sequence[str]) -> dict[str, Tally[str]]:
    tallies: dict[str, Tally[str]] = {name: Tally() for name in attributes}
    for text, n in zip(counts.slices, decisions_of(counts).tolist(), strict=True):
        values = parse_atom(text)
        for name in attributes:
            tallies[name][values[name]] += n
    return tallies
