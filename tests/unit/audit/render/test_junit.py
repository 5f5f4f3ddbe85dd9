"""The JUnit report: well-formed, its sums right, one case for whatever can fail."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from xml.etree import ElementTree as ET

import audit_reports as made
import pytest
from audited import sign_off

from monitor.audit.audit_report import AuditReport, Check, Point, Requirement, SliceLine
from monitor.audit.decision import Signed, decide
from monitor.audit.render import junit
from monitor.core.contract import Verdict

REPORTS = (made.BLOCKED, made.APPROVED, made.EXCLUDED, made.COMPARED, made.HELD_OUT, made.GUARDED)


def cases(report: AuditReport, suite: str) -> dict[str, str]:
    """Names of a suite's cases with how they ended."""
    root = ET.fromstring(junit.render(report))
    (found,) = root.findall(f"./testsuite[@name='slicewatch.audit.{suite}']")
    return {case.get("name", ""): ending(case) for case in found.findall("testcase")}


def ending(case: ET.Element) -> str:
    return case[0].tag if len(case) else "passed"


def with_check(check: Check) -> AuditReport:
    part = replace(made.PART, checks=(check,), supports=())
    return replace(made.BLOCKED, baseline=replace(made.BASELINE, parts=(part,)))


@pytest.mark.parametrize("report", REPORTS)
def test_the_sums_are_those_of_the_cases(report: AuditReport) -> None:
    root = ET.fromstring(junit.render(report).encode())

    for element in (root, *root.findall("testsuite")):
        found = [ending(case) for case in element.iter("testcase")]
        assert element.get("tests") == str(len(found))
        for total, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert element.get(total) == str(found.count(tag))


def test_each_requirement_is_a_case() -> None:
    assert cases(made.COMPARED, "release") == {
        one.value: "passed" if one is Requirement.PAIRS else "failure" for one in Requirement
    }
    assert set(cases(made.APPROVED, "release").values()) == {"passed"}


def test_each_flip_is_a_case_and_an_axis_without_flips_passes() -> None:
    assert cases(made.BLOCKED, "regression.flips") == {
        **{f"{pair} language_variety": "failure" for pair in ("p4", "p5", "n1")},
        "no flips by language_variety, ready": "failure",
        "no flips by language_variety, not ready": "failure",
    }
    assert cases(made.APPROVED, "regression.flips") == {
        "no flips by language_variety, ready": "passed",
        "no flips by language_variety, not ready": "passed",
    }
    assert (
        cases(made.HELD_OUT, "held_out.flips").keys()
        == cases(made.BLOCKED, "regression.flips").keys()
    )


def test_a_flip_says_both_routes() -> None:
    root = ET.fromstring(junit.render(made.BLOCKED))
    (found,) = root.findall(".//testcase[@name='p4 language_variety']/failure")

    assert found.get("message") == (
        "formal auto_serve: score 0.78 >= 0.70 | conversational human_review: score 0.67 < 0.70;"
        " conversational held_back; judge_or_route/judge_score"
    )


def test_flips_of_real_people_decide_nothing() -> None:
    assert cases(made.GUARDED, "regression.flips") == {
        "no flips by language_variety, ready": "skipped",
        "no flips by channel, ready": "skipped",
    }


def test_few_flips_of_real_people_do_not_pass() -> None:
    (part,) = made.GUARDED.baseline.parts
    counts = replace(made.COUNTS, flips=0, directions={}, stages={}, p_value=None)
    run = replace(made.BASELINE, parts=(replace(part, counts=(counts,)),))

    assert cases(replace(made.GUARDED, baseline=run), "regression.flips") == {
        "no flips by language_variety, ready": "skipped"
    }


def test_an_excluded_pair_is_an_error() -> None:
    assert cases(made.EXCLUDED, "excluded") == {"p9": "error"}
    assert cases(made.EXCLUDED, "release") == {"decision": "error"}


@pytest.mark.parametrize(
    ("point", "verdict", "expected"),
    [
        (Point.PASS, Verdict.PASS, "passed"),
        (Point.FAIL, Verdict.PASS, "failure"),
        (Point.FAIL, Verdict.INSUFFICIENT_SUPPORT, "failure"),
        (Point.PASS, Verdict.INSUFFICIENT_SUPPORT, "skipped"),
        (Point.NONE, Verdict.INSUFFICIENT_SUPPORT, "skipped"),
        (Point.NONE, None, "skipped"),
        (Point.PASS, None, "passed"),
    ],
)
def test_how_a_check_ends(point: Point, verdict: Verdict | None, expected: str) -> None:
    report = with_check(replace(made.CHECKS[0], point=point, verdict=verdict))

    assert [*cases(report, "regression.checks").values()] == [expected]


