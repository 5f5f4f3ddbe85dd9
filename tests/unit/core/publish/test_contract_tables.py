"""The contract's table from counts, against numbers worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
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

from monitor.core.contract import GroupBy, Verdict
from monitor.core.counts.coding import Attribute
from monitor.core.metric import USUAL_METRICS, Metric
from monitor.core.publish.lines import places
from monitor.core.publish.reasons import why_and_until
from monitor.core.publish.snapshot import ContractTable, Period, SliceRow, Snapshot, decode, encode
from monitor.core.state import State
from monitor.core.tables.spans import ANCHOR
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
        assert spreads[M.TPR].difference == pytest.approx(1 / 3, abs=0.0005)
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


def assert_hidden(rows: tuple[SliceRow, ...]) -> None:
    for row in rows:
        assert row == SliceRow(row.slice, dict.fromkeys(row.states, State.SUPPRESSED))


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
        strict = replace(LIMITS, min_positives=520)
        rows = self.build(big(CHAT, scale=5) + big(EMAIL), limits=strict)
        assert self.state(rows, "email") is State.INSUFFICIENT_SUPPORT
        assert self.state(rows, "chat") is State.INSUFFICIENT_SUPPORT  # its complement has 500
        assert self.state(rows, "chat", M.FPR) is not State.INSUFFICIENT_SUPPORT

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
        assert shown.decisions == shown.groups[0].decisions == Period(ANCHOR, ANCHOR + HOUR)
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
        probes = [auto(CHAT, 500, 500, 500, probe=True), review(EMAIL, 500, 500, 1, probe=True)]
        with_probes = build_contract(
            contract(CHANNEL), CODING, [window(big(CHAT) + big(EMAIL) + probes)]
        )
        without = build_contract(contract(CHANNEL), CODING, [window(big(CHAT) + big(EMAIL))])
        assert with_probes == without

    def test_zero_looks_like_a_few(self) -> None:
        few = contract(GroupBy(("channel", "region")))
        declared = replace(
            CODING, attributes=(Attribute("channel", ("chat",)), Attribute("region", ("north",)))
        )
        atom = {"channel": "chat", "region": "north"}
        for cells in ([auto(atom, 0)], [auto(atom, 4, 4, 2), review(atom, 3, 3, 1)]):
            (shown,) = build_contract(few, declared, [window(cells)]).windows
            assert_hidden((shown.total, *shown.groups[0].rows))

    def test_without_windows(self) -> None:
        table = build_contract(contract(CHANNEL), CODING, [])
        assert table.windows == ()
        assert table.max_gaps == {M.TPR: 0.1, M.FPR: 0.1, M.BLOCKED: 0.1}
        assert table.min_levels == {}
        assert table.min_supports[M.TPR] == 50


class TestLabels:
    def rows(self, cells: list[Cell]) -> dict[str, SliceRow]:
        return only_group(build_contract(contract(CHANNEL), CODING, [window(cells)]))

    def test_a_route_without_labels_makes_the_rates_of_that_slice_bounds(self) -> None:
        """Email serves 400 and holds 100 that are ready; from none to all of the 400 are."""
        none = [auto(EMAIL, 400), review(EMAIL, 200, 200, 100)]
        rows = self.rows(big(CHAT) + big(FAX) + none)
        email, chat = rows["channel=email"], rows["channel=chat"]
        assert email.states[M.TPR] is State.MATURING
        assert email.rates[M.TPR].value is email.rates[M.FPR].value is None
        assert email.rates[M.TPR].lower == 0
        assert (email.rates[M.TPR].upper or 0) > 400 / 500
        assert (email.completeness or 0) <= 20 / 396, (
            "ready and others are 0 to 10 each of 396 or more"
        )
        assert chat.rates[M.TPR].value == pytest.approx(0.8, abs=0.01)

    def test_a_band_without_labels_has_no_calibration(self) -> None:
        cells = big(CHAT) + big(EMAIL) + [auto(CHAT, 200, 200, 180, band=2)]
        row = self.rows(cells)["channel=chat"]
        assert [cell.band for cell in row.calibration] == list(CODING.band_names)
        by_band = {cell.band: cell.rate for cell in row.calibration}
        best = by_band["0.90 and above"]
        assert best is not None
        assert best.value == pytest.approx(0.9, abs=0.01)
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


@pytest.mark.parametrize(("share", "most"), [(0.06, 0.05), (0.04, 0.05), (0.06, None)])
def test_a_judge_s_slice_with_many_failures_says_so(share: float, most: float | None) -> None:
    failed = round(10_000 * share)
    cells = [auto(CHAT, 10_000 - failed), blocked(CHAT, failed), auto(EMAIL, 10_000)]
    limits = replace(LIMITS, max_selection_gap=Fraction("0.5"))
    made = replace(contract(CHANNEL, limits=limits), max_blocked=most)
    table = build_contract(made, CODING, [window(cells)])
    chat, email = places(table, table.windows[0])
    assert email.row.states[M.SELECTION] is State.WITHIN_CONTRACT
    if most is None or share <= most:
        assert chat.row.states[M.SELECTION] is State.WITHIN_CONTRACT
        return
    assert chat.row.states[M.SELECTION] is State.INSUFFICIENT_SUPPORT
    assert chat.row.gaps[M.SELECTION].verdict is Verdict.INSUFFICIENT_SUPPORT
    why, until = why_and_until(chat, M.SELECTION)
    assert (why, until) == ("More than 5 % is blocked, or may be.", "Find out why it is blocked.")
