"""Bands, pooling, guards and coding of small complements, each against hand-made numbers."""

from __future__ import annotations

import numpy as np
import pytest
from cubes import CODING, Cell, auto, blocked, review, slices

from monitor.core.contract import Metric, State, Verdict
from monitor.core.intervals import wilson
from monitor.core.privacy.bands import Precision, edges
from monitor.core.privacy.guards import (
    RouteLabels,
    each_labelled,
    open_cells,
    open_labels,
    opened,
    route_labels,
)
from monitor.core.privacy.pooling import MergeMap, aligned, keep, merge_map
from monitor.core.publish.snapshot import ShownRate
from monitor.core.publish.states import state
from monitor.core.publish.suppression import (
    ShownColumns,
    as_decided,
    code_third_route,
    show,
    show_gaps,
    shown_rates,
)
from monitor.core.rates.estimates import estimate
from monitor.core.rates.gaps import GapColumns, simultaneous_z
from monitor.core.rates.tolerance import Tolerance

K11, EXACT = Precision(11), Precision(1, exact=True)
CHAT, EMAIL = {"channel": "chat"}, {"channel": "email"}


class TestBands:
    def test_edges(self) -> None:
        assert edges(11)[:8] == (11, 21, 32, 43, 54, 68, 85, 107)

    @pytest.mark.parametrize("k", [1, 2, 3, 5, 11, 50])
    def test_bands_hold_k_numbers_and_grow_by_a_quarter(self, k: int) -> None:
        found = np.array(edges(k)[:60], float)
        first = Precision(k).smallest
        assert found[0] == k
        assert first in found
        assert (np.diff(found[found >= first]) >= k).all(), "wherever a rate is shown"
        assert (found[1:] <= np.maximum(found[:-1] + k, 1.25 * found[:-1] + 1)).all()

    def test_support(self) -> None:
        shown = K11.support([np.nan, 0, 10.99, 11, 20.9, 21 - 1e-12, 31, 32])
        assert shown.tolist() == [0, 0, 0, 11, 11, 21, 21, 32]

    def test_exact_support(self) -> None:
        assert EXACT.support([np.nan, 0, 1, 6.7]).tolist() == [0, 0, 1, 6]

    def test_rounding_is_outward(self) -> None:
        assert K11.down([0.299, 0.3, 0.1 + 0.2]).tolist() == [0.29, 0.3, 0.3]
        assert K11.up([0.301, 0.3, 0.1 + 0.2]).tolist() == [0.31, 0.3, 0.3]
        assert K11.down([-0.301]).tolist() == [-0.31]
        assert np.isnan(K11.nearest([np.nan])).all()
        assert not np.signbit(K11.nearest([-0.001])).any()


class TestPooling:
    @pytest.mark.parametrize(
        ("decisions", "kept"),
        [
            ({}, ()),
            ({"a": 11}, ("a",)),
            ({"a": 10}, ("__other__",)),
            ({"a": 100, "b": 6, "c": 5}, ("__other__", "a")),
            ({"a": 100, "b": 20, "c": 3}, ("__other__", "a")),
            ({"a": 100, "b": 20, "c": 3, "__other__": 40}, ("__other__", "a", "b")),
            ({"a": 100, "b": 20, "__other__": 3}, ("__other__", "a")),
            ({"b": 20, "a": 20, "__other__": 3}, ("__other__", "b")),
            ({"a": 20, "__missing__": 4, "b": 30}, ("__other__", "b")),
        ],
    )
    def test_keep(self, decisions: dict[str, int], kept: tuple[str, ...]) -> None:
        assert keep(decisions, 11) == kept

    def test_k_of_one_pools_nothing(self) -> None:
        assert keep({"a": 1, "b": 2}, 1) == ("a", "b")

    def test_map_and_rows(self) -> None:
        cells = [
            auto({"channel": c, "region": r}, n)
            for c, r, n in (
                ("chat", "n", 30),
                ("chat", "s", 30),
                ("fax", "s", 3),
                ("email", "s", 20),
            )
        ]
        found = merge_map(slices(cells, "channel", "region"), ("channel", "region"), 11)
        assert found.kept == {"channel": ("__other__", "chat"), "region": ("__other__", "n", "s")}
        assert found.name("channel=fax,region=s") == "channel=__other__,region=s"
        assert found.name("channel=new,region=west") == "channel=__other__,region=__other__"
        assert len(found.slices) == 6

    def test_apply_keeps_every_decision(self) -> None:
        counts = slices([auto(CHAT, 30), auto(EMAIL, 20), auto({"channel": "fax"}, 3)], "channel")
        pooled = MergeMap({"channel": ("__other__", "chat", "gone")}).apply(counts)
        assert pooled.slices == ("channel=__other__", "channel=chat", "channel=gone")
        assert pooled.values.sum(axis=(1, 2)).tolist() == [23, 30, 0]

    def test_aligned_of_nothing(self) -> None:
        total = aligned(slices([]), ("",))
        assert total.slices == ("",)
        assert total.values.sum() == 0


