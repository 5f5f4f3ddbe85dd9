"""The census consumed for real, by Kafka or from files, and what the store holds afterwards."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import signed_probes
from brokers import Broker
from census import EXAMPLES, History, messages
from id_keys import WITH_KEY
from running import Running
from scraped import Series
from stored import sum_counts
from warm_start import run

from monitor.core.counts.cells import COUNTERS, Counter, Counts, Route, decode_strata
from monitor.core.counts.rollup import CellIndex
from monitor.core.time import Grain
from monitor.evaluate.dictionary import CellDictionary
from monitor.store import database
from monitor.store.evaluator.store import EvaluatorStore

SETTINGS = EXAMPLES / "census.toml"
DECISION_SHARDS, LABEL_SHARDS = 4, 2
CONSUME_SECONDS = 400.0
DEFAULT_CYCLE = "10s"
"""Of ``evaluate.cycle``: what is read meanwhile is evaluated as often as at a user's."""
Cells = dict[tuple[str, bool, int, bool], tuple[int, ...]]


@dataclass(frozen=True)
class Consumed:
    """A finished run: its store, the last page, and how long each part took."""

    history: History
    url: str
    topics: tuple[str, str]
    page: str
    series: Series
    seconds: Mapping[str, float]


def produce(broker: Broker, history: History, topics: tuple[str, str]) -> None:
    """Decisions over four partitions message by message, labels over two; then close all."""
    decisions, labels = topics
    for topic, events, shards in (
        (decisions, history.decisions, DECISION_SHARDS),
        (labels, history.labels, LABEL_SHARDS),
    ):
        broker.create_topic(topic, shards)
        packed = list(messages(events))
        for shard in range(shards):
            broker.produce(topic, packed[shard::shards], partition=shard)
    for shard in range(DECISION_SHARDS):
        broker.produce(decisions, [history.close(shard)], partition=shard)


def consume(
    broker: Broker, history: History, name: str, folder: Path, *, apart: bool = False
) -> Consumed:
    """Through Kafka, by ``slicewatch run``; returns when the last event is on the page.

    With ``apart`` one process ingests, and another one serves once all is read: so no evaluation
    sees a part, however slow the machine is. Else one process does both, with the default cycle.
    """
    topics = (f"{name}-decisions", f"{name}-labels")
    _ = history.decisions, history.labels  # made before the clock starts
    began = time.monotonic()
    produce(broker, history, topics)
    produced = time.monotonic()
    url = f"sqlite:///{folder}/kafka.db"
    environment = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": broker.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": topics[0],
        "SLICEWATCH__STREAM__LABELS_TOPIC": topics[1],
        "SLICEWATCH__STREAM__GROUP_ID": name,
        "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
        "SLICEWATCH__STORE__URL": url,
        **({} if apart else {"SLICEWATCH__EVALUATE__CYCLE": DEFAULT_CYCLE}),
        **WITH_KEY,
        **signed_probes.WITH_KEY,
    }
    store = folder / "kafka.db"
    with ExitStack() as stack:

        def started(part: str) -> Running:
            arguments = [part, "--settings", str(SETTINGS)]
            return stack.enter_context(Running(folder, arguments, environment))

        if apart:
            started("ingest").until(lambda: _read(store, history), "all is read", CONSUME_SECONDS)
        service = started("serve" if apart else "run")
        service.until(lambda: _folded(store, history), "all is counted", CONSUME_SECONDS)
        consumed = time.monotonic()
        shown_at = time.time()
        service.until(lambda: _evaluated(service) > shown_at, "an evaluation", CONSUME_SECONDS)
        page, series = service.get("/metrics")[1], service.metrics()
        assert service.stop() == 0
    seconds = {
        "produced": produced - began,
        "consumed": consumed - produced,
        "all": time.monotonic() - began,
    }
    return Consumed(history, url, topics, page, series, seconds)


