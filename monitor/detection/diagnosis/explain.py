"""Common causes of the crossings of one contract and metric: the slices that explain them.

A slice that is treated worse affects every slice that contains it. It also lies in the reference of
every slice that does not contain it; such a slice then looks better off. All of them may cross, but
there is one incident: it names the smallest slice that explains the gap. The causes are searched in
the decisions since the gap arose (:mod:`monitor.detection.diagnosis.cause_search`). A crossing
belongs to the cause that adds most to its gap, if that is at least half of the excess over the
limit. A crossing without such a cause is its own. A fault may lie in several slices that share a
value: their gaps began together (:func:`began_together`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from monitor.core.contract import COMPLEMENT, Contract
from monitor.core.counts.cells import Counts, parse_atom
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import CellIndex
from monitor.core.intervals import Floats, divide
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Share
from monitor.core.rates.gaps import Bools
from monitor.detection.diagnosis.atom_rates import AtomRates, AtomTrials
from monitor.detection.diagnosis.cause_search import ENTRY, AtomHarm, Candidates, Search, expit
from monitor.detection.diagnosis.stages import in_words
from monitor.detection.pages.streams import Direction, Stream, StreamKind

EVERYTHING = ""
"""Slice and group-by of a cause that lies in no slice: all slices are beyond a level."""

LATER = 2 * ENTRY
"""Squared z-scores by which two onsets must explain two gaps better than one: the nats of a further
cause. Measured over 15 worlds each: 0 to 3.4 for a common onset, 16 to 67 for onsets two days
apart (the slower gap crosses up to two weeks later in both)."""

_NOWHERE = -1
_LEAST_LIMIT = 0.005  # for ratios of rates near 0, which would make any two atoms differ
_WORSE = {True: Direction.SLICE_WORSE, False: Direction.REFERENCE_WORSE}


@dataclass(frozen=True, slots=True)
class BreachCause:
    """A slice that explains crossings, with its share of their excess.

    Attributes:
        group_by: group-by of the slice.
        slice: the smallest slice that explains the gap; :data:`EVERYTHING` if it lies in none.
        direction: REFERENCE_WORSE if the slice differs by being better off.
        share: its share of the excess of the slices it explains.
        streams: the crossings it explains, sorted; those of other slices only inherit it.
    """

    group_by: str
    slice: str
    direction: Direction
    share: Share
    streams: tuple[Stream, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The causes of all unresolved crossings of one contract and metric.

    Attributes:
        since: the pane in which the gaps arose: counts from there on were used.
        causes: causes sorted by slice; every crossing is in exactly one.
    """

    since: int
    causes: tuple[BreachCause, ...]


def explain(
    crossed: Iterable[Stream],
    contract: Contract,
    coding: Coding,
    panes: Sequence[Counts],
    index: CellIndex,
) -> Explanation:
    """Return the causes of crossings; each crossing belongs to exactly one cause.

    Args:
        crossed: unresolved crossings of one metric of the contract, in any order.
        contract: the contract.
        coding: meaning of the strata.
        panes: recent counts of the contract's cells in order of time, from before the first
            crossing until now. The onset is found to the pane: days are enough, with quarters of a
            day for the newest.
        index: meaning of the cell ids.

    Raises:
        ValueError: if the crossings are of several contracts or metrics, or if a stratum has an
            audit rate that the coding does not know.
    """
    streams = sorted(set(crossed))
    if not streams:
        return Explanation(0, ())
    rates, candidates = _atoms(streams, contract, coding, panes, index)
    gaps = [_Gap.for_stream(stream, candidates, len(rates.atoms)) for stream in streams]
    since = _onset(gaps, rates.trials)
    trials = rates.trials.since(since)
    limit = _limit_on_gap(contract, streams, trials)
    search = Search(AtomHarm.from_trials(trials, limit), candidates, limit)
    partition = _Partition(trials, candidates, search, contract)
    for gap in sorted(gaps, key=lambda gap: -float(_squared_z(gap, trials))):
        partition.add(gap)
    return Explanation(since, tuple(sorted(partition.causes(), key=_name)))


def share_value(slice_: str, second: str) -> bool:
    """Return True if two slices have the same value of an attribute."""
    return bool(parse_atom(slice_).items() & parse_atom(second).items())


def began_together(
    stream: Stream,
    contract: Contract,
    coding: Coding,
    panes: Sequence[Counts],
    index: CellIndex,
    *,
    slices: tuple[str, str],
) -> bool:
    """Return True if two slices are worse off, and nothing says that one became so later.

    Args:
        stream: a crossing of the contract; it names the metric.
        contract: the contract.
        coding: meaning of the strata.
        panes: counts as for :func:`explain`, from before the gaps arose.
        index: meaning of the cell ids.
        slices: the two slices.
    """
    rates, candidates = _atoms([stream], contract, coding, panes, index)
    watched = replace(
        stream,
        kind=StreamKind.GAP,
        reference=COMPLEMENT,
        direction=Direction.SLICE_WORSE,
        limit=Fraction(_limit_on_gap(contract, [stream], rates.trials.since(0))),
    )
    streams = (replace(watched, group_by="+".join(parse_atom(text)), slice=text) for text in slices)
    gaps = (_Gap.for_stream(stream, candidates, len(rates.atoms)) for stream in streams)
    first, second = (_squared_z(gap, rates.trials) for gap in gaps)
    apart = first.max() + second.max() - (first + second).max()
    return bool(min(first.max(), second.max()) > LATER >= apart)


