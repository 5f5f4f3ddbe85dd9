"""Requests that come in clusters, from raw events to crossings and to the metrics about them.

The world of the claim's failure: all requests of a sender are alike, 50 at a time, and the gap is
exactly at its limit. Crossings are counted, since what is read as history pages nobody.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from pipeline import DECISIONS, LABELS, SETTINGS, Pipeline

from monitor.evaluate.evaluator import Evaluator
from monitor.store.evaluator.cluster_days import read_cluster_days

pytestmark = pytest.mark.full

START = datetime(2026, 6, 1, tzinfo=UTC)
DAYS = 6
SIZE = 50
CLUSTERS = 40  # a day
FIRST_DAY = (START - datetime(1970, 1, 1, tzinfo=UTC)).days
TPR = {"chat": 0.75, "email": 0.85}
_CONTRACT = SETTINGS.index("[use_case.contract]")
TEXT = (
    SETTINGS[: SETTINGS.index("group_bys")]
    + 'group_bys = [{ attributes = ["channel"] }]\n'
    + SETTINGS[_CONTRACT:].replace('version = "1"', 'version = "2"', 1)
)


@dataclass(frozen=True)
class World:
    """Clusters of requests that are alike in all that is sent, but for ids and seconds.

    Attributes:
        size: requests of a cluster.
        units: whether they name their sender.
        scores: how many distinct scores the judge has; 0 is without end, -1 is none at all.
    """

    size: int = SIZE
    units: bool = False
    scores: int = 0

    def day(self, rng: np.random.Generator, day: int) -> Iterator[tuple[bytes, bytes]]:
        """Decisions with their labels, in order."""
        count = CLUSTERS * SIZE // self.size
        minutes = np.sort(rng.integers(0, 24 * 60, count))
        for number, minute in enumerate(minutes.tolist()):
            at = START + timedelta(days=day, minutes=minute)
            yield from self.cluster(rng, at, f"{day}-{number}")

    def cluster(
        self, rng: np.random.Generator, at: datetime, name: str
    ) -> Iterator[tuple[bytes, bytes]]:
        channel = "chat" if rng.random() < 0.5 else "email"
        ready = bool(rng.random() < 0.7)
        served = bool(rng.random() < (TPR[channel] if ready else 0.15))
        score = self.score(rng, served)
        for number in range(self.size):
            moment = (at + timedelta(seconds=number)).isoformat()
            common = {"decision_id": f"{name}-{number}", "decided_at": moment}
            decision = common | {
                "route": "auto_serve" if served else "human_review",
                "judge_score": score,
                "threshold": 0.7,
                "evidence_passed": True,
                "attributes": {"channel": channel, "language_variety": "formal"},
                "versions": {"judge": "j", "rubric": "r", "policy": "p", "router": "t"},
                "audit_p": 1.0,
                "label_requested": True,
            }
            if self.units:
                decision["unit"] = name
            label = common | {
                "label_id": f"l{name}-{number}",
                "version": 1,
                "ready": ready,
                "kind": "initial",
                "reason": "review",
                "reviewer": "r",
                "labelled_at": moment,
            }
            yield json.dumps(decision).encode(), json.dumps(label).encode()

    def score(self, rng: np.random.Generator, served: bool) -> float | None:
        low, high = (0.7, 1.0) if served else (0.0, 0.7)
        if self.scores < 0:
            return None
        place = rng.random() if not self.scores else rng.integers(self.scores) / self.scores
        return float(low + place * (high - low))


def play(
    pipeline: Pipeline, world: World, days: int = DAYS, seed: int = 0, restarts: bool = False
) -> Evaluator:
    """A day at a time."""
    rng = np.random.default_rng(seed)
    worker, evaluator = pipeline.worker(), pipeline.evaluator()
    for day in range(days):
        for number, (decision, label) in enumerate(world.day(rng, day)):
            pipeline.broker.produce(DECISIONS, [decision], number % 2)
            pipeline.broker.produce(LABELS, [label], 0)
            if restarts and number == 2 * SIZE + SIZE // 2:  # in the middle of a cluster
                pipeline.drain()
                assert evaluator.cycle()
                pipeline.kill(worker)
                evaluator.release_lease()
                worker, evaluator = pipeline.worker(), pipeline.evaluator()
        pipeline.drain()
        assert evaluator.cycle()
    return evaluator


def crossings(pipeline: Pipeline) -> int:
    with pipeline.engine.connect() as connection:
        return int(connection.execute(sa.text("SELECT COUNT(*) FROM crossing")).scalar_one())


def largest(pipeline: Pipeline) -> dict[int, int]:
    with pipeline.engine.connect() as connection:
        found = read_cluster_days(connection)
    return {day - FIRST_DAY: one.largest for day, one in found.items()}


@pytest.mark.parametrize("seed", range(3))
def test_where_units_are_sent_requests_alike_raise_no_false_page(tmp_path: Path, seed: int) -> None:
    with Pipeline(tmp_path, (2, 1), text=TEXT) as pipeline:
        evaluator = play(pipeline, World(units=True), seed=seed)
        assert crossings(pipeline) == 0
        assert set(largest(pipeline).values()) == {SIZE}, "over both partitions"
        assert evaluator.cluster_size == 64
        assert evaluator.repeats is False


@pytest.mark.parametrize("seed", range(2))
def test_where_they_are_not_sent_the_bound_is_broken_and_repetition_is_reported(
    tmp_path: Path, seed: int
) -> None:
    with Pipeline(tmp_path, (2, 1), text=TEXT) as pipeline:
        evaluator = play(pipeline, World(), seed=seed)
        assert crossings(pipeline) >= 1, "what the claim does not cover"
        assert largest(pipeline).get(0, 0) == 0
        assert evaluator.cluster_size == 1
        assert evaluator.repeats is True


@pytest.mark.parametrize("scores", [-1, 3, 0], ids=["none", "three", "all different"])
def test_single_requests_are_no_repetition_whatever_their_scores(
    tmp_path: Path, scores: int
) -> None:
    with Pipeline(tmp_path, (2, 1), text=TEXT) as pipeline:
        evaluator = play(pipeline, World(size=1, scores=scores), days=2)
        assert evaluator.repeats is False
        assert evaluator.cluster_size == 1


def test_a_restart_within_a_cluster_makes_the_bound_larger_and_never_too_small(
    tmp_path: Path,
) -> None:
    with Pipeline(tmp_path, (2, 1), text=TEXT) as pipeline:
        play(pipeline, World(units=True), days=2, restarts=True)
        assert all(SIZE <= found <= 2 * SIZE for found in largest(pipeline).values())
