"""The README keeps its word: commands, metrics, files and worked examples exist as shown."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from consumers.events import Decision
from consumers.producing import Message
from monitor.cli import cli
from monitor.commands.audit import command as audit
from monitor.commands.replay import command as replay

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
EXAMPLES = ROOT / "deploy" / "examples"
DOCS = ROOT / "deploy" / "docs"
MOST_LINES = 160
"""So that a newcomer reads all of it; the rest is for the pages it links."""


def shown_in(page: str) -> str:
    """The first text that a page shows as a program's output."""
    (text, *_) = re.findall(r"```text\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return str(text)


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= MOST_LINES


def test_every_command_is_there_and_has_an_example() -> None:
    named = set(re.findall(r"`slicewatch ([a-z]+)", README))
    listed = set(cli.list_commands(None))  # type: ignore[arg-type]
    assert named == listed
    for name in listed:
        found = CliRunner().invoke(cli, [name, "--help"])
        assert found.exit_code == 0
        assert "Example:" in found.output, name


def test_five_statements_send_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those for a router in Python, with a transport that keeps what it is given."""
    sent: list[bytes] = []

    class Keeping:
        def send(self, messages: Sequence[Message]) -> int:
            sent.extend(message.value for message in messages)
            return len(messages)

        def close(self) -> None:
            """There is no connection."""

    monkeypatch.setattr("consumers.producing.http", lambda url: Keeping)
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(ast.parse(code).body) == 5
    exec(code, {})
    (decision,) = sent
    msgspec.json.decode(decision, type=Decision)


def test_the_table_shown_is_what_replay_prints(tmp_path: Path) -> None:
    arguments = [
        *("--settings", str(EXAMPLES / "ten_pairs.toml"), "--summary"),
        str(EXAMPLES / "ten_pairs_decisions.jsonl"),
        str(EXAMPLES / "ten_pairs_labels.jsonl"),
    ]
    environment = {"SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/store.db"}
    printed = CliRunner(env=environment).invoke(replay, arguments, standalone_mode=False)
    lines = "\n".join(line.rstrip() for line in printed.stdout.splitlines())
    parts = shown_in("index.md").split("...\n")
    assert len(parts) == 4
    for part in parts:
        assert part.rstrip("\n") in lines


def test_the_excerpt_of_the_audit_is_what_it_prints() -> None:
    arguments = [str(EXAMPLES / "audit" / "ten_pairs.jsonl"), "--settings"]
    arguments.append(str(EXAMPLES / "audit" / "audit.toml"))
    printed = CliRunner().invoke(audit, arguments)
    lines = "\n".join(line.rstrip() for line in printed.stdout.splitlines())
    shown = shown_in("before-a-release.md")

    assert printed.exit_code == 1
    assert len(shown.split("...\n")) == 3
    for part in shown.split("...\n"):
        assert part.rstrip("\n") in lines
