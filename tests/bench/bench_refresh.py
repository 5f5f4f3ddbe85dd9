"""What one cycle of the service costs: a refresh by what closes in it, and rendering by series.

The service's own parts are turned by hand, in one thread, on a broker in memory and with clocks
that are moved: its ``evaluate_once`` is what ``slicewatch run`` calls every ten seconds. CPU of
this thread. Run it by ``make bench FOR=refresh``,
which keeps it in results/refresh.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from common import VERSIONS, Report, settings_at

# isort: split
import msgspec
import numpy as np
from memory_source import MemoryBroker, MemorySource
from results import keep
from soak import SoakClock

from alerts.exposition.exporter import Exporter
from alerts.exposition.service_metrics import ServiceMetrics
from monitor.clock import SystemClock
from monitor.core.publish.snapshot import Snapshot
from monitor.core.time import DAY, HOUR, MINUTE, to_micros
from monitor.service import Service
from monitor.settings import Settings
from monitor.store.database import reading
from monitor.store.shard_rows import read_statuses, read_watermark

BEGINS = to_micros(datetime(2026, 6, 3, 20, tzinfo=UTC))
"""A Wednesday evening: its midnight is the first day's, the next one is a new day as any other."""
FROM, UNTIL = BEGINS + 27 * HOUR, BEGINS + 29 * HOUR + 20 * MINUTE
"""What is measured, in steps; before it, hours are caught up several at a time."""
CAUGHT_UP = 9 * HOUR
PER_HOUR = 6_000
AUDITED = 0.3
ATTRIBUTE = """
[[attribute]]
name = "{name}"
values = {values}
definition = "bench"
purpose = "bench"
"""
USE_CASE = """
[[use_case]]
name = "bench"
owner = "bench"
group_bys = [{ attributes = ["a"] }, { attributes = ["b"] }, { attributes = ["a", "b"] }]
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
COPIES = (1, 2, 4, 8)
"""Contracts with the same content that are rendered: the number of series grows, and no row."""


@dataclass(frozen=True)
class Grid:
    """Two attributes: as many slices as values, pairs of them, and the total.

    ``step`` is the event time between two cycles (microseconds).
    """

    a: int
    b: int
    step: int

    @property
    def slices(self) -> int:
        return self.a + self.b + self.a * self.b + 1

    def settings(self, folder: Path) -> Settings:
        path = folder / f"grid-{self.slices}.toml"
        lists = {"a": [f"a{i}" for i in range(self.a)], "b": [f"b{i}" for i in range(self.b)]}
        parts = [ATTRIBUTE.format(name=n, values=json.dumps(v)) for n, v in lists.items()]
        path.write_text("".join(parts) + USE_CASE)
        url = f"sqlite:///{folder}/grid-{self.slices}.db"
        return settings_at(url, path, STREAM__CLOCK="live", SERVER__LISTEN="127.0.0.1:0")


GRIDS = {209: Grid(10, 18, 2 * MINUTE), 2_254: Grid(45, 48, 5 * MINUTE)}


class Traffic:
    """Decisions at an even pace and their labels, handed out up to a time."""

    def __init__(self, grid: Grid, seed: int = 3) -> None:
        rng = np.random.default_rng(seed)
        n = int(PER_HOUR * (UNTIL - BEGINS) / HOUR)
        at = BEGINS + np.sort(rng.integers(UNTIL - BEGINS, size=n))
        score, pair = rng.random(n).round(3), rng.integers(grid.a * grid.b, size=n)
        asked = (score < 0.4) | (rng.random(n) < AUDITED)
        ready = rng.random(n) < 0.2 + 0.7 * score
        said = at + MINUTE + (rng.exponential(10, n).clip(max=45) * MINUTE).astype(np.int64)
        columns = (score.tolist(), pair.tolist(), asked.tolist())
        rows = enumerate(zip(at.tolist(), *columns, strict=True))
        decisions = [_decision(grid, i, row) for i, row in rows]
        order = np.flatnonzero(asked)[np.argsort(said[asked])].tolist()
        labels = [_label(i, int(at[i]), bool(ready[i]), int(said[i])) for i in order]
        self._left = {
            "decisions": (at, decisions),
            "labels": (said[order], labels),
        }

    def until(self, now: int) -> Iterator[tuple[str, list[bytes], list[int]]]:
        """Topic, messages and timestamps of what happened since the last call."""
        for topic, (at, messages) in self._left.items():
            end = int(np.searchsorted(at, now))
            self._left[topic] = at[end:], messages[end:]
            yield topic, messages[:end], (at[:end] // 1000).tolist()


def _decision(grid: Grid, i: int, row: tuple[int, float, int, bool]) -> bytes:
    at, score, pair, asked = row
    served = score >= 0.4
    event = {
        "decision_id": f"decision-{i:012d}",
        "decided_at": at // 1000,
        "route": "auto_serve" if served else "human_review",
        "judge_score": score,
        "threshold": 0.4,
        "evidence_passed": True,
        "attributes": {"a": f"a{pair % grid.a}", "b": f"b{pair // grid.a}"},
        "versions": VERSIONS,
        "audit_p": AUDITED if served else 1.0,
        "label_requested": asked,
    }
    return msgspec.json.encode(event)


def _label(i: int, at: int, ready: bool, said: int) -> bytes:
    event = {
        "label_id": f"label-{i:012d}",
        "decision_id": f"decision-{i:012d}",
        "decided_at": at // 1000,
        "version": 1,
        "ready": ready,
        "kind": "initial",
        "reason": "review",
        "reviewer": "h1",
        "labelled_at": said // 1000,
    }
    return msgspec.json.encode(event)


class Site:
    """The service's parts, turned by hand."""

    def __init__(self, grid: Grid, folder: Path) -> None:
        self.step = grid.step
        self._settings = grid.settings(folder)
        self._broker = MemoryBroker({"decisions": 1, "labels": 1})
        self._traffic = Traffic(grid)
        self.clock = SoakClock(BEGINS)
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

    def feed(self, now: int) -> None:
        """Count what happened until then."""
        self.clock.micros = now
        ingest = self.service.ingest
        assert ingest is not None
        for topic, messages, stamps in self._traffic.until(now):
            self._broker.produce(topic, messages, timestamps_ms=stamps)
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


