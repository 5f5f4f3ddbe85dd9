"""A router's producer: it never waits and never fails, whatever its transport does."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from consumers.producing import AuditSampler, Drawn, EventError, Message, Producer, Transport

WAIT = 30.0
DECISION: dict[str, Any] = {
    "decided_at": "2026-06-01T10:00:00Z",
    "route": "auto_serve",
    "evidence_passed": True,
    "attributes": {"channel": "chat"},
}

LABEL: dict[str, Any] = {
    "label_id": "l",
    "decision_id": 3,
    "decided_at": DECISION["decided_at"],
    "version": 1,
    "ready": True,
    "kind": "initial",
    "reason": "audit",
    "reviewer": "h",
    "labelled_at": "2026-06-01T11:00:00Z",
}


class Recorder:
    """Keeps what it is sent; refuses what it is told to; fails so many times first."""

    def __init__(self, failures: int = 0, refuses: Callable[[Message], bool] | None = None) -> None:
        self.messages: list[Message] = []
        self.connected = self.closed = 0
        self._failures = failures
        self._refuses = refuses or (lambda _: False)

    def connect(self) -> Transport:
        self.connected += 1
        return self

    def send(self, messages: Sequence[Message]) -> int:
        if self._failures:
            self._failures -= 1
            raise OSError("broker is away")
        good = [one for one in messages if not self._refuses(one)]
        self.messages += good
        return len(good)

    def close(self) -> None:
        self.closed += 1


class Stuck(Recorder):
    """Blocks for ever in ``send``, until the test ends."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.freed = threading.Event(), threading.Event()

    def send(self, messages: Sequence[Message]) -> int:
        self.entered.set()
        self.freed.wait()
        return len(messages)


class Gone(Recorder):
    """Has no topic of labels."""

    def send(self, messages: Sequence[Message]) -> int:
        if any(one.kind == "label" for one in messages):
            raise OSError("no such topic")
        return super().send(messages)


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    one = Stuck()
    yield one
    one.freed.set()


def decide(producer: Producer, name: object, **more: object) -> Drawn:
    return producer.decision(DECISION, decision_id=name, **more)


def sending_threads() -> list[threading.Thread]:
    """Those of all producers, perhaps also of a test before."""
    return [one for one in threading.enumerate() if one.name == "slicewatch"]


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """By producers: other tests may have left threads that say something."""
    return [one.message for one in caplog.records if one.name == "slicewatch.producing"]


def total(producer: Producer) -> int:
    counts = producer.counts
    return counts.sent + counts.failed + counts.dropped + counts.invalid + counts.waiting


def test_decisions_and_labels_are_sent_in_order_with_the_draw_filled_in() -> None:
    recorder, sampler = Recorder(), AuditSampler(auto_serve=0.5)
    with Producer(recorder.connect, sampler) as producer:
        drawn = [decide(producer, i) for i in range(200)]
        assert producer.label(LABEL)
    assert producer.counts.sent == total(producer) == 201
    decisions = [one for one in recorder.messages if one.kind == "decision"]
    assert [one.key for one in recorder.messages if one.kind == "label"] == [b"3"]
    for i, (message, one) in enumerate(zip(decisions, drawn, strict=True)):
        expected = sampler.draw(i, "auto_serve")
        assert one == Drawn(0.5, expected.label_requested, True)
        event = json.loads(message.value)
        assert (event["audit_p"], event["label_requested"]) == (0.5, expected.label_requested)
        assert message.key == str(i).encode()
    assert recorder.connected == recorder.closed == 2


def test_labels_whose_topic_is_gone_hold_up_no_decision() -> None:
    made: list[Gone] = []

    def connect() -> Transport:
        made.append(Gone())
        return made[-1]

    producer = Producer(connect, AuditSampler(0.5))
    assert producer.label(LABEL)
    for i in range(10):
        decide(producer, i)
    deadline = time.monotonic() + WAIT
    while producer.sent < 10 or len(made) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not producer.close(timeout=0.05)
    assert (producer.sent, producer.dropped) == (10, 1)
    for one in sending_threads():
        one.join(WAIT)
    assert {one.closed for one in made} == {1}, "each connection that failed is closed"


