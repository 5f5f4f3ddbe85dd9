"""Slice cohorts: one mature cohort of all slices of a group-by, in dense arrays.

A cohort is the decisions of one hour, once their labels are in. Labelled arrays have the axes
slice, route (:data:`~monitor.core.counts.strata.REVIEWED_ROUTES`), audit rate and score band, and
hold production decisions with evidence only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from monitor.core.counts.cells import MAX_RATES, Counter, Int64s, Route, decode_strata
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.counts.strata import REVIEWED_ROUTES, production, reviewed
from monitor.core.intervals import Floats
from monitor.detection.arrays import positions


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
    def of(cls, rates: Sequence[int], coding: Coding) -> Layout:
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
    def of(cls, counts: SliceCounts, slices: Sequence[str], layout: Layout) -> SliceCohort:
        """Counts of one hour as arrays with one row for every slice.

        Rates outside the layout are left out of the labelled arrays; see :func:`rates_of`.

        Args:
            counts: rolled up to the group-by.
            slices: the rows wanted; a slice without decisions is a row of zeros.
            layout: the axes.
        """
        columns = np.flatnonzero(reviewed(counts))
        strata = decode_strata(counts.strata[columns])
        position = np.full(MAX_RATES, -1)
        position[list(layout.rates)] = np.arange(len(layout.rates))
        rate = position[strata.rate]
        inside = (rate >= 0) & (strata.band < layout.bands)
        at = (strata.route[inside], rate[inside], strata.band[inside])
        rows = positions(counts.slices, slices)
        cells = np.zeros((3, *layout.shape, len(slices)), np.int64)
        for row, counter in enumerate((Counter.N, Counter.LABELLED, Counter.READY)):
            values = counts.values[:, columns[inside], counter]
            np.add.at(cells[row], at, _take(values, rows).T)
        cells = np.moveaxis(cells, -1, 1)
        labelled = np.clip(cells[1], 0, None)
        decisions = np.maximum(cells[0], labelled)
        ready = np.clip(cells[2], 0, labelled)
        asked, came = _by_route(counts, columns, rows)
        return cls(decisions, labelled, ready, _routed(counts, rows), asked, came)

    @property
    def complements(self) -> SliceCohort:
        """Row i: everything in the group-by but slice i."""
        return SliceCohort(*(x.sum(axis=0) - x for x in self._arrays))

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


def _by_route(counts: SliceCounts, columns: Int64s, rows: Int64s) -> tuple[Int64s, Int64s]:
    """Labels requested and received in each slice by route, each of shape (S, 2)."""
    route = decode_strata(counts.strata[columns]).route
    values = counts.values[:, columns]
    received = values[:, :, Counter.LABELLED] + values[:, :, Counter.UNDECIDABLE]
    asked, came = (
        np.stack([labels[:, route == one].sum(axis=1) for one in REVIEWED_ROUTES], axis=1)
        for labels in (values[:, :, Counter.Q], received)
    )
    # A label that nobody requested does not make up for a missing one.
    asked = np.clip(asked, 0, None)
    return _take(asked, rows), _take(np.clip(came, 0, asked), rows)


def _routed(counts: SliceCounts, rows: Int64s) -> Int64s:
    routes = decode_strata(counts.strata).route
    decisions = np.clip(counts.values[:, :, Counter.N], 0, None) * production(counts)
    by_route = [decisions[:, routes == route].sum(axis=1) for route in Route]
    return _take(np.stack(by_route, axis=1), rows)


def _take(values: Int64s, rows: Int64s) -> Int64s:
    """Some rows; zeros for -1."""
    nothing = np.zeros((1, *values.shape[1:]), np.int64)
    taken: Int64s = np.concatenate([values, nothing])[rows]
    return taken
