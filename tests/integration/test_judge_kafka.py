"""``slicewatch judge`` on a real broker: outputs in, judgements out, flags in /metrics.

The endpoint is slow for some outputs, malformed or away for others; the worker is killed in the
midst of a batch.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import lesson
import pytest
from click.testing import CliRunner
from hasty_judge import HastyJudge
from judge_settings import SETTINGS, environment_of
from kafka_broker import KafkaBroker
from openai_server import OpenAIServer, Reply, asked_about, completion, finding, findings
from running import Running
from signed_probes import signed

from consumers.sources.kafka_admin import KafkaConnection
from monitor.cli import cli
from monitor.judging.kafka_stream import JudgeTopics, KafkaStream
from monitor.judging.worker import CONCURRENCY

OUTPUTS = 200
SENTENCE = "Employees in their 50s are slow and never learn."
VARIETIES = ("formal", "conversational")


def output(i: int) -> dict[str, object]:
    """One of three conversational outputs is flagged; every 20th output gets no usable answer."""
    variety = VARIETIES[i % 2]
    text = f"Output {i}: na\u00efve \U0001f44b. "
    text += SENTENCE if variety == "conversational" and i % 3 == 0 else "All are welcome."
    return {
        "output_id": f"o-{i}",
        "produced_at": lesson.text(lesson.START + timedelta(seconds=i)),
        "output": text + (" MALFORMED" if i % 20 == 0 else " AWAY" if i % 20 == 1 else ""),
        "context": None,
        "attributes": {"language_variety": variety, "channel": "chat"},
        "model": "m-1",
    }


class Endpoint:
    """Answers by the text; from the 60th request on it waits, until it is told not to."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.asked = Counter[str]()

    def __call__(self, body: dict[str, Any]) -> Reply:
        text = asked_about(body)["output"]
        self.asked[text] += 1
        if self.asked.total() >= 60:
            self.go_on.wait()
        if "MALFORMED" in text:
            return completion("I found nothing wrong, and the score is 100.")
        if "AWAY" in text:
            return Reply(status=503)
        return findings(finding(SENTENCE)) if SENTENCE in text else findings()


def judged_ids(broker: KafkaBroker, topic: str, least: int) -> list[dict[str, Any]]:
    return [json.loads(one.value) for one in broker.consume(topic, least)]


def test_outputs_are_judged_and_flags_are_a_rate(
    apache: KafkaBroker, topic_name: str, tmp_path: Path
) -> None:
    for end in "dloj":
        apache.create_topic(f"{topic_name}-{end}", 1)
    apache.produce(f"{topic_name}-o", lesson.encode(output(i) for i in range(OUTPUTS)))
    apache.produce(f"{topic_name}-o", [b'{"output_id": "x"}', b"not json"])
    apache.produce(f"{topic_name}-o", [None], key=b"gone")
    endpoint = Endpoint()
    with OpenAIServer(endpoint) as server:
        environment = environment_of(apache, topic_name, tmp_path, server)
        worker = HastyJudge(tmp_path, ["judge", "--settings", str(SETTINGS)], environment)
        with worker:
            worker.until(lambda: endpoint.asked.total() >= 60, "some are judged, others wait")
            worker.kill()
            endpoint.go_on.set()
            worker.restart()
            worker.until(
                lambda: sum(apache.end_offsets(f"{topic_name}-j").values()) >= OUTPUTS + 2, "all"
            )
            assert worker.stop() == 0
    found = judged_ids(apache, f"{topic_name}-j", OUTPUTS + 2)
    check_judgements(found)
    spent = json.loads((tmp_path / "judge-budget.json").read_text())
    assert spent["requests"] >= sum(endpoint.asked.values()), "every request was on record"
    check_flags(apache, topic_name, tmp_path, environment)


def check_judgements(found: list[dict[str, Any]]) -> None:
    times = Counter(one["output_id"] for one in found if "output_id" in one)
    assert set(times) == {"x", *(f"o-{i}" for i in range(OUTPUTS))}
    assert sum(times.values()) - OUTPUTS - 1 <= CONCURRENCY, "twice, at most, what was in the batch"
    unread = sorted(one["why"] for one in found if one["status"] == "unreadable")
    assert unread == ["field produced_at is missing", "not JSON"], "the tombstone is no output"
    by_id = {one["output_id"]: one for one in found if "output_id" in one}
    for i in range(OUTPUTS):
        one, text = by_id[f"o-{i}"], str(output(i)["output"])
        if i % 20 < 2:
            assert (one["status"], one.get("score"), one.get("findings")) == ("failed", None, None)
            continue
        spans = [(f["category"], text[f["start"] : f["end"]]) for f in one.get("findings", [])]
        flagged = SENTENCE in text
        assert spans == ([("age", SENTENCE)] if flagged else [])
        assert (one["score"], one["flagged"]) == (80 if flagged else 100, flagged)


