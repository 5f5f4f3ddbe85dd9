"""Representation of slices in a training set against its target, and the most balancing can do.

**Representation** is the share of the rows that a slice has, against the share it should have
(62 / 38 against 50 / 50 is 12 points). **Co-occurrence** is the share of ready rows within a slice:
where it differs between slices, a judge can learn the slice in the place of the answer. Neither
says that a router treats anybody differently; that is measured on what it does.

Counts of data that is not declared synthetic pass the guards: what has fewer than k rows is
withheld with all that it could be computed from, and the rest is shown as coarsely as k asks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import ceil

from monitor.audit.dataset_counts import Combination, RowCounts
from monitor.core.contract import COMPLEMENT
from monitor.core.counts.cells import atom_text
from monitor.core.intervals import Floats, mover, wilson
from monitor.core.privacy.bands import Precision
from monitor.core.rates.gaps import comparisons, simultaneous_z

BALANCING_CAN = (
    "Balancing can bring the shares of the slices to their target, and make ready equally "
    "frequent in all of them: a judge then learns less from which slice a request is of.",
    "It can do so by weights (target / share) on the rows there are, or by more rows of the same "
    "quality; which of the two helps is a hypothesis to test on the matched pairs.",
)
BALANCING_CANNOT = (
    "It cannot correct labels that are wrong in one slice: it repeats them.",
    "It cannot teach wording that the judge does not understand: weights add no new text.",
    "It cannot move a threshold, nor what the evidence gate finds.",
)
_SLACK = 1e-12
"""Shares are quotients: 240 rows may arrive as 240.0000000001."""


@dataclass(frozen=True, slots=True)
class DatasetCell:
    """Rows of one slice with one label; ``ready`` is None where labels are not looked at.

    Attributes:
        slice: slice text.
        ready: the label.
        share: of all rows.
        target: share that it should have.
    """

    slice: str
    ready: bool | None
    share: float
    target: float


@dataclass(frozen=True, slots=True)
class Weight:
    """Weight of one cell.

    Attributes:
        slice: slice text.
        ready: the label; None where labels are not looked at.
        weight: target / share; 0 leaves the rows out, None: there is nothing to weigh.
        rows_needed: further rows that would do without weights, when no row is taken away but
            those that the target has no place for.
    """

    slice: str
    ready: bool | None
    weight: float | None
    rows_needed: int


@dataclass(frozen=True, slots=True)
class Balancing:
    """Effect of balancing a training set.

    Attributes:
        weights: by cell, in the order given.
        rows_needed: further rows in all.
        effective_rows: rows that the weighted ones are worth: (sum w)^2 / sum w^2.
        points_left: largest distance of a slice to its target that weights leave, in percentage
            points; above 0 only where the target asks for what has no rows.
    """

    weights: tuple[Weight, ...]
    rows_needed: int
    effective_rows: float
    points_left: float


def balance(cells: Sequence[DatasetCell], rows: int) -> Balancing:
    """Weights and further rows that bring each cell to its target.

    Args:
        cells: shares and targets, each summing to 1.
        rows: in all.

    Source: Kish (1965), Survey Sampling; Kamiran and Calders (2012), Knowledge and Information
    Systems 33 (weights that make slice and label independent).
    """
    needed = _rows_needed(cells, rows)
    weights = tuple(
        Weight(one.slice, one.ready, one.target / one.share if one.share else None, more)
        for one, more in zip(cells, needed, strict=True)
    )
    there = [one for one in cells if one.share]
    reached = sum(one.target for one in there)
    squares = sum(one.target**2 / one.share for one in there)
    return Balancing(
        weights=weights,
        rows_needed=sum(needed),
        effective_rows=rows * reached**2 / squares if squares else 0.0,
        points_left=100 * _left(cells, reached or 1.0),
    )


def _rows_needed(cells: Sequence[DatasetCell], rows: int) -> list[int]:
    """The smallest set that has the target and all the rows there are has max(share / target)."""
    size = rows * max((one.share / one.target for one in cells if one.target), default=0.0)
    return [
        max(0, ceil(size * one.target - rows * one.share - _SLACK * (rows + size))) for one in cells
    ]


def _left(cells: Sequence[DatasetCell], reached: float) -> float:
    """Largest distance of a slice when what has rows takes the place of what has none."""
    distances: dict[str, float] = defaultdict(float)
    for one in cells:
        distances[one.slice] += (one.target / reached if one.share else 0.0) - one.target
    return max(map(abs, distances.values()), default=0.0)


@dataclass(frozen=True, slots=True)
class ReadyShare:
    """P(ready | slice) in the training set, beside that of all other rows.

    Attributes:
        share: of the slice's rows, those labelled ready.
        target: what it should be: as the target has it, else as in the whole training set.
        difference: to the same share of all other rows; None where there are none.
        lower: of the difference, all slices of the group-by holding at 95 % together.
        upper: the same.
    """

    share: float
    target: float | None
    difference: float | None
    lower: float | None
    upper: float | None


@dataclass(frozen=True, slots=True)
class SliceShare:
    """One slice of the training set.

    Attributes:
        slice: slice text.
        rows: how many; the lower edge of a band unless synthetic.
        share: of all rows.
        target: share that it should have.
        points: percentage points by which the share is above the target.
        ready: co-occurrence with ready; None without labels or rows, or where withheld.
    """

    slice: str
    rows: int
    share: float
    target: float
    points: float
    ready: ReadyShare | None


@dataclass(frozen=True, slots=True)
class Representation:
    """The slices of one group-by.

    Attributes:
        group_by: attributes joined by ``+``.
        slices: sorted by slice text; empty where withheld.
        withheld: a slice has rows, and fewer than k of them.
        ready_withheld: in a slice fewer than k rows are ready, or not ready.
        balancing: what balancing could do; None where withheld.
    """

    group_by: str
    slices: tuple[SliceShare, ...]
    withheld: bool
    ready_withheld: bool
    balancing: Balancing | None

    @property
    def points(self) -> float:
        """Largest distance between share and target, in percentage points."""
        return max((abs(one.points) for one in self.slices), default=0.0)

    @property
    def at_most(self) -> str:
        """The most that balancing can fix here, in one sentence; empty where withheld."""
        done = self.balancing
        if done is None:
            return ""
        return (
            f"Balancing can bring the {self.points:.1f} points down to {done.points_left:.1f} at "
            f"most: by weights, with which the rows count as {done.effective_rows:,.0f} rows, or "
            f"by {done.rows_needed:,} further rows."
        )


@dataclass(frozen=True, slots=True)
class DatasetReport:
    """A training set against its target.

    Attributes:
        synthetic: the counts are invented; said on every output.
        k: smallest count shown.
        rows: of the training set; the lower edge of a band unless synthetic, 0 below k.
        target_stated: the file says what is aimed at; else all slices of a group-by are meant to
            be equally frequent.
        tables: by each attribute, then by every two of them.
    """

    synthetic: bool
    k: int
    rows: int
    target_stated: bool
    tables: tuple[Representation, ...]


def representation(counts: RowCounts, *, k: int, synthetic: bool) -> DatasetReport:
    """The training set by each attribute and by every two, against the target.

    Args:
        counts: of the training set.
        k: smallest count that may be shown.
        synthetic: the counts are of nobody: exact numbers, nothing withheld.
    """
    precision = Precision(1, exact=True) if synthetic else Precision(k)
    names = counts.attributes
    group_bys = [*((name,) for name in names), *combinations(names, 2)]
    return DatasetReport(
        synthetic=synthetic,
        k=precision.k,
        rows=int(precision.support(sum(one.count for one in counts.combinations))),
        target_stated=counts.has_target,
        tables=tuple(_table(counts, names, precision) for names in group_bys),
    )


@dataclass(frozen=True, slots=True)
class _Sums:
    """Rows, those of them that are ready, and the target's share of both."""

    rows: int
    ready: int
    target: float
    ready_target: float

    @classmethod
    def from_combinations(cls, members: Sequence[Combination]) -> _Sums:
        ready = [one for one in members if one.ready]
        return cls(
            rows=sum(one.count for one in members),
            ready=sum(one.count for one in ready),
            target=sum(one.target or 0 for one in members),
            ready_target=sum(one.target or 0 for one in ready),
        )