def test_a_transport_that_blocks_for_ever_blocks_nobody_and_what_is_lost_is_counted(
    stuck: Stuck,
) -> None:
    """Every call returns although nothing can be sent: had one waited, the test would not end."""
    producer = Producer(stuck.connect, AuditSampler(0.5), buffer=100)
    first = decide(producer, "first")
    assert first.buffered
    assert stuck.entered.wait(WAIT)
    drawn = [decide(producer, i) for i in range(1_000)]
    assert sum(one.buffered for one in drawn) == 99  # and the first, which is being sent
    assert all(not one.label_requested for one in drawn if not one.buffered)
    counts = producer.counts
    assert (counts.dropped, counts.waiting, counts.sent) == (901, 100, 0)
    assert not producer.close(timeout=0.05)
    assert (producer.dropped, producer.counts.waiting) == (1_001, 0)
    assert not decide(producer, "late").buffered
    assert total(producer) == 1_002


def test_what_is_written_after_it_was_given_up_is_not_counted_twice(stuck: Stuck) -> None:
    producer = Producer(stuck.connect, AuditSampler(0.5))
    decide(producer, "a")
    assert stuck.entered.wait(WAIT)
    assert not producer.close(timeout=0)
    threads = sending_threads()  # before it is freed: then it may end at once
    assert threads
    stuck.freed.set()
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()
    assert (producer.dropped, producer.sent) == (1, 0)


def test_a_broker_that_is_away_for_a_while_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(failures=3)
    with caplog.at_level(logging.WARNING, "slicewatch.producing"):
        producer = Producer(recorder.connect, AuditSampler(0.5))
        for i in range(50):
            decide(producer, i)
        assert producer.close(WAIT)
    assert [one.key for one in recorder.messages] == [str(i).encode() for i in range(50)]
    assert producer.counts.sent == total(producer) == 50
    assert said(caplog) == [
        "events cannot be sent, they wait: OSError",
        "events are being sent again",
    ]


def test_a_broker_that_is_away_at_the_start_fails_no_router() -> None:
    recorder, attempts = Recorder(), []

    def connect() -> Transport:
        attempts.append(1)
        if len(attempts) < 3:
            raise ConnectionRefusedError
        return recorder

    producer = Producer(connect, AuditSampler(0.5))
    decide(producer, 1)
    assert producer.close(WAIT)
    assert len(recorder.messages) == 1


def test_a_producer_that_is_closed_gives_up_a_broker_that_stays_away() -> None:
    recorder = Recorder(failures=1_000_000)
    producer = Producer(recorder.connect, AuditSampler(0.5))
    decide(producer, 1)
    assert not producer.close(timeout=0.05)
    for thread in sending_threads():
        thread.join(WAIT)
        assert not thread.is_alive()
    assert (producer.dropped, total(producer)) == (1, 1)


def test_what_the_broker_refuses_is_counted_as_failed() -> None:
    recorder = Recorder(refuses=lambda one: one.key == b"2")
    with Producer(recorder.connect, AuditSampler(0.5)) as producer:
        for i in range(5):
            decide(producer, i)
    assert (producer.sent, producer.failed, total(producer)) == (4, 1, 5)


class Broken:
    """An object of a team's own whose attribute raises, and says what it holds."""

    @property
    def route(self) -> str:
        raise RuntimeError("SENTINEL-7f3a")


