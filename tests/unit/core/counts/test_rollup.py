"""Totals over cells."""

from __future__ import annotations

import numpy as np

from monitor.core.counts.cells import COUNTERS, Counter, Counts, Route, Stratum
from monitor.core.counts.rollup import CellIndex, production_totals

PLAIN, PROBE = (Stratum(Route.AUTO_SERVE, 0, 0, probe=probe).code for probe in (False, True))
INDEX = CellIndex(
    np.array([3, 5, 9]), np.array([1, 1, 2]), np.array([PLAIN, PROBE, PLAIN]), {1: "a=x", 2: "a=y"}
)


def table(**decisions: int) -> Counts:
    keys = np.array([int(name[1:]) for name in decisions])
    values = np.zeros((len(keys), COUNTERS), np.int64)
    values[:, Counter.N] = list(decisions.values())
    values[:, Counter.LABELLED] = values[:, Counter.N] // 10
    return Counts(keys, values)


def test_totals_are_of_production_alone() -> None:
    totals = production_totals(table(c3=100, c5=7_000, c9=20), INDEX)

    assert totals.shape == (COUNTERS,)
    assert totals[Counter.N] == 120
    assert totals[Counter.LABELLED] == 12


def test_nothing_and_probes_alone_are_zeros() -> None:
    assert not production_totals(Counts.empty(), INDEX).any()
    assert not production_totals(table(c5=40), INDEX).any()
