"""How much of the client's own speed is left after counting, and what a refresh costs.

Run it by ``make bench`` on a quiet machine. Every figure is a ratio to something measured in the
same run; the rates beside it say how fast this machine was.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from fairlearn.metrics import MetricFrame, selection_rate, true_positive_rate  # noqa: E402
from kafka import KafkaConsumer, TopicPartition  # noqa: E402
from kafka_broker import KafkaBroker, kafka_libraries, missing_tools  # noqa: E402

from alerts.exposition import Renderer  # noqa: E402
from alerts.service import ServiceMetrics  # noqa: E402
from consumers.sources.file_source import FileSource  # noqa: E402
from monitor.commands import wiring  # noqa: E402
from monitor.commands.clock import SystemClock  # noqa: E402
from monitor.core.snapshot import decode  # noqa: E402
from monitor.ports import RecordSource  # noqa: E402
from monitor.settings import Settings, load  # noqa: E402
from monitor.store.records import Records  # noqa: E402
from monitor.store.shards import read_statuses  # noqa: E402

VERSIONS = {"judge": "j1", "rubric": "r1", "policy": "p1", "router": "t1"}
LANGUAGES = ("en", "de", "es")
CHANNELS = ("chat", "email")
START = datetime(2026, 6, 1, tzinfo=UTC)
SHARE_REVIEWED = 0.38  # with 5 % audits of the rest, 41 % of decisions are requested


def history(n: int, seed: int = 7) -> tuple[list[bytes], list[bytes], pd.DataFrame]:
    """``n`` decisions over two weeks of event time, and a label for each requested one."""
    rng = np.random.default_rng(seed)
    score = rng.random(n).round(3)
    served = score >= SHARE_REVIEWED
    requested = ~served | (rng.random(n) < 0.05)
    ready = rng.random(n) < 0.2 + 0.7 * score
    frame = pd.DataFrame(
        {
            "language": np.array(LANGUAGES)[rng.integers(3, size=n)],
            "channel": np.array(CHANNELS)[rng.integers(2, size=n)],
            "served": served,
            "ready": ready,
        }
    )
    step = timedelta(days=14) / n
    decisions, labels = [], []
    for i in range(n):
        at = (START + i * step).isoformat()
        decisions.append(_decision(i, at, frame, float(score[i]), bool(requested[i])))
        if requested[i]:
            labels.append(_label(i, at, bool(ready[i])))
    return decisions, labels, frame


def _decision(i: int, at: str, frame: pd.DataFrame, score: float, requested: bool) -> bytes:
    served = score >= SHARE_REVIEWED
    event = {
        "decision_id": f"decision-{i:012d}",
        "decided_at": at,
        "route": "auto_serve" if served else "human_review",
        "judge_score": score,
        "threshold": SHARE_REVIEWED,
        "evidence_passed": True,
        "attributes": {
            "language": frame["language"].iat[i],
            "channel": frame["channel"].iat[i],
        },
        "versions": VERSIONS,
        "audit_p": 0.05 if served else 1.0,
        "label_requested": requested,
    }
    return json.dumps(event).encode()


def _label(i: int, at: str, ready: bool) -> bytes:
    event = {
        "label_id": f"label-{i:012d}",
        "decision_id": f"decision-{i:012d}",
        "decided_at": at,
        "version": 1,
        "ready": ready,
        "kind": "initial",
        "reason": "review",
        "reviewer": "h1",
        "labelled_at": at,
    }
    return json.dumps(event).encode()


def timed(call: Callable[[], object]) -> float:
    """Seconds a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def settings_in(folder: Path, name: str, **environment: str) -> Settings:
    """The quickstart settings on a store of their own."""
    more = {f"SLICEWATCH__{key}": value for key, value in environment.items()}
    url = f"sqlite:///{folder}/{name}.db"
    return load(
        ROOT / "deploy" / "examples" / "quickstart.toml",
        {"SLICEWATCH__STORE__URL": url, "SLICEWATCH__STREAM__CLOCK": "history", **more},
    )


class Counted:
    """Ingests until so many events are stored."""

    def __init__(self, settings: Settings, source: RecordSource, events: int) -> None:
        self.engine = wiring.open_store(settings, SystemClock())
        self._left = events
        self.ingest = wiring.build_ingest(
            settings, self.engine, source, ServiceMetrics(), SystemClock(), progress=self._seen
        )

    def _seen(self, events: int) -> None:
        self._left -= events
        if self._left <= 0:
            self.ingest.stop()

    def run(self) -> None:
        """Until the last event is stored; everything must have been counted."""
        self.ingest.run()
        assert self._left <= 0
        assert all(status.tallies.balance == 0 for status in read_statuses(self.engine))