@pytest.mark.parametrize(
    "call",
    [
        lambda p: p.decision(DECISION),
        lambda p: p.decision(DECISION, decision_id="SENTINEL-7f3a", route="SENTINEL-7f3a"),
        lambda p: p.decision(DECISION, decision_id=1, route=["SENTINEL-7f3a"]),
        lambda p: p.decision(DECISION, decision_id=1, scor=0.5),
        lambda p: p.decision(DECISION, decision_id=1, audit_p="0.5"),
        lambda p: p.decision(DECISION, decision_id=1, label_requested=True),
        lambda p: p.decision(object()),
        lambda p: p.decision(Broken()),
        lambda p: p.label(DECISION),
    ],
)
def test_a_wrong_event_breaks_no_router_and_is_counted_and_said_once(
    call: Callable[[Producer], Any], caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()
    with (
        caplog.at_level(logging.WARNING, "slicewatch.producing"),
        Producer(recorder.connect, AuditSampler(0.5)) as producer,
    ):
        for _ in range(3):
            assert call(producer) in (Drawn(None, False, False), False)
    assert recorder.messages == []
    assert (producer.invalid, total(producer)) == (3, 3)
    (message,) = said(caplog)
    assert message.startswith("not sent, and counted as invalid: ")
    assert "SENTINEL" not in message


def test_a_test_of_the_router_may_ask_for_the_error() -> None:
    with Producer(Recorder().connect, AuditSampler(0.5), strict=True) as producer:
        with pytest.raises(EventError, match="decision: route is not an allowed value"):
            decide(producer, 1, route="served")
        with pytest.raises(EventError, match="label: label_id is missing or null"):
            producer.label(decision_id=1)


def test_a_draw_of_the_team_s_own_is_sent_as_it_is() -> None:
    recorder = Recorder()
    with Producer(recorder.connect) as producer:
        assert decide(producer, 1, audit_p=0.2, label_requested=True) == Drawn(0.2, True, True)
        assert decide(producer, 2, audit_p=0.2) == Drawn(None, False, False)  # nobody draws
    sampler = AuditSampler(0.01)
    with Producer(recorder.connect, sampler) as producer:
        assert decide(producer, 3, audit_p=0.9) == Drawn(0.9, sampler.uniform(3) < 0.9, True)
        assert decide(producer, 4, audit_p=0.5, label_requested=False) == Drawn(0.5, False, True)


def test_many_threads_lose_nothing() -> None:
    recorder = Recorder()
    with Producer(recorder.connect, AuditSampler(0.5), buffer=100_000) as producer:

        def work(number: int) -> None:
            for i in range(500):
                decide(producer, f"{number}-{i}")

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len({one.key for one in recorder.messages}) == len(recorder.messages) == 4_000
    assert producer.counts.sent == total(producer) == 4_000


ROUTER = """
import os, sys
from consumers.producing import AuditSampler, Producer

class Told:
    def send(self, messages):
        for one in messages:
            os.write(1, one.key + b"\\n")
        return len(messages)
    def close(self):
        pass

producer = Producer(Told, AuditSampler(0.5))
def decide(name):
    return producer.decision(decision_id=name, decided_at="2026-06-01T10:00:00Z",
        route="auto_serve", evidence_passed=True, attributes={})
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ROUTER + script],
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )


def test_a_process_that_ends_without_closing_it_still_sends() -> None:
    done = run("decide('a')\n")
    assert (done.returncode, done.stdout) == (0, "a\n"), done.stderr


def test_workers_that_a_server_forks_send_for_themselves() -> None:
    done = run(
        "decide('parent')\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    decide('child')\n"
        "    ok = producer.close(10) and producer.counts.sent == 1\n"
        "    os._exit(0 if ok else 1)\n"
        "_, status = os.waitpid(child, 0)\n"
        "ok = producer.close(10) and producer.counts.sent == 1\n"
        "sys.exit(0 if ok and status == 0 else 1)\n"
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ["child", "parent"]


def test_a_router_that_is_killed_loses_what_was_in_its_buffer_and_nothing_else() -> None:
    """Half is sent before the transport blocks; then the process is killed."""
    done = run(
        "import threading, signal\n"
        "for i in range(3): decide(f'sent-{i}')\n"
        "while producer.sent < 3: pass\n"
        "Told.send = lambda self, messages: threading.Event().wait()\n"
        "for i in range(1000): assert decide(f'lost-{i}').buffered\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == ["sent-0", "sent-1", "sent-2"]


def test_nothing_heavy_is_imported() -> None:
    """Only msgspec and what Python brings: anything else is not to be had here."""
    script = (
        "import sys\n"
        "allowed = {*sys.stdlib_module_names, 'msgspec', 'consumers'}\n"
        "class Deny:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] not in allowed:\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Deny())\n"
        "before = {*sys.modules}\n"
        "from consumers.producing import *\n"
        "brought = {one.partition('.')[0] for one in {*sys.modules} - before}\n"
        "assert not brought & {'numpy', 'pandas', 'sqlalchemy', 'kafka', 'monitor'}, brought\n"
        "Producer(kafka_python('127.0.0.1:9'), AuditSampler(0.5)).close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == 0, done.stderr
