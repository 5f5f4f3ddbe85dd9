"""What a refresh costs after 1,000 new rows, and what a scrape costs, by the number of slices.

Run it by ``make bench FOR=evaluate``.
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median

import numpy as np
from common import START, VERSIONS, Databases, Report, databases, label, settings_at, timed

from alerts.exposition.exporter import Exporter
from alerts.exposition.service_metrics import ServiceMetrics
from consumers.sources.memory_source import MemoryBroker, MemorySource
from monitor import composition
from monitor.clock import SystemClock
from monitor.core.publish.snapshot import Snapshot, decode
from monitor.store.evaluator.records import RecordStore
from monitor.store.shard_rows import read_statuses

REFRESHES = 15
FRESH = 1_000
PER_SLICE = 60
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


Event = dict[str, object]


@dataclass(frozen=True)
class Grid:
    """Two attributes: as many slices as values, pairs of them, and the total."""

    a: int
    b: int

    @property
    def slices(self) -> int:
        return self.a + self.b + self.a * self.b + 1

    def settings(self, folder: Path) -> Path:
        path = folder / f"grid-{self.a}-{self.b}.toml"
        lists = {"a": [f"a{i}" for i in range(self.a)], "b": [f"b{i}" for i in range(self.b)]}
        parts = [ATTRIBUTE.format(name=n, values=json.dumps(v)) for n, v in lists.items()]
        path.write_text("".join(parts) + USE_CASE.format())
        return path


GRIDS = (Grid(2, 3), Grid(5, 6), Grid(10, 18), Grid(20, 30), Grid(45, 48))


class Site:
    """A store fed through the whole pipeline, in one thread."""

    def __init__(self, grid: Grid, url: str, folder: Path) -> None:
        self._grid = grid
        self._rng = np.random.default_rng(3)
        self._made = 0
        self._total = 2 * FRESH * (REFRESHES + 2) + PER_SLICE * grid.a * grid.b
        settings = settings_at(url, grid.settings(folder), STREAM__CLOCK="history")
        self.settings = settings
        self._engine = composition.open_store(settings, SystemClock())
        self._broker = MemoryBroker({"decisions": 1, "labels": 1})
        source = MemorySource(self._broker, ["decisions", "labels"], max_records=5_000)
        self._ingest = composition.build_ingest(
            settings, self._engine, source, ServiceMetrics(), SystemClock()
        )
        self._ingest.register()
        self.evaluator = composition.build_evaluator(settings, self._engine, SystemClock())
        self.commits: list[float] = []
        self._watch_commits()

    def feed(self, decisions: int) -> None:
        """Count so many more decisions, and a label for each that was requested."""
        events = list(self._events(decisions))
        self._broker.produce("decisions", [json.dumps(e).encode() for e, _ in events])
        labels = [said for _, said in events if said is not None]
        self._broker.produce("labels", [json.dumps(said).encode() for said in labels])
        wanted = self._made
        while (
            sum(
                s.tallies.counted
                for s in read_statuses(self._engine)
                if s.shard.topic == "decisions"
            )
            < wanted
        ):
            self._ingest.step(0)
        self._ingest._flush()
        self._ingest._flush()  # labels that waited for their decisions

    def _events(
        self, decisions: int
    ) -> Iterator[tuple[dict[str, object], dict[str, object] | None]]:
        span = timedelta(days=6) / self._total
        for _ in range(decisions):
            i, pick = self._made, self._rng
            self._made += 1
            score = round(float(pick.random()), 3)
            asked = score < 0.4 or pick.random() < 0.3
            at = (START + i * span).isoformat()
            pair = i % (self._grid.a * self._grid.b)
            yield (
                {
                    "decision_id": f"decision-{i:012d}",
                    "decided_at": at,
                    "route": "auto_serve" if score >= 0.4 else "human_review",
                    "judge_score": score,
                    "threshold": 0.4,
                    "evidence_passed": True,
                    "attributes": {"a": f"a{pair % self._grid.a}", "b": f"b{pair // self._grid.a}"},
                    "versions": VERSIONS,
                    "audit_p": 0.3 if score >= 0.4 else 1.0,
                    "label_requested": asked,
                },
                label(i, at, bool(pick.random() < 0.2 + 0.7 * score)) if asked else None,
            )

    def refresh(self) -> float:
        """Seconds of one evaluator cycle; everything new is published afterwards."""
        return timed(self.evaluator.cycle)

    def snapshot(self) -> Snapshot:
        newest = RecordStore(self._engine).newest_snapshot()
        assert newest is not None
        return decode(newest[1])

    def close(self) -> None:
        self.evaluator.release_lease()
        self._engine.dispose()

    def _watch_commits(self) -> None:
        store, commit = self.evaluator.store, self.evaluator.store.commit

        def timing(*arguments: object) -> None:
            self.commits.append(timed(lambda: commit(*arguments)))  # type: ignore[arg-type]

        store.commit = timing  # type: ignore[method-assign, assignment]


def scrape(snapshot: Snapshot) -> tuple[int, float, float, float]:
    """Series, then milliseconds of rendering, of a plain and of a compressed scrape (CPU)."""
    metrics = ServiceMetrics()
    exporter = Exporter(metrics, max_series=1_000_000, clock=SystemClock())
    rendering = timed(lambda: exporter.publish(snapshot))
    series = exporter.body("", False)[0].count(b"\n") - exporter.body("", False)[0].count(b"\n#")
    plain, compressed = (1e3 * _cpu(exporter, gzip) for gzip in (False, True))
    return series, 1e3 * rendering, plain, compressed


def _cpu(exporter: Exporter, gzip: bool) -> float:
    taken = []
    for _ in range(9):
        began = time.process_time()
        exporter.body("", gzip)
        taken.append(time.process_time() - began)
    return median(taken)


def measure(grid: Grid, kind: str, made: Databases, folder: Path, report: Report) -> None:
    """One row."""
    site = Site(grid, made.new(kind), folder)
    site.feed(PER_SLICE * grid.a * grid.b + FRESH)
    site.refresh()
    cycles, idle = [], []
    for _ in range(REFRESHES):
        site.feed(FRESH)
        gc.collect()
        cycles.append(1e3 * site.refresh())
        idle.append(1e3 * site.refresh())
    written = 1e3 * median(site.commits[-REFRESHES:])
    series, rendering, plain, packed = scrape(site.snapshot())
    report.add(
        *(f"{grid.slices:,}", kind, f"{median(cycles):.1f}", f"{written:.1f}"),
        *(f"{median(idle):.2f}", f"{series:,}", f"{rendering:.1f}", f"{plain:.2f}"),
        f"{packed:.2f}",
    )
    site.close()


def main() -> None:
    """Print the table."""
    report = Report(
        f"Evaluation after {FRESH:,} new decisions with their labels (ms, medians of {REFRESHES})",
        *("slices", "store", "cycle", "of it writing", "idle cycle", "series", "rendering"),
        *("scrape CPU", "scrape CPU, gzip"),
    )
    with tempfile.TemporaryDirectory() as name, databases(Path(name)) as made:
        for grid in GRIDS:
            for kind in made.kinds:
                measure(grid, kind, made, Path(name), report)
    report.close()


if __name__ == "__main__":
    main()
