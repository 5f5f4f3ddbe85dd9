"""A whole audit: the lesson number by number, candidates that are no repair, real people."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from audited import (
    TODAY,
    changed,
    held_out,
    real_settings,
    results,
    reviewed_pairs,
    settings,
    sign_off,
)
from matched import CANDIDATE, VARIETY, VERSIONS, seen, ten_pairs, varieties
from matched import pair as pair_of
from matched import row as row_of
from probe_rows import result_row, write_json

from monitor.audit.audit_report import (
    HELD_OUT,
    REGRESSION,
    REPAIRED_SENTENCE,
    AuditReport,
    Check,
    Point,
    Requirement,
)
from monitor.audit.audit_run import audit
from monitor.audit.inputs import Pair, Results, Row, RunVersions, digest, results_digest
from monitor.audit.set_files import read_results
from monitor.audit.sign_off import SignOff
from monitor.core.counts.cells import Route
from monitor.core.metric import Metric
from monitor.core.probes.flips import FlipCause, FlipDirection, FlipStage, Observed
from monitor.core.tables.bands import Coarseness, edges
from monitor.errors import AuditError
from monitor.settings.sections import GroupBySettings

FORMAL, CONVERSATIONAL = f"{VARIETY}=formal", f"{VARIETY}=conversational"
OTHER_VERSIONS = RunVersions("j2", "r1", "p1", "t1")
VARIETY_ALONE = (GroupBySettings(attributes=(VARIETY,), reference=FORMAL),)


def lesson(
    pairs: Sequence[Pair] | None = None,
    candidate: Sequence[Pair] | None = None,
    *,
    sign_off: SignOff | None = None,
    today: date = TODAY,
) -> AuditReport:
    baseline = results(pairs or ten_pairs())
    other = None if candidate is None else results(candidate, versions=OTHER_VERSIONS)
    return audit(
        baseline,
        settings(),
        today=today,
        candidate=other,
        sign_off=signed_for(baseline, sign_off, other),
    )


def signed_for(
    run: Results, sign_off: SignOff | None, candidate: Results | None = None
) -> SignOff | None:
    """The same signatures for the set of this run, and for what was decided on it."""
    if sign_off is None:
        return None
    signed = results_digest(candidate or run, run if candidate else None)
    return replace(sign_off, dataset=digest(run.probe_set), results=signed)


def missing(report: AuditReport) -> tuple[Requirement, ...]:
    assert report.decision is not None
    return report.decision.missing


def failed(report: AuditReport) -> set[tuple[str, str]]:
    part = report.judged.parts[0]
    return {(check.name, check.slice) for check in part.checks if check.point is Point.FAIL}


def scores(**pairs: float) -> Mapping[str, tuple[float, float]]:
    """The lesson's candidate with other scores, the same for both variants."""
    return CANDIDATE | {name: (score, score) for name, score in pairs.items()}


