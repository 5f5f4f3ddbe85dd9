"""Producer that puts the synthetic world on Kafka."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from itertools import chain

import msgspec
import numpy as np
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaError

from consumers.events import Decision, Label, Versions
from monitor.core.counts.cells import Route
from monitor.core.counts.labels import READY, UNDECIDABLE
from monitor.core.time import to_datetime
from monitor.demo.world import ATTRIBUTES, THRESHOLD, Decisions, Labels, Synthetic, WorldStep
from monitor.errors import SlicewatchError

VERSIONS = Versions(judge="judge-1", rubric="rubric-1", policy="policy-1", router="router-1")
_encode = msgspec.json.Encoder().encode
_NAMES = tuple(ATTRIBUTES)
_ATOMS = {
    codes: dict(zip(_NAMES, values, strict=True))
    for codes, values in zip(
        itertools.product(*(range(len(shares)) for shares in ATTRIBUTES.values())),
        itertools.product(*ATTRIBUTES.values()),
        strict=True,
    )
}
_ROUTES = tuple(route.name.lower() for route in Route)
DECISION_PARTITIONS, LABEL_PARTITIONS = 3, 2
EVENTS_PER_MESSAGE = 100
"""Arrays of this size make the client's cost per event negligible."""
REPEATED = 0.01
"""Share of events that are repeated a step later, as after a producer's time-out."""
BAD_PER_STEP = 0.1
PATIENCE = 30.0
"""Seconds that the broker may take to accept events."""
CLOSE_SECONDS = 5.0


@dataclass(slots=True)
class Produced:
    """Counts of records sent to the topics, including repeats and bad records."""

    messages: int = 0
    decisions: int = 0
    labels: int = 0
    repeated: int = 0
    bad: int = 0


def create_topics(bootstrap: str, decisions: str, labels: str) -> None:
    """Create the decisions and the labels topic, and wait until both can be read."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        for name, partitions in ((decisions, DECISION_PARTITIONS), (labels, LABEL_PARTITIONS)):
            options = {"num_partitions": partitions, "replication_factor": 1}
            admin.create_topics({name: options}, wait_for_metadata=True)
    except KafkaError as error:
        raise SlicewatchError(f"the demo's topics cannot be created: {error}") from error
    finally:
        admin.close()


class Traffic:
    """Kafka producer of a synthetic world's decisions and labels.

    Args:
        synthetic: router and reviewers.
        bootstrap: address of the broker.
        topics: names of the decisions and the labels topic.
    """

    def __init__(self, synthetic: Synthetic, bootstrap: str, topics: tuple[str, str]) -> None:
        self.produced = Produced()
        self._synthetic = synthetic
        self._topics = topics
        self._rng = np.random.default_rng(0)  # for repeats and bad records only
        self._again: tuple[Decisions, Labels] | None = None
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            linger_ms=5,
            compression_type="gzip",  # the broker keeps everything in memory; this takes a tenth
            batch_size=256 << 10,
            max_request_size=8 << 20,
            metrics_enabled=False,
        )

    def live_until(self, until: int, ending: Callable[[], bool] = lambda: False) -> None:
        """Produce all events before ``until``, microseconds, or until ``ending`` is true."""
        while self._synthetic.now < until and not ending():
            self._send(self._synthetic.step())
        self._flush()

    def close(self) -> None:
        """Close the Kafka producer; safe to call twice."""
        self._producer.close(timeout=CLOSE_SECONDS)

    def _send(self, step: WorldStep) -> None:
        """Send one step's events and the repeats drawn in the step before; count all of them."""
        stamp = step.end // 1000  # after every event of the step
        decisions, labels = step.decisions, step.labels
        repeated = self._again
        self._again = self._draw_repeats(decisions, labels)
        for sent_decisions, sent_labels in ([repeated] if repeated else []) + [(decisions, labels)]:
            self._send_decisions(sent_decisions, stamp)
            self._send_labels(sent_labels, stamp)
        if repeated:
            self.produced.repeated += len(repeated[0]) + len(repeated[1])

    def _draw_repeats(self, decisions: Decisions, labels: Labels) -> tuple[Decisions, Labels]:
        """Return a random 1 % of decisions and labels, which are sent again a step later."""
        return (
            decisions.take(self._rng.random(len(decisions)) < REPEATED),
            labels.take(self._rng.random(len(labels)) < REPEATED),
        )

    def _send_decisions(self, decisions: Decisions, stamp: int) -> None:
        """Produce decisions by partition, a few bad records among them, and count both."""
        self.produced.decisions += len(decisions)
        for partition in range(DECISION_PARTITIONS):
            in_partition = decisions.number % DECISION_PARTITIONS == partition
            events = decision_events(decisions.take(in_partition))
            bad = []
            if events and self._rng.random() < BAD_PER_STEP / DECISION_PARTITIONS:
                bad.append(bad_record(events[0], self._rng))
                self.produced.bad += 1
            self._produce(self._topics[0], partition, events, bad, stamp)

    def _send_labels(self, labels: Labels, stamp: int) -> None:
        self.produced.labels += len(labels)
        for partition in range(LABEL_PARTITIONS):
            in_partition = labels.number % LABEL_PARTITIONS == partition
            self._produce(
                self._topics[1], partition, label_events(labels.take(in_partition)), [], stamp
            )

    def _produce(
        self,
        topic: str,
        partition: int,
        events: Sequence[Decision] | Sequence[Label],
        bad: Sequence[bytes],
        stamp: int,
    ) -> None:
        for value in chain(messages(events, EVENTS_PER_MESSAGE), bad):
            self._producer.send(topic, value, partition=partition, timestamp_ms=stamp)
            self.produced.messages += 1

    def _flush(self) -> None:
        try:
            self._producer.flush(timeout=PATIENCE)
        except KafkaError as error:
            raise SlicewatchError(f"the demo's broker does not accept traffic: {error}") from error


