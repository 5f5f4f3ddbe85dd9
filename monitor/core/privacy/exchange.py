"""Exchange: how far a hidden count could differ without any published number changing.

Group-bys that cross each other (``channel+language`` and its marginals) are published in blocks
that end at other instants: the marginals' parts of a block are known, and the intersection's sums
over all of it. Each of these is 0 or at least k, and yet they may pin down how many decisions a
cell has in one part. (In two dimensions they cannot: an entry of a two-way table may be as large
as the smaller one of its margins. With time these are tables of three dimensions.)

Let two decisions of one part exchange their language: one of (chat, formal) and one of (email,
plain) become (chat, plain) and (email, formal). No sum over channels or over languages changes,
whatever parts the channels are published in. If two decisions of another part make the opposite
exchange, no cell changes over the whole block either. So nobody can tell the world before from the
world after, and a cell of n decisions in a part could have any number from n - down to n + up,
where ``up`` and ``down`` count the exchanges that can be made. A block is closed only if every cell
with 1 to k - 1 decisions in a part, or in successive parts, could have k or more, or any of k
numbers.

This is a sufficient condition in whole numbers: a linear program over the same sums finds no
narrower interval, and neither does an integer program. Data swapping (Dalenius and Reiss 1982)
publishes such a world in place of the true one; here it is enough that there are such worlds.

Counts are decisions, or labels of one route, as in the condition on blocks: how they divide among
routes or values is hidden by the rounding of rates (:mod:`monitor.core.privacy.bands`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.privacy.families import SliceFamily

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Axes:
    """Which values decisions of a family may exchange without changing what others publish.

    Attributes:
        crossed: attributes of which pairs of values are crossed: two, or more where the family
            refines other intersections. No other family has all of them.
        alike: for each of them, if its values are exchanged, the attributes besides the family's in
            which the decisions must agree.
    """

    crossed: tuple[str, ...]
    alike: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, family: SliceFamily, families: Sequence[SliceFamily]) -> Axes | None:
        """Those of a family; None where it crosses no others.

        Args:
            family: which.
            families: all of them.

        Example:
            >>> a, b, ab, ac, bc = (SliceFamily("c", tuple(n)) for n in "a b ab ac bc".split())
            >>> Axes.of(a, [a, b, ab]) is None
            True
            >>> Axes.of(ab, [a, b, ab, ac])
            Axes(crossed=('a', 'b'), alike=(('c',), ()))
            >>> Axes.of(ab, [a, b, ab, ac, bc])
            Axes(crossed=('a', 'b'), alike=(('c',), ('c',)))
        """
        names = set(family.attributes)
        rest = [one.names for one in families if not names <= one.names]
        finer = [one.names for one in families if names < one.names]
        for size in range(2, len(names) + 1):
            for crossed in combinations(family.attributes, size):
                if any(set(crossed) <= others for others in rest):
                    continue
                touched = ([*(one for one in rest if name in one), *finer] for name in crossed)
                beside = (frozenset[str]().union(*some) - names for some in touched)
                return cls(crossed, tuple(tuple(sorted(others)) for others in beside))
        return None


def pinned(counts: Int64s, k: int, axis: int, together: Int64s) -> Bools:
    """The small counts that could be neither k nor any of k numbers, if one attribute is exchanged.

    One flag a cell and run of parts that holds 1 to k - 1; their order depends on nothing but the
    counts of the cells, whatever the kinds.

    Args:
        counts: of one block, shape (Z, ..., T): T successive parts, in between one dimension for
            each crossed attribute, and Z kinds of decisions that exchange among themselves only.
        k: smallest cell that may be shown.
        axis: the attribute that is exchanged: the first crossed one is 0.
        together: for each part a number, not decreasing; parts of one number are published as one
            by everything that has this attribute.

    Example:
        In the first part nobody can exchange with the one of (0, 0), since (1, 1) is empty in the
        second.

        >>> known = np.array([[[[1, 10], [30, 20]], [[30, 30], [24, 0]]]])
        >>> bool(pinned(known, 11, 0, np.arange(2)).any())
        True
        >>> bool(pinned(known + 20, 11, 0, np.arange(2)).any())
        False
    """
    places = np.ndindex(counts.shape[1:-1])
    return np.concatenate([_pinned(counts, place, k, axis, together) for place in places])


def _pinned(counts: Int64s, place: tuple[int, ...], k: int, axis: int, together: Int64s) -> Bools:
    """The same for one cell."""
    runs = _SmallRuns.of(_at(counts, place).sum(axis=0), k)
    still = np.ones(len(runs.total), bool)
    above, below = np.zeros((2, len(counts), len(runs.total)), np.int64)
    groups = _Groups.of(together)
    for exchange in _exchanges(counts, place, axis, groups) if len(still) else ():
        up, down = exchange(runs.least, False), exchange(runs.most, True)
        better = up + down > above + below
        above, below = np.where(better, up, above), np.where(better, down, below)
        more, fewer = above.sum(axis=0), below.sum(axis=0)
        still = (runs.total + more < k) & (more + fewer + 1 < k)
        if not still.any():
            break
    return still


def _at(counts: Int64s, place: Sequence[int]) -> Int64s:
    return np.asarray(counts[(slice(None), *place)])  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _SmallRuns:
    """Runs of parts that hold 1 to k - 1 of a cell, and have a part at each end that is not empty.

    Attributes:
        least: first part and end (exclusive) of each, shape (2, R).
        most: the same with the empty parts around it.
        total: how many it holds, shape (R,).
    """

    least: Int64s
    most: Int64s
    total: Int64s

    @classmethod
    def of(cls, cell: Int64s, k: int) -> _SmallRuns:
        """Those of one cell, from its counts by part."""
        there = np.flatnonzero(cell)
        before, after = np.append(-1, there[:-1]), np.append(there[1:], len(cell))
        running = np.append(0, np.cumsum(cell[there]))
        i = np.repeat(np.arange(len(there)), k)  # k parts that are not empty hold k
        j = i + np.tile(np.arange(k), len(there))
        i, j = i[j < len(there)], j[j < len(there)]
        total = running[j + 1] - running[i]
        i, j, total = (column[total < k] for column in (i, j, total))
        least, most = (there[i], there[j] + 1), (before[i] + 1, after[j])
        return cls(np.stack(least), np.stack(most), total)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Successive parts that are published as one: the first part and end (exclusive) of each."""

    starts: Int64s
    ends: Int64s

    @classmethod
    def of(cls, together: Int64s) -> _Groups:
        starts = np.flatnonzero(np.append(True, np.diff(together) > 0))
        return cls(starts, np.append(starts[1:], len(together)))

    def summed(self, counts: Int64s) -> Int64s:
        """Counts of parts (..., T) by group (..., B)."""
        return np.asarray(np.add.reduceat(counts, self.starts, axis=-1))

    def inside(self, counts: Int64s, runs: Int64s) -> Int64s:
        """Counts of parts (Z, T) that are in runs (2, R), by group: (Z, R, B)."""
        running = np.pad(counts.cumsum(axis=1), ((0, 0), (1, 0)))
        first = np.maximum(runs[0][:, None], self.starts)
        end = np.maximum(np.minimum(runs[1][:, None], self.ends), first)
        return np.asarray(running[:, end] - running[:, first])

    def split(self, counts: Int64s, runs: Int64s) -> tuple[Int64s, Int64s]:
        """The same, and what is in each group but outside of the run."""
        inside = self.inside(counts, runs)
        return inside, self.summed(counts)[:, None] - inside