class TestLesson:
    def test_flips_first_with_their_routes(self) -> None:
        (part,) = lesson().baseline.parts
        assert [flip.pair for flip in part.flips] == ["n1", "p4", "p5"]
        for flip in part.flips:
            assert (flip.reference.variant, flip.variant.variant) == ("formal", "conversational")
            assert (flip.reference.route, flip.variant.route) == ("auto_serve", "human_review")
            assert (flip.direction, flip.stage, flip.cause) == (
                FlipDirection.HELD_BACK, FlipStage.JUDGE_OR_ROUTE, FlipCause.JUDGE_SCORE,
            )  # fmt: skip
        assert [(one.by, one.expected_ready, one.compared, one.flips) for one in part.counts] == [
            (VARIETY, True, 6, 2),
            (VARIETY, False, 4, 1),
        ]
        assert [one.p_value for one in part.counts] == [0.5, 1.0]

    def test_the_baseline_is_blocked_with_five_missing(self) -> None:
        report = lesson()
        assert missing(report) == tuple(Requirement)
        assert (report.decision and report.decision.word, report.exit_code) == ("BLOCKED", 1)
        assert report.candidate is None
        assert report.comparison is None

    def test_both_checks_fail_by_the_point(self) -> None:
        found = {key for key in failed(lesson()) if "channel" not in key[1]}
        assert found == {("tpr_gap", CONVERSATIONAL), ("fpr_gap", CONVERSATIONAL)}

    def test_advice_for_the_stage_that_failed(self) -> None:
        (one,) = lesson().baseline.parts[0].advice
        assert one.stage == "judge_or_route/judge_score"
        assert lesson(ten_pairs(CANDIDATE)).baseline.parts[0].advice == ()

    def test_what_another_threshold_would_do(self) -> None:
        lines = {line.threshold: line for line in lesson().baseline.parts[0].what_if}
        current = lines[0.70]
        assert (current.current, current.flips) == (True, 3)
        assert current.tpr == {FORMAL: 5 / 6, CONVERSATIONAL: 3 / 6}

    def test_the_candidate_is_still_blocked_with_four_missing(self) -> None:
        report = lesson(candidate=ten_pairs(CANDIDATE))
        assert missing(report) == tuple(Requirement)[1:]
        assert report.exit_code == 1
        part = report.judged.parts[0]
        assert part.flips == ()
        gaps = {c.name: c.value for c in part.checks if c.against == FORMAL}
        assert gaps == {"tpr_gap": 0, "fpr_gap": 0}
        assert report.comparison is not None
        assert report.comparison.repaired == ("n1", "p4", "p5")
        assert report.comparison.sentence == REPAIRED_SENTENCE

    def test_what_was_judged_is_said(self) -> None:
        report = lesson(candidate=ten_pairs(CANDIDATE))
        assert (report.dataset, report.contract) == ("ten-pairs 1", "replies 1")
        assert (report.synthetic, report.k, len(report.digest)) == (True, 1, 64)
        assert (report.baseline.versions, report.judged.versions) == (
            (VERSIONS,), (OTHER_VERSIONS,),
        )  # fmt: skip
        assert (report.baseline.title, report.judged.title) == ("baseline", "candidate")
        assert report.baseline.thresholds == (0.70,)

    def test_the_order_of_rows_does_not_matter(self) -> None:
        backwards = list(reversed(ten_pairs()))
        assert lesson(backwards) == lesson()

    def test_signed_and_repaired_it_is_approved(self) -> None:
        signed = sign_off(versions=OTHER_VERSIONS)
        report = lesson(candidate=ten_pairs(CANDIDATE), sign_off=signed)
        assert (report.decision and report.decision.word, report.exit_code) == ("APPROVED", 0)

    def test_no_signature_stands_in_for_the_pairs(self) -> None:
        assert missing(lesson(sign_off=sign_off())) == (Requirement.PAIRS,)

    def test_signatures_of_more_than_a_review_ago_are_stale(self) -> None:
        signed = sign_off(versions=OTHER_VERSIONS)
        later = [TODAY + timedelta(days=days) for days in (90, 91)]
        approved = [
            lesson(candidate=ten_pairs(CANDIDATE), sign_off=signed, today=day).exit_code
            for day in later
        ]
        assert approved == [0, 1]

    def test_a_sign_off_for_another_router_signs_nothing(self) -> None:
        report = lesson(candidate=ten_pairs(CANDIDATE), sign_off=sign_off(Requirement.OWNER))
        assert (missing(report), report.exit_code) == (tuple(Requirement)[1:], 1)
        assert report.decision is not None
        *signed, owner = report.decision.requirements[1:]
        assert {(line.by, line.why) for line in signed} == {
            ("A. Person", "signed for judge j1, this is j2")
        }
        assert (owner.by, owner.why) == ("", "not signed")

    @pytest.mark.parametrize("changed", ["the judged", "the baseline"])
    def test_scores_that_are_changed_after_the_signature_are_noticed(self, changed: str) -> None:
        """Of one reply that stays served: every rate, route and threshold stays what it was."""
        baseline = results(ten_pairs())
        candidate = results(ten_pairs(CANDIDATE), versions=OTHER_VERSIONS)
        signed = signed_for(baseline, sign_off(versions=OTHER_VERSIONS), candidate)

        def report(baseline: Results, candidate: Results) -> AuditReport:
            both = {"candidate": candidate, "sign_off": signed}
            return audit(baseline, settings(), today=TODAY, **both)  # type: ignore[arg-type]

        assert report(baseline, candidate).exit_code == 0
        of = candidate if changed == "the judged" else baseline
        served = next(at for at, row in enumerate(of.rows) if row.served)
        moved = replace(of.rows[served].observed, score=0.999)
        rows = (*of.rows[:served], replace(of.rows[served], observed=moved), *of.rows[served + 1 :])
        other = replace(of, rows=rows)
        found = report(*((other, candidate) if of is baseline else (baseline, other)))
        assert found.exit_code == 1
        assert found.decision is not None
        lines = [one for one in found.decision.requirements if not one.met]
        assert lines
        assert all("signed for results " in line.why for line in lines)

    def test_the_order_of_rows_is_not_signed(self) -> None:
        baseline = results(ten_pairs())
        turned = replace(baseline, rows=baseline.rows[::-1])
        assert results_digest(turned) == results_digest(baseline)
        assert results_digest(baseline, baseline) != results_digest(baseline)

    def test_a_sign_off_for_another_set_or_contract_signs_nothing(self) -> None:
        for signed, what in (
            (sign_off(dataset="0" * 64), "set 000000000000, this is "),
            (sign_off(contract="replies 2"), "contract replies 2, this is replies 1"),
        ):
            report = audit(results(ten_pairs()), settings(), today=TODAY, sign_off=signed)
            assert missing(report) == tuple(Requirement)
            assert report.decision is not None
            assert f"signed for {what}" in report.decision.requirements[-1].why


