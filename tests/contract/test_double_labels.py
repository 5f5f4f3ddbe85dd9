"""Labels of two reviewers as both databases keep and count them."""

from __future__ import annotations

import itertools
from collections import Counter as Counted
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import sqlalchemy as sa
from set_clock import SetClock

from monitor.core.counts.cells import Counter, Route, Stratum
from monitor.core.counts.labels import INITIAL, KIND_RANKS, RETRACTED, LabelColumns
from monitor.core.time import HOUR, MINUTE
from monitor.flushes import DecisionColumns, Dictionary, LabelRequest, ShardFlush
from monitor.records import Shard
from monitor.shard_status import Claim, Tallies
from monitor.store import database as db
from monitor.store.deltas import summed
from monitor.store.erasure import forget
from monitor.store.evaluator.store import EvaluatorStore
from monitor.store.ingest.ingest_store import IngestStore
from monitor.store.schema import double_label, label_state, waiting_label

D0, L0, L1 = Shard("decisions", 0), Shard("labels", 0), Shard("labels", 1)
T0 = 500_000 * HOUR
STRATUM = Stratum(Route.HUMAN_REVIEW, 0, 0).code
DICTIONARY = Dictionary({1: "channel=chat"}, {2: "v"}, {77: (1, 2, STRATUM)})
CORRECTION, ADJUDICATION = KIND_RANKS["correction"], KIND_RANKS["adjudication"]
READY, NOT_READY, UNDECIDABLE = 1, 0, 2


class Said(NamedTuple):
    """A label of the decision; ``at`` minutes after it."""

    at: int
    reviewer: int
    ready: int
    rank: int = INITIAL
    decision: int = 1
    complaint: int = 0


FIRST, SECOND, THIRD = Said(1, 50, READY), Said(2, 60, NOT_READY), Said(3, 70, NOT_READY)
SAME_AGAIN = Said(4, 50, NOT_READY)
CORRECTED = Said(5, 60, READY, CORRECTION)
DECIDED = Said(6, 80, NOT_READY, ADJUDICATION)
RETRACTION = Said(7, 80, NOT_READY, RETRACTED)


def columns(labels: tuple[Said, ...]) -> LabelColumns:
    return LabelColumns.from_rows(
        [
            (one.decision, T0, one.complaint, one.rank, 1, T0 + one.at * MINUTE,
             one.at * 100 + one.reviewer, one.ready, 0, one.reviewer)
            for one in labels
        ]
    )  # fmt: skip


