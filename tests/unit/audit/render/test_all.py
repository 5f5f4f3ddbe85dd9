"""What every output of an audit must say, and what none may."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import audit_reports as made
import pytest
from rich.console import Console

from monitor.audit.audit_report import FLIP_SENTENCE, SYNTHETIC_SENTENCE, AuditReport, LimitsLine
from monitor.audit.render import as_json, junit
from monitor.audit.render.document import document
from monitor.core.contract import Role, Verdict
from monitor.core.metric import Metric
from monitor.present import html, markdown, terminal

Render = Callable[[AuditReport], str]


def as_text(report: AuditReport) -> str:
    """What a pipe gets."""
    out = StringIO()
    Console(file=out, width=160).print(terminal.printed(document(report)))
    return out.getvalue()


OUTPUTS: dict[str, Render] = {
    "terminal": as_text,
    "json": as_json.render,
    "html": lambda report: html.page(document(report)),
    "markdown": lambda report: markdown.short(document(report)),
    "junit": junit.render,
}
REPORTS = {
    "blocked": made.BLOCKED,
    "approved": made.APPROVED,
    "excluded": made.EXCLUDED,
    "compared": made.COMPARED,
    "held out": made.HELD_OUT,
}
every_output = pytest.mark.parametrize("render", OUTPUTS.values(), ids=OUTPUTS)


@every_output
@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_an_invented_set_is_labelled(render: Render, report: AuditReport) -> None:
    assert SYNTHETIC_SENTENCE in render(report)


@every_output
def test_reviewed_data_are_not_called_invented(render: Render) -> None:
    assert SYNTHETIC_SENTENCE not in render(made.GUARDED)


@every_output
@pytest.mark.parametrize("report", [*REPORTS.values(), made.GUARDED], ids=[*REPORTS, "guarded"])
def test_a_flip_is_said_to_be_a_case_to_investigate(render: Render, report: AuditReport) -> None:
    assert FLIP_SENTENCE in " ".join(render(report).split())


@every_output
def test_nothing_of_a_pair_is_shown_where_flips_are_withheld(render: Render) -> None:
    said = render(made.GUARDED)

    assert not any(f">{pair}<" in said or f" {pair} " in said for pair in ("p4", "p5", "n1"))
    assert "score 0." not in said


@every_output
def test_control_characters_of_a_file_reach_no_reader(render: Render) -> None:
    hostile = replace(made.flip("p\x1b[2J\u202e", True, 0.78, 0.67), by="axis\x00\x07")
    part = replace(made.PART, flips=(hostile,))
    said = render(replace(made.BLOCKED, baseline=replace(made.BASELINE, parts=(part,))))

    assert not {"\x1b", "\x00", "\x07", "\u202e"} & set(said)


@every_output
def test_the_same_report_is_rendered_to_the_same_text(render: Render) -> None:
    assert render(made.COMPARED) == render(made.COMPARED)


@every_output
def test_no_number_is_missing_in_words(render: Render) -> None:
    for report in (*REPORTS.values(), made.GUARDED):
        said = render(report).lower()
        assert not any(word in said.split() for word in ("nan", "inf", "none%", "null%"))


@every_output
def test_each_guardrail_has_a_verdict_of_its_own(render: Render) -> None:
    limits = (
        LimitsLine(Role.GUARDRAIL, Metric.FPR, Verdict.PASS),
        LimitsLine(Role.GUARDRAIL, Metric.PRECISION, Verdict.FAIL),
    )
    said = render(replace(made.BLOCKED, decision=replace(made.decision(), limits=limits)))

    flat = re.sub(r"[^a-z]+", " ", said.lower())
    assert re.search(r"guardrail (value |metric )?fpr (value |verdict )?pass", flat)
    assert re.search(r"guardrail (value |metric )?precision (value |verdict )?fail", flat)