class TestNoRepair:
    def test_serving_more_unclear_replies_in_both_slices(self) -> None:
        report = lesson(candidate=ten_pairs(scores(n1=0.8, n2=0.8)))
        assert report.judged.parts[0].flips == ()
        assert {name for name, _ in failed(report)} == {"fpr_not_above_baseline"}
        assert {text for _, text in failed(report)} >= {"", FORMAL, CONVERSATIONAL}
        assert missing(report) == tuple(Requirement)

    def test_levelling_down(self) -> None:
        report = lesson(candidate=ten_pairs(scores(p4=0.6, p5=0.6)))
        assert report.judged.parts[0].flips == ()
        assert {name for name, _ in failed(report)} == {"tpr_not_below_baseline"}
        assert missing(report) == tuple(Requirement)

    def test_holding_one_reply_back_for_another(self) -> None:
        swapped = scores(p4=0.66, p6=0.75)
        report = lesson(candidate=ten_pairs(swapped), sign_off=sign_off(versions=OTHER_VERSIONS))
        assert (report.judged.parts[0].flips, failed(report)) == ((), set())
        assert report.comparison is not None
        assert report.comparison.sentence == "Not repaired: 1 newly held back."
        assert missing(report) == (Requirement.PAIRS,)
        assert report.decision is not None
        assert report.decision.requirements[0].why == "1 newly held back"

    def test_stopping_at_the_gate_what_is_hard(self) -> None:
        hard = {"p4", "p5", "p6", "n1"}

        def stop(row: Row) -> Row:
            return replace(row, observed=seen(None, passed=False)) if row.item.pair in hard else row

        report = lesson(candidate=changed(ten_pairs(), stop))
        assert report.judged.parts[0].flips == ()
        rates = {line.slice: line.rates for line in report.judged.parts[0].slices}
        assert rates[FORMAL][Metric.TPR].value == rates[CONVERSATIONAL][Metric.TPR].value == 1
        assert ("tpr_not_below_baseline", FORMAL) in failed(report)
        assert Requirement.PAIRS in missing(report)

    def test_pairs_that_are_all_ready(self) -> None:
        ready = [pair for pair in ten_pairs(CANDIDATE) if pair.id.startswith("p")]
        report = lesson(ready)
        assert failed(report) == set()
        assert Requirement.PAIRS in missing(report)

    def test_two_routers_in_one_run(self) -> None:
        def odd(row: Row) -> Row:
            other = replace(row.observed, threshold=0.60)
            return replace(row, observed=other) if row.item.variant == "formal" else row

        thresholds = lesson(candidate=changed(ten_pairs(CANDIDATE), odd))
        mixed = results(ten_pairs(CANDIDATE))
        rows = tuple(
            replace(row, versions=OTHER_VERSIONS) if row.item.pair == "p1" else row
            for row in mixed.rows
        )
        versions = audit(replace(mixed, rows=rows), settings(), today=TODAY)
        for report, what in ((thresholds, "thresholds"), (versions, "versions")):
            assert report.judged.parts[0].flips == ()
            assert report.decision is not None
            assert report.decision.requirements[0].why.startswith(f"2 {what}: run all variants")
            assert Requirement.PAIRS in missing(report)

    @pytest.mark.parametrize(
        "against", [{"score": 0.1}, {"score": None}, {"evidence_passed": False}]
    )
    def test_serving_against_score_threshold_or_gate(self, against: Mapping[str, object]) -> None:
        def override(row: Row) -> Row:
            if row.item.pair != "p1":
                return row
            return replace(row, observed=replace(row.observed, **against))  # type: ignore[arg-type]

        report = lesson(candidate=changed(ten_pairs(CANDIDATE), override))
        assert report.judged.parts[0].flips == ()
        assert report.decision is not None
        assert report.decision.requirements[0].why == (
            "2 replies served against score, threshold or evidence gate"
        )

    def test_dialects_of_two_languages(self) -> None:
        def of(i: int, name: str, language: str) -> Row:
            score = 0.9 if language == "en" and i < 3 else 0.5
            its = {VARIETY: "formal", "language": language, "dialect": name}
            return row_of(f"p{i}", name, its, seen(score), ready=i < 3)

        languages = {"us": "en", "uk": "en", "at": "de", "ch": "de"}
        pairs = [pair_of(of(i, *one) for one in languages.items()) for i in range(6)]
        values = {VARIETY: ("formal",), "language": ("en", "de"), "dialect": tuple(languages)}
        one = settings(values=values, groups=VARIETY_ALONE)
        report = audit(results(pairs), one, today=TODAY)
        assert [flip.by for flip in report.judged.parts[0].flips] == ["dialect+language"] * 3
        assert Requirement.PAIRS in missing(report)


