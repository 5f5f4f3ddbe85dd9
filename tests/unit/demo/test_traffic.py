"""What the demo sends: events that the service takes, and a few that it must refuse."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from demo_history import CODING

from consumers.codec import DecisionCodec, LabelCodec
from consumers.coder import Coder
from consumers.dead_letters import DeadLetterBuffer, IdHasher
from consumers.event_time import TOO_EARLY, ClockPolicy, ShardClock
from consumers.events import Decision
from monitor.core.counts.coding import CodingHistory
from monitor.core.counts.labels import UNDECIDABLE
from monitor.core.time import DAY, HOUR, MINUTE
from monitor.demo.traffic import bad_record, decision_events, label_events, messages
from monitor.demo.world import STEP, Synthetic, WorldStep
from monitor.records import RecordBatch, Shard


@pytest.fixture(scope="module")
def step() -> WorldStep:
    """A step with decisions and labels, corrections among them."""
    synthetic = Synthetic(seed=5)
    for _ in range(DAY // STEP):
        step = synthetic.step()
    return step


def records(topic: str, values: list[bytes], at: int) -> RecordBatch:
    return RecordBatch(
        Shard(topic, 0), list(range(len(values))), values, [at // 1000] * len(values), None
    )


def read_all(codec: Any, batch: RecordBatch) -> tuple[Any, list[str]]:
    letters = DeadLetterBuffer(batch, IdHasher.with_key(b""))
    return codec.read(batch, letters), [letter.reason for letter in letters.found]


def decision_codec() -> DecisionCodec:
    return DecisionCodec(Coder(CodingHistory.always(CODING), max_versions=8), CODING)


def test_every_decision_is_read_back_as_it_was_made(step: WorldStep) -> None:
    made = step.decisions
    values = list(messages(decision_events(made), 100))
    read, refused = read_all(decision_codec(), records("decisions", values, step.end))
    assert not refused
    assert read.ts.tolist() == made.at.tolist()
    assert read.requested.tolist() == made.requested.tolist()
    assert read.bands.tolist() == [CODING.band(score) for score in made.score.tolist()]


def test_every_label_is_read_back_as_it_was_given(step: WorldStep) -> None:
    values = list(messages(label_events(step.labels), 100))
    read, refused = read_all(
        LabelCodec(IdHasher.with_key(b"")), records("labels", values, step.end)
    )
    assert not refused
    assert read.labels.ready.tolist() == step.labels.ready.tolist()
    assert read.labels.rank.tolist() == step.labels.correction.astype(int).tolist()
    assert read.labels.labelled_at.tolist() == step.labels.labelled_at.tolist()


def test_a_label_names_its_decision_and_repeats_its_time(step: WorldStep) -> None:
    decisions = {e.decision_id: e.decided_at for e in decision_events(step.decisions)}
    mine = np.isin(step.labels.number, step.decisions.number)
    for label in label_events(step.labels.take(mine)):
        assert decisions[label.decision_id] == label.decided_at


def test_label_ids_are_unique_and_an_undecided_label_says_null(step: WorldStep) -> None:
    labels = label_events(step.labels)
    assert len({label.label_id for label in labels}) == len(labels)
    for label, ready in zip(labels, step.labels.ready.tolist(), strict=True):
        assert (label.ready is None) is (ready == UNDECIDABLE)


def test_messages_are_arrays_of_at_most_the_size_asked_for(step: WorldStep) -> None:
    sizes = [
        len(msgspec.json.decode(value, type=list[Decision]))
        for value in messages(decision_events(step.decisions), 100)
    ]
    assert sum(sizes) == len(step.decisions)
    assert sizes[:-1] == [100] * (len(sizes) - 1)


def test_nothing_is_later_than_the_broker_says(step: WorldStep) -> None:
    assert step.decisions.at.max() < step.end
    assert step.labels.labelled_at.max() < step.end


def test_every_bad_record_ends_as_one_dead_letter(step: WorldStep) -> None:
    event, rng = decision_events(step.decisions)[0], np.random.default_rng(0)
    codec, clock = decision_codec(), ShardClock(ClockPolicy(True, 3 * DAY, 5 * MINUTE))
    reasons = set()
    for _ in range(60):
        batch = records("decisions", [bad_record(event, rng)], step.end)
        read, refused = read_all(codec, batch)
        refused += [r for r in clock.admit(read.ts, read.timestamps, step.end)[0].tolist() if r]
        assert len(refused) == 1
        reasons.update(refused)
    assert TOO_EARLY in reasons
    assert len(reasons) >= 5


def test_labels_stay_far_from_the_horizon(step: WorldStep) -> None:
    assert (step.end - step.labels.at).max() < 2 * DAY + HOUR
