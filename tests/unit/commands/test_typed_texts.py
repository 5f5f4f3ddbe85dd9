"""Free texts of the command line: one short line of plain text, and never repeated when refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner
from migrated import bring_to_head

from monitor.cli import cli
from monitor.errors import SlicewatchError

SETTINGS = Path(__file__).parents[3] / "deploy" / "examples" / "ten_pairs.toml"
RESUME = ("db", "resume-from", "{topic}", "0", "1", "--reason", "{reason}", "--clock", "{clock}")
EXCLUDE = (
    *("db", "exclude", "--from", "{from}", "--to", "{to}", "--version", "{version}"),
    *("--reason", "{reason}", "--owner", "{owner}"),
)
DROP = ("db", "drop-key", "{key}")
GOOD = {
    "topic": "decisions",
    "reason": "r",
    "clock": "2026-06-01T10:00Z",
    "from": "2026-06-01T10:00:00Z",
    "to": "2026-06-01T11:00:00Z",
    "version": "v",
    "owner": "o",
    "key": "2026",
}
FREE = [
    (RESUME, "topic", "TOPIC"),
    (RESUME, "reason", "--reason"),
    (RESUME, "clock", "--clock"),
    (EXCLUDE, "from", "--from"),
    (EXCLUDE, "version", "--version"),
    (EXCLUDE, "reason", "--reason"),
    (EXCLUDE, "owner", "--owner"),
    (DROP, "key", "KEY"),
]
ALL = pytest.mark.parametrize(("command", "field", "option"), FREE)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one version, which no refused command changes."""
    file = tmp_path_factory.mktemp("store") / "store.db"
    bring_to_head(f"sqlite:///{file}")
    with sqlite3.connect(file) as connection:
        connection.execute("INSERT INTO version (id, text) VALUES (1, 'v')")
    connection.close()
    return file


def refused(file: Path, command: tuple[str, ...], **other: str) -> str:
    arguments = [part.format(**{**GOOD, **other}) for part in command]
    runner = CliRunner(env={"SLICEWATCH__STORE__URL": f"sqlite:///{file}"})
    done = runner.invoke(cli, [*arguments, "-s", str(SETTINGS)], standalone_mode=False)
    assert isinstance(done.exception, SlicewatchError), done.output
    assert not done.output
    return str(done.exception)


@ALL
@pytest.mark.parametrize(
    "junk", ["\x1b[31mred", "two\nlines", "\x00", "\x9b1m", "a\u202eb", "\udc80"]
)
def test_control_characters_are_refused(
    file: Path, command: tuple[str, ...], field: str, option: str, junk: str
) -> None:
    assert refused(file, command, **{field: junk}) == f"{option} must be one line of plain text"


@ALL
def test_what_is_too_long_is_refused(
    file: Path, command: tuple[str, ...], field: str, option: str
) -> None:
    told = refused(file, command, **{field: "x" * 5000})
    assert told.startswith(f"{option} must have at most ")
    assert "xx" not in told


def test_a_reason_of_spaces_is_none(file: Path) -> None:
    assert refused(file, RESUME, reason=" ").startswith("--reason is missing")
    assert refused(file, EXCLUDE, reason=" ").startswith("--reason is missing")