class TestHeldOut:
    def test_the_parts_are_apart(self) -> None:
        report = lesson(held_out(ten_pairs(), "p4", "n4"))
        regression, apart = report.baseline.parts
        assert (regression.name, apart.name) == (REGRESSION, HELD_OUT)
        assert (regression.pairs, apart.pairs) == (8, 2)
        assert [flip.pair for flip in regression.flips] == ["n1", "p5"]
        assert [flip.pair for flip in apart.flips] == ["p4"]
        supports = {line.slice: line.supports for line in apart.slices}
        assert supports[FORMAL] == {Metric.TPR: 1, Metric.FPR: 1}

    def test_a_flip_of_what_is_held_out_blocks(self) -> None:
        before, after = (held_out(ten_pairs(s), "p4", "n4") for s in (None, CANDIDATE))
        assert Requirement.PAIRS not in missing(lesson(before, after))
        flips = held_out(ten_pairs(CANDIDATE | {"p4": (0.77, 0.65)}), "p4", "n4")
        report = lesson(before, flips)
        assert report.judged.parts[0].flips == ()
        assert Requirement.PAIRS in missing(report)

    def test_candidate_and_baseline_are_compared_part_by_part(self) -> None:
        before = held_out(ten_pairs(), "p4", "p6", "n4")
        report = lesson(before, held_out(ten_pairs(scores(p6=0.75)), "p4", "p6", "n4"))
        regression, apart = report.comparison, report.held_out_comparison
        assert regression is not None
        assert apart is not None
        assert (regression.repaired, apart.repaired) == (("n1", "p5"), ("p4",))
        assert (regression.sentence, apart.sentence) == (REPAIRED_SENTENCE, REPAIRED_SENTENCE)
        report = lesson(before, held_out(ten_pairs(scores(p4=0.66)), "p4", "p6", "n4"))
        assert report.comparison == regression
        assert report.held_out_comparison is not None
        assert report.held_out_comparison.newly_held_back == ("p4/formal",)
        assert report.decision is not None
        assert report.decision.requirements[0].why.endswith("; 1 newly held back (held out)")

    def test_a_part_without_pairs_is_not_compared(self) -> None:
        report = lesson(candidate=ten_pairs(CANDIDATE))
        assert report.held_out_comparison is None
        whole = held_out(ten_pairs(), *CANDIDATE)
        report = lesson(whole, held_out(ten_pairs(CANDIDATE), *CANDIDATE))
        assert report.comparison is None
        assert report.held_out_comparison is not None
        assert report.held_out_comparison.repaired == ("n1", "p4", "p5")

    def test_the_baseline_of_a_part_is_that_part(self) -> None:
        before, after = (held_out(ten_pairs(s), "p4", "n4") for s in (None, CANDIDATE))
        for part in lesson(before, after).judged.parts:
            limits = {c.slice: c.limit for c in part.checks if c.name == "tpr_not_below_baseline"}
            assert limits[FORMAL] == (1 if part.name == HELD_OUT else 4 / 5)

    def test_a_set_that_is_held_out_as_a_whole(self) -> None:
        report = lesson(held_out(ten_pairs(CANDIDATE), *CANDIDATE))
        regression, apart = report.baseline.parts
        assert (regression.pairs, regression.slices, regression.counts) == (0, (), ())
        assert apart.pairs == 10
        assert Requirement.PAIRS in missing(report)


