"""Slice cohorts: one mature cohort of all slices of a group-by, in dense arrays.

A cohort is the decisions of one hour, once their labels are in. Labelled arrays have the axes
slice, route (:data:`~monitor.core.counts.strata.REVIEWED_ROUTES`), audit rate and score band, and
hold only production decisions with evidence.
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
    """Axes of a cohort's labelled arrays: route, audit rate and score band.

    Attributes:
        rates: indices of the seen audit rates in the grid, increasing.
        audit: the audit rates, in (0, 1].
        bands: number of score bands, the one without a score included.
    """

    rates: tuple[int, ...]
    audit: Floats
    bands: int

    @classmethod
    def for_rates(cls, rates: Sequence[int], coding: Coding) -> Layout:
        """Return the layout for rates, given as indices into the coding's grid.

        Raises:
            ValueError: if a rate is not in the coding's grid.
        """
        distinct_rates = tuple(sorted(set(rates)))
        if distinct_rates and distinct_rates[-1] >= len(coding.audit_rates):
            raise ValueError("a stratum has an audit rate outside the coding's grid")
        return cls(
            distinct_rates,
            np.array([coding.audit_rates[rate] for rate in distinct_rates]),
            coding.bands,
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return the numbers of routes, audit rates and score bands."""
        return len(REVIEWED_ROUTES), len(self.rates), self.bands


@dataclass(frozen=True, slots=True)
class SliceCohort:
    """Counts of one cohort for all slices of a group-by, in dense arrays.

    Attributes:
        decisions: N_k, shape (S, route, rate, band).
        labelled: n_k, at most N_k; the same shape.
        ready: m_k, at most n_k; the same shape.
        routed: all production decisions by route, with or without evidence, shape (S, 3): for
            P(blocked).
        requested: requested labels by route, shape (S, 2).
        received: received labels among them, undecidable ones included; the same shape.
    """

    decisions: Int64s
    labelled: Int64s
    ready: Int64s
    routed: Int64s
    requested: Int64s
    received: Int64s

    @classmethod
    def from_counts(cls, counts: SliceCounts, slices: Sequence[str], layout: Layout) -> SliceCohort:
        """Return the cohort of one hour from rolled-up counts; see :meth:`from_hours`."""
        hour = HourlySlices(counts.slices, counts.strata, counts.values[None])
        (cohort,) = cls.from_hours(hour, slices, layout)
        return cohort

    @classmethod
    def from_hours(
        cls, counts: HourlySlices, slices: Sequence[str], layout: Layout
    ) -> list[SliceCohort]:
        """Return one cohort per hour, each with a row for every name in ``slices``.

        Rates outside the layout are left out of the labelled arrays; see :func:`rates_of`.

        Args:
            counts: counts rolled up to the group-by.
            slices: the rows; a slice without decisions is a row of zeros.
            layout: the axes.
        """
        rows = positions(counts.slices, slices)
        present = np.flatnonzero(rows >= 0)
        hours, _, strata, _ = counts.values.shape
        values = np.zeros((len(_COUNTERS), hours, len(slices), strata), np.int64)
        for counter_table, counter in zip(values, _COUNTERS, strict=True):
            counter_table[:, present] = counts.values[..., counter][:, rows[present]]
        n, labels, ready, asked, undecidable = values
        parts = decode_strata(counts.strata)
        decisions, labelled, ready = _on_axes(np.stack([n, labels, ready]), parts, layout)
        labelled = np.clip(labelled, 0, None)
        requested = np.clip(_labels_by_route(asked, parts), 0, None)
        # A label that nobody requested does not make up for a missing one.
        received = np.clip(_labels_by_route(labels + undecidable, parts), 0, requested)
        arrays = (
            *(np.maximum(decisions, labelled), labelled, np.clip(ready, 0, labelled)),
            *(_decisions_by_route(n, parts), requested, received),
        )
        return [cls(*hour) for hour in zip(*arrays, strict=True)]

    @property
    def complements(self) -> SliceCohort:
        """Return a cohort whose row for each slice is the sum of the other rows."""
        return SliceCohort(*(counts.sum(axis=0) - counts for counts in self._arrays))

    def moved(self, own_layout: Layout, layout: Layout) -> SliceCohort:
        """Return the cohort on the axes of ``layout``, which has all rates of ``own_layout``."""
        place = [layout.rates.index(rate) for rate in own_layout.rates]
        moved = np.zeros((3, len(self.decisions), *layout.shape), np.int64)
        moved[:, :, :, place] = np.stack([self.decisions, self.labelled, self.ready])
        return replace(self, decisions=moved[0], labelled=moved[1], ready=moved[2])

    def to_arrays(self) -> Arrays:
        """Return the cohort's arrays by field name; see :meth:`from_arrays`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> SliceCohort:
        """Return the cohort that :meth:`to_arrays` stored; missing request counts become zeros."""
        no_requests = np.zeros((len(arrays["decisions"]), len(REVIEWED_ROUTES)), np.int64)
        stored = {"requested": no_requests, "received": no_requests} | arrays
        return cls(**{field.name: stored[field.name] for field in fields(cls)})

    def __add__(self, other: SliceCohort) -> SliceCohort:
        pairs = zip(self._arrays, other._arrays, strict=True)
        return SliceCohort(*(own_counts + other_counts for own_counts, other_counts in pairs))

    @property
    def _arrays(self) -> tuple[Int64s, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))


def rates_of(counts: SliceCounts) -> tuple[int, ...]:
    """Return the indices of the audit rates of reviewed decisions, increasing, each once."""
    columns = reviewed(counts) & (counts.values[:, :, Counter.N] != 0).any(axis=0)
    return tuple(np.unique(decode_strata(counts.strata[columns]).rate).tolist())


def _on_axes(values: Int64s, strata: StratumColumns, layout: Layout) -> Int64s:
    """Return the values with strata (last axis) spread over the layout's axes, others dropped."""
    position = np.full(MAX_RATES, -1)
    position[list(layout.rates)] = np.arange(len(layout.rates))
    rate = position[strata.rate]
    inside = np.flatnonzero(is_reviewed(strata) & (rate >= 0) & (strata.band < layout.bands))
    placed = np.zeros((*values.shape[:-1], *layout.shape), np.int64)
    placed[..., strata.route[inside], rate[inside], strata.band[inside]] = values[..., inside]
    return placed


def _labels_by_route(labels: Int64s, strata: StratumColumns) -> Int64s:
    """Return sums of labels over the reviewed strata of each route, shape (H, S, 2)."""
    reviewed_strata = is_reviewed(strata)
    return _sums_over(
        labels, [reviewed_strata & (strata.route == route) for route in REVIEWED_ROUTES]
    )


def _decisions_by_route(decisions: Int64s, strata: StratumColumns) -> Int64s:
    """Return sums of production decisions over the strata of each route, shape (H, S, 3)."""
    production_by_route = [~strata.probe & (strata.route == route) for route in Route]
    return _sums_over(np.clip(decisions, 0, None), production_by_route)


def _sums_over(values: Int64s, columns: Sequence[Bools]) -> Int64s:
    """Return sums of the last axis over each mask in ``columns``; masks become the last axis."""
    summed: Int64s = values @ np.stack(columns, axis=1).astype(np.int64)
    return summed
