"""Requests that come in clusters, from raw events to crossings and to the metrics about them.

The world of the claim's failure: all requests of a sender are alike, 50 at a time, and the gap is
exactly at its limit. Crossings are counted, since what is read as history pages nobody.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from pipeline import DECISIONS, LABELS, SETTINGS, Pipeline

from monitor.commands.check import _unit_lines
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import ShownRate, decode
from monitor.core.time import DAY, HOUR
from monitor.evaluate.evaluator import Evaluator
from monitor.store.evaluator.cluster_days import read_cluster_days

pytestmark = pytest.mark.full

START = datetime(2026, 6, 1, tzinfo=UTC)
DAYS = 6
SIZE = 50
CLUSTERS = 40  # a day
FIRST_DAY = (START - datetime(1970, 1, 1, tzinfo=UTC)).days
TPR = {"chat": 0.75, "email": 0.85}
TRUTH = {
    Metric.SELECTION: {channel: 0.7 * rate + 0.3 * 0.15 for channel, rate in TPR.items()},
    Metric.TPR: TPR,
    Metric.FPR: dict.fromkeys(TPR, 0.15),
}
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
        groups = read_cluster_days(connection)
    return {group.day - FIRST_DAY: facts.largest for group, facts in groups.items() if facts.named}


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


def shown_rates(pipeline: Pipeline) -> Iterator[tuple[Metric, str, ShownRate]]:
    """Rates of both channels in all windows of more than a day."""
    snapshot = pipeline.snapshot()
    assert snapshot is not None
    (contract_table,) = decode(snapshot).contracts
    windows = (window for window in contract_table.windows if window.window != "1h")
    for row in (row for window in windows for group in window.groups for row in group.rows):
        for metric in TRUTH:
            if metric in row.rates:
                yield metric, row.slice.removeprefix("channel="), row.rates[metric]


def covered(tmp_path: Path, world: World, seeds: int, days: int = DAYS) -> tuple[float, float]:
    """Share of the shown intervals that hold the router's rate, and their mean width."""
    held, widths = [], []
    for seed in range(seeds):
        folder = tmp_path / str(seed)
        folder.mkdir()
        with Pipeline(folder, (2, 1), text=TEXT.replace("k = 1\n", "k = 11\n")) as pipeline:
            play(pipeline, world, days, seed)
            for metric, channel, rate in shown_rates(pipeline):
                lower, upper = rate.lower or 0.0, rate.upper or 1.0
                held.append(lower <= TRUTH[metric][channel] <= upper)
                widths.append(upper - lower)
    return float(np.mean(held)), float(np.mean(widths))


def test_intervals_hold_where_units_are_sent(tmp_path: Path) -> None:
    named, unnamed, single = (tmp_path / name for name in ("named", "unnamed", "single"))
    for folder in (named, unnamed, single):
        folder.mkdir()
    cover, width = covered(named, World(units=True), 4)
    cover_unnamed, width_unnamed = covered(unnamed, World(), 2)
    sys.stdout.write(f"{cover} {width}; without unit {cover_unnamed} {width_unnamed}\n")
    assert cover >= 0.94
    assert cover_unnamed < 0.87, "what is said to be not covered"
    assert covered(single, World(size=1, units=True), 1, days=2) == pytest.approx(
        covered(tmp_path, World(size=1), 1, days=2)
    )


def test_tables_tell_one_rounded_effect_of_the_whole_use_case(tmp_path: Path) -> None:
    with Pipeline(tmp_path, (2, 1), text=TEXT) as pipeline:
        play(pipeline, World(units=True), days=3)
        query = sa.text(
            "SELECT kind, effect FROM calendar_table WHERE measure = 'decisions' ORDER BY starts_at"
        )
        with pipeline.engine.connect() as connection:
            rows = connection.execute(query).all()
        told = [line for line in _unit_lines(pipeline.settings, pipeline.engine) if "alike" in line]
    effects = {kind: [row.effect for row in rows if row.kind == kind] for kind in (HOUR, DAY)}
    assert effects[DAY] == [64, 64]
    assert len(told) == 1
    assert told[0].endswith("as if one decision in 64 counted")
    hours = effects[HOUR]
    assert hours == [1] * 23 + [64] * (len(hours) - 23), "an hour has that of the day before"


def test_a_restart_within_a_cluster_makes_the_bound_larger_and_never_too_small(
    tmp_path: Path,
) -> None:
    with Pipeline(tmp_path, (2, 1), text=TEXT) as pipeline:
        play(pipeline, World(units=True), days=2, restarts=True)
        assert all(SIZE <= found <= 2 * SIZE for found in largest(pipeline).values())
