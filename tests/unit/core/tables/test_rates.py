"""Rates and windows from published bands."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.core.intervals import wilson
from monitor.core.metric import Metric
from monitor.core.tables.bands import Bands, Coarseness, row_rule
from monitor.core.tables.counted import Counted
from monitor.core.tables.rates import (
    LabelledCounts,
    ShownRate,
    labelled_estimate,
    selection_estimate,
)
from monitor.core.tables.spans import ANCHOR, Span, SpanKind
from monitor.core.tables.windows import chosen_spans
from monitor.core.time import DAY, HOUR

K = 11
SERVED = np.array([True, False])


def shown(counts: object, k: int = K) -> Counted:
    return Counted.from_bands(row_rule(np.array([counts], np.int64), k))


def labels(counts: object, k: int = K) -> Counted:
    return Counted.from_bands(row_rule(np.array([counts], np.int64), k, labels=True))


def rate(
    decisions: object, ready: object, not_ready: object, metric: Metric = Metric.TPR, k: int = K
) -> ShownRate:
    counts = LabelledCounts(shown(decisions, k), labels(ready, k), labels(not_ready, k), SERVED)
    return labelled_estimate(counts, metric).at()


def test_exact_counts_give_the_rates_of_the_lesson() -> None:
    found = rate((7, 4), (5, 1), (2, 3), k=1)
    lower, upper = wilson(5 / 6, 6)
    assert (found.value[0], found.lower[0], found.upper[0]) == pytest.approx((5 / 6, lower, upper))
    found = rate((7, 4), (5, 1), (2, 3), Metric.FPR, k=1)
    assert found.value[0] == pytest.approx(2 / 5)


def test_where_labels_can_be_as_many_as_decisions_all_are_taken_as_labelled() -> None:
    decisions, ready, not_ready = (shown(counts, k=1) for counts in ((7, 4), (5, 1), (2, 2)))
    labelled = LabelledCounts(decisions, ready, not_ready, SERVED).all_labelled
    assert labelled[:, 0].tolist() == [True, False]


def test_audited_strata_are_weighed_by_their_decisions() -> None:
    """4,000 served, 200 of them audited; 80 % of the served are ready, 25 % of the reviewed."""
    found = rate((4000, 1000), (160, 250), (40, 750))
    assert found.value[0] == pytest.approx(3200 / 3450, abs=0.01)
    assert found.lower[0] < 3200 / 3450 < found.upper[0]
    naive = 160 / 410
    assert abs(found.value[0] - naive) > 0.5


@pytest.mark.parametrize(
    ("ready", "truth"), [((4, 300), 0.05), ((300, 4), 0.946), ((0, 60), 0.0), ((60, 0), 1.0)]
)
def test_a_count_below_k_makes_a_bound(ready: tuple[int, int], truth: float) -> None:
    found = rate((400, 400), ready, (100, 90))
    assert found.shown[0]
    assert np.isnan(found.value[0])
    assert 40 < found.support[0] < 300
    assert found.lower[0] <= truth <= found.upper[0]
    assert 0 < found.upper[0] - found.lower[0] < 0.4
    assert {0.0, 1.0} & {found.lower[0], found.upper[0]}


def test_a_slice_that_is_never_served_has_a_bound() -> None:
    found = rate((3, 500), (0, 200), (1, 290))
    assert found.shown[0]
    assert (found.lower[0], np.isnan(found.value[0])) == (0, True)
    assert found.upper[0] < 0.12


def test_a_rate_rests_on_k_labels_and_on_all_three_tables() -> None:
    assert not rate((400, 400), (9, 8), (100, 90)).shown[0]
    assert rate((400, 400), (9, 8), (100, 90), Metric.FPR).shown[0]
    table = row_rule(np.array([[60, 60]]), K, Coarseness.WITHHELD, labels=True)
    counts = LabelledCounts(shown((400, 400)), shown((90, 80)), Counted.from_bands(table), SERVED)
    assert not labelled_estimate(counts, Metric.TPR).at().shown[0]


def test_a_route_without_labels_enough_makes_a_bound() -> None:
    ready = rate((4000, 300), (6, 200), (4, 90), Metric.READY)
    assert ready.shown[0]
    assert np.isnan(ready.value[0])
    assert ready.upper[0] - ready.lower[0] > 0.8
    assert not np.isnan(rate((4, 300), (1, 200), (2, 90), Metric.READY).value[0])
    assert np.isnan(rate((4000, 300), (6, 200), (4, 90), Metric.TPR).value[0])


def test_hidden_rows_have_no_rate() -> None:
    found = rate((5, 4), (2, 2), (3, 2))
    assert not found.shown[0]
    assert np.isnan([found.value[0], found.lower[0], found.upper[0]]).all()


@pytest.mark.parametrize("metric", [Metric.READY, Metric.PRECISION])
def test_shares_of_ready_replies(metric: Metric) -> None:
    found = rate((4000, 1000), (160, 250), (40, 750), metric)
    truth = (3200 + 250) / 5000 if metric is Metric.READY else 0.8
    assert found.value[0] == pytest.approx(truth, abs=0.02)
    assert found.lower[0] < truth < found.upper[0]


@pytest.mark.parametrize("sizes", [(40, 400), (200, 3000), (3000, 30_000)])
def test_intervals_hold_the_rate_as_often_as_they_say(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    trials = rng.integers(*sizes, 4000)
    rates = rng.uniform(0.3, 0.9, 4000)
    hits = rng.binomial(trials, rates)
    bands = Counted.from_bands(row_rule(np.stack([hits, trials - hits], axis=1), K))
    found = selection_estimate(bands, SERVED).at()
    point = found.support > 0
    inside = (found.lower <= rates) & (rates <= found.upper)
    assert inside[point].mean() >= 0.945
    assert inside[found.shown & ~point].all()


def test_audited_intervals_hold_the_rate_as_often_as_they_say() -> None:
    rng = np.random.default_rng(4)
    n, ready, served = 3000, 0.6, rng.uniform(0.5, 0.9, 3000)
    decisions = rng.integers(2000, 20_000, n)
    yes = rng.binomial(decisions, ready)
    tp, fp = rng.binomial(yes, served), rng.binomial(decisions - yes, 0.25)
    seen = [rng.binomial(tp, 0.05), rng.binomial(fp, 0.05)]
    reviewed = [yes - tp, decisions - yes - fp]
    table = [
        Counted.from_bands(row_rule(np.stack(pair, axis=1), K))
        for pair in ((tp + fp, sum(reviewed)), (seen[0], reviewed[0]), (seen[1], reviewed[1]))
    ]
    counts = LabelledCounts(table[0], table[1], table[2], SERVED)
    found = labelled_estimate(counts, Metric.TPR).at()
    point = found.support > 0
    assert point.mean() > 0.9
    inside = (found.lower <= served) & (served <= found.upper)
    assert inside[point].mean() >= 0.94


def test_sums_of_spans_are_more_exact_than_their_widest_ends() -> None:
    day = shown((500, 300))
    week = Counted.total([day] * 7)
    assert week.low.ravel().tolist() == [7 * low for low in day.low.ravel().tolist()]
    assert week.variance[0, 0] == pytest.approx(7 * day.variance[0, 0])
    hidden = Counted.total([day, shown((2, 2))])
    assert not hidden.shown[0]


def test_errors_of_counts_below_k_do_not_cancel_out() -> None:
    """35 is what the middles of seven zeros add up to: 1.7 standard deviations off, not 4.6."""
    week = Counted.total([shown((500, 0))] * 7)
    assert week.middle[1, 0] / np.sqrt(week.variance[1, 0]) == pytest.approx(np.sqrt(3))


def test_the_effect_of_a_sum_is_weighted_by_decisions() -> None:
    large, small = (row_rule(np.array([counts]), 1) for counts in ([600, 300], [60, 40]))
    together = Counted.total([Counted.from_bands(large, 2.0), Counted.from_bands(small, 12.0)])
    assert together.effect.tolist() == [3.0]
    nothing = Counted.from_bands(row_rule(np.array([[0, 0]]), 1), 2.0)
    assert Counted.total([nothing, nothing]).effect.tolist() == [1.0]


@pytest.mark.parametrize("counts", [(900, 300), (400, 4)], ids=["a point", "a bound"])
def test_the_effect_widens_the_interval_and_keeps_support(counts: tuple[int, int]) -> None:
    bands = row_rule(np.array([counts]), K)
    plain, widened = (
        selection_estimate(Counted.from_bands(bands, effect), SERVED).at() for effect in (1.0, 8.0)
    )
    assert widened.lower[0] < plain.lower[0]
    assert widened.upper[0] >= plain.upper[0]
    np.testing.assert_array_equal(widened.value, plain.value)
    assert widened.support[0] == plain.support[0]


def sized(*sizes: int) -> Bands:
    return row_rule(np.array([[size // 2, size - size // 2] for size in sizes]), K)


HOURS, DAYS, WEEKS = (Span(kind, n) for kind, n in zip(list(SpanKind)[:3], (23, 6, 3), strict=True))


def test_fine_spans_are_taken_where_they_show_as_much() -> None:
    hours = dict.fromkeys(HOURS.before(24), sized(2000, 1500))
    day = {Span(SpanKind.DAY, 0): sized(48_000, 36_000)}
    assert chosen_spans("24h", hours | day) == HOURS.before(24)
    quiet = hours | {HOURS.before(9)[0]: sized(2000, 8)}
    assert chosen_spans("24h", quiet | day) == (Span(SpanKind.DAY, 0),)
    small = {Span(SpanKind.DAY, 0): sized(48_000, 8)}
    assert chosen_spans("24h", dict.fromkeys(hours, sized(2000, 2)) | small) == HOURS.before(24)


def test_wide_sums_give_way_to_one_table() -> None:
    days = dict.fromkeys(DAYS.before(7), sized(60))
    assert chosen_spans("7d", days) == DAYS.before(7)
    week = {Span(SpanKind.WEEK, 0): sized(420)}
    assert chosen_spans("7d", days | week) == (Span(SpanKind.WEEK, 0),)


def test_a_row_whose_labels_do_not_come_makes_no_window_older() -> None:
    """It was there in the week before, and shows nothing in the newest days."""
    days = dict.fromkeys(DAYS.before(7), sized(2000, 2))
    week = {Span(SpanKind.WEEK, 0): sized(14_000, 14_000)}
    assert chosen_spans("7d", days | week) == (Span(SpanKind.WEEK, 0),)
    silent = {DAYS.before(2)[0]: np.array([False, True])}
    assert chosen_spans("7d", days | week, silent) == DAYS.before(7)


def test_what_is_finer_and_older_is_no_choice() -> None:
    hours = dict.fromkeys(
        Span.containing(DAYS.start - 1, SpanKind.HOUR).before(24), sized(2000, 1500)
    )
    assert chosen_spans("24h", hours | {DAYS: sized(48_000, 8)}) == (DAYS,)


def test_a_window_with_a_hole_is_no_window() -> None:
    days = dict.fromkeys((*DAYS.before(7)[:3], *DAYS.before(7)[4:]), sized(900))
    assert chosen_spans("7d", days) == ()
    assert chosen_spans("7d", {}) == ()
    weeks = dict.fromkeys(WEEKS.before(4), sized(9000))
    assert chosen_spans("28d", days | weeks) == WEEKS.before(4)


def test_a_young_store_has_shorter_windows() -> None:
    days = DAYS.before(3)
    hours = Span.containing(DAYS.end - 1, SpanKind.HOUR).before(5)
    assert chosen_spans("7d", dict.fromkeys((*days, *hours), sized(900))) == days
    assert chosen_spans("28d", dict.fromkeys(hours, sized(900))) == hours
    assert chosen_spans("24h", dict.fromkeys(hours, sized(900))) == hours
    weeks = dict.fromkeys(WEEKS.before(4), sized(9000))
    later = dict.fromkeys(Span.containing(WEEKS.end, SpanKind.DAY).before(3), sized(900))
    assert chosen_spans("28d", later | weeks) == WEEKS.before(4)


def test_rates_do_not_choose_the_window() -> None:
    """Two worlds with the same sizes and other rates, where all is far above k."""
    low, high = (row_rule(np.array([[n, 4400 - n]]), K) for n in (2200, 2201))
    week = {Span(SpanKind.WEEK, 0): sized(30_800)}
    chosen = {
        chosen_spans("7d", dict.fromkeys(DAYS.before(7), bands) | week) for bands in (low, high)
    }
    assert len(chosen) == 1


def test_spans_tile_time_in_every_zone() -> None:
    at = ANCHOR + 1000 * DAY + 5 * HOUR
    for offset in (-11, 0, 9):
        for kind in SpanKind:
            span = Span.containing(at, kind, offset)
            assert span.start <= at < span.end
            assert Span.containing(span.end, kind, offset).start == span.end
            assert [part.kind for part in span.parts] == [kind.finer] * len(span.parts)
            if span.parts:
                assert (span.parts[0].start, span.parts[-1].end) == (span.start, span.end)
                assert all(span.holds(part) for part in span.parts)
