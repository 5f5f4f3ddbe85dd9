"""E[R] of every stream of a group-by, by enumeration: at most the clock that has run.

Days of a few decisions follow a day that is known, so that bets have forecasts; what is learnt
from the first of them is bet on in the next. At its limit a level expects exactly the clock.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import detection_oracle as oracle
import numpy as np
import pytest
from answered import answered

from monitor.core.contract import Contract, GroupBy, Limits, OwnLimits
from monitor.core.counts.coding import Attribute, Coding
from monitor.core.metric import Metric
from monitor.core.rates.estimates import HIT_ROUTES
from monitor.detection.pages.budget import Budget
from monitor.detection.pages.cluster_share import ClusterShare
from monitor.detection.pages.cohort import Layout, SliceCohort
from monitor.detection.pages.declared import all_streams
from monitor.detection.pages.group import GroupTests
from monitor.detection.pages.outcomes import BINS
from monitor.detection.pages.streams import Direction, Stream, StreamKind

CODING = Coding((Attribute("channel", ("chat", "email")),), score_bands=(), audit_rates=(1.0, 0.25))
LAYOUT = Layout.for_rates((0, 1), CODING)
GROUP = GroupBy(("channel",))
LIMITS = Limits(
    max_tpr_gap=Fraction("0.10"),
    max_fpr_gap=Fraction("0.10"),
    max_blocked_gap=Fraction("0.10"),
    min_tpr=Fraction("0.70"),
    max_fpr=Fraction("0.30"),
    min_positives=50,
    min_negatives=50,
    max_selection_gap=Fraction("0.10"),
    min_selection_ratio=Fraction(9, 10),
    max_precision_gap=Fraction("0.10"),
)
OWN = OwnLimits(
    "channel",
    "channel=email",
    (
        ("max_tpr_gap", Fraction("0.12")),
        ("max_selection_gap", Fraction("0.05")),
        ("min_selection_ratio", Fraction(91, 100)),
    ),
)
CONTRACT = Contract(
    *("replies", "1", "owner", LIMITS, "7d", (GROUP,), False, 11), own_limits=(OWN,)
)
OTHER = "channel=__other__"
ROWS = {"channel=chat": 2, "channel=email": 3}
MONDAY = 480_000 - (480_000 - 96) % 168
"""First hour of an ISO week."""


@dataclass(frozen=True)
class Slice:
    """How the decisions of a slice are: what the contract limits, and P(ready).

    Of the labels that are requested of auto_serve, a share is lost.
    """

    tpr: float
    fpr: float
    blocked: float
    ready: float
    lost: float = 0.0

    @property
    def selection(self) -> float:
        """P(auto_serve)."""
        return (1 - self.blocked) * (self.ready * self.tpr + (1 - self.ready) * self.fpr)

    @property
    def precision(self) -> float:
        """P(ready | auto_serve)."""
        served_ready = self.ready * self.tpr
        return served_ready / (served_ready + (1 - self.ready) * self.fpr)


@dataclass(frozen=True)
class Decision:
    """One outcome of one decision: auto or not, None if blocked, and its label."""

    auto: bool | None
    ready: bool | None = None


def outcomes(truth: Slice) -> Iterator[tuple[float, Decision]]:
    """Reviewed decisions are all labelled, of the others one in four."""
    yield truth.blocked, Decision(None)
    shares = oracle.cell_shares(truth.tpr, truth.ready, truth.fpr)
    for auto, (share, rate) in shares.items():
        audit = 0.25 * (1 - truth.lost) if auto else 1.0
        reviewed = (1 - truth.blocked) * share
        if auto:
            yield reviewed * (1 - audit), Decision(auto)
        for ready, chance in ((True, rate), (False, 1 - rate)):
            yield reviewed * chance * audit, Decision(auto, ready)


def cohort_of(decisions: dict[int, Decision]) -> SliceCohort:
    cells = np.zeros((3, 4, *LAYOUT.shape), np.int64)
    routed = np.zeros((4, 3), np.int64)
    for row, decision in decisions.items():
        if decision.auto is None:
            routed[row, 2] += 1
            continue
        route, rate = (0, 1) if decision.auto else (1, 0)
        routed[row, route] += 1
        labelled = decision.ready is not None
        cells[:, row, route, rate, 0] += [1, labelled, bool(decision.ready)]
    return answered(cells[0], cells[1], cells[2], routed)


def known_day() -> SliceCohort:
    """A day that everybody has seen: only forecasts come of it."""
    cells = np.zeros((3, 4, *LAYOUT.shape), np.int64)
    for row, (auto, review) in {2: (0.8, 0.5), 3: (0.6, 0.2)}.items():
        cells[:, row, 0, 1, 0] = 400, 100, int(100 * auto)
        cells[:, row, 1, 0, 0] = 300, 300, int(300 * review)
    decisions, labelled, ready = cells
    return answered(decisions, labelled, ready, np.zeros((4, 3), np.int64))


def begun(
    cluster_size: int = 1,
    metrics: Collection[Metric] = tuple(Metric),
    known: SliceCohort | None = None,
) -> GroupTests:
    budget = Budget().declare(all_streams([CONTRACT], CODING))
    tests = GroupTests.start(CONTRACT, GROUP, CODING, budget, cluster_size, metrics=metrics)
    tests.advance(MONDAY, known or known_day(), LAYOUT)
    return tests


def futures(
    tests: GroupTests, days: list[dict[str, Slice]], hour: int, chance: float = 1.0
) -> Iterator[tuple[float, GroupTests]]:
    """All that can come of one decision a day in each slice, and of a last hour without any."""
    if not days:
        yield chance, advanced(tests, hour, {})
        return
    rows = [ROWS[name] for name in days[0]]
    for drawn in itertools.product(*(list(outcomes(truth)) for truth in days[0].values())):
        both = math.prod(p for p, _ in drawn)
        decisions = dict(zip(rows, (decision for _, decision in drawn), strict=True))
        later = advanced(tests, hour, decisions)
        yield from futures(later, days[1:], hour + 24, chance * both)


def advanced(tests: GroupTests, hour: int, decisions: dict[int, Decision]) -> GroupTests:
    """A copy that has consumed one more cohort."""
    later = copy.deepcopy(tests)
    later.advance(hour, cohort_of(decisions), LAYOUT)
    return later


def expectations(
    days: list[dict[str, Slice]], cluster_size: int = 1, begin: GroupTests | None = None
) -> dict[Stream, tuple[float, float]]:
    """E[R + pending clock] of every stream, for pages (in days) and for tickets (in weeks)."""
    total: dict[Stream, np.ndarray] = {}
    for chance, tests in futures(begin or begun(cluster_size), days, MONDAY + 24):
        for watch in tests.watches.values():
            assert watch.week is not None
            for row, stream in enumerate(watch.streams):
                values = np.array(
                    [
                        np.exp(mixture.statistic()[row]) + mixture.pending[row]
                        for mixture in (watch.mixture, watch.week.mixture)
                    ]
                )
                total[stream] = total.get(stream, 0) + chance * values
    return {stream: tuple(values) for stream, values in total.items()}


def innocent(days: list[dict[str, Slice]], stream: Stream) -> bool:
    """Whether the stream's null holds on all days."""
    return all(harm(day, stream) <= 1e-9 for day in days)


