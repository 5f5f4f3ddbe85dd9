"""The Markdown report: short first, the rest folded, and text that stays text."""

from __future__ import annotations

import re
from dataclasses import replace

import audit_reports as made
import pytest

from monitor.audit.audit_report import AuditReport, Point
from monitor.audit.render.document import document
from monitor.present import markdown


def short(report: AuditReport) -> str:
    return markdown.short(document(report))


def headings(text: str) -> list[str]:
    return re.findall(r"^## (.*)$", text, re.MULTILINE)


def test_the_decision_comes_first_and_details_are_folded() -> None:
    unfolded, _, folded = short(made.BLOCKED).partition("<details>")

    assert unfolded.startswith("# \u274c Matched-pair audit of ten-pairs 1: BLOCKED\n")
    assert headings(unfolded) == ["Release decision", "Flips", "Contract checks that fail"]
    assert {
        "Contract checks",
        "Slices by language\\_variety",
        "Support",
        "Calibration",
        "What to try",
    } <= set(headings(folded))
    assert folded.endswith("\n</details>\n")
    assert f"- content hash: {made.BLOCKED.digest}" in folded


def test_a_candidate_and_excluded_pairs_are_in_the_short_part() -> None:
    compared = short(made.COMPARED).partition("<details>")[0]
    excluded = short(made.EXCLUDED).partition("<details>")[0]

    assert "Candidate and baseline" in headings(compared)
    assert headings(excluded)[:2] == ["Release decision", "Excluded pairs"]


def test_what_is_held_out_is_folded() -> None:
    unfolded, _, folded = short(made.HELD_OUT).partition("<details>")

    assert "## Held-out" not in unfolded
    assert "Held-out part: Flips" in headings(folded)


def test_tables_have_as_many_cells_in_every_row() -> None:
    text = short(made.COMPARED)
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(cells) == 1, block


def test_marks_do_not_stand_alone() -> None:
    text = short(made.COMPARED)

    assert "\u2705 met" in text
    assert "\u274c MISSING" in text
    assert "\u2705 PASS" in text
    assert "\u26a0\ufe0f INSUFFICIENT<br>SUPPORT" in text


def test_text_is_neither_markup_nor_a_mention_nor_a_table() -> None:
    flip = made.flip("a|b\n# @team [x](y) <b> `c` **d** $e$ ~f~ !", True, 0.78, 0.67)
    part = replace(made.PART, flips=(flip,))
    text = short(replace(made.BLOCKED, baseline=replace(made.BASELINE, parts=(part,))))
    (line,) = (line for line in text.splitlines() if line.startswith("| a\\"))

    assert line.startswith(
        r"| a\|b<br># @<!-- -->team \[x\](y) &lt;b&gt; \`c\` \*\*d\*\* \$e\$ \~f\~ ! | ready |"
    )


def with_flips(count: int, name: str = "p{}") -> str:
    flips = tuple(made.flip(name.format(n), True, 0.78, 0.67) for n in range(count))
    part = replace(made.PART, flips=flips, pairs=count)
    names = tuple(flip.pair for flip in flips)
    comparison = replace(made.COMPARED.comparison, still_failing=names)  # type: ignore[type-var]
    runs = (replace(run, parts=(part,)) for run in (made.BASELINE, made.CANDIDATE))
    baseline, candidate = runs
    return short(
        replace(made.COMPARED, baseline=baseline, candidate=candidate, comparison=comparison)
    )


def test_two_thousand_flips_are_counted_and_fit_a_comment() -> None:
    said = with_flips(2000)

    assert len(said) < 65_536
    assert "<details>" in said
    assert headings(said.partition("<details>")[0]) == [
        "Release decision", "Flips", "Contract checks that fail", "Candidate and baseline"
    ]  # fmt: skip
    assert said.partition("<details>")[0].count("conversational held\\_back") == 50
    assert "The first 50 rows; 1,950 more are in the full report (--html, --json)." in said
    assert "3 flips" not in said
    assert "2,000 flips in 2,000 compared pairs." in said
    assert "| still failing | 2,000 |" in said
    assert "... (cut here)" in said


@pytest.mark.parametrize("name", ["{:<>200}", "@{:@>199}", "{:\U0001f600>200}"])
def test_details_go_first_and_whatever_names_there_are_it_fits(name: str) -> None:
    said = with_flips(2000, name)

    assert len(said.encode("utf-16-le")) // 2 < 65_536
    assert "<details>" not in said
    assert "too long for here" in said
    assert headings(said)[0] == "Release decision"
    assert "2,000 flips in 2,000 compared pairs." in said


def test_only_checks_that_fail_are_unfolded() -> None:
    kept = replace(made.CHECKS[1], point=Point.PASS)
    part = replace(made.PART, checks=(made.CHECKS[0], kept))
    text = short(replace(made.BLOCKED, baseline=replace(made.BASELINE, parts=(part,))))
    unfolded, _, folded = text.partition("<details>")

    assert "TPR gap" in unfolded
    assert "FPR gap" not in unfolded
    assert "FPR gap" in folded
    quiet = short(made.APPROVED).partition("<details>")[0]
    assert "## Contract checks that fail\n\nNone.\n" in quiet


def test_of_reviewed_data_a_check_without_support_is_one_that_fails() -> None:
    check = replace(made.CHECKS[0], point=Point.NONE, value=None)
    for report, told in ((made.BLOCKED, False), (made.GUARDED, True)):
        run = replace(made.BASELINE, parts=(replace(report.baseline.parts[0], checks=(check,)),))
        unfolded = short(replace(report, baseline=run)).partition("<details>")[0]

        assert ("TPR gap" in unfolded) is told
