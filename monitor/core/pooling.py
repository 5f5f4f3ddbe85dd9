"""Pooling of rare attribute values into ``__other__``, so that one rare value hides nothing else.

The merge map is made per group-by, from the longest window, and used in every window: two windows
with different maps could be subtracted from each other. Each attribute is pooled by its own
counts, so intersections are pooled exactly as their marginals are and add up to them.

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

from monitor.core.atoms import OTHER, atom_text, parse_atom
from monitor.core.cells import Counter, Int64s
from monitor.core.coding import Listed
from monitor.core.rollup import SliceCounts
from monitor.core.strata import production


@dataclass(frozen=True, slots=True)
class MergeMap:
    """Which values of a group-by keep their name.

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
        """All rows of the group-by, sorted: every combination, so that a row tells of no cell."""
        names = sorted(self.kept)
        combinations = product(*(self.kept[name] for name in names))
        return tuple(sorted(atom_text(dict(zip(names, c, strict=True))) for c in combinations))

    def apply(self, counts: SliceCounts) -> SliceCounts:
        """Pool a window's counts; rows without decisions hold zeros."""
        pooled = counts.pooled([self.name(text) for text in counts.slices])
        return aligned(pooled, tuple(sorted({*self.slices, *pooled.slices})))


def merge_map(counts: SliceCounts, attributes: Sequence[str], k: int) -> MergeMap:
    """The merge map of one group-by.

    Args:
        counts: decisions of the longest window, before pooling.
        attributes: of the group-by.
        k: smallest cell that may be shown; 1 pools nothing. Above 1 the row ``__other__``
            always exists, so that its appearance tells of no arrival.
    """
    always = (OTHER,) if k > 1 else ()
    tallies = _value_counts(counts, attributes)
    kept = {name: keep(tallies[name], k) for name in attributes}
    return MergeMap({name: tuple(sorted({*kept[name], *always})) for name in attributes})


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
        for name, value in parse_atom(text).items():
            tallies[name][value] += n
    return tallies
