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
with 1 to k - 1 decisions in a part that a marginal publishes, or in successive ones, could have k
or more, or any of k numbers.

Exchanges of one attribute are sufficient, and in whole numbers: no linear or integer program over
the same sums finds a narrower interval. Where they are too few, such a program decides. Data
swapping (Dalenius and Reiss 1982) publishes such a world in place of the true one; here it is
enough that there are such worlds.

Counts are decisions, or labels of one route, as in the condition on blocks: how they divide among
routes or values is hidden by the rounding of rates (:mod:`monitor.core.privacy.bands`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain, combinations, product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.privacy.families import SliceFamily

if TYPE_CHECKING:
    from monitor.core.privacy.exchange_program import Program

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Axes:
    """Which values decisions of a family may exchange without changing what others publish.

    Attributes:
        crossed: attributes of which pairs of values are crossed: two, or more where the family
            refines other intersections. No other family has all of them.
        alike: for each of them, if its values are exchanged, the attributes besides the family's in
            which the decisions must agree: or those that exchange back, in the same block of
            whatever publishes the two together.
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


def given_away(
    tables: Sequence[Int64s],
    k: int,
    together: Sequence[Int64s],
    beside: Sequence[Int64s] | None = None,
    *,
    first: tuple[int, ...] | None = None,
    numbers: int | None = None,
) -> tuple[int, ...] | None:
    """A cell with a small count that could be neither k nor any of k numbers; None without.

    Looked at is every cell in every run of parts that one of the marginals publishes by itself.
    Where exchanges of one attribute do not settle it, an integer program does.

    Args:
        tables: for each crossed attribute, counts of one block, shape (Z, ..., T): T successive
            parts, in between one dimension for each crossed attribute, and Z kinds of decisions.
        k: smallest cell that may be shown.
        together: for each crossed attribute a number for each part, not decreasing: parts of one
            number are published as one by everything that has it.
        beside: the same of what publishes it together with whatever makes kinds differ. Decisions
            of two kinds exchange only if those that exchange back are of the same two, in a part
            of the same number. None where only one kind exchanges.
        first: the cell to be looked at first, since it was the one that was found before.
        numbers: if fewer than k will do.

    Example:
        In the first part nobody can exchange with the one of (0, 0), since (1, 1) is empty in the
        second.

        >>> known = np.array([[[[1, 10], [30, 20]], [[30, 30], [24, 0]]]])
        >>> hours = np.arange(2)
        >>> given_away([known, known], 11, [hours, hours])
        (0, 0)
        >>> given_away([known + 20, known + 20], 11, [hours, hours]) is None
        True
    """
    beside = together if beside is None else beside
    question = _Question(
        [_Table.of(*one) for one in zip(tables, together, beside, strict=True)],
        together,
        k,
        numbers or k,
    )
    places = sorted(np.ndindex(tables[0].shape[1:-1]), key=lambda place: place != first)
    return next((place for place in places if question.gives_away(place)), None)


@dataclass(frozen=True, slots=True)
class _Table:
    """Counts for the exchange of one attribute.

    Attributes:
        counts: as :func:`given_away` takes them.
        groups: parts that are published as one by whatever has the attribute.
        blocks: of groups, in which two kinds may exchange and exchange back.
        whole: all groups as one: for a kind by itself.
    """

    counts: Int64s
    groups: _Groups
    blocks: _Blocks
    whole: _Blocks

    @classmethod
    def of(cls, counts: Int64s, together: Int64s, beside: Int64s) -> _Table:
        groups = _Groups.of(together)
        blocks, whole = beside[groups.starts], np.zeros_like(groups.starts)
        return cls(counts, groups, _Blocks.of(blocks), _Blocks.of(whole))


@dataclass(slots=True)
class _Question:
    """Whether any cell of a block is given away."""

    tables: Sequence[_Table]
    together: Sequence[Int64s]
    k: int
    numbers: int
    _program: Program | None = None

    def gives_away(self, place: tuple[int, ...]) -> bool:
        """Return True when a small count of this cell could be neither k nor any of k numbers."""
        parts = _at(self.tables[0].counts, place).sum(axis=0)
        return any(
            self._pinned(place, _SmallRuns.of(parts, self.k, table.groups)) for table in self.tables
        )

    def _pinned(self, place: tuple[int, ...], small: _SmallRuns) -> bool:
        for axis, table in enumerate(self.tables):
            if not len(small.total):
                return False
            small = small.take(self._doubtful(place, small, axis, table))
        return not all(self._by_program(place, run) for run in small.least.T.tolist())

    def _doubtful(
        self, place: tuple[int, ...], small: _SmallRuns, axis: int, table: _Table
    ) -> Bools:
        """The runs for which exchanges of one attribute are too few."""
        wanted = np.minimum(self.k - small.total, self.numbers - 1)
        more = _Exchanges(table, place, small.least, False).up_to(wanted, axis)
        still = more < wanted
        if still.any():
            fewest = self.numbers - 1 - more[still]
            few = _Exchanges(table, place, small.most[:, still], True).up_to(fewest, axis)
            still[still] = few < fewest
        return np.asarray(still, bool)

    def _by_program(self, place: tuple[int, ...], run: tuple[int, int]) -> bool:
        from monitor.core.privacy.exchange_program import Program  # noqa: PLC0415 - slow to load

        if self._program is None:
            counts = min((table.counts for table in self.tables), key=len)
            self._program = Program.of(counts, self.together)
        return self._program.hides(place, run, self.k, self.numbers)


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
    def of(cls, parts: Int64s, k: int, groups: _Groups) -> _SmallRuns:
        """Those of one cell, from its counts by part: runs of groups."""
        cell = groups.summed(parts)
        there = np.flatnonzero(cell)
        before, after = np.append(-1, there[:-1]), np.append(there[1:], len(cell))
        running = np.append(0, np.cumsum(cell[there]))
        i = np.repeat(np.arange(len(there)), k)  # k parts that are not empty hold k
        j = i + np.tile(np.arange(k), len(there))
        i, j = i[j < len(there)], j[j < len(there)]
        total = running[j + 1] - running[i]
        i, j, total = (column[total < k] for column in (i, j, total))
        first, end = groups.starts, groups.ends
        least = np.stack([first[there[i]], end[there[j]]])
        most = np.stack([first[before[i] + 1], end[after[j] - 1]])
        return cls(least, most, total)

    def take(self, runs: Bools) -> _SmallRuns:
        """Some of them."""
        return _SmallRuns(self.least[:, runs], self.most[:, runs], self.total[runs])


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
        running = np.zeros((len(counts), counts.shape[1] + 1), np.int64)
        counts.cumsum(axis=1, out=running[:, 1:])
        first = np.maximum(runs[0][:, None], self.starts)
        end = np.maximum(np.minimum(runs[1][:, None], self.ends), first)
        return np.asarray(running[:, end] - running[:, first])

    def split(self, counts: Int64s, runs: Int64s) -> tuple[Int64s, Int64s]:
        """The same, and what is in each group but outside of the run."""
        inside = self.inside(counts, runs)
        return inside, self.summed(counts)[:, None] - inside


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Successive groups in which two kinds may exchange and exchange back.

    Attributes:
        starts: first group of each block.
        block: of each group.
    """

    starts: Int64s
    block: Int64s

    @classmethod
    def of(cls, numbers: Int64s) -> _Blocks:
        """From a number for each group, not decreasing."""
        new = np.append(True, np.diff(numbers) > 0)
        return cls(np.flatnonzero(new), np.cumsum(new) - 1)

    def summed(self, counts: Int64s) -> Int64s:
        """Counts of groups (Z, R, B) by block."""
        return np.asarray(np.add.reduceat(counts, self.starts, axis=2))

    def first(self, counts: Int64s, most: Int64s) -> Int64s:
        """The first ``most`` (Z, R, blocks) of the counts (Z, R, B) in each block."""
        running = counts.cumsum(axis=2)
        if len(self.starts) > 1:
            running -= (running[:, :, self.starts] - counts[:, :, self.starts])[:, :, self.block]
            most = most[:, :, self.block]
        taken = np.minimum(running, most)
        found = taken.copy()
        found[:, :, 1:] -= taken[:, :, :-1]
        found[:, :, self.starts] = taken[:, :, self.starts]
        return np.asarray(found)


@dataclass(slots=True)
class _Exchanges:
    """Exchanges of one cell that are still possible, for each run.

    Decisions inside a run come into the cell (or leave it), and as many outside of the run leave it
    (or come). Each takes part in one exchange.

    Attributes:
        table: counts of all cells.
        place: the cell.
        runs: first part and end (exclusive), shape (2, R): those that still want exchanges.
        lose: whether the cell is to have fewer in the run.
    """

    table: _Table
    place: tuple[int, ...]
    runs: Int64s
    lose: bool
    _left: dict[tuple[tuple[int, ...], str], Int64s] = field(default_factory=dict)

    def up_to(self, wanted: Int64s, axis: int) -> Int64s:
        """How many can be made if one attribute is exchanged, shape (R,): enough, or all."""
        sizes = zip(self.table.counts.shape[1:-1], self.place, strict=True)
        others = [[v for v in range(n) if v != at] for n, at in sizes]
        total = np.zeros(self.runs.shape[1], np.int64)
        wanting = np.arange(len(total))
        cells = self._fullest_first(product(*others), axis)
        kinds = len(self.table.counts) if len(others) == 2 else 1  # noqa: PLR2004 - of two attributes
        for made in chain(
            (self._of_instants(self._with(axis, value)) for value in others[axis]),
            (self._crossed(cell, axis, shift) for shift in range(kinds) for cell in cells),
        ):
            total[wanting] += made
            still = total[wanting] < wanted[wanting]
            if not still.any():
                break
            if 2 * still.sum() < len(still):
                self._only(still)
                wanting = wanting[still]
        return total

    def _only(self, runs: Bools) -> None:
        """Forget the runs that want no more."""
        self.runs = self.runs[:, runs]
        for key, counts in self._left.items():
            if counts.shape[1] > 1:
                self._left[key] = counts[:, runs]

    def _fullest_first(self, others: Iterable[tuple[int, ...]], axis: int) -> list[tuple[int, ...]]:
        """Cells to exchange with, those with which most can be exchanged first."""
        sizes = self.table.counts.sum(axis=(0, -1))

        def least(other: tuple[int, ...]) -> int:
            return -int(min(sizes[other], sizes[self._with(axis, other[axis])]))

        return sorted(others, key=least)

    def _with(self, axis: int, value: int) -> tuple[int, ...]:
        return (*self.place[:axis], value, *self.place[axis + 1 :])

    def _of_instants(self, flipped: tuple[int, ...]) -> Int64s:
        """Exchange within a group, one inside the run with one outside of it.

        As if the two had come at each other's instants.
        """
        made = np.minimum(self._come(flipped), self._go())
        self._used((flipped, self._there), made)
        self._used((self.place, self._back), made)
        return np.asarray(made.sum(axis=(0, 2)))

    def _crossed(self, other: tuple[int, ...], axis: int, shift: int) -> Int64s:
        """Exchange with other cells, and back: all places where values are one or the other's.

        Those of ``place`` and with its values but one are of one kind, the others of the kind that
        comes ``shift`` later.
        """
        mine = tuple(i == axis for i in range(len(other)))
        cells: tuple[list[tuple[int, ...]], list[tuple[int, ...]]] = ([], [])
        for flip in product((False, True), repeat=len(other)):
            if any(flip) and flip != mine:
                cells[sum(flip) % 2].append(tuple(np.where(flip, other, self.place).tolist()))
        flipped = self._with(axis, other[axis])
        with_us, against_us = cells
        there = (_later(self._anywhere(c), shift) for c in against_us)
        back = (_later(self._anywhere(c), shift) for c in with_us)
        come = reduce(np.minimum, [self._come(flipped), *there])
        go = reduce(np.minimum, [self._go(), *back])
        blocks = self.table.blocks if shift else self.table.whole
        made = np.minimum(blocks.summed(come), blocks.summed(go))
        come, go = blocks.first(come, made), blocks.first(go, made)
        self._used((flipped, self._there), come)
        self._used((self.place, self._back), go)
        for cell in against_us:
            self._used((cell, "all"), _later(come, -shift))
        for cell in with_us:
            self._used((cell, "all"), _later(go, -shift))
        return np.asarray(made.sum(axis=(0, 2)))

    @property
    def _there(self) -> str:
        return "outside" if self.lose else "inside"

    @property
    def _back(self) -> str:
        return "inside" if self.lose else "outside"

    def _come(self, flipped: tuple[int, ...]) -> Int64s:
        """Those with another value that could come into the cell where it is to have more."""
        return self._of((flipped, self._there))

    def _go(self) -> Int64s:
        """Those of the cell that could leave it where it is to have fewer."""
        return self._of((self.place, self._back))

    def _anywhere(self, cell: tuple[int, ...]) -> Int64s:
        return self._of((cell, "all"))

    def _of(self, key: tuple[tuple[int, ...], str]) -> Int64s:
        if key not in self._left:
            cell, where = key
            counts = _at(self.table.counts, cell)
            if where == "all":
                self._left[key] = self.table.groups.summed(counts)[:, None]
            else:
                self._left[key] = self.table.groups.split(counts, self.runs)[where == "outside"]
        return self._left[key]

    def _used(self, key: tuple[tuple[int, ...], str], made: Int64s) -> None:
        self._left[key] = self._of(key) - made


def _later(counts: Int64s, shift: int) -> Int64s:
    """The counts of each kind's partner: the kind that comes so much later, around the end."""
    return np.roll(counts, -shift, axis=0) if shift else counts
