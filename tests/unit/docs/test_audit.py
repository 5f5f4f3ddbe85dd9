"""The page on the audit: its options, fields, keys, numbers and links are the program's."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import audit_reports as made
import pytest
import yaml
from click.testing import CliRunner

from monitor.audit.audit_report import REPAIRED_SENTENCE, Requirement
from monitor.audit.record_files import ResultFields
from monitor.audit.render import as_json
from monitor.audit.set_files import typed_row
from monitor.audit.slices import MIN_CALIBRATION
from monitor.cli import cli
from monitor.commands.audit import PIPED_WIDTH
from monitor.commands.audit import command as audit
from monitor.commands.probe.send import run as probe_run
from monitor.core.probes.flips import FlipCause, FlipDirection, FlipStage

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "deploy" / "docs" / "audit.md").read_text()
EXAMPLES = ROOT / "deploy" / "examples" / "audit"


def section(heading: str) -> str:
    """The text below a heading, up to the next one."""
    (found,) = re.findall(rf"^#+ {heading}\n(.*?)(?=^#|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


def first_cells(text: str) -> set[str]:
    """What stands in backquotes in the first column of a table."""
    cells = re.findall(r"^\| (`[^|]+`) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def commands(text: str) -> list[list[str]]:
    """The words of every slicewatch command in the bash blocks of a text."""
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = (line for block in blocks for line in block.replace("\\\n", " ").splitlines())
    return [shlex.split(line) for line in lines if line.startswith("slicewatch ")]


def test_every_option_is_in_the_table_and_the_other_way_round() -> None:
    told = {name.split()[0] for name in first_cells(section("Try it"))}
    known = {max(parameter.opts, key=len) for parameter in audit.params} - {"pairs"} | {"PAIRS"}

    assert told == known


def test_the_commands_of_the_page_exist_with_their_options() -> None:
    options = {text for parameter in audit.params for text in parameter.opts}

    audits = [words for _, name, *words in commands(PAGE) if name == "audit"]
    assert len(audits) == 7
    for words in audits:
        assert {word for word in words if word.startswith("--")} <= options


def test_the_command_that_asks_the_router_exists_with_its_options() -> None:
    (words,) = [words for _, name, *words in commands(PAGE) if name == "probe"]
    options = {text for parameter in probe_run.params for text in parameter.opts}

    assert words[:2] == ["run", "audit/set.jsonl"]
    assert {word for word in words if word.startswith("--")} <= options


def test_what_one_is_to_try_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(tmp_path / "examples")
    (sign,) = re.findall(r"^sed .*$", section("Try it"), re.MULTILINE)
    subprocess.run(["sh", "-c", sign], check=True)
    *blocked, approved = commands(section("Try it"))
    for _, *words in blocked:
        done = CliRunner().invoke(cli, words)

        assert done.exit_code == 1, done.output
    done = CliRunner().invoke(cli, approved[1:])

    assert done.exit_code == 0, done.output
    assert "APPROVED." in done.output
    assert Path("audit.html").exists()


def test_what_one_is_to_try_leaves_nothing_that_git_would_take() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()

    assert {"*.key", "/deploy/examples/audit/*.html"} <= set(ignored)
    assert "/deploy/examples/audit/signed_today.toml" in ignored


def test_the_row_shown_is_a_row_of_the_example() -> None:
    (shown,) = re.findall(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    lines = (EXAMPLES / "ten_pairs.jsonl").read_text().splitlines()

    assert json.loads(shown) in [json.loads(line) for line in lines]
    typed_row(Path("page"), 1, json.loads(shown), ResultFields)


def test_every_json_key_is_told() -> None:
    found = json.loads(as_json.render(made.COMPARED))
    (part, *_) = found["baseline"]["parts"]

    assert first_cells(section("Formats")) == set(found)
    assert '`"format": 1`' in section("Formats")
    (told,) = re.findall(r"^A part has (.*?)\.", section("Formats"), re.DOTALL | re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", told)) == set(part) - {"name", "pairs", "flips_withheld"}
    (row,) = re.findall(r"^\| `comparison`, `held_out_comparison` \| (.*) \|$", PAGE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == set(found["comparison"])


def test_every_requirement_direction_stage_and_cause_is_told() -> None:
    assert first_cells(section("The release decision")) == {*Requirement}
    words = set(re.findall(r"`(\w+)`", section("How to read the report")))
    assert {*FlipDirection, *FlipStage, *FlipCause} - {FlipStage.NO_OBSERVED_FLIP} <= words


def test_sentences_and_numbers_are_the_programs() -> None:
    assert REPAIRED_SENTENCE[:-1].lower() in PAGE.replace("\n   ", " ").lower()
    assert f"**Terminal**: {PIPED_WIDTH} columns" in PAGE
    assert MIN_CALIBRATION == 10
    assert "Fewer than ten replies in a score band are insufficient" in PAGE


def test_the_counts_shown_are_the_example() -> None:
    (shown,) = re.findall(r"^```csv\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)

    assert shown == (EXAMPLES / "counts.csv").read_text()


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


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\((?!http)([^)]+)\)", PAGE))))
def test_every_link_leads_somewhere(link: str) -> None:
    assert (ROOT / "deploy" / "docs" / link.partition("#")[0]).exists()