class TestExcluded:
    def disagreeing(self, *names: str) -> list[Pair]:
        def change(row: Row) -> Row:
            return replace(row, item=replace(row.item, reviewers_agree=row.item.pair not in names))

        return changed(ten_pairs(), change)

    def test_no_decision_and_two(self) -> None:
        report = lesson(self.disagreeing("p4"))
        (one,) = report.excluded
        assert one.pair == "p4"
        assert one.reason.startswith("reviewers_agree is false")
        assert (report.decision, report.exit_code) == (None, 2)
        assert report.baseline.parts[0].pairs == 9
        assert [flip.pair for flip in report.baseline.parts[0].flips] == ["n1", "p5"]

    def test_a_pair_of_two_routers(self) -> None:
        mixed = results(ten_pairs(CANDIDATE))
        rows = (replace(mixed.rows[0], versions=OTHER_VERSIONS), *mixed.rows[1:])
        report = audit(replace(mixed, rows=rows), settings(), today=TODAY)
        (one,) = report.excluded
        assert (one.pair, report.exit_code) == ("p1", 2)
        assert one.reason.startswith("versions.judge differs between variants: ")

    def test_a_pair_that_one_run_cannot_be_compared_on_is_out_of_both(self) -> None:
        policies = {"p4": "p2"}
        odd = results(ten_pairs(CANDIDATE))
        rows = [
            replace(row, versions=replace(VERSIONS, policy=policies.get(row.item.pair, "p1")))
            for row in odd.rows
        ]
        report = audit(
            results(ten_pairs()), settings(), today=TODAY, candidate=replace(odd, rows=tuple(rows))
        )
        (one,) = report.excluded
        assert one.pair == "p4"
        assert one.reason.startswith("in the candidate: versions.policy is not")
        assert report.exit_code == 2
        assert [run.parts[0].pairs for run in (report.baseline, report.judged)] == [9, 9]
        assert report.comparison is not None
        assert report.comparison.repaired == ("n1", "p5")

    def test_all_pairs(self) -> None:
        report = lesson(self.disagreeing(*CANDIDATE), self.disagreeing(*CANDIDATE))
        assert len(report.excluded) == 10
        assert report.exit_code == 2

    def test_pairs_of_real_people_are_named_by_their_line(self) -> None:
        report = audit(
            results(self.disagreeing("p2", "n1"), synthetic=False), real_settings(), today=TODAY
        )
        assert [one.pair for one in report.excluded] == ["line 3", "line 13"]

    def test_a_candidate_on_another_set(self) -> None:
        with pytest.raises(AuditError) as caught:
            lesson(candidate=ten_pairs(CANDIDATE)[1:])
        assert str(caught.value).endswith(
            "; run both on the same set, every pair and variant of it"
        )


class TestAxes:
    def test_an_attribute_that_is_not_listed(self) -> None:
        with pytest.raises(AuditError, match=r"results, line 1, field attributes\.dialect: is not"):
            lesson([varieties("p1", seen(0.8), seen(0.8), dialect="x")])

    def test_the_file_with_what_is_not_listed_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "candidate.jsonl"
        row = result_row("p1", "formal", attributes={VARIETY: "formal", "dialect": "x"})
        odd = read_results(write_json(path, [row]))
        with pytest.raises(AuditError) as caught:
            audit(odd, settings(), today=TODAY)
        assert str(caught.value).startswith(f"{path}, line 1, field attributes.dialect: is not")

    def test_without_a_group_by_of_one_attribute(self) -> None:
        both = (GroupBySettings(attributes=(VARIETY, "channel")),)
        report = audit(results(ten_pairs()), settings(groups=both), today=TODAY)
        part = report.baseline.parts[0]
        assert (part.what_if, part.calibration) == ((), ())
        assert len(part.flips) == 3


