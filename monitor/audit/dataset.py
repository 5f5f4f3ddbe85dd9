"""Compare the slices of a training set with its target, and estimate what balancing can do.

**Representation** is the share of a slice in the rows, compared with its target share
(62 / 38 against 50 / 50 is 12 points). **Co-occurrence** is the share of ready rows within a slice:
where it differs between slices, a judge can learn the slice instead of the answer. Neither
shows that a router treats anybody differently; the audit measures that on routes.

Counts of data that is not declared synthetic pass the guards: a slice with fewer than k rows is
withheld, with everything it could be computed from. The rest is shown as coarsely as k asks.
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
"""Rounding allowance: shares are quotients, so 240 rows may arrive as 240.0000000001."""


@dataclass(frozen=True, slots=True)
class DatasetCell:
    """Share and target share of the rows with one slice and one label.

    Attributes:
        slice: slice text.
        ready: the label; None where labels are ignored.
        share: share of all rows.
        target: share that the rows should have.
    """

    slice: str
    ready: bool | None
    share: float
    target: float


@dataclass(frozen=True, slots=True)
class Weight:
    """Weight of one cell that balances a training set, or the rows to add without weights.

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
    """Effect of balancing a training set: weights, rows needed and remaining distance.

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
    """Compute the weights, and the numbers of further rows, that bring each cell to its target.

    Args:
        cells: shares and targets, each summing to 1.
        rows: number of rows of the training set.

    Source: Kish (1965), Survey Sampling; Kamiran and Calders (2012), Knowledge and Information
    Systems 33 (weights that make slice and label independent).
    """
    needed = _rows_needed(cells, rows)
    weights = tuple(
        Weight(cell.slice, cell.ready, cell.target / cell.share if cell.share else None, added_rows)
        for cell, added_rows in zip(cells, needed, strict=True)
    )
    filled = [cell for cell in cells if cell.share]
    reached = sum(cell.target for cell in filled)
    squares = sum(cell.target**2 / cell.share for cell in filled)
    return Balancing(
        weights=weights,
        rows_needed=sum(needed),
        effective_rows=rows * reached**2 / squares if squares else 0.0,
        points_left=100 * _largest_distance(cells, reached or 1.0),
    )


def _rows_needed(cells: Sequence[DatasetCell], rows: int) -> list[int]:
    """Return the number of rows to add to each cell, in order, to reach the target.

    The smallest set that reaches the target and keeps all rows has ``rows * max(share / target)``.
    """
    size = rows * max((cell.share / cell.target for cell in cells if cell.target), default=0.0)
    return [
        max(0, ceil(size * cell.target - rows * cell.share - _SLACK * (rows + size)))
        for cell in cells
    ]


def _largest_distance(cells: Sequence[DatasetCell], reached: float) -> float:
    """Return a slice's largest distance to its target once weights are applied."""
    distances: dict[str, float] = defaultdict(float)
    for cell in cells:
        distances[cell.slice] += (cell.target / reached if cell.share else 0.0) - cell.target
    return max(map(abs, distances.values()), default=0.0)


