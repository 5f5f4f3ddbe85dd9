"""Checks of an audit: point and interval side by side, supports, and the baseline's guardrails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import msgspec
import pytest
from audited import VALUES, real_settings, reviewed_pairs, settings
from matched import CANDIDATE, VARIETY, row, seen, ten_pairs, varieties
from matched import pair as pair_of

from monitor.audit.audit_report import Check, Point, SupportCheck
from monitor.audit.audit_run import contract_of
from monitor.audit.contract_checks import baseline_checks, contract_checks, support_checks
from monitor.audit.inputs import Pair, Row
from monitor.audit.slices import GroupSlices, audit_coding, slices_of, without_gate
from monitor.core.contract import COMPLEMENT, Verdict
from monitor.core.metric import Metric
from monitor.settings import Settings
from monitor.settings.sections import GroupBySettings, OwnLimitSettings

FORMAL, CONVERSATIONAL = f"{VARIETY}=formal", f"{VARIETY}=conversational"
UNSUPPORTED = Verdict.INSUFFICIENT_SUPPORT
VARIETY_ALONE = (GroupBySettings(attributes=(VARIETY,), reference=FORMAL),)
ONE_GROUP = settings(groups=VARIETY_ALONE)


def tables(pairs: Sequence[Pair], one: Settings, *, synthetic: bool) -> tuple[GroupSlices, ...]:
    contract = contract_of(one.use_case[0], synthetic=synthetic)
    rows = [row for pair in pairs for row in pair.rows]
    return slices_of(rows, contract, audit_coding(one.coding))


def checks(
    pairs: Sequence[Pair], one: Settings = ONE_GROUP, *, synthetic: bool = True
) -> list[Check]:
    contract = contract_of(one.use_case[0], synthetic=synthetic)
    rows = [row for pair in pairs for row in pair.rows]
    groups = slices_of(rows, contract, audit_coding(one.coding))
    return list(contract_checks(groups, contract, rows, audit_coding(one.coding)))


def supports(
    pairs: Sequence[Pair], one: Settings = ONE_GROUP, *, synthetic: bool = True
) -> list[SupportCheck]:
    groups = tables(pairs, one, synthetic=synthetic)
    contract = contract_of(one.use_case[0], synthetic=synthetic)
    rows = [row for pair in pairs for row in pair.rows]
    return list(support_checks(groups, contract, rows, audit_coding(one.coding)))


def guardrails(
    before: Sequence[Pair], after: Sequence[Pair], one: Settings = ONE_GROUP
) -> dict[tuple[str, str], Any]:
    old, new = (
        slices_of(
            without_gate([row for pair in pairs for row in pair.rows]),
            contract_of(one.use_case[0], synthetic=True),
            audit_coding(one.coding),
        )
        for pairs in (before, after)
    )
    return {(c.name, c.slice): c for c in baseline_checks(new, old, exact=True)}


def in_language(one: Row, language: str) -> Row:
    attributes = {**one.item.attributes, "language": language}
    return replace(one, item=replace(one.item, attributes=attributes))


def rounded(check: Check) -> tuple[float, float, float]:
    assert None not in (check.value, check.lower, check.upper)
    value, lower, upper = (
        round(100 * (x or 0), 1) for x in (check.value, check.lower, check.upper)
    )
    return value, lower, upper


class TestCodes:
    """A guarded rate near 0 or 1 is coded; what the code says still counts."""

    def against(self, before: int, after: int, *, ready: bool) -> Check:
        """The guardrail of the whole, for so many of 200 items served."""
        one = real_settings(groups=VARIETY_ALONE)
        old, new = (
            tables(
                [
                    varieties(f"p{i}", *[seen(0.8 if i < n else 0.5)] * 2, ready=ready)
                    for i in range(200)
                ]
                + [
                    varieties(f"q{i}", *[seen(0.8 if i < 30 else 0.5)] * 2, ready=not ready)
                    for i in range(60)
                ],
                one,
                synthetic=False,
            )
            for n in (before, after)
        )
        metric = Metric.TPR if ready else Metric.FPR
        return next(c for c in baseline_checks(new, old, exact=False) if c.metric is metric)

    @pytest.mark.parametrize(
        ("before", "after", "ready", "point"),
        [
            (2, 60, False, Point.FAIL),
            (2, 3, False, Point.NONE),
            (60, 2, False, Point.PASS),
            (198, 120, True, Point.FAIL),
            (198, 197, True, Point.NONE),
            (120, 198, True, Point.PASS),
        ],
    )
    def test_it_decides_what_is_certain(
        self, before: int, after: int, ready: bool, point: Point
    ) -> None:
        check = self.against(before, after, ready=ready)
        assert check.point is point
        assert (check.limit is None) is (point is Point.NONE)


class TestGaps:
    def test_the_lessons_two(self) -> None:
        tpr, fpr = checks(ten_pairs())
        assert (tpr.name, tpr.slice, tpr.against) == ("tpr_gap", CONVERSATIONAL, FORMAL)
        assert (fpr.name, fpr.slice, fpr.against) == ("fpr_gap", CONVERSATIONAL, FORMAL)
        assert rounded(tpr) == (33.3, -17.2, 67.4)
        assert rounded(fpr) == (-25.0, -69.9, 28.1)  # formal is the one that is worse off
        assert (tpr.worse_off, fpr.worse_off) == (CONVERSATIONAL, FORMAL)
        for check in (tpr, fpr):
            assert (check.limit, check.point, check.verdict) == (0.10, Point.FAIL, UNSUPPORTED)
            assert check.matched

    def test_the_lessons_candidate(self) -> None:
        for check in checks(ten_pairs(CANDIDATE)):
            assert (check.value, check.point, check.verdict) == (0, Point.PASS, UNSUPPORTED)

    @pytest.mark.parametrize(
        ("limit", "point"), [("1/3", Point.PASS), ("0.3333", Point.FAIL), ("0.34", Point.PASS)]
    )
    def test_points_are_exact_fractions(self, limit: str, point: Point) -> None:
        one = settings(groups=VARIETY_ALONE, limits={"max_tpr_gap": Fraction(limit)})
        assert checks(ten_pairs(), one)[0].point is point

    def test_a_limit_that_equals_the_gap_where_floats_differ(self) -> None:
        # 80/100 - 70/100 is above 0.1 in floats.
        pairs = [
            varieties(f"p{i}", seen(0.8 if i < 8 else 0.6), seen(0.8 if i < 7 else 0.6))
            for i in range(10)
        ]
        tpr = checks(pairs)[0]
        assert tpr.value is not None
        assert tpr.value > 0.10
        assert tpr.point is Point.PASS

    def test_blocked_where_it_is_limited(self) -> None:
        one = settings(groups=VARIETY_ALONE, limits={"max_blocked_gap": Fraction("0.05")})
        pairs = [*ten_pairs(), varieties("g1", seen(0.9), seen(None, passed=False))]
        blocked = checks(pairs, one)[-1]
        assert (blocked.name, blocked.metric, blocked.point) == (
            "blocked_gap", Metric.BLOCKED, Point.FAIL,
        )  # fmt: skip
        assert blocked.value == pytest.approx(1 / 11)

    def test_no_trials_is_no_point(self) -> None:
        ready = [pair for pair in ten_pairs() if pair.id.startswith("p")]
        _, fpr = checks(ready)
        assert (fpr.value, fpr.lower, fpr.point, fpr.verdict) == (
            None,
            None,
            Point.NONE,
            UNSUPPORTED,
        )

    def test_a_reference_that_the_set_does_not_hold(self) -> None:
        one = settings(
            values=VALUES | {VARIETY: ("formal", "conversational", "legal")},
            groups=(GroupBySettings(attributes=(VARIETY,), reference=f"{VARIETY}=legal"),),
        )
        found = checks(ten_pairs(), one)
        assert [check.slice for check in found] == [CONVERSATIONAL] * 2 + [FORMAL] * 2
        assert all(
            (c.point, c.verdict, c.matched) == (Point.NONE, UNSUPPORTED, False) for c in found
        )

    def test_against_the_complement(self) -> None:
        one = settings(groups=(GroupBySettings(attributes=(VARIETY,)),))
        found = {(c.name, c.slice): c for c in checks(ten_pairs(), one)}
        assert len(found) == 4
        for text, gap, behind, point in (
            (CONVERSATIONAL, (33.3, -17.2, 67.4), CONVERSATIONAL, Point.FAIL),
            (FORMAL, (-33.3, -67.4, 17.2), COMPLEMENT, Point.BETTER_OFF),
        ):
            check = found["tpr_gap", text]
            assert (check.against, rounded(check)) == (COMPLEMENT, gap)
            assert check.worse_off == behind
            assert (check.point, check.matched) == (point, True)

    def test_a_slice_that_all_others_together_are_worse_off_than_is_told_as_theirs(self) -> None:
        """Each of nine languages is 2 points behind the rest, and all nine 20 behind the tenth."""
        languages = ("en", *(f"l{i}" for i in range(9)))
        pairs = [
            pair_of(
                row(
                    f"p{i}",
                    name,
                    {VARIETY: "formal", "language": name},
                    seen(0.8 if name == "en" or i < 8 else 0.6),
                )
                for name in languages
            )
            for i in range(10)
        ]
        one = settings(
            values=VALUES | {"language": languages},
            groups=(GroupBySettings(attributes=("language",)),),
        )
        found = {c.slice: c for c in checks(pairs, one) if c.name == "tpr_gap"}
        failed = [text for text, check in found.items() if check.point is Point.FAIL]
        assert failed == ["language=en"]
        assert found["language=en"].worse_off == COMPLEMENT

    def test_a_reference_that_is_worse_off_than_several_slices_fails_once(self) -> None:
        languages = {"en": 0.6, "de": 0.8, "fr": 0.8}
        pairs = [
            pair_of(
                row(f"p{i}", name, {VARIETY: "formal", "language": name}, seen(score))
                for name, score in languages.items()
            )
            for i in range(10)
        ]
        one = settings(
            values=VALUES | {"language": tuple(languages)},
            groups=(GroupBySettings(attributes=("language",), reference="language=en"),),
        )
        points = [c.point for c in checks(pairs, one) if c.name == "tpr_gap"]
        assert sorted(points) == [Point.BETTER_OFF, Point.FAIL]

    def test_intersections_are_compared_within_the_pairs_that_hold_both_sides(self) -> None:
        found = {
            (c.name, c.slice): (round(100 * (c.value or 0), 1), c.point)
            for c in checks(ten_pairs(), settings())
            if "channel" in c.slice
        }
        assert found == {
            (name, f"channel={channel},{variety}"): (
                sign * value,
                Point.BETTER_OFF if sign * value < 0 else point,
            )
            for name, channel, value, point in (
                ("tpr_gap", "email", 66.7, Point.FAIL),
                ("tpr_gap", "chat", 0.0, Point.PASS),
                ("fpr_gap", "email", 0.0, Point.PASS),
                ("fpr_gap", "chat", -50.0, Point.FAIL),
            )
            for variety, sign in ((FORMAL, -1), (CONVERSATIONAL, 1))
        }
        repaired = checks(ten_pairs(CANDIDATE), settings())
        assert {(c.value, c.point, c.matched) for c in repaired} == {(0, Point.PASS, True)}

    def test_a_set_with_two_axes(self) -> None:
        """Pairs of one axis say nothing of the other, and take nothing from it."""

        def languages(i: int) -> Pair:
            its = {"en": seen(0.8), "de": seen(0.8 if i % 2 else 0.6)}
            return pair_of(
                row(f"q{i}", name, {VARIETY: "formal", "language": name}, one, ready=i < 6)
                for name, one in its.items()
            )

        ten = [pair_of(in_language(one, "en") for one in pair.rows) for pair in ten_pairs()]
        one = settings(
            values=VALUES | {"language": ("en", "de")},
            groups=(
                *VARIETY_ALONE,
                GroupBySettings(attributes=("language",), reference="language=en"),
            ),
        )
        found = checks([*ten, *map(languages, range(10))], one)
        assert all(c.matched for c in found)
        tpr, fpr, *others = found
        assert (rounded(tpr), rounded(fpr)) == ((33.3, -17.2, 67.4), (-25.0, -69.9, 28.1))
        assert [(c.name, c.slice, c.value, c.point) for c in others] == [
            ("tpr_gap", "language=de", 0.5, Point.FAIL),
            ("fpr_gap", "language=de", -0.5, Point.FAIL),
        ]

    def test_without_a_pair_that_holds_both_sides_nothing_is_decided(self) -> None:
        one = settings(groups=(GroupBySettings(attributes=("channel",)),))
        found = checks(ten_pairs(), one)
        assert len(found) == 4
        assert {(c.value, c.lower, c.point, c.verdict, c.matched) for c in found} == {
            (None, None, Point.NONE, UNSUPPORTED, False)
        }

    def test_with_support_the_interval_decides(self) -> None:
        many = [
            varieties(f"{ready}{i}", seen(0.8), seen(0.6 if i % 2 else 0.8), ready=ready)
            for i in range(200)
            for ready in (True, False)
        ]
        tpr, fpr = checks(many)
        assert (tpr.point, tpr.verdict) == (fpr.point, fpr.verdict) == (Point.FAIL, Verdict.FAIL)

    def test_with_support_an_interval_around_the_limit_is_inconclusive(self) -> None:
        near = [
            varieties(f"{ready}{i}", seen(0.8), seen(0.8 if i % 12 else 0.6), ready=ready)
            for i in range(60)
            for ready in (True, False)
        ]
        for check in checks(near):
            assert (check.point, check.verdict) == (Point.PASS, Verdict.INCONCLUSIVE)


class TestLevels:
    LIMITS = {"min_tpr": Fraction(1, 2), "max_fpr": Fraction(1, 5)}  # noqa: RUF012

    def test_each_slice_has_its_levels(self) -> None:
        one = settings(groups=VARIETY_ALONE, limits=self.LIMITS)
        found = {(c.name, c.slice): c for c in checks(ten_pairs(), one) if not c.against}
        points = {key: (c.limit, c.value, c.point, c.verdict) for key, c in found.items()}
        assert points == {
            ("min_tpr", CONVERSATIONAL): (0.5, 0.5, Point.PASS, UNSUPPORTED),
            ("max_fpr", CONVERSATIONAL): (0.2, 0.0, Point.PASS, UNSUPPORTED),
            ("min_tpr", FORMAL): (0.5, 5 / 6, Point.PASS, UNSUPPORTED),
            ("max_fpr", FORMAL): (0.2, 0.25, Point.FAIL, UNSUPPORTED),
        }

    @pytest.mark.parametrize(
        ("score", "verdicts"),
        [(0.8, [Verdict.PASS, Verdict.FAIL]), (0.6, [Verdict.FAIL, Verdict.PASS])],
    )
    def test_with_support_the_interval_decides(self, score: float, verdicts: list[Verdict]) -> None:
        one = settings(groups=VARIETY_ALONE, limits=self.LIMITS)
        many = [
            varieties(f"{ready}{i}", seen(score), seen(score), ready=ready)
            for i in range(60)
            for ready in (True, False)
        ]
        levels = [c for c in checks(many, one) if c.slice == FORMAL]
        assert [c.verdict for c in levels] == verdicts

    def test_no_trials(self) -> None:
        one = settings(groups=VARIETY_ALONE, limits=self.LIMITS)
        ready = [pair for pair in ten_pairs() if pair.id.startswith("p")]
        level = next(c for c in checks(ready, one) if c.name == "max_fpr")
        assert (level.value, level.point, level.verdict) == (None, Point.NONE, UNSUPPORTED)


class TestSupports:
    def test_the_lesson_has_too_little(self) -> None:
        found = supports(ten_pairs(), settings())
        assert {(s.metric, s.support, s.needed, s.met) for s in found if "+" not in s.slice} >= {
            (Metric.TPR, 6, 50, False),
            (Metric.FPR, 4, 30, False),
        }
        assert len(found) == 2 * (2 + 4)
        assert not any(s.met for s in found)

    def test_exactly_what_is_needed_is_enough(self) -> None:
        one = settings(groups=VARIETY_ALONE, limits={"min_positives": 6, "min_negatives": 5})
        assert [s.met for s in supports(ten_pairs(), one)] == [True, False] * 2

    def test_a_declared_slice_without_items_lacks_support(self) -> None:
        values = VALUES | {VARIETY: ("formal", "conversational", "dialect")}
        one = settings(values=values, groups=VARIETY_ALONE)
        found = {(s.slice, s.metric): s.support for s in supports(ten_pairs(), one)}
        assert found[f"{VARIETY}=dialect", Metric.TPR] == 0

    def test_of_real_people_it_is_no_more_than_there_is(self) -> None:
        one = real_settings(groups=VARIETY_ALONE)
        found = supports(reviewed_pairs(300), one, synthetic=False)
        ready = sum(pair.rows[0].item.expected_ready is True for pair in reviewed_pairs(300))
        for support in found:
            trials = ready if support.metric is Metric.TPR else 300 - ready
            assert trials / 3 < support.support <= trials
            assert support.met

    def test_of_real_people_pairs_are_counted(self) -> None:
        def several(i: int) -> Pair:
            names = ("formal", "polite", "conversational")
            values = ("formal", "formal", "conversational")
            return pair_of(
                row(f"p{i:03}", name, {VARIETY: value, "length": name}, seen(score), ready=i < 60)
                for name, value, score in zip(names, values, (0.8, 0.5, 0.8), strict=True)
            )

        values = VALUES | {"length": ("formal", "polite", "conversational")}
        limits = {"min_positives": 60, "min_negatives": 30}
        one = real_settings(groups=VARIETY_ALONE, values=values, limits=limits)
        pairs = [several(i) for i in range(120)]
        shown = {t.slice: t for t in tables(pairs, one, synthetic=False)[1].rows}[FORMAL]
        found = {s.metric: s for s in supports(pairs, one, synthetic=False) if s.slice == FORMAL}
        # 120 ready variants are 60 requests, which are in the band that begins at 55.
        assert shown.rates[Metric.TPR].support >= 60
        assert (found[Metric.TPR].support, found[Metric.TPR].met) == (55, False)
        assert (found[Metric.FPR].support, found[Metric.FPR].met) == (55, True)

    def test_of_real_people_what_the_gate_stopped_is_no_support(self) -> None:
        one = real_settings(groups=VARIETY_ALONE)
        let_through = reviewed_pairs(300, blocked=0.0)
        stopped = reviewed_pairs(300, blocked=0.5)
        for more, fewer in zip(
            supports(let_through, one, synthetic=False),
            supports(stopped, one, synthetic=False),
            strict=True,
        ):
            assert 0 < fewer.support < 0.75 * more.support


class TestBaseline:
    def test_the_lessons_candidate_keeps_them_all(self) -> None:
        found = guardrails(ten_pairs(), ten_pairs(CANDIDATE), settings())
        assert {point.point for point in found.values()} == {Point.PASS}
        assert len(found) == 2 * (1 + 2 + 4)
        conversational = found["tpr_not_below_baseline", CONVERSATIONAL]
        assert (conversational.limit, conversational.value) == (0.5, 5 / 6)
        assert (conversational.against, conversational.verdict) == ("", None)

    def test_serving_more_unclear_replies_in_both(self) -> None:
        served = dict.fromkeys(("p4", "p5", "n1", "n2"), (0.9, 0.9))
        found = guardrails(ten_pairs(), ten_pairs(CANDIDATE | served))
        failed = {key for key, check in found.items() if check.point is Point.FAIL}
        assert failed == {("fpr_not_above_baseline", s) for s in ("", FORMAL, CONVERSATIONAL)}

    def test_levelling_down(self) -> None:
        lower = dict.fromkeys(("p4", "p5", "n1"), (0.6, 0.6))
        found = guardrails(ten_pairs(), ten_pairs(CANDIDATE | lower))
        failed = {key for key, check in found.items() if check.point is Point.FAIL}
        assert failed == {("tpr_not_below_baseline", s) for s in ("", FORMAL)}

    def test_stopping_at_the_gate_what_it_gets_wrong(self) -> None:
        stopped = {"p4", "p5", "p6", "n1"}
        gated = [
            varieties(
                pair.id,
                *[seen(None, passed=False)] * 2,
                ready=bool(pair.rows[0].item.expected_ready),
                channel=pair.rows[0].item.attributes["channel"],
            )
            if pair.id in stopped
            else pair
            for pair in ten_pairs()
        ]
        # Behind the gate all looks well: a TPR of 3 / 3 in both.
        assert all(check.point is Point.PASS for check in checks(gated))
        found = guardrails(ten_pairs(), gated)
        formal = found["tpr_not_below_baseline", FORMAL]
        assert (formal.limit, formal.value, formal.point) == (5 / 6, 3 / 6, Point.FAIL)

    def test_letting_through_what_the_gate_stopped_is_no_loss(self) -> None:
        stopped = [varieties("p1", *[seen(None, passed=False)] * 2), *ten_pairs()[1:]]
        let_through = [varieties("p1", seen(0.5), seen(0.5)), *ten_pairs()[1:]]
        found = guardrails(stopped, let_through)
        assert {check.point for check in found.values()} == {Point.PASS}

    def test_neither_has_trials(self) -> None:
        ready = [pair for pair in ten_pairs() if pair.id.startswith("p")]
        check = guardrails(ready, ready)["fpr_not_above_baseline", FORMAL]
        assert (check.limit, check.value, check.point) == (None, None, Point.NONE)


class TestRealPeople:
    @pytest.mark.parametrize("worse", [0.0, 0.15])
    def test_points_and_bounds_are_what_is_shown(self, worse: float) -> None:
        one = real_settings(groups=VARIETY_ALONE)
        for check in checks(reviewed_pairs(500, worse=worse), one, synthetic=False):
            assert check.lower is not None
            assert check.upper is not None
            assert (round(check.lower, 3), round(check.upper, 3)) == (check.lower, check.upper)
            if check.value is None:  # a coded rate
                assert check.point is Point.NONE
            else:
                assert check.value == round(check.value, 3)
                assert check.point is (Point.FAIL if check.value > 0.10 else Point.PASS)
                assert check.value >= 0
                assert check.lower <= check.value <= check.upper

    def test_whether_both_sides_hold_the_same_pairs_is_said(self) -> None:
        one = real_settings(groups=(*VARIETY_ALONE, GroupBySettings(attributes=("channel",))))
        found = checks(reviewed_pairs(500), one, synthetic=False)
        assert {(c.slice.split("=")[0], c.matched) for c in found} == {
            (VARIETY, True),
            ("channel", False),
        }
        assert all(c.lower is not None for c in found)

    def test_a_large_gap_is_found_by_both(self) -> None:
        one = real_settings(groups=VARIETY_ALONE)
        tpr = checks(reviewed_pairs(1000, worse=0.15), one, synthetic=False)[0]
        assert (tpr.point, tpr.verdict) == (Point.FAIL, Verdict.FAIL)

    def test_hidden_slices_have_a_line_without_numbers(self) -> None:
        one = real_settings(groups=VARIETY_ALONE)
        for check in checks(ten_pairs(), one, synthetic=False):
            assert (check.value, check.lower, check.upper) == (None, None, None)
            assert (check.point, check.verdict) == (Point.NONE, UNSUPPORTED)


class TestRatios:
    LIMITS: ClassVar[dict[str, Any]] = {"min_selection_ratio": Fraction("0.80")}

    def of(self, formal: int, conversational: int) -> Check:
        """So many of ten ready items of each are served."""
        one = settings(groups=VARIETY_ALONE, limits=self.LIMITS)
        pairs = [
            varieties(f"p{i}", *(seen(0.8 if i < n else 0.5) for n in (formal, conversational)))
            for i in range(10)
        ]
        (found,) = (c for c in checks(pairs, one) if c.name == "selection_ratio")
        return found

    @pytest.mark.parametrize(
        ("formal", "conversational", "point", "worse_off"),
        [
            (10, 8, Point.PASS, CONVERSATIONAL),  # exactly four fifths
            (10, 7, Point.FAIL, CONVERSATIONAL),
            (7, 10, Point.FAIL, FORMAL),
            (0, 5, Point.FAIL, FORMAL),
            (0, 0, Point.NONE, ""),
        ],
    )
    def test_points_are_of_the_lower_rate_to_the_higher(
        self, formal: int, conversational: int, point: Point, worse_off: str
    ) -> None:
        found = self.of(formal, conversational)
        assert (found.limit, found.point, found.worse_off) == (0.8, point, worse_off)
        assert found.verdict is UNSUPPORTED
        if formal:
            assert found.value == pytest.approx(conversational / formal)

    def test_each_limit_has_its_own_verdict_by_its_own_bounds(self) -> None:
        """A gap within .30 beside a ratio of .6: one passes, the other fails."""
        limits = {"max_selection_gap": Fraction("0.30"), **self.LIMITS}
        one = real_settings(groups=VARIETY_ALONE, limits=limits)
        pairs = [
            varieties(
                f"p{i}",
                seen(0.8 if i % 5 < 2 else 0.5),
                seen(0.8 if i % 25 < 6 else 0.5),
                ready=i % 2 == 0,
            )
            for i in range(3_000)
        ]
        found = {c.name: c for c in checks(pairs, one, synthetic=False)}
        gap, ratio = found["selection_gap"], found["selection_ratio"]
        # Bands of 3,000 are so wide.
        assert [gap.value, ratio.value] == pytest.approx([0.16, 0.6], abs=0.005)
        assert (gap.verdict, gap.point) == (Verdict.PASS, Point.PASS)
        assert (ratio.verdict, ratio.point) == (Verdict.FAIL, Point.FAIL)
        assert ratio.upper is not None
        assert ratio.upper < 0.8

    def test_precision_is_of_what_is_served(self) -> None:
        """Of the served, 8 of 10 are ready in one variety, 6 of 10 in the other."""
        one = settings(groups=VARIETY_ALONE, limits={"max_precision_gap": Fraction("0.10")})
        pairs = [
            varieties(
                f"p{i}", *(seen(0.8 if i in served else 0.5) for served in both), ready=i < 10
            )
            for both in ([{*range(8), 18, 19}, {*range(6), 16, 17, 18, 19}],)
            for i in range(20)
        ]
        (found,) = (c for c in checks(pairs, one) if c.name == "precision_gap")
        assert found.value == pytest.approx(0.2)
        assert found.point is Point.FAIL
        assert found.worse_off == CONVERSATIONAL
        unlimited = checks(pairs, settings(groups=VARIETY_ALONE))
        assert "precision_gap" not in {c.name for c in unlimited}

    def test_a_slice_has_its_own_limit(self) -> None:
        """The same gap of a third is within that of the slice, and beyond the contract's."""
        own = OwnLimitSettings(
            group_by=(VARIETY,), slice=CONVERSATIONAL, max_tpr_gap=Fraction("0.4"),
            min_tpr=Fraction("0.9"),
        )  # fmt: skip
        one = replace_case(settings(groups=VARIETY_ALONE), limit=(own,))
        found = {(c.name, c.slice): c for c in checks(ten_pairs(), one)}
        tpr = found["tpr_gap", CONVERSATIONAL]
        assert (tpr.limit, tpr.point) == (0.4, Point.PASS)
        assert found["fpr_gap", CONVERSATIONAL].limit == 0.1
        assert found["min_tpr", CONVERSATIONAL].point is Point.FAIL
        assert ("min_tpr", FORMAL) not in found


def replace_case(one: Settings, **changes: Any) -> Settings:
    return msgspec.structs.replace(
        one, use_case=(msgspec.structs.replace(one.use_case[0], **changes),)
    )
