"""What processes cost: CPU seconds of all their threads, wall time, and peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LOOK_SECONDS = 0.05
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """Cost of a process.

    Attributes:
        cpu: seconds of CPU, in all threads, of user and system.
        starting: those until its libraries were imported and it could begin; 0 if not known.
        wall: seconds by the clock.
        megabytes: most that were resident.
    """

    cpu: float
    starting: float
    wall: float
    megabytes: float


def cpu_seconds(pid: int | str) -> float:
    """CPU seconds that a running process took so far, in all threads, of user and system.

    Of one thread: ``PID/task/THREAD``.
    """
    # Behind the name of the program, which may have spaces and brackets.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def waited_seconds(pid: int) -> float:
    """Seconds that the threads of a process could have run while others had the cores."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[1]) for task in tasks) / 1e9


def peak_megabytes_of(pid: int) -> float:
    """Most memory that a running process had resident."""
    return _megabytes_of(pid, "VmHWM:")


def resident_megabytes_of(pid: int) -> float:
    """Memory that a running process has resident now."""
    return _megabytes_of(pid, "VmRSS:")


def _megabytes_of(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return 0.0


def run_measured(arguments: Sequence[str]) -> tuple[dict[str, int], Usage]:
    """Run a Python program that prints one line of JSON; returns it, and what it cost.

    Its ``peak_kb`` is the memory: what the kernel says of a child includes its parent's. Its
    ``starting_ms`` is CPU.
    """
    began = time.perf_counter()
    child = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE)
    assert child.stdout is not None
    output = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stdout.close()
    assert child.returncode == 0, f"{arguments} ended with {child.returncode}"
    found: dict[str, int] = json.loads(output)
    wall = time.perf_counter() - began
    starting, megabytes = found.pop("starting_ms") / 1000, found.pop("peak_kb") / 1024
    return found, Usage(used.ru_utime + used.ru_stime, starting, wall, megabytes)


def run_watched(command: Sequence[str], environment: Mapping[str, str], output: Path) -> Usage:
    """Run any program, and look at its memory while it runs; its start is not told apart."""
    began, megabytes = time.perf_counter(), 0.0
    with output.open("ab") as file:
        child = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    ended, status, used = os.wait4(child.pid, os.WNOHANG)
    while not ended:
        megabytes = max(megabytes, peak_megabytes_of(child.pid))
        time.sleep(LOOK_SECONDS)
        ended, status, used = os.wait4(child.pid, os.WNOHANG)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, f"{command} ended with {child.returncode}: {output.read_text()}"
    wall = time.perf_counter() - began
    return Usage(used.ru_utime + used.ru_stime, 0.0, wall, megabytes)
