"""Signed probes on the stream, through kills and takeovers: rounds, flips and pages."""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import lesson
import pytest
from pipeline import DECISIONS, SETTINGS, Pipeline, messages
from postgres import PostgresServer
from signed_probes import DIGEST, SET, signed

from monitor.composition.evaluator import declared_sets
from monitor.core.probes.flips import Expected, FlipDirection
from monitor.core.probes.rounds import DeclaredSet
from monitor.core.publish.snapshot import ShownFlips, ShownProbeSet, decode
from monitor.core.time import to_micros
from monitor.errors import StoreError
from monitor.evaluate.evaluator import Evaluator
from monitor.store.evaluator import lease as fencing
from monitor.store.evaluator.probe_sets import StoredProbeSet, read_probe_sets
from monitor.store.evaluator.store import EvaluatorStore

pytestmark = pytest.mark.full

PAIRS = 20
TEXT = SETTINGS.replace("pairs = 4", f"pairs = {PAIRS}")
BROKEN, RUNS = 3, 6
"""From a run on, the threshold of one variant is another one; and how many there are."""
PARTED = 13
"""Pairs whose score lies between the two thresholds."""
Event = dict[str, Any]


def start_of(run: int) -> datetime:
    return lesson.START + timedelta(days=run)


def tick(at: datetime) -> Event:
    """An ordinary decision that moves event time on."""
    attributes = {"language_variety": "formal", "channel": "chat"}
    return lesson.decision(f"tick-{at}", at, 0.9, attributes=attributes, label_requested=False)


def probe(run: int, pair: int, variant: str, threshold: float = 0.70) -> Event:
    at = start_of(run) + timedelta(seconds=2 * pair + (variant != "formal"))
    score = 0.605 + 0.02 * pair
    return signed(
        lesson.decision(
            f"{run}-{pair}-{variant}",
            at,
            score,
            traffic="probe",
            threshold=threshold,
            route="auto_serve" if score >= threshold else "human_review",
            attributes={"language_variety": variant, "channel": "chat"},
            label_requested=False,
            pair_id=f"p{pair}",
            variant=variant,
            probe_set=DIGEST,
            expected_ready=True,
        )
    )


def probes(runs: range, broken: range = range(BROKEN, RUNS)) -> list[Event]:
    return [
        probe(run, pair, variant, 0.95 if run in broken and variant != "formal" else 0.70)
        for run in runs
        for pair in range(PAIRS)
        for variant in ("formal", "conversational")
        if (run, pair, variant) != (1, 7, "conversational")
    ]


EVENTS = [*probes(range(RUNS)), tick(start_of(RUNS))]
FLIPS = (
    ShownFlips(
        *("conversational", FlipDirection.HELD_BACK, "threshold", PARTED * (RUNS - BROKEN)),
        Expected.READY,
    ),
)


class Clock:
    """The database's, moved by hand: leases end by it."""

    def __init__(self) -> None:
        self.at = 0

    def now(self, _: object = None) -> int:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(fencing, "database_now", clock.now)
    return clock


