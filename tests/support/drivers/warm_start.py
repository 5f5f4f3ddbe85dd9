"""Processes of the product without the second and a half that each start of Python costs.

They are processes of their own in all that a test can see: id, signals, exit code, environment,
folder, streams. Only the imports were made before, once for all by :mod:`warm_server`, and the
seed of hashes is the same for all. ``SLICEWATCH_COLD_STARTS=1`` starts each with an interpreter of
its own, and so do the tests of start-up, memory and packaging.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

MONITOR = ("-m", "monitor")
COLD = os.environ.get("SLICEWATCH_COLD_STARTS") == "1" or sys.platform != "linux"
_READ_AT_THE_START = ("PYTHON", "OPENBLAS", "OMP_", "MKL_", "LD_", "MALLOC_", "LC_", "LANG")


class WarmProcess:
    """What ``subprocess.Popen`` offers of a process, for one that the server started.

    Attributes:
        args: program and arguments.
        pid: process id.
        returncode: of the end, negative for a signal; None until it was asked for and is there.
    """

    def __init__(self, args: Sequence[str], told: int) -> None:
        self.args = [*args]
        self._told = told
        self._lock = threading.Lock()
        self.pid = int(self._line())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code; TimeoutExpired when it does not come."""
        found = self._ended(timeout)
        if found is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return found

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing when it has ended, of which we may not have heard yet."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has, and we are about to be told
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(15)

    def kill(self) -> None:
        self.send_signal(9)

    def _ended(self, seconds: float | None) -> int | None:
        with self._lock:
            if self.returncode is None:
                listening = select.poll()
                listening.register(self._told, select.POLLIN)
                if listening.poll(None if seconds is None else seconds * 1000):
                    self.returncode = int(self._line())
                    os.close(self._told)
            return self.returncode

    def _line(self) -> str:
        read = b""
        while not read.endswith(b"\n"):
            more = os.read(self._told, 1)
            assert more, "the server of starts was killed"
            read += more
        return read.decode()


Process = WarmProcess | subprocess.Popen[bytes]


def start(
    program: Sequence[str],
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdout: IO[bytes],
    stderr: IO[bytes],
) -> Process:
    """Start ``-m module``, ``-c text`` or a script with nothing to read."""
    args = [sys.executable, *program, *arguments]
    if COLD or _early(env) != _early(os.environ):
        return subprocess.Popen(
            args, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
        )
    request = {
        "program": [*program],
        "arguments": [*arguments],
        "folder": str(cwd),
        "environment": dict(env),
    }
    mine, theirs = os.pipe()
    with open(os.devnull, "rb") as nothing:
        streams = [nothing.fileno(), stdout.fileno(), stderr.fileno()]
        socket.send_fds(_server(), [json.dumps(request).encode()], [*streams, theirs])
    os.close(theirs)
    return WarmProcess(args, mine)


def run(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command of slicewatch to its end; returns its exit code and what it printed."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = start(MONITOR, arguments, cwd=cwd, env=env, stdout=output, stderr=errors)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        printed = []
        for stream in (output, errors):
            stream.seek(0)
            printed.append(stream.read().decode())
    return subprocess.CompletedProcess([*arguments], code, *printed)


def _early(environment: Mapping[str, str]) -> dict[str, str]:
    """What an interpreter or a library reads before the program runs."""
    return {k: v for k, v in environment.items() if k.startswith(_READ_AT_THE_START)}


@cache
def _server() -> socket.socket:
    """The connection to the server of this process; it ends with us."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    script = str(Path(__file__).with_name("warm_server.py"))
    with theirs:
        process = subprocess.Popen(
            [sys.executable, script, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    atexit.register(_end, ours, process)
    return ours


def _end(server: socket.socket, process: subprocess.Popen[bytes]) -> None:
    server.close()
    process.wait()
