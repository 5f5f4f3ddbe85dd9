"""The contract's table from counts, against numbers worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from time import process_time
from typing import Any

import msgspec
import numpy as np
import pytest
from cubes import (
    CODING,
    LIMITS,
    Cell,
    auto,
    blocked,
    build_contract,
    contract,
    lesson_cells,
    review,
    window,
)

from monitor.core.contract import USUAL_METRICS, GroupBy, Metric, State, Verdict
from monitor.core.counts.cells import Counts
from monitor.core.publish.snapshot import (
    ContractTable,
    GroupTable,
    Period,
    SliceRow,
    Snapshot,
    decode,
    encode,
)
from monitor.core.time import HOUR

VARIETY = GroupBy(("language_variety",), "language_variety=formal")
CHANNEL = GroupBy(("channel",))
CHAT, EMAIL, FAX = ({"channel": name} for name in ("chat", "email", "fax"))
M = Metric


def only_group(table: ContractTable, window_index: int = 0) -> dict[str, SliceRow]:
    (group,) = table.windows[window_index].groups
    return {row.slice: row for row in group.rows}


def lesson(**settings: Any) -> ContractTable:
    limits = replace(LIMITS, min_positives=1, min_negatives=1)
    settings = {"k": 1, "synthetic": True, "limits": limits, **settings}
    return build_contract(contract(VARIETY, **settings), CODING, [window(lesson_cells())])


class TestLesson:
    def test_rates_are_exact(self) -> None:
        rows = only_group(lesson())
        assert list(rows) == ["language_variety=conversational", "language_variety=formal"]
        conversational, formal = (row.rates for row in rows.values())
        assert (formal[M.SELECTION].value, conversational[M.SELECTION].value) == (0.6, 0.3)
        assert (formal[M.TPR].value, conversational[M.TPR].value) == (5 / 6, 3 / 6)
        assert (formal[M.FPR].value, conversational[M.FPR].value) == (1 / 4, 0)
        assert formal[M.SELECTION].support == 10
        assert (formal[M.TPR].support, formal[M.FPR].support) == (6, 4)

    def test_wilson_bounds(self) -> None:
        conversational, formal = (row.rates[M.TPR] for row in only_group(lesson()).values())
        assert (formal.lower, formal.upper) == pytest.approx((0.436490, 0.969947), abs=1e-4)
        assert (conversational.lower, conversational.upper) == pytest.approx(
            (0.188, 0.812), abs=1e-3
        )

    def test_gaps_straddle_the_limit(self) -> None:
        gaps = only_group(lesson())["language_variety=conversational"].gaps
        tpr, fpr = gaps[M.TPR], gaps[M.FPR]
        assert tpr.reference == "language_variety=formal"
        assert tpr.value == pytest.approx(1 / 3)
        # The reference serves more unclear replies: it is the one that is worse off.
        assert fpr.value == pytest.approx(-0.25)
        for shown in (tpr, fpr):
            assert shown.lower is not None
            assert shown.upper is not None
            assert shown.lower < -0.10 < 0.10 < shown.upper
            assert shown.verdict is Verdict.INCONCLUSIVE
        assert tpr.ratio == pytest.approx(3 / 5)
        assert fpr.ratio == 0
        assert gaps[M.SELECTION].value == pytest.approx(0.3)
        assert gaps[M.SELECTION].ratio == pytest.approx(0.5)
        assert gaps[M.SELECTION].verdict is None

    def test_reference_has_no_gap(self) -> None:
        assert only_group(lesson())["language_variety=formal"].gaps == {}

    def test_spread(self) -> None:
        (group,) = lesson().windows[0].groups
        spreads = {spread.metric: spread for spread in group.spreads}
        assert spreads[M.TPR].difference == pytest.approx(1 / 3)
        assert spreads[M.TPR].worst == "language_variety=conversational"
        assert spreads[M.FPR].difference == pytest.approx(0.25)
        assert spreads[M.FPR].worst == "language_variety=formal"

    def test_states(self) -> None:
        conversational, formal = only_group(lesson()).values()
        for row in (conversational, formal):
            assert set(row.states) == set(USUAL_METRICS)
            assert row.states[M.SELECTION] is row.states[M.READY] is State.NO_LIMIT
            assert row.completeness == 1
        assert conversational.states[M.TPR] is State.INCONCLUSIVE
        assert formal.states[M.TPR] is State.NO_LIMIT  # its gap is the other row's

    def test_synthetic_alone_does_not_unguard(self) -> None:
        (group,) = lesson(k=11, limits=LIMITS).windows[0].groups
        assert_hidden(group.rows)

    def test_total_of_twenty_is_hidden_too(self) -> None:
        # 20 decisions, 9 of them served: no rate of them can hold 11 hits and 11 misses.
        assert_hidden((lesson(k=11, synthetic=False, limits=LIMITS).windows[0].total,))


def assert_hidden(rows: tuple[SliceRow, ...]) -> None:
    for row in rows:
        assert set(row.states.values()) == {State.SUPPRESSED}
        assert msgspec.to_builtins(row) == {
            "slice": row.slice,
            "states": dict.fromkeys(row.states, "suppressed"),
            "rates": {},
            "gaps": {},
            "as_labelled": {},
            "calibration": (),
            "completeness": None,
            "evidence": {},
            "breach_since": {},
            "detectable_gaps": {},
            "label_needs": {},
            "noted": (),
            "stages": {},
            "versions_differ": None,
            "agreement": None,
            "versions_changed": (),
            "versions_sent": None,
            "breach_limits": {},
        }


def big(atom: dict[str, str], served: float = 0.8, scale: int = 1) -> list[Cell]:
    """1,000 decisions, all labelled: 500 ready, 100 of the others served."""
    hits = int(500 * served)
    return [
        auto(atom, scale * (hits + 100), scale * (hits + 100), scale * hits),
        review(atom, scale * (900 - hits), scale * (900 - hits), scale * (500 - hits)),
    ]


class TestStates:
    def build(self, cells: list[Cell], **settings: Any) -> dict[str, SliceRow]:
        group = settings.pop("group", CHANNEL)
        table = build_contract(contract(group, **settings), CODING, [window(cells)])
        return only_group(table)

    def state(self, rows: dict[str, SliceRow], name: str, metric: Metric = M.TPR) -> State:
        return rows[f"channel={name}"].states[metric]

    def test_equal_slices_are_within_the_contract(self) -> None:
        rows = self.build(big(CHAT, scale=5) + big(EMAIL, scale=5))
        assert self.state(rows, "chat") is State.WITHIN_CONTRACT
        assert self.state(rows, "email", M.FPR) is State.WITHIN_CONTRACT
        assert rows["channel=chat"].gaps[M.TPR].verdict is Verdict.PASS

    def test_large_gap_is_suspected_of_the_slice_that_is_worse_off(self) -> None:
        rows = self.build(big(CHAT) + big(EMAIL, 0.5))
        assert self.state(rows, "email") is State.SUSPECTED
        assert self.state(rows, "chat") is State.BETTER_OFF
        assert rows["channel=email"].gaps[M.TPR].value == pytest.approx(0.3)
        assert rows["channel=chat"].gaps[M.TPR].value == pytest.approx(-0.3)

    def test_straddling_is_inconclusive(self) -> None:
        rows = self.build(big(CHAT) + big(EMAIL, 0.72))
        assert self.state(rows, "email") is State.INCONCLUSIVE

    def test_what_has_no_limit_is_never_green(self) -> None:
        rows = self.build(big(CHAT) + big(EMAIL), limits=replace(LIMITS, max_blocked_gap=None))
        for metric in (M.SELECTION, M.READY, M.BLOCKED):
            assert self.state(rows, "chat", metric) is State.NO_LIMIT
        assert self.state(rows, "chat") is not State.NO_LIMIT

    def test_reference_row_is_judged_by_its_level_alone(self) -> None:
        named = GroupBy(("channel",), "channel=chat")
        cells = big(CHAT, scale=5) + big(EMAIL, scale=5)
        assert self.state(self.build(cells, group=named), "chat") is State.NO_LIMIT
        level = replace(LIMITS, min_tpr=Fraction(1, 2))
        rows = self.build(cells, group=named, limits=level)
        assert self.state(rows, "chat") is State.WITHIN_CONTRACT

    def test_level_fails_though_the_slices_are_equal(self) -> None:
        level = replace(LIMITS, max_fpr=Fraction(1, 10))
        rows = self.build(big(CHAT, scale=5) + big(EMAIL, scale=5), limits=level)
        assert self.state(rows, "chat", M.FPR) is State.SUSPECTED
        assert rows["channel=chat"].gaps[M.FPR].verdict is Verdict.PASS

    def test_support_below_the_minimum(self) -> None:
        strict = replace(LIMITS, min_positives=501)
        rows = self.build(big(CHAT, scale=5) + big(EMAIL), limits=strict)
        assert self.state(rows, "email") is State.INSUFFICIENT_SUPPORT
        assert self.state(rows, "chat") is State.INSUFFICIENT_SUPPORT  # its complement has 500
        assert self.state(rows, "chat", M.FPR) is not State.INSUFFICIENT_SUPPORT

    def test_maturing(self) -> None:
        late = [replace(cell, requested=2 * cell.labelled) for cell in big(EMAIL)]
        rows = self.build(big(CHAT) + late)
        assert self.state(rows, "email") is State.MATURING
        assert self.state(rows, "chat") is State.MATURING  # what it is compared with
        for name in ("chat", "email"):  # labels that are out are support that is not there
            verdict = rows[f"channel={name}"].gaps[M.TPR].verdict
            assert verdict is Verdict.INSUFFICIENT_SUPPORT
        assert self.state(rows, "chat", M.BLOCKED) is not State.MATURING
        assert rows["channel=chat"].completeness == 1
        assert rows["channel=email"].completeness == 0.5

    def test_the_total_has_no_state_of_its_own_but_hidden(self) -> None:
        table = build_contract(contract(CHANNEL), CODING, [window(big(CHAT))])
        total = table.windows[0].total
        assert total.slice == ""
        assert total.gaps == {}
        assert total.states[M.TPR] is State.NO_LIMIT


class TestWindows:
    def test_unlabelled_windows_have_two_metrics(self) -> None:
        table = build_contract(contract(CHANNEL), CODING, [window(big(CHAT) + big(EMAIL), "1h")])
        shown = table.windows[0]
        assert shown.labelled is None
        assert shown.groups[0].labelled is None
        assert shown.decisions == shown.groups[0].decisions == Period(0, HOUR)
        for row in (shown.total, *shown.groups[0].rows):
            assert set(row.states) == {M.SELECTION, M.BLOCKED}
            assert row.calibration == ()
            assert row.completeness is None

    def test_where_keeps_the_atoms_of_the_use_case(self) -> None:
        cells = [*big({"channel": "chat", "case": "a"}), *big({"channel": "chat", "case": "b"})]
        shown = build_contract(contract(CHANNEL, where=(("case", "a"),)), CODING, [window(cells)])
        alone = build_contract(contract(CHANNEL), CODING, [window(big(CHAT))])
        assert shown.windows == alone.windows

    def test_probes_are_no_traffic(self) -> None:
        probes = [auto(CHAT, 500, 500, 500, probe=True), review(FAX, 500, 500, 1, probe=True)]
        with_probes = build_contract(
            contract(CHANNEL), CODING, [window(big(CHAT) + big(EMAIL) + probes)]
        )
        without = build_contract(contract(CHANNEL), CODING, [window(big(CHAT) + big(EMAIL))])
        assert with_probes == without

    @pytest.mark.parametrize("k", [1, 11])
    def test_nothing_counted(self, k: int) -> None:
        empty = replace(window([]), decisions=Counts.empty(), labelled=Counts.empty())
        table = build_contract(contract(CHANNEL, k=k, synthetic=True), CODING, [empty])
        shown = table.windows[0]
        assert_hidden((shown.total, *shown.groups[0].rows))

    def test_zero_looks_like_a_few(self) -> None:
        empty = replace(window([]), decisions=Counts.empty(), labelled=Counts.empty())
        few = window([auto(CHAT, 4, 4, 2), review(EMAIL, 3, 3, 1)])
        settings = contract(CHANNEL, GroupBy(("channel", "region")))
        regions = window([auto({"channel": "chat", "region": "north"}, 4, 4, 2)])
        assert build_contract(contract(CHANNEL), CODING, [empty]) == build_contract(
            contract(CHANNEL), CODING, [few]
        )
        assert build_contract(settings, CODING, [empty]) == build_contract(
            settings, CODING, [regions]
        )

    def test_without_windows(self) -> None:
        table = build_contract(contract(CHANNEL), CODING, [])
        assert table.windows == ()
        assert table.max_gaps == {M.TPR: 0.1, M.FPR: 0.1, M.BLOCKED: 0.1}
        assert table.min_levels == {}
        assert table.min_supports[M.TPR] == 50


def shown_slices(group: GroupTable) -> list[str]:
    return [row.slice for row in group.rows if row.rates]


class TestLabels:
    def rows(self, cells: list[Cell]) -> dict[str, SliceRow]:
        return only_group(build_contract(contract(CHANNEL), CODING, [window(cells)]))

    def test_no_label_in_a_route_hides_that_slice_alone(self) -> None:
        none = [auto(EMAIL, 400), review(EMAIL, 200, 200, 100)]
        rows = self.rows(big(CHAT) + big(FAX) + none)
        assert rows["channel=email"].states[M.TPR] is State.SUPPRESSED
        assert rows["channel=email"].states[M.SELECTION] is not State.SUPPRESSED
        assert rows["channel=chat"].rates[M.TPR].value == 0.8
        assert rows["channel=email"].as_labelled == {}

    def test_calibration_needs_ten_labels(self) -> None:
        cells = big(CHAT) + big(EMAIL) + [auto(CHAT, 200, 200, 180, band=2)]
        row = self.rows(cells)["channel=chat"]
        assert [cell.band for cell in row.calibration] == list(CODING.band_names)
        by_band = {cell.band: cell.rate for cell in row.calibration}
        best = by_band["0.90 and above"]
        assert best is not None
        assert best.value == 0.9
        assert by_band["no score"] is None


class TestEncoding:
    def test_round_trip_and_no_nan(self) -> None:
        table = lesson()
        snapshot = Snapshot(1, 2, (table,))
        data = encode(snapshot)
        json.loads(data, parse_constant=pytest.fail)
        assert decode(data) == snapshot
        assert encode(Snapshot(1, 2, (lesson(),))) == data

    def test_no_numpy_scalars(self) -> None:
        plain = msgspec.json.decode(encode(Snapshot(None, None, (lesson(),))))
        assert not any(isinstance(x, np.generic) for x in _leaves(plain))


def _leaves(node: object) -> list[object]:
    if isinstance(node, dict):
        return [leaf for value in node.values() for leaf in _leaves(value)]
    if isinstance(node, list):
        return [leaf for value in node for leaf in _leaves(value)]
    return [node]


def test_thousand_slices_in_four_windows_are_quick() -> None:
    cells = [
        cell
        for i in range(1000)
        for cell in (
            auto({"channel": f"v{i:04}"}, 800, 40, 30, rate=2),
            review({"channel": f"v{i:04}"}, 150, 150, 60),
            blocked({"channel": f"v{i:04}"}, 50),
        )
    ]
    windows = [window(cells, name) for name in ("1h", "24h", "7d", "28d")]
    start = process_time()
    table = build_contract(contract(CHANNEL), CODING, windows)
    assert process_time() - start < 3  # about half a second on a quiet machine
    assert len(shown_slices(table.windows[3].groups[0])) == 1000
