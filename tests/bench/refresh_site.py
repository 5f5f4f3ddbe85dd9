"""The service's own parts on a broker in memory, turned by hand in one thread.

``evaluate_once`` is what ``slicewatch run`` calls every ten seconds. Clocks are moved, so weeks of
traffic are played in minutes, and costs are CPU seconds of this thread.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from common import VERSIONS, settings_at

# isort: split
import msgspec
import numpy as np
import numpy.typing as npt
from memory_source import MemoryBroker, MemorySource
from soak import SoakClock

from monitor.core.time import DAY, HOUR, MINUTE, to_micros
from monitor.service import Service
from monitor.settings import Settings
from monitor.store.database import reading
from monitor.store.shard_rows import read_statuses, read_watermark

BEGINS = to_micros(datetime(2026, 6, 3, 20, tzinfo=UTC))
"""A Wednesday evening: its midnight is the first day's, the next one is a new day as any other."""
CAUGHT_UP = 9 * HOUR
AUDITED = 0.3
THRESHOLD = 0.4
ATTRIBUTE = """
[[attribute]]
name = "{name}"
values = {values}
definition = "bench"
purpose = "bench"
"""
USE_CASE = """
[[use_case]]
name = "bench{number}"
owner = "bench"
where = {{ product = "p{number}" }}
group_bys = [{{ attributes = ["a"] }}, {{ attributes = ["b"] }}, {{ attributes = ["a", "b"] }}]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "bench"
max_tpr_gap = 0.10
max_fpr_gap = 0.10
min_positives = 50
min_negatives = 30
window = "7d"
"""


@dataclass(frozen=True)
class Play:
    """Traffic of one service, and how long it runs before anything is measured.

    Attributes:
        a, b: values of the two attributes: as many slices, their pairs, and the total.
        step: event time between two measured cycles (microseconds).
        days: whole days of history before the measured hours.
        per_hour: decisions an hour.
        contracts: use cases that share the traffic.
        versions: versions of the router that decide in turn.
        partitions: partitions of either topic.
    """

    a: int
    b: int
    step: int = 2 * MINUTE
    days: int = 1
    per_hour: int = 6_000
    contracts: int = 1
    versions: int = 1
    partitions: int = 1

    @property
    def slices(self) -> int:
        return (self.a + 1) * (self.b + 1)

    @property
    def measured_from(self) -> int:
        """Event time (microseconds) from which cycles are measured, an hour before midnight."""
        return BEGINS + 3 * HOUR + self.days * DAY

    @property
    def until(self) -> int:
        """Event time (microseconds) at which the traffic ends, after a midnight and an hour."""
        return self.measured_from + 2 * HOUR + 20 * MINUTE

    def settings(self, folder: Path) -> Settings:
        """Settings of such a service, written to a file in a folder."""
        path = folder / "settings.toml"
        sizes = {"a": self.a, "b": self.b, "product": self.contracts}
        values = {name: [f"{name[0]}{i}" for i in range(size)] for name, size in sizes.items()}
        parts = [ATTRIBUTE.format(name=n, values=json.dumps(v)) for n, v in values.items()]
        parts += [USE_CASE.format(number=number) for number in range(self.contracts)]
        path.write_text("".join(parts))
        url = f"sqlite:///{folder}/slicewatch.db"
        return settings_at(url, path, STREAM__CLOCK="live", SERVER__LISTEN="127.0.0.1:0")


@dataclass(frozen=True)
class Events:
    """Columns of the decisions of a play, and of their labels; times in microseconds.

    Attributes:
        at: decided_at.
        score: score of the judge; from the threshold on, a reply is served.
        pair: value of ``a`` plus the number of its values times the value of ``b``.
        asked: True where a label was requested.
        ready: what the label says.
        said: labelled_at.
    """

    at: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]
    pair: npt.NDArray[np.int64]
    asked: npt.NDArray[np.bool_]
    ready: npt.NDArray[np.bool_]
    said: npt.NDArray[np.int64]

    @classmethod
    def of(cls, play: Play, seed: int = 3) -> Events:
        """Decisions at an even pace; labels within 45 minutes."""
        rng = np.random.default_rng(seed)
        n = int(play.per_hour * (play.until - BEGINS) / HOUR)
        at = BEGINS + np.sort(rng.integers(play.until - BEGINS, size=n))
        score, pair = rng.random(n).round(3), rng.integers(play.a * play.b, size=n)
        asked = (score < THRESHOLD) | (rng.random(n) < AUDITED)
        ready = rng.random(n) < 0.2 + 0.7 * score
        said = at + MINUTE + (rng.exponential(10, n).clip(max=45) * MINUTE).astype(np.int64)
        return cls(at, score, pair, asked, ready, said)

    @property
    def served(self) -> npt.NDArray[np.bool_]:
        """True where the reply was served at once."""
        return self.score >= THRESHOLD


