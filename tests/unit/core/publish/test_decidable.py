"""From which traffic on a contract can be decided: against random windows of the product."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from cubes import LIMITS, contract
from released_rows import rows_of

from monitor.core.contract import COMPLEMENT, GroupBy, Verdict
from monitor.core.counts.cells import COUNTERS, Counter, Int64s, Route, Stratum
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.metric import Metric
from monitor.core.publish.decidable import (
    BEYOND,
    Decidable,
    Design,
    by_audit,
    by_limit,
    by_ratio,
    by_window,
    decidable,
    decidable_ratio,
    first_decided,
    with_limit,
)

CONTRACT = contract(GroupBy(("channel",)), limits=replace(LIMITS, max_blocked_gap=None), k=11)
DESIGN = Design(CONTRACT, slices=4, reference=COMPLEMENT, audit=0.1, days=7)


def shares(design: Design, metric: Metric, daily: float, gap: float, times: int) -> list[float]:
    """Shares of pass and of fail over windows drawn at random: four real slices, no shortcut."""
    rng = np.random.default_rng([round(daily), round(100 * gap), int(metric is Metric.TPR)])
    coding = Coding((), (), (1.0, design.audit))
    limits = CONTRACT.limits
    strata = [Stratum(Route.AUTO_SERVE, 0, 1).code, Stratum(Route.HUMAN_REVIEW, 0, 0).code]
    order = np.argsort(strata)
    names = tuple(f"channel={name}" for name in "abcd")
    verdicts: list[Verdict | None] = []
    for _ in range(times):
        values = np.stack([draw(rng, design, daily, gap if i == 0 else 0.0) for i in range(4)])
        counts = SliceCounts(names, np.array(strata)[order], values[:, order])
        rows = rows_of(counts, coding, reference=COMPLEMENT, limits=limits)
        verdicts.append(rows[0].gaps[metric].verdict)
    return [verdicts.count(one) / times for one in (Verdict.PASS, Verdict.FAIL)]


def draw(rng: np.random.Generator, design: Design, daily: float, gap: float) -> Int64s:
    volume, table = daily * design.days, np.zeros((2, COUNTERS), np.int64)
    arms = ((design.ready, design.tpr - gap), (1 - design.ready, design.fpr + gap))
    for is_ready, (share, served) in zip((True, False), arms, strict=True):
        for route, part, audit in ((0, served, design.audit), (1, 1 - served, 1.0)):
            decisions = rng.poisson(volume * share * part)
            labelled = rng.binomial(decisions, audit)
            table[route, Counter.N] += decisions
            table[route, [Counter.Q, Counter.LABELLED]] += labelled
            table[route, Counter.READY] += labelled * is_ready
    return table


@pytest.mark.parametrize("metric", [Metric.TPR, pytest.param(Metric.FPR, marks=pytest.mark.full)])
def test_four_of_five_windows_are_decided_from_there_on_and_few_at_a_third(metric: Metric) -> None:
    found = decidable(DESIGN, metric)
    assert found.passes is not None
    assert found.fails is not None
    limit = float(CONTRACT.limits.max_gap(metric) or 0)
    assert shares(DESIGN, metric, found.passes, 0.0, 60)[0] >= 0.75
    assert shares(DESIGN, metric, found.fails, limit + float(BEYOND), 60)[1] >= 0.75
    assert shares(DESIGN, metric, found.passes / 3, 0.0, 60)[0] <= 0.4
    assert shares(DESIGN, metric, found.fails / 3, limit + float(BEYOND), 60)[1] <= 0.4


def least(design: Design, metric: Metric) -> tuple[int, int]:
    found = decidable(design, metric)
    assert found.passes is not None
    assert found.fails is not None
    return found.passes, found.fails


@pytest.mark.parametrize("metric", [Metric.TPR, Metric.FPR])
@pytest.mark.parametrize(
    "easier",
    [
        replace(DESIGN, audit=0.5),
        replace(DESIGN, days=28),
        with_limit(with_limit(DESIGN, Metric.TPR, Fraction(1, 5)), Metric.FPR, Fraction(1, 5)),
    ],
    ids=["more audits", "a longer window", "a longer limit"],
)
def test_what_makes_it_easier_to_pass_needs_less(easier: Design, metric: Metric) -> None:
    passes, before = least(easier, metric)[0], least(DESIGN, metric)[0]
    assert passes < before or (passes == before and metric is Metric.TPR), "a minimum support binds"


def test_a_named_reference_is_no_larger_than_the_slice_and_needs_more() -> None:
    named = replace(DESIGN, reference="channel=a")
    for metric in (Metric.TPR, Metric.FPR):
        assert max(least(named, metric)) >= max(least(DESIGN, metric))


def test_blocked_gaps_need_no_labels() -> None:
    limited = replace(CONTRACT, limits=LIMITS)
    few, many = (replace(DESIGN, contract=limited, audit=rate) for rate in (0.01, 1.0))
    assert decidable(few, Metric.BLOCKED) == decidable(many, Metric.BLOCKED)


def test_selection_gaps_need_no_labels_and_are_gaps_of_all_requests() -> None:
    limit = Fraction(3, 20)
    few, many = (
        with_limit(replace(DESIGN, audit=rate), Metric.SELECTION, limit) for rate in (0.01, 1.0)
    )
    found = decidable(few, Metric.SELECTION)
    assert found == decidable(many, Metric.SELECTION)
    assert found.passes is not None
    assert found.fails is not None
    rare = replace(few, ready=0.1, tpr=0.8, fpr=0.1)
    assert rare.selection == pytest.approx(0.17)
    assert decidable(rare, Metric.SELECTION).fails is None, "a rate of .17 cannot be .25 lower"


def test_without_any_way_there_is_no_number() -> None:
    tight = with_limit(DESIGN, Metric.FPR, Fraction(1, 1000))
    assert decidable(replace(tight, audit=0.001, days=1), Metric.FPR).passes is None
    rare = replace(DESIGN, tpr=0.15)
    assert decidable(rare, Metric.TPR).fails is None, "a TPR of .15 cannot be .20 lower"
    with pytest.raises(ValueError, match="no limit on gaps of blocked"):
        decidable(DESIGN, Metric.BLOCKED)


def test_both_verdicts_must_be_reachable() -> None:
    assert Decidable(100, 200).at(200)
    assert not Decidable(100, 200).at(199)
    assert not Decidable(100, None).at(100_000)


def test_proposals_are_the_first_that_are_enough() -> None:
    few = replace(DESIGN, audit=0.05)
    rates = (0.1, 0.2, 0.5, 1.0)
    rate = first_decided(by_audit(few, rates), partial(decidable, metric=Metric.FPR), 300)
    assert rate == next(r for r in rates if decidable(replace(few, audit=r), Metric.FPR).at(300))
    assert first_decided(by_window(few, (28,)), partial(decidable, metric=Metric.FPR), 500) == 28
    longer = max(least(with_limit(few, Metric.FPR, Fraction(3, 20)), Metric.FPR))
    assert longer <= max(least(few, Metric.FPR))
    assert (
        first_decided(by_limit(few, Metric.FPR), partial(decidable, metric=Metric.FPR), longer)
        == 0.15
    )
    assert first_decided(by_audit(few, rates), partial(decidable, metric=Metric.FPR), 1) is None


def test_ratios_need_no_labels_and_are_judged_apart_from_gaps() -> None:
    limited = replace(CONTRACT.limits, min_selection_ratio=Fraction(4, 5))
    few, many = (
        replace(DESIGN, contract=replace(CONTRACT, limits=limited), audit=rate)
        for rate in (0.01, 1.0)
    )
    found = decidable_ratio(few)
    assert found == decidable_ratio(many)
    assert found.passes is not None
    assert found.fails is not None
    wider = [decidable_ratio(design).passes for _, design in by_ratio(few)]
    assert [limit for limit, _ in by_ratio(few)] == pytest.approx(
        [0.75, 0.70, 0.65, 0.60, 0.55, 0.5]
    )
    assert wider == sorted(wider, key=lambda least: -(least or 0))
    both = with_limit(few, Metric.SELECTION, Fraction(1, 1000))
    assert decidable_ratio(both) == found, "a gap that nothing can keep is another limit"
    assert decidable(both, Metric.SELECTION).passes != found.passes
    with pytest.raises(ValueError, match="no limit on the ratio"):
        decidable_ratio(DESIGN)


def test_a_ratio_pass_is_what_the_published_rows_say() -> None:
    """At the traffic found the very rows pass at equal rates, at a quarter of it they do not."""
    limits = replace(CONTRACT.limits, min_selection_ratio=Fraction(4, 5))
    coding = Coding((), (), (1.0, 0.1))
    least = decidable_ratio(replace(DESIGN, contract=replace(CONTRACT, limits=limits))).passes
    assert least is not None
    for daily, wanted in ((least, Verdict.PASS), (least / 4, Verdict.INCONCLUSIVE)):
        rng = np.random.default_rng(3)
        names = tuple(f"channel={name}" for name in "abcd")
        values = np.stack([draw(rng, DESIGN, daily, 0.0) for _ in range(4)])
        strata = [Stratum(Route.AUTO_SERVE, 0, 1).code, Stratum(Route.HUMAN_REVIEW, 0, 0).code]
        order = np.argsort(strata)
        counts = SliceCounts(names, np.array(strata)[order], values[:, order])
        rows = rows_of(counts, coding, reference=COMPLEMENT, limits=limits)
        assert rows[0].gaps[Metric.SELECTION].verdict is wanted


def test_precision_is_decided_by_more_audits_sooner() -> None:
    limited = replace(CONTRACT, limits=replace(CONTRACT.limits, max_precision_gap=Fraction(1, 10)))
    few, many = (
        decidable(replace(DESIGN, contract=limited, audit=rate), Metric.PRECISION)
        for rate in (0.05, 1.0)
    )
    for found in (few, many):
        assert found.passes is not None
        assert found.fails is not None
    assert (many.passes or 0) < (few.passes or 0)
    assert (many.fails or 0) < (few.fails or 0)
    beside = decidable(replace(DESIGN, contract=limited), Metric.TPR)
    assert beside == decidable(DESIGN, Metric.TPR), "a limit beside it changes nothing"
    rare = replace(DESIGN, contract=limited, ready=0.99)
    assert decidable(rare, Metric.PRECISION).fails is None, "there is not so much that is not ready"