_Exchange = Callable[[Int64s, bool], Int64s]
"""From runs (2, R), and whether the cell is to lose there, to how many it gains or loses (Z, R)."""


def _exchanges(
    counts: Int64s, place: tuple[int, ...], axis: int, groups: _Groups
) -> Iterator[_Exchange]:
    """All exchanges of a cell, those that can be made most often first."""
    cell = _at(counts, place)
    line = _at(counts.sum(axis=axis + 1, keepdims=True), (*place[:axis], 0, *place[axis + 1 :]))
    yield _of_instants(cell, line - cell, groups)
    sizes = zip(counts.shape[1:-1], place, strict=True)
    others = product(*([v for v in range(n) if v != at] for n, at in sizes))
    crossed = [_Crossed.of(counts, (place, other), axis, groups) for other in others]
    yield from sorted(crossed, key=lambda exchange: -exchange.most)


def _of_instants(cell: Int64s, rest: Int64s, groups: _Groups) -> _Exchange:
    """Exchange within a group of parts, one inside the run with one outside of it.

    As if the two had come at each other's instants.
    """

    def exchange(runs: Int64s, lose: bool) -> Int64s:
        ours, outside = groups.split(cell, runs)
        theirs, away = groups.split(rest, runs)
        return np.asarray(
            (np.minimum(ours, away) if lose else np.minimum(theirs, outside)).sum(axis=2)
        )

    return exchange


@dataclass(frozen=True, slots=True)
class _Crossed:
    """Exchange with other cells inside the run, and back outside of it.

    Attributes:
        cell: counts of the cell by part.
        flipped: of the cell with the other value of the attribute that is exchanged.
        with_us: the least of all others that change as the cell does, by group.
        against_us: the least of all others that change the other way.
        groups: of parts.
    """

    cell: Int64s
    flipped: Int64s
    with_us: Int64s
    against_us: Int64s
    groups: _Groups

    @classmethod
    def of(
        cls, counts: Int64s, ends: tuple[Sequence[int], Sequence[int]], axis: int, groups: _Groups
    ) -> _Crossed:
        """That of a cell with another: they differ in every crossed attribute."""
        places = [
            (flip, _at(counts, [ends[other][i] for i, other in enumerate(flip)]))
            for flip in product((0, 1), repeat=len(ends[0]))
        ]
        (_, cell), *others = places
        (flipped,) = (n for flip, n in others if sum(flip) == 1 and flip[axis])
        sums = [(sum(flip) % 2, groups.summed(n)) for flip, n in others if n is not flipped]
        even, odd = ([n for side, n in sums if side == which] for which in (0, 1))
        return cls(cell, flipped, np.minimum.reduce(even), np.minimum.reduce(odd), groups)

    @property
    def most(self) -> int:
        """Exchanges that can be made at all, at most."""
        there = np.minimum(self.groups.summed(self.cell), self.with_us).sum(axis=1)
        back = np.minimum(self.groups.summed(self.flipped), self.against_us).sum(axis=1)
        return int(np.minimum(there, back).sum())

    def __call__(self, runs: Int64s, lose: bool) -> Int64s:
        cell, cell_outside = self.groups.split(self.cell, runs)
        flipped, flipped_outside = self.groups.split(self.flipped, runs)
        gained = np.minimum(flipped if not lose else flipped_outside, self.against_us[:, None])
        lost = np.minimum(cell_outside if not lose else cell, self.with_us[:, None])
        return np.asarray(np.minimum(gained.sum(axis=2), lost.sum(axis=2)))
