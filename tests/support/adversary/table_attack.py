"""A reader who solves all published tables of a world at once, by mixed integer programs.

Unknowns are the decisions of every finest span, atom, part, label and edition; every band that any
table shows is two inequalities. Where every label is requested, the reader knows that each decision
without one still lacks it. The reader also guesses, rightly, which hidden rows have fewer than k
decisions, or label counts that are all below k, which rows of a final edition repeat the first one,
and which rows that show labels have all that were requested. Of every count below k (sizes,
decisions by part, labels by part and in all, missing labels, decisions without a label) the least
and the largest number are found that agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import numpy.typing as npt
import scipy.optimize
import scipy.sparse
from adversary.table_worlds import COMES, LABELS, NEVER, NONE, NOT_READY, READY, Ints, K, TableWorld

from monitor.core.tables.bands import Detail
from monitor.core.tables.narrowing import ANY
from monitor.core.tables.reader import LABEL_MEASURES, Measure, Reader, Table
from monitor.core.tables.row_counts import Column
from monitor.core.tables.spans import Edition

LABEL_OF = {Measure.READY: READY, Measure.NOT_READY: NOT_READY, Measure.UNANSWERED: NONE}
FEW_SHARE = 10
NOTHING = -1
SECONDS = 10.0
INFEASIBLE, UNBOUNDED = 2, 3
CHANGES = (
    *((1, 0, -1, 1), (-1, 0, 1, -1)),  # more or fewer labels that say ready
    *((0, 1, 1, -1), (0, -1, -1, 1)),  # more or fewer that say not ready
    *((1, 1, 0, 0), (0, 0, 1, 1)),  # came, and were corrected
)
"""Signs of the moves of ``COMES``: each a number of labels that certainly changed."""
NEVER_NEGATIVE = (4, 5)


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
    signs: list[Ints] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def add(self, cells: Ints, low: float, high: float, signs: Ints | None = None) -> None:
        self.cells.append(cells)
        self.signs.append(np.ones(len(cells), np.int64) if signs is None else signs)
        self.low.append(low)
        self.high.append(high)

    def matrix(self, unknowns: int) -> scipy.sparse.csr_matrix:
        lengths = [len(cells) for cells in self.cells]
        rows = np.repeat(np.arange(len(lengths)), lengths)
        columns = np.concatenate([np.zeros(0, np.int64), *self.cells])
        signs = np.concatenate([np.zeros(0), *self.signs])
        return scipy.sparse.csr_matrix((signs, (rows, columns)), shape=(len(lengths), unknowns))


class Attack:
    """All that can be said of a world from its tables.

    Args:
        world: the truth.
        tables: what was published of it.
        k: smallest cell that may be shown.
        with_late: whether the reader reckons with late decisions.
        told: the reader knows how many requested labels of a row have not come, if these are at
            most so many and at most a tenth of the decisions; ``NOTHING`` for no row. With 0 the
            reader guesses which rows have all their labels; with more he brings decisions himself,
            which nothing protects from.
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
        self._most = np.where(self._possible(with_late), np.inf, 0).ravel()
        self._truth = world.counts.ravel()
        self._facts = Facts()
        self._told_of = np.zeros(world.counts.size, bool)
        for table in tables:
            self._read(table)
        self._matrix = self._facts.matrix(world.counts.size)

    def _possible(self, with_late: bool) -> npt.NDArray[np.bool_]:
        """Return True for the unknowns that may be above 0, by what is known of every world."""
        final = any(table.edition is Edition.FINAL for table in self._tables)
        moves = np.eye(len(LABELS), dtype=bool)
        moves[COMES[0], COMES[1]] = final
        possible = np.zeros(self._world.counts.shape, bool)
        for place, part in enumerate(self._world.parts):
            reviewed, sampled = part.audit_rate is not None, part.audit_rate != 1
            never = np.arange(len(LABELS)) == NEVER
            allowed = moves & np.where(never, sampled, reviewed)
            possible[:, :, place, ..., 0] = allowed
            possible[:, :, place, ..., 1] = allowed & with_late
        if not self._world.labels:
            possible[..., 1:, :, :], possible[..., 1:, :] = False, False
        return possible

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
                columns = [*self._columns(table, row), *self._others(table, row)]
                easy = [*widths[row], *widths[row]]
                for width, (name, cells) in zip(easy, columns, strict=False):
                    truth = int(self._truth[cells].sum())
                    if truth < self._k and not self._is_told(cells):
                        where = f"{table.span.name} {table.edition} {table.measure} {name}"
                        text = f"{where} of {str(table.layout.rows[row]) or 'all'}"
                        targets.setdefault(cells.tobytes(), Target(text, cells, truth, int(width)))
        return list(targets.values())

    def left(self, target: Target, *, whole: bool = True, seconds: float = SECONDS) -> Left | None:
        """What is left of a count in whole numbers (or in reals); None where guesses are wrong."""
        return solved(target, self._facts, self._matrix, self._most, whole=whole, seconds=seconds)

    def _unknowns(self, table: Table, row: int) -> Ints:
        """Unknowns of a row, shape (..., parts of the table, first labels, final labels, late)."""
        name = table.layout.rows[row]
        inside = self._world.members(table.span)[row].astype(bool)
        parts = self._parts(table)
        cells = self._index[self._world.inside(table.span)][:, inside][:, :, parts]
        assert name.band is None
        if table.measure is Measure.DECISIONS and table.span.kind == self._world.kinds[0]:
            return cells[..., :1]
        return cells

    def _parts(self, table: Table) -> list[int]:
        """Place in the world of each part of a table."""
        names = [part.name for part in self._world.parts]
        return [names.index(name) for name in table.frame.parts]

    def _columns(self, table: Table, row: int) -> Iterator[tuple[str, Ints]]:
        """The size of a row and its parts, as unknowns."""
        cells = self._unknowns(table, row)
        if table.measure is not Measure.DECISIONS:
            cells = self._labelled_as(LABEL_OF[table.measure], table, row)
        yield "size", cells.ravel()
        for part, name in enumerate(table.frame.parts):
            yield name, cells[:, :, part].ravel()

    def _others(self, table: Table, row: int) -> Iterator[tuple[str, Ints]]:
        """The decisions of each part without a label, and those with any."""
        if table.measure is not Measure.READY:
            return
        for labels, name in (((NONE, NEVER), "no label"), ((READY, NOT_READY), "any label")):
            for place in range(len(table.frame.parts)):
                cells = [self._labelled_as(label, table, row)[:, :, place] for label in labels]
                text = f"{name} of {table.frame.parts[place]}"
                yield text, np.sort(np.concatenate([each.ravel() for each in cells]))

    def _is_told(self, cells: Ints) -> bool:
        """Whether the reader is told of all decisions that these unknowns may hold."""
        return bool(self._told_of[cells[self._most[cells] > 0]].all())

    def _labelled_as(self, label: int, table: Table, row: int) -> Ints:
        cells = self._unknowns(table, row)
        first = table.edition is Edition.FIRST
        return cells[..., label, :, :] if first else cells[..., :, label, :]

    def _read(self, table: Table) -> None:
        repeated = self._repeated(table)
        for row in np.flatnonzero(table.layout.declared).tolist():
            columns = list(self._columns(table, row))
            if table.edition is Edition.FINAL:
                if table.measure is Measure.READY:
                    self._read_changes(table, row, repeated=bool(repeated[row]))
                if repeated[row]:
                    continue
            self._read_row(table, row, columns)
            if table.measure in LABEL_MEASURES and table.bands.detail[row] == Detail.HIDDEN:
                self._guess_few_labels(table, row)
        if table.measure is Measure.READY:
            self._read_missing(table)

    def _read_changes(self, table: Table, row: int, *, repeated: bool) -> None:
        """Whether a final edition repeats the first tells whether k labels certainly changed."""
        cells = self._unknowns(table, row)
        if not repeated:
            self._facts.add(cells[:, :, :, COMES[0], COMES[1]].ravel(), self._k, np.inf)
            return
        parts = range(len(table.frame.parts))
        ways = {(way,) * len(parts) for way in range(len(CHANGES))}
        for chosen in ways | {*product(NEVER_NEGATIVE, repeat=len(parts))}:
            signs = np.zeros((*cells.shape[:3], len(COMES[0]), cells.shape[-1]), np.int64)
            for part, way in zip(parts, chosen, strict=True):
                signs[:, :, part] = np.array(CHANGES[way])[:, None]
            moved = cells[:, :, :, COMES[0], COMES[1]]
            counts = signs != 0
            self._facts.add(moved[counts], -np.inf, self._k - 1, signs[counts])

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
        counts = self._world.rows_of(table.span, table.edition)[[Column.READY, Column.NOT_READY]]
        if (counts[:, row] >= self._k).any():
            return
        for label in (READY, NOT_READY):
            for part in range(len(table.frame.parts)):
                cells = self._labelled_as(label, table, row)[:, :, part].ravel()
                self._facts.add(cells, 0, self._k - 1)

    def _read_missing(self, table: Table) -> None:
        for row in np.flatnonzero(self._told_rows(table)).tolist():
            none = self._labelled_as(NONE, table, row)
            for part in range(len(table.frame.parts)):
                exact = int(self._truth[none[:, :, part]].sum())
                self._facts.add(none[:, :, part].ravel(), exact, exact)
            self._told_of[none.ravel()] = True

    def _told_rows(self, table: Table) -> npt.NDArray[np.bool_]:
        rows = self._world.rows_of(table.span, table.edition).sum(axis=2)
        decisions, missing = rows[Column.DECISIONS], rows[Column.UNANSWERED]
        few = (missing <= self._told) & (FEW_SHARE * missing <= decisions)
        return np.asarray(few & (table.bands.detail == Detail.COUNTS))


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
