"""Results of bias evaluations among labels: taken whole, or refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.bias_results import OLDEST, BiasResults
from consumers.dead_letters import DeadLetterBuffer, IdHasher
from monitor.core.bias_scores import BiasDimension, BiasScore, current_scores
from monitor.core.time import DAY
from monitor.records import RecordBatch, Shard

TODAY = (date(2026, 11, 20) - date(1970, 1, 1)).days
NOW = TODAY * DAY + 1
RESULT: dict[str, object] = {
    "type": "bias_result",
    "dimension": "refusals",
    "measured": "2026-11-20",
    "score": 0.04,
    "items": 400,
    "probe_set": "hiring",
    "probe_version": "1",
    "model": "m-2",
    "rubric": None,
}


def taken(*values: bytes | None) -> tuple[RecordBatch, list[BiasScore], DeadLetterBuffer]:
    offsets = list(range(10, 10 + len(values)))
    batch = RecordBatch(Shard("labels", 0), offsets, values, [-1] * len(values), 99)
    letters = DeadLetterBuffer(batch, IdHasher.with_key(b"k"))
    rest, found = BiasResults({"refusals"}).take(batch, letters, NOW)
    return rest, found, letters


def event(**more: object) -> bytes:
    return json.dumps({**RESULT, **more}).encode()


def test_a_result_is_taken_and_labels_stay() -> None:
    label = b'{"label_id": "bias_result", "type": "other"}'
    rest, (one,), letters = taken(label, event(), None, b"not json")
    assert one == BiasScore("refusals", TODAY, 0.04, 400, "hiring", "1", "m-2", "")
    assert list(rest.offsets) == [10, 12, 13]
    assert list(rest.values) == [label, None, b"not json"]
    assert rest.high_water == 99
    assert letters.found == []


REFUSED = [
    (event(dimension="total"), "invalid_value", "dimension"),
    (event(measured="2026-11-22"), "invalid_value", "measured"),
    (event(measured="2024-01-01"), "invalid_value", "measured"),
    (event(measured="yesterday"), "invalid_value", "measured"),
    (event(score="secret"), "invalid_value", "score"),
    (event(items=0), "invalid_value", "items"),
    (event(probe_set="a b"), "invalid_value", "probe_set"),
    (event() + b"x", "malformed_json", ""),
]


@pytest.mark.parametrize(("value", "reason", "field"), REFUSED)
def test_what_is_no_result_is_a_dead_letter(value: bytes, reason: str, field: str) -> None:
    rest, found, letters = taken(value)
    (one,) = letters.found
    assert (len(rest.offsets), found) == (0, [])
    assert (one.offset, one.reason, one.field) == (10, reason, field)
    assert "secret" not in str(one)


def test_the_oldest_day_that_is_taken() -> None:
    oldest = date.fromordinal(date(1970, 1, 1).toordinal() + TODAY - OLDEST)
    assert taken(event(measured=oldest.isoformat()))[1]
    before = date.fromordinal(oldest.toordinal() - 1)
    assert not taken(event(measured=before.isoformat()))[1]


DIMENSION = BiasDimension("refusals", limit=0.05, at_least=False, drift=0.03)


def scored(day: int, score: float, **more: str) -> BiasScore:
    of_set = {"probe_set": "hiring", "probe_version": "1", "model": "m"} | more
    return BiasScore("refusals", day, score, 400, **of_set)


def test_drift_is_since_the_last_score_of_the_same_set() -> None:
    results = [scored(1, 0.02), scored(8, 0.09, probe_version="2"), scored(15, 0.05)]
    (now,) = current_scores([DIMENSION], results)
    assert now.score == results[2]
    assert now.worse_by == pytest.approx(0.03)
    assert (now.drifted, now.beyond) == (True, False)
    (alone,) = current_scores([DIMENSION], results[1:2])
    assert (alone.worse_by, alone.drifted, alone.beyond) == (None, None, True)
    assert current_scores([DIMENSION], []) == []


@pytest.mark.parametrize(("worse_by", "drifted"), [(0.03, True), (0.0299, False)])
def test_a_drift_is_a_ticket_from_the_declared_number_on(worse_by: float, drifted: bool) -> None:
    (now,) = current_scores([DIMENSION], [scored(1, 0.01), scored(8, 0.01 + worse_by)])
    assert now.drifted is drifted


def test_of_a_least_that_is_allowed_lower_is_worse() -> None:
    impact = BiasDimension("refusals", limit=0.8, at_least=True, drift=0.03)
    (now,) = current_scores([impact], [scored(1, 0.85), scored(8, 0.82)])
    assert (now.beyond, now.drifted) == (False, True)
    (now,) = current_scores([impact], [scored(1, 0.75), scored(8, 0.79)])
    assert (now.beyond, now.drifted) == (True, False)


def test_a_score_is_due_when_it_is_old_or_another_model_was_measured() -> None:
    weekly = replace(DIMENSION, max_age=7)
    tone = replace(weekly, name="tone")
    results = [scored(1, 0.02), replace(scored(3, 0.02), dimension="tone")]
    assert [now.due for now in current_scores([weekly, tone], results)] == [8, 10]
    assert [now.due for now in current_scores([DIMENSION], results)] == [None]
    results[1] = replace(results[1], model="m-9")
    assert [now.due for now in current_scores([weekly, tone], results)] == [3, 10]


@given(st.permutations([scored(1, 0.02), scored(8, 0.04), scored(15, 0.01)]))
def test_the_order_of_arrival_does_not_matter(results: list[BiasScore]) -> None:
    assert current_scores([DIMENSION], results) == current_scores(
        [DIMENSION], sorted(results, key=lambda r: r.day)
    )
