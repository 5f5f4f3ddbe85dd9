"""An interrupted run of the tests leaves no process behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import leave_nothing
import psutil
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's subreaper")

WORKER = """
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN if sys.argv[2] == "stubborn" else signal.SIG_DFL)
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
time.sleep(600 if sys.argv[2] != "ends" else 0)
"""


def started(folder: Path, manner: str) -> tuple[subprocess.Popen[bytes], int]:
    """Return the supervisor of a program, and the id of the process which that has started."""
    written = folder / "pid"
    command = [sys.executable, "-c", WORKER, str(written), manner]
    supervisor = subprocess.Popen([sys.executable, leave_nothing.__file__, *command])
    while not (written.exists() and written.read_text()):
        assert supervisor.poll() is None or manner == "ends"
        time.sleep(0.01)
    return supervisor, int(written.read_text())


def test_what_a_finished_command_left_is_ended(tmp_path: Path) -> None:
    supervisor, orphan = started(tmp_path, "ends")
    assert supervisor.wait(30) == 0
    assert not psutil.pid_exists(orphan)


def test_a_terminated_run_ends_what_it_started(tmp_path: Path) -> None:
    supervisor, orphan = started(tmp_path, "ended by an interrupt")
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(30) == 128 + signal.SIGINT
    assert not psutil.pid_exists(orphan)


def test_a_killed_worker_leaves_nothing(tmp_path: Path) -> None:
    supervisor, orphan = started(tmp_path, "stubborn")
    psutil.Process(supervisor.pid).children()[0].kill()
    assert supervisor.wait(30) == 128 + signal.SIGKILL
    assert not psutil.pid_exists(orphan)
