"""Random histories of decisions and labels, and orders of arrival that the service must bear."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from signed_probes import DIGEST, VARIANTS, signed

Event = dict[str, Any]

START = datetime(2026, 5, 30, 13, 0, tzinfo=UTC)  # a Saturday: days, an ISO week and a month turn
VERSIONS = ({"judge": "j1", "rubric": "r1", "policy": "p1", "router": "t1"},
            {"judge": "j2", "rubric": "r1", "policy": "p1", "router": "t1"})  # fmt: skip
VALUES = {
    "channel": ("chat", "email", "fax", "__other__", None),
    "language_variety": ("formal", "conversational", "pirate", "__missing__", None),
}


def text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


class Histories:
    """One random history; the same seed gives the same one."""

    def __init__(self, seed: int, decisions: int, hours: float = 60.0) -> None:
        self.random = random.Random(seed)
        self._reviewers = random.Random(f"reviewers {seed}")
        self._probes = random.Random(f"probes {seed}")
        self._hours = hours
        self.decisions = [self.decision(i) for i in range(decisions)]
        self.labels = [label for d in self.decisions for label in self._labels(d)]
        self.labels += [self.label({"decision_id": f"none-{i}", "decided_at": text(START)}, 0)
                        for i in range(self.random.randint(0, 2))]  # fmt: skip

    def decision(self, number: int) -> Event:
        pick = self.random
        at = START + timedelta(seconds=pick.uniform(0, self._hours * 3600))
        if pick.random() < 0.2:  # on the very edge of panes
            at = at.replace(minute=0, second=0, microsecond=0)
        chosen = {name: pick.choice(values) for name, values in VALUES.items()}
        event: Event = {
            "decision_id": f"d{number}",
            "decided_at": text(at),
            "route": pick.choice(("auto_serve", "human_review", "blocked_by_evidence")),
            "judge_score": pick.choice((None, 0.0, 0.69999, 0.7, 0.89, 0.9, 1.0, pick.random())),
            "threshold": pick.choice((0.7, 0.7, 0.75)),
            "evidence_passed": pick.random() < 0.9,
            "attributes": {name: value for name, value in chosen.items() if value is not None},
            "versions": pick.choice(VERSIONS),
            "audit_p": pick.choice((1.0, 1.0, 0.99, 0.49, 0.39, 0.25, 0.05)),
            "label_requested": pick.random() < 0.8,
        }
        if pick.random() < 0.1:
            return self._probe(event)
        return event

    def _probe(self, event: Event) -> Event:
        """Mostly of the declared set; some are of nothing declared, and some are not signed."""
        pick = self._probes
        event |= {
            "traffic": "probe",
            "pair_id": pick.choice(("p1", "p1", "p2", "p3", None)),
            "variant": pick.choice((*VARIANTS * 4, "pirate", None)),
            "probe_set": pick.choice((DIGEST,) * 7 + ("0" * 64, None)),
            "expected_ready": pick.choice((True, False, None)),
        }
        how = pick.random()
        if how < 0.1:
            return event
        if how < 0.2:
            return signed(event, "a key of somebody else")
        if how < 0.3:
            return signed(event) | {"threshold": 0.71}
        return signed(event)

    def _labels(self, decision: Event) -> list[Event]:
        number = self.random.choice((0, 0, 1, 1, 1, 2, 3, 5))
        return [self.label(decision, i) for i in range(number)]

    def label(self, decision: Event, number: int) -> Event:
        pick = self.random
        at = datetime.fromisoformat(decision["decided_at"].replace("Z", "+00:00"))
        delay = timedelta(hours=pick.choice((-0.1, 0, 1, 3, 6, 24, 100, 200)),
                          microseconds=number)  # fmt: skip
        return {
            "label_id": f"{decision['decision_id']}-l{number}",
            "decision_id": decision["decision_id"],
            "decided_at": decision["decided_at"],
            "version": pick.choice((1, 1, 1, 2, 3)),
            "ready": pick.choice((True, True, False, False, None)),
            "kind": pick.choice(("initial",) * 5 + ("correction", "adjudication", "retraction")),
            "reason": pick.choice(("review", "review", "audit", "complaint")),
            "reviewer": self._reviewers.choice(("r1", "r2", "r3")),
            "labelled_at": text(at + delay),
        } | ({"blind": pick.random() < 0.5} if pick.random() < 0.5 else {})


def shuffled(events: Sequence[Event], pick: random.Random, hours: float = 24.0) -> list[Event]:
    """A random order in which nothing comes more than ``hours`` of event time late."""
    moved = [(_at(event) + pick.uniform(0, hours * 3600), i, event) for i, event in
             enumerate(events)]  # fmt: skip
    return [event for _, _, event in sorted(moved)]


def doubled(
    events: Sequence[Event], pick: random.Random, share: float, *, minutes: float | None = None
) -> list[Event]:
    """Copies put in later; for decisions within ``minutes`` of the stream's running maximum."""
    out = list(events)
    for event in events:
        while pick.random() < share:
            first = next(i for i, e in enumerate(out) if e is event)
            out.insert(_later(out, first, pick, minutes), dict(event))
    return out


def _later(events: Sequence[Event], first: int, pick: random.Random, minutes: float | None) -> int:
    if minutes is None:
        return pick.randint(first + 1, len(events))
    newest = max(_at(e) for e in events[: first + 1])
    last = first + 1
    while last < len(events) and max(newest, _at(events[last])) - newest <= minutes * 60:
        last += 1
    return pick.randint(first + 1, last)


def _at(event: Event) -> float:
    return datetime.fromisoformat(event["decided_at"].replace("Z", "+00:00")).timestamp()