def _table(counts: RowCounts, names: Sequence[str], precision: Precision) -> Representation:
    group_by, slices = "+".join(names), _by_slice(counts, names)
    if any(0 < one.rows < precision.k for one in slices.values()):
        return Representation(group_by, (), True, counts.has_ready, None)
    hidden = counts.has_ready and not precision.exact and _few_of_a_label(slices, precision.k)
    table = _ShownTable(
        slices, _Sums.from_combinations(counts.combinations), counts, precision, hidden
    )
    balancing = balance(table.cells(), int(precision.support(table.total.rows)))
    return Representation(group_by, table.lines(), False, hidden, balancing)


def _by_slice(counts: RowCounts, names: Sequence[str]) -> dict[str, _Sums]:
    """Sums by slice text, sorted; without a target every combination of values is aimed at."""
    members: dict[str, list[Combination]] = {}
    if not counts.has_target:
        values = ({one.values[name] for one in counts.combinations} for name in names)
        members = {_slice(names, chosen): [] for chosen in product(*values)}
    for one in counts.combinations:
        members.setdefault(_slice(names, [one.values[name] for name in names]), []).append(one)
    return {text: _Sums.from_combinations(members[text]) for text in sorted(members)}


def _slice(names: Sequence[str], values: Iterable[str]) -> str:
    return atom_text(dict(zip(names, values, strict=True)))