def harm(day: dict[str, Slice], stream: Stream) -> float:
    """How far beyond the limit; nobody is harmed where there is nobody."""
    name = stream.metric.value
    rates: dict[str, float] = {text: getattr(truth, name) for text, truth in day.items()}
    less = (Metric.TPR, Metric.SELECTION, Metric.PRECISION)
    sign = -1 if stream.metric in less else 1
    if stream.kind is StreamKind.LEVEL:
        return sign * (rates.get(stream.slice, stream.limit) - float(stream.limit))
    if len(rates) == 1 or stream.slice not in rates:
        return 0.0
    own = rates.pop(stream.slice)
    (other,) = rates.values()
    if stream.kind is StreamKind.RATIO:
        mine, theirs = own, other
        if stream.direction is Direction.REFERENCE_WORSE:
            mine, theirs = other, own
        return float(stream.limit) * theirs - mine
    worse = sign * (own - other)
    return (worse if stream.direction is Direction.SLICE_WORSE else -worse) - float(stream.limit)


AT_ALL_LIMITS = {
    "channel=chat": Slice(tpr=0.7, fpr=0.3, blocked=0.15, ready=0.6),
    "channel=email": Slice(tpr=0.8, fpr=0.2, blocked=0.05, ready=0.4),
}
"""The selection rates are .459 and .418, whose ratio is hardly within .9."""
MOVED = {
    "channel=chat": Slice(tpr=0.7, fpr=0.3, blocked=0.4, ready=0.3),
    "channel=email": Slice(tpr=0.8, fpr=0.4, blocked=0.5, ready=0.7),
}


