"""A reader who solves all published tables of a world at once, by mixed integer programs.

Unknowns are the decisions of every finest span, atom, route, label and edition; every band that any
table shows is two inequalities. The reader also guesses, rightly, that hidden rows have fewer than
k decisions, or label counts that are all below k, which rows of a final edition repeat the first
one, and which rows have all their labels. Of every count below k (sizes, decisions by route, labels
by route, decisions without a label) the least and the largest number are found that agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import scipy.optimize
import scipy.sparse
from adversary.table_worlds import NONE, NOT_READY, READY, Ints, K, TableWorld

from monitor.core.tables.bands import Detail
from monitor.core.tables.narrowing import ANY
from monitor.core.tables.reader import LABEL_MEASURES, Measure, Reader, Table
from monitor.core.tables.spans import Edition

LABEL_OF = {Measure.READY: READY, Measure.NOT_READY: NOT_READY, Measure.UNANSWERED: NONE}
FEW_SHARE = 10
NOTHING = -1
SECONDS = 10.0
INFEASIBLE, UNBOUNDED = 2, 3


@dataclass(frozen=True, slots=True)
class Target:
    """A count below k.

    Attributes:
        what: where it is.
        cells: unknowns that it is the sum of.
        truth: the count.
        easy: how many values interval arithmetic leaves, an outer bound.
    """

    what: str
    cells: Ints
    truth: int
    easy: int


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a count."""

    target: Target
    low: int
    high: int

    @property
    def values(self) -> int:
        return self.high - self.low + 1

    def __str__(self) -> str:
        what, truth = self.target.what, self.target.truth
        return f"{what}: {self.values} values, {self.low} to {self.high}, true {truth}"


@dataclass
class Facts:
    """Inequalities over the unknowns."""

    cells: list[Ints] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def add(self, cells: Ints, low: float, high: float) -> None:
        self.cells.append(cells)
        self.low.append(low)
        self.high.append(high)

    def matrix(self, unknowns: int) -> scipy.sparse.csr_matrix:
        lengths = [len(cells) for cells in self.cells]
        rows = np.repeat(np.arange(len(lengths)), lengths)
        columns = np.concatenate([np.zeros(0, np.int64), *self.cells])
        return scipy.sparse.csr_matrix(
            (np.ones(len(columns)), (rows, columns)), shape=(len(lengths), unknowns)
        )