class TestGuards:
    def test_cells_are_all_or_nothing(self) -> None:
        assert open_cells(np.array([0, 11, 50]), 11).tolist() == [False, True, True]
        assert open_cells(np.array([0, 10, 50]), 11).tolist() == [False] * 3
        assert open_cells(np.array([-1, 50]), 11).tolist() == [False] * 2

    def test_labels(self) -> None:
        routes = RouteLabels(
            np.array([[50, 50, 0], [50, 50, 0]]), np.array([[11, 0, 0], [50, 20, 0]])
        )
        assert open_labels(routes, 11).tolist() == [True, False, False]
        routes.labels[1, 1] = 10
        assert open_labels(routes, 11).tolist() == [False] * 3
        assert each_labelled(routes, 11).tolist() == [True, False, False]

    def test_rows_whose_labels_are_pooled_show_no_labelled_rates(self) -> None:
        """Together they have enough: so the others' are shown, and the total less those is safe."""
        names = [{"channel": name} for name in ("chat", "email", "fax", "letter")]
        labels = (40, 20, 5, 7)
        cells = [review(name, 50, n, n // 2) for name, n in zip(names, labels, strict=True)]
        counts = slices(cells, "channel")
        assert not opened(counts, counts, 11).labels.any()
        pooled = opened(counts, counts, 11, np.array([0, 1, 2, 2]))
        assert pooled.labels.tolist() == [True, True, False, False]
        assert pooled.cells.all(), "their selection rates are"
        fewer = slices([*cells[:3], review(names[3], 50, 4, 2)], "channel")
        assert not opened(fewer, fewer, 11, np.array([0, 1, 2, 2])).labels.any()

    def test_a_route_without_decisions_needs_no_labels(self) -> None:
        routes = RouteLabels(np.array([[50], [0]]), np.array([[20], [0]]))
        assert open_labels(routes, 11).tolist() == [True]

    def test_weights_are_steps_upward(self) -> None:
        routes = RouteLabels(np.array([[100, 110, 101, 0]]), np.array([[100, 55, 100, 0]]))
        assert routes.weights[0].tolist() == [1, 2, 2**0.5, 1]


def shown(
    cells: list[Cell], metric: Metric, precision: Precision = K11
) -> tuple[ShownColumns, ShownRate]:
    counts = slices(cells)
    columns = estimate(counts, CODING, metric)
    routes = route_labels(counts) if metric.labelled else None
    table = show(columns, np.array([True]), precision, routes)
    (rate,) = shown_rates(table, precision)
    assert rate is not None
    return table, rate


class TestCoding:
    def test_plain_rate_comes_from_what_is_shown(self) -> None:
        _, rate = shown([auto(CHAT, 61), review(CHAT, 122)], Metric.SELECTION)
        # 168 trials bear a step of 0.1: what is shown as 0.3 may be 0.05 less or more.
        low, high = (float(bound) for bound in wilson(0.3, 168))
        lower, upper = 0.3 - np.hypot(0.3 - low, 0.05), 0.3 + np.hypot(high - 0.3, 0.05)
        assert (rate.value, rate.support) == (0.3, 168)
        assert (rate.lower, rate.upper) == (np.floor(lower * 100) / 100, np.ceil(upper * 100) / 100)
        assert (rate.at_least, rate.at_most) == (None, None)

    @pytest.mark.parametrize("missed", [0, 1, 10])
    def test_few_misses_all_look_the_same(self, missed: int) -> None:
        _, rate = shown([auto(CHAT, 110 - missed), review(CHAT, missed)], Metric.SELECTION)
        # Bands 107 to 133: at least 1 - 10 / 107.
        lower = float(wilson(0.9, 107)[0])
        assert rate == ShownRate(None, np.floor(lower * 100) / 100, 1, 107, at_least=0.9)

    @pytest.mark.parametrize("hit", [0, 1, 10])
    def test_few_hits_all_look_the_same(self, hit: int) -> None:
        _, rate = shown([auto(CHAT, hit), review(CHAT, 110 - hit)], Metric.SELECTION)
        upper = float(wilson(0.1, 107)[1])
        assert rate == ShownRate(None, 0, np.ceil(upper * 100) / 100, 107, at_most=0.1)

    def test_eleven_is_shown(self) -> None:
        _, rate = shown([auto(CHAT, 99), review(CHAT, 11)], Metric.SELECTION)
        assert rate.value == 0.9

    def test_few_on_both_sides(self) -> None:
        # 21 trials are the smallest support that is shown: 11 + 10.
        _, rate = shown([auto(CHAT, 11), review(CHAT, 10)], Metric.SELECTION)
        assert (rate.value, rate.at_least, rate.at_most) == (None, 0.52, None)

    def test_below_the_smallest_support(self) -> None:
        columns = estimate(slices([auto(CHAT, 10), review(CHAT, 10)]), CODING, Metric.SELECTION)
        table = show(columns, np.array([True]), K11)
        assert shown_rates(table, K11) == [None]

    def test_synthetic_codes_nothing(self) -> None:
        _, rate = shown([auto(CHAT, 3)], Metric.SELECTION, EXACT)
        assert (rate.value, rate.support, rate.at_least) == (1, 3, None)

    def test_sampled_labels_make_a_true_code(self) -> None:
        # 10 of 40 audited (of 800) are not ready, 100 of the reviewed: FPR = 200 / 300, but
        # 10 / n_low of the effective support would claim far less.
        cells = [auto(CHAT, 800, 40, 30, rate=2), review(CHAT, 300, 300, 200)]
        exact = estimate(slices(cells), CODING, Metric.FPR)
        assert exact.value[0] == pytest.approx(2 / 3)
        assert 10 / K11.support(exact.support)[0] < exact.value[0]
        _, rate = shown(cells, Metric.FPR)
        weight = 2**4.5  # the step above 800 / 40
        assert rate.value is None
        assert rate.at_most == np.ceil(100 * weight * 10 / (weight * 10 + 85)) / 100
        assert rate.at_most >= exact.value[0]

    def test_third_route(self) -> None:
        cells = [auto(CHAT, 500), review(CHAT, 5), blocked(CHAT, 300)]
        selection, _ = shown(cells, Metric.SELECTION)
        blocks, plain = shown(cells, Metric.BLOCKED)
        assert plain.value == 0.38
        coded = code_third_route(selection, blocks, np.array([5]), K11)
        (rate,) = shown_rates(coded, K11)
        assert rate is not None
        assert (rate.value, rate.at_most, rate.lower) == (None, 0.39, 0)
        assert code_third_route(selection, blocks, np.array([11]), K11).value.tolist() == [0.38]


class TestGaps:
    def test_from_what_is_shown(self) -> None:
        first, _ = shown([auto(CHAT, 61), review(CHAT, 122)], Metric.SELECTION)
        other, _ = shown([auto(CHAT, 80), review(CHAT, 39)], Metric.SELECTION)
        z = simultaneous_z(3)
        gaps = show_gaps(first, other, z, K11)
        (l1, u1), (l2, u2) = (wilson(p, n, z) for p, n in ((0.3, 168), (0.7, 107)))
        # Both samples and both roundings err independently of each other.
        low = 0.4 - np.sqrt((0.7 - l2) ** 2 + (u1 - 0.3) ** 2 + 2 * 0.05**2)
        high = 0.4 + np.sqrt((u2 - 0.7) ** 2 + (0.3 - l1) ** 2 + 2 * 0.05**2)
        assert gaps.value.tolist() == [0.4]  # positive: served less often
        assert gaps.lower.tolist() == [np.floor(low * 100) / 100]
        assert gaps.upper.tolist() == [np.ceil(high * 100) / 100]
        assert gaps.ratio.tolist() == [0.43]

    def test_of_a_coded_rate_is_coded(self) -> None:
        coded, _ = shown([auto(CHAT, 110)], Metric.SELECTION)
        plain, _ = shown([auto(CHAT, 61), review(CHAT, 122)], Metric.SELECTION)
        gaps = show_gaps(plain, coded, 1.96, K11)
        below, above = (np.hypot(abs(0.3 - bound), 0.05) for bound in wilson(0.3, 168, 1.96))
        low, high = 0.3 - below, 0.3 + above
        least = wilson(0.9, 107, 1.96)[0]
        assert np.isnan(gaps.value[0])
        assert np.isnan(gaps.ratio[0])
        # The other rate is 0.9 or more, less what sampling may have added; 1 is certain.
        lower, upper = 0.9 - 0.3 - np.hypot(0.9 - least, above), 1 - 0.3 + below
        assert gaps.lower[0] == np.floor(float(lower) * 100) / 100
        assert gaps.upper[0] == np.ceil(float(upper) * 100) / 100
        assert gaps.ratio_lower[0] == np.floor(float(low) * 100) / 100
        assert gaps.ratio_upper[0] == np.ceil(float(high / least) * 100) / 100

    def test_of_a_hidden_rate_is_hidden(self) -> None:
        plain, _ = shown([auto(CHAT, 61), review(CHAT, 122)], Metric.SELECTION)
        columns = estimate(slices([auto(CHAT, 5)]), CODING, Metric.SELECTION)
        hidden = show(columns, np.array([False]), K11)
        gaps = show_gaps(plain, hidden, 1.96, K11)
        for column in (gaps.value, gaps.lower, gaps.upper, gaps.ratio, gaps.ratio_upper):
            assert np.isnan(column).all()


class TestIntervalsAgreeWithVerdicts:
    FAIL, PASS, OPEN = Verdict.FAIL, Verdict.PASS, Verdict.INCONCLUSIVE

    @pytest.mark.parametrize(
        ("shown", "verdict", "interval"),
        [
            ((0.2, 0.05, 0.4), FAIL, (0.11, 0.4)),
            ((-0.2, -0.4, 0.05), FAIL, (-0.4, -0.11)),
            ((0.2, 0.15, 0.4), FAIL, (0.15, 0.4)),
            ((0.08, 0.02, 0.2), FAIL, (0.08, 0.2)),  # the point stays inside
            ((np.nan, -0.05, 0.6), FAIL, (0.11, 0.6)),  # only one direction is left
            ((np.nan, -0.3, 0.6), FAIL, (-0.3, 0.6)),  # it may be either one
            ((0, -0.2, 0.25), PASS, (-0.1, 0.1)),
            ((0.12, -0.02, 0.3), PASS, (-0.02, 0.12)),
            ((np.nan, -0.3, 0.6), PASS, (-0.1, 0.1)),
            ((0.2, 0.12, 0.3), OPEN, (0.1, 0.3)),
            ((-0.2, -0.3, -0.12), OPEN, (-0.3, -0.1)),
            ((0.2, 0.05, 0.3), OPEN, (0.05, 0.3)),
            ((0.02, -0.05, 0.09), OPEN, (-0.05, 0.11)),  # rounding would have made it pass
            ((-0.02, -0.09, 0.05), OPEN, (-0.11, 0.05)),
        ],
    )
    def test_nothing_is_left_that_the_verdict_excludes(
        self,
        shown: tuple[float, float, float],
        verdict: Verdict,
        interval: tuple[float, float],
    ) -> None:
        cut = as_decided(self.gaps(*shown), [verdict], np.array([True]), Tolerance.of_gap(0.1))
        assert (cut.lower[0], cut.upper[0]) == interval
        again = as_decided(cut, [verdict], np.array([True]), Tolerance.of_gap(0.1))
        assert (again.lower[0], again.upper[0]) == interval

    def test_without_support_the_interval_is_what_it_is(self) -> None:
        gaps = self.gaps(0.2, 0.12, 0.3)
        cut = as_decided(gaps, [self.OPEN], np.array([False]), Tolerance.of_gap(0.1))
        assert (cut.lower[0], cut.upper[0]) == (0.12, 0.3)

    @pytest.mark.parametrize(
        ("shown", "verdict", "interval"),
        [
            ((0.70, 0.60, 0.82), FAIL, (0.60, 0.79)),
            ((0.80, 0.60, 0.82), FAIL, (0.60, 0.80)),  # rounded to the limit: open
            ((1.40, 1.20, 1.60), FAIL, (1.26, 1.60)),
            ((0.90, 0.78, 1.30), PASS, (0.80, 1.25)),
            ((0.70, 0.60, 0.78), OPEN, (0.60, 0.80)),
            ((1.40, 1.27, 1.60), OPEN, (1.25, 1.60)),
            ((0.85, 0.82, 1.00), OPEN, (0.79, 1.00)),  # nearer to the lower end
            ((1.20, 1.00, 1.24), OPEN, (1.00, 1.26)),
        ],
    )
    def test_nothing_is_left_of_a_ratio_either(
        self,
        shown: tuple[float, float, float],
        verdict: Verdict,
        interval: tuple[float, float],
    ) -> None:
        allowed, nothing = Tolerance.of_ratio(0.8), np.array([np.nan])
        columns = GapColumns(
            Metric.SELECTION, nothing, nothing, nothing, *(np.array([x]) for x in shown)
        )
        cut = as_decided(columns, [verdict], np.array([True]), allowed)
        assert (cut.ratio_lower[0], cut.ratio_upper[0]) == interval

    def test_hidden_stays_hidden(self) -> None:
        nothing = self.gaps(np.nan, np.nan, np.nan)
        cut = as_decided(nothing, [self.OPEN], np.array([False]), Tolerance.of_gap(0.1))
        assert np.isnan([cut.lower[0], cut.upper[0]]).all()

    @staticmethod
    def gaps(value: float, lower: float, upper: float) -> GapColumns:
        one = (np.array([x], np.float64) for x in (value, lower, upper, np.nan, np.nan, np.nan))
        return GapColumns(Metric.TPR, *one)


@pytest.mark.parametrize(
    ("flags", "verdicts", "expected"),
    [
        ((False, False, False), [Verdict.FAIL], State.SUPPRESSED),
        ((True, False, False), [Verdict.FAIL], State.INSUFFICIENT_SUPPORT),
        ((True, True, False), [Verdict.FAIL], State.MATURING),
        ((True, True, True), [Verdict.PASS, Verdict.FAIL], State.SUSPECTED),
        ((True, True, True), [Verdict.PASS, Verdict.PASS], State.WITHIN_CONTRACT),
        ((True, True, True), [Verdict.PASS, None], State.WITHIN_CONTRACT),
        ((True, True, True), [Verdict.PASS, Verdict.INCONCLUSIVE], State.INCONCLUSIVE),
        ((True, True, True), [Verdict.INCONCLUSIVE, Verdict.FAIL], State.SUSPECTED),
        ((True, True, True), [None, None], State.NO_LIMIT),
    ],
)
def test_states(
    flags: tuple[bool, bool, bool], verdicts: list[Verdict | None], expected: State
) -> None:
    assert state(*flags, verdicts) is expected
