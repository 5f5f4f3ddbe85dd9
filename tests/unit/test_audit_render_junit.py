"""The JUnit report: well-formed, its sums right, one case for whatever can fail."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import audit_reports as made
import pytest

from monitor.audit.render import junit
from monitor.audit.report import AuditReport, Check, Point, Requirement
from monitor.core.contract import Verdict

REPORTS = (
    made.BLOCKED,
    made.APPROVED,
    made.EXCLUDED,
    made.COMPARED,
    made.HELD_OUT,
    made.GUARDED,
)


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
        "no flips by language_variety": "failure",
    }
    assert cases(made.APPROVED, "regression.flips") == {"no flips by language_variety": "passed"}
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


def test_flips_that_are_not_listed_fail_as_a_whole() -> None:
    assert cases(made.GUARDED, "regression.flips") == {
        "no flips by language_variety": "failure",
        "no flips by channel": "skipped",
    }


def test_few_flips_of_real_people_do_not_pass() -> None:
    (part,) = made.GUARDED.baseline.parts
    counts = replace(made.COUNTS, flips=0, directions={}, stages={}, p_value=None)
    run = replace(made.BASELINE, parts=(replace(part, counts=(counts,)),))

    assert cases(replace(made.GUARDED, baseline=run), "regression.flips") == {
        "no flips by language_variety": "skipped"
    }


def test_an_excluded_pair_is_an_error() -> None:
    assert cases(made.EXCLUDED, "excluded") == {"p9": "error"}
    assert cases(made.EXCLUDED, "release") == {"decision": "error"}


@pytest.mark.parametrize(
    ("point", "verdict", "expected"),
    [
        (Point.PASS, Verdict.PASS, "passed"),
        (Point.FAIL, Verdict.PASS, "failure"),
        (Point.PASS, Verdict.FAIL, "failure"),
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


def test_support_that_is_missing_fails() -> None:
    found = cases(made.BLOCKED, "regression.checks")

    assert found["support TPR language_variety=conversational"] == "failure"


def test_it_says_of_what_it_is() -> None:
    root = ET.fromstring(junit.render(made.COMPARED))
    said = {one.get("name"): one.get("value") for one in root[0].iter("property")}

    assert said == {
        "dataset": "ten-pairs 1",
        "digest": made.COMPARED.digest,
        "contract": "ten-pairs 1",
        "judged": "candidate",
        "versions": "judge j2, rubric r1, policy p1, router t1",
        "thresholds": "0.70",
        "synthetic": "true",
    }
