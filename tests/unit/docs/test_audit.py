"""The page on releases: its worked path, commands, words and links are the program's."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from monitor.audit.audit_report import Requirement
from monitor.audit.record_files import ResultFields
from monitor.audit.set_files import typed_row
from monitor.cli import cli
from monitor.core.probes.flips import FlipCause, FlipDirection, FlipStage

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "deploy" / "docs" / "before-a-release.md").read_text()
EXAMPLES = ROOT / "deploy" / "examples" / "audit"


def section(heading: str) -> str:
    """Return the text below a heading, up to the next heading."""
    (text,) = re.findall(rf"^#+ {heading}\n(.*?)(?=^#|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


def first_cells(text: str) -> set[str]:
    """Return the names in backquotes in the first column of a table."""
    return set(re.findall(r"^\| `([^`|]+)` \|", text, re.MULTILINE))


def commands(text: str) -> list[list[str]]:
    """Return the words of every slicewatch command in the bash blocks of a text."""
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = (line for block in blocks for line in block.replace("\\\n", " ").splitlines())
    return [shlex.split(line) for line in lines if line.startswith("slicewatch ")]


def test_the_worked_path_ends_with_an_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = section("From a log to a decision")
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(tmp_path / "examples")
    (sign,) = re.findall(r"^sed .*$", path, re.MULTILINE)
    subprocess.run(["sh", "-c", sign], check=True)
    *blocked, approved = commands(path)
    assert len(blocked) == 2
    for _, *words in blocked:
        done = CliRunner().invoke(cli, words)

        assert done.exit_code == 1, done.output
    done = CliRunner().invoke(cli, approved[1:])

    assert done.exit_code == 0, done.output
    assert "APPROVED." in done.output


def test_what_one_is_to_try_leaves_nothing_that_git_would_take() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()

    assert {"*.key", "/deploy/examples/audit/*.html"} <= set(ignored)
    assert "/deploy/examples/audit/signed_today.toml" in ignored


def test_the_row_shown_is_a_row_of_the_example() -> None:
    (shown,) = re.findall(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    lines = (EXAMPLES / "ten_pairs.jsonl").read_text().splitlines()

    assert json.loads(shown) in [json.loads(line) for line in lines]
    typed_row(Path("page"), 1, json.loads(shown), ResultFields)


def test_every_requirement_direction_stage_and_cause_is_told() -> None:
    assert first_cells(section("The release decision")) == {*Requirement}
    words = set(re.findall(r"`(\w+)`", section("How to read the report")))
    assert {*FlipDirection, *FlipStage, *FlipCause} - {FlipStage.NO_OBSERVED_FLIP} <= words


def test_the_recipe_is_what_the_workflow_does() -> None:
    workflow = yaml.safe_load((EXAMPLES / "github-workflow.yml").read_text())
    steps: list[dict[str, Any]] = workflow["jobs"]["audit"]["steps"]
    scripts = [
        step["run"] for name in ("ask the router", "audit")
        for step in steps if step.get("name") == name
    ]  # fmt: skip
    recipe = commands(section("Before every deployment"))

    assert [shlex.split(script.replace("\\\n", " ")) for script in scripts] == recipe


def test_the_workflow_publishes_the_reports_that_are_written() -> None:
    text = (EXAMPLES / "github-workflow.yml").read_text()

    assert "report_paths: audit.xml" in text
    assert "--body-file audit.md" in text
    assert "pip install slicewatch" not in text + PAGE + (ROOT / "README.md").read_text()
