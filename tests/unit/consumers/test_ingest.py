"""What was read is stored once there is enough of it, or it has waited for the interval."""

from __future__ import annotations

from pathlib import Path

import lesson
import pytest
from pipeline import DECISIONS, Pipeline, messages


@pytest.mark.parametrize(("events", "stored"), [(2, False), (3, True)])
def test_a_flush_waits_for_the_interval_or_for_enough_events(
    tmp_path: Path, events: int, stored: bool
) -> None:
    with Pipeline(
        tmp_path, ingest__flush_events=3, ingest__flush_interval="30s", stream__clock="live"
    ) as pipeline:
        worker = pipeline.worker()
        for _ in range(5):
            pipeline.step(worker)
        pipeline.broker.produce(DECISIONS, messages(list(lesson.decisions())[:events]))
        for _ in range(5):
            pipeline.step(worker)
        assert pipeline.drained() == stored
