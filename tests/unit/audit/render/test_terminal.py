"""The terminal's report: the order of its sections, and the lesson's numbers as written."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from itertools import pairwise

import audit_reports as made
from rich.console import Console

from monitor.audit.audit_report import AuditReport, CalibrationLine, Point, Requirement, SliceLine
from monitor.audit.render.document import document
from monitor.core.contract import Verdict
from monitor.present import terminal


def text(report: AuditReport, width: int = 160) -> str:
    out = StringIO()
    Console(file=out, width=width).print(terminal.printed(document(report)))
    return out.getvalue()


def section(title: str, report: AuditReport) -> str:
    """The lines below a title, blanks made one."""
    _, _, below = text(report).partition(f"\n{title}\n")
    assert below, title
    return re.sub(r" +", " ", below.partition("\n\n")[0])


def titles(report: AuditReport) -> list[str]:
    lines = text(report).splitlines()
    return [after for before, after in pairwise(lines) if not before.strip()]


def test_flips_are_first_and_the_decision_is_last() -> None:
    assert titles(made.COMPARED)[:-1] == [
        "Flips",
        "Flips by axis",
        "Slices by language_variety",
        "Contract checks",
        "Support",
        "Calibration",
        "Intersections: channel+language_variety",
        "Other thresholds, by language_variety",
        "Candidate and baseline",
        "Slices of both",
        "The baseline's flips",
        "What no audit says",
        "Release decision",
    ]
    assert titles(made.BLOCKED)[-4:-2] == ["What to try", "What no audit says"]
    assert titles(made.EXCLUDED)[0] == "Excluded pairs"


def test_what_is_held_out_is_apart_and_after_the_rest() -> None:
    found = titles(made.HELD_OUT)
    apart = [title for title in found if title.startswith("Held-out part: ")]

    assert found[-len(apart) - 3 : -3] == apart
    assert "Held-out part: Flips" in apart
    assert "No pair flipped, of 10 compared." in section("Flips", made.HELD_OUT)
    assert "p4" in section("Held-out part: Flips", made.HELD_OUT)
    assert "2 pairs in the held-out part" in text(made.HELD_OUT)


def test_a_flip_has_both_routes_its_direction_and_its_stage() -> None:
    said = section("Flips", made.BLOCKED)

    for pair, ready, formal, conversational in (
        ("p4", "ready", "0.78", "0.67"),
        ("p5", "ready", "0.74", "0.56"),
        ("n1", "not ready", "0.71", "0.60"),
    ):
        (shown,) = re.findall(rf"^{pair} .*\n.*\n.*$", said, re.MULTILINE)
        assert shown.startswith(f"{pair} {ready} formal conversational conversational held_back")
        assert "auto_serve human_review" in shown
        assert f"score {formal} >= 0.70 score {conversational} < 0.70" in shown
        assert "judge_or_route/" in shown
        assert "judge_score" in shown


def test_a_flip_of_the_evidence_gate_says_who_did_not_pass_it() -> None:
    part = replace(made.PART, flips=(made.AT_GATE,))
    said = section("Flips", replace(made.BLOCKED, baseline=replace(made.BASELINE, parts=(part,))))

    assert "blocked_by_evidence" in said
    assert "evidence gate not passed" in said.replace("\n ", " ")
    assert "evidence_gate" in said
    assert "a reply that is ready is blocked" in said


def test_the_counts_of_an_axis() -> None:
    lines = section("Flips by axis", made.BLOCKED).splitlines()[-4:]

    assert [line.strip() for line in lines] == [
        "language_variety ready 6 2 2 0 0 judge_or_route/ 0.5",
        "judge_score: 2",
        "language_variety not ready 4 1 1 0 0 judge_or_route/ 1",
        "judge_score: 1",
    ]


def test_rates_have_their_interval_and_what_they_rest_on() -> None:
    said = section("Slices by language_variety", made.BLOCKED)

    assert "formal 60 % 83.3 % 6 25 % 4 0 %" in said
    assert "(43.6 to 97.0 %) insufficient (4.6 to 69.9 %) insufficient" in said
    assert "conversational 30 % 50 % 6 0 % 4 -" in said
    assert "(18.8 to 81.2 %)" in said
    assert "chat" not in said
    joint = section("Intersections: channel+language_variety", made.BLOCKED)
    assert "chat, conversational - 100 % 3" in joint


def test_a_check_says_what_the_point_and_what_the_interval_says() -> None:
    found = section("Contract checks", made.BLOCKED)

    for name, numbers, who in (
        ("TPR", "+33.3 FAIL -17.2 to +67.4", "worse off"),
        ("FPR", "-25 FAIL -69.9 to +28.1", "formal"),
    ):
        assert (
            f"language_variety conversational {name} gap at most {numbers} INSUFFICIENT\n"
            f" against formal 10 points {who} SUPPORT\n"
        ) in f"{found}\n"


def test_a_gap_between_other_pairs_is_said_to_be_one() -> None:
    check = replace(made.CHECKS[0], against="complement", matched=False)
    part = replace(made.PART, checks=(check,))
    run = replace(made.BASELINE, parts=(part,))
    synthetic = section("Contract checks", replace(made.BLOCKED, baseline=run))
    reviewed = section("Contract checks", replace(made.GUARDED, baseline=run))

    assert "against all" in synthetic
    assert "(no pair" in synthetic
    assert "over the pairs that hold both sides" in synthetic
    assert "(other pairs)" in reviewed
    assert "also one between different requests" in " ".join(reviewed.split())
    assert "different requests" not in section("Contract checks", made.GUARDED)


def test_none_beside_a_verdict_is_explained() -> None:
    check = replace(made.CHECKS[0], point=Point.NONE, value=None, verdict=Verdict.PASS)
    run = replace(made.BASELINE, parts=(replace(made.PART, checks=(check,)),))

    for report, why in (
        (made.BLOCKED, "No pair has such a reply"),
        (made.GUARDED, "hidden to protect privacy"),
    ):
        assert why in section("Contract checks", replace(report, baseline=run))
    assert "NONE" not in section("Contract checks", made.BLOCKED)


def test_rows_that_say_nothing_are_left_out() -> None:
    hidden = "language_variety=__other__"
    part = replace(
        made.GUARDED.baseline.parts[0],
        slices=(*made.SLICES, SliceLine(made.VARIETY, hidden, {}, {}, made.NEEDED)),
        calibration=(
            *made.PART.calibration,
            CalibrationLine(hidden, "no score", 0, None, sufficient=False),
        ),
    )
    said = text(replace(made.GUARDED, baseline=replace(made.BASELINE, parts=(part,))))

    assert "__other__" not in said
    assert "no score" not in said
    assert said.count("Hidden rows are left out.") == 3


def test_the_verdict_and_the_counts_come_first_and_last_there_is_a_sentence() -> None:
    lines = text(made.COMPARED).splitlines()
    assert lines[1:3] == [
        "BLOCKED. The candidate is blocked: 4 of 5 requirements are missing.",
        "Regression part: no flip in 10 compared pairs.",
    ]
    guarded = text(made.GUARDED).splitlines()
    assert guarded[2] == "Regression part: 400+ compared pairs, whose flips are not listed."
    assert guarded[-1] == "BLOCKED. The baseline is blocked: 5 of 5 requirements are missing."


def test_no_line_ends_in_blanks() -> None:
    for report in (made.BLOCKED, made.COMPARED, made.GUARDED, made.EXCLUDED, made.HELD_OUT):
        assert not [line for line in text(report).splitlines() if line != line.rstrip()]


def test_flips_say_what_the_reference_is() -> None:
    assert "reference = formal: the contract's" in section("Flips", made.BLOCKED)
    assert "reference =" not in section("Flips", made.COMPARED)


def test_of_many_thresholds_those_around_the_current_one_are_shown() -> None:
    lines = tuple(
        replace(made.PART.what_if[1], threshold=n / 100, current=n == 70) for n in range(100)
    )
    part = replace(made.PART, what_if=lines)
    report = replace(made.BLOCKED, baseline=replace(made.BASELINE, parts=(part,)))
    said = section("Other thresholds, by language_variety", report)

    assert re.findall(r"^(\d\.\d\d)", said, re.MULTILINE) == [f"0.{n}" for n in range(65, 76)]
    assert "The 11 nearest to what decided, of 100; the JSON report has all." in said


def test_one_is_not_several() -> None:
    part = replace(made.QUIET, pairs=1)
    missing = [one for one in Requirement if one is not Requirement.OWNER]
    report = replace(
        made.BLOCKED,
        baseline=replace(made.BASELINE, parts=(part,)),
        decision=made.decision(*missing),
    )

    assert "1 of 5 requirements is missing." in text(report)
    assert "no flip in 1 compared pair." in text(report)
    assert "1 pair in the regression part" in text(report)


def test_what_is_held_out_is_compared_apart() -> None:
    held_out = replace(made.COMPARED.comparison, repaired=("h1",))  # type: ignore[type-var]
    parts = (made.QUIET, replace(made.QUIET, name="held_out"))
    report = replace(
        made.COMPARED, candidate=replace(made.CANDIDATE, parts=parts), held_out_comparison=held_out
    )

    assert "repaired 1 h1" in section("Held-out part: Candidate and baseline", report)
    assert "h1" not in section("Candidate and baseline", report)


def test_a_level_is_in_per_cent_and_a_missing_one_is_said() -> None:
    level = replace(
        made.CHECKS[0], name="min_tpr", against="", limit=0.6, value=None, lower=None, upper=None
    )
    part = replace(made.PART, checks=(replace(level, point=Point.NONE, verdict=None),))
    (line,) = section(
        "Contract checks", replace(made.BLOCKED, baseline=replace(made.BASELINE, parts=(part,)))
    ).splitlines()[-2:-1]

    assert line == "language_variety conversational TPR at least - NONE - -"


def test_a_band_without_replies_is_absent_and_not_nought() -> None:
    said = section("Calibration", made.BLOCKED)
    lines = [line.removeprefix("language_variety ") for line in said.splitlines()]

    assert "conversational 0.70 to 0.90 3 100 % (43.8 to 100.0 %) insufficient" in lines
    assert "conversational 0.90 and above 0 absent -" in lines
    assert "formal 0.90 and above 1 100 % (20.6 to 100.0 %) insufficient" in lines


def test_why_a_guarded_band_is_not_there_is_not_said() -> None:
    assert "absent" not in section("Calibration", made.GUARDED).partition("\nby ")[2]


def test_guarded_numbers_are_whole_and_bands_have_a_lower_edge() -> None:
    said = section("Slices by language_variety", made.GUARDED)

    assert "formal - 83 % 118+ at most 10 % 94+ -" in said
    assert "channel ready withheld - - - - - -" in section("Flips by axis", made.GUARDED)
    assert "language_variety ready 394+ 23+ 2+ - -" in section("Flips by axis", made.GUARDED)
    assert "lower bound" in section("Flips by axis", made.GUARDED)


def test_another_threshold_is_a_look_back() -> None:
    said = section("Other thresholds, by language_variety", made.BLOCKED)

    assert "not a forecast" in said.replace("\n", " ")
    assert "0.70 (now) 3 formal 83.3 % +33.3 -25" in said


def test_a_candidate_is_compared_and_both_are_named() -> None:
    said = section("Candidate and baseline", made.COMPARED)

    assert "Regression repaired on synthetic pairs, not validated for release." in said
    assert "repaired 3 n1, p4, p5" in said
    assert "still failing 0 none" in said
    assert "not ready, and newly served 1 n2/formal" in said
    assert "judge j2, rubric r1, policy p1, router t1" in text(made.COMPARED)
    assert "p4 ready" in section("The baseline's flips", made.COMPARED)


def test_the_decision_names_each_requirement_who_when_and_why() -> None:
    said = section("Release decision", made.COMPARED)

    assert "The candidate is blocked: 4 of 5 requirements are missing." in said
    assert "synthetic_regression_pairs_pass met release board 2026-06-01 signed off" in said
    for one in made.decision().requirements:
        assert one.requirement.value in said
    assert said.count("MISSING") == 4


def test_without_a_decision_it_says_what_to_do() -> None:
    said = section("Release decision", made.EXCLUDED)

    assert said == "No release decision: 1 pair excluded; repair the set first."
    assert "p9 variant conversational is missing: add it" in section(
        "Excluded pairs", made.EXCLUDED
    )
    assert "COULD NOT EVALUATE." in text(made.EXCLUDED)


def test_colours_say_nothing_that_words_do_not() -> None:
    out = StringIO()
    Console(file=out, width=160, force_terminal=True, color_system="standard").print(
        terminal.printed(document(made.COMPARED))
    )

    assert "\x1b[" in out.getvalue()
    assert re.sub(r"\x1b\[[\d;]*m", "", out.getvalue()) == text(made.COMPARED)


def test_no_line_is_wider_than_a_pipe_gets() -> None:
    for report in (made.BLOCKED, made.COMPARED, made.GUARDED, made.EXCLUDED, made.HELD_OUT):
        assert max(map(len, text(report).splitlines())) <= 160


def test_nothing_is_cut_off_where_it_is_narrow() -> None:
    for report in (made.BLOCKED, made.COMPARED, made.GUARDED, made.EXCLUDED, made.HELD_OUT):
        whole = "".join(text(report, width=400).replace("\u2500", "").split())
        narrow = "".join(text(report).replace("\u2500", "").split())
        assert sorted(narrow) == sorted(whole)


def test_a_name_of_any_length_is_folded_and_not_cut() -> None:
    part = replace(made.PART, flips=(made.flip("p" * 200, True, 0.78, 0.67),))
    report = replace(made.BLOCKED, baseline=replace(made.BASELINE, parts=(part,)))

    assert text(report).count("p") - text(made.BLOCKED).count("p") > 150
    assert max(map(len, text(report).splitlines())) <= 160
