"""A flood of distinct things through the service's own parts, in a process of its own.

Run as a program, it lives through one case: first a stream in which what is to be distinct is
always the same, until memory has settled, then the flood. It prints one line of JSON: by how much
resident memory grew at most, and what the service said of itself before and after. Event time and
the wall clock are moved by hand, everything is done in one thread.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / room) for room in ("worlds", "oracles")]

import lesson
import psutil
from memory_source import MemoryBroker, MemorySource
from pipeline import SETTINGS, ManualClock, settings_with
from prometheus_client.parser import text_string_to_metric_families as parse

from consumers import ingest
from monitor.records import Shard
from monitor.service import Service
from monitor.shard_status import ShardStatus
from monitor.store import database
from monitor.store.shard_rows import read_statuses

DECISIONS = Shard("decisions", 0)
PER_MESSAGE, PER_POLL = 1_000, 10
POLLS_AN_EVALUATION = 8
WARM_UP = 200_000
EVERY = 5
"""One event in so many is an ordinary one in every case."""
STEP = timedelta(milliseconds=900)
"""The ids of the last hour are kept whatever they are: so many decisions that they stay few."""

TEMPLATE = (
    '{"decision_id":"decision %(number)d","decided_at":"%(at)s","route":"%(route)s",'
    '"judge_score":%(score)s,"threshold":%(threshold)s,"evidence_passed":true,'
    '"attributes":{"%(name)s":%(blank)s"%(channel)s","language_variety":"%(variety)s"},'
    '"versions":{"judge":"%(judge)s","rubric":"r1","policy":"p1","router":"t1"},'
    '"audit_p":%(audit_p)s,"label_requested":false}'
)
_BLANKS = " \t\n\r"

CASES: dict[str, Callable[[int], dict[str, object]]] = {
    "values": lambda number: {"channel": f"value {number}"},
    "long values": lambda number: {"channel": f"{number:0200}"},
    "names": lambda number: {"name": f"name_{number}"},
    "versions": lambda number: {"judge": f"j{number}"},
    "thresholds": lambda number: {"threshold": number / 1e7},
    "audit rates": lambda number: {"audit_p": 1 - number / 1e7},
    "spellings": lambda number: {
        "blank": "".join(_BLANKS[number >> 2 * place & 3] for place in range(10))
    },
    "malformed ids": lambda number: {"route": "elsewhere"},
    "huge values": lambda number: {"channel": f"{number:0200000}"},
}
"""What is distinct in the events of each case; ids are distinct in all of them."""


def _event(number: int, changes: dict[str, object]) -> str:
    """An ordinary decision but for the changes."""
    likely = number & 4
    return TEMPLATE % {
        "number": number,
        "at": lesson.text(lesson.START + number * STEP),
        "route": "human_review" if likely else "auto_serve",
        "score": 0.65 if likely else 0.8,
        "threshold": lesson.THRESHOLD,
        "name": "channel",
        "blank": "",
        "channel": ("chat", "email")[number & 1],
        "variety": ("formal", "conversational")[number >> 1 & 1],
        "judge": "j1",
        "audit_p": 1.0,
        **changes,
    }


def _among_ordinary(distinct: Iterable[dict[str, object]]) -> Iterator[dict[str, object]]:
    for number, changes in enumerate(distinct):
        if number % (EVERY - 1) == 0:
            yield {}
        yield changes


class Flood:
    """One service in one thread, on a broker in memory that keeps nothing.

    SQLite has 2 MB of pages: what it has by default is filled by any decisions, though not by those
    of the warm-up, and what is distinct has no part in it.
    """

    def __init__(self, folder: Path) -> None:
        database.PAGE_CACHE_KILOBYTES = 2_000
        ingest.DEAD_LETTER_STOP_SHARE = 1
        settings = settings_with(
            folder,
            SETTINGS.replace("synthetic = true\nk = 1\n", ""),
            stream__clock="history",
            server__listen="127.0.0.1:0",
        )
        self.clock = ManualClock()
        self.broker = MemoryBroker({"decisions": 1, "labels": 1})
        topics = ["decisions", "labels"]
        self.service = Service(
            settings,
            clock=self.clock,
            source=lambda _: MemorySource(self.broker, topics, max_records=PER_POLL),
        )
        assert self.service.ingest is not None
        self.ingest = self.service.ingest
        self.ingest.register()
        self.number = 0
        self.polls = 0
        self.peak = 0
        self.keys = 0

    def send(self, distinct: Iterable[dict[str, object]], per_message: int) -> None:
        """Let these through, among ordinary ones; memory is looked at after every poll."""
        self.peak = self.keys = 0
        process = psutil.Process()
        messages, events = [], []
        for changes in _among_ordinary(distinct):
            events.append(_event(self.number, changes))
            self.number += 1
            if len(events) == per_message:
                messages.append(f"[{','.join(events)}]".encode())
                events.clear()
            if len(messages) == PER_POLL:
                self._consume(messages)
                messages = []
                self.peak = max(self.peak, process.memory_info().rss)
                self.keys = max(self.keys, len(self.ingest.codecs.coder.codes))
        assert not messages
        assert not events
        self.service.evaluate_once()

    def _consume(self, messages: list[bytes]) -> None:
        self.broker.produce("decisions", list(messages), 0)
        high = self.broker.log(DECISIONS).high
        while self._stored() < high:
            self.clock.seconds += 2.0
            self.ingest.step(0)
        self.polls += 1
        if self.polls % POLLS_AN_EVALUATION == 0:
            self.service.evaluate_once()
        self.broker.trim(DECISIONS, high)

    def _stored(self) -> int:
        return self._status().next_offset or 0

    def _status(self) -> ShardStatus:
        return next(s for s in read_statuses(self.service.engine) if s.shard == DECISIONS)

    def totals(self) -> dict[str, int]:
        """Where the events ended, as the store has it."""
        totals = self._status().tallies
        assert totals.balance == 0
        dead = sum(totals.dead_letters.values())
        return {"counted": totals.counted, "dead": dead, "unkept": totals.unkept}

    def page(self) -> dict[str, float]:
        """All that is exported, by name and labels."""
        text = b"".join(self.service.exporter.body("", gzip=False)[0]).decode()
        return {
            " ".join(
                [sample.name, *(f"{k}={v}" for k, v in sorted(sample.labels.items()))]
            ): sample.value
            for family in parse(text)
            for sample in family.samples
        }

    def rows(self) -> dict[str, int]:
        """Rows of the tables that a flood could fill."""
        with self.service.engine.connect() as connection:
            return {
                name: connection.exec_driver_sql(f"SELECT COUNT(*) FROM {name}").scalar_one()
                for name in ("atom", "version", "cell", "dead_letter")
            }


def _texts(changes: dict[str, object]) -> list[str]:
    return [text for text in changes.values() if isinstance(text, str) and text.strip()]


def _traces(folder: Path, texts: Iterable[str]) -> list[str]:
    """Which of the texts some file of the store holds."""
    stored = b"".join(path.read_bytes() for path in folder.glob("store.db*"))
    return [text for text in texts if text.encode() in stored]


def live_through(case: str, distinct: int, per_message: int) -> dict[str, object]:
    """Warm up, flood, and tell what was seen."""
    change = CASES[case]
    with tempfile.TemporaryDirectory(prefix="slicewatch-flood-") as name:
        flood = Flood(Path(name))
        first = change(0) if per_message == PER_MESSAGE else {}
        flood.send((first for _ in range(WARM_UP)), PER_MESSAGE)
        flood.send((change(0) for _ in range(40 * per_message)), per_message)
        before, page = flood.peak, flood.page()
        flood.send((change(number) for number in range(1, distinct + 1)), per_message)
        last = [f"decision {flood.number - 1}", *_texts(change(distinct))]
        told: dict[str, object] = {
            "case": case,
            "events": flood.number,
            "grown": flood.peak - before,
            "keys": flood.keys,
            "rows": flood.rows(),
            "totals": flood.totals(),
            "traces": _traces(Path(name), last),
            "before": page,
            "after": flood.page(),
        }
        flood.service.stop()
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--distinct", type=int, default=1_000_000, help="whole polls: 40,000 n")
    parser.add_argument("--per-message", type=int, default=PER_MESSAGE)
    options = parser.parse_args()
    told = live_through(options.case, options.distinct, options.per_message)
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