def _atoms(
    streams: Sequence[Stream],
    contract: Contract,
    coding: Coding,
    panes: Sequence[Counts],
    index: CellIndex,
) -> tuple[AtomRates, Candidates]:
    """Return the rates of the contract's atoms for the streams' metric, and all its slices."""
    attributes = sorted({name for group in contract.group_bys for name in group.attributes})
    rates = AtomRates.from_panes(panes, index, attributes, coding, _metric(streams, contract))
    group_bys = [group.attributes for group in contract.group_bys]
    return rates, Candidates.for_group_bys(rates.atoms, group_bys)


@dataclass(frozen=True, slots=True)
class _Gap:
    """A crossed stream as a difference between two sets of atoms.

    Attributes:
        stream: the stream.
        own: cause of its own if nothing explains it, as a row of the candidates and a direction.
            The row is the side that is worse off if that is one slice (a named reference, the other
            one of two), else the stream's slice. None if that slice has no decisions.
        worse: mask of the atoms on the side that is worse off.
        better: mask of the atoms on the other side; empty for a level.
    """

    stream: Stream
    own: tuple[int, Direction] | None
    worse: Bools
    better: Bools

    @classmethod
    def for_stream(cls, stream: Stream, candidates: Candidates, atoms: int) -> _Gap:
        """Return which atoms are the worse and the better side of a stream."""
        rows = {candidates.slices[row]: row for row in candidates.within(stream.group_by)}
        sides = {text: candidates.atoms(row) for text, row in rows.items()}
        no_atoms = np.zeros(atoms, bool)
        slice_atoms = sides.get(stream.slice, no_atoms)
        reference_atoms = (
            ~slice_atoms
            if stream.reference == COMPLEMENT
            else sides.get(stream.reference, no_atoms)
        )
        row = rows.get(stream.slice)
        if stream.direction is Direction.SLICE_WORSE or row is None:
            return cls(
                stream,
                None if row is None else (row, stream.direction),
                slice_atoms,
                reference_atoms,
            )
        reference_rows = (
            rows[text] for text, side in sides.items() if np.array_equal(side, reference_atoms)
        )
        reference_row = next(reference_rows, None)
        own_cause = (
            (row, stream.direction)
            if reference_row is None
            else (reference_row, Direction.SLICE_WORSE)
        )
        return cls(stream, own_cause, reference_atoms, slice_atoms)

    @property
    def limit(self) -> float:
        """Return the allowed rate of harm on the worse side when the better side has none.

        It comes on top of :attr:`slope` times the harm on the better side.
        """
        limit = self.stream.limit
        if self.stream.kind is StreamKind.RATIO:
            # The shares served, 1 - harm, have a ratio of at least the limit.
            return float(1 - limit)
        level = self.stream.kind is StreamKind.LEVEL and self.stream.metric.harmed_by_less
        return float(1 - limit if level else limit)

    @property
    def slope(self) -> float:
        """Return the weight of the better side's harm in the limit: 1 for a gap, 0 for a level."""
        slopes = {StreamKind.LEVEL: 0.0, StreamKind.RATIO: float(self.stream.limit)}
        return slopes.get(self.stream.kind, 1.0)

    def excess(self, trials: AtomTrials) -> tuple[Floats, Floats]:
        """Return the excess of harm over the limit, as a rate, and its variance.

        Both are NaN without trials.
        """
        worse, slope = trials.within(self.worse), self.slope
        if not slope:
            return worse.rate - self.limit, worse.variance
        better = trials.within(self.better)
        variance = worse.variance + slope**2 * better.variance
        return worse.rate - slope * better.rate - self.limit, variance

    def mean(self, harm: Floats, weights: Floats) -> float:
        """Return how much the excess grows when ``harm`` is added to the atoms' rates."""
        worse, better = (
            divide(harm[side] @ weights[side], weights[side].sum(), empty=0)
            for side in (self.worse, self.better)
        )
        return float(worse - self.slope * better)


