"""Reviewers' agreement as it is published, against a direct computation from their labels."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lesson
import pytest
from pipeline import DECISIONS, LABELS, Pipeline, messages

from monitor.core.publish.snapshot import SliceRow, WindowTable, decode

pytestmark = pytest.mark.full

CHANNELS, VARIETIES = ("chat", "email"), ("formal", "conversational")
DECIDED = 400

Event = dict[str, Any]
Verdicts = list[tuple[bool, bool]]


class Reviews:
    """All decisions are labelled, some by two reviewers, a few of these corrected since."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.decisions: list[Event] = []
        self.labels: list[Event] = []
        self.by_slice: dict[str, Verdicts] = defaultdict(list)
        for number in range(DECIDED):
            self._decide(number)

    def _decide(self, number: int) -> None:
        pick = self.random
        key, at = f"d{number}", lesson.START + timedelta(minutes=number)
        attributes = {"channel": pick.choice(CHANNELS), "language_variety": pick.choice(VARIETIES)}
        self.decisions.append(dict(lesson.decision(key, at, pick.random(), attributes=attributes)))
        truth, second = pick.random() < 0.6, pick.random() < 0.5
        wrong = 0.05 if attributes["channel"] == "chat" else 0.25
        said = [truth != (pick.random() < wrong) for _ in range(2)]
        for reviewer, ready in enumerate(said[: 1 + second]):
            more = {"label_id": f"{key}-{reviewer}", "reviewer": f"reviewer-{reviewer}"}
            self.labels.append(dict(lesson.label(key, at, ready, **more)))
        if pick.random() < 0.1:
            more = {"label_id": f"{key}-corrected", "kind": "correction", "reviewer": "lead"}
            self.labels.append(dict(lesson.label(key, at, truth, **more)))
        if second:
            channel, variety = (f"{name}={value}" for name, value in attributes.items())
            for text in ("", channel, variety, f"{channel},{variety}"):
                self.by_slice[text].append((said[0], said[1]))

    def kappa(self, text: str) -> float:
        """Who is called the first of two reviewers means nothing: each pair counts both ways."""
        from sklearn.metrics import cohen_kappa_score  # two seconds

        first, second = zip(*self.by_slice[text], strict=True)
        return float(cohen_kappa_score(first + second, second + first))


@pytest.fixture(params=["sqlite", "postgresql"])
def pipeline(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pipeline]:
    where = {}
    if request.param == "postgresql":
        where["store__url"] = request.getfixturevalue("postgres_url")
    with Pipeline(tmp_path, (1, 2), **where) as made:
        yield made


def published(pipeline: Pipeline, window: str) -> WindowTable:
    (table,) = decode(pipeline.snapshot() or b"").contracts
    (found,) = (one for one in table.windows if one.window == window)
    return found


def rows(table: WindowTable) -> list[SliceRow]:
    return [table.total, *(row for group in table.groups for row in group.rows)]


@pytest.mark.parametrize("seed", range(2))
def test_kappa_of_every_slice_is_that_of_its_reviewers(pipeline: Pipeline, seed: int) -> None:
    reviews = Reviews(seed)
    reviews.random.shuffle(reviews.labels)
    tick = lesson.tick(days=8)  # pairs are counted by the week
    pipeline.broker.produce(DECISIONS, messages([*reviews.decisions, dict(tick)]))
    for number, label in enumerate(reviews.labels):
        pipeline.broker.produce(LABELS, messages([label]), number % 2)
    pipeline.worker()
    pipeline.drain()
    pipeline.fold()
    found = {row.slice: row.agreement for row in rows(published(pipeline, "7d"))}
    shown = {text for text, agreement in found.items() if agreement is not None}
    assert shown == set(reviews.by_slice)
    for text in shown:
        agreement = found[text]
        assert agreement is not None
        assert agreement.kappa == pytest.approx(reviews.kappa(text))
        assert agreement.kappa is not None
        assert agreement.lower < agreement.kappa < agreement.upper
    for other in ("24h", "28d"):
        assert all(row.agreement is None for row in rows(published(pipeline, other)))
