"""A router that treats slices worse from one hour to the next, on a real broker, in simulated time.

Invented test conditions, not a finding about people.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import lesson
import numpy as np
from brokers import Broker
from id_keys import KEY

BEGINS = datetime(2026, 1, 7, tzinfo=UTC)
"""A Wednesday: on the Monday after it, rare values that are rare no more get their names back."""

ATTRIBUTES: Mapping[str, Mapping[str, float]] = {
    "language_variety": {"formal": 0.40, "conversational": 0.35, "code_switched": 0.25},
    "channel": {"chat": 0.45, "email": 0.30, "voice": 0.25},
    "device": {"phone": 0.60, "desktop": 0.40, "tablet": 0.0},
}
"""Values and their shares, independent of each other; tablets come by the hour."""
CONVERSATIONAL, VOICE = ("language_variety", "conversational"), ("channel", "voice")
TABLET = ("device", "tablet")

AN_HOUR = 100
"""No slice has a thousand decisions a day: gaps are bet on at the end of each day, all together."""
RARE, FREQUENT = 1, 35
"""Tablets an hour: fewer than k a day, and many more."""
K = 40
READY, SERVED_READY, SERVED_UNREADY = 0.60, 0.90, 0.15

SETTINGS = f"""
[stream]
clock = "live"
horizon = "2d"
session_timeout = "6s"
score_bands = [0.70]
[privacy]
k = {K}
id_key = "{KEY}"
{{attributes}}
[[use_case]]
name = "replies"
owner = "triage team"
synthetic = true
group_bys = [
  {{{{ attributes = ["language_variety"], reference = "language_variety=formal" }}}},
  {{{{ attributes = ["channel"], reference = "channel=chat" }}}},
  {{{{ attributes = ["device"], reference = "device=phone" }}}},
]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "test"
min_positives = 50
min_negatives = 30
window = "24h"
"""
ATTRIBUTE = """
[[attribute]]
name = "{name}"
values = {values}
definition = "an invented test condition"
purpose = "test"
"""

Pair = tuple[str, str]


def settings_text() -> str:
    attributes = (ATTRIBUTE.format(name=n, values=list(v)) for n, v in ATTRIBUTES.items())
    return SETTINGS.format(attributes="".join(attributes))


class Router:
    """Decides and has its decisions labelled, hour by hour; equal calls give equal histories.

    Attributes:
        worse: slices whose ready requests are served with another probability.
        unasked: slices that no label is asked for.
        tablets: that come in an hour.
        now: simulated time.
        decisions: how many were made.
    """

    def __init__(self, broker: Broker, decisions_topic: str, labels_topic: str) -> None:
        self.worse: dict[Pair, float] = {}
        self.unasked: set[Pair] = set()
        self.tablets = RARE
        self.now = BEGINS
        self.decisions = 0
        self._broker = broker
        self._topics = decisions_topic, labels_topic
        self._rng = np.random.default_rng(11)
        self._waiting: deque[dict[str, object]] = deque()

    def live_until(self, until: datetime) -> None:
        """Put everything on the topics that happens until then."""
        while self.now < until:
            self._live()

    def _live(self) -> None:
        decided = [self._decide(i) for i in range(AN_HOUR + self.tablets)]
        self.now += timedelta(hours=1)
        stamp = int(self.now.timestamp() * 1000)  # the broker has seen every event by then
        for partition in (0, 1):
            body = json.dumps(decided[partition::2]).encode()
            self._broker.produce(
                self._topics[0], [body], partition=partition, timestamps_ms=[stamp]
            )
        said = json.dumps(self._labels()).encode()
        self._broker.produce(self._topics[1], [said], partition=0, timestamps_ms=[stamp])

    def _decide(self, number: int) -> dict[str, object]:
        rng = self._rng
        at = self.now + timedelta(hours=number / (AN_HOUR + self.tablets))
        pairs = {
            name: str(rng.choice(list(shares), p=list(shares.values())))
            for name, shares in ATTRIBUTES.items()
        }
        if number % (AN_HOUR // self.tablets + 1) == 0:
            pairs["device"] = "tablet"
        slices = set(pairs.items())
        ready = bool(rng.random() < READY)
        serves = [SERVED_READY, *(p for pair, p in self.worse.items() if pair in slices)]
        served = rng.random() < (min(serves) if ready else SERVED_UNREADY)
        asked = not self.unasked & slices
        key = f"{self.decisions}"
        self.decisions += 1
        if asked:
            self._waiting.append(lesson.label(key, at, ready))
        score = 0.9 if served else 0.4
        return lesson.decision(key, at, score, attributes=pairs, label_requested=asked)

    def _labels(self) -> list[dict[str, object]]:
        """Those that were given by now."""
        until, given = lesson.text(self.now), []
        while self._waiting and str(self._waiting[0]["labelled_at"]) < until:
            given.append(self._waiting.popleft())
        return given