GAPS = (Metric.TPR, Metric.FPR, Metric.BLOCKED, Metric.SELECTION, Metric.PRECISION)


def chat_only(day: dict[str, Slice]) -> dict[str, Slice]:
    return {"channel=chat": day["channel=chat"]}


@pytest.mark.full
@pytest.mark.parametrize(
    ("day", "next_day", "cluster_size"),
    [(AT_ALL_LIMITS, AT_ALL_LIMITS, 1), (AT_ALL_LIMITS, MOVED, 1), (MOVED, AT_ALL_LIMITS, 3)],
    ids=["still", "moving", "clusters"],
)
def test_evidence_expects_at_most_the_clock(
    day: dict[str, Slice], next_day: dict[str, Slice], cluster_size: int
) -> None:
    days = [chat_only(day), next_day]
    found = expectations(days, cluster_size)
    checked = [stream for stream in found if innocent(days, stream)]
    gaps = {(s.metric, s.direction) for s in checked if s.kind is StreamKind.GAP}
    assert gaps == set(itertools.product(GAPS, Direction))
    ratios = {(s.slice, s.direction) for s in checked if s.kind is StreamKind.RATIO}
    assert ratios >= {(OTHER, Direction.SLICE_WORSE), ("channel=chat", Direction.REFERENCE_WORSE)}
    hours = 2 + len(days)
    for stream in checked:
        in_days, in_weeks = found[stream]
        assert in_days <= hours / 24 * (1 + 1e-9), stream
        assert in_weeks <= hours / 168 * (1 + 1e-9), stream
        if stream.kind is StreamKind.LEVEL and stream.slice in ROWS and cluster_size == 1:
            at_limit = stream.slice == "channel=chat"
            assert (in_days == pytest.approx(hours / 24)) == at_limit, stream


@pytest.mark.full
def test_a_breach_expects_more() -> None:
    """Of what one decision is enough for: levels, and rates that need no labels."""
    breach = {
        "channel=chat": Slice(tpr=0.3, fpr=0.6, blocked=0.6, ready=0.6),
        "channel=email": Slice(tpr=0.9, fpr=0.1, blocked=0.05, ready=0.4),
    }
    found = expectations([chat_only(breach), breach])
    worse = {
        stream: in_days
        for stream, (in_days, _) in found.items()
        if stream.slice == "channel=chat"
        and stream.direction is Direction.SLICE_WORSE
        and (stream.kind is StreamKind.LEVEL or not stream.metric.labelled)
    }
    assert len(worse) == 5
    assert min(worse.values()) > 4 / 24 * (1 + 1e-9)


# Labels that are missing.


def forecast(slice_: str) -> float:
    """P(ready | auto_serve) that the day after the known one is bet on with."""
    ready = advanced(begun(), MONDAY + 24, {}).ready.forecast().ready[ROWS[slice_], 0, 1, 0]
    return (math.floor(float(ready) * BINS) + 0.5) / BINS


