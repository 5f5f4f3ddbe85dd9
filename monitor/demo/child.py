"""Child processes that never outlive us: the demo leaves no process and no port behind."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import IO

from monitor.errors import SlicewatchError

# Runs in the child before the real program. The kernel then kills the program as soon as the
# thread that started it is gone, which covers `kill -9` of the parent. A pre-exec hook would do
# the same, but Python code between fork and exec can deadlock once the parent has threads.
_DIE_WITH_PARENT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL; survives the exec
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent was gone before the start")
os.execvp(sys.argv[2], sys.argv[2:])
"""

POLL_SECONDS = 0.02
PORT_ATTEMPTS = 50
# Below the range from which the kernel serves outgoing connections (32768 up): a client that
# keeps retrying a port of that range can connect to itself and so take it from the server.
PORTS = range(20_000, 32_000)


def start_child(command: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a program that dies with the calling thread, whatever happens to it.

    It gets a session of its own, so that Ctrl-C in the terminal reaches only the parent, which
    then stops its children in the right order. The kernel's guard exists on Linux only;
    elsewhere a hard kill of the parent leaves the child running.

    Args:
        command: program and arguments; the program is looked up in ``PATH``.
        output: receives what the program prints, both streams.
    """
    guard = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]
    full = [*guard, *command] if sys.platform == "linux" else list(command)
    return subprocess.Popen(  # noqa: S603  fixed programs, no shell
        full,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def stop_child(process: subprocess.Popen[bytes], grace: float) -> None:
    """Ask a child to end, kill it after ``grace`` seconds, and reap it; safe to call twice."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(timeout=grace)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until(
    process: subprocess.Popen[bytes], is_ready: Callable[[], bool], timeout: float
) -> bool:
    """Wait until a child is ready; False when it ended before it was.

    Raises:
        SlicewatchError: it is neither ready nor gone after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        ready = is_ready()
        if process.poll() is not None:  # then whatever looked ready is not ours
            return False
        if ready:
            return True
        time.sleep(POLL_SECONDS)
    raise SlicewatchError(f"child process {process.pid} is not ready after {timeout:.0f} s")


def port_accepts(port: int) -> bool:
    """Return True when something on this machine accepts connections on 127.0.0.1:``port``."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return True
    except OSError:
        return False


def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago: another process may still take it.

    Raises:
        SlicewatchError: no port could be bound.
    """
    for _ in range(PORT_ATTEMPTS):
        port = secrets.choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise SlicewatchError(f"no free port between {PORTS.start} and {PORTS.stop - 1}")