def _few_of_a_label(slices: Mapping[str, _Sums], k: int) -> bool:
    """None counts as few: a share of 0 or 1 would say the label of every row of the slice."""
    return any(one.rows and min(one.ready, one.rows - one.ready) < k for one in slices.values())


@dataclass(frozen=True, slots=True)
class _ShownTable:
    """One group-by whose slices may be shown; ``hidden``: but for their labels."""

    slices: Mapping[str, _Sums]
    total: _Sums
    counts: RowCounts
    precision: Precision
    hidden: bool

    @property
    def labelled(self) -> bool:
        """True when labels are taken into account."""
        return self.counts.has_ready and not self.hidden

    def lines(self) -> tuple[SliceShare, ...]:
        return tuple(
            SliceShare(
                slice=text,
                rows=int(self.precision.support(one.rows)),
                share=self._share(one),
                target=self._target(one),
                points=100 * (self._share(one) - self._target(one)),
                ready=self._ready(one) if self.labelled and one.rows else None,
            )
            for text, one in self.slices.items()
        )

    def cells(self) -> list[DatasetCell]:
        """Each slice, or each slice with each label; computed from what is shown."""
        cells = []
        for text, one in self.slices.items():
            share, target = self._share(one), self._target(one)
            if not self.labelled:
                cells.append(DatasetCell(text, None, share, target))
                continue
            ready = self._rate(one.ready, one.rows) if one.rows else 0.0
            aim = self._ready_target(one) or 0.0
            cells.append(DatasetCell(text, True, share * ready, target * aim))
            cells.append(DatasetCell(text, False, share * (1 - ready), target * (1 - aim)))
        return cells

    def _share(self, one: _Sums) -> float:
        """Share of all rows; where it is rounded to 0, computed from the bands that are shown."""
        support = self.precision.support([one.rows, self.total.rows])
        return self._rate(one.rows, self.total.rows) or float(support[0] / support[1])

    def _target(self, one: _Sums) -> float:
        return one.target if self.counts.has_target else 1 / len(self.slices)

    def _ready_target(self, one: _Sums) -> float | None:
        if not self.counts.has_target:
            return self._rate(self.total.ready, self.total.rows)
        return one.ready_target / one.target if one.target else None

    def _rate(self, part: int, whole: int) -> float:
        return float(self.precision.rate(part / whole, whole))

    def _ready(self, one: _Sums) -> ReadyShare:
        share, target = self._rate(one.ready, one.rows), self._ready_target(one)
        rows, ready = self.total.rows - one.rows, self.total.ready - one.ready
        if not rows:
            return ReadyShare(share, target, None, None, None)
        others = self._rate(ready, rows)
        lower, upper = mover(
            share, *self._interval(share, one.rows), others, *self._interval(others, rows)
        )
        return ReadyShare(
            share=share,
            target=target,
            difference=float(self.precision.nearest(share - others)),
            lower=float(self.precision.down(lower)),
            upper=float(self.precision.up(upper)),
        )

    def _interval(self, share: float, rows: int) -> tuple[Floats, Floats]:
        present = sum(one.rows > 0 for one in self.slices.values())
        z = simultaneous_z(comparisons(present, COMPLEMENT))
        return wilson(share, self.precision.trials(rows), z)
