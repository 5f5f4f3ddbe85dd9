"""An attacker with a solver: nothing below k is pinned by everything that is published."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from cubes import CODING, Cell, build_contract, contract, window
from example_counts import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from monitor.core.contract import GroupBy, Metric
from monitor.core.counts.cells import Route, Stratum, parse_atom
from monitor.core.privacy.bands import Precision, edges
from monitor.core.publish.snapshot import GroupTable, ShownRate, SliceRow

K = 11
REGIONS = ("north", "south")
SETTINGS = contract(
    GroupBy(("channel",), "channel=chat"),
    GroupBy(("channel", "region")),
    GroupBy(("region",)),
    k=K,
)


def upper_edge(support: int) -> int:
    return next(high for low, high in pairwise(edges(K)) if low == support) - 1


def constraints(
    row: SliceRow, inside: np.ndarray, routes: int
) -> tuple[list[np.ndarray], list[float]]:
    """Every inequality A x <= b that a row's selection and blocked rates tell of its cells."""
    left: list[np.ndarray] = []
    right: list[float] = []
    everything = np.repeat(inside, routes).astype(float)
    for metric, route in ((Metric.SELECTION, 0), (Metric.BLOCKED, 2)):
        rate = row.rates.get(metric)
        if rate is None:
            continue
        left += [-everything, everything]
        right += [-rate.support, upper_edge(rate.support)]
        hits = everything * (np.arange(len(everything)) % routes == route)
        low, high = shares(rate)
        left += [low * everything - hits, hits - high * everything]
        right += [0, 0]
    return left, right


def shares(rate: ShownRate) -> tuple[float, float]:
    if rate.value is not None:
        half = float(Precision(K).step(rate.support)) / 2
        return rate.value - half, rate.value + half
    return rate.at_least or 0, 1 if rate.at_most is None else rate.at_most


def feasible(
    groups: list[GroupTable], total: SliceRow, atoms: list[str], target: np.ndarray
) -> tuple[float, float] | None:
    """Smallest and largest value of a sum of cells that agrees with everything published."""
    left, right = constraints(total, np.ones(len(atoms), bool), 3)
    for group in groups:
        for row in group.rows:
            wanted = parse_atom(row.slice).items()
            inside = np.array([wanted <= parse_atom(atom).items() for atom in atoms])
            more = constraints(row, inside, 3)
            left, right = left + more[0], right + more[1]
    if not left:
        return None
    ends = [linprog(s * target, A_ub=np.array(left), b_ub=np.array(right)) for s in (1, -1)]
    assert all(end.status in (0, 3) for end in ends)  # optimal, or unbounded
    low = ends[0].fun if ends[0].status == 0 else 0.0
    high = -ends[1].fun if ends[1].status == 0 else np.inf
    return low, high


@st.composite
def small_cubes(draw: st.DrawFn) -> dict[tuple[str, str], tuple[int, int, int]]:
    sizes = st.one_of(st.integers(0, 3), st.integers(0, 30), st.integers(11, 120))
    return {
        (channel, region): draw(st.tuples(sizes, sizes, sizes))
        for channel in ("chat", "email")
        for region in REGIONS
    }


SOLVED = settings(
    max_examples=examples(40),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def published(
    cube: dict[tuple[str, str], tuple[int, int, int]],
) -> tuple[list[GroupTable], SliceRow, list[str], np.ndarray]:
    """What the attacker reads; no groups where values were pooled (the rows are other sums)."""
    cells = [
        Cell({"channel": c, "region": r}, Stratum(route, 0, 0, route != 2), n)
        for (c, r), counts in cube.items()
        for route, n in zip(Route, counts, strict=True)
    ]
    shown = build_contract(SETTINGS, CODING, [window(cells, "1h")]).windows[0]
    groups = [] if any(pooled(group) for group in shown.groups) else list(shown.groups)
    truth = np.array([n for counts in cube.values() for n in counts], float)
    return groups, shown.total, [f"channel={c},region={r}" for c, r in cube], truth


def pooled(group: GroupTable) -> bool:
    return any("__other__" in row.slice and row.rates for row in group.rows)


@SOLVED
@given(small_cubes())
def test_no_small_cell_is_proved(cube: dict[tuple[str, str], tuple[int, int, int]]) -> None:
    """From bands, rounded rates and codes of everything, no cell is proved to hold 1 to k - 1."""
    groups, total, atoms, truth = published(cube)
    for i in range(len(atoms)):
        cell = np.repeat(np.arange(len(atoms)) == i, 3).astype(float)
        found = feasible(groups, total, atoms, cell) if 0 < cell @ truth < K else None
        assert found is None or not (found[0] > 0.5 and found[1] < K - 0.5)


@SOLVED
@given(small_cubes())
def test_no_coded_route_is_recovered(cube: dict[tuple[str, str], tuple[int, int, int]]) -> None:
    """The routes of a slice that are below k are not recovered from its group-by and the total.

    A coded count says that it is 0 to k - 1; the rates of the total and of the other slices
    narrow that for supports below about a hundred, but never to one number.
    """
    groups, total, atoms, truth = published(cube)
    for channel in ("chat", "email"):
        inside = np.repeat([f"channel={channel}," in atom for atom in atoms], 3)
        for route in range(3):
            cell = (inside & (np.arange(len(truth)) % 3 == route)).astype(float)
            found = feasible(groups[:1], total, atoms, cell) if cell @ truth < K else None
            assert found is None or found[1] - found[0] >= 1


def test_the_attacker_is_able() -> None:
    """Against naive suppression the same solver recovers the hidden cell: the test can fail."""
    a = np.array([[1.0, 1, 1], [-1, -1, -1], [1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]])
    b = np.array([75.0, -75, 40, -40, 30, -30])  # total 75, shown 40 and 30, the third hidden
    low = linprog([0, 0, 1], A_ub=a, b_ub=b).fun
    high = -linprog([0, 0, -1], A_ub=a, b_ub=b).fun
    assert (low, high) == pytest.approx((5, 5))
