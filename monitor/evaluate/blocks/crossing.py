"""What the open block of a crossed family holds, pane by pane: for the question of exchange.

See :mod:`monitor.core.privacy.exchange`: whether a block may be closed depends on how its counts
are divided among the parts that the families it refines publish by themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Counter, Int64s, decode_strata, parse_atom
from monitor.core.counts.rollup import CellIndex, slice_text
from monitor.core.counts.strata import is_reviewed
from monitor.core.privacy.exchange import Axes, given_away
from monitor.core.time import DAY, HOUR

_ASKED = 6 * HOUR

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Columns:
    """Rows of counts: ``alike`` is in what they must agree to exchange, by crossed attribute."""

    at: Int64s
    row: Int64s
    alike: Int64s
    route: Int64s
    decisions: Int64s
    labels: Int64s

    def take(self, rows: Bools) -> _Columns:
        return _Columns(*(getattr(self, name)[rows] for name in self.__slots__))

    @classmethod
    def joined(cls, parts: Collection[_Columns]) -> _Columns:
        return cls(*(np.concatenate([getattr(p, n) for p in parts]) for n in cls.__slots__))


@dataclass(slots=True)
class CrossedBlock:
    """Counts of one open block.

    Attributes:
        axes: how the family crosses others.
        slices: rows of the family, all combinations of the values that it keeps; or, where earlier
            publications know of its instants, the parts that rows have in common.
        sides: how often these rows come, one after the other: once for each combination of use
            cases. Rows of two of them exchange nothing.
    """

    axes: Axes
    slices: tuple[str, ...]
    sides: int = 1
    _parts: list[_Columns] = field(default_factory=list)
    _found: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _alike: dict[str, int] = field(default_factory=dict)
    _shape: list[int] = field(init=False)
    _place: Int64s = field(init=False)
    _rest: Int64s = field(init=False)

    def __post_init__(self) -> None:
        """Find the place of every row among the values of the crossed attributes, and the rest."""
        rows = [parse_atom(text) for text in self.slices]
        crossed = self.axes.crossed
        self._shape, self._place = [], np.zeros(len(rows), np.int64)
        for name in crossed:
            values, value_of = np.unique([row[name] for row in rows], return_inverse=True)
            self._place = self._place * len(values) + value_of
            self._shape.append(len(values))
        rest = [str({n: v for n, v in row.items() if n not in crossed}) for row in rows]
        numbers = np.unique(rest, return_inverse=True)[1]
        self._rest = np.concatenate([numbers + side * len(rows) for side in range(self.sides)])
        self._place = np.tile(self._place, self.sides)

    def add(
        self, at: Int64s, rows: Int64s, positions: Int64s, values: Int64s, index: CellIndex
    ) -> None:
        """Take in counts.

        Args:
            at: start of the pane of each row.
            rows: row of the family that each belongs to; negative is outside.
            positions: of each row's cell in the index.
            values: counters of each row, not all of them 0.
            index: what the cells mean.
        """
        strata = decode_strata(index.strata[positions])
        inside = (rows >= 0) & ~strata.probe
        counted = np.where(is_reviewed(strata), values[:, Counter.LABELLED], 0)
        alike = self._kinds(index.atoms[positions], index)
        columns = _Columns(at, rows, alike, strata.route, values[:, Counter.N], counted)
        self._parts.append(columns.take(np.asarray(inside, bool)))

    def _kinds(self, atoms: Int64s, index: CellIndex) -> Int64s:
        """For each crossed attribute a number of the values in which decisions must agree."""
        known, atom_of = np.unique(atoms, return_inverse=True)
        texts = [index.atom_texts[atom] for atom in known.tolist()]
        kinds = [[self._kind(slice_text(t, names)) for names in self.axes.alike] for t in texts]
        return np.array(kinds, np.int64).reshape(-1, len(self.axes.alike))[atom_of]

    def _kind(self, text: str) -> int:
        return self._alike.setdefault(text, len(self._alike))

    def forget(self, before: int) -> None:
        """A block has ended: nothing that is older counts any more."""
        if self._parts:
            columns = _Columns.joined(self._parts)
            self._parts = [columns.take(columns.at >= before)]

    def hides(
        self,
        start: int,
        end: int,
        inner: Sequence[Collection[int]],
        beside: Sequence[Collection[int]],
        k: int,
        *,
        labels: bool,
    ) -> bool:
        """Return True when the block may end here: no small count of a part is given away.

        Args:
            start: where the block begins.
            end: where it would end.
            inner: for each crossed attribute the edges of what is refined and has it.
            beside: those of what crosses this family there, as far as they are known (of
                :func:`known_until`).
            k: smallest cell that may be shown.
            labels: whether it is a block of labels, too.
        """
        edges = [sorted(at for at in some if start < at < end) for some in inner]
        every = np.unique(np.concatenate([[start], *edges])).astype(np.int64)
        if len(every) == 1 or not self._parts:
            return True
        columns = _Columns.joined(self._parts)
        self._parts = [columns]
        columns = columns.take((columns.at >= start) & (columns.at < end))
        together = [np.searchsorted(some, every, side="right") for some in edges]
        blocks = [
            _blocks(every, runs, some, known_until(end))
            for runs, some in zip(together, beside, strict=True)
        ]
        for number, (mask, of_labels) in enumerate(self._groups(columns, labels)):
            tables = list(self._tables(columns, every, mask, of_labels))
            local = [tables[0].sum(axis=0, keepdims=True)] * len(tables)
            first = self._found.get(number)
            found = given_away(local, k, together, first=first)
            if found is None and max(map(len, tables)) > 1:
                found = given_away(tables, k, together, blocks, first=first, numbers=(k + 1) // 2)
            if found is not None:
                self._found[number] = found
                return False
        return True

    def _groups(self, columns: _Columns, labels: bool) -> Iterator[tuple[Bools, bool]]:
        """Rows that are looked at together: those of the same values but of crossed attributes.

        Decisions, and then labels, route by route.
        """
        stays = self._rest[columns.row]
        for one in np.unique(stays).tolist():
            yield stays == one, False
            for route in np.unique(columns.route).tolist() if labels else ():
                yield (stays == one) & (columns.route == route), True

    def _tables(
        self, columns: _Columns, starts: Int64s, rows: Bools, labels: bool
    ) -> Iterator[Int64s]:
        """Counts by kind, place and part, for the exchange of each crossed attribute."""
        some = columns.take(rows)
        part = np.searchsorted(starts, some.at, side="right") - 1
        place = self._place[some.row]
        for alike in some.alike.T:
            _, kind = np.unique(alike, return_inverse=True)
            shape = (int(kind.max(initial=0)) + 1, int(np.prod(self._shape)), len(starts))
            counts = np.zeros(shape, np.int64)
            np.add.at(counts, (kind, place, part), some.labels if labels else some.decisions)
            yield counts.reshape(len(counts), *self._shape, len(starts))


def may_end(start: int, end: int) -> bool:
    """Return True when it is worth asking whether a block from one instant to another may end.

    Blocks that are open for more than a day may do so at four instants a day only: the question
    takes longer then, and is not asked in vain every hour.
    """
    return end - start <= DAY or end % _ASKED == 0


def known_until(end: int) -> int:
    """The instant up to which edges of other crossed families are known, if a block may end here.

    Panes are closed day by day, one family after the other: those of the day are not known yet.
    """
    return (end - 1) // DAY * DAY


def _blocks(starts: Int64s, runs: Int64s, edges: Collection[int], until: int) -> Int64s:
    """A number for each part: equal ones lie in one block of what has these edges.

    Args:
        starts: of the parts.
        runs: a number for each; parts of one number have no edge between them.
        edges: known up to an instant.
        until: that instant; later any part may end a block.
    """
    known = np.sort(np.fromiter((at for at in edges if at <= until), np.int64))
    later = np.where(starts >= until, runs + 1, 0)
    return np.asarray(np.searchsorted(known, starts, side="right") * (len(runs) + 2) + later)
