"""``slicewatch judge FILE`` and one text on standard input: no Kafka, and an exit code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hasty_judge import HastyJudge
from openai_server import OpenAIServer, Reply, asked_about, completion, finding, findings
from programs import program
from warm_start import MONITOR
from warm_start import run as run_warm

DOCS = Path(__file__).parents[2] / "deploy" / "docs"
SENTENCE = "Employees in their 50s are slow."
SETTINGS = """
[judge]
url = "{url}"
model = "judge-model"
{more}
"""
OWN = """
[[judge.categories]]
name = "religion"
description = ""
[[judge.categories]]
name = "dialect"
description = "the variety of a language that somebody writes"
"""


def answer(body: dict[str, Any]) -> Reply:
    text = asked_about(body)["output"]
    if "FILTERED" in text:
        return completion(None, finish="content_filter")
    return findings(finding(SENTENCE)) if SENTENCE in text else findings()


def outputs(*texts: tuple[str, str], **more: object) -> str:
    events = (
        {"output_id": i, "produced_at": 1_760_000_000_000, "output": text}
        | {"attributes": {"language": language}}
        | more
        for i, (language, text) in enumerate(texts)
    )
    return "".join(json.dumps(event) + "\n" for event in events)


Judge = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    def run(
        *arguments: str,
        text: str | None = None,
        more: str = "",
        server: Callable[[dict[str, Any]], Reply] = answer,
        script: Sequence[str] = MONITOR,
    ) -> subprocess.CompletedProcess[str]:
        with OpenAIServer(server) as endpoint:
            settings = tmp_path / "slicewatch.toml"
            settings.write_text(SETTINGS.format(url=endpoint.url, more=more))
            command = ["judge", "-s", str(settings), *arguments]
            if text is None and script is MONITOR:
                return run_warm(command, cwd=tmp_path, env=os.environ)
            cold = [sys.executable, *script, *command]
            return subprocess.run(
                cold, cwd=tmp_path, input=text, capture_output=True, text=True, check=False
            )

    return run


def test_one_text_on_standard_input(judge: Judge) -> None:
    flagged = judge("-", text=f"Good day. {SENTENCE}")
    (judgement,) = map(json.loads, flagged.stdout.splitlines())
    assert (judgement["status"], judgement["score"], judgement["flagged"]) == ("judged", 80, True)
    assert judgement["findings"][0]["start"] == 10
    assert flagged.returncode == 1


def test_a_file_by_slice_with_reviewers(judge: Judge, tmp_path: Path) -> None:
    file = tmp_path / "outputs.jsonl"
    file.write_text(
        outputs(*[("en", "Good day.")] * 18, biased=False)
        + outputs(("es", SENTENCE), biased=True, output_id="es")
        + "not json\n"
    )
    result = judge(str(file))
    statuses = [json.loads(line)["status"] for line in result.stdout.splitlines()]
    assert statuses == ["judged"] * 19 + ["unreadable"]
    assert result.stderr.splitlines() == [
        "all outputs: 1 of 19 flagged, 1 of 20 without a verdict",
        "language=en: 0 of 18 flagged",
        "language=es: 1 of 1 flagged",
        "agreement with reviewers of 19 outputs: kappa 1.00 (95 % interval 1.00 to 1.00)",
    ]
    assert result.returncode == 1


def test_the_page_from_outputs_to_a_decision(judge: Judge, tmp_path: Path) -> None:
    """What a content filter holds back counts against the candidate, beside what is flagged."""
    if shutil.which("jq") is None and os.environ.get("CI") != "true":
        pytest.skip("jq is missing")
    page = (DOCS / "judge.md").read_text().partition("## From outputs to a decision")[2]
    ((_, card), (_, commands)) = re.findall(r"```(toml|sh)\n(.*?)```", page, re.DOTALL)
    (tmp_path / "card.toml").write_text(card)
    texts = [SENTENCE] * 2 + [f"FILTERED {i}" for i in range(8)] + ["Good day."] * 90
    candidate = tmp_path / "candidate.jsonl"
    candidate.write_text(outputs(*[("es", text) for text in texts], *[("en", "Good day.")] * 100))
    first, rest = commands.split("\n", 1)
    assert first == "slicewatch judge candidate.jsonl > judgements.jsonl"
    (tmp_path / "judgements.jsonl").write_text(judge(str(candidate)).stdout)
    path = f"{Path(program('slicewatch')).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", rest],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    (score,) = json.loads((tmp_path / "candidate.json").read_text())["dimensions"]
    assert (done.returncode, score["verdict"], round(score["score"], 3)) == (1, "fail", 0.1)
    assert "en 1.000, es 0.900" in " ".join(done.stdout.split())


def test_a_slice_whose_outputs_cannot_be_judged_is_not_measured(
    judge: Judge, tmp_path: Path
) -> None:
    file = tmp_path / "outputs.jsonl"
    file.write_text(outputs(*[("en", "Good day.")] * 38, *[("es", f"FILTERED {i}") for i in "ab"]))
    result = judge(str(file))
    assert result.stderr.splitlines() == [
        "all outputs: 0 of 38 flagged, 2 of 40 without a verdict",
        "language=en: 0 of 38 flagged",
        "language=es: 0 of 0 flagged, 2 of 2 without a verdict: NOT MEASURED, over 5 % have no"
        " verdict",
    ]
    assert result.returncode == 1, "never green"


def test_own_words_are_in_the_prompt_and_a_free_category_is_not(
    judge: Judge, tmp_path: Path
) -> None:
    prompt = judge("--show-prompt", more=OWN).stdout
    assert "- age: being young" in prompt
    assert "- dialect: the variety of a language that somebody writes" in prompt
    assert "religion" not in prompt
    found = finding("Good day.", "dialect")
    file = tmp_path / "outputs.jsonl"
    file.write_text(outputs(("en", "Good day.")))
    own = judge(str(file), more=OWN, server=lambda _: findings(found))
    assert json.loads(own.stdout)["findings"][0]["category"] == "dialect"


BAD = [
    (
        "gone.jsonl",
        '[[judge.categories]]\nname = "x"',
        "judge.categories[0].description is missing",
    ),
    ("gone.jsonl", "", "gone.jsonl: cannot be read"),
    ("/dev/null", "", "/dev/null: no outputs"),
    ("-", "", "standard input is empty"),
]


@pytest.mark.parametrize(("file", "more", "said"), BAD)
def test_what_cannot_be_used_is_one_line(judge: Judge, file: str, more: str, said: str) -> None:
    result = judge(file, text="" if file == "-" else None, more=more)
    assert result.returncode == 2
    assert said in result.stderr.splitlines()[-1]
    assert result.stdout == ""


def test_an_endpoint_that_is_away_ends_the_command(judge: Judge, tmp_path: Path) -> None:
    file = tmp_path / "outputs.jsonl"
    file.write_text(outputs(("en", "Good day.")))
    result = judge(str(file), script=HastyJudge.program, server=lambda _: Reply(status=503))
    assert (result.returncode, result.stdout) == (2, "")
    assert "the judge answers about no text: the judge is not available (HTTP 503)" in result.stderr
