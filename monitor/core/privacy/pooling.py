"""Pooling of rare attribute values into ``__other__``, so that one rare value hides nothing else.

The merge map is made per group-by, once a week from the last four, and used in every window: two
windows with different maps could be subtracted from each other. An intersection keeps no value
that its marginals pool, so its rows add up to (sums of) theirs.

Labels come more slowly than decisions, and have a map of their own: it keeps fewer values. A value
that it pools has a selection rate, but no labelled rates.

Example:
    >>> keep({"chat": 100, "email": 30, "fax": 4}, 11)
    ('__other__', 'chat')
    >>> keep({"chat": 100, "email": 30, "fax": 4, "__other__": 9}, 11)
    ('__other__', 'chat', 'email')
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
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
    # A map is asked for a week, in every table of every publication, for the same texts.
    _names: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def name(self, text: str) -> str:
        """The slice that a slice is shown in."""
        if (known := self._names.get(text)) is not None:
            return known
        pairs = parse_atom(text).items()
        name = atom_text({name: v if v in self.kept[name] else OTHER for name, v in pairs})
        return self._names.setdefault(text, name)

    def joined(self, rows: Sequence[str]) -> Int64s:
        """For each row of a finer map the number of the row that it is pooled into, from 0."""
        return np.unique([self.name(text) for text in rows], return_inverse=True)[1]

    def without(self, late: Collection[Listed]) -> MergeMap:
        """The map that pools these values too."""
        if not late:
            return self
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
        return combinations_of(tuple(names), tuple(tuple(self.kept[name]) for name in names))

    def apply(self, counts: SliceCounts) -> SliceCounts:
        """Pool a window's counts; rows without decisions hold zeros."""
        pooled = counts.pooled([self.name(text) for text in counts.slices])
        return aligned(pooled, tuple(sorted({*self.slices, *pooled.slices})))


@lru_cache(maxsize=64)
def combinations_of(names: tuple[str, ...], values: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """All slices of a group-by whose attributes have these values, sorted.

    Example:
        >>> combinations_of(("a", "b"), (("x", "y"), ("z",)))
        ('a=x,b=z', 'a=y,b=z')
    """
    rows = product(*values)
    return tuple(sorted({atom_text(dict(zip(names, row, strict=True))) for row in rows}))


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

    An intersection keeps of what its marginals do as much as leaves none of its cells with 1 to
    ``need`` - 1 decisions.

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
        kept = _named(counts.slices, decisions_of(counts)[:, None], kept, need or k)
    return _with_other(kept)


def label_map(
    counts: SliceCounts,
    pooling: MergeMap,
    need: int,
    *,
    within: Sequence[MergeMap] = (),
    before: MergeMap | None = None,
) -> MergeMap:
    """The merge map of the labels of one group-by.

    A value of a single attribute keeps its name if it has what it needs in each route that it
    takes. An intersection keeps of what its marginals do as much as leaves none of its cells with
    labels of a route, and fewer than it needs.

    Args:
        counts: decisions and labels of the weeks that decide, before pooling.
        pooling: the map of its decisions, which keeps no less.
        need: labels of each route.
        within: maps of the labels of the group-bys that this one refines.
        before: the map that this one replaces: what it keeps needs half as much to stay.
    """
    kept = {
        name: tuple(v for v in values if all(v in one.kept.get(name, (v,)) for one in within))
        for name, values in pooling.kept.items()
    }
    flow = Flow.of(counts)
    if len(kept) > 1:
        return _with_other(_named(counts.slices, flow.labels, kept, need))
    ((name, values),) = kept.items()
    stays = before.kept.get(name, ()) if before else ()
    fewest = _fewest_labels(counts.slices, flow, name)
    tally = Tally({value: fewest[value] for value in values if value in fewest})
    return _with_other({name: _enough(tally, need, stays)})


def _fewest_labels(slices: Sequence[str], flow: Flow, name: str) -> dict[str, int]:
    """Labels of each value in the route, of those that it takes, that has fewest of them."""
    fewest: dict[str, int] = {}
    rows = zip(slices, flow.labels.tolist(), flow.routes.tolist(), strict=True)
    for text, labels, routes in rows:
        taken = [n for n, decisions in zip(labels, routes, strict=True) if decisions]
        fewest[parse_atom(text)[name]] = min(taken, default=0)
    return fewest


def _with_other(kept: Mapping[str, Collection[str]]) -> MergeMap:
    return MergeMap({name: tuple(sorted({*values, OTHER})) for name, values in kept.items()})


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


def _named(
    slices: Sequence[str], counts: Int64s, kept: Mapping[str, Collection[str]], need: int
) -> dict[str, tuple[str, ...]]:
    """The values of several attributes that keep their name.

    They are named one after the other, each time the one that leaves the largest smallest cell, as
    long as every cell has none or what it needs: in each column of its counts, and also those of
    values without a name. By powers of two and then in their order, so that what is named does not
    tell which of two has more.
    """
    crossed = _Crossed.of(slices, counts, kept)
    while True:
        enough = [(least, at) for least, at in crossed.candidates() if least >= need]
        if not enough:
            return crossed.names
        axis, value = min(enough, key=lambda one: (-one[0].bit_length(), one[1]))[1]
        crossed.named[axis][value] = True


@dataclass(frozen=True, slots=True)
class _Crossed:
    """Counts by the values of several attributes.

    Attributes:
        values: of each attribute; the first one is ``__other__``.
        counts: shape (values of each attribute, columns).
        named: whether each value has a name, by attribute.
    """

    values: Mapping[str, Sequence[str]]
    counts: Int64s
    named: Sequence[Bools]

    @classmethod
    def of(
        cls, slices: Sequence[str], counts: Int64s, kept: Mapping[str, Collection[str]]
    ) -> _Crossed:
        """Nothing has a name yet."""
        values = {name: [OTHER, *sorted({*some} - {OTHER})] for name, some in kept.items()}
        place = {name: {v: i for i, v in enumerate(some)} for name, some in values.items()}
        rows = [parse_atom(text) for text in slices]
        at = tuple(np.array([p.get(row[n], 0) for row in rows], np.int64) for n, p in place.items())
        table = np.zeros((*map(len, values.values()), counts.shape[1]), np.int64)
        np.add.at(table, at, counts)
        return cls(values, table, [np.zeros(len(some), bool) for some in values.values()])

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The values that have a name."""
        return {
            name: tuple(v for v, is_named in zip(values, named.tolist(), strict=True) if is_named)
            for (name, values), named in zip(self.values.items(), self.named, strict=True)
        }

    def candidates(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """Attribute and value of what could be named next, after the smallest cell this leaves."""
        for axis, named in enumerate(self.named):
            table = self._pooled_but(axis)
            rest = table[~named].sum(axis=0)
            for value in np.flatnonzero(~named[1:]) + 1:
                cells = np.stack([table[value], rest - table[value]])
                if table[value].any():
                    yield int(cells[cells > 0].min()), (axis, int(value))

    def _pooled_but(self, axis: int) -> Int64s:
        """The counts with the attribute first and all others pooled, shape (values, ...)."""
        table = self.counts
        for other, named in enumerate(self.named):
            if other != axis:
                rest = table.compress(~named, axis=other).sum(axis=other, keepdims=True)
                table = np.concatenate([rest, table.compress(named, axis=other)], axis=other)
        return np.moveaxis(table, axis, 0)


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
