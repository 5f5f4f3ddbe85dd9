"""Runs a command and ends what it started, however it was interrupted.

    python leave_nothing.py pytest tests

Tests start brokers, databases and services. An interrupted run of pytest kills its workers before
they can stop these. The kernel hands every orphan below this process to this process (it is a
"subreaper"), so none can escape by a session or parent of its own. When the command has ended, all
that is left is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

import psutil

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
GRACE_SECONDS = 5.0
"""Servers that remove shared memory when they are asked to end get this long."""


def run(command: Sequence[str]) -> int:
    """Return the command's exit code, after ending every process that it left behind."""
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    # A job in the background of a script starts with this signal ignored, and pytest would be, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command)

    def interrupt(*_: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGINT)

    # The terminal sends Ctrl-C to pytest itself, too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    code = process.returncode = _reap_until_the_end_of(process.pid)
    end_descendants()
    return code if code >= 0 else 128 - code


def _reap_until_the_end_of(pid: int) -> int:
    """Return the exit code of a child, and let no orphan stay a zombie until then.

    Tests wait for processes whose parent was killed to be gone.
    """
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def end_descendants() -> None:
    """Terminate all processes below this one, and kill those that do not end in time."""
    left = psutil.Process().children(recursive=True)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    psutil.wait_procs(left, GRACE_SECONDS)
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.kill()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