class _Partition:
    """Assignment of every crossing to a cause: a candidate's row and a direction."""

    def __init__(
        self, trials: AtomTrials, candidates: Candidates, search: Search, contract: Contract
    ) -> None:
        self._contract = contract
        self._trials = trials
        self._candidates = candidates
        self._search = search
        self._fit = search.run()
        self._explained: dict[tuple[int, Direction], list[_Gap]] = {}
        self._unexplained: list[Stream] = []

    def add(self, gap: _Gap) -> None:
        """Assign a crossing to the cause that adds most to its gap, else to its own slice."""
        cause = self._largest_cause(gap) or self._fit_own_cause(gap)
        if cause is None:
            self._unexplained.append(gap.stream)
        else:
            self._explained.setdefault(cause, []).append(gap)

    def causes(self) -> list[BreachCause]:
        """Return all causes with the crossings assigned to them."""
        causes = [self._cause(*cause, gaps) for cause, gaps in self._explained.items()]
        return causes + [
            BreachCause(stream.group_by, stream.slice, stream.direction, Share.MOST, (stream,))
            for stream in self._unexplained
        ]

    def _largest_cause(self, gap: _Gap) -> tuple[int, Direction] | None:
        """Return the cause that adds most to a gap; None if it adds too little."""
        added = [
            gap.mean(self._fit.harm_of(place), self._trials.total)
            for place in range(len(self._fit.causes))
        ]
        largest = max(added, default=0.0)
        needed = float(gap.excess(self._trials)[0]) / 2
        if largest >= max(needed, self._search.least / 2):
            place = added.index(largest)
            return self._fit.causes[place], _WORSE[bool(self._fit.effects[place] > 0)]
        # The level of all slices, not one that a slice sets for itself.
        level = self._contract.limits_of(gap.stream.group_by).level(gap.stream.metric)
        of_all = gap.stream.kind is StreamKind.LEVEL and gap.stream.limit == level
        return (_NOWHERE, Direction.SLICE_WORSE) if of_all and self._base_rate > gap.limit else None

    def _fit_own_cause(self, gap: _Gap) -> tuple[int, Direction] | None:
        """Return the gap's own slice as a cause and add it to the fit; None without decisions."""
        if gap.own is not None and gap.own[0] not in self._fit.causes:
            self._fit = self._search.fit((*self._fit.causes, gap.own[0]))
        return gap.own

    @property
    def _base_rate(self) -> float:
        """Return the modelled rate of harm outside all causes."""
        return float(expit(np.array(self._fit.base)))

    def _cause(self, row: int, direction: Direction, gaps: Sequence[_Gap]) -> BreachCause:
        """Return the cause of these gaps by its row, with its share of the excess."""
        streams = tuple(sorted(gap.stream for gap in gaps))
        if row == _NOWHERE:
            return BreachCause(EVERYTHING, EVERYTHING, direction, Share.MOST, streams)
        name = self._candidates.group_bys[row], self._candidates.slices[row]
        return BreachCause(
            *name, direction, self._share(self._fit.causes.index(row), gaps), streams
        )

    def _share(self, place: int, gaps: Sequence[_Gap]) -> Share:
        """Return a cause's share of the excess, over the sides of its crossings that it lies in."""
        inside = self._fit.design[place] > 0
        sides = [side for gap in gaps for side in (gap.worse, gap.better) if (side & inside).any()]
        affected = np.any([inside, *sides], axis=0)
        trials = self._trials.total
        added_harm = float(trials @ self._fit.harm_of(place))
        excess = float((self._trials.harmed - self._base_rate * trials)[affected].sum())
        return in_words(
            float(
                divide(abs(added_harm), max(abs(added_harm), excess * np.sign(added_harm)), empty=1)
            )
        )


def _squared_z(gap: _Gap, trials: AtomTrials) -> Floats:
    """Return the squared z-score of the excess over the limit; 0 within the limit."""
    excess, variance = gap.excess(trials)
    return np.nan_to_num(divide(np.maximum(excess, 0) ** 2, variance))


def _onset(gaps: Sequence[_Gap], trials: AtomTrials) -> int:
    """Return the first pane of the period in which the gaps exceed their limits most clearly."""
    total = np.sum([_squared_z(gap, trials) for gap in gaps], axis=0)
    return int(np.argmax(total))


def _limit_on_gap(contract: Contract, streams: Sequence[Stream], trials: AtomTrials) -> float:
    """Return the tolerated gap between atoms; for a ratio, at the overall rate."""
    limits = (
        contract.limits_of(stream.group_by, stream.slice).max_gap(stream.metric)
        for stream in streams
    )
    limit = min((known_limit for known_limit in limits if known_limit is not None), default=None)
    if limit is None and streams[0].kind is StreamKind.RATIO:
        served = float(divide(trials.spared.sum(), trials.total.sum(), empty=1))
        return max(float(1 - streams[0].limit) * served, _LEAST_LIMIT)
    return float(limit or streams[0].limit)


def _metric(streams: Sequence[Stream], contract: Contract) -> Metric:
    """Return the one metric of these streams; a ValueError if there are several."""
    if {stream.contract for stream in streams} != {contract.name}:
        raise ValueError("all crossings must be of the contract that is given")
    metrics = {stream.metric for stream in streams}
    if len(metrics) > 1:
        raise ValueError("crossings of one metric are explained at a time")
    return metrics.pop()


def _name(cause: BreachCause) -> tuple[str, str, Direction]:
    return cause.group_by, cause.slice, cause.direction
