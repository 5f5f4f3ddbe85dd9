"""Tipping points against decisions whose labels are really withheld, or really wrong."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from released_rows import facts_of, released, report_of

from monitor.core.contract import Verdict
from monitor.core.counts.coding import Coding
from monitor.core.metric import Metric
from monitor.core.publish.lines import places
from monitor.core.publish.snapshot import ShownGap, ShownRate, SliceRow
from monitor.core.state import State
from monitor.reports.planners.tipping_point import TippingLine, tipping_point, tipping_points
from monitor.reports.sections import label_plans

NUMBER = 1_000_000
LIMIT = 0.1


def rate(value: float) -> ShownRate:
    return ShownRate(value, value - 0.01, value + 0.01, 5_000)


def row(
    numbers: tuple[float, float, float], gaps: tuple[float, float, float], verdict: Verdict
) -> SliceRow:
    """TPR, FPR and ready rate of a slice, and their gaps; intervals are two points wide."""
    metrics = (Metric.TPR, Metric.FPR, Metric.READY)
    rates = {m: rate(x) for m, x in zip(metrics, numbers, strict=True)}
    shown = {
        m: ShownGap("complement", x, x - 0.01, x + 0.01, verdict=verdict)
        for m, x in zip(metrics, gaps, strict=True)
    }
    return SliceRow("w=1", dict.fromkeys(Metric, State.INCONCLUSIVE), rates, shown)


def line(made: SliceRow, metric: Metric) -> TippingLine | None:
    one = report_of(released([made], made), facts_of(Coding(())))
    ((contract, window),) = one.windows()
    return tipping_point(next(places(contract, window)), metric)


def counted(tpr: float, fpr: float, ready: float) -> tuple[float, float, float, float]:
    """Hits and others by route: served hits, held hits, served others, held others."""
    hits, rest = NUMBER * ready, NUMBER * (1 - ready)
    return hits * tpr, hits * (1 - tpr), rest * fpr, rest * (1 - fpr)


def worst_tpr(numbers: tuple[float, float, float], share: float, up: bool) -> float:
    """The TPR after a share of each route's labels says what moves it most."""
    served, held, served_rest, held_rest = counted(*numbers)
    bad, bad_held = share * (served + served_rest), share * (held + held_rest)
    if up:
        served, held = served + min(bad, served_rest), held - min(bad_held, held)
    else:
        served, held = served - min(bad, served), held + min(bad_held, held_rest)
    return served / (served + held)


@pytest.mark.parametrize(
    ("numbers", "gap"), list(product([(0.8, 0.1, 0.5), (0.7, 0.3, 0.8)], [0.0, 0.04, -0.04]))
)
def test_a_pass_turns_exactly_where_withheld_labels_may_bring_the_interval_beyond_the_limit(
    numbers: tuple[float, float, float], gap: float
) -> None:
    one = line(row(numbers, (gap, 0.0, 0.0), Verdict.PASS), Metric.TPR)
    assert one is not None
    assert one.worst_case is not None
    sides = numbers, (numbers[0] + gap, *numbers[1:])

    def beyond(share: float) -> bool:
        moved = [
            gap_of - worst + part[0] if at == 0 else gap_of + worst - part[0]
            for at, part in enumerate(sides)
            for up in (True, False)
            for gap_of, worst in [(gap, worst_tpr(part, share, up))]
        ]
        return any(x + 0.01 > LIMIT or x - 0.01 < -LIMIT for x in moved)

    assert beyond(one.worst_case + 0.002)
    assert not beyond(one.worst_case - 0.002)


def test_a_fail_turns_where_evenly_wrong_labels_made_it() -> None:
    """The truth: no gap at all. The labels of the slice are wrong in one case of ten."""
    tpr, fpr, ready, wrong = 0.8, 0.1, 0.5, 0.10
    served, held, served_rest, held_rest = counted(tpr, fpr, ready)
    said = (served * (1 - wrong) + served_rest * wrong, held * (1 - wrong) + held_rest * wrong)
    seen = said[0] / sum(said)
    rest = served + served_rest - said[0], held + held_rest - said[1]
    numbers = seen, rest[0] / sum(rest), sum(said) / NUMBER
    gaps = tpr - seen, 0.0, 0.0
    assert gaps[0] < LIMIT, "so an error of one in ten does not make it a fail by itself"
    shown = row(numbers, (0.13, 0.0, 0.0), Verdict.FAIL)
    one = line(shown, Metric.TPR)
    assert one is not None
    needed = 0.13 - 0.01 - LIMIT
    assert one.even is not None
    assert 0 < one.even < wrong

    def corrected(share: float) -> float:
        route = said[0] + rest[0], said[1] + rest[1]
        hits = [(h - share * n) / (1 - 2 * share) for h, n in zip(said, route, strict=True)]
        return hits[0] / sum(hits)

    assert corrected(wrong) == pytest.approx(tpr)
    assert corrected(one.even + 0.002) - seen >= needed > corrected(one.even - 0.002) - seen
    assert one.worst_case is not None
    assert one.worst_case <= one.even, "nothing is worse than the worst case"


@pytest.mark.parametrize("verdict", [Verdict.INCONCLUSIVE, Verdict.INSUFFICIENT_SUPPORT, None])
def test_what_is_not_decided_cannot_turn(verdict: Verdict | None) -> None:
    made = row((0.8, 0.1, 0.5), (0.1, 0, 0), Verdict.PASS)
    gaps = {m: replace(gap, verdict=verdict) for m, gap in made.gaps.items()}
    assert line(replace(made, gaps=gaps), Metric.TPR) is None


@pytest.mark.parametrize("hidden", [Metric.TPR, Metric.FPR, Metric.READY])
def test_without_its_rates_nothing_is_said(hidden: Metric) -> None:
    made = row((0.8, 0.1, 0.5), (0.0, 0, 0), Verdict.PASS)
    less = replace(made, rates={m: x for m, x in made.rates.items() if m is not hidden})
    assert line(less, Metric.TPR) is None
    coded = {**made.rates, hidden: ShownRate(None, 0.5, 1.0, 50, at_least=0.6)}
    assert line(replace(made, rates=coded), Metric.TPR) is None


def test_the_wider_the_margin_the_more_labels_it_takes() -> None:
    shares = [
        found.worst_case or 2.0
        for gap in (0.08, 0.05, 0.02)
        if (found := line(row((0.8, 0.1, 0.5), (gap, 0, 0), Verdict.PASS), Metric.TPR))
    ]
    assert len(shares) == 3
    assert shares == sorted(shares)


def test_the_section_says_them() -> None:
    made = row((0.8, 0.1, 0.5), (0.02, 0.0, 0.0), Verdict.PASS)
    one = report_of(released([made], made), facts_of(Coding(())))
    (first, _) = tipping_points(one)
    (found,) = label_plans.labels(one).tables
    assert found.rows[0][3].text == f"{100 * (first.worst_case or 0):.1f} %"