class TestRealPeople:
    def report(
        self, pairs: Sequence[Pair], sign_off: SignOff | None = None, **more: Any
    ) -> AuditReport:
        one, baseline = real_settings(groups=VARIETY_ALONE), results(pairs, synthetic=False)
        signed = signed_for(baseline, sign_off, more.get("candidate")) if sign_off else None
        return audit(baseline, one, today=TODAY, sign_off=signed, **more)

    def test_no_pair_and_no_exact_number(self) -> None:
        apart = [f"person-{i}" for i in range(100)]
        pairs, calm = (held_out(reviewed_pairs(500, worse=x), *apart) for x in (0.1, 0))
        report = self.report(pairs, candidate=results(calm, synthetic=False))
        said = json.dumps(asdict(report), default=str)
        assert "person" not in said
        assert (report.synthetic, report.k, report.comparison) == (False, 11, None)
        for run in (report.baseline, report.judged):
            assert [part.name for part in run.parts] == [REGRESSION, HELD_OUT]
            for part in run.parts:
                assert (part.flips, part.flips_withheld, part.what_if) == ((), True, ())
                assert part.pairs in edges(11, Coarseness.FINE)
                assert all(count.p_value is None for count in part.counts)
        numbers = re.findall(r"(?<=[ \[])-?\d+\.\d+", said)
        assert len(numbers) > 100
        assert all(float(x) == round(float(x), 3) for x in numbers)

    def test_measured_and_signed_it_is_approved(self) -> None:
        # Of 500, about 250 are ready: too few to show a gap of ten points to be kept.
        report = self.report(reviewed_pairs(700), sign_off=sign_off())
        assert missing(report) == ()
        assert report.exit_code == 0

    def test_a_gap_blocks_whatever_is_signed(self) -> None:
        report = self.report(reviewed_pairs(500, worse=0.15), sign_off=sign_off())
        assert missing(report) == (Requirement.REVIEWED_SET,)

    @pytest.mark.parametrize("conversational", [154, 160])
    def test_a_gap_that_bands_hide_is_no_pass(self, conversational: int) -> None:
        """175 against 154 of 200 are 10.5 points, and shown like 170 against 160: 9.9 points."""

        def apart(i: int, variant: str) -> Observed:
            served = {"formal": 175, "conversational": conversational}[variant]
            return seen(0.8 if i < served or 200 <= i < 230 else 0.5)

        report = self.report(self.of_two(apart), sign_off=sign_off())
        assert not failed(report)
        assert missing(report) == (Requirement.REVIEWED_SET,)
        assert report.decision is not None
        assert f"not shown by the interval to be kept: tpr_gap of {CONVERSATIONAL}" in (
            report.decision.requirements[1].why
        )

    def test_what_is_held_out_has_to_pass_too(self) -> None:
        apart = held_out(reviewed_pairs(600), *(f"person-{i}" for i in range(60)))
        report = self.report(apart, sign_off=sign_off())
        assert missing(report) == (Requirement.REVIEWED_SET,)
        assert report.decision is not None
        assert "(held out)" in report.decision.requirements[1].why

    def test_too_few_block_whatever_is_signed(self) -> None:
        report = self.report(reviewed_pairs(40), sign_off=sign_off())
        assert Requirement.SUPPORT in missing(report)

    def test_a_candidate_that_is_worse_blocks(self) -> None:
        def unclear(row: Row) -> Row:
            served = row.observed.score is not None and row.observed.score > 0.55
            return replace(row, observed=seen(0.9 if served else 0.5))

        pairs = reviewed_pairs(800)
        worse = results(changed(pairs, unclear), synthetic=False)
        report = self.report(pairs, candidate=worse, sign_off=sign_off())
        assert missing(report) == (Requirement.REVIEWED_SET,)
        fails: list[Check] = [c for c in report.judged.parts[0].checks if c.point is Point.FAIL]
        assert {c.name for c in fails} == {"fpr_not_above_baseline"}

    def of_two(self, route: Callable[[int, str], Observed], ready: int = 200) -> list[Pair]:
        """Half of the pairs ready, both variants of each as ``route`` says."""
        return [
            pair_of(
                row_of(f"p{i:03}", v, {VARIETY: v, "channel": "chat"}, route(i, v), ready=i < ready)
                for v in ("conversational", "formal")
            )
            for i in range(2 * ready)
        ]

    def with_a_gap(self, i: int, variant: str) -> Observed:
        served = i < (450 if variant == "formal" else 330) or 600 <= i < 605
        return seen(0.8 if served else 0.5)

    def why(self, candidate: Callable[[int, str], Observed]) -> str:
        """What the reviewed set lacks with all that can be signed."""
        after = results(self.of_two(candidate, 600), synthetic=False)
        before = self.of_two(self.with_a_gap, 600)
        report = self.report(before, candidate=after, sign_off=sign_off())
        assert report.decision is not None
        lacking = [line.why for line in report.decision.requirements if not line.met]
        assert missing(report) in ((), (Requirement.REVIEWED_SET,))
        return lacking[0] if lacking else ""

    def test_a_repair_is_approved(self) -> None:
        assert self.why(lambda i, _: self.with_a_gap(i, "formal")) == ""

    def test_stopping_at_the_gate_what_is_hard(self) -> None:
        def stop(i: int, _: str) -> Observed:
            return seen(None, passed=False) if 330 <= i < 600 else self.with_a_gap(i, "formal")

        assert self.why(stop).endswith(
            "fewer ready replies are served than by the baseline, over all items"
        )

    def test_serving_more_unclear_replies_than_a_baseline_whose_rate_is_coded(self) -> None:
        why = self.why(lambda i, _: seen(0.8 if i < 780 else 0.5))
        assert "failed: fpr_not_above_baseline, " in why

    def test_serving_what_the_gate_stopped(self) -> None:
        def serve(i: int, _: str) -> Observed:
            spoilt = replace(seen(0.8, passed=False), route=Route.AUTO_SERVE)
            return spoilt if 605 <= i < 735 else self.with_a_gap(i, "formal")

        why = self.why(serve)
        assert "replies served against score, threshold or evidence gate" in why
        assert "more replies that are not ready are served than by the baseline" in why

    @pytest.mark.parametrize("few", [pytest.param(1, marks=pytest.mark.full), 10])
    def test_what_less_than_k_do_is_not_told(self, few: int) -> None:
        def nearly(i: int, _: str) -> Observed:
            override = replace(seen(0.1), route=Route.AUTO_SERVE)
            return override if i < few else self.with_a_gap(i, "formal")

        assert self.why(nearly) == ""

    def test_versions_and_thresholds_of_few_are_not_told(self) -> None:
        def own(i: int, variant: str) -> Observed:
            return seen(0.8, 0.61 + i / 1000) if i < 10 else self.with_a_gap(i, variant)

        odd = results(self.of_two(own, 600), synthetic=False)
        calm = results(self.of_two(self.with_a_gap, 600), synthetic=False)
        first = (replace(row, versions=OTHER_VERSIONS) for row in calm.rows[:2])
        own_judge = replace(calm, rows=(*first, *calm.rows[2:]))
        one = real_settings(groups=VARIETY_ALONE)
        for of_few, what in ((odd, "threshold 0.7"), (own_judge, "judge j1")):
            report = audit(of_few, one, today=TODAY)
            assert (report.judged.versions, report.judged.thresholds) == ((VERSIONS,), (0.70,))
            blocked = audit(of_few, one, today=TODAY, sign_off=signed_for(of_few, sign_off()))
            assert blocked.decision is not None
            why = {line.why for line in blocked.decision.requirements[3:]}
            assert why == {f"signed for {what}, and not all was decided by it"}

    def test_under_a_synthetic_use_case_it_is_refused(self) -> None:
        with pytest.raises(AuditError, match="declared synthetic, but the set is of real people"):
            audit(results(ten_pairs(), synthetic=False), settings(), today=TODAY)


def test_the_shipped_examples() -> None:
    from monitor.settings import load

    folder = Path(__file__).parents[3] / "deploy" / "examples" / "audit"
    report = audit(
        read_results(folder / "ten_pairs.jsonl"),
        load(folder / "audit.toml", {}),
        today=TODAY,
        candidate=read_results(folder / "ten_pairs_candidate.jsonl"),
    )
    assert missing(report) == tuple(Requirement)[1:]
    assert [flip.pair for flip in report.baseline.parts[0].flips] == ["n1", "p4", "p5"]