@pytest.fixture(params=["sqlite", "postgresql"])
def site(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> Iterator[Callable[[str], Pipeline]]:
    """Makes a service with a store of its own, to which nothing but a tick has come."""
    made: list[Pipeline] = []
    databases: list[str] = []

    def make(name: str, **overrides: object) -> Pipeline:
        if request.param == "postgresql":
            server: PostgresServer = request.getfixturevalue("postgres")
            databases.append(f"probes_{uuid.uuid4().hex[:12]}")
            overrides["store__url"] = server.create_database(databases[-1])
        (tmp_path / name).mkdir()
        overrides = {"stream__clock": "live", **overrides}
        pipeline = Pipeline(tmp_path / name, text=TEXT, **overrides)  # type: ignore[arg-type]
        made.append(pipeline)
        pipeline.worker()
        send(pipeline, [tick(start_of(-1))])
        evaluator = pipeline.evaluator()
        assert evaluator.cycle()
        evaluator.release_lease()
        return pipeline

    yield make
    for pipeline in made:
        pipeline.engine.dispose()
    for database in databases:
        request.getfixturevalue("postgres").drop_database(database)


def send(pipeline: Pipeline, events: Sequence[Event]) -> None:
    pipeline.broker.produce(DECISIONS, messages(events))
    pipeline.drain()


def kept(pipeline: Pipeline) -> dict[str, StoredProbeSet]:
    return EvaluatorStore(pipeline.engine, DECISIONS).read(read_probe_sets)


def shown(pipeline: Pipeline) -> tuple[ShownProbeSet, ...]:
    body = pipeline.snapshot()
    assert body is not None
    return decode(body).probes


def alone(pipeline: Pipeline, events: Sequence[Event] = EVENTS) -> None:
    send(pipeline, events)
    evaluator = pipeline.evaluator()
    assert evaluator.cycle()
    evaluator.release_lease()


class Failing:
    """An evaluator whose commits break off, before or after they are written."""

    def __init__(self, evaluator: Evaluator, pick: random.Random) -> None:
        self.evaluator, self._pick = evaluator, pick
        self._real = evaluator.store.commit
        evaluator.store.commit = self._commit  # type: ignore[method-assign, assignment]

    def _commit(self, *arguments: Any) -> int | None:
        fate = self._pick.random()
        if fate < 0.25:
            raise StoreError("it breaks off before")
        number = self._real(*arguments)
        if fate < 0.5:
            raise StoreError("it breaks off after")
        return number

    def cycle(self) -> None:
        while True:
            try:
                assert self.evaluator.cycle()
                return
            except StoreError:
                continue


def test_flips_and_their_page_are_in_the_snapshot(site: Callable[[str], Pipeline]) -> None:
    pipeline = site("one")
    (declared,) = shown(pipeline)
    tick_mark = to_micros(start_of(-1)) - pipeline.settings.stream.lateness
    assert (declared.name, declared.compared, declared.covered) == (SET, 0, tick_mark)
    alone(pipeline)
    (found,) = shown(pipeline)
    assert found == replace(
        declared,
        compared=PAIRS * RUNS - 1,
        incomplete=1,
        flips=FLIPS,
        covered=to_micros(start_of(RUNS - 1)),
        pages=found.pages,
        standing=(replace(FLIPS[0], count=PARTED),),
    )
    begun = to_micros(start_of(BROKEN))
    assert [*found.pages] == [FlipDirection.HELD_BACK]
    assert begun < found.pages[FlipDirection.HELD_BACK] < begun + 2 * PAIRS * 1_000_000


@pytest.mark.parametrize("seed", range(2))
def test_kills_and_takeovers_change_no_byte(
    seed: int, site: Callable[[str], Pipeline], clock: Clock
) -> None:
    reference, pipeline, pick = site("alone"), site("many"), random.Random(seed)
    alone(reference)
    lease = int(pipeline.settings.evaluate.lease)
    replicas = [Failing(pipeline.evaluator(), pick) for _ in range(2)]
    left = EVENTS
    while left:
        size = pick.choice([2, 7, 40])
        send(pipeline, left[:size])
        left = left[size:]
        clock.at += 1000 * lease
        replicas[pick.randrange(2)].cycle()
        if pick.random() < 0.2:
            replicas[pick.randrange(2)] = Failing(pipeline.evaluator(), pick)
        if pick.random() < 0.2:
            pipeline.kill(pipeline.workers[0])
            pipeline.worker()
    assert kept(pipeline) == kept(reference)
    assert shown(pipeline) == shown(reference)
    assert shown(pipeline)[0].pages


def test_a_page_ends_when_the_router_is_repaired(site: Callable[[str], Pipeline]) -> None:
    pipeline = site("one")
    alone(pipeline, [*probes(range(6), broken=range(3, 5)), tick(start_of(6))])
    (found,) = shown(pipeline)
    assert found.flips[0].count == 2 * PARTED
    assert not found.pages
    assert not found.standing


def test_what_is_loaded_in_bulk_never_pages(tmp_path: Path) -> None:
    with Pipeline(tmp_path, text=TEXT) as pipeline:
        pipeline.worker()
        alone(pipeline)
        (found,) = shown(pipeline)
    assert (found.flips, found.pages) == (FLIPS, {})


def test_nothing_is_written_while_nothing_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Pipeline(tmp_path, text=TEXT, stream__clock="live") as pipeline:
        pipeline.worker()
        send(pipeline, EVENTS)
        evaluator = pipeline.evaluator()
        assert evaluator.cycle()
        before = pipeline.snapshot()
        with monkeypatch.context() as patched:
            patched.setattr(evaluator.store, "commit", None)
            assert evaluator.cycle()
        send(pipeline, [probe(RUNS, 0, "formal"), tick(start_of(RUNS) + timedelta(minutes=1))])
        assert evaluator.cycle()
        assert pipeline.snapshot() == before, "half a round shows nothing"


def test_probes_tell_no_more_of_event_time_than_the_watermark(tmp_path: Path) -> None:
    with Pipeline(tmp_path, text=TEXT, stream__clock="live") as pipeline:
        pipeline.worker()
        noon = start_of(0) + timedelta(hours=12)
        lateness = timedelta(microseconds=pipeline.settings.stream.lateness)
        send(pipeline, [*probes(range(1)), tick(noon + lateness)])
        evaluator = pipeline.evaluator()
        assert evaluator.cycle()
        before = decode(pipeline.snapshot() or b"")
        again = [
            signed(event | {"decided_at": lesson.text(noon), "decision_id": f"again-{i}"})
            for i, event in enumerate(probes(range(1))[:2])
        ]
        send(pipeline, [*again, tick(noon + lateness + timedelta(minutes=2))])
        assert evaluator.cycle()
        after = decode(pipeline.snapshot() or b"")
        assert after.watermark == before.watermark, "no pane was closed"
        assert after.probes == before.probes, "or they would tell when the last decision was made"
        send(pipeline, [tick(noon + lateness + timedelta(minutes=5))])
        assert evaluator.cycle()
        closed = decode(pipeline.snapshot() or b"")
        assert closed.probes[0].compared == before.probes[0].compared + 1


def declaring(pipeline: Pipeline, *probes: DeclaredSet) -> Evaluator:
    """An evaluator started with other declared sets."""
    usual = pipeline.evaluator()
    return Evaluator(usual.store, replace(usual.policy, probes=probes), pipeline.clock)


def test_another_content_under_the_same_name_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Pipeline(tmp_path, text=TEXT, stream__clock="live") as pipeline:
        pipeline.worker()
        alone(pipeline)
        (declared,) = pipeline.settings.probes.sets
        other = declared_sets(pipeline.settings.probes)[0]
        other = replace(other, digest="0" * 64)
        evaluator = declaring(pipeline, other)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "slicewatch.evaluate"):
            assert evaluator.cycle()
        assert [record.probe_set for record in caplog.records] == [declared.name]  # type: ignore[attr-defined]
        (found,) = shown(pipeline)
        assert (found.digest, found.compared, found.flips) == (other.digest, 0, ())
        assert kept(pipeline)[SET].digest == other.digest


def test_a_set_that_is_declared_no_more_is_forgotten(tmp_path: Path) -> None:
    with Pipeline(tmp_path, text=TEXT, stream__clock="live") as pipeline:
        pipeline.worker()
        alone(pipeline)
        evaluator = declaring(pipeline)
        assert evaluator.cycle()
        assert kept(pipeline) == {}
        assert shown(pipeline) == ()


def test_what_is_not_signed_is_compared_with_nothing(tmp_path: Path) -> None:
    with Pipeline(tmp_path, text=TEXT, stream__clock="live") as pipeline:
        pipeline.worker()
        forged = [event | {"signature": "0" * 64} for event in probes(range(BROKEN, RUNS))]
        alone(pipeline, [*forged, tick(start_of(RUNS))])
        (found,) = shown(pipeline)
        assert (found.compared, found.flips, found.incomplete) == (0, (), 0)
        assert pipeline.seen.unsigned == len(forged)
