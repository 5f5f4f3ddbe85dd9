"""Endpoints as they are in the field, through the real client and a real broker.

No output is lost, none is counted twice, none is silently absent, also where the worker is killed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hasty_judge import HastyJudge
from judge_settings import SETTINGS, environment_of
from kafka_broker import KafkaBroker
from openai_server import OpenAIServer, Reply, asked_about, completion, finding, findings
from running import Running

from monitor.judging.worker import CONCURRENCY
from monitor.settings.kinds import port_of

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
MOVED = b"HTTP/1.1 307 Moved\r\nLocation: /v1/elsewhere\r\nContent-Length: 0\r\n\r\n"
PASSAGE = "They say \u201cold people\u201d are slow."
FOUND = json.dumps({"findings": [finding(PASSAGE)]})


def error(status: int, message: str) -> Reply:
    return Reply(status, json.dumps({"error": {"message": message}}).encode())


def quoting(quote: str, times: int = 1, category: str = "age", **more: object) -> Reply:
    return findings(*[finding(quote, category, **more)] * times)


JUDGED = {
    "CLEAN": (findings(), 100),
    "PLAIN": (quoting(PASSAGE), 80),
    "FENCED": (completion(f"```json\n{FOUND}\n```"), 80),
    "THOUGHT": (completion(f"<think>{{}}</think>\n{FOUND}"), 80),
    "EXTRA": (completion(FOUND[:-1] + ', "note": "fine"}'), 80),
    "STRAIGHT": (quoting('They say "old people" are slow.'), 80),
    "CASE": (quoting("they say \u201cold people\u201d are slow."), 80),
    "ELLIPSIS": (quoting("They say ... are slow."), 80),
    "NUMBER": (quoting(PASSAGE, confidence="0.9"), 80),
    "THRICE": (quoting(PASSAGE, 3), 80),
    "UNSURE": (quoting(PASSAGE, confidence=0), 100),
}
FAILED = {
    "FILTER": error(400, "filtered by the content management policy"),
    "MODERATED": error(403, "requires moderation and your input was flagged"),
    "CREDIT": error(402, "insufficient credits"),
    "QUOTA": error(429, "you exceeded your current quota"),
    "BROKEN": error(500, "internal"),
    "DOWN": error(503, "overloaded"),
    "STOPPED": completion('{"findings": []}', finish="content_filter"),
    "CUT": completion('{"findings": []}', finish="length"),
    "REFUSAL": completion(None, refusal="I will not."),
    "SORRY": completion("I'm sorry, I can't help with that."),
    "INVENTED": quoting("Nobody said this."),
    "POLITICS": quoting(PASSAGE, category="politics"),
    "MANY": quoting(PASSAGE, 51),
    "HTML": Reply(body=b"<html>login</html>"),
    "NOTHING": Reply(body=b'{"choices": []}'),
    "NESTED": completion('{"findings": ' + "[" * 200_000),
    "HALF": Reply(pieces=(HEAD + b"Content-Length: 99\r\n\r\n{",)),
    "LONG": Reply(pieces=(HEAD + b"\r\n", *[b" " * (1 << 20)] * 700)),
    "TRICKLE": Reply(pieces=(HEAD + b"\r\n", *[b" "] * 40), pause=0.1),
    "SLOW": Reply(seconds=4.0),
    "MOVED": Reply(pieces=(MOVED,)),
}
AT_SECOND = {
    "HICCUP": error(500, "internal"),
    "BABBLE": completion("fine"),
    "CROWDED": error(429, "slow down"),
}
UNREADABLE: dict[str, dict[str, object]] = {
    "null": {"output": None},
    "missing": {},
    "empty": {"output": ""},
    "blank": {"output": " \n "},
    "number": {"output": 5},
}
SCORES = {name: score for name, (_, score) in JUDGED.items()} | dict.fromkeys(AT_SECOND, 100)
IDS = [*JUDGED, *AT_SECOND, *FAILED, *UNREADABLE]


def message(output_id: str) -> bytes:
    """One output; those that cannot be judged are all of one slice."""
    text = {"output": f"{output_id} {PASSAGE}"}
    good = output_id in {*JUDGED, *AT_SECOND}
    output = {
        "output_id": output_id,
        "produced_at": "2026-06-01T10:00:00Z",
        "attributes": {"language_variety": "formal" if good else "conversational"},
    }
    return json.dumps(output | UNREADABLE.get(output_id, text)).encode()


class Endpoint:
    """Refuses three parameters one by one; otherwise answers by the first word of the text."""

    def __init__(self) -> None:
        self.times = Counter[str]()

    def __call__(self, body: dict[str, Any]) -> Reply:
        for name in ("temperature", "response_format", "max_completion_tokens"):
            if name in body:
                return error(400, f"Unsupported parameter: {name!r}.")
        word = asked_about(body)["output"].split()[0]
        self.times[word] += 1
        if self.times[word] == 1 and word in AT_SECOND:
            return AT_SECOND[word]
        return FAILED.get(word) or JUDGED.get(word, JUDGED["CLEAN"])[0]


def judging(
    broker: KafkaBroker, name: str, folder: Path, server: OpenAIServer, outputs: list[str]
) -> Running:
    for topic in "ojd":
        broker.create_topic(f"{name}-{topic}", 1)
    broker.produce(f"{name}-o", [message(output_id) for output_id in outputs])
    environment = environment_of(broker, name, folder, server)
    running = HastyJudge(folder, ["judge", "--settings", str(SETTINGS)], environment)
    running.port = port_of(environment["SLICEWATCH__JUDGE__LISTEN"])
    return running


def read(broker: KafkaBroker, topic: str, least: int) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in broker.consume(topic, least)]


def test_every_output_becomes_a_decision_whatever_the_endpoint_answers(
    apache: KafkaBroker, topic_name: str, tmp_path: Path
) -> None:
    with OpenAIServer(Endpoint()) as server:
        worker = judging(apache, topic_name, tmp_path, server, IDS)

        def done() -> set[str]:
            written = sum(apache.end_offsets(f"{topic_name}-j").values())
            return {
                judgement["output_id"] for judgement in read(apache, f"{topic_name}-j", written)
            }

        with worker:
            worker.until(lambda: len(done()) >= len(IDS) // 2, "a half")
            worker.kill()
            worker.restart()
            worker.until(lambda: len(done()) == len(IDS), "all")
            assert worker.get("/readyz") == (200, "ok\n")
            failed = worker.value("slicewatch_judge_outputs_total", result="failed")
            assert worker.stop() == 0
        texts = [asked_about(body)["output"] for body in server.asked]
    judgements = read(apache, f"{topic_name}-j", len(IDS))
    times = Counter(judgement["output_id"] for judgement in judgements)
    assert set(times) == set(IDS)
    assert times.total() <= len(IDS) + CONCURRENCY, "at most a batch comes twice, after the kill"
    by_id = {judgement["output_id"]: judgement for judgement in judgements}
    for output_id, score in SCORES.items():
        assert (by_id[output_id]["status"], by_id[output_id]["score"]) == ("judged", score)
    for output_id in FAILED:
        assert (by_id[output_id]["status"], by_id[output_id].get("score")) == ("failed", None)
        assert by_id[output_id]["why"]
    for output_id in UNREADABLE:
        assert by_id[output_id]["status"] == "unreadable"
        assert "field output is" in by_id[output_id]["why"]
    assert 0 < (failed or 0) <= len(FAILED)
    assert all(text.strip() for text in texts), "blank outputs cost nothing"
    check_decisions(read(apache, f"{topic_name}-d", len(IDS)))


def check_decisions(decisions: list[dict[str, Any]]) -> None:
    """The slice whose outputs cannot be judged is blocked; it is not absent, and not clean."""
    routes = {event["decision_id"]: event["route"] for event in decisions}
    served = {100: "auto_serve", 80: "human_review", None: "blocked_by_evidence"}
    assert routes == {f"output-{name}": served[SCORES.get(name)] for name in IDS}
    assert {
        event["attributes"]["language_variety"]
        for event in decisions
        if event["route"] == "blocked_by_evidence"
    } == {"conversational"}


FAULTS: list[tuple[str, Callable[[], Reply]]] = [
    ("HTTP 503", lambda: error(503, "overloaded")),
    ("HTTP 429", lambda: error(429, "you exceeded your current quota")),
    ("cut off at 4000 tokens", lambda: completion("", finish="length")),
    ("cannot be used", lambda: completion("I found nothing.")),
]


@pytest.mark.full
def test_a_fault_of_the_endpoint_fails_no_output(
    apache: KafkaBroker, topic_name: str, tmp_path: Path
) -> None:
    """Outputs wait, /readyz and a metric say why, and the first good answer ends it."""
    state: dict[str, Callable[[], Reply]] = {"answer": FAULTS[0][1]}
    outputs = list(JUDGED)
    with OpenAIServer(lambda _: state["answer"]()) as server:
        worker = judging(apache, topic_name, tmp_path, server, outputs)
        with worker:
            for said, fault in FAULTS:
                state["answer"] = fault
                worker.until(lambda said=said: said in worker.get("/readyz")[1], said)  # type: ignore[misc]
                assert worker.value("slicewatch_judge_waiting") == 1
            assert apache.end_offsets(f"{topic_name}-j") == {0: 0}
            worker.kill()
            worker.restart()
            state["answer"] = findings
            worker.until(
                lambda: sum(apache.end_offsets(f"{topic_name}-j").values()) == len(outputs), "all"
            )
            worker.until(lambda: worker.get("/readyz") == (200, "ok\n"), "ready")
            assert worker.value("slicewatch_judge_waiting") == 0
            assert worker.value("slicewatch_judge_outputs_total", result="failed") == 0
            assert worker.stop() == 0
    judgements = read(apache, f"{topic_name}-j", len(outputs))
    assert [one["output_id"] for one in judgements] == outputs, "each once"
    assert {one["status"] for one in judgements} == {"judged"}


@pytest.mark.parametrize("status", [401, 404])
@pytest.mark.full
def test_only_a_person_mends_a_refused_key_or_model(
    apache: KafkaBroker, topic_name: str, tmp_path: Path, status: int
) -> None:
    with OpenAIServer(lambda _: error(status, "no")) as server:
        worker = judging(apache, topic_name, tmp_path, server, ["CLEAN"])
        assert worker.process.wait(60) == 2
    (line,) = [line for line in worker.log.read_text().splitlines() if "judge.url" in line]
    assert f"HTTP {status}" in line
    assert apache.end_offsets(f"{topic_name}-j") == {0: 0}


@pytest.mark.full
def test_a_broker_that_is_gone_is_told_and_loses_nothing(
    own_kafka: KafkaBroker, topic_name: str, tmp_path: Path
) -> None:
    def done() -> set[str]:
        written = sum(own_kafka.end_offsets(f"{topic_name}-j").values())
        return {event["output_id"] for event in read(own_kafka, f"{topic_name}-j", written)}

    with OpenAIServer(lambda _: findings()) as server:
        worker = judging(own_kafka, topic_name, tmp_path, server, ["CLEAN"])
        with worker:
            worker.until(lambda: done() == {"CLEAN"}, "the first")
            own_kafka.kill()
            worker.until(lambda: "no Kafka broker" in worker.get("/readyz")[1], "the reason")
            assert worker.value("slicewatch_judge_waiting") == 1
            own_kafka.restart()
            own_kafka.produce(f"{topic_name}-o", [message("PLAIN")])
            worker.until(lambda: done() == {"CLEAN", "PLAIN"}, "the second")
            worker.until(lambda: worker.get("/readyz") == (200, "ok\n"), "ready")
            assert worker.stop() == 0
