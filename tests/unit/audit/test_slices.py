"""Slices and calibration of an audit: the lesson by hand, real people as the service shows them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from audited import real_settings, reviewed_pairs, settings
from matched import VARIETY, row, seen, ten_pairs, varieties
from matched import pair as pair_of

from monitor.audit.audit_report import CalibrationLine, SliceLine
from monitor.audit.audit_run import contract_of
from monitor.audit.inputs import Pair, Row
from monitor.audit.slices import (
    MIN_CALIBRATION,
    GroupSlices,
    audit_coding,
    calibration_lines,
    declared,
    lines_of,
    slices_of,
    without_gate,
)
from monitor.core.metric import USUAL_METRICS, Metric
from monitor.settings import Settings
from monitor.settings.sections import GroupBySettings

FORMAL, CONVERSATIONAL = f"{VARIETY}=formal", f"{VARIETY}=conversational"
M = Metric


def rows_of(pairs: Sequence[Pair]) -> list[Row]:
    return [row for pair in pairs for row in pair.rows]


def slices(
    pairs: Sequence[Pair], one: Settings | None = None, *, synthetic: bool = True
) -> tuple[tuple[GroupSlices, ...], tuple[SliceLine, ...]]:
    one = one or settings()
    contract = contract_of(one.use_case[0], synthetic=synthetic)
    groups = slices_of(rows_of(pairs), contract, audit_coding(one.coding))
    return groups, lines_of(groups, contract)


def lines(*args: object, **more: object) -> dict[str, SliceLine]:
    return {line.slice: line for line in slices(*args, **more)[1]}  # type: ignore[arg-type]


def calibrated(
    pairs: Sequence[Pair], one: Settings | None = None, *, synthetic: bool = True
) -> tuple[CalibrationLine, ...]:
    one = one or settings()
    groups, _ = slices(pairs, one, synthetic=synthetic)
    return calibration_lines(groups, audit_coding(one.coding), synthetic=synthetic)


class TestBlocked:
    """Ready replies that the evidence gate stopped: not in the TPR, unserved in that of all."""

    def test_they_count_as_unserved_beside_the_tpr(self) -> None:
        served, blocked = seen(0.9), seen(0.9, passed=False)
        pairs = [varieties(f"p{i}", served, served) for i in range(7)]
        pairs += [varieties(f"b{i}", served, blocked) for i in range(3)]
        pairs += [varieties("n1", seen(0.2), blocked, ready=False)]
        contract = contract_of(settings().use_case[0], synthetic=True)
        coding = audit_coding(settings().coding)
        with_gate, without = (
            slices_of(rows, contract, coding)
            for rows in (rows_of(pairs), without_gate(rows_of(pairs)))
        )

        found = {line.slice: line for line in lines_of(with_gate, contract, without)}

        casual = found[CONVERSATIONAL]
        assert (casual.rates[M.TPR].value, casual.tpr_with_blocked) == (1.0, 0.7)
        assert (found[FORMAL].rates[M.TPR].value, found[FORMAL].tpr_with_blocked) == (1.0, 1.0)
        assert found[""].tpr_with_blocked == 17 / 20

    def test_real_people_have_none(self) -> None:
        found = slices(reviewed_pairs(300), real_settings(), synthetic=False)[1]
        assert {line.tpr_with_blocked for line in found} == {None}


class TestLesson:
    def test_rates(self) -> None:
        found = lines(ten_pairs())
        formal, conversational = found[FORMAL].rates, found[CONVERSATIONAL].rates
        assert (formal[M.SELECTION].value, conversational[M.SELECTION].value) == (0.6, 0.3)
        assert (formal[M.TPR].value, conversational[M.TPR].value) == (5 / 6, 3 / 6)
        assert (formal[M.FPR].value, conversational[M.FPR].value) == (1 / 4, 0)
        assert (formal[M.READY].value, formal[M.BLOCKED].value) == (0.6, 0)

    def test_wilson(self) -> None:
        found = lines(ten_pairs())
        bounds = [
            (round(rate.lower or 0, 3), round(rate.upper or 0, 3))
            for rate in (found[s].rates[M.TPR] for s in (FORMAL, CONVERSATIONAL))
        ]
        assert bounds == [(0.436, 0.970), (0.188, 0.812)]

    def test_support_beside_what_is_needed(self) -> None:
        for text in (FORMAL, CONVERSATIONAL):
            assert lines(ten_pairs())[text].supports == {M.TPR: 6, M.FPR: 4}
            assert lines(ten_pairs())[text].needed == {M.TPR: 50, M.FPR: 30}

    def test_intersections_have_three_positives_each(self) -> None:
        found = {
            text: line for text, line in lines(ten_pairs()).items() if line.group_by.count("+")
        }
        assert len(found) == 4
        assert {line.group_by for line in found.values()} == {f"channel+{VARIETY}"}
        assert all(line.supports == {M.TPR: 3, M.FPR: 2} for line in found.values())

    def test_the_total_comes_first(self) -> None:
        first = slices(ten_pairs())[1][0]
        assert (first.group_by, first.slice) == ("", "")
        assert first.rates[M.SELECTION].value == 9 / 20

    def test_calibration(self) -> None:
        found = {
            (line.slice, line.band): (line.n, line.rate.value if line.rate else None)
            for line in calibrated(ten_pairs())
        }
        assert found == {
            (CONVERSATIONAL, "below 0.70"): (7, 3 / 7),
            (CONVERSATIONAL, "0.70 to 0.90"): (3, 1.0),
            (FORMAL, "below 0.70"): (4, 1 / 4),
            (FORMAL, "0.70 to 0.90"): (5, 4 / 5),
            (FORMAL, "0.90 and above"): (1, 1.0),
        }
        assert not any(line.sufficient for line in calibrated(ten_pairs()))


class TestSynthetic:
    def test_what_the_gate_stopped_is_outside(self) -> None:
        stopped = varieties("g1", seen(None, passed=False), seen(None, passed=False))
        found = lines([*ten_pairs(), stopped])[FORMAL]
        assert found.rates[M.TPR].value == 5 / 6
        assert (found.rates[M.SELECTION].value, found.rates[M.BLOCKED].value) == (6 / 11, 1 / 11)
        assert len(calibrated([*ten_pairs(), stopped])) == 5

    def test_no_positives_is_no_rate_and_no_support(self) -> None:
        found = lines([varieties("n1", seen(0.6), seen(0.8), ready=False)])[FORMAL]
        assert M.TPR not in found.rates
        assert found.supports == {M.TPR: 0, M.FPR: 1}

    def test_slices_without_items_are_absent_and_all_are_declared(self) -> None:
        chat = [varieties("p1", seen(0.8), seen(0.8), channel="chat")]
        groups, shown = slices(chat)
        assert [line.slice for line in shown] == [
            "",
            CONVERSATIONAL,
            FORMAL,
            f"channel=chat,{CONVERSATIONAL}",
            f"channel=chat,{FORMAL}",
        ]
        assert [len(declared(table)) for table in groups] == [1, 2, 4]

    def test_what_has_no_value_is_not_declared(self) -> None:
        bare = row("p1", "plain", {}, seen(0.8))
        groups, shown = slices([*ten_pairs(), Pair("p1", "", (bare,))])
        assert f"{VARIETY}=__missing__" in {line.slice for line in shown}
        assert [row.slice for row in declared(groups[1])] == [CONVERSATIONAL, FORMAL]

    def test_ten_items_are_sufficient(self) -> None:
        pairs = [varieties(f"p{i}", seen(0.8), seen(0.8)) for i in range(MIN_CALIBRATION)]
        assert all(line.sufficient for line in calibrated(pairs))
        assert not any(line.sufficient for line in calibrated(pairs[1:]))

    def test_a_part_without_pairs(self) -> None:
        groups, shown = slices([])
        assert shown == ()
        assert [table.group.name for table in groups] == ["", VARIETY, f"channel+{VARIETY}"]


class TestRealPeople:
    def test_nothing_is_exact(self) -> None:
        """Any other number of a band gives the same lines, the next band others."""

        def shown(served: int) -> tuple[Sequence[SliceLine], Sequence[CalibrationLine]]:
            outcomes = [(0.8, True, served), (0.5, True, 110), (0.8, False, 55), (0.5, False, 110)]
            pairs = [
                varieties(f"{score}{ready}{i}", seen(score), seen(score), ready=ready)
                for score, ready, n in outcomes
                for i in range(n)
            ]
            one = real_settings()
            return slices(pairs, one, synthetic=False)[1], calibrated(pairs, one, synthetic=False)

        (lines_, _), band = shown(110), [shown(served) for served in (110, 115, 120)]
        assert {metric for line in lines_ for metric in line.rates} == set(USUAL_METRICS)
        assert all(other == band[0] for other in band)
        assert all(shown(served) != band[0] for served in (109, 121))

    def test_ten_pairs_show_nothing_at_all(self) -> None:
        found = lines(ten_pairs(), real_settings(), synthetic=False)
        assert all(not line.supports for text, line in found.items() if text)
        assert all(not line.rates for text, line in found.items() if text)
        for line in calibrated(ten_pairs(), real_settings(), synthetic=False):
            assert (line.n, line.rate, line.sufficient) == (0, None, False)

    def test_an_intersection_with_a_small_cell_is_pooled_not_shown(self) -> None:
        few = [
            varieties(f"f{i}", seen(0.8), seen(0.8), channel="email", ready=i % 2 == 0)
            for i in range(5)
        ]
        many = [
            varieties(f"m{i}", seen(0.8 if i % 3 else 0.5), seen(0.7), channel="chat")
            for i in range(300)
        ]
        found = lines([*many, *few], real_settings(), synthetic=False)
        shown = {text for text, line in found.items() if line.rates}
        assert FORMAL in shown
        assert not any("email" in text for text in shown)

    def test_an_intersection_keeps_no_value_that_its_marginal_pools(self) -> None:
        groups = (
            GroupBySettings(attributes=("channel", VARIETY)),
            GroupBySettings(attributes=("channel",)),
        )
        fax = {VARIETY: ("formal", "conversational"), "channel": ("chat", "email", "fax", "post")}
        flows = {"chat": 300, "email": 200, "fax": 9, "post": 3}
        pairs = [
            varieties(f"{channel}{i}", seen(0.8 if i % 2 else 0.5), seen(0.6), channel=channel)
            for channel, n in flows.items()
            for i in range(n)
        ]
        found = lines(pairs, real_settings(values=fax, groups=groups), synthetic=False)
        shown = {text for text, line in found.items() if line.rates}
        assert {"channel=chat", "channel=email"} <= shown
        assert not {text for text in shown if "fax" in text or "post" in text}

    @pytest.mark.parametrize(("people", "shown"), [(3, False), (10, False), (60, True)])
    def test_variants_of_one_pair_are_not_counted_as_people(self, people: int, shown: bool) -> None:
        personas = tuple(f"v{i:02}" for i in range(16))
        values = {
            VARIETY: ("formal", "conversational"),
            "channel": ("chat", "email"),
            "persona": personas,
        }
        pairs = [
            pair_of(
                row(
                    f"p{i}",
                    one,
                    {
                        VARIETY: ("formal", "conversational")[j % 2],
                        "channel": "chat",
                        "persona": one,
                    },
                    seen(0.8 if i % 2 else 0.5),
                    ready=i % 2 == 1,
                )
                for j, one in enumerate(personas)
            )
            for i in range(people)
        ]
        found = lines(pairs, real_settings(values=values), synthetic=False)
        assert bool(found[""].rates) is shown
        assert any(line.rates for line in found.values()) is shown

    def test_calibration_is_withheld_below_k_and_coded_above(self) -> None:
        lines_ = calibrated(reviewed_pairs(600), real_settings(), synthetic=False)
        assert {(x.n, x.sufficient) for x in lines_ if x.rate is None} == {(0, False)}
        assert {x.band for x in lines_ if x.rate is None} == {"no score"}
        coded = {x.band for x in lines_ if x.rate and x.rate.value is None}
        assert coded == {"0.90 and above"}  # hardly any of them is not ready
        assert {x.band for x in lines_} - coded == {"below 0.70", "0.70 to 0.90", "no score"}
        assert all(x.n == x.rate.support and x.sufficient for x in lines_ if x.rate)
