"""When a page ends: when labels show that it is over, never because they are few."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from fleet_cells import Cells, Traffic, coding, limits

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.cells import COUNTERS, Counter, Route, Stratum, merge
from monitor.core.counts.rollup import SliceCounts, roll_up
from monitor.core.metric import Metric
from monitor.detection.pages.budget import resolved
from monitor.detection.pages.streams import Direction, Stream, StreamKind

CODING = coding(a="uv")
LIMITS = limits("0.10", "0.80", "0.20")
K = 11
ROUTES = (Route.AUTO_SERVE, Route.HUMAN_REVIEW, Route.BLOCKED_BY_EVIDENCE)
CODES = [Stratum(route, 0, 0, route is not Route.BLOCKED_BY_EVIDENCE).code for route in ROUTES]


@dataclass(frozen=True)
class Side:
    """What became of the decisions of a slice; all that can be labelled is."""

    served_ready: int = 850
    reviewed_ready: int = 150
    served_not: int = 150
    reviewed_not: int = 850
    blocked: int = 50

    def worse(self, metric: Metric, by: int) -> Side:
        """The rate is worse by this many in 1000, or about."""
        if metric is Metric.TPR:
            ready = (self.served_ready - by, self.reviewed_ready + by)
            return replace(self, served_ready=ready[0], reviewed_ready=ready[1])
        if metric is Metric.FPR:
            others = (self.served_not + by, self.reviewed_not - by)
            return replace(self, served_not=others[0], reviewed_not=others[1])
        if metric is Metric.SELECTION:
            return self.worse(Metric.TPR, by * 21 // 20).worse(Metric.FPR, -by)
        return replace(self, blocked=self.blocked + by * 23 // 10)


def table(sides: Mapping[str, Side]) -> SliceCounts:
    """Labelled completely."""
    values = np.zeros((len(sides), len(ROUTES), COUNTERS), np.int64)
    for row, side in enumerate(sides.values()):
        for column, (ready, other) in enumerate(
            ((side.served_ready, side.served_not), (side.reviewed_ready, side.reviewed_not))
        ):
            values[row, column, [Counter.N, Counter.LABELLED]] = ready + other
            values[row, column, Counter.READY] = ready
        values[row, 2, Counter.N] = side.blocked
    order = np.argsort(CODES)
    return SliceCounts(tuple(sides), np.array(CODES)[order], values[:, order])


def gap_of(metric: Metric, direction: Direction, reference: str = COMPLEMENT) -> Stream:
    return Stream("c", "a", metric, StreamKind.GAP, "a=u", reference, direction, Fraction(1, 10))


def ratio_of(direction: Direction, reference: str = COMPLEMENT, limit: str = "0.8") -> Stream:
    kind = StreamKind.RATIO
    return Stream("c", "a", Metric.SELECTION, kind, "a=u", reference, direction, Fraction(limit))


def level_of(metric: Metric) -> Stream:
    limit = {Metric.TPR: LIMITS.min_tpr, Metric.FPR: LIMITS.max_fpr}[metric]
    assert limit is not None
    return Stream("c", "a", metric, StreamKind.LEVEL, "a=u", "", Direction.SLICE_WORSE, limit)


def over(stream: Stream, u: Side, v: Side | None = None, k: int = K) -> bool:
    return resolved(stream, table({"a=u": u, "a=v": v or Side()}), CODING, LIMITS, k)


def served(share: float, of: int = 20_000) -> Side:
    """So much of all decisions is served, ready or not."""
    half = of // 2
    yes = round(share * half)
    return Side(yes, half - yes, yes, half - yes, 0)


@pytest.mark.parametrize("reference", [COMPLEMENT, "a=v"])
@pytest.mark.parametrize(
    ("u", "v", "slice_over", "reference_over"),
    [
        (0.50, 0.50, True, True),
        (0.30, 0.50, False, True),  # .6 of the reference: the slice is worse off
        (0.50, 0.30, True, False),
        (0.41, 0.50, False, True),  # .82, but the bounds straddle the limit
        (0.45, 0.50, True, True),
        (0.20, 0.00, True, False),  # over 0 nothing is known of a ratio's upper bound
        (0.00, 0.00, False, False),
    ],
)
def test_a_page_of_a_ratio_is_over_by_its_own_bound(
    u: float, v: float, slice_over: bool, reference_over: bool, reference: str
) -> None:
    small, large = (served(share, 2_000) for share in (u, v))
    wanted = {Direction.SLICE_WORSE: slice_over, Direction.REFERENCE_WORSE: reference_over}
    for direction, ended in wanted.items():
        assert over(ratio_of(direction, reference), small, large) is ended, direction


METRICS = (Metric.TPR, Metric.FPR, Metric.BLOCKED, Metric.SELECTION)
EITHER = pytest.mark.parametrize("direction", Direction)
OF_ALL = pytest.mark.parametrize("metric", METRICS)
BOTH_WAYS = pytest.mark.parametrize("reference", [COMPLEMENT, "a=v"])


@OF_ALL
@EITHER
@BOTH_WAYS
def test_equal_rates_end_a_page(metric: Metric, direction: Direction, reference: str) -> None:
    assert over(gap_of(metric, direction, reference), Side())


@OF_ALL
@EITHER
@BOTH_WAYS
def test_a_gap_above_the_limit_stands_in_its_own_direction_only(
    metric: Metric, direction: Direction, reference: str
) -> None:
    bad = Side().worse(metric, 150)
    u, v = (bad, Side()) if direction is Direction.SLICE_WORSE else (Side(), bad)
    assert not over(gap_of(metric, direction, reference), u, v)
    opposite = next(one for one in Direction if one is not direction)
    assert over(gap_of(metric, opposite, reference), u, v)


@OF_ALL
def test_it_is_the_bound_that_decides_not_the_point(metric: Metric) -> None:
    stream = gap_of(metric, Direction.SLICE_WORSE)
    assert not over(stream, Side().worse(metric, 90)), "the point is within, the bound is not"
    assert over(stream, Side().worse(metric, 50))


@pytest.mark.parametrize("metric", [Metric.TPR, Metric.FPR])
def test_a_level_ends_when_its_bound_is_kept(metric: Metric) -> None:
    good = Side().worse(metric, -50)
    assert over(level_of(metric), good)
    assert not over(level_of(metric), good.worse(metric, 90)), "the point is kept, the bound is not"
    assert not over(level_of(metric), good.worse(metric, 150))


def test_a_level_does_not_ask_for_the_others() -> None:
    assert resolved(level_of(Metric.TPR), table({"a=u": Side(950, 50)}), CODING, LIMITS, K)


FEW_POSITIVES = Side(42, 7)
FEW_LABELS = Side(900, 5, 100, 5)


@pytest.mark.parametrize("few", [FEW_POSITIVES, FEW_LABELS, Side(0, 0, 0, 0, 0)])
@EITHER
@BOTH_WAYS
def test_without_support_on_either_side_it_never_ends(
    few: Side, direction: Direction, reference: str
) -> None:
    """Fewer than 50 positives, or fewer than k labels in a route."""
    stream = gap_of(Metric.TPR, direction, reference)
    alike = Side(9000, 5 * (few is FEW_LABELS) + 1000)
    assert not over(stream, few, alike)
    assert not over(stream, alike, few)
    assert not over(replace(level_of(Metric.TPR), limit=Fraction(0)), few)


def test_k_labels_in_a_route_are_enough() -> None:
    edge = Side(900, 8, 100, 3)
    assert over(gap_of(Metric.TPR, Direction.SLICE_WORSE), edge, k=11)
    assert not over(gap_of(Metric.TPR, Direction.SLICE_WORSE), edge, k=12)


@OF_ALL
def test_what_is_not_there_has_not_ended(metric: Metric) -> None:
    for direction in Direction:
        for stream in (
            replace(gap_of(metric, direction), slice="a=w"),
            gap_of(metric, direction, "a=w"),
        ):
            assert not over(stream, Side())
        empty = table({})
        assert not resolved(gap_of(metric, direction), empty, CODING, LIMITS, K)
        alone = table({"a=u": Side()})
        assert not resolved(gap_of(metric, direction), alone, CODING, LIMITS, K)


def test_labels_that_never_came_do_not_end_it() -> None:
    """All of auto_serve unlabelled: its rate is not known."""
    counts = table({"a=u": Side(), "a=v": Side()})
    served = counts.strata == CODES[0]
    counts.values[:, served, Counter.LABELLED] = counts.values[:, served, Counter.READY] = 0
    for metric in (Metric.TPR, Metric.FPR):
        for direction in Direction:
            assert not resolved(gap_of(metric, direction), counts, CODING, LIMITS, K)


@pytest.mark.parametrize("audit", [0, pytest.param(1, marks=pytest.mark.full)])
def test_a_standing_gap_is_hardly_ever_ended(audit: int) -> None:
    """Gap .15, limit .10: 100 + 100 ready labels a day, looked at after each of seven days.

    Where a fifth of auto_serve is labelled there are more decisions for as many labels.
    """
    stream, falsely, seeds = gap_of(Metric.TPR, Direction.SLICE_WORSE), 0, 150
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        falsely += any(
            resolved(stream, counts, CODING, LIMITS, K) for counts in _days(rng, audit, 0.15)
        )
    assert falsely <= 0.03 * seeds


@pytest.mark.parametrize("audit", [0, 1])
def test_a_gap_that_is_mended_is_ended_within_a_week(audit: int) -> None:
    stream, ended, seeds = gap_of(Metric.TPR, Direction.SLICE_WORSE), 0, 60
    for seed in range(seeds):
        rng = np.random.default_rng(1000 + seed)
        ended += any(
            resolved(stream, counts, CODING, LIMITS, K) for counts in _days(rng, audit, 0.0)
        )
    assert ended >= 0.9 * seeds


def _days(rng: np.random.Generator, audit: int, gap: float) -> list[SliceCounts]:
    """What has come after one day, two, and so on."""
    if audit == 0:
        tallies = rng.binomial(100, [0.85 - gap, 0.85], (7, 2)).cumsum(axis=0)
        return [
            table(
                {
                    f"a={name}": Side(k, 100 * (day + 1) - k, 50, 50)
                    for name, k in zip("uv", row, strict=True)
                }
            )
            for day, row in enumerate(tallies.tolist())
        ]
    cells = Cells(("a=u", "a=v"))
    traffic = Traffic(hourly=450, tpr=np.array([0.85 - gap, 0.85]), audit=audit)
    hours = [cells.hour(rng, traffic) for _ in range(7)]
    return [roll_up(merge(hours[: day + 1]), cells.index, ("a",)) for day in range(7)]
