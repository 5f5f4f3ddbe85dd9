"""Rows of the census as weeks of decisions: counts by slice and stratum."""

from __future__ import annotations

import numpy as np
import pandas as pd
from census import History

from monitor.core.counts.cells import COUNTERS, Counter, Route, Stratum
from monitor.core.counts.rollup import SliceCounts

EDGES = (0.25, 0.5, 0.75)
"""Score bands; the router serves from 0.5 on."""
_KEYS = ["route", "band", "rate"]
_COLUMNS = [Counter.N, Counter.LABELLED, Counter.READY]


def rows() -> pd.DataFrame:
    """All people, with score, route and outcome."""
    return History("28d", 1.0).frame[["sex", "rac1p", "score", "auto", "ready"]]


def counts_of(frame: pd.DataFrame, by: pd.Series, audit: float) -> SliceCounts:
    """Rows as strata; all reviews are labelled, and a share of what is served."""
    rng = np.random.default_rng(5)
    labelled = ~frame["auto"] | (rng.random(len(frame)) < audit)
    made = pd.DataFrame(
        {
            "slice": by,
            "route": np.where(frame["auto"], Route.AUTO_SERVE, Route.HUMAN_REVIEW),
            "band": np.searchsorted(EDGES, frame["score"], side="right"),
            "rate": np.where(frame["auto"] & (audit < 1), 1, 0),
            "n": 1,
            "labelled": labelled,
            "ready": frame["ready"] & labelled,
        }
    )
    sums = made.groupby(["slice", *_KEYS])[["n", "labelled", "ready"]].sum().reset_index()
    strata = sums[_KEYS].drop_duplicates().to_numpy(np.int64).tolist()
    codes = {(r, band, rate): Stratum(Route(r), band, rate).code for r, band, rate in strata}
    order = sorted(codes.values())
    slices = tuple(sorted(sums["slice"].unique()))
    values = np.zeros((len(slices), len(order), COUNTERS), np.int64)
    for name, its in sums.groupby("slice"):
        for row in its[[*_KEYS, "n", "labelled", "ready"]].to_numpy(np.int64).tolist():
            at = order.index(codes[row[0], row[1], row[2]])
            values[slices.index(str(name)), at, _COLUMNS] = row[3:]
    return SliceCounts(slices, np.array(order, np.int64), values)