class Traffic:
    """Messages of events, handed out up to a time."""

    def __init__(self, play: Play, events: Events) -> None:
        self._play, self._events = play, events
        (asked,) = np.nonzero(events.asked)
        self._decisions = np.arange(len(events.at))
        self._labels = asked[np.argsort(events.said[asked])]

    def until(self, now: int) -> Iterator[tuple[str, list[bytes], list[int]]]:
        """Topic, messages and timestamps of what happened since the last call."""
        events = self._events
        end = int(np.searchsorted(events.at[self._decisions], now))
        due, self._decisions = self._decisions[:end], self._decisions[end:]
        yield "decisions", list(map(self._decision, due.tolist())), _ms(events.at[due])
        end = int(np.searchsorted(events.said[self._labels], now))
        due, self._labels = self._labels[:end], self._labels[end:]
        yield "labels", list(map(self._label, due.tolist())), _ms(events.said[due])

    def _decision(self, i: int) -> bytes:
        events, play = self._events, self._play
        served, pair = bool(events.served[i]), int(events.pair[i])
        event = {
            "decision_id": f"decision-{i:012d}",
            "decided_at": int(events.at[i]) // 1000,
            "route": "auto_serve" if served else "human_review",
            "judge_score": float(events.score[i]),
            "threshold": THRESHOLD,
            "evidence_passed": True,
            "attributes": {
                "a": f"a{pair % play.a}",
                "b": f"b{pair // play.a}",
                "product": f"p{i % play.contracts}",
            },
            "versions": {**VERSIONS, "router": f"t{i % play.versions}"},
            "audit_p": AUDITED if served else 1.0,
            "label_requested": bool(events.asked[i]),
        }
        return msgspec.json.encode(event)

    def _label(self, i: int) -> bytes:
        event = {
            "label_id": f"label-{i:012d}",
            "decision_id": f"decision-{i:012d}",
            "decided_at": int(self._events.at[i]) // 1000,
            "version": 1,
            "ready": bool(self._events.ready[i]),
            "kind": "initial",
            "reason": "review",
            "reviewer": "h1",
            "labelled_at": int(self._events.said[i]) // 1000,
        }
        return msgspec.json.encode(event)


def _ms(micros: npt.NDArray[np.int64]) -> list[int]:
    times: list[int] = (micros // 1000).tolist()
    return times


class Site:
    """The service's parts, turned by hand."""

    def __init__(self, play: Play, folder: Path) -> None:
        self.play, self.events = play, Events.of(play)
        self.clock = SoakClock(BEGINS)
        self._folder, self._settings = folder, play.settings(folder)
        self._broker = MemoryBroker(dict.fromkeys(("decisions", "labels"), play.partitions))
        self._traffic = Traffic(play, self.events)
        self._start()

    def _start(self) -> None:
        topics = ("decisions", "labels")
        self.service = Service(
            self._settings,
            clock=self.clock,
            source=lambda _: MemorySource(self._broker, topics, max_records=5_000),
        )
        assert self.service.ingest is not None
        self.service.ingest.register()

    def catch_up(self) -> float:
        """Play the history hour by hour, and evaluate several hours at once.

        Returns:
            CPU milliseconds of reading it.
        """
        until, taken = self.play.measured_from, 0.0
        for now in range(BEGINS + HOUR, until + 1, HOUR):
            taken += self.feed(now)
            if (until - now) % CAUGHT_UP == 0:
                self.refresh()
        return taken

    def feed(self, now: int) -> float:
        """Count what happened until then; return the CPU milliseconds, without the sending."""
        self.clock.micros = now
        for topic, messages, stamps in self._traffic.until(now):
            self._broker.produce(topic, messages, timestamps_ms=stamps)
        return 1e3 * cpu(self._read)

    def _read(self) -> None:
        ingest = self.service.ingest
        assert ingest is not None
        while self._behind():
            self.clock.seconds += 3.0  # longer than the interval of flushes
            ingest.step(0)
        self.clock.seconds += 30.0  # caught up: the shards take the newest time over
        ingest.step(0)

    def _behind(self) -> bool:
        statuses = read_statuses(self.service.engine)
        return any(s.next_offset != self._broker.log(s.shard).high for s in statuses)

    @property
    def watermark(self) -> int:
        """Event time up to which the next cycle closes panes; 0 while there is none."""
        with reading(self.service.engine) as connection:
            return read_watermark(connection, "decisions") or 0

    @property
    def stored_megabytes(self) -> float:
        """Size of the database with its log."""
        return sum(path.stat().st_size for path in self._folder.glob("slicewatch.db*")) / 1e6

    def refresh(self) -> float:
        """CPU milliseconds of one cycle with all it publishes."""
        gc.collect()
        return 1e3 * cpu(self.service.evaluate_once)

    def restart(self) -> None:
        """A new process on the same database."""
        self.stop()
        self._start()

    def stop(self) -> None:
        """Give the lease back, and close."""
        self.service.evaluator.release_lease()
        assert self.service.ingest is not None
        self.service.ingest.source.close()
        self.service.stop()


def cpu(call: Callable[[], object]) -> float:
    """CPU seconds of a call in this thread."""
    began = time.thread_time()
    call()
    return time.thread_time() - began


CLOSING = {DAY: "a new day", HOUR: "an hour closes", 5 * MINUTE: "five minutes close"}


def closing(now: int, before: int) -> str:
    """What the watermark has passed since the cycle before."""
    passed = (name for unit, name in CLOSING.items() if now // unit > before // unit)
    return next(passed, "nothing closes")
