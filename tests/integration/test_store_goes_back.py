"""The database goes back in time under a running worker: a restore in place, a lagging standby."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import lesson
import pytest
from pipeline import DECISIONS, Pipeline, total

from consumers.reconcile import REVIEW_SECONDS


def send(pipeline: Pipeline, channel: str, *keys: str) -> None:
    attributes = {"language_variety": "formal", "channel": channel}
    events = [lesson.decision(key, lesson.START, 0.8, attributes=attributes) for key in keys]
    pipeline.broker.produce(DECISIONS, [json.dumps(event).encode() for event in events])


def copy(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


@pytest.mark.parametrize("quiet", [True, False], ids=["without a message", "with a message"])
def test_what_the_database_lost_is_read_and_sent_again(tmp_path: Path, quiet: bool) -> None:
    """Offsets, and the dictionary rows of cells that were first seen since."""
    with Pipeline(tmp_path) as pipeline:
        worker = pipeline.worker()
        send(pipeline, "chat", "a", "b")
        pipeline.drain()
        copy(pipeline.path, tmp_path / "copy.db")
        send(pipeline, "email", "c", "d")
        pipeline.drain()
        copy(tmp_path / "copy.db", pipeline.path)
        assert not pipeline.drained()
        if not quiet:
            send(pipeline, "email", "e")
        for _ in range(int(REVIEW_SECONDS) + 5):
            pipeline.step(worker, 1.0)
        assert pipeline.drained()
        assert worker.health.store_ok
        pipeline.fold()
        decisions = sum(row["n"] for cell, row in pipeline.counts().items() if cell[0] == "1h")
        assert decisions == total(pipeline.statuses(), DECISIONS, "counted") == 4 + (not quiet)
        pipeline.check_conservation()