def replay(history: History, folder: Path, **overrides: str) -> tuple[str, str]:
    """From files, by ``slicewatch replay``; returns the store's URL and what was printed.

    With one of the three group-bys: what is compared are counts of atoms, which group-bys have no
    part in, and three years of the tests of all slices take longer than to read the files.
    """
    url = f"sqlite:///{folder}/replay.db"
    settings = folder / "settings.toml"
    settings.write_text(_with_one_group_by(SETTINGS.read_text()))
    for name, events in (("decisions", history.decisions), ("labels", history.labels)):
        (folder / f"{name}.jsonl").write_bytes(b"\n".join(events) + b"\n")
    files = [str(folder / f"{name}.jsonl") for name in ("decisions", "labels")]
    done = run(
        ["replay", "--settings", str(settings), *files],
        cwd=folder,
        env={**os.environ, "SLICEWATCH__STORE__URL": url, **WITH_KEY, **overrides},
        timeout=CONSUME_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return url, done.stderr


def _with_one_group_by(text: str) -> str:
    """Settings with the first group-by alone."""
    before, begin, listed = text.partition("group_bys = [\n")
    groups, end, after = listed.partition("]\n\n[use_case.contract]")
    return before + begin + groups.splitlines(keepends=True)[0] + end + after


def stored_cells(url: str, grain: Grain = Grain.DAY) -> Cells:
    """The store's counts of production traffic, as :func:`census_oracle.cells` counts them."""
    columns = ("n", "q", "labelled", "ready", *(f"delay_{one}" for one in range(8)))
    sums = ", ".join(f"SUM({column})" for column in columns)
    query = (
        f"SELECT atom.text, cell.stratum, {sums} FROM counts JOIN cell ON cell.id = counts.cell"
        " JOIN atom ON atom.id = cell.atom WHERE grain = :grain GROUP BY atom.text, cell.stratum"
    )
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        rows = connection.execute(query, {"grain": int(grain)}).fetchall()
    connection.close()
    found: Cells = {}
    for text, code, *values in rows:
        stratum = decode_strata(np.array([code]))
        if not stratum.probe[0]:
            auto, sampled = bool(stratum.route[0] == Route.AUTO_SERVE), bool(stratum.rate[0] > 0)
            found[text, auto, int(stratum.band[0]), sampled] = tuple(values)
    return found


def stored_counts(consumed: Consumed) -> tuple[Counts, CellIndex]:
    """Everything ever counted, as the evaluator reads it."""
    engine = database.create_engine(consumed.url)
    store = EvaluatorStore(engine, consumed.topics[0])
    counts = sum_counts(engine, Grain.DAY)
    index = CellDictionary(store.cells).index
    engine.dispose()
    assert counts.values.shape[1] == COUNTERS
    return counts, index


def tallies(url: str) -> dict[str, dict[str, object]]:
    """Running totals of each shard, ``topic/partition`` -> what it counted."""
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        rows = connection.execute("SELECT topic, part, tallies FROM ownership").fetchall()
    connection.close()
    return {f"{topic}/{part}": json.loads(text) for topic, part, text in rows}


def _read(store: Path, history: History) -> bool:
    """Whether every event has been counted, and every label with its decision."""
    try:
        shards = tallies(f"sqlite:///{store}").values()
    except sqlite3.OperationalError:  # no tables yet
        return False
    counted = sum(int(str(shard.get("counted", 0))) for shard in shards)
    return counted == len(history.decisions) + DECISION_SHARDS + len(history.labels)


def _folded(store: Path, history: History) -> bool:
    """Whether the evaluator has folded every decision (probes too) and every label."""
    connection = sqlite3.connect(store, timeout=20)
    try:
        found: tuple[int, int] = connection.execute(
            f"SELECT SUM(n), SUM({Counter.LABELLED.name.lower()}) FROM counts WHERE grain = ?",
            (int(Grain.WEEK),),
        ).fetchone()
    except sqlite3.OperationalError:  # no tables yet
        return False
    finally:
        connection.close()
    return found == (len(history.decisions) + DECISION_SHARDS, len(history.labels))


def _evaluated(service: Running) -> float:
    return service.value("slicewatch_evaluation_timestamp_seconds") or 0.0
