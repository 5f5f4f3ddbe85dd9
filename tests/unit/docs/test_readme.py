"""The README keeps its word: commands, metrics, files and the worked example exist as shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from alerts.exposition.catalogue import CATALOGUE
from consumers.events import Decision, Label
from monitor.cli import cli
from monitor.commands.audit import command as audit
from monitor.commands.replay import command as replay

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
EXAMPLES = ROOT / "deploy" / "examples"
TEXTS = re.findall(r"```text\n(.*?)```", README, re.DOTALL)


def test_every_command_is_there_and_has_an_example() -> None:
    named = set(re.findall(r"`slicewatch ([a-z]+)", README))
    listed = set(cli.list_commands(None))  # type: ignore[arg-type]
    assert named == listed
    for name in listed:
        found = CliRunner().invoke(cli, [name, "--help"])
        assert found.exit_code == 0
        assert "Example:" in found.output, name


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\((?!http)([^)]+)\)", README))))
def test_every_linked_file_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_every_metric_is_in_the_catalogue() -> None:
    names = {family.name for family in CATALOGUE}
    for name in re.findall(r"`(slicewatch_[a-z_]+)`", README):
        assert name in names or f"{name}_total" in names, name


def test_the_events_shown_are_events() -> None:
    decision, label = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
    msgspec.json.decode(json.dumps(json.loads(decision)).encode(), type=Decision)
    msgspec.json.decode(json.dumps(json.loads(label)).encode(), type=Label)


def test_the_table_shown_is_what_replay_prints(tmp_path: Path) -> None:
    arguments = [
        *("--settings", str(EXAMPLES / "ten_pairs.toml"), "--summary"),
        str(EXAMPLES / "ten_pairs_decisions.jsonl"),
        str(EXAMPLES / "ten_pairs_labels.jsonl"),
    ]
    environment = {"SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/store.db"}
    printed = CliRunner(env=environment).invoke(replay, arguments, standalone_mode=False)
    _, shown = TEXTS
    lines = [line.rstrip() for line in printed.stdout.strip("\n").splitlines()]
    assert lines == shown.rstrip("\n").splitlines()


def test_the_excerpt_of_the_audit_is_what_it_prints() -> None:
    arguments = [str(EXAMPLES / "audit" / "ten_pairs.jsonl"), "--settings"]
    arguments.append(str(EXAMPLES / "audit" / "audit.toml"))
    printed = CliRunner().invoke(audit, arguments)
    lines = "\n".join(line.rstrip() for line in printed.stdout.splitlines())
    shown, _ = TEXTS

    assert printed.exit_code == 1
    assert len(shown.split("...\n")) == 4
    for part in shown.split("...\n"):
        assert part.rstrip("\n") in lines
