"""Where the CPU of a running service goes: samples of its stacks by py-spy, put into parts.

py-spy looks at the threads that run, from outside and in C too as far as Python called it; what
sleeps or waits for another thread is not there.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from measured import cpu_seconds

RATE = 100
"""Samples a second: at more the service is held up noticeably."""

PARTS = (
    ("start: imports", r"importlib\._bootstrap|<frozen importlib"),
    ("start: settings, migrations", r"/alembic/|monitor/(settings|composition|cli|commands)"),
    ("Kafka client", r"/kafka/|/confluent_kafka/|consumers/sources/"),
    ("decode and code", r"consumers/(codec|coder|events|mapping|unknown_fields|\w*columnar)"),
    ("probes' signatures", r"consumers/probe_signing|monitor/core/probes/decisions"),
    ("copies", r"consumers/dedupe"),
    ("shard: time, deltas, units", r"consumers/(?!ingest)"),
    ("labels: join", r"store/ingest/join|store/ingest/\w*(label|wait|match)"),
    ("pending decisions", r"store/ingest/pending"),
    ("rest of a flush", r"store/ingest/|monitor/store/(deltas|bulk)"),
    ("evaluate: detection", r"monitor/detection/|evaluate/(detect|incidents|cohorts)"),
    ("evaluate: tables", r"evaluate/tables/|core/tables/"),
    ("evaluate: rates and rows", r"evaluate/publish/|core/publish/|core/rates/|core/intervals"),
    ("evaluate: fold and store", r"monitor/evaluate/|store/evaluator/"),
    ("rendering", r"alerts/exposition/"),
    ("HTTP", r"alerts/http/|/uvicorn/|/starlette/|monitor/web/"),
    ("loop of ingest", r"consumers/ingest"),
)
"""Parts by the innermost frame that is of one: a library belongs to whoever called it."""
REST = "rest"
NATIVE = "Kafka client: threads of librdkafka"
_WAITS = re.compile(r"/(threading|selectors|queue|http/responses)\.py:\d+\)$")
"""Innermost frames that wait; py-spy sometimes takes them for running."""

_RULES = tuple((name, re.compile(pattern)) for name, pattern in PARTS)


class Sampling:
    """py-spy on a process, until :meth:`parts`."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._pid = pid
        self._path = folder / "stacks.txt"
        words = f"py-spy record --format raw --full-filenames --rate {RATE} --output {self._path}"
        self._sampler = subprocess.Popen(
            [*words.split(), "--pid", str(pid)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def parts(self, cpu: float) -> dict[str, float]:
        """Stop, and return CPU seconds by part, the largest first; together ``cpu``."""
        native = native_seconds(self._pid)
        self._sampler.send_signal(signal.SIGINT)
        self._sampler.wait(60)
        samples = sorted_parts(self._path.read_text().splitlines())
        each = (cpu - native) / samples.total()
        parts = {name: each * count for name, count in samples.items()}
        parts |= {NATIVE: native} if native else {}
        return dict(sorted(parts.items(), key=lambda part: -part[1]))


def native_seconds(pid: int) -> float:
    """CPU seconds of librdkafka's threads, which no Python stack shows."""
    names = [path for path in Path(f"/proc/{pid}/task").iterdir() if _is_native(path)]
    return sum(cpu_seconds(f"{pid}/task/{path.name}") for path in names)


def _is_native(task: Path) -> bool:
    return (task / "comm").read_text().startswith("rdk:")


def sorted_parts(stacks: Iterable[str]) -> Counter[str]:
    """Samples by part, of py-spy's lines: frames from the outermost on, and their number.

    Example:
        >>> sorted_parts(["run (/x/consumers/ingest.py:1);decode (/x/msgspec/json.py:2) 3"])
        Counter({'loop of ingest': 3})
    """
    found: Counter[str] = Counter()
    for line in stacks:
        stack, _, count = line.rpartition(" ")
        if _WAITS.search(stack):
            continue
        found[part_of(stack)] += int(count)
    return found


def part_of(stack: str) -> str:
    """The part that one stack belongs to."""
    for frame in reversed(stack.split(";")):
        for name, rule in _RULES:
            if rule.search(frame):
                return name
    return REST
