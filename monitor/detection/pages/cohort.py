"""Slice cohorts: one mature cohort of all slices of a group-by, in dense arrays.

A cohort is the decisions of one hour, once their labels are in. Labelled arrays have the axes
slice, route (:data:`~monitor.core.counts.strata.REVIEWED_ROUTES`), audit rate and score band, and
hold production decisions with evidence only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from monitor.core.counts.cells import (
    MAX_RATES,
    Counter,
    Int64s,
    Route,
    StratumColumns,
    decode_strata,
)
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import HourlySlices, SliceCounts
from monitor.core.counts.strata import REVIEWED_ROUTES, is_reviewed, reviewed
from monitor.core.intervals import Floats
from monitor.core.rates.gaps import Bools
from monitor.detection.arrays import Arrays, positions

_COUNTERS = (Counter.N, Counter.LABELLED, Counter.READY, Counter.Q, Counter.UNDECIDABLE)


@dataclass(frozen=True, slots=True)
class Layout:
    """The axes that all cohorts share.

    Attributes:
        rates: indices into the grid of audit rates, increasing: those that were seen.
        audit: the audit rate of each, in (0, 1].
        bands: number of score bands, the one without a score included.
    """

    rates: tuple[int, ...]
    audit: Floats
    bands: int

    @classmethod
    def for_rates(cls, rates: Sequence[int], coding: Coding) -> Layout:
        """The layout of these rates.

        Raises:
            ValueError: if a rate is not in the coding's grid.
        """
        known = tuple(sorted(set(rates)))
        if known and known[-1] >= len(coding.audit_rates):
            raise ValueError("a stratum has an audit rate outside the coding's grid")
        return cls(known, np.array([coding.audit_rates[rate] for rate in known]), coding.bands)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Routes, rates, bands."""
        return len(REVIEWED_ROUTES), len(self.rates), self.bands


@dataclass(frozen=True, slots=True)
class SliceCohort:
    """One cohort of one group-by.

    Attributes:
        decisions: shape (S, route, rate, band): N_k.
        labelled: the same shape: n_k, at most N_k.
        ready: the same shape: m_k, at most n_k.
        routed: all production decisions by route, evidence or not, shape (S, 3): for P(blocked).
        requested: labels requested by route, shape (S, 2).
        received: of these the ones that have come, also undecidable ones; the same shape.
    """

    decisions: Int64s
    labelled: Int64s
    ready: Int64s
    routed: Int64s
    requested: Int64s
    received: Int64s

    @classmethod
    def from_counts(cls, counts: SliceCounts, slices: Sequence[str], layout: Layout) -> SliceCohort:
        """Counts of one hour, as :meth:`of_hours` lays them out."""
        hour = HourlySlices(counts.slices, counts.strata, counts.values[None])
        (cohort,) = cls.of_hours(hour, slices, layout)
        return cohort

    @classmethod
    def of_hours(
        cls, counts: HourlySlices, slices: Sequence[str], layout: Layout
    ) -> list[SliceCohort]:
        """Counts of each hour as arrays with one row for every slice.

        Rates outside the layout are left out of the labelled arrays; see :func:`rates_of`.

        Args:
            counts: rolled up to the group-by.
            slices: the rows wanted; a slice without decisions is a row of zeros.
            layout: the axes.
        """
        rows = positions(counts.slices, slices)
        known = np.flatnonzero(rows >= 0)
        hours, _, strata, _ = counts.values.shape
        values = np.zeros((len(_COUNTERS), hours, len(slices), strata), np.int64)
        for mine, counter in zip(values, _COUNTERS, strict=True):
            mine[:, known] = counts.values[..., counter][:, rows[known]]
        n, labels, ready, asked, undecidable = values
        parts = decode_strata(counts.strata)
        decisions, labelled, ready = _in_strata(np.stack([n, labels, ready]), parts, layout)
        labelled = np.clip(labelled, 0, None)
        requested = np.clip(_by_route(asked, parts), 0, None)
        # A label that nobody requested does not make up for a missing one.
        received = np.clip(_by_route(labels + undecidable, parts), 0, requested)
        arrays = (
            *(np.maximum(decisions, labelled), labelled, np.clip(ready, 0, labelled)),
            *(_routed(n, parts), requested, received),
        )
        return [cls(*hour) for hour in zip(*arrays, strict=True)]

    @property
    def complements(self) -> SliceCohort:
        """Row i: everything in the group-by but slice i."""
        return SliceCohort(*(x.sum(axis=0) - x for x in self._arrays))

    def moved(self, known: Layout, layout: Layout) -> SliceCohort:
        """The same counts on the axes of another layout, which knows all the rates of this one."""
        place = [layout.rates.index(rate) for rate in known.rates]
        moved = np.zeros((3, len(self.decisions), *layout.shape), np.int64)
        moved[:, :, :, place] = np.stack([self.decisions, self.labelled, self.ready])
        return replace(self, decisions=moved[0], labelled=moved[1], ready=moved[2])

    def to_arrays(self) -> Arrays:
        """Everything, as plain arrays; see :meth:`from_arrays`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> SliceCohort:
        """What :meth:`to_arrays` gave; an earlier version knew nothing of requests."""
        nothing = np.zeros((len(arrays["decisions"]), len(REVIEWED_ROUTES)), np.int64)
        known = {"requested": nothing, "received": nothing} | arrays
        return cls(**{field.name: known[field.name] for field in fields(cls)})

    def __add__(self, other: SliceCohort) -> SliceCohort:
        pairs = zip(self._arrays, other._arrays, strict=True)
        return SliceCohort(*(mine + theirs for mine, theirs in pairs))

    @property
    def _arrays(self) -> tuple[Int64s, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))


def rates_of(counts: SliceCounts) -> tuple[int, ...]:
    """Indices of the audit rates of the reviewed decisions, increasing."""
    columns = reviewed(counts) & (counts.values[:, :, Counter.N] != 0).any(axis=0)
    return tuple(np.unique(decode_strata(counts.strata[columns]).rate).tolist())


def _in_strata(values: Int64s, strata: StratumColumns, layout: Layout) -> Int64s:
    """Columns of reviewed strata on the axes of a layout: a stratum has one place, if any."""
    position = np.full(MAX_RATES, -1)
    position[list(layout.rates)] = np.arange(len(layout.rates))
    rate = position[strata.rate]
    inside = np.flatnonzero(is_reviewed(strata) & (rate >= 0) & (strata.band < layout.bands))
    placed = np.zeros((*values.shape[:-1], *layout.shape), np.int64)
    placed[..., strata.route[inside], rate[inside], strata.band[inside]] = values[..., inside]
    return placed


def _by_route(labels: Int64s, strata: StratumColumns) -> Int64s:
    """Labels of the reviewed strata by route, shape (H, S, 2)."""
    own = is_reviewed(strata)
    return _summed(labels, [own & (strata.route == route) for route in REVIEWED_ROUTES])


def _routed(decisions: Int64s, strata: StratumColumns) -> Int64s:
    """Decisions of production by route, shape (H, S, 3)."""
    own = [~strata.probe & (strata.route == route) for route in Route]
    return _summed(np.clip(decisions, 0, None), own)


def _summed(values: Int64s, columns: Sequence[Bools]) -> Int64s:
    """Sums over each of some sets of columns, which become the last axis."""
    summed: Int64s = values @ np.stack(columns, axis=1).astype(np.int64)
    return summed