@dataclass(frozen=True, slots=True)
class ReadyShare:
    """P(ready | slice) in the training set, compared with all other rows.

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
    """Share of one slice in the training set, beside its target.

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
    """Shares of all slices of one group-by in the training set.

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
        """Return the largest distance between share and target, in percentage points."""
        return max((abs(slice_share.points) for slice_share in self.slices), default=0.0)


@dataclass(frozen=True, slots=True)
class DatasetReport:
    """Comparison of a training set with its target.

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
    """Return the training set's shares beside the target's, by each attribute and every two.

    Args:
        counts: counts of the training set.
        k: smallest count that may be shown.
        synthetic: the counts are of nobody: exact numbers, nothing withheld.
    """
    precision = Precision(1, exact=True) if synthetic else Precision(k)
    names = counts.attributes
    group_bys = [*((name,) for name in names), *combinations(names, 2)]
    return DatasetReport(
        synthetic=synthetic,
        k=precision.k,
        rows=int(precision.support(sum(combination.count for combination in counts.combinations))),
        target_stated=counts.has_target,
        tables=tuple(_representation(counts, names, precision) for names in group_bys),
    )


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums over combinations: rows, ready rows, and the target share of both."""

    rows: int
    ready: int
    target: float
    ready_target: float

    @classmethod
    def from_combinations(cls, rows: Sequence[Combination]) -> _Sums:
        ready_rows = [combination for combination in rows if combination.ready]
        return cls(
            rows=sum(combination.count for combination in rows),
            ready=sum(combination.count for combination in ready_rows),
            target=sum(combination.target or 0 for combination in rows),
            ready_target=sum(combination.target or 0 for combination in ready_rows),
        )


def _representation(
    counts: RowCounts, names: Sequence[str], precision: Precision
) -> Representation:
    """Return shares by one group-by; withheld if a slice has 1 to k - 1 rows."""
    group_by, slices = "+".join(names), _by_slice(counts, names)
    if any(0 < sums.rows < precision.k for sums in slices.values()):
        return Representation(group_by, (), True, counts.has_ready, None)
    hidden = counts.has_ready and not precision.exact and _has_rare_label(slices, precision.k)
    table = _ShownTable(
        slices, _Sums.from_combinations(counts.combinations), counts, precision, hidden
    )
    balancing = balance(table.cells(), int(precision.support(table.total.rows)))
    return Representation(group_by, table.lines(), False, hidden, balancing)


def _by_slice(counts: RowCounts, names: Sequence[str]) -> dict[str, _Sums]:
    """Sum combinations by slice text; without a target, empty slices are included."""
    by_text: dict[str, list[Combination]] = {}
    if not counts.has_target:
        values = (
            {combination.values[name] for combination in counts.combinations} for name in names
        )
        by_text = {_slice_text(names, slice_values): [] for slice_values in product(*values)}
    for combination in counts.combinations:
        by_text.setdefault(
            _slice_text(names, [combination.values[name] for name in names]), []
        ).append(combination)
    return {text: _Sums.from_combinations(by_text[text]) for text in sorted(by_text)}


def _slice_text(names: Sequence[str], values: Iterable[str]) -> str:
    return atom_text(dict(zip(names, values, strict=True)))


def _has_rare_label(slices: Mapping[str, _Sums], k: int) -> bool:
    """Return True if a slice with rows has fewer than ``k`` ready or not-ready ones.

    A share of 0 or 1 would reveal the label of every row of the slice.
    """
    return any(
        sums.rows and min(sums.ready, sums.rows - sums.ready) < k for sums in slices.values()
    )


@dataclass(frozen=True, slots=True)
class _ShownTable:
    """Slices of one group-by that may be shown; ``hidden`` withholds their labels."""

    slices: Mapping[str, _Sums]
    total: _Sums
    counts: RowCounts
    precision: Precision
    hidden: bool

    @property
    def labelled(self) -> bool:
        """Return True if the rows have labels that may be shown."""
        return self.counts.has_ready and not self.hidden

    def lines(self) -> tuple[SliceShare, ...]:
        """Return one line for each slice: rows and share, target share, and points between both."""
        return tuple(
            SliceShare(
                slice=text,
                rows=int(self.precision.support(sums.rows)),
                share=self._share(sums),
                target=self._target(sums),
                points=100 * (self._share(sums) - self._target(sums)),
                ready=self._ready_share(sums) if self.labelled and sums.rows else None,
            )
            for text, sums in self.slices.items()
        )

    def cells(self) -> list[DatasetCell]:
        """Return one cell per slice, or per slice and label, computed from shown values."""
        cells = []
        for text, sums in self.slices.items():
            share, target = self._share(sums), self._target(sums)
            if not self.labelled:
                cells.append(DatasetCell(text, None, share, target))
                continue
            ready = self._rate(sums.ready, sums.rows) if sums.rows else 0.0
            ready_target = self._ready_target(sums) or 0.0
            cells.append(DatasetCell(text, True, share * ready, target * ready_target))
            cells.append(DatasetCell(text, False, share * (1 - ready), target * (1 - ready_target)))
        return cells

    def _share(self, sums: _Sums) -> float:
        """Return a slice's share of all rows, as shown; if it rounds to 0, from bands."""
        support = self.precision.support([sums.rows, self.total.rows])
        return self._rate(sums.rows, self.total.rows) or float(support[0] / support[1])

    def _target(self, sums: _Sums) -> float:
        return sums.target if self.counts.has_target else 1 / len(self.slices)

    def _ready_target(self, sums: _Sums) -> float | None:
        """Return the ready share to reach: of the targets, else of all rows; None if unset."""
        if not self.counts.has_target:
            return self._rate(self.total.ready, self.total.rows)
        return sums.ready_target / sums.target if sums.target else None

    def _rate(self, hits: int, trials: int) -> float:
        return float(self.precision.rate(hits / trials, trials))

    def _ready_share(self, sums: _Sums) -> ReadyShare:
        """Compare a slice's ready share with that of all other rows; without any, only state it."""
        share, target = self._rate(sums.ready, sums.rows), self._ready_target(sums)
        other_rows, other_ready = self.total.rows - sums.rows, self.total.ready - sums.ready
        if not other_rows:
            return ReadyShare(share, target, None, None, None)
        other_share = self._rate(other_ready, other_rows)
        lower, upper = mover(
            share,
            *self._interval(share, sums.rows),
            other_share,
            *self._interval(other_share, other_rows),
        )
        return ReadyShare(
            share=share,
            target=target,
            difference=float(self.precision.nearest(share - other_share)),
            lower=float(self.precision.down(lower)),
            upper=float(self.precision.up(upper)),
        )

    def _interval(self, share: float, rows: int) -> tuple[Floats, Floats]:
        """Return the Wilson bounds of a share, wide enough for all comparisons at once."""
        present = sum(sums.rows > 0 for sums in self.slices.values())
        z = simultaneous_z(comparisons(present, COMPLEMENT))
        return wilson(share, self.precision.trials(rows), z)