def refreshes(site: Site) -> dict[str, list[float]]:
    """CPU milliseconds of cycles, by what closed in them."""
    for now in range(BEGINS + HOUR, FROM + 1, HOUR):
        site.feed(now)
        if (FROM - now) % CAUGHT_UP == 0:
            site.refresh()
    found, before = defaultdict(list), site.watermark
    for now in range(FROM + site.step, UNTIL, site.step):
        site.feed(now)
        reached = site.watermark
        found[closing(reached, before)].append(site.refresh())
        before = reached
    for _ in range(2):
        site.restart()
        found["the first after a start"].append(site.refresh())
    return found


def rendering(snapshot: Snapshot, copies: int) -> tuple[int, float]:
    """Series, and CPU microseconds each, of a page that was never rendered before."""
    (contract,) = snapshot.contracts
    many = [replace(contract, contract=f"bench-{i}") for i in range(copies)]
    page = replace(snapshot, contracts=tuple(many))
    took = []
    for _ in range(3):
        exporter = Exporter(ServiceMetrics(), max_series=10_000_000, clock=SystemClock())
        gc.collect()
        took.append(cpu(lambda: exporter.publish(page)))  # noqa: B023 - called at once
    lines = b"".join(exporter.body("", False)[0]).splitlines()
    series = sum(1 for line in lines if not line.startswith(b"#"))
    return series, 1e6 * min(took) / series


def measure(slices: int, cycles: Report, pages: Report) -> None:
    """The rows of one grid."""
    with tempfile.TemporaryDirectory() as name:
        site = Site(GRIDS[slices], Path(name))
        for what, took in refreshes(site).items():
            cycles.add(f"{slices:,}", what, len(took), f"{median(took):.1f}", f"{max(took):.1f}")
        snapshot = site.service.snapshot
        assert snapshot is not None
        for copies in COPIES if slices == min(GRIDS) else (1,):
            series, micros = rendering(snapshot, copies)
            pages.add(f"{slices:,}", copies, f"{series:,}", f"{micros:.1f}")
        site.stop()


def reports() -> tuple[Report, Report]:
    """Tables of cycles and of pages."""
    title = f"A cycle's CPU, {PER_HOUR:,} decisions an hour with their labels"
    cycles = Report(title, "slices", "what closes", "cycles", "median ms", "longest ms")
    return cycles, Report("Rendering of a new page", "slices", "contracts", "series", "us each")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, choices=GRIDS, action="append")
    chosen = parser.parse_args()
    cycles, pages = reports()
    for slices in chosen.slices or GRIDS:
        measure(slices, cycles, pages)
    cycles.close()
    pages.close()
    if len(sys.argv) == 1:
        keep("refresh", cycles=cycles.rows, pages=pages.rows)


if __name__ == "__main__":
    main()
