"""Decisions and labels by stage of the router, from exact counts of cells."""

from __future__ import annotations

import numpy as np

from monitor.core.counts.cells import Counter, Int64s, Route, decode_strata
from monitor.core.counts.rollup import SliceCounts
from monitor.core.counts.strata import REVIEWED_ROUTES, production, reviewed_cells, reviewed_columns
from monitor.core.intervals import Floats


def stage_counts(counts: SliceCounts, bands: int) -> tuple[Int64s, Int64s]:
    """Production decisions that passed the gate, (S, 2, bands), and that did not, (S, 3).

    The gate stops what is blocked and what has no evidence.
    """
    strata = decode_strata(counts.strata)
    inside = production(counts)
    passed = inside & strata.evidence_passed & np.isin(strata.route, REVIEWED_ROUTES)
    decisions = np.maximum(counts.values[:, :, Counter.N], 0)
    through = np.zeros((len(REVIEWED_ROUTES), bands, len(counts.slices)), np.int64)
    np.add.at(through, (strata.route[passed], strata.band[passed]), decisions[:, passed].T)
    rest = inside & ~passed
    stopped = np.zeros((len(Route), len(counts.slices)), np.int64)
    np.add.at(stopped, strata.route[rest], decisions[:, rest].T)
    return np.moveaxis(through, -1, 0), stopped.T


def ready_counts(counts: SliceCounts, bands: int) -> tuple[Floats, Floats, Floats]:
    """Reviewed decisions, labels and ready ones, each by (slice, route, rate, band)."""
    cells, _ = reviewed_cells(counts)
    _, strata = reviewed_columns(counts)
    every = np.zeros((*cells.shape[:3], bands, cells.shape[4]))
    every[:, :, :, np.unique(strata.band)] = cells
    decisions, labelled, ready = np.moveaxis(every, -1, 1)
    return decisions, labelled, ready