def as_forecast(slice_: str, tpr: float, ready: float, lost: float) -> Slice:
    """A slice whose served replies are ready as often as is forecast."""
    fpr = ready * tpr * (1 / forecast(slice_) - 1) / (1 - ready)
    return Slice(tpr, fpr, blocked=0.1, ready=ready, lost=lost)


@pytest.mark.full
@pytest.mark.parametrize("lost", [0.5, 1.0])
def test_a_forecast_in_place_of_lost_labels_expects_at_most_the_clock(lost: float) -> None:
    """What hours are consumed with that stay incomplete: at its limit a level expects the clock."""
    day = {
        "channel=chat": as_forecast("channel=chat", 0.70, 0.6, lost),
        "channel=email": as_forecast("channel=email", 0.80, 0.4, lost / 2),
    }
    found = expectations([day])
    checked = [one for one in found if one.metric.labelled and innocent([day], one)]
    assert {one.metric for one in checked} == {Metric.TPR, Metric.FPR, Metric.PRECISION}
    assert all(found[one][0] <= 3 / 24 * (1 + 1e-9) for one in checked)
    (level,) = (
        one
        for one in checked
        if (one.slice, one.metric, one.kind) == ("channel=chat", Metric.TPR, StreamKind.LEVEL)
    )
    assert found[level][0] == pytest.approx(3 / 24)


def test_labels_that_do_not_come_expect_the_clock_whatever_they_would_have_said() -> None:
    """No bet is made on chat, far beyond its limits, nor on email against it."""
    known = known_day()
    received = known.received.copy()
    received[ROWS["channel=chat"], 0] = 70  # of a hundred
    begin = begun(known=replace(known, received=received))
    day = {
        "channel=chat": Slice(tpr=0.1, fpr=0.9, blocked=0.15, ready=0.6),
        "channel=email": Slice(tpr=0.8, fpr=0.2, blocked=0.05, ready=0.4),
    }
    found = expectations([day], begin=begin)
    starved = [
        one
        for one in found
        if one.metric.labelled
        and one.slice in ROWS
        and (one.kind is StreamKind.GAP or one.slice == "channel=chat")
    ]
    assert len(starved) == 2 * 2 * 3 + 2
    assert all(found[one][0] == pytest.approx(3 / 24) for one in starved)
    checked = [one for one in found if one not in starved and innocent([day], one)]
    assert any(one.metric.labelled and one.slice == "channel=email" for one in checked)
    assert all(found[one][0] <= 3 / 24 * (1 + 1e-9) for one in checked)


Unit = dict[tuple[int, int], int]
"""How many decisions one sender makes, by hour of the day and row: all with one outcome."""

UNITS: dict[str, list[Unit]] = {
    "of several sizes": [{(0, 2): 3}, {(0, 2): 1, (0, 3): 1}],
    "in slice and reference": [{(0, 2): 2, (0, 3): 2}, {(0, 3): 1}],
    "that come back within the day": [{(0, 2): 1, (1, 2): 2, (2, 3): 1}, {(1, 3): 1}],
}


def alike(day: dict[str, Slice]) -> Iterator[tuple[float, dict[int, Decision]]]:
    """One outcome for every slice, as dependent as can be: all by one quantile."""
    drawn = {ROWS[name]: list(outcomes(truth)) for name, truth in day.items()}
    ends = {row: np.cumsum([p for p, _ in found]) for row, found in drawn.items()}
    edges = np.unique(np.round(np.concatenate([[0.0], *ends.values()]), 12))
    for low, high in itertools.pairwise(edges.tolist()):
        at = {row: int(np.searchsorted(end, (low + high) / 2)) for row, end in ends.items()}
        yield high - low, {row: drawn[row][place][1] for row, place in at.items()}


_BEGUN = begun()


