#!/usr/bin/env python3
"""A synthetic router and its reviewers on Kafka: days of history at once, then in real time.

Everything is invented: test conditions, not a finding about people. In the second half of the
history, and ever since, ready requests in German are scored lower than others, so that more of
them wait for a person. Prints one JSON object with what was sent when it ends (SIGTERM, Ctrl-C).

Example: python traffic.py --bootstrap localhost:9092 --days 9 --per-second 5
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from kafka import KafkaProducer

CHANNELS, LANGUAGES = {"chat": 0.6, "email": 0.4}, {"en": 0.5, "de": 0.3, "es": 0.2}
THRESHOLD, AUDIT_P = 0.7, 0.1
READY, BLOCKED = 0.6, 0.05
SCORES = {True: 0.82, False: 0.55}  # mean score of requests that are ready, and of others
SPREAD, DROP = 0.12, 0.12
DELAY = 20 * 60.0  # mean seconds until a label
VERSIONS = {"judge": "j1", "rubric": "r1", "policy": "p1", "router": "t1"}
DAY = 86_400.0
FLUSH_SECONDS = 10.0  # less than stop_grace_period in compose.yaml


def moment(seconds: float) -> str:
    """A time as events have it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


class Router:
    """Decides about synthetic requests, and knows which of them were ready."""

    def __init__(self, seed: int, regression_at: float) -> None:
        self._rng = random.Random(seed)  # noqa: S311  nothing here is secret
        self._regression_at = regression_at
        self._prefix = f"{random.SystemRandom().randrange(1 << 48):012x}"
        self._numbers = itertools.count()

    def decide(self, at: float) -> tuple[dict[str, object], dict[str, object] | None, float]:
        """A decision, its label or None, and when the label is given."""
        rng = self._rng
        values = {"channel": self._one_of(CHANNELS), "language": self._one_of(LANGUAGES)}
        ready = rng.random() < READY
        regressed = values["language"] == "de" and at >= self._regression_at
        mean = SCORES[ready] - (DROP if ready and regressed else 0.0)
        score = round(min(max(rng.gauss(mean, SPREAD), 0.0), 1.0), 4)
        passed = rng.random() >= BLOCKED
        served = "auto_serve" if score >= THRESHOLD else "human_review"
        route = served if passed else "blocked_by_evidence"
        audit_p = 1.0 if route == "human_review" else AUDIT_P
        number = f"{self._prefix}-{next(self._numbers)}"
        decision = {
            "decision_id": number,
            "decided_at": moment(at),
            "route": route,
            "judge_score": score,
            "threshold": THRESHOLD,
            "evidence_passed": passed,
            "attributes": values,
            "versions": VERSIONS,
            "audit_p": audit_p,
            "label_requested": rng.random() < audit_p,
        }
        if not decision["label_requested"]:
            return decision, None, 0.0
        given = at + 1.0 + rng.expovariate(1 / DELAY)
        return decision, self._label(decision, ready, given), given

    def _label(self, decision: dict[str, object], ready: bool, given: float) -> dict[str, object]:
        return {
            "label_id": f"l-{decision['decision_id']}",
            "decision_id": decision["decision_id"],
            "decided_at": decision["decided_at"],
            "version": 1,
            "ready": ready,
            "kind": "initial",
            "reason": "review" if decision["route"] == "human_review" else "audit",
            "reviewer": f"r-{self._rng.randrange(8)}",
            "labelled_at": moment(given),
        }

    def _one_of(self, shares: dict[str, float]) -> str:
        return self._rng.choices([*shares], weights=[*shares.values()])[0]


class Sender:
    """Puts decisions and labels on their topics, keyed by decision, and counts them."""

    def __init__(self, producer: KafkaProducer, topics: tuple[str, str]) -> None:
        self.sent = dict.fromkeys(("decisions", "labels"), 0)
        self._producer = producer
        self._topics = dict(zip(self.sent, topics, strict=True))
        self._labels: list[tuple[float, int, dict[str, object]]] = []
        self._order = itertools.count()

    def decide(self, router: Router, at: float) -> None:
        """Send a decision of this moment, after the labels that were given before it."""
        self.label(at)
        decision, label, given = router.decide(at)
        self._send("decisions", decision, at)
        if label is not None:
            heapq.heappush(self._labels, (given, next(self._order), label))

    def label(self, until: float) -> None:
        """Send the labels that are given by then."""
        while self._labels and self._labels[0][0] <= until:
            given, _, label = heapq.heappop(self._labels)
            self._send("labels", label, given)

    def close(self) -> None:
        """Wait until all is written; a broker that is gone is waited for no longer than that."""
        self._producer.flush(timeout=FLUSH_SECONDS)
        self._producer.close(timeout=1)

    def _send(self, kind: str, event: dict[str, object], at: float) -> None:
        key, value = str(event["decision_id"]).encode(), json.dumps(event).encode()
        self._producer.send(self._topics[kind], value, key=key, timestamp_ms=int(at * 1000))
        self.sent[kind] += 1


def history(days: float, per_day: int, until: float) -> Iterator[float]:
    """Moments of decisions, evenly spread, up to now."""
    count = int(days * per_day)
    return (until - days * DAY * (1 - one / count) for one in range(count))


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092", help="address of the broker")
    parser.add_argument("--decisions-topic", default="decisions")
    parser.add_argument("--labels-topic", default="labels")
    parser.add_argument("--days", type=float, default=9.0, help="days of history sent at once")
    parser.add_argument("--per-day", type=int, default=3000, help="decisions a day of the history")
    parser.add_argument("--per-second", type=float, default=5.0, help="decisions a second from now")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    """Send until stopped."""
    options, stop = arguments(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    began = time.time()
    producer = KafkaProducer(bootstrap_servers=options.bootstrap, acks="all", linger_ms=20)
    sender = Sender(producer, (options.decisions_topic, options.labels_topic))
    router = Router(options.seed, began - options.days * DAY / 2)
    for at in history(options.days, options.per_day, began):
        if stop.is_set():
            break
        sender.decide(router, at)
    sys.stderr.write(f"the history is sent: {sender.sent}\n")
    while not stop.wait(1 / options.per_second):
        sender.decide(router, time.time())
    sender.close()
    json.dump(sender.sent, sys.stdout)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
