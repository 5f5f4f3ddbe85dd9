"""Processes without imports of their own: all else is as if an interpreter had been started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from warm_start import MONITOR, start

SAYS = "import os, sys; print(sys.argv, os.getcwd(), os.environ['SAID'], sys.path[0], flush=True); "


def started(folder: Path, then: str) -> subprocess.CompletedProcess[str]:
    """A program that says where it is and does something else, ended by itself or by a signal."""
    log = folder / "log"
    with log.open("wb") as out:
        process = start(
            ("-c", SAYS + then),
            ["one", "two"],
            cwd=folder,
            env={**os.environ, "SAID": "hello"},
            stdout=out,
            stderr=out,
        )
        assert process.pid != os.getpid()
        return subprocess.CompletedProcess([], process.wait(60), log.read_text())


@pytest.mark.parametrize(
    ("then", "code", "last"),
    [
        ("pass", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('no')", 1, "no"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("import atexit; atexit.register(print, 'late')", 0, "late"),
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
        ("os.kill(os.getpid(), 15)", -signal.SIGTERM, ""),
    ],
)
def test_a_program_is_where_it_was_put_and_ends_as_it_does(
    tmp_path: Path, then: str, code: int, last: str
) -> None:
    done = started(tmp_path, then)
    first, *rest = done.stdout.splitlines()
    assert first == f"['-c', 'one', 'two'] {tmp_path} hello "
    assert done.returncode == code
    assert (rest or [""])[-1] == last


def test_it_is_waited_for_and_gets_signals(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as out:
        process = start(
            ("-c", "import time; time.sleep(600)"),
            [],
            cwd=tmp_path,
            env=os.environ,
            stdout=out,
            stderr=out,
        )
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == process.poll() == process.returncode == -signal.SIGTERM
        process.kill()  # of what has ended: nothing


def test_a_signal_may_come_between_its_end_and_the_word_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "log").open("wb") as out:
        process = start(("-c", "pass"), [], cwd=tmp_path, env=os.environ, stdout=out, stderr=out)
    assert process.wait(60) == 0
    monkeypatch.setattr(process, "poll", lambda: None)
    process.terminate()


@pytest.mark.parametrize("command", ["check", "db", "judge", "report"])
def test_an_interpreter_of_its_own_says_the_same(tmp_path: Path, command: str) -> None:
    """Those of the commands that other tests start only without one."""
    log = tmp_path / "log"
    with log.open("wb") as out:
        warm = start(
            MONITOR, [command, "--help"], cwd=tmp_path, env=os.environ, stdout=out, stderr=out
        )
        assert warm.wait(60) == 0
    cold = subprocess.run(
        [sys.executable, "-m", "monitor", command, "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert log.read_text() == cold.stdout
    assert f"monitor {command}" in cold.stdout
