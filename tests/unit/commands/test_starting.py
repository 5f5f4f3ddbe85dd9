"""Stop signals, from the start on: a clean end, whatever a command waits for."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from textwrap import dedent

import pytest
from programs import catches

from monitor.commands.starting import STOP_SIGNALS, StopSignal, uninterrupted

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[3]
SETTINGS = ROOT / "deploy" / "examples" / "ten_pairs.toml"
SECONDS = 60.0
"""A busy machine may take them for the imports. Whoever does not hear the signal fails later, as
brokers and databases are waited for in vain, or never ends."""


@contextmanager
def starting(
    folder: Path, *, settings: Path = SETTINGS, command: str = "run", broker: str = "127.0.0.1:1"
) -> Iterator[subprocess.Popen[str]]:
    environment = {
        **os.environ,
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": broker,
        "SLICEWATCH__STORE__URL": f"sqlite:///{folder / 'store.db'}",
        "SLICEWATCH__PRIVACY__ID_KEY": "a-key-of-a-test-that-is-long-enough",
        "SLICEWATCH__SERVER__LISTEN": "127.0.0.1:0",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "monitor", command, "-s", str(settings)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def stopped(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> None:
    """Stop it; it must end well and with one line at most."""
    process.send_signal(number)
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (0, ""), err
    assert len(err.splitlines()) <= 1, err
    assert "Traceback" not in err


def until(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", STOP_SIGNALS)
@pytest.mark.parametrize("delay", [0.0, 0.3, 1.0])
def test_while_a_broker_does_not_answer(tmp_path: Path, delay: float, number: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker:
        address = f"127.0.0.1:{broker.getsockname()[1]}"
        with starting(tmp_path, broker=address) as process:
            broker.settimeout(SECONDS)
            with broker.accept()[0]:
                time.sleep(delay)
                stopped(process, number)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="sees signal handlers in /proc")
@pytest.mark.parametrize("delay", [0.0, 0.2, 0.4, 0.8])
def test_at_any_moment_from_the_imports_on(tmp_path: Path, delay: float) -> None:
    with starting(tmp_path, command="ingest") as process:
        until(lambda: catches(process.pid, signal.SIGTERM))
        time.sleep(delay)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=SECONDS)
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 1
    # It may have found meanwhile that nobody is at the broker's address.
    assert process.returncode == 0 or "no Kafka broker can be reached" in err


def test_while_settings_load(tmp_path: Path) -> None:
    settings = tmp_path / "slicewatch.toml"
    os.mkfifo(settings)
    with starting(tmp_path, settings=settings) as process:
        writer = os.open(settings, os.O_WRONLY)  # returns when it reads
        try:
            stopped(process)
        finally:
            os.close(writer)


@pytest.mark.parametrize("number", STOP_SIGNALS)
@pytest.mark.parametrize("command", ["backtest", "check"])
def test_a_command_that_is_stopped_says_so_in_one_line(
    tmp_path: Path, command: str, number: int
) -> None:
    settings = tmp_path / "slicewatch.toml"
    os.mkfifo(settings)
    with starting(tmp_path, settings=settings, command=command) as process:
        writer = os.open(settings, os.O_WRONLY)  # returns when it reads
        try:
            while process.poll() is None:  # to the last moment of its exit
                process.send_signal(number)
                time.sleep(0.005)
            out, err = process.communicate(timeout=SECONDS)
        finally:
            os.close(writer)
    assert (process.returncode, out) == (128 + number, "")
    assert err == "slicewatch: stopped before it was done\n"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="sees signal handlers in /proc")
@pytest.mark.parametrize("command", ["backtest", "judge"])
def test_a_signal_during_the_imports_is_no_failure_of_the_program(
    tmp_path: Path, command: str
) -> None:
    with starting(tmp_path, command=command) as process:
        until(lambda: catches(process.pid, signal.SIGTERM))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    assert "Traceback" not in err
    assert out == ""
    assert len(err.splitlines()) <= 1


def test_what_ignores_hang_ups_still_does() -> None:
    program = (
        "import os, signal\n"
        "from monitor.commands.starting import end_when_stopped\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "end_when_stopped()\n"
        "os.kill(os.getpid(), signal.SIGHUP)\n"
        "print('goes on')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "goes on\n"


def test_a_file_is_written_whole_although_a_signal_comes() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            assert came == []
        assert came == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("command", ["run", "serve"])
def test_while_the_database_is_locked(tmp_path: Path, command: str) -> None:
    file = tmp_path / "store.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("BEGIN EXCLUSIVE")
        with starting(tmp_path, command=command) as process:
            until(lambda: holds_open(process, file))
            time.sleep(0.3)
            stopped(process)
        other.execute("ROLLBACK")


def holds_open(process: subprocess.Popen[str], file: Path) -> bool:
    handles = Path(f"/proc/{process.pid}/fd")
    if not handles.exists():
        return True
    with suppress(FileNotFoundError):  # closed since they were listed
        return any(os.readlink(one) == str(file) for one in handles.iterdir())
    return False


def test_a_stop_that_hangs_is_ended_and_shows_where(tmp_path: Path) -> None:
    """The thread that hangs here holds a lock that the main thread waits for, for good."""
    program = """
        import threading
        from monitor.commands import starting

        starting.LONGEST_STOP = 1.0
        lock, signals = threading.Lock(), starting.StopSignal()
        signals.listen()
        signals.call(lock.acquire)
        lock.acquire()
        print("runs", flush=True)
        lock.acquire()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", dedent(program)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "runs\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert "in <module>" in err


def test_what_fails_at_the_start_is_raised_and_what_is_made_is_given() -> None:
    def fail() -> None:
        raise ValueError("as it was")

    assert StopSignal().unless_asked(lambda: 7) == 7
    with pytest.raises(ValueError, match="as it was"):
        StopSignal().unless_asked(fail)


def test_the_first_signal_asks_and_the_second_hurries() -> None:
    stop = StopSignal()
    assert not stop.wait(0.0)
    assert stop.unless_asked(lambda: 7) == 7
    stop.ask(signal.SIGINT, None)
    assert stop.wait(3600)
    assert stop.unless_asked(lambda: 7) is None
    assert stop.unless_hurried(lambda: 7) == 7
    stop.ask(signal.SIGINT, None)
    assert stop.unless_hurried(lambda: time.sleep(3600)) is None
