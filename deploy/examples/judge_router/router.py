"""EXAMPLE, SYNTHETIC: a toy router around an LLM judge that sends its events to slicewatch.

The judge is a stand-in: a random score around how good the reply is. What the example shows is
where a router calls the producer's module: once for each decision, and once for each review. ::

    python router.py --bootstrap localhost:9092 --requests 6000

It decides requests of the last twelve hours, so that there is something to see at once: tables are
published by the hour.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from consumers.producing import AuditSampler, Producer, Topics, kafka_python

THRESHOLD = 0.70
BLOCKED, GOOD = 0.03, 0.6  # shares of the requests
VERSIONS = {"judge": "judge-1", "rubric": "rubric-1", "policy": "policy-1", "router": "toy-1"}


@dataclass(frozen=True)
class Reply:
    """A drafted reply, as the team's own code has it."""

    request_id: str
    asked_at: datetime
    channel: str
    good: bool


@dataclass(frozen=True)
class Routed:
    """What the router decided; its fields are named as those of a decision event."""

    decision_id: str
    decided_at: datetime
    route: str
    judge_score: float
    evidence_passed: bool
    attributes: dict[str, str]
    threshold: float = THRESHOLD


class Router:
    """Decides, and tells slicewatch."""

    def __init__(self, producer: Producer, rng: random.Random) -> None:
        self._producer = producer
        self._rng = rng

    def decide(self, reply: Reply) -> Routed:
        """The router's own work, with one call added."""
        found = self._rng.random() > BLOCKED
        score = min(1.0, max(0.0, self._rng.gauss(0.82 if reply.good else 0.62, 0.1)))
        route = "auto_serve" if score >= THRESHOLD else "human_review"
        routed = Routed(
            decision_id=reply.request_id,
            decided_at=reply.asked_at,
            route=route if found else "blocked_by_evidence",
            judge_score=score,
            evidence_passed=found,
            attributes={"channel": reply.channel},
        )
        drawn = self._producer.decision(routed, versions=VERSIONS)
        if drawn.label_requested:
            self._review(reply, routed)
        return routed

    def _review(self, reply: Reply, routed: Routed) -> None:
        """A reviewer looks; here at once, and rightly."""
        self._producer.label(
            routed,
            label_id=f"label-{routed.decision_id}",
            version=1,
            ready=reply.good,
            kind="initial",
            reason="audit" if routed.route == "auto_serve" else "review",
            reviewer="hash-of-a-reviewer",
            labelled_at=routed.decided_at + timedelta(seconds=30),
        )


def replies(rng: random.Random, number: int, hours: float) -> Iterator[Reply]:
    """Requests of the last hours, evenly, oldest first."""
    now, run = datetime.now(UTC), rng.getrandbits(32)
    for i in range(number):
        at = now - timedelta(hours=hours * (number - i) / number)
        yield Reply(f"{run:x}-{i}", at, rng.choice(("chat", "email")), rng.random() < GOOD)


def main() -> None:
    """Decide some requests, and say what became of their events."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="localhost:9092", help="Kafka brokers")
    parser.add_argument("--decisions-topic", default="decisions")
    parser.add_argument("--labels-topic", default="labels")
    parser.add_argument("--requests", type=int, default=6_000)
    parser.add_argument("--hours", type=float, default=12.0)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    rng = random.Random(given.seed)  # noqa: S311 - the judge is a toy
    topics = Topics(given.decisions_topic, given.labels_topic)
    producer = Producer(
        kafka_python(given.bootstrap, topics), AuditSampler(auto_serve=0.25), buffer=100_000
    )
    router = Router(producer, rng)
    for reply in replies(rng, given.requests, given.hours):
        router.decide(reply)
    producer.close(timeout=60)
    sys.stdout.write(f"{producer.counts}\n")


if __name__ == "__main__":
    main()
