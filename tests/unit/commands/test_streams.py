"""Output on terminals that do not speak UTF-8, of every command, through the one way out."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from monitor.cli import cli, main

ROUTED = {"route": "auto_serve", "judge_score": 0.92, "threshold": 0.7, "evidence_passed": True}
EVENTS = [
    {
        **{"decision_id": f"d-{number}", "decided_at": "2026-06-01T10:05:00Z", **ROUTED},
        **{"attributes": {"channel": ("São Paulo", "Kraków")[number % 2]}, "audit_p": 0.05},
        "label_requested": False,
    }
    for number in range(60)
]
SETTINGS = """
[stream]
clock = "history"
[store]
url = "sqlite:///store.db"
[privacy]
id_key = "0123456789abcdef0123456789abcdef"
[[attribute]]
name = "channel"
values = ["São Paulo", "Kraków"]
[[use_case]]
name = "routing"
owner = "ops"
group_bys = [{ attributes = ["channel"] }]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "first"
"""
AUDIT = Path(__file__).parents[3] / "deploy" / "examples" / "audit"
ENCODINGS = {"ascii": "São Paulo", "iso8859-1": "São Paulo", "iso8859-5": "S\\xe3o Paulo"}
"""What each writes for a name: ASCII is UTF-8 by then, and the last one is Cyrillic."""
TWO_ENCODINGS = pytest.mark.parametrize(
    "encoding", ["ascii", pytest.param("iso8859-1", marks=pytest.mark.full), "iso8859-5"]
)


def run(monkeypatch: pytest.MonkeyPatch, encoding: str, *arguments: str) -> tuple[int, str, str]:
    """Exit code and both streams of a command on a terminal of an encoding."""
    out, error = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", error)
    monkeypatch.setattr(sys, "argv", ["slicewatch", *arguments])
    code = 0
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    said = []
    for stream in (out, error):
        stream.flush()
        said.append(stream.buffer.getvalue().decode(stream.encoding))
    return code, said[0], said[1]


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "slicewatch.toml").write_text(SETTINGS, encoding="utf-8")
    lines = "".join(json.dumps(event) + "\n" for event in EVENTS)
    (tmp_path / "decisions.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_command_can_say_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setenv("SLICEWATCH_SETTINGS", "São Paulo.toml")  # for the one that takes any option
    for path in commands(cli):
        code, _, error = run(monkeypatch, encoding, *path, "--São Paulo")
        assert (code, ENCODINGS[encoding] in error) == (2, True), path


@TWO_ENCODINGS
def test_tables_name_slices(monkeypatch: pytest.MonkeyPatch, folder: Path, encoding: str) -> None:
    files = ("--settings", str(folder / "slicewatch.toml"), str(folder / "decisions.jsonl"))
    code, out, error = run(monkeypatch, encoding, "replay", *files, "--summary")
    assert (code, ENCODINGS[encoding] in out) == (0, True), error


@TWO_ENCODINGS
def test_reports_name_what_is_compared_and_documents_are_utf_8(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, encoding: str
) -> None:
    for name in ("ten_pairs.jsonl", "audit.toml"):
        text = (AUDIT / name).read_text(encoding="utf-8").replace("conversational", "São Paulo")
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = ("audit", str(tmp_path / "ten_pairs.jsonl"), "-s", str(tmp_path / "audit.toml"))
    code, out, error = run(monkeypatch, encoding, *command)
    assert (code, ENCODINGS[encoding] in out) == (1, True), error
    run(monkeypatch, encoding, *command, "--json", "-")
    document = sys.stdout.buffer.getvalue()  # type: ignore[union-attr]
    assert "São Paulo" in json.dumps(json.loads(document.decode()), ensure_ascii=False)


def test_a_file_name_that_is_no_text_is_said_in_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the shell hands over a name in another encoding: half a surrogate pair for each byte."""
    code, _, error = run(monkeypatch, "utf-8", "check", "--settings", "S\udce3o.toml")
    assert (code, "S\\udce3o.toml" in error) == (2, True)