class Attack:
    """All that can be said of a world from its tables.

    Args:
        world: the truth.
        tables: what was published of it.
        k: smallest cell that may be shown.
        with_late: whether the reader reckons with late decisions.
        told: the reader knows how many decisions of a row have no label, if these are at most so
            many and at most a tenth; ``NOTHING`` if he knows of no row. With 0 he guesses which
            rows have all their labels; with more he brings decisions himself, which nothing
            protects from.
    """

    def __init__(
        self,
        world: TableWorld,
        tables: Sequence[Table],
        *,
        k: int = K,
        with_late: bool = False,
        told: int = 0,
    ) -> None:
        self._world, self._tables, self._k = world, tables, k
        self._told = told
        self._index = np.arange(world.counts.size).reshape(world.counts.shape)
        possible = np.zeros(world.counts.shape, bool)
        possible[..., 0] = True
        if with_late:
            possible[..., 1] = True
        if not world.labels:
            possible[..., 1:, :, :], possible[..., 1:, :] = False, False
        if not any(table.edition is Edition.FINAL for table in tables):
            possible &= np.eye(3, dtype=bool)[:, :, None]
        self._most = np.where(possible, np.inf, 0).ravel()
        self._truth = world.counts.ravel()
        self._facts = Facts()
        for table in tables:
            self._read(table)
        self._matrix = self._facts.matrix(world.counts.size)

    @property
    def guesses_right(self) -> bool:
        """Whether the world agrees with what the reader takes for given."""
        sums = self._matrix @ self._truth
        inside = (sums >= np.array(self._facts.low)) & (sums <= np.array(self._facts.high))
        return bool(inside.all() and (self._truth <= self._most).all())

    def targets(self) -> list[Target]:
        """All protected counts, each set of unknowns once."""
        targets: dict[bytes, Target] = {}
        reader = Reader(self._tables)
        low, high = reader.before
        left = np.split(high - low + 1, reader.bases[1:-1])
        for table, flat in zip(self._tables, left, strict=True):
            widths = flat.reshape(len(table.bands), -1)
            for row in np.flatnonzero(table.layout.declared).tolist():
                if table.measure is Measure.UNANSWERED and self._is_told(table, row):
                    continue
                columns = [*self._columns(table, row), *self._unlabelled(table, row)]
                for width, (name, cells) in zip(widths[row], columns, strict=False):
                    truth = int(self._truth[cells].sum())
                    if truth < self._k:
                        where = f"{table.span.name} {table.edition} {table.measure} {name}"
                        text = f"{where} of {str(table.layout.rows[row]) or 'all'}"
                        targets.setdefault(cells.tobytes(), Target(text, cells, truth, int(width)))
        return list(targets.values())

    def left(self, target: Target, *, whole: bool = True, seconds: float = SECONDS) -> Left | None:
        """What is left of a count in whole numbers (or in reals); None where guesses are wrong."""
        return solved(target, self._facts, self._matrix, self._most, whole=whole, seconds=seconds)

    def _unknowns(self, table: Table, row: int) -> Ints:
        """Unknowns of a row, shape (..., routes, first labels, final labels, late)."""
        name = table.layout.rows[row]
        inside = self._world.members(table.span)[row].astype(bool)
        cells = self._index[self._world.inside(table.span)][:, inside]
        assert name.band is None
        if table.measure is Measure.DECISIONS and table.span.kind == self._world.kinds[0]:
            return cells[..., :1]
        return cells

    def _columns(self, table: Table, row: int) -> Iterator[tuple[str, Ints]]:
        """The size of a row and its parts, as unknowns."""
        cells = self._unknowns(table, row)
        if table.measure is not Measure.DECISIONS:
            cells = self._labelled_as(LABEL_OF[table.measure], table, row)
        yield "size", cells.ravel()
        for part, name in enumerate(table.frame.parts):
            yield name, cells[:, :, part].ravel()

    def _unlabelled(self, table: Table, row: int) -> Iterator[tuple[str, Ints]]:
        """The decisions of each part without a label, unless the reader is told of these."""
        if table.measure is Measure.READY and not self._is_told(table, row):
            for part, name in enumerate(table.frame.parts):
                cells = self._labelled_as(NONE, table, row)
                yield f"no label of {name}", cells[:, :, part].ravel()

    def _is_told(self, table: Table, row: int) -> bool:
        return self._told > 0 or bool(self._told_rows(table)[row])

    def _labelled_as(self, label: int, table: Table, row: int) -> Ints:
        cells = self._unknowns(table, row)
        first = table.edition is Edition.FIRST
        return cells[..., label, :, :] if first else cells[..., :, label, :]

    def _read(self, table: Table) -> None:
        repeated = self._repeated(table)
        for row in np.flatnonzero(table.layout.declared).tolist():
            columns = list(self._columns(table, row))
            if table.edition is Edition.FINAL:
                cells = self._unknowns(table, row)
                moved = cells[..., ~np.eye(3, dtype=bool), :].ravel()
                low, high = (0, self._k - 1) if repeated[row] else (self._k, np.inf)
                self._facts.add(moved, low, high)
                if repeated[row]:
                    continue
            self._read_row(table, row, columns)
            if table.measure in LABEL_MEASURES and table.bands.detail[row] == Detail.HIDDEN:
                self._guess_few_labels(table, row)
        if table.measure is Measure.READY:
            self._read_unlabelled(table)

    def _repeated(self, table: Table) -> npt.NDArray[np.bool_]:
        return np.asarray(self._world.changed_in(table.span) < self._k)

    def _read_row(self, table: Table, row: int, columns: Sequence[tuple[str, Ints]]) -> None:
        bands = table.bands
        if bands.detail[row] == Detail.HIDDEN:
            _, size = columns[0]
            small = int(self._truth[size].sum()) < self._k
            if small and table.measure is Measure.DECISIONS:
                self._facts.add(size, 0, self._k - 1)
            return
        shown = columns if bands.detail[row] == Detail.COUNTS else columns[:1]
        for column, (_, cells) in enumerate(shown):
            self._facts.add(cells, bands.low[row, column], bands.high[row, column])

    def _guess_few_labels(self, table: Table, row: int) -> None:
        """The row is hidden: the reader guesses that all its label counts are below k."""
        for label in (READY, NOT_READY):
            for part in range(len(table.frame.parts)):
                cells = self._labelled_as(label, table, row)[:, :, part].ravel()
                if self._truth[cells].sum() < self._k:
                    self._facts.add(cells, 0, self._k - 1)

    def _read_unlabelled(self, table: Table) -> None:
        for row in np.flatnonzero(self._told_rows(table)).tolist():
            none = self._labelled_as(NONE, table, row)
            for part in range(len(table.frame.parts)):
                exact = int(self._truth[none[:, :, part]].sum())
                self._facts.add(none[:, :, part].ravel(), exact, exact)

    def _told_rows(self, table: Table) -> npt.NDArray[np.bool_]:
        counts = self._world.labels_of(table.span, table.edition)
        decisions = self._world.in_rows(table.span, self._world.counts.sum(axis=(2, 3, 4, 5)))
        unlabelled = decisions - counts.sum(axis=(0, 2))
        few = (unlabelled <= self._told) & (FEW_SHARE * unlabelled <= decisions)
        return np.asarray(few & table.layout.declared)