def test_what_an_interval_says_decides_on_reviewed_data_alone() -> None:
    for verdict, expected in (
        (Verdict.PASS, "passed"),
        (Verdict.FAIL, "failure"),
        (Verdict.INSUFFICIENT_SUPPORT, "failure"),
    ):
        check = replace(made.CHECKS[0], point=Point.NONE, verdict=verdict)
        reviewed = replace(with_check(check), synthetic=False)

        assert [*cases(with_check(check), "regression.checks").values()] == ["skipped"]
        assert [*cases(reviewed, "regression.checks").values()] == [expected]


def test_support_decides_on_reviewed_data_and_never_on_what_is_held_out() -> None:
    name = "support TPR language_variety=conversational"

    assert cases(made.BLOCKED, "regression.supports") == {name: "skipped"}
    assert cases(made.GUARDED, "regression.supports") == {name: "failure"}
    (part,) = made.GUARDED.baseline.parts
    run = replace(made.BASELINE, parts=(part, replace(part, name="held_out")))
    assert cases(replace(made.GUARDED, baseline=run), "held_out.supports") == {name: "skipped"}


@pytest.mark.parametrize("report", [made.APPROVED, made.BLOCKED, made.HELD_OUT, made.GUARDED])
@pytest.mark.parametrize("point", Point)
@pytest.mark.parametrize("verdict", [*Verdict, None])
@pytest.mark.parametrize("met", [True, False])
def test_it_is_approved_exactly_if_nothing_fails(
    report: AuditReport, point: Point, verdict: Verdict | None, met: bool
) -> None:
    check = replace(made.CHECKS[0], point=point, verdict=verdict)
    support = replace(made.PART.supports[0], met=met)
    whole = SliceLine("", "", made.SLICES[0].rates)
    parts = tuple(
        replace(part, slices=(whole,), checks=(check,), supports=(support,))
        for part in report.judged.parts
    )
    run = replace(report.judged, parts=parts)
    decision = decide(run, synthetic=report.synthetic, signed=Signed(sign_off(), date.min))
    root = ET.fromstring(junit.render(replace(report, baseline=run, decision=decision)))

    fails = root.get("failures") != "0" or root.get("errors") != "0"
    assert fails is not decision.approved


@pytest.mark.parametrize("report", [made.APPROVED, made.GUARDED])
def test_some_of_these_are_approved(report: AuditReport) -> None:
    (part,) = report.judged.parts
    part = replace(
        part,
        slices=(SliceLine("", "", made.SLICES[0].rates),),
        checks=(replace(made.CHECKS[0], point=Point.PASS, verdict=Verdict.PASS),),
        supports=(replace(made.PART.supports[0], met=True),),
    )
    run = replace(report.judged, parts=(part,))

    assert decide(run, synthetic=report.synthetic, signed=Signed(sign_off(), date.min)).approved


def test_nothing_is_said_of_a_number_that_is_not_there() -> None:
    check = replace(
        made.CHECKS[0], name="fpr_not_above_baseline", against="complement", limit=None, value=None
    )
    check = replace(check, lower=None, upper=None, point=Point.NONE, verdict=None)
    root = ET.fromstring(junit.render(with_check(check)))
    (case,) = root.findall("./testsuite[@name='slicewatch.audit.regression.checks']/testcase")

    assert case.get("name") == (
        "fpr_not_above_baseline language_variety=conversational against all others"
    )
    assert case[0].get("message") == (
        "FPR not above baseline, which is not known; the point is withheld, or there is none"
    )


def test_it_says_of_what_it_is() -> None:
    root = ET.fromstring(junit.render(made.COMPARED))
    said = {one.get("name"): one.get("value") for one in root[0].iter("property")}

    assert said == {
        "dataset": "ten-pairs 1",
        "digest": made.COMPARED.digest,
        "results_digest": made.COMPARED.results_digest,
        "made": "on 2026-06-01 by slicewatch 0.1.0",
        "contract": "ten-pairs 1",
        "judged": "candidate",
        "versions": "judge j2, rubric r1, policy p1, router t1",
        "thresholds": "0.70",
        "synthetic": "true",
    }


def test_a_check_by_which_a_slice_is_better_off_is_neither_a_pass_nor_a_failure() -> None:
    ahead = replace(made.CHECKS[1], point=Point.BETTER_OFF, verdict=Verdict.BETTER_OFF)
    for report in (with_check(ahead), replace(with_check(ahead), synthetic=False)):
        assert [*cases(report, "regression.checks").values()] == ["skipped"]
