"""The release decision: what is measured, what is signed, what is stale."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest
from audited import TODAY, sign_off
from matched import VERSIONS

from monitor.audit.audit_report import (
    HELD_OUT,
    REGRESSION,
    Check,
    FlipCounts,
    Part,
    Point,
    ReleaseDecision,
    Requirement,
    Run,
    ShownFlip,
    SliceLine,
    SupportCheck,
    VariantOutcome,
)
from monitor.audit.decision import Signed, decide, first_day
from monitor.core.contract import Role, Verdict
from monitor.core.metric import Metric
from monitor.core.probes.flips import FlipCause, FlipDirection, FlipStage
from monitor.core.publish.snapshot import ShownRate

QUARTER = timedelta(days=90)
RATE = ShownRate(0.8, 0.7, 0.9, 100)
TOTAL = SliceLine("", "", {Metric.TPR: RATE, Metric.FPR: RATE})
COUNTS = FlipCounts("x", True, 10, 0, {}, {}, 0, 1.0)
KEPT = Check(
    "tpr_gap", Metric.TPR, "x=b", "x=a", 0.1, 0.0, -0.2, 0.2, Point.PASS,
    Verdict.INSUFFICIENT_SUPPORT,
)  # fmt: skip
SURE = replace(KEPT, verdict=Verdict.PASS)
ENOUGH = SupportCheck(Metric.TPR, "x=b", 50, 50, met=True)
OUTCOME = VariantOutcome("a", {"x": "a"}, "auto_serve", 0.8, 0.7, True)
FLIP = ShownFlip(
    "p1", "x", True, OUTCOME, OUTCOME, FlipDirection.HELD_BACK, FlipStage.JUDGE_OR_ROUTE,
    FlipCause.JUDGE_SCORE,
)  # fmt: skip
PART = Part(
    name=REGRESSION,
    pairs=10,
    flips=(),
    flips_withheld=False,
    counts=(COUNTS,),
    slices=(TOTAL,),
    checks=(KEPT,),
    supports=(ENOUGH,),
    calibration=(),
    what_if=(),
    advice=(),
)
REVIEWED = replace(PART, checks=(SURE,))


def run(part: Part = PART, held_out: Part | None = None) -> Run:
    parts = (part,) if held_out is None else (part, replace(held_out, name=HELD_OUT))
    return Run("candidate", (VERSIONS,), (0.70,), parts)


def decided(
    one: Run | None = None,
    *missing: Requirement,
    synthetic: bool = True,
    since: date = date(2026, 1, 1),
    at: date = TODAY,
) -> ReleaseDecision:
    signed = Signed(sign_off(*missing, at=at), since)
    return decide(one or run(REVIEWED), synthetic=synthetic, signed=signed)


def why(decision: ReleaseDecision, requirement: Requirement) -> str:
    (line,) = (line for line in decision.requirements if line.requirement is requirement)
    return line.why


class TestSigned:
    def test_all_of_it_is_approved(self) -> None:
        for synthetic in (True, False):
            decision = decided(synthetic=synthetic)
            assert (decision.approved, decision.word, decision.missing) == (True, "APPROVED", ())
            assert [line.requirement for line in decision.requirements] == list(Requirement)

    def test_who_and_when(self) -> None:
        owner = decided().requirements[-1]
        assert (owner.by, owner.at, owner.why) == (
            "A. Person", TODAY, f"about {Requirement.OWNER}",
        )  # fmt: skip

    @pytest.mark.parametrize("missing", list(Requirement))
    @pytest.mark.parametrize("synthetic", [True, False])
    def test_each_is_needed_but_for_what_the_run_measures(
        self, missing: Requirement, synthetic: bool
    ) -> None:
        measured = Requirement.PAIRS if synthetic else Requirement.SUPPORT
        decision = decided(None, missing, synthetic=synthetic)
        assert decision.missing == (() if missing is measured else (missing,))
        if decision.missing:
            assert why(decision, missing) == "not signed"
            assert decision.word == "BLOCKED"

    def test_nobody_signed(self) -> None:
        signed = Signed(None, TODAY)
        assert len(decide(run(), synthetic=True, signed=signed).missing) == 4
        assert len(decide(run(REVIEWED), synthetic=False, signed=signed).missing) == 4

    def test_stale_signatures_count_for_nothing(self) -> None:
        decision = decided(at=date(2026, 5, 1), since=date(2026, 5, 2))
        assert decision.missing == tuple(list(Requirement)[1:])
        owner = decision.requirements[-1]
        assert (owner.by, owner.at) == ("A. Person", date(2026, 5, 1))
        assert owner.why == "stale: signed before 2026-05-02, to be looked at again"
        assert decided(at=date(2026, 5, 2), since=date(2026, 5, 2)).approved

    @pytest.mark.parametrize("synthetic", [True, False])
    def test_what_was_signed_for_another_release_counts_for_nothing(self, synthetic: bool) -> None:
        others = ("signed for judge j2, this is j3",)
        signed = Signed(sign_off(Requirement.OWNER), date(2026, 1, 1), others)
        decision = decide(run(REVIEWED), synthetic=synthetic, signed=signed)
        measured = Requirement.PAIRS if synthetic else Requirement.SUPPORT
        assert set(decision.missing) == {*Requirement} - {measured}
        review, owner = decision.requirements[-2:]
        assert (review.by, review.at, review.why) == ("A. Person", TODAY, *others)
        assert (owner.by, owner.why) == ("", "not signed")

    def test_stale_and_for_another_release(self) -> None:
        signed = Signed(sign_off(at=date(2026, 5, 1)), date(2026, 5, 2), ("signed for a",))
        owner = decide(run(), synthetic=True, signed=signed).requirements[-1]
        assert owner.why.startswith("signed for a; stale: signed before 2026-05-02")

    @pytest.mark.parametrize(
        ("effective", "first"),
        [
            (date(2026, 1, 1), date(2026, 8, 4)),  # the contract is older than its last review
            (date(2026, 10, 1), date(2026, 10, 1)),
            (TODAY, TODAY),
            (date(2026, 12, 1), date(2026, 8, 4)),  # a contract that is yet to come
        ],
    )
    def test_from_when_on_signatures_count(self, effective: date, first: date) -> None:
        assert first_day(TODAY, effective, QUARTER) == first


class TestFaults:
    @pytest.mark.parametrize("synthetic", [True, False])
    def test_they_speak_against_what_the_run_is_for(self, synthetic: bool) -> None:
        signed = Signed(sign_off(), date(2026, 1, 1))
        decision = decide(run(REVIEWED), synthetic=synthetic, signed=signed, faults=("a", "b"))
        wrong = Requirement.PAIRS if synthetic else Requirement.REVIEWED_SET
        assert decision.missing == (wrong,)
        assert why(decision, wrong).endswith("a; b")


class TestPairs:
    def reason(self, one: Run) -> str:
        decision = decided(one)
        assert decision.missing == (Requirement.PAIRS,)
        line = decision.requirements[0]
        assert (line.by, line.at) == ("this run", None)
        return line.why

    def test_passes(self) -> None:
        decision = decided(run(held_out=PART))
        assert decision.requirements[0].why == "no flip, and every limit is kept by the point"

    def test_a_flip(self) -> None:
        assert self.reason(run(replace(PART, flips=(FLIP,)))) == "1 flip"

    def test_a_flip_of_what_is_held_out(self) -> None:
        part = replace(PART, flips=(FLIP, FLIP))
        assert self.reason(run(PART, held_out=part)) == "2 flips"

    def test_a_check_that_fails_by_the_point(self) -> None:
        failed = replace(KEPT, point=Point.FAIL)
        guard = replace(KEPT, name="tpr_not_below_baseline", slice="", point=Point.FAIL)
        part = replace(PART, checks=(KEPT, failed, guard))
        said = "failed: tpr_gap of x=b, tpr_not_below_baseline"
        assert self.reason(run(part)) == said
        assert self.reason(run(held_out=replace(PART, checks=(failed,)))) == (
            "failed: tpr_gap of x=b (held out)"
        )

    def test_only_some_are_named(self) -> None:
        failed = tuple(replace(KEPT, slice=f"x={i}", point=Point.FAIL) for i in range(5))
        assert self.reason(run(replace(PART, checks=failed))) == (
            "failed: tpr_gap of x=0, tpr_gap of x=1, tpr_gap of x=2 and 2 more"
        )

    def test_the_interval_does_not_decide(self) -> None:
        part = replace(PART, checks=(replace(KEPT, verdict=Verdict.FAIL),))
        assert decided(run(part)).approved

    def test_no_point_is_no_failure(self) -> None:
        part = replace(PART, checks=(KEPT, replace(KEPT, point=Point.NONE)))
        decision = decided(run(part, held_out=part))
        assert decision.approved
        assert decision.requirements[0].why == (
            "no flip, and every limit that a point can decide is kept; "
            "2 of 4 checks could not be decided"
        )

    @pytest.mark.parametrize(
        ("rates", "said"),
        [
            ({Metric.TPR: RATE}, "no reply that is not ready passes the evidence gate"),
            ({Metric.FPR: RATE}, "no reply that is ready passes the evidence gate"),
        ],
    )
    def test_a_set_that_cannot_show_both(self, rates: dict[Metric, ShownRate], said: str) -> None:
        part = replace(PART, slices=(replace(TOTAL, rates=rates),))
        assert self.reason(run(part)) == said
        assert decided(run(held_out=part)).approved

    def test_nothing_is_worked_on(self) -> None:
        empty = replace(PART, counts=(), slices=(), checks=())
        assert self.reason(run(empty, held_out=PART)).startswith("no two variants were compared; ")


class TestReviewed:
    def test_support_is_measured(self) -> None:
        short = replace(ENOUGH, support=49, met=False)
        part = replace(REVIEWED, supports=(ENOUGH, replace(short, slice="x=a"), short))
        decision = decided(run(part), synthetic=False)
        assert decision.missing == (Requirement.SUPPORT,)
        assert why(decision, Requirement.SUPPORT) == "2 of 2 slices lack support"

    def test_support_of_what_is_held_out_is_not_asked_for(self) -> None:
        short = replace(REVIEWED, supports=(replace(ENOUGH, met=False),))
        assert decided(run(REVIEWED, held_out=short), synthetic=False).approved

    @pytest.mark.parametrize("name", ["tpr_gap", "min_tpr"])
    @pytest.mark.parametrize("point", [Point.PASS, Point.NONE])
    def test_too_little_to_tell_is_no_pass(self, name: str, point: Point) -> None:
        open_ = replace(KEPT, name=name, point=point)
        for one in (
            run(replace(PART, checks=(SURE, open_))),
            run(REVIEWED, held_out=replace(PART, checks=(open_,))),
        ):
            decision = decided(one, synthetic=False)
            assert decision.missing == (Requirement.REVIEWED_SET,)
            said = f"; not shown by the interval to be kept: {name} of x=b"
            assert said in why(decision, Requirement.REVIEWED_SET)

    def test_against_the_baseline_there_is_no_interval(self) -> None:
        guard = replace(KEPT, name="tpr_not_below_baseline", against="", verdict=None)
        for point in (Point.PASS, Point.NONE):
            part = replace(PART, checks=(SURE, replace(guard, point=point)))
            assert decided(run(part), synthetic=False).approved

    @pytest.mark.parametrize(
        "check", [replace(KEPT, point=Point.FAIL), replace(KEPT, verdict=Verdict.FAIL)]
    )
    def test_a_signature_does_not_stand_in_for_a_check_that_fails(self, check: Check) -> None:
        one = run(replace(PART, checks=(check,)))
        decision = decided(one, synthetic=False)
        assert decision.missing == (Requirement.REVIEWED_SET,)
        said = why(decision, Requirement.REVIEWED_SET)
        assert said == f"about {Requirement.REVIEWED_SET}; failed: tpr_gap of x=b"
        unsigned = decided(one, Requirement.REVIEWED_SET, synthetic=False)
        assert why(unsigned, Requirement.REVIEWED_SET).startswith("not signed; failed: ")


GUARDRAIL = replace(KEPT, name="fpr_gap", metric=Metric.FPR, role=Role.GUARDRAIL)


def limits_of(*checks: Check, synthetic: bool = True) -> ReleaseDecision:
    one = run(replace(PART, checks=checks))
    return decide(one, synthetic=synthetic, signed=Signed(None, TODAY))


@pytest.mark.parametrize(
    ("primary", "guardrail", "verdicts", "alone"),
    [
        (Point.PASS, Point.PASS, (Verdict.PASS, Verdict.PASS), False),
        (Point.FAIL, Point.PASS, (Verdict.FAIL, Verdict.PASS), False),
        (Point.FAIL, Point.FAIL, (Verdict.FAIL, Verdict.FAIL), False),
        (Point.PASS, Point.FAIL, (Verdict.PASS, Verdict.FAIL), True),
        (Point.NONE, Point.FAIL, (Verdict.INSUFFICIENT_SUPPORT, Verdict.FAIL), True),
    ],
)
def test_a_decision_says_whether_the_primary_metric_or_a_guardrail_fails(
    primary: Point, guardrail: Point, verdicts: tuple[Verdict, Verdict], alone: bool
) -> None:
    found = limits_of(replace(KEPT, point=primary), replace(GUARDRAIL, point=guardrail))
    assert [line.role for line in found.limits] == [Role.PRIMARY, Role.GUARDRAIL]
    assert [line.metric for line in found.limits] == [Metric.TPR, Metric.FPR]
    assert tuple(line.verdict for line in found.limits) == verdicts
    assert found.guardrail_alone is alone


def test_of_real_people_intervals_decide_the_limits_too() -> None:
    kept = replace(GUARDRAIL, verdict=Verdict.PASS)
    for verdict in Verdict:
        one = replace(KEPT, verdict=verdict)
        found = limits_of(one, kept, replace(kept, verdict=None), synthetic=False)
        assert [line.verdict for line in found.limits] == [verdict, Verdict.PASS]
    (primary,) = limits_of(SURE, synthetic=False).limits
    assert (primary.role, primary.verdict) == (Role.PRIMARY, Verdict.PASS)


def test_each_guardrail_has_a_verdict_of_its_own() -> None:
    precision = replace(GUARDRAIL, name="precision_gap", metric=Metric.PRECISION, point=Point.FAIL)
    found = limits_of(replace(KEPT, point=Point.NONE), GUARDRAIL, precision)
    assert [(line.metric, line.verdict) for line in found.limits] == [
        (Metric.TPR, Verdict.INSUFFICIENT_SUPPORT),
        (Metric.FPR, Verdict.PASS),
        (Metric.PRECISION, Verdict.FAIL),
    ]
    assert found.guardrail_alone


@pytest.mark.parametrize("synthetic", [True, False])
def test_a_check_by_which_a_slice_is_better_off_speaks_neither_for_nor_against(
    synthetic: bool,
) -> None:
    ahead = replace(SURE, point=Point.BETTER_OFF, verdict=Verdict.BETTER_OFF)
    found = limits_of(SURE, ahead, synthetic=synthetic)
    assert [line.verdict for line in found.limits] == [Verdict.PASS]
    assert decided(run(replace(REVIEWED, checks=(SURE, ahead))), synthetic=synthetic).approved
