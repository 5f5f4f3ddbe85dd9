"""A limit on the precision, from raw events with sampled labels to crossings and what is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import lesson
import numpy as np
import pytest
import sqlalchemy as sa
from pipeline import DECISIONS, LABELS, SETTINGS, Pipeline, messages

from monitor.core.contract import Verdict
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import ContractTable, SliceRow, decode
from monitor.core.state import State
from monitor.core.time import DAY
from monitor.detection.pages.streams import Direction, Stream

START = datetime(2026, 6, 1, tzinfo=UTC)
BEGAN = int(START.timestamp() * 1e6)
DAYS, ONSET, DAILY = 7, 3, 4_000
TPR, FPR = 0.8, 0.2
BEFORE, AFTER = {"chat": 0.75, "email": 0.75}, {"chat": 0.45, "email": 0.75}
"""P(ready): with the same TPR and FPR, precision falls from .92 to .77 in chat."""

_CONTRACT = SETTINGS.index("[use_case.contract]")
GUARDED = (
    SETTINGS[: SETTINGS.index("group_bys")].replace("synthetic = true\nk = 1\n", "")
    + 'group_bys = [{ attributes = ["channel"] }]\n'
    + SETTINGS[_CONTRACT:].replace('version = "1"', 'version = "2"', 1)
)
LIMITED = GUARDED.replace('version = "2"', 'version = "3"\nmax_precision_gap = 0.05', 1)


def day(number: int, ready: dict[str, float]) -> Iterator[tuple[dict[str, object], bool | None]]:
    """Decisions with their labels: of all that is reviewed, and a quarter of what is served."""
    rng = np.random.default_rng([number, 11])
    for at, second in enumerate(np.sort(rng.integers(0, 86_400, DAILY)).tolist()):
        channel = "chat" if rng.random() < 0.4 else "email"
        is_ready = bool(rng.random() < ready[channel])
        served = bool(rng.random() < (TPR if is_ready else FPR))
        audit = 0.25 if served else 1.0
        labelled = bool(rng.random() < audit)
        yield (
            {
                "decision_id": f"{number}-{at}",
                "decided_at": (START + timedelta(days=number, seconds=second)).isoformat(),
                "route": "auto_serve" if served else "human_review",
                "judge_score": 0.8 if served else 0.5,
                "threshold": 0.7,
                "evidence_passed": True,
                "attributes": {"channel": channel, "language_variety": "formal"},
                "versions": {"judge": "j", "rubric": "r", "policy": "p", "router": "t"},
                "audit_p": audit,
                "label_requested": labelled,
            },
            is_ready if labelled else None,
        )


def play(pipeline: Pipeline) -> None:
    """All days as they come, with their labels, and an evaluation after each."""
    pipeline.worker()
    evaluator = pipeline.evaluator()
    for number in range(DAYS):
        events = list(day(number, BEFORE if number < ONSET else AFTER))
        labels = [
            lesson.label(str(one["decision_id"]), datetime.fromisoformat(str(one["decided_at"])), y)
            for one, y in events
            if y is not None
        ]
        decided = [one for one, _ in events]
        for topic, sent in ((DECISIONS, decided), (LABELS, labels)):
            pipeline.broker.produce(topic, messages(sent, [500] * (len(sent) // 500 + 1)), 0)
        pipeline.drain()
        assert evaluator.cycle()


def shown(pipeline: Pipeline) -> ContractTable:
    stored = pipeline.snapshot()
    assert stored is not None
    (table,) = decode(stored).contracts
    return table


def rows(table: ContractTable) -> dict[str, SliceRow]:
    (window,) = (one for one in table.windows if one.window == table.window)
    return {row.slice: row for group in window.groups for row in group.rows}


def test_a_gap_that_neither_tpr_nor_fpr_has_is_found(tmp_path: Path) -> None:
    with Pipeline(tmp_path, text=LIMITED) as pipeline:
        play(pipeline)
        with pipeline.engine.connect() as connection:
            found = connection.execute(sa.text("SELECT stream, crossed_at FROM crossing"))
            crossed = [(Stream.parse(key), (at - 1 - BEGAN) // DAY) for key, at in found]
        assert {(s.metric, s.limit) for s, _ in crossed} == {(Metric.PRECISION, Fraction("0.05"))}
        assert {(s.slice, s.direction) for s, _ in crossed} == {
            ("channel=chat", Direction.SLICE_WORSE),
            ("channel=email", Direction.REFERENCE_WORSE),
        }
        assert min(number for _, number in crossed) >= ONSET

        table = shown(pipeline)
        assert table.max_gaps[Metric.PRECISION] == pytest.approx(0.05)
        chat = rows(table)["channel=chat"]
        rate, gap = chat.rates[Metric.PRECISION], chat.gaps[Metric.PRECISION]
        truth = precision_until(table)
        assert rate.value == pytest.approx(truth["chat"], abs=0.06)
        assert gap.value == pytest.approx(truth["email"] - truth["chat"], abs=0.06)
        assert gap.verdict is Verdict.FAIL
        assert chat.states[Metric.PRECISION] is State.SUSPECTED, "history pages nobody"


def precision_until(table: ContractTable) -> dict[str, float]:
    """The plain precision of every channel in the window's labels, from the events themselves."""
    (window,) = (one for one in table.windows if one.window == table.window)
    period = window.groups[0].labelled
    assert period is not None
    served: dict[str, list[bool]] = {"chat": [], "email": []}
    for number in range(DAYS):
        for one, ready in day(number, BEFORE if number < ONSET else AFTER):
            at = datetime.fromisoformat(str(one["decided_at"])).timestamp() * 1e6
            if one["route"] == "auto_serve" and ready is not None:
                attributes = json.loads(json.dumps(one["attributes"]))
                if period.start <= at < period.end:
                    served[attributes["channel"]].append(ready)
    return {channel: float(np.mean(labels)) for channel, labels in served.items()}


def test_without_a_limit_nothing_is_said_of_precision(tmp_path: Path) -> None:
    with Pipeline(tmp_path, text=GUARDED) as pipeline:
        play(pipeline)
        stored = pipeline.snapshot()
        assert stored is not None
        assert b"precision" not in stored
        with pipeline.engine.connect() as connection:
            assert connection.execute(sa.text("SELECT count(*) FROM crossing")).scalar() == 0
