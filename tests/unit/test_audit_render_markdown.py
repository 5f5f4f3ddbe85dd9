"""The Markdown report: short first, the rest folded, and text that stays text."""

from __future__ import annotations

import re
from dataclasses import replace

import audit_reports as made

from monitor.audit.render import markdown


def headings(text: str) -> list[str]:
    return re.findall(r"^### (.*)$", text, re.MULTILINE)


def test_the_decision_comes_first_and_details_are_folded() -> None:
    short, _, folded = markdown.render(made.BLOCKED).partition("<details>")

    assert short.startswith("## \u274c Matched-pair audit of ten-pairs 1: BLOCKED\n")
    assert headings(short) == ["Release decision", "Flips", "Contract checks"]
    assert {"Slices by language\\_variety", "Support", "Calibration", "Other thresholds"} <= set(
        headings(folded)
    )
    assert folded.endswith("\n</details>\n")
    assert f"- content hash: {made.BLOCKED.digest}" in folded


def test_a_candidate_and_excluded_pairs_are_in_the_short_part() -> None:
    compared = markdown.render(made.COMPARED).partition("<details>")[0]
    excluded = markdown.render(made.EXCLUDED).partition("<details>")[0]

    assert "Candidate and baseline" in headings(compared)
    assert headings(excluded)[:2] == ["Release decision", "Excluded pairs"]


def test_what_is_held_out_is_folded() -> None:
    short, _, folded = markdown.render(made.HELD_OUT).partition("<details>")

    assert "Held-out" not in short
    assert "Held-out part: Flips" in headings(folded)


def test_tables_have_as_many_cells_in_every_row() -> None:
    text = markdown.render(made.COMPARED)
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(cells) == 1, block


def test_marks_do_not_stand_alone() -> None:
    text = markdown.render(made.COMPARED)

    assert "\u2705 met" in text
    assert "\u274c MISSING" in text
    assert "\u2705 PASS" in text
    assert "\u26a0\ufe0f INSUFFICIENT<br>SUPPORT" in text


def test_text_is_neither_markup_nor_a_mention_nor_a_table() -> None:
    flip = made.flip("a|b\n# @team [x](y) <b> `c` **d** $e$ ~f~ !", True, 0.78, 0.67)
    part = replace(made.PART, flips=(flip,))
    text = markdown.render(replace(made.BLOCKED, baseline=replace(made.BASELINE, parts=(part,))))
    (line,) = (line for line in text.splitlines() if line.startswith("| a\\"))

    assert line.startswith(
        r"| a\|b<br># @<!-- -->team \[x\](y) &lt;b&gt; \`c\` \*\*d\*\* \$e\$ \~f\~ ! | ready |"
    )
