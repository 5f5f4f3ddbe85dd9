"""``slicewatch demo`` as a user runs it: the real service, a real broker, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest
from free_ports import free_port
from programs import catches
from prometheus_client.parser import text_string_to_metric_families

from monitor.demo.view import REGRESSED_SLICE, SYNTHETIC

SECONDS = 900  # to page the regression, at most; it takes forty, two at once on a busy machine 500
STOP_SECONDS = 60.0  # it must not hang; how long a stop takes is the machine's
EARLY = 3.0
FOR_EVER = 3600.0
SLOWED = """
import time
from consumers.ingest import Ingest
from monitor.__main__ import main
from monitor.service import Service

def slow(function, seconds):
    def slowly(*arguments, **named):
        time.sleep(seconds)
        return function(*arguments, **named)
    return slowly

Ingest._write = slow(Ingest._write, 0.2)
Service.evaluate_once = slow(Service.evaluate_once, {})
main()
"""
"""The command line on a machine that is slow to store and to evaluate."""

pytestmark = pytest.mark.usefixtures("tansu")  # skips where its program is not installed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the demo puts its temporary files; nothing else does."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


class Demo:
    """A demo in a process of its own."""

    def __init__(self, folder: Path, *arguments: str, evaluation: float = 0.0) -> None:
        self.port = free_port()
        program = ["-c", SLOWED.format(evaluation)] if evaluation else ["-m", "monitor"]
        options = ["demo", "--port", str(self.port), *arguments]
        self.process = subprocess.Popen(
            [sys.executable, *program, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"TMPDIR": str(folder)},
            text=True,
        )
        self.children: list[psutil.Process] = []

    def wait_for_port(self) -> None:
        deadline = time.monotonic() + 120
        while not _accepts(self.port):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        self.children = psutil.Process(self.process.pid).children(recursive=True)
        assert self.children, "the broker is a process of its own"

    def end(self, number: int | None = None) -> str:
        """What it printed; it must be gone soon after the signal."""
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=SECONDS + STOP_SECONDS)
        # On a busy machine a cycle may outlast the stop: the thread is abandoned, which is logged.
        said = [line for line in err.splitlines() if "did not stop in time" not in line]
        assert (self.process.returncode, said) == (0, [])
        return out

    def page(self) -> str:
        with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as answer:
            return str(answer.read().decode())


@pytest.fixture
def start(folder: Path) -> Iterator[Any]:
    started: list[Demo] = []

    def _start(*arguments: str, evaluation: float = 0.0) -> Demo:
        started.append(Demo(folder, *arguments, evaluation=evaluation))
        return started[-1]

    yield _start
    for demo in started:
        if demo.process.poll() is None:
            demo.process.kill()
        demo.process.communicate()


def assert_nothing_is_left(demo: Demo, folder: Path) -> None:
    assert not _accepts(demo.port)
    assert [child for child in demo.children if child.is_running()] == []
    assert list(folder.iterdir()) == []


@pytest.mark.full
@pytest.mark.timeout(2 * SECONDS + 240)
def test_the_regressed_slice_is_noticed_and_no_other_one(start: Any, folder: Path) -> None:
    demo = start("--json", "--seed", "7")
    slow = start("--json", "--seed", "7", evaluation=2.0)
    demo.wait_for_port()
    slow.wait_for_port()
    suspected = _wait_until_suspected(demo)
    _wait_until_paged(demo)
    shown = demo.page()
    found = json.loads(demo.end(signal.SIGINT))
    _wait_until_suspected(slow)
    _wait_until_paged(slow)
    slowly = json.loads(slow.end(signal.SIGINT))

    assert slowly["regression"] == found["regression"]
    assert slowly["one_simulated_day_seconds"] > 8 * 2.0
    _assert_everything_is_accounted_for(slowly)
    assert suspected == {(REGRESSED_SLICE, "tpr")}
    assert "kiosk" not in _with_numbers(shown)
    assert found["note"] == SYNTHETIC
    assert 0 < found["seconds_until_suspected"] < SECONDS
    assert list(found["suspected"]) == [REGRESSED_SLICE]
    assert 0 < found["seconds_until_paged"] < SECONDS
    assert [(one["metric"], one["slice"]) for one in found["incidents"]] == [
        ("tpr", REGRESSED_SLICE)
    ]
    assert found["suspected_wrongly"] == []
    _assert_everything_is_accounted_for(found)
    assert_nothing_is_left(demo, folder)


def _wait_until_suspected(demo: Demo) -> set[tuple[str, str]]:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        suspected = {
            (sample.labels["slice"], sample.labels["metric"])
            for family in text_string_to_metric_families(demo.page())
            for sample in family.samples
            if sample.labels.get("state") in ("suspected", "breach") and sample.value == 1
        }
        if suspected:
            return suspected
        time.sleep(0.5)
    pytest.fail("nothing was suspected")


def _wait_until_paged(demo: Demo) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if any(line.startswith("slicewatch_page{") for line in demo.page().splitlines()):
            return
        time.sleep(0.5)
    pytest.fail("nobody was paged")


def _with_numbers(page: str) -> str:
    """The page without the states, which list every declared value."""
    lines = page.splitlines()
    return "\n".join(line for line in lines if "state=" not in line and not line.startswith("#"))


def _assert_everything_is_accounted_for(found: dict[str, Any]) -> None:
    produced, consumed = found["produced"], found["consumed"]
    assert found["complete"] is True
    assert found["conserved"] is True
    assert consumed["messages"] == produced["messages"]
    assert consumed["events"] == produced["decisions"] + produced["labels"] + produced["bad"]
    assert sum(consumed["dead_letters"].values()) == produced["bad"] > 0
    assert consumed["duplicates"] + consumed["stale"] >= produced["repeated"] > 0
    assert consumed["unmatched"] == consumed["waiting"] == consumed["thinned"] == 0


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.full),
        pytest.param(signal.SIGHUP, marks=pytest.mark.full),
    ],
)
def test_a_signal_ends_it_at_once_and_nothing_is_left(
    start: Any, folder: Path, number: int
) -> None:
    demo = start()
    demo.wait_for_port()
    time.sleep(EARLY)
    began = time.monotonic()
    out = demo.end(number)
    assert time.monotonic() - began < STOP_SECONDS
    assert SYNTHETIC in out
    assert f"http://127.0.0.1:{demo.port}/metrics" in out
    assert_nothing_is_left(demo, folder)


@pytest.mark.parametrize(
    "seen", [pytest.param("the signals", marks=pytest.mark.full), "the folder", "the broker"]
)
def test_a_signal_while_it_starts_leaves_nothing(start: Any, folder: Path, seen: str) -> None:
    demo = start()
    process = psutil.Process(demo.process.pid)
    looks: dict[str, Callable[[], object]] = {
        "the signals": lambda: catches(demo.process.pid, signal.SIGTERM),
        "the folder": lambda: any(folder.iterdir()),
        "the broker": process.children,
    }
    _wait(looks[seen])
    demo.children = process.children(recursive=True)
    assert demo.end(signal.SIGINT) == ""
    assert_nothing_is_left(demo, folder)


@pytest.mark.parametrize(
    "signals",
    [pytest.param([signal.SIGINT], marks=pytest.mark.full), [signal.SIGINT, signal.SIGINT]],
)
def test_an_evaluation_that_does_not_end_keeps_nothing(
    start: Any, folder: Path, signals: list[int]
) -> None:
    demo = start(evaluation=FOR_EVER)
    demo.wait_for_port()
    time.sleep(EARLY)
    for number in signals[1:]:
        demo.process.send_signal(number)
        time.sleep(1.0)
    demo.end(signals[0])
    assert_nothing_is_left(demo, folder)


def _wait(seen: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_ends_by_itself(start: Any, folder: Path) -> None:
    demo = start("--for", "2", "--json")
    found = json.loads(demo.end())
    assert found["seconds"] < 2 + STOP_SECONDS
    _assert_nothing_was_lost(found)
    assert_nothing_is_left(demo, folder)


def _assert_nothing_was_lost(found: dict[str, Any]) -> None:
    assert found["conserved"] is True
    assert found["consumed"]["messages"] <= found["produced"]["messages"]


def test_a_port_that_is_taken_is_one_line(start: Any, folder: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        demo = start("--port", str(port), "--for", "5")
        _, err = demo.process.communicate(timeout=120)
    assert demo.process.returncode == 2
    assert err.startswith("slicewatch: ")
    assert str(port) in err
    assert len(err.splitlines()) == 1
    assert list(folder.iterdir()) == []


def test_help_has_an_example() -> None:
    command = [sys.executable, "-m", "monitor", "demo", "--help"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Example: slicewatch demo" in out
    for option in ("--for", "--json", "--seed", "--port", "--svg"):
        assert option in out


def _accepts(port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