def check_flags(
    broker: KafkaBroker, name: str, folder: Path, environment: Mapping[str, str]
) -> None:
    """The flags are in /metrics, and in the week's report, as the selection rate of each slice."""
    broker.produce(f"{name}-d", lesson.encode(iter([lesson.tick()])))
    expected = {}
    for variety in VARIETIES:
        outputs = [i for i in range(OUTPUTS) if VARIETIES[i % 2] == variety]
        good = [i for i in outputs if i % 20 >= 2]  # the others could not be judged
        served = [i for i in good if SENTENCE not in str(output(i)["output"])]
        expected[variety] = len(served) / len(outputs)
    assert expected["formal"] == 0.9, "outputs without a verdict stay in the denominator"
    assert expected["conversational"] < 0.7

    settings = folder / "settings.toml"
    settings.write_text(f"{SETTINGS.read_text()}max_selection_gap = 0.5\n")
    with Running(folder, ["run", "--settings", str(settings)], environment) as service:

        def shown() -> dict[str, float | None]:
            return {
                variety: service.value(
                    "slicewatch_slice_rate_ratio",
                    metric="selection",
                    window="7d",
                    slice=f"language_variety={variety}",
                )
                for variety in VARIETIES
            }

        service.until(lambda: None not in shown().values(), "the rates")
        assert shown() == pytest.approx(expected, abs=0.005)
        states = {
            state: service.value(
                "slicewatch_slice_state",
                metric="selection",
                window="7d",
                slice="language_variety=conversational",
                state=state,
            )
            for state in ("within_contract", "insufficient_support")
        }
        assert states == {"within_contract": 0, "insufficient_support": 1}, "10 % is not judged"
        attributes = {"language_variety": "formal", "channel": "chat"}
        at = lesson.START + timedelta(days=8)
        week_is_over = lesson.decision("late", at, 0.9, traffic="probe", attributes=attributes)
        broker.produce(f"{name}-d", lesson.encode(iter([signed(week_is_over)])))
        assert reported(settings, environment) == pytest.approx(expected, abs=0.005)


def reported(settings: Path, environment: Mapping[str, str]) -> dict[str, float]:
    """Selection rates of the week's report, which waits until its Release is stored."""
    week = ["--week", "2026-W23", "--wait", "120", "--format", "json"]
    arguments = ["report", "--settings", str(settings), *week, "--out", str(settings.parent)]
    done = CliRunner(env=environment).invoke(cli, arguments)
    assert done.exit_code == 1, "a week of one day approves nothing"
    (path,) = settings.parent.glob("*2026-W23*.json")
    (contract,) = json.loads(path.read_text())["release"]["contracts"]
    rows = [row for group in contract["windows"][0]["groups"] for row in group["rows"]]
    rates = {row["slice"]: row["rates"]["selection"]["value"] for row in rows if row["rates"]}
    return {variety: rates[f"language_variety={variety}"] for variety in VARIETIES}


def test_what_is_not_committed_is_read_again(apache: KafkaBroker, topic_name: str) -> None:
    apache.create_topic(topic_name, 1)
    apache.produce(topic_name, [b"%d" % i for i in range(5)])
    topics = JudgeTopics(topic_name, topic_name, None, topic_name[-8:], session_timeout=6.0)
    stream = KafkaStream(KafkaConnection((apache.bootstrap,)), topics)
    with closing(stream):
        assert read(stream, 2) == [b"0", b"1"]
        stream.rewind()
        assert read(stream, 3) == [b"0", b"1", b"2"]
        stream.commit()
        assert read(stream, 2) == [b"3", b"4"]
        stream.rewind()
        assert read(stream, 2) == [b"3", b"4"]


def read(stream: KafkaStream, most: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    deadline = time.monotonic() + 60
    while len(found) < most and time.monotonic() < deadline:
        found += stream.read(most - len(found))
    return found
