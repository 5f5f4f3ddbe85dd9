"""A router of whose decisions and labels everything is wrong that a dashboard can show.

Beside the regressions of :mod:`regressing`: a new version, blocked requests, double labels, probes
that flip, events that cannot be read, unlisted values, copies, labels of nothing. Invented test
conditions, not a finding about people.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import lesson
import regressing
from brokers import Broker
from regressing import Router
from signed_probes import DIGEST, KEY_TABLE, SET_TABLE, signed

BLOCKED, DOUBLE, DISPUTED = 0.12, 0.4, 0.3
PAIRS = 4
LATER = {**lesson.VERSIONS, "judge": "j2"}

LIMITS = """
max_blocked_gap = 0.20
max_selection_gap = 0.30
min_tpr = 0.50
max_fpr = 0.60
"""


DIMENSION = """
[[bias_dimension]]
name = "refusals"
limit = 0.05
max_age = "30d"
"""


def settings_text(version: str = "1") -> str:
    """As of the regressing router, with all limits, a probe set and a dimension."""
    text = regressing.settings_text().replace('version = "1"', f'version = "{version}"')
    return text + LIMITS + KEY_TABLE + SET_TABLE + DIMENSION


def evaluations() -> list[bytes]:
    """Results of a model evaluation, of last week and of today: the score has become worse."""
    today = datetime.now(UTC).date()
    return [
        json.dumps(
            {
                "type": "bias_result",
                "dimension": "refusals",
                "measured": (today - timedelta(days=ago)).isoformat(),
                "score": score,
                "items": 400,
                "probe_set": "hiring",
                "probe_version": "1",
                "model": "m-1",
            }
        ).encode()
        for ago, score in ((7, 0.04), (0, 0.09))
    ]


class Eventful(Router):
    """Whatever happens, happens every hour.

    Attributes:
        versions: that answer.
    """

    versions = lesson.VERSIONS

    def __init__(self, broker: Broker, decisions_topic: str, labels_topic: str) -> None:
        super().__init__(broker, decisions_topic, labels_topic)
        self._disputed: set[str] = set()

    def _live(self) -> None:
        super()._live()
        stamp = int(self.now.timestamp() * 1000)
        for partition, events in enumerate((self._oddities(), self._copies())):
            bodies = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in events]
            self._broker.produce(
                self._topics[0], bodies, partition=partition, timestamps_ms=[stamp] * len(bodies)
            )
        strays = [
            json.dumps(lesson.label(f"{who}-{self.decisions}", self._before(), True)).encode()
            for who in ("copied", "nobody")
        ]
        self._broker.produce(self._topics[1], strays, partition=0, timestamps_ms=[stamp] * 2)

    def _before(self) -> datetime:
        return self.now - timedelta(minutes=30)

    def _decide(self, number: int) -> dict[str, object]:
        event = super()._decide(number) | {"versions": self.versions}
        if self._rng.random() < BLOCKED:
            event |= {"route": "blocked_by_evidence", "evidence_passed": False}
        if _is_chat(event) and self._rng.random() < DISPUTED:
            self._disputed.add(str(event["decision_id"]))
        return event

    def _labels(self) -> list[dict[str, object]]:
        given = super()._labels()
        second = [
            one
            | {"label_id": f"{one['label_id']}-second", "reviewer": "reviewer-2"}
            | {"ready": one["ready"] != (one["decision_id"] in self._disputed)}
            for one in given
            if self._rng.random() < DOUBLE
        ]
        return [*given, *second]

    def _oddities(self) -> list[dict[str, object] | bytes]:
        """What nobody declared, what cannot be read, and the probes of the hour."""
        at, n = self._before(), self.decisions
        odd: list[dict[str, object] | bytes] = [
            b"not an event",
            _plain(f"route-{n}", at) | {"route": "elsewhere"},
            _plain(f"value-{n}", at, channel=f"fax{n}"),
            _plain(f"field-{n}", at) | {"prompt_tokens": 3},
            _plain(f"below-{n}", at) | {"judge_score": 0.4},
            _plain(f"unsigned-{n}", at) | {"traffic": "probe"},
        ]
        return [
            *odd,
            *(self._probe(pair, variant, at) for pair in range(PAIRS) for variant in (0, 1)),
        ]

    def _probe(self, pair: int, variant: int, at: datetime) -> dict[str, object]:
        """Each pair is routed differently; of the last one, the variant never comes."""
        name = ("formal", "conversational")[variant]
        event = lesson.decision(
            f"probe-{self.decisions}-{pair}-{variant}",
            at,
            (0.9, 0.5)[variant],
            attributes={"language_variety": name},
            traffic="probe",
            pair_id=f"pair-{pair}",
            variant=name,
            probe_set=DIGEST,
            expected_ready=True,
            label_requested=False,
        )
        return signed(event)

    def _copies(self) -> list[dict[str, object] | bytes]:
        """Of one decision: at once, and with another time, which is counted again."""
        one = _plain(f"copied-{self.decisions}", self._before()) | {"label_requested": True}
        again = one | {"decided_at": lesson.text(self._before() + timedelta(minutes=1))}
        return [one, one, again]


def _is_chat(event: dict[str, object]) -> bool:
    attributes = event["attributes"]
    return isinstance(attributes, dict) and attributes["channel"] == "chat"


def _plain(key: str, at: datetime, **attributes: str) -> dict[str, object]:
    """A decision that is served, and that no label is asked for."""
    plain = {"language_variety": "formal", "channel": "chat", "device": "phone"}
    event = lesson.decision(key, at, 0.9, attributes=plain | attributes)
    return event | {"label_requested": False}
