"""One family as it is released: its merge map, the edges of its blocks, and what is still open."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Counts, Int64s, decode_strata, parse_atom
from monitor.core.counts.rollup import CellIndex, slice_text
from monitor.core.privacy.exchange import Axes
from monitor.core.privacy.families import SliceFamily
from monitor.core.privacy.pooling import MergeMap
from monitor.core.privacy.release_blocks import BlockTally, Condition, Edge, Pane, Span, advance
from monitor.core.time import DAY, HOUR
from monitor.evaluate.blocks.crossing import CrossedBlock, may_end
from monitor.evaluate.blocks.units import RowUnits
from monitor.ports import PaneUnits
from monitor.store.evaluator.release_blocks import StoredMap

LABEL_GRID = 6 * HOUR
"""Blocks of labels end at four instants a day only, so that families that are refined together
end theirs together: their intersection can advance at no other instant."""

LABEL_STRIDE = 2 * DAY
"""The same for blocks that take longer: those of an intersection end only where all that it refines
happen to have an edge, and that would be hardly ever."""

POOLING = 1
"""Changes when maps are made by another rule: blocks made by the old one are then made anew."""

Bools = npt.NDArray[np.bool_]
Where = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Former:
    """Settings and a merge map that blocks were published under before.

    Attributes:
        until: end of the last of these blocks of decisions; later ones know nothing of it.
        label_until: the same of labels.
        kept: values that had a name, by attribute.
        labelled: the same in blocks of labels: no more.
        where: attribute values that decided which decisions belong to the use case.
    """

    until: int
    label_until: int
    kept: Mapping[str, tuple[str, ...]]
    labelled: Mapping[str, tuple[str, ...]]
    where: Where

    def like(self, other: Former) -> bool:
        """Return True when the rows are the same, whenever it was."""
        return replace(self, until=other.until, label_until=other.label_until) == other

    def known(self, start: int, labels: bool) -> Mapping[str, tuple[str, ...]] | None:
        """Values that had a name in what was published since an instant; None without.

        Blocks of labels were of decisions too.
        """
        if not labels and self.until > start:
            return self.kept
        return self.labelled if self.label_until > start else None

    def ends(self, labels: bool) -> tuple[int, ...]:
        """The instants from which less of it is known."""
        return (self.label_until,) if labels else (self.until, self.label_until)


class Rows:
    """The row of a family that each cell belongs to.

    With former maps these are the parts that the present rows and the former ones have in common: a
    value has a name if any map gave it one, and what is inside of a use case is apart from what is
    outside of it. Whoever subtracts what is published now from what was published then finds sums
    of such parts.

    Attributes:
        slices: texts of the present rows, sorted; without former maps row i is slice i.
        sides: of how many combinations of former and present use cases there are rows.
        size: number of rows.
    """

    def __init__(
        self,
        family: SliceFamily,
        pooling: MergeMap,
        former: Collection[tuple[Mapping[str, tuple[str, ...]], Where]] = (),
    ) -> None:
        self.slices = pooling.slices
        kept = {
            name: tuple(sorted({*values, *(v for one, _ in former for v in one.get(name, ()))}))
            for name, values in pooling.kept.items()
        }
        self._family = family
        self._pooling = MergeMap(kept)
        self._wheres = sorted({family.where, *(where for _, where in former)})
        self._position = {text: row for row, text in enumerate(self._pooling.slices)}
        self.sides = 2 ** len(self._wheres) - 1
        self.size = len(self._position) * self.sides
        self._index: CellIndex | None = None
        self._rows: Int64s = np.empty(0, np.int64)

    @property
    def parts(self) -> tuple[str, ...]:
        """Texts of the rows of one side: row i of side s is number ``s * len(parts) + i``."""
        return self._pooling.slices

    def of(self, index: CellIndex) -> Int64s:
        """Row of every cell of the index; -1 is outside the use case."""
        if index is not self._index:
            self._rows, self._index = self.of_atoms(index.atoms, index), index
        return self._rows

    def units(self, units: PaneUnits, index: CellIndex) -> RowUnits:
        """Decisions by unit of these rows."""
        rows = self.of_atoms(units.atoms, index)
        return RowUnits(units.grain, units.panes, rows, units.counts, self.size)

    def of_atoms(self, atoms: Int64s, index: CellIndex) -> Int64s:
        """Row of each atom; -1 is outside the use case."""
        known, atom_of = np.unique(atoms, return_inverse=True)
        rows = [self._row(index.atom_texts[atom]) for atom in known.tolist()]
        return np.array(rows, np.int64)[atom_of]

    def _row(self, atom: str) -> int:
        values = parse_atom(atom).items()
        inside = sum((set(where) <= values) << i for i, where in enumerate(self._wheres))
        if not inside:
            return -1
        name = self._pooling.name(slice_text(atom, self._family.attributes))
        return (inside - 1) * len(self._position) + self._position[name]


@dataclass(slots=True)
class FamilyState:
    """State of one family; equal to what the store holds after every commit.

    Attributes:
        family: which.
        pooling: merge map; None before the first one, then nothing is published.
        label_pooling: that of its labels, which keeps no more; the same where nothing says else.
        unlabelled: rows of labels and routes whose labels are taken as not given.
        left_out: rows that are in no table of any family.
        left_out_share: at most this share of the decisions of the last weeks; None without.
        edges: increasing, in event time; blocks of decisions lie between them, the first edge
            is where the first block begins. Off the hour only within the last day.
        label_edges: the same for labels; a subset on the hour.
        abandoned: edges of abandoned blocks, which are never published, and instants that were such
            edges: an instant stays abandoned, whatever block holds it.
        label_abandoned: the same for labels.
        tail: counts of the open block of decisions.
        label_tail: counts of the open block of labels.
        refined: whether the blocks of another family are unions of its own.
        axes: how its slices cross those of others; None where they cross none.
        crossings: the open block of decisions pane by pane, and that of labels; where it matters.
        former: maps that blocks were published under before.
    """

    family: SliceFamily
    pooling: MergeMap | None = None
    label_pooling: MergeMap | None = None
    unlabelled: frozenset[tuple[str, int]] = frozenset()
    left_out: frozenset[str] = frozenset()
    left_out_share: float | None = None
    edges: list[int] = field(default_factory=list)
    label_edges: list[int] = field(default_factory=list)
    abandoned: set[int] = field(default_factory=set)
    label_abandoned: set[int] = field(default_factory=set)
    tail: BlockTally = field(default_factory=lambda: BlockTally.empty(0))
    label_tail: BlockTally = field(default_factory=lambda: BlockTally.empty(0))
    refined: bool = False
    rows: Rows | None = None
    label_rows: Rows | None = None
    axes: Axes | None = None
    crossings: list[CrossedBlock] | None = None
    former: list[Former] = field(default_factory=list)
    _counted: dict[tuple[bool, int], Rows] = field(default_factory=dict)
    _written: tuple[_Written, StoredMap] | None = None

    @property
    def open(self) -> bool:
        """True when blocks can be made at all."""
        return self.pooling is not None or self.family.k == 1

    def use(self, pooling: MergeMap | None, label_pooling: MergeMap | None = None) -> None:
        """Take merge maps; what the open blocks hold is then to be counted anew."""
        self.pooling, self.label_pooling = pooling, label_pooling or pooling
        self.rows = self.label_rows = self.crossings = None
        self._counted = {}
        if pooling is not None and self.family.k > 1:
            self.rows = Rows(self.family, pooling)
            self.label_rows = Rows(self.family, self.map_of(labels=True))
            if self.axes:
                self.crossings = [self._crossed(labels) for labels in (False, True)]
        self.tail, self.label_tail = (self.empty(labels) for labels in (False, True))

    def _crossed(self, labels: bool) -> CrossedBlock:
        """An open block that holds nothing yet, by the rows that it is counted by."""
        assert self.axes is not None, "called for families that cross others"  # noqa: S101
        rows = self.counted(labels)
        return CrossedBlock(self.axes, rows.parts, rows.sides)

    def map_of(self, labels: bool) -> MergeMap:
        """The merge map of its decisions, or that of its labels."""
        pooling = self.label_pooling if labels else self.pooling
        assert pooling is not None, "called with a map"  # noqa: S101
        return pooling

    def rows_of(self, labels: bool) -> Rows:
        """The rows of its decisions, or those of its labels."""
        rows = self.label_rows if labels else self.rows
        assert rows is not None, "only families that hide something count"  # noqa: S101
        return rows

    def counted(self, labels: bool) -> Rows:
        """The rows that the open block is counted by.

        Where earlier publications know of its instants, these are parts of rows.
        """
        return self.parts_since(max(self.of(labels)[0], default=0), labels)

    def parts_since(self, start: int, labels: bool) -> Rows:
        """The parts that its rows have in common with those of what was published since then."""
        key = labels, sum(end > start for one in self.former for end in one.ends(labels))
        if key not in self._counted:
            found = [(one.known(start, labels), one.where) for one in self.former]
            known = [(names, where) for names, where in found if names is not None]
            self._counted[key] = Rows(self.family, self.map_of(labels), known)
        return self._counted[key]

    def empty(self, labels: bool) -> BlockTally:
        """An open block that holds nothing yet."""
        return BlockTally.empty(self.counted(labels).size if self.rows else 0)

    def remember(self) -> None:
        """Keep the map, since blocks are about to be made anew under another one."""
        if self.pooling is not None:
            kept, labelled = (self.map_of(labels).kept for labels in (False, True))
            self._remember(Former(*self._published_until, kept, labelled, self.family.where))

    @property
    def _published_until(self) -> tuple[int, int]:
        """Where its last blocks of decisions and of labels end; 0 without."""
        return max(self.edges[1:], default=0), max(self.label_edges[1:], default=0)

    def _remember(self, former: Former) -> None:
        alike = [one for one in (*self.former, former) if one.like(former)]
        until = max(one.until for one in alike)
        label_until = max(one.label_until for one in alike)
        if until or label_until:
            others = [one for one in self.former if not one.like(former)]
            self.former = [*others, replace(former, until=until, label_until=label_until)]

    def begin(self, at: int) -> None:
        """Forget all blocks, but not which were abandoned; the first one begins here."""
        self.edges, self.label_edges = [at], [at]
        self.use(self.pooling, self.label_pooling)

    def forget(self, before: int) -> None:
        """Drop blocks that begin earlier: their counts are deleted."""
        for edges in (self.edges, self.label_edges):
            edges[:] = [edge for edge in edges if edge >= before] or edges[-1:]
        self.former = [o for o in self.former if max(o.until, o.label_until) > before]
        self.abandoned = {edge for edge in self.abandoned if edge >= before}
        self.label_abandoned = {edge for edge in self.label_abandoned if edge >= before}

    def take(
        self,
        run: PaneRun,
        allowed: Collection[int],
        *,
        labels: bool,
        given_up: Collection[int] = (),
        inner: Sequence[Collection[int]] = (),
        beside: Sequence[Collection[int]] = (),
    ) -> list[Edge]:
        """Add successive closed panes; returns the edges that were made.

        Args:
            run: the panes.
            allowed: instants at which a block may end.
            labels: whether they are closed to labels, not to decisions.
            given_up: instants at which the open block is abandoned, whatever it holds.
            inner: for each attribute that it crosses, edges of what publishes parts of its blocks.
            beside: for each of them, edges of what publishes it with attributes of others.
        """
        edges, abandoned = self.of(labels)
        if self.rows is None:  # nothing is hidden here
            made = [Edge(end) for end in run.ends if end in allowed]
            edges.extend(edge.at for edge in made)
            return made
        ended = frozenset(abandoned).union(given_up)
        self.cross(run.starts, run.cells, run.values, run.index, labels=labels)
        stride = (LABEL_STRIDE if self.refined else LABEL_GRID) if labels else HOUR
        hides = self._hides(inner, beside, labels)
        condition = Condition(self.family.k, labels, allowed, ended, stride, hides)
        made = self._advance(run, condition, labels)
        if made and self.crossings:
            self.crossings[labels].forget(made[-1].at)
        return made

    def _advance(self, run: PaneRun, condition: Condition, labels: bool) -> list[Edge]:
        """Make blocks of a run, until the rows that they are counted by change; and so on."""
        edges, abandoned = self.of(labels)
        made: list[Edge] = []
        while True:
            last, rows = edges[-1], self.counted(labels)
            ends = (end for one in self.former for end in one.ends(labels))
            until = min((end for end in ends if end > last), default=None)
            panes = (pane for pane in run.panes(rows) if pane.end > last)
            tail = self.label_tail if labels else self.tail
            some, tail = advance(last, tail, panes, condition, until)
            abandoned |= {edge.at for edge in some if edge.burned}
            edges.extend(edge.at for edge in some)
            made += some
            same = self.counted(labels) is rows
            self.leave_open(tail if same else self.empty(labels), labels)
            if same:
                return made
            self.forget_crossing(labels)
            later = run.starts >= edges[-1]
            self.cross(
                run.starts[later], run.cells[later], run.values[later], run.index, labels=labels
            )

    def cross(
        self, at: Int64s, cells: Int64s, values: Int64s, index: CellIndex, *, labels: bool
    ) -> None:
        """Remember counts of the open block by pane, where other families publish parts of it.

        Args:
            at: start of the pane of each row.
            cells: cell id of each row.
            values: its counters.
            index: what the cells mean.
            labels: whether it is the block of labels.
        """
        if self.crossings:
            positions = np.searchsorted(index.cells, cells)
            rows = self.counted(labels).of(index)[positions]
            self.crossings[labels].add(at, rows, positions, values, index)

    def forget_crossing(self, labels: bool) -> None:
        """The open block is about to be counted anew."""
        if self.crossings:
            self.crossings[labels] = self._crossed(labels)

    def _hides(
        self, inner: Sequence[Collection[int]], beside: Sequence[Collection[int]], labels: bool
    ) -> Callable[[int, int], bool]:
        def hides(start: int, end: int) -> bool:
            if self.crossings is None:
                return True
            block, k = self.crossings[labels], self.family.k
            return may_end(start, end) and block.hides(start, end, inner, beside, k, labels=labels)

        return hides

    def abandon(self, at: int, *, labels: bool) -> None:
        """Abandon the open block, which ends here; the tail after it is still to be counted."""
        edges, abandoned = self.of(labels)
        edges.append(at)
        abandoned.add(at)

    def of(self, labels: bool) -> tuple[list[int], set[int]]:
        """Edges of decisions or of labels, and those of abandoned blocks."""
        return (self.label_edges, self.label_abandoned) if labels else (self.edges, self.abandoned)

    def leave_open(self, tail: BlockTally, labels: bool) -> None:
        """Set the counts of the open block."""
        if labels:
            self.label_tail = tail
        else:
            self.tail = tail

    def tally(
        self, counts: Counts, units: PaneUnits, index: CellIndex, rows: Rows | None = None
    ) -> BlockTally:
        """Counts by row: of this family, or by others."""
        rows = rows or self.rows_of(labels=False)
        at = np.searchsorted(index.cells, counts.keys)
        tally = BlockTally.of(rows.size, rows.of(index)[at], index.strata[at], counts.values)
        return replace(tally, units=rows.units(units, index).summed())

    def shown_edges(self, *, labels: bool) -> list[int]:
        """All edges but those of abandoned blocks at the end: the blocks before them stay shown."""
        edges, abandoned = self.of(labels)
        last = len(edges)
        while last > 1 and edges[last - 1] in abandoned:
            last -= 1
        return edges[:last]

    def abandoned_spans(self, *, labels: bool) -> list[Span]:
        """Spans of the abandoned blocks, which are never published."""
        edges, abandoned = self.of(labels)
        ends = {bisect_left(edges, at) for at in abandoned}
        return [Span(edges[i - 1], edges[i]) for i in sorted(ends) if 0 < i < len(edges)]

    @property
    def condition(self) -> str:
        """Settings that its blocks were made under: other settings need other blocks."""
        family = self.family
        return json.dumps([POOLING, family.k, family.attributes, family.where])

    def stored(self) -> StoredMap | None:
        """The merge map as it is kept; None before there is one."""
        if self.pooling is None:
            return None
        now = _Written.of(self)
        # Every table of every publication asks for it; it changes once a week.
        if self._written is None or self._written[0] != now:
            self._written = now, StoredMap(self.condition, now.body())
        return self._written[1]

    def restore(self, stored: StoredMap | None) -> bool:
        """Take the map that is kept; False where there is none made under these settings."""
        if stored is None:
            return False
        body = json.loads(stored.body)
        self.abandoned.update(body["burned"])
        self.label_abandoned.update(body["label_burned"])
        # Older releases kept no former maps, and had one map for decisions and labels.
        for until, kept, where, *of_labels in body.get("former", ()):
            label_until, labelled = of_labels or (until, kept)
            names = _kept(kept), _kept(labelled)
            self._remember(Former(until, label_until, *names, _where(where)))
        kept, labelled = _kept(body["kept"]), _kept(body.get("labelled", body["kept"]))
        if stored.condition != self.condition:
            where = _where(json.loads(stored.condition)[3])
            self._remember(Former(*self._published_until, kept, labelled, where))
            return False
        self.unlabelled = frozenset((row, route) for row, route in body["unlabelled"])
        self.left_out = frozenset(body["left_out"])
        self.left_out_share = body["left_out_share"]
        self.use(MergeMap(kept), MergeMap(labelled))
        return True


class _Written(NamedTuple):
    """What is written of a merge map; the attributes are those of its family."""

    pooling: MergeMap
    label_pooling: MergeMap
    unlabelled: frozenset[tuple[str, int]]
    left_out: frozenset[str]
    left_out_share: float | None
    abandoned: frozenset[int]
    label_abandoned: frozenset[int]
    former: tuple[Former, ...]

    @classmethod
    def of(cls, state: FamilyState) -> _Written:
        """As it is now; of abandoned edges those that are no edges any more."""
        return cls(
            state.map_of(labels=False),
            state.map_of(labels=True),
            state.unlabelled,
            state.left_out,
            state.left_out_share,
            frozenset(state.abandoned.difference(state.edges)),
            frozenset(state.label_abandoned.difference(state.label_edges)),
            tuple(state.former),
        )

    def body(self) -> str:
        """As text."""
        body = {
            "kept": self.pooling.kept,
            "labelled": self.label_pooling.kept,
            "unlabelled": sorted(self.unlabelled),
            "left_out": sorted(self.left_out),
            "left_out_share": self.left_out_share,
            "burned": sorted(self.abandoned),
            "label_burned": sorted(self.label_abandoned),
            "former": [
                [one.until, one.kept, one.where, one.label_until, one.labelled]
                for one in self.former
            ],
        }
        return json.dumps(body, sort_keys=True)


def kept_out(states: Iterable[FamilyState], index: CellIndex) -> tuple[Bools, Bools]:
    """Cells that are in no table, and cells whose labels are taken as not given.

    One flag a cell of the index.
    """
    left_out = np.zeros(len(index.cells), bool)
    unlabelled = left_out.copy()
    routes = decode_strata(index.strata).route
    for state in states:
        for text in state.left_out:
            left_out |= _cells(state, index, text, labels=False)
        for text, route in state.unlabelled:
            unlabelled |= _cells(state, index, text, labels=True) & (routes == route)
    return left_out, unlabelled


def _cells(state: FamilyState, index: CellIndex, text: str, *, labels: bool) -> Bools:
    """Mask of the cells of one row."""
    rows = state.rows_of(labels)
    return np.asarray(rows.of(index) == rows.slices.index(text), bool)


def _kept(stored: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(values) for name, values in stored.items()}


def _where(stored: Sequence[Sequence[str]]) -> Where:
    return tuple((name, value) for name, value in stored)


@dataclass(frozen=True, slots=True)
class PaneRun:
    """Successive closed panes: where each ends, and the rows of counts they hold.

    Attributes:
        ends: increasing, microseconds.
        pane: for every row the position in ``ends``.
        cells: cell id of every row.
        values: its counters.
        index: what the cells mean.
        units: decisions by unit; rows of the same panes.
        first: number of the first pane.
    """

    ends: Sequence[int]
    pane: Int64s
    cells: Int64s
    values: Int64s
    index: CellIndex
    units: PaneUnits
    first: int

    @property
    def starts(self) -> Int64s:
        """Start of the pane of every row, microseconds."""
        return (self.first + self.pane) * self.units.grain

    def panes(self, rows: Rows) -> Iterable[Pane]:
        """The panes by row of a family."""
        at, size = np.searchsorted(self.index.cells, self.cells), rows.size
        row = rows.of(self.index)[at]
        place = np.where(row < 0, -1, self.pane * size + row)
        whole = BlockTally.of(len(self.ends) * size, place, self.index.strata[at], self.values)
        units = rows.units(self.units, self.index)
        for i, end in enumerate(self.ends):
            part = slice(i * size, (i + 1) * size)
            shares = units.of_pane(self.first + i)
            yield Pane(end, BlockTally(whole.decisions[part], whole.labels[part], shares))