def played(
    units: list[Unit],
    drawn: list[dict[int, Decision]],
    sizes: Sequence[float],
    begin: GroupTests = _BEGUN,
) -> GroupTests:
    """A day of these units by the real tests, with a size for every hour, and the hour after it."""
    tests = copy.deepcopy(begin)
    for hour, size in enumerate(sizes):
        cohort = cohort_of({})
        for unit, outcome in zip(units, drawn, strict=True):
            for row in (row for at, row in unit if at == hour):
                for _ in range(unit[hour, row]):
                    cohort = cohort + cohort_of({row: outcome[row]})
        tests.advance(MONDAY + 24 + hour, cohort, LAYOUT, size)
    tests.advance(MONDAY + 48, cohort_of({}), LAYOUT)
    return tests


def hours_of(units: list[Unit]) -> range:
    """The hours of the day in which they send."""
    return range(max(hour for unit in units for hour, _ in unit) + 1)


def expected_of_units(
    units: list[Unit], sizes: Sequence[float], begin: GroupTests = _BEGUN
) -> tuple[dict[Stream, float], int]:
    """E[R + pending clock] of every stream (in days), and the cohorts that there were."""
    total: dict[Stream, float] = {}
    for drawn in itertools.product(list(alike(AT_ALL_LIMITS)), repeat=len(units)):
        chance = math.prod(p for p, _ in drawn)
        tests = played(units, [outcome for _, outcome in drawn], sizes, begin)
        for watch in tests.watches.values():
            found = np.exp(watch.mixture.statistic()) + watch.mixture.pending
            for stream, value in zip(watch.streams, found.tolist(), strict=True):
                total[stream] = total.get(stream, 0) + chance * value
    return total, 2 + len(sizes)


@pytest.mark.full
@pytest.mark.parametrize("name", UNITS)
def test_bets_divided_by_the_largest_unit_expect_at_most_the_clock(name: str) -> None:
    """Conditional on who sends what; divided by 1 instead, some streams expect more."""
    units = UNITS[name]
    largest, hours = max(sum(unit.values()) for unit in units), len(hours_of(units))
    found, cohorts = expected_of_units(units, [largest] * hours)
    checked = [stream for stream in found if innocent([AT_ALL_LIMITS], stream)]
    assert len(checked) > 8
    assert all(found[stream] <= cohorts / 24 * (1 + 1e-9) for stream in checked)
    undivided, _ = expected_of_units(units, [1] * hours)
    assert any(undivided[stream] > cohorts / 24 * (1 + 1e-6) for stream in checked)


GROWING: dict[str, list[Unit]] = {
    "again every hour": [{(hour, row): 1 for hour in range(3)} for row in (2, 3)],
    "large at the end": [{(0, 2): 1, (1, 2): 1, (2, 2): 2}, {(0, 3): 1, (1, 3): 1, (2, 3): 1}],
}


def so_far(units: list[Unit]) -> list[int]:
    """The largest unit up to the end of every hour."""
    return [
        max(1, *(sum(n for (at, _), n in unit.items() if at <= hour) for unit in units))
        for hour in hours_of(units)
    ]


@pytest.mark.full
@pytest.mark.parametrize("name", GROWING)
def test_hours_that_wait_for_no_day_expect_at_most_the_clock(name: str) -> None:
    """Whatever was expected of the day; by the largest unit so far, some streams expect more."""
    units, begin = GROWING[name], begun(metrics=tuple(HIT_ROUTES))
    largest = so_far(units)
    for expected in (1, 2, largest[-1]):
        share = ClusterShare()
        sizes = [share.enter(1, expected, counted) for counted in largest]
        found, cohorts = expected_of_units(units, sizes, begin)
        checked = [stream for stream in found if innocent([AT_ALL_LIMITS], stream)]
        assert {stream.metric for stream in checked} == set(HIT_ROUTES)
        assert all(found[stream] <= cohorts / 24 * (1 + 1e-9) for stream in checked), expected
    known, cohorts = expected_of_units(units, largest, begin)
    assert any(known[stream] > cohorts / 24 * (1 + 1e-9) for stream in checked)
