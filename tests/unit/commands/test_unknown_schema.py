"""A database of a newer program: every command ends with one line, without a word of migrating."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from monitor.cli import cli
from monitor.commands import check
from monitor.commands.run import run_until_stopped
from monitor.commands.starting import StopSignal
from monitor.errors import StoreError
from monitor.store import database

ROOT = Path(__file__).parents[3]
SETTINGS = ROOT / "deploy" / "examples" / "ten_pairs.toml"
NEWER = (
    f"the database has schema 9999, which this program (schema {database.head_revision()}) does"
    " not know: use the newer slicewatch that made it"
)
TOLD = {"9999": NEWER}
COMMANDS = (
    "db status", "db migrate", "db forget x", "db dead-letters", "db drop-key 1", "db prune",
    "db resume-from t 0 1 --reason r", "db exclude --list", "incident list",
    "incident show 1", "probe status",
)  # fmt: skip


@pytest.fixture(params=TOLD)
def schema(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def told(schema: str) -> str:
    return TOLD[schema]


@pytest.fixture
def environment(tmp_path: Path, schema: str) -> dict[str, str]:
    file = tmp_path / "store.db"
    engine = database.create_engine(f"sqlite:///{file}")
    database.migrate(engine)
    engine.dispose()
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [schema])
    connection.close()
    return {
        "SLICEWATCH__STORE__URL": f"sqlite:///{file}",
        "SLICEWATCH__PRIVACY__ID_KEY": "a-key-of-a-test-that-is-long-enough",
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_so_and_never_advises_to_migrate(
    environment: dict[str, str], told: str, command: str
) -> None:
    runner = CliRunner(env=environment)
    done = runner.invoke(cli, [*command.split(), "-s", str(SETTINGS)], standalone_mode=False)
    assert isinstance(done.exception, StoreError)
    assert str(done.exception) == told


def test_the_service_and_replay_say_so(
    environment: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(StopSignal, "listen", lambda _: None)  # the signals are pytest's
    for parts in ({}, {"serve": False}, {"ingest": False}):
        with pytest.raises(StoreError, match=re.escape(told)):
            run_until_stopped(SETTINGS, None, **parts)
    lines = tmp_path / "decisions.jsonl"
    lines.touch()
    done = CliRunner().invoke(
        cli, ["replay", f"decisions={lines}", "-s", str(SETTINGS)], standalone_mode=False
    )
    assert str(done.exception) == told


def test_check_says_so(
    environment: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "_topics", lambda _: iter(()))
    arguments = ["check", "--connect", "-s", str(SETTINGS)]
    done = CliRunner(env=environment).invoke(cli, arguments, standalone_mode=False)
    assert str(done.exception) == f"1 of the checks failed: {told}"


def test_as_a_process_it_is_one_line_and_exit_code_2(
    environment: dict[str, str], told: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "monitor", "db", "migrate", "-s", str(SETTINGS)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"slicewatch: {told}\n")
