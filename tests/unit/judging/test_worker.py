"""The worker's order: judge, write, commit; and what it does when it may not go on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from consumers.events import Decision
from monitor.errors import SourceError
from monitor.judging import worker as judging_worker
from monitor.judging.decisions import decision
from monitor.judging.judge_protocol import BudgetSpentError, JudgeAwayError, StoppedError
from monitor.judging.output_events import Judgement, ModelOutput, encode
from monitor.judging.prompt import Prompt
from monitor.judging.worker import JudgingTerms, Worker

PROMPT = Prompt({})


def message(i: int, **more: object) -> bytes:
    return json.dumps(
        {"output_id": i, "produced_at": 1_760_000_000_000 + i, "output": f"text {i}"} | more
    ).encode()


@dataclass
class Memory:
    """Topics in memory; notes the order of what is asked of them."""

    values: Sequence[bytes | None]
    stop: threading.Event
    done: list[str] = field(default_factory=list)
    judgements: list[dict[str, Any]] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    at: int = 0
    committed: int = 0

    def read(self, most: int) -> Sequence[bytes | None]:
        found = self.values[self.at : self.at + most]
        self.at += len(found)
        if not found:
            self.stop.set()
        return found

    def write(self, judgements: Iterable[tuple[bytes, bytes]]) -> None:
        self.done.append("write")
        self.judgements += [json.loads(value) for _, value in judgements]

    def write_decisions(self, decisions: Iterable[tuple[bytes, bytes]]) -> None:
        self.done.append("decide")
        self.decisions += [msgspec.json.decode(value, type=Decision) for _, value in decisions]

    def commit(self) -> None:
        self.done.append("commit")
        self.committed = self.at

    def rewind(self) -> None:
        self.done.append("rewind")
        self.at = self.committed


class Asked:
    """A judge that finds nothing, or fails in one of the ways at its n-th question."""

    name = "judge"

    def __init__(self, at: int = 0, error: Exception | None = None) -> None:
        self.questions, self._at, self._error = 0, at, error

    def ask(self, instructions: str, question: str) -> str:
        self.questions += 1
        if self.questions == self._at and self._error is not None:
            raise self._error
        return '{"findings": []}'


def run(
    values: Sequence[bytes | None], judge: Asked, plan: JudgingTerms
) -> tuple[Memory, Worker, list[str]]:
    stop, waits = threading.Event(), list[str]()
    stream = Memory(values, stop)
    worker = Worker(stream, judge, PROMPT, plan, stop, lambda: "now")
    worker.run(lambda: waits.append("waited"))
    return stream, worker, waits


PLAN = JudgingTerms(concurrency=2)


def test_judgements_are_written_before_offsets_are_committed() -> None:
    values = [message(0), b"{", message(2), message(3)]
    stream, worker, _ = run(values, Asked(), PLAN)
    assert stream.done == ["write", "commit"] * 2
    assert [one["status"] for one in stream.judgements] == [
        *("judged", "unreadable"),
        *("judged", "judged"),
    ]
    assert worker.counts == {"judged": 3, "unreadable": 1}
    assert stream.decisions == []


def test_a_tombstone_is_committed_and_not_judged() -> None:
    stream, worker, _ = run([None, None, None, message(3)], Asked(), PLAN)
    assert [one["output_id"] for one in stream.judgements] == [3]
    assert worker.counts == {"judged": 1}
    assert stream.committed == 4


def test_a_spent_budget_waits_and_reads_again() -> None:
    values = [message(i) for i in range(4)]
    stream, _, waits = run(values, Asked(3, BudgetSpentError()), PLAN)
    assert waits == ["waited"]
    assert stream.done == ["write", "commit", "rewind", "write", "commit"]
    assert [one["output_id"] for one in stream.judgements] == [0, 1, 2, 3]


class Away(Memory):
    """Topics of a broker that is away for some writes, or for good."""

    lost = 2

    def write(self, judgements: Iterable[tuple[bytes, bytes]]) -> None:
        self.done.append("lost" if self.lost else "tried")
        if self.lost:
            self.lost -= 1
            raise SourceError("no broker answers")
        super().write(judgements)


def test_results_wait_for_a_broker_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging_worker, "PAUSE_SECONDS", 0)
    stop = threading.Event()
    stream, judge = Away([message(i) for i in range(2)], stop), Asked()
    Worker(stream, judge, PROMPT, PLAN, stop, lambda: "now").run(stop.set)
    assert stream.done == ["lost", "lost", "tried", "write", "commit"]
    assert judge.questions == 2, "nothing is judged again"


def test_a_stop_while_outputs_are_judged_loses_no_judgement() -> None:
    stop = threading.Event()

    class Stopping(Asked):
        def ask(self, instructions: str, question: str) -> str:
            stop.set()
            return super().ask(instructions, question)

    stream = Memory([message(i) for i in range(2)], stop)
    Worker(stream, Stopping(), PROMPT, PLAN, stop, lambda: "now").run(stop.set)
    assert stream.done == ["write", "commit"]


def test_a_worker_stops_while_its_broker_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging_worker, "PAUSE_SECONDS", 30)
    stop = threading.Event()
    stream = Away([message(0)], stop)
    worker = Worker(stream, Asked(), PROMPT, PLAN, stop, lambda: "now")
    threading.Timer(0.2, stop.set).start()
    worker.run(stop.set)
    assert (stream.done, worker.trouble) == (["lost"], "no broker answers")


def test_a_stop_commits_nothing_of_its_batch() -> None:
    values = [message(i) for i in range(4)]
    stream, _, _ = run(values, Asked(3, StoppedError()), PLAN)
    assert stream.done == ["write", "commit"]
    assert stream.committed == 2


UNREADABLE = [
    (message(7, output=None, attributes={"channel": "chat"}), 7, "output is not", True),
    (message(7, output="", attributes={"channel": "chat"}), 7, "output is not", True),
    (message(7, output=" \n", attributes={"channel": "chat"}), 7, "output is blank", True),
    (b'{"output_id": 7, "output": "x"}', 7, "produced_at is missing", False),
    (message(7, attributes={"channel": ["chat"]}), 7, "attributes is not", False),
    (b'{"output": "x"}', None, "output_id is missing", False),
    (b"[" * 200_000, None, "not an object", False),
]


@pytest.mark.parametrize(("value", "output_id", "why", "decided"), UNREADABLE)
def test_what_cannot_be_read_keeps_its_name_and_slice_and_costs_nothing(
    value: bytes, output_id: int | None, why: str, decided: bool
) -> None:
    judge = Asked()
    stream, _, _ = run([value], judge, JudgingTerms(2, audit_p=0.5))
    (one,) = stream.judgements
    assert (one["status"], one.get("output_id")) == ("unreadable", output_id)
    assert why in one["why"]
    assert judge.questions == 0
    routes = [(event.route, event.attributes) for event in stream.decisions]
    assert routes == ([("blocked_by_evidence", {"channel": "chat"})] if decided else [])


def test_a_judge_that_is_away_fails_nothing_and_nothing_is_asked_twice() -> None:
    judge = Asked(2, JudgeAwayError("away"))
    stream, worker, waits = run([message(i) for i in range(4)], judge, PLAN)
    assert waits == ["waited"]
    assert stream.done == ["rewind", "write", "commit", "write", "commit"]
    assert [one["status"] for one in stream.judgements] == ["judged"] * 4
    assert judge.questions == 5
    assert worker.waits_for == ""


def test_decisions_carry_what_came_with_the_output() -> None:
    values = [message(0, attributes={"channel": "chat"}, model="m-1"), b"{"]
    stream, _, _ = run(values, Asked(), JudgingTerms(2, audit_p=0.5))
    assert stream.done == ["write", "decide", "commit"]
    (one,) = stream.decisions
    assert (one.decision_id, one.route, one.judge_score) == ("output-0", "auto_serve", 1.0)
    assert one.attributes == {"channel": "chat"}
    assert one.versions is not None
    assert (one.versions.judge, one.versions.router) == ("judge", "m-1")


def judgement(score: int | None, judge: str = "judge") -> Judgement:
    return Judgement(
        status="judged",
        judged_at="now",
        score=score,
        judge=judge,
        prompt_version="1",
        prompt_sha256="a" * 64,
    )


def test_labels_are_requested_as_stated_and_alike_every_time() -> None:
    outputs = [
        ModelOutput(output_id=i, produced_at=1_760_000_000_000, output="x") for i in range(20_000)
    ]
    made = [decision(o, judgement(100), audit_p=0.05) for o in outputs]
    again = [decision(o, judgement(100), audit_p=0.05) for o in outputs]
    assert made == again
    drawn = sum(b'"label_requested":true' in one for one in made) / len(made)
    assert drawn == pytest.approx(0.05, abs=4 * (0.05 * 0.95 / 20_000) ** 0.5)
    flagged = decision(outputs[0], judgement(80), audit_p=0.05)
    found = msgspec.json.decode(flagged, type=Decision)
    assert (found.route, found.audit_p, found.label_requested) == ("human_review", 1.0, True)


def test_what_could_not_be_judged_stays_in_the_denominator() -> None:
    output = ModelOutput(output_id="o", produced_at=1_760_000_000_000, output="x")
    event = decision(output, judgement(None), audit_p=0.05)
    blocked = msgspec.json.decode(event, type=Decision)
    assert (blocked.route, blocked.judge_score) == ("blocked_by_evidence", None)
    assert (blocked.evidence_passed, blocked.label_requested) == (False, False)


@pytest.mark.parametrize("name", ["org/model:7b", "m\u00f6del x", "-", "x" * 100])
def test_any_model_name_makes_a_version(name: str) -> None:
    output = ModelOutput(output_id="o", produced_at=1_760_000_000_000, output="x")
    made = decision(output, judgement(100, name), audit_p=1.0)
    assert msgspec.json.decode(made, type=Decision).versions is not None


def test_what_is_absent_is_not_written() -> None:
    text = encode(judgement(None)).decode()
    assert "null" not in text
    assert "score" not in text