def decisions(*ids: int) -> DecisionColumns:
    def same(value: int) -> Any:
        return np.full(len(ids), value, np.int64)

    return DecisionColumns(
        ids=np.array(ids, np.int64), ts=same(T0), cells=same(77), request=same(LabelRequest.KEPT),
        routes=same(1), arrivals=same(T0 // MINUTE),
        keys=np.array(ids, np.int64),
    )  # fmt: skip


class Worker:
    """One worker with all shards."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.store = IngestStore(engine, "decisions", SetClock(T0))
        self.store.register([D0, L0, L1])
        self.claims: dict[Shard, Claim] = {}
        for claim in self.store.claim([D0, L0, L1], "one"):
            self.store.start(claim, 0)
            self.claims[claim.shard] = replace(claim, next_offset=0, start_offset=0)

    def decide(self, *ids: int) -> None:
        part = decisions(*ids)
        self._flush({D0: (len(ids), {"decisions": part})})

    def label(self, *labels: Said, shard: Shard = L0) -> None:
        self._flush({shard: (len(labels), {"labels": columns(labels)})})

    def label_both(self, here: tuple[Said, ...], there: tuple[Said, ...]) -> None:
        """Labels of two partitions in one flush."""
        parts = {L0: here, L1: there}
        self._flush({s: (len(part), {"labels": columns(part)}) for s, part in parts.items()})

    def _flush(self, parts: dict[Shard, tuple[int, dict[str, Any]]]) -> None:
        flushes = []
        for shard, (length, part) in parts.items():
            claim = self.claims[shard]
            start = claim.next_offset or 0
            flushes.append(
                ShardFlush(
                    shard=shard,
                    epoch=claim.epoch,
                    expected_offset=start,
                    next_offset=start + length,
                    max_decided_at=T0,
                    watermark=T0,
                    holds_back=True,
                    tallies=Tallies(),
                    **part,
                )
            )
            self.claims[shard] = replace(claim, next_offset=start + length)
        self.store.flush(flushes, DICTIONARY)

    @property
    def pairs(self) -> dict[str, int]:
        """The pairs of all deltas together."""
        total = np.zeros(len(Counter), np.int64)
        for d in EvaluatorStore(self.engine, "decisions").deltas.after({}, 10_000):
            total += summed(d.payload).values.sum(axis=0)
        found = {Counter(i).name: int(v) for i, v in enumerate(total) if v}
        return {name: value for name, value in found.items() if name.startswith("PAIRS")}

    def rows(self, table: sa.Table) -> list[tuple[Any, ...]]:
        with db.reading(self.engine) as connection:
            return [tuple(row) for row in connection.execute(sa.select(table))]


@pytest.fixture
def worker(engine: sa.Engine) -> Worker:
    return Worker(engine)


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        ((FIRST, SECOND), {"PAIRS_APART": 1}),
        ((SECOND, THIRD), {"PAIRS_NOT_READY": 1}),
        ((FIRST, SECOND._replace(ready=READY)), {"PAIRS_READY": 1}),
        ((FIRST, SAME_AGAIN), {}),
        ((SECOND, THIRD, SAME_AGAIN), {"PAIRS_NOT_READY": 1}),
        ((FIRST, SECOND, THIRD), {"PAIRS_APART": 1}),
        ((FIRST, CORRECTED), {}),
        ((FIRST, SECOND, CORRECTED), {"PAIRS_APART": 1}),
        ((FIRST, SECOND, DECIDED), {"PAIRS_APART": 1}),
        ((FIRST, SECOND, RETRACTION), {}),
        ((FIRST, SECOND, DECIDED._replace(ready=UNDECIDABLE)), {"PAIRS_APART": 1}),
        ((FIRST, SECOND._replace(ready=UNDECIDABLE)), {}),
        ((FIRST, SECOND._replace(ready=UNDECIDABLE), THIRD), {"PAIRS_APART": 1}),
        ((FIRST, SECOND._replace(reviewer=0)), {}),
        ((FIRST._replace(reviewer=0), SECOND._replace(reviewer=0)), {}),
        ((FIRST, SECOND._replace(complaint=1)), {}),
    ],
)
def test_a_pair_in_every_order(
    worker: Worker, labels: tuple[Said, ...], wanted: dict[str, int]
) -> None:
    """Label by label, in each partition by turns, everything twice."""
    found: Counted[str] = Counted()
    orders = list(itertools.permutations(labels))
    worker.decide(*range(1, len(orders) + 1))
    for decision, order in enumerate(orders, start=1):
        for number, one in enumerate(order * 2):
            label = one._replace(decision=decision)
            worker.label(label, shard=(L0, L1)[(number + decision) % 2])
        for name, number in wanted.items():
            found[name] += number
        assert worker.pairs == +found


def test_in_one_flush_of_one_or_two_partitions(worker: Worker) -> None:
    worker.decide(1, 2)
    worker.label(CORRECTED, THIRD, SECOND, SECOND, FIRST)
    assert worker.pairs == {"PAIRS_APART": 1}
    second = [one._replace(decision=2) for one in (FIRST, SECOND, THIRD, CORRECTED)]
    worker.label_both((second[2], second[3]), (second[1], second[0]))
    assert worker.pairs == {"PAIRS_APART": 2}


def test_labels_that_waited_are_known_by_their_reviewers(worker: Worker) -> None:
    worker.label(FIRST)
    worker.label(SECOND, shard=L1)
    assert len(worker.rows(waiting_label)) == 2
    worker.decide(1)
    worker.label_both((), ())
    assert worker.pairs == {"PAIRS_APART": 1}


def test_only_a_decision_with_another_label_has_a_row(worker: Worker) -> None:
    worker.decide(1, 2, 3)
    worker.label(FIRST, FIRST._replace(decision=2), FIRST._replace(decision=3, complaint=1))
    worker.label(FIRST, FIRST._replace(decision=2))
    assert worker.rows(double_label) == []
    worker.label(CORRECTED)
    first, nobody = (T0 + MINUTE, 150, 50, READY), (0, 0, 0, 0)
    assert worker.rows(double_label) == [(T0 // HOUR, 1, *first, *nobody)]
    worker.label(SECOND)
    second = (T0 + 2 * MINUTE, 260, 60, NOT_READY)
    assert worker.rows(double_label) == [(T0 // HOUR, 1, *first, *second)]
    assert len(worker.rows(label_state)) == 3


def test_without_second_labels_a_flush_asks_and_writes_nothing_more(worker: Worker) -> None:
    """Repeated labels and corrections of complaints are none."""
    heard: list[str] = []
    sa.event.listen(
        worker.engine, "before_cursor_execute", lambda *call: heard.append(str(call[2]))
    )
    many = range(1, 301)
    worker.decide(*many)
    worker.label(*(FIRST._replace(decision=number) for number in many))
    before = len(heard)
    worker.label(*(FIRST._replace(decision=number) for number in many))
    worker.label(FIRST._replace(complaint=1), SECOND._replace(complaint=1, rank=CORRECTION))
    assert not [text for text in heard if "double_label" in text]
    assert len(heard) > before
    del heard[:]
    worker.label(*(SECOND._replace(decision=number) for number in many))
    about = [text for text in heard if "double_label" in text]
    assert len(about) == 2, "one statement reads, and one writes"
    assert worker.pairs == {"PAIRS_APART": 300}


def test_who_labelled_before_the_upgrade_is_nobody(worker: Worker) -> None:
    worker.decide(1)
    worker.label(FIRST)
    with db.writing(worker.engine) as connection:
        connection.execute(sa.update(label_state).values(reviewer=0))
    worker.label(SECOND)
    assert worker.pairs == {}
    worker.label(THIRD)
    assert worker.pairs == {"PAIRS_NOT_READY": 1}


def test_what_was_erased_is_in_no_pair_to_come(worker: Worker) -> None:
    worker.decide(1)
    worker.label(FIRST, SECOND)
    assert forget(worker.engine, 1) == {
        "pending": 1, "label_state": 1, "double_label": 1, "waiting_label": 0
    }  # fmt: skip
    assert worker.rows(double_label) == []
    assert worker.pairs == {"PAIRS_APART": 1}, "sums are of no person"