def decision_events(decisions: Decisions) -> list[Decision]:
    """Convert columns of decisions to events, without the generator's truth."""
    columns = (
        decisions.number,
        decisions.at,
        decisions.values,
        decisions.score,
        decisions.route,
        decisions.audit_p,
        decisions.requested,
    )
    return [
        Decision(
            decision_id=_decision_id(number),
            decided_at=to_datetime(at),
            route=_ROUTES[route],
            judge_score=score,
            threshold=THRESHOLD,
            evidence_passed=route != Route.BLOCKED_BY_EVIDENCE,
            attributes={**_ATOMS[tuple(values)]},
            versions=VERSIONS,
            audit_p=audit_p,
            label_requested=requested,
        )
        for number, at, values, score, route, audit_p, requested in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def label_events(labels: Labels) -> list[Label]:
    """Convert columns of labels to label events."""
    columns = (getattr(labels, field.name) for field in fields(labels))
    return [
        Label(
            label_id=f"label-{number:09d}-{2 if correction else 1}",
            decision_id=_decision_id(number),
            decided_at=to_datetime(at),
            version=2 if correction else 1,
            ready=None if ready == UNDECIDABLE else ready == READY,
            kind="correction" if correction else "initial",
            reason="audit" if audit else "review",
            reviewer=f"reviewer-{reviewer:02d}",
            labelled_at=to_datetime(labelled_at),
        )
        for number, at, labelled_at, ready, correction, audit, reviewer in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def _decision_id(number: int) -> str:
    return f"demo-{number:09d}"


def messages(events: Sequence[Decision] | Sequence[Label], size: int) -> Iterator[bytes]:
    """Yield events encoded as JSON arrays, at most ``size`` events each."""
    for first in range(0, len(events), size):
        yield _encode(events[first : first + size])


def bad_record(decision: Decision, rng: np.random.Generator) -> bytes:
    """Spoil a decision in a way drawn at random; return bytes that become a dead letter."""
    spoil = _SPOILS[int(rng.integers(len(_SPOILS)))]
    return spoil(decision)


def _changed(decision: Decision, **fields: object) -> bytes:
    return _encode(msgspec.to_builtins(decision) | fields)


def _moment(decision: Decision) -> datetime:
    return msgspec.convert(decision.decided_at, datetime)


def _incomplete(decision: Decision) -> bytes:
    event = msgspec.to_builtins(decision)
    del event["route"]
    return _encode(event)


_SPOILS: tuple[Callable[[Decision], bytes], ...] = (
    lambda _: b"not JSON at all",
    _incomplete,
    lambda decision: _changed(decision, judge_score=1.7),
    lambda decision: _changed(decision, route="somewhere"),
    lambda decision: _changed(decision, decided_at="2026-01-05T00:00:00"),
    lambda decision: _changed(decision, judge_score="high"),
    lambda decision: _changed(decision, decided_at=_moment(decision) + timedelta(1)),
)