def drain(bootstrap: str, topic: str, n: int) -> None:
    """What the Kafka client does when nobody looks at the messages."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        max_poll_records=5_000,
        metrics_enabled=False,
        max_partition_fetch_bytes=4 << 20,
        fetch_max_bytes=32 << 20,
    )
    where = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
    consumer.assign(where)
    consumer.seek_to_beginning(*where)
    seen = 0
    while seen < n:
        seen += sum(len(batch) for batch in consumer.poll(1_000).values())
    consumer.close(autocommit=False)


def bench_kafka(folder: Path, decisions: list[bytes]) -> Iterator[str]:
    """The whole pipeline for decisions over kafka-python, against the client's own drain."""
    if missing_tools():
        yield f"kafka: skipped, {', '.join(missing_tools())} is not installed"
        return
    broker = KafkaBroker(kafka_libraries())
    try:
        n = len(decisions)
        for topic, partitions in (("decisions", 4), ("labels", 1)):
            broker.create_topic(topic, partitions)
        broker.produce("decisions", decisions)
        raw = min(timed(lambda: drain(broker.bootstrap, "decisions", n)) for _ in range(3))
        yield f"kafka-python alone: {n / raw:,.0f} messages/s"
        for name, window in (("without de-duplication", "0s"), ("with de-duplication", "1h")):
            settings = settings_in(
                folder,
                f"kafka-{window}",
                STREAM__BOOTSTRAP_SERVERS=broker.bootstrap,
                STREAM__GROUP_ID=f"bench-{window}",
                STREAM__SESSION_TIMEOUT="6s",
                DEDUPE__WINDOW=window,
            )
            counted = Counted(settings, wiring.kafka_source(settings), n)
            took = timed(counted.run)
            share = raw / took
            yield f"  whole pipeline {name}: {n / took:,.0f}/s, {share:.2f} of the client"
    finally:
        broker.close()


def bench_replay(
    folder: Path, decisions: list[bytes], labels: list[bytes], frame: pd.DataFrame
) -> Iterator[str]:
    """Replaying files against fairlearn on rows that are in memory already."""
    paths = [("decisions", decisions), ("labels", labels)]
    for name, events in paths:
        (folder / name).write_bytes(b"\n".join(events) + b"\n")
    settings = settings_in(folder, "replay")
    source = FileSource([(name, folder / name) for name, _ in paths])
    counted = Counted(settings, source, len(decisions) + len(labels))
    took = timed(counted.run)
    evaluator = wiring.build_evaluator(settings, counted.engine, SystemClock())
    folded = timed(evaluator.cycle)
    both = len(decisions) + len(labels)
    yield f"replay: {both / took:,.0f} events/s, then folded and evaluated in {folded:.2f} s"
    metrics = {"selection": selection_rate, "tpr": true_positive_rate}
    fair = timed(
        lambda: (
            MetricFrame(
                metrics=metrics,
                y_true=frame["ready"],
                y_pred=frame["served"],
                sensitive_features=frame[["language", "channel"]],
            ).by_group
        )
    )
    again = min(timed(evaluator.cycle) for _ in range(5))
    yield f"  a cycle with nothing new: {1e3 * again:.1f} ms"
    yield f"  fairlearn, one group-by of the {len(frame):,} rows: {1e3 * fair:.0f} ms"
    body = Records(counted.engine).newest_snapshot()
    assert body is not None
    renderer, snapshot = Renderer(50_000), decode(body[1])
    first = timed(lambda: renderer.render(snapshot))
    later = min(timed(lambda: renderer.render(snapshot)) for _ in range(5))
    series = renderer.render(snapshot).series
    yield f"rendering {series:,} series: {1e3 * first:.1f} ms at first, {1e3 * later:.1f} ms later"


def main() -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=200_000)
    n = parser.parse_args().decisions
    decisions, labels, frame = history(n)
    print(f"{n:,} decisions of {len(decisions[0])} bytes, {len(labels):,} labels")  # noqa: T201
    with tempfile.TemporaryDirectory() as folder:
        for line in bench_replay(Path(folder), decisions, labels, frame):
            print(line)  # noqa: T201
        for line in bench_kafka(Path(folder), decisions):
            print(line)  # noqa: T201


if __name__ == "__main__":
    main()
