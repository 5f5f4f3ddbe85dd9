"""A limit on the selection rate, from raw events without any label to crossings and states."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from pipeline import DECISIONS, LABELS, SETTINGS, Pipeline

from monitor.core.contract import Verdict
from monitor.core.metric import Metric
from monitor.core.publish.annotations import IncidentKind
from monitor.core.publish.incidents import Incident
from monitor.core.publish.snapshot import SliceRow, decode
from monitor.core.state import State
from monitor.core.time import DAY
from monitor.detection.pages.streams import Direction, Stream, StreamKind
from monitor.store.evaluator.stored_incidents import read_incidents

pytestmark = pytest.mark.full

START = datetime(2026, 6, 1, tzinfo=UTC)
BEGAN = int(START.timestamp() * 1e6)
DAYS, ONSET, DAILY = 6, 3, 2_000
_CONTRACT = SETTINGS.index("[use_case.contract]")
TEXT = (
    SETTINGS[: SETTINGS.index("group_bys")]
    + 'group_bys = [{ attributes = ["channel"] }]\n'
    + SETTINGS[_CONTRACT:].replace('version = "1"', 'version = "2"\nmax_selection_gap = 0.10', 1)
)


def day(
    rng: np.random.Generator, number: int, rates: dict[str, float], *, requested: bool = False
) -> Iterator[bytes]:
    """Decisions of a day; without requests for labels none gets one."""
    for at, second in enumerate(np.sort(rng.integers(0, 86_400, DAILY)).tolist()):
        channel = "chat" if rng.random() < 0.4 else "email"
        served = bool(rng.random() < rates[channel])
        decision = {
            "decision_id": f"{number}-{at}",
            "decided_at": (START + timedelta(days=number, seconds=second)).isoformat(),
            "route": "auto_serve" if served else "human_review",
            "judge_score": round(rng.uniform(0.7, 1.0) if served else rng.uniform(0, 0.7), 3),
            "threshold": 0.7,
            "evidence_passed": True,
            "attributes": {"channel": channel, "language_variety": "formal"},
            "versions": {"judge": "j", "rubric": "r", "policy": "p", "router": "t"},
            "audit_p": 0.05,
            "label_requested": requested and not served,
        }
        yield json.dumps(decision).encode()


def play(pipeline: Pipeline, before: dict[str, float], after: dict[str, float]) -> None:
    """All days as they come, an evaluation after each."""
    rng = np.random.default_rng(7)
    pipeline.worker()
    evaluator = pipeline.evaluator()
    for number in range(DAYS):
        rates = before if number < ONSET else after
        pipeline.broker.produce(DECISIONS, list(day(rng, number, rates)), 0)
        pipeline.drain()
        assert evaluator.cycle()


def crossings(pipeline: Pipeline) -> list[tuple[Stream, int]]:
    """Streams with the day, since the beginning, at whose hours they crossed."""
    with pipeline.engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT stream, crossed_at FROM crossing ORDER BY id"))
        return [(Stream.parse(key), (at - 1 - BEGAN) // DAY) for key, at in rows]


def row(pipeline: Pipeline, channel: str) -> SliceRow:
    stored = pipeline.snapshot()
    assert stored is not None
    (table,) = decode(stored).contracts
    (window,) = (one for one in table.windows if one.window == table.window)
    (group,) = window.groups
    return next(one for one in group.rows if one.slice == f"channel={channel}")


def test_a_gap_is_found_on_the_day_on_which_it_begins(tmp_path: Path) -> None:
    with Pipeline(tmp_path, text=TEXT) as pipeline:
        play(pipeline, {"chat": 0.5, "email": 0.55}, {"chat": 0.2, "email": 0.55})

        found = crossings(pipeline)
        assert {stream.metric for stream, _ in found} == {Metric.SELECTION}
        assert {stream.limit for stream, _ in found} == {Fraction("0.10")}
        first = {(stream.slice, stream.direction): day for stream, day in reversed(found)}
        assert first == {
            ("channel=chat", Direction.SLICE_WORSE): ONSET,
            ("channel=email", Direction.REFERENCE_WORSE): ONSET,
        }
        shown = row(pipeline, "chat")
        assert shown.states[Metric.SELECTION] is State.SUSPECTED, "history pages nobody"
        assert shown.gaps[Metric.SELECTION].verdict is Verdict.FAIL
        assert row(pipeline, "email").gaps[Metric.SELECTION].value == pytest.approx(
            -(shown.gaps[Metric.SELECTION].value or 0)
        )


def test_a_gap_at_its_limit_is_none(tmp_path: Path) -> None:
    at_limit = {"chat": 0.45, "email": 0.55}
    with Pipeline(tmp_path, text=TEXT) as pipeline:
        play(pipeline, at_limit, at_limit)
        assert crossings(pipeline) == []
        assert row(pipeline, "chat").states[Metric.SELECTION] is State.INCONCLUSIVE


def labels(events: Iterable[bytes]) -> Iterator[bytes]:
    """The label of every decision that one was requested of, five days later."""
    for event in events:
        decision = json.loads(event)
        if decision["label_requested"]:
            decided_at = datetime.fromisoformat(decision["decided_at"])
            label = {
                "label_id": f"l{decision['decision_id']}",
                "decision_id": decision["decision_id"],
                "decided_at": decision["decided_at"],
                "version": 1,
                "ready": sum(map(ord, decision["decision_id"])) % 3 == 0,
                "kind": "initial",
                "reason": "audit",
                "reviewer": "r1",
                "labelled_at": (decided_at + timedelta(days=LABELS_TAKE)).isoformat(),
            }
            yield json.dumps(label).encode()


LABELS_TAKE = 5
LIVE_DAYS = 10


def test_it_pages_on_the_day_also_where_labels_come_five_days_later(tmp_path: Path) -> None:
    """As the service runs, with an evaluation every six hours and a restart a day."""
    rng = np.random.default_rng(7)
    with Pipeline(tmp_path, text=TEXT, stream__clock="live") as pipeline:
        pipeline.worker()
        made: list[list[bytes]] = []
        for number in range(LIVE_DAYS):
            rates = {"chat": 0.5 if number < ONSET else 0.2, "email": 0.55}
            made.append(list(day(rng, number, rates, requested=True)))
            if number >= LABELS_TAKE:
                pipeline.broker.produce(LABELS, list(labels(made[number - LABELS_TAKE])), 0)
            evaluator = pipeline.evaluator()
            for quarter in np.array_split(np.array(made[-1], object), 4):
                pipeline.broker.produce(DECISIONS, quarter.tolist(), 0)
                pipeline.drain()
                assert evaluator.cycle()
            if number == ONSET:
                with pipeline.engine.connect() as connection:
                    assert connection.execute(sa.text("SELECT hour FROM cohort")).all() == []
                (incident,) = incidents(pipeline)
                assert (incident.metric, incident.kind) == (Metric.SELECTION, IncidentKind.BREACH)
                assert incident.slice in ("channel=chat", "channel=email")
                assert incident.resolved_at is None
            evaluator.release_lease()
        found = {stream for stream, at in crossings(pipeline) if at == ONSET}
        assert {stream.slice for stream in found} == {"channel=chat", "channel=email"}
        assert row(pipeline, "chat").states[Metric.SELECTION] is State.BREACH
        with pipeline.engine.connect() as connection:
            consumed = connection.execute(sa.text("SELECT count(*) FROM cohort")).scalar_one()
        assert consumed > 24, "those with their labels have their turn as well"
        assert len(incidents(pipeline)) == 1


def incidents(pipeline: Pipeline) -> list[Incident]:
    with pipeline.engine.connect() as connection:
        return read_incidents(connection, resolved=True)


RATIO = TEXT.replace("max_selection_gap = 0.10\n", "min_selection_ratio = 0.80\n")


def test_a_ratio_is_found_that_no_gap_of_ten_points_would_show(tmp_path: Path) -> None:
    """At .105 against .20 the gap is .095, the ratio .53."""
    rare = {"chat": 0.17, "email": 0.20}
    with Pipeline(tmp_path, text=RATIO) as pipeline:
        play(pipeline, rare, {"chat": 0.105, "email": 0.20})
        found = crossings(pipeline)
        first = {(stream.slice, stream.direction): stream for stream, _ in reversed(found)}
        assert {*first} == {
            ("channel=chat", Direction.SLICE_WORSE),
            ("channel=email", Direction.REFERENCE_WORSE),
        }
        assert {(s.kind, s.limit) for s, _ in found} == {(StreamKind.RATIO, Fraction("0.80"))}
        assert all(day >= ONSET for _, day in found)
        shown = row(pipeline, "chat")
        assert shown.states[Metric.SELECTION] is State.SUSPECTED
        ratio = shown.gaps[Metric.SELECTION].ratio_upper
        assert ratio is not None
        assert ratio < 0.8
        assert shown.gaps[Metric.SELECTION].verdict is Verdict.FAIL
        assert row(pipeline, "email").gaps[Metric.SELECTION].verdict is Verdict.BETTER_OFF
        stored = pipeline.snapshot()
        assert stored is not None
        assert decode(stored).contracts[0].min_ratios == {Metric.SELECTION: 0.8}
