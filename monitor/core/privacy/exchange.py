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

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.privacy.exchange_tables import ExchangeTable, Groups
from monitor.core.privacy.exchanges import Exchanges
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
    question = _BlockQuestion(
        min(tables, key=len),
        [ExchangeTable.of(*one) for one in zip(tables, together, beside, strict=True)],
        together,
        k,
        numbers or k,
    )
    sizes = tables[0].shape[1:-1]
    found = question.given_away(None if first is None else int(np.ravel_multi_index(first, sizes)))
    return None if found is None else tuple(map(int, np.unravel_index(found, sizes)))


@dataclass(slots=True)
class _BlockQuestion:
    """Whether any cell of a block is given away.

    Attributes:
        counts: of the fewest kinds, for the program.
        tables: counts for the exchange of each crossed attribute.
        together: as in :func:`given_away`, like all that follows.
    """

    counts: Int64s
    tables: Sequence[ExchangeTable]
    together: Sequence[Int64s]
    k: int
    numbers: int
    _program: Program | None = None

    def given_away(self, first: int | None) -> int | None:
        """The first cell with a small count that could be neither k nor any of k numbers."""
        cells = np.arange(len(self.tables[0].full))
        portions = [cells] if first is None else [cells[[first]], cells[cells != first]]
        return next((at for some in portions if (at := self._first_of(some)) is not None), None)

    def _first_of(self, cells: Int64s) -> int | None:
        """The first of some cells that is given away."""
        pinned: set[int] = set()
        for groups in self._published():
            small = self._doubtful(SmallRuns.of(self.tables[0], cells, groups, self.k))
            for cell, *run in np.column_stack([small.cells, *small.least]).tolist():
                if cell > min(pinned, default=cell):
                    break
                if cell not in pinned and not self._by_program(cell, (run[0], run[1])):
                    pinned.add(cell)
        return min(pinned, default=None)

    def _published(self) -> list[Groups]:
        """Parts as the marginals publish them; those of two are often the same."""
        groups = {table.groups.starts.tobytes(): table.groups for table in self.tables}
        return list(groups.values())

    def _doubtful(self, small: SmallRuns) -> SmallRuns:
        """The runs for which exchanges of every one attribute are too few.

        Tried first are the shortest ones, and cells that promise most: in a world in which a run
        holds k, each run that it is part of holds k too.
        """
        shortest = small.take(small.shortest)
        could = self._could_come(shortest, self.k - shortest.total)
        small = small.without(shortest.take(could))
        small = small.take(~self._could_come(small, self._wanted(small)))
        for axis, table in enumerate(self.tables):
            if len(small.total):
                small = small.take(self._too_few(small, axis, table))
        return small

    def _wanted(self, small: SmallRuns) -> Int64s:
        """How many more would be enough."""
        return np.asarray(np.minimum(self.k - small.total, self.numbers - 1))

    def _could_come(self, small: SmallRuns, wanted: Int64s) -> Bools:
        """The runs into which it is quickly seen that so many could come, some of all."""
        found = np.zeros(len(wanted), bool)
        for axis, table in enumerate(self.tables):
            left = np.flatnonzero(~found)
            left = left[table.room(axis, small.cells[left], small.least[:, left]) >= wanted[left]]
            if len(left):
                asked = wanted[left], small.cells[left], small.least[:, left]
                come = Exchanges(table, axis, False).up_to(*asked, quick=True)
                found[left] = come >= wanted[left]
        return found

    def _too_few(self, small: SmallRuns, axis: int, table: ExchangeTable) -> Bools:
        """The runs for which exchanges of one attribute are too few."""
        wanted = self._wanted(small)
        more = Exchanges(table, axis, False).up_to(wanted, small.cells, small.least)
        still = more < wanted
        if still.any():
            some, fewest = small.take(still), self.numbers - 1 - more[still]
            few = Exchanges(table, axis, True).up_to(fewest, some.cells, some.most)
            still[still] = few < fewest
        return np.asarray(still, bool)

    def _by_program(self, cell: int, run: tuple[int, int]) -> bool:
        from monitor.core.privacy.exchange_program import Program  # noqa: PLC0415 - slow to load

        if self._program is None:
            self._program = Program.of(self.counts, self.together)
        place = np.unravel_index(cell, self.tables[0].sizes)
        return self._program.hides(tuple(map(int, place)), run, self.k, self.numbers)


@dataclass(frozen=True, slots=True)
class SmallRuns:
    """Runs of parts that hold 1 to k - 1 of a cell, and have a part at each end that is not empty.

    Attributes:
        cells: of each, increasing.
        least: first part and end (exclusive) of each, shape (2, R).
        most: the same with the empty parts around it.
        total: how many it holds, shape (R,).
        shortest: whether it has one part that is not empty: as the marginal publishes them.
    """

    cells: Int64s
    least: Int64s
    most: Int64s
    total: Int64s
    shortest: Bools

    @classmethod
    def of(cls, table: ExchangeTable, cells: Int64s, groups: Groups, k: int) -> SmallRuns:
        """Those of some cells: runs of groups."""
        counts = groups.summed(np.diff(table.running[:, cells].sum(axis=0)))
        cell, there = np.nonzero(counts)
        new = np.append(True, np.diff(cell) > 0)
        before = np.where(new, -1, np.append(-1, there[:-1]))
        after = np.where(np.append(new[1:], True), counts.shape[1], np.append(there[1:], 0))
        running = np.append(0, np.cumsum(counts[cell, there]))
        i = np.repeat(np.arange(len(there)), k)  # k parts that are not empty hold k
        j = i + np.tile(np.arange(k), len(there))
        i, j = i[j < len(there)], j[j < len(there)]
        total = running[j + 1] - running[i]
        inside = (cell[i] == cell[j]) & (total < k)
        i, j, total = (column[inside] for column in (i, j, total))
        first, end = groups.starts, groups.ends
        least = np.stack([first[there[i]], end[there[j]]])
        most = np.stack([first[before[i] + 1], end[after[j] - 1]])
        return cls(cells[cell[i]], least, most, total, i == j)

    def without(self, others: SmallRuns) -> SmallRuns:
        """Those that hold none of some others, whose runs have no part in common."""
        if not len(others.total):
            return self
        parts = int(self.least.max()) + 1
        first = np.searchsorted(
            others.cells * parts + others.least[0], self.cells * parts + self.least[0]
        )
        last = np.minimum(first, len(others.cells) - 1)
        holds = (first == last) & (others.cells[last] == self.cells)
        return self.take(~(holds & (others.least[1][last] <= self.least[1])))

    def take(self, runs: Bools) -> SmallRuns:
        """Some of them."""
        columns = self.least[:, runs], self.most[:, runs]
        return SmallRuns(self.cells[runs], *columns, self.total[runs], self.shortest[runs])