def solved(
    target: Target,
    facts: Facts,
    matrix: scipy.sparse.csr_matrix,
    most: npt.NDArray[np.float64],
    *,
    whole: bool = True,
    seconds: float = SECONDS,
) -> Left | None:
    """The least and the largest number of a count; None where the facts contradict each other."""
    goal = np.zeros(matrix.shape[1])
    goal[target.cells] = 1
    options = (int(whole), seconds)
    ends = [_end(sign * goal, facts, matrix, most, options) for sign in (1, -1)]
    if ends[0] is None or ends[1] is None:
        return None
    least, largest = np.ceil(max(ends[0], 0) - 1e-6), np.floor(min(-ends[1], ANY) + 1e-6)
    return Left(target, int(least), int(largest))


def _end(
    goal: npt.NDArray[np.float64],
    facts: Facts,
    matrix: scipy.sparse.csr_matrix,
    most: npt.NDArray[np.float64],
    options: tuple[int, float],
) -> float | None:
    """The least value of a goal: a bound that holds even where time ran out."""
    whole, seconds = options
    found = scipy.optimize.milp(
        goal,
        constraints=scipy.optimize.LinearConstraint(matrix, facts.low, facts.high),
        integrality=np.full(len(goal), whole),
        bounds=scipy.optimize.Bounds(0, most),
        options={"time_limit": seconds},
    )
    if found.status == INFEASIBLE:
        return None
    bound = found.fun if found.mip_dual_bound is None else found.mip_dual_bound
    return -np.inf if bound is None or found.status == UNBOUNDED else float(bound)


def narrowest(
    attack: Attack, most: int, seed: int, *, whole: int = 4, seconds: float = SECONDS
) -> list[Left]:
    """What is left of some protected counts, the narrowest first.

    Args:
        attack: the reader.
        most: how many counts are tried: half of them those that interval arithmetic narrows
            most, the others at random.
        seed: of the choice.
        whole: how many of the narrowest are solved in whole numbers.
        seconds: limit of each.
    """
    order = np.random.default_rng(seed)
    targets = sorted(attack.targets(), key=lambda target: target.easy)
    others = [targets[i] for i in most // 2 + order.permutation(max(len(targets) - most // 2, 0))]
    chosen = [*targets[: most // 2], *others[: most - most // 2]]
    in_reals = [attack.left(target, whole=False, seconds=seconds) for target in chosen]
    found = sorted((left for left in in_reals if left), key=lambda left: left.values)
    again = [attack.left(left.target, seconds=seconds) for left in found[:whole] if left.values < K]
    solved = [left for left in again if left is not None]
    return sorted([*solved, *found[len(solved) :]], key=lambda left: left.values)
