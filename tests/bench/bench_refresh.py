"""What a refresh of a live evaluator costs, by what has happened since the one before (CPU).

Every 10 seconds of event time, from the evening of the fourth day to the next night. The deltas are
written as an ingest process writes them, the rest is the service's own. Run it by
``make bench FOR=refresh``; ``ARGS="--grids 209 --profile hour"`` shows where the time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from bench_evaluate import Grid
from common import START, Report, settings_at

from monitor import composition
from monitor.clock import SystemClock
from monitor.core.counts.cells import COUNTERS, Counter, Route, Stratum, atom_text, content_id
from monitor.core.time import HOUR, SECOND, Grain, pane_of, to_micros
from monitor.ports import Dictionary, Shard, ShardFlush, Tallies
from monitor.store.database import writing
from monitor.store.deltas import Payload, summed, write_delta
from monitor.store.dictionary_rows import write_dictionary
from monitor.store.schema import ownership

GRIDS = {12: Grid(2, 3), 209: Grid(10, 18), 2_254: Grid(45, 48)}
HOURLY = {12: 600, 209: 60, 2_254: 30}
"""Decisions of each pair of values in an hour."""

MINUTE = 60 * SECOND
LATENESS = 10 * MINUTE
DELAY = 20 * MINUTE  # of labels
WARM = 71  # hours before the measurement: it begins at 23:00 of the third day
END = 74 * HOUR + 30 * MINUTE
FRESH = "router=t1", "router=t2"


@dataclass(frozen=True)
class Traffic:
    """The cells of a grid, and how many decisions each has in an hour.

    Attributes:
        ids: of the cells.
        hourly: mean number of decisions.
        asked: share of which a label is requested.
        ready: share of the labels that say so.
    """

    ids: np.ndarray[tuple[int], np.dtype[np.int64]]
    hourly: np.ndarray[tuple[int], np.dtype[np.float64]]
    asked: np.ndarray[tuple[int], np.dtype[np.float64]]
    ready: np.ndarray[tuple[int], np.dtype[np.float64]]
    meaning: Dictionary

    @classmethod
    def of(cls, grid: Grid, hourly: float, audit: int, rate: float) -> Traffic:
        """Two thirds are served and audited, one third is reviewed; two versions decide."""
        strata = [
            (Stratum(Route.AUTO_SERVE, 1, audit).code, 0.4, rate, 0.8),
            (Stratum(Route.AUTO_SERVE, 2, audit).code, 0.25, rate, 0.9),
            (Stratum(Route.HUMAN_REVIEW, 0, 0).code, 0.35, 1.0, 0.3),
        ]
        atoms, cells, rows = {}, {}, []
        for pair in range(grid.a * grid.b):
            text = atom_text({"a": f"a{pair % grid.a}", "b": f"b{pair // grid.a}"})
            atoms[content_id(text)] = text
            for version in FRESH:
                for code, share, asked, ready in strata:
                    ids = content_id(text), content_id(version)
                    cell = content_id(f"{ids[0]}/{ids[1]}/{code}")
                    cells[cell] = (*ids, code)
                    rows.append((cell, hourly * share / len(FRESH), asked, ready))
        versions = {content_id(one): one for one in FRESH}
        ids_, hourly_, asked_, ready_ = zip(*rows, strict=True)
        meaning = Dictionary(atoms=atoms, versions=versions, cells=cells)
        return cls(np.array(ids_), np.array(hourly_), np.array(asked_), np.array(ready_), meaning)


class Site:
    """A store that is fed with deltas, and its evaluator."""

    def __init__(self, slices: int, path: Path) -> None:
        folder, grid = path.parent, GRIDS[slices]
        settings = settings_at(f"sqlite:///{path}", grid.settings(folder), STREAM__CLOCK="live")
        self.engine = composition.open_store(settings, SystemClock())
        coding = settings.coding
        audit = coding.rate_index(0.3)
        self.traffic = Traffic.of(grid, HOURLY[slices], audit, coding.audit_rates[audit])
        self.evaluator = composition.build_evaluator(settings, self.engine, SystemClock())

    def begin(self) -> None:
        """Write what an ingest process writes before its first flush."""
        with writing(self.engine) as connection:
            write_dictionary(connection, self.traffic.meaning)
            for topic in ("decisions", "labels"):
                row = {"topic": topic, "part": 0, "epoch": 1, "seq": 0, "next_offset": 0}
                row |= {"tallies": "{}", "holds_back": True}
                connection.execute(ownership.insert().values(row))

    def feed(self, start: int, end: int) -> None:
        """Deltas of the decisions of an interval of event time, and of the labels that are due."""
        decided = self._rows(start, end, labels=False)
        late = self._rows(start - DELAY, end - DELAY, labels=True)
        with writing(self.engine) as connection:
            for topic, body in (("decisions", decided), ("labels", late)):
                shard = Shard(topic, 0)
                mark = end - LATENESS if topic == "decisions" else end
                flush = ShardFlush(shard, 1, start, end, end, mark, True, Tallies())
                update = ownership.update().where(ownership.c.topic == topic)
                connection.execute(update.values(watermark=mark, max_decided_at=end))
                write_delta(connection, flush, body)

    def _rows(self, start: int, end: int, *, labels: bool) -> Payload:
        panes = range(pane_of(start, Grain.MINUTES5), pane_of(end - 1, Grain.MINUTES5) + 1)
        parts = [self._pane(pane, start, end, labels=labels) for pane in panes]
        cells = np.concatenate([self.traffic.ids] * len(parts))
        at = np.repeat(list(panes), len(self.traffic.ids))
        none = np.empty(0, np.int64)
        return summed(Payload(at, cells, np.concatenate(parts), none, none))

    def _pane(
        self, pane: int, start: int, end: int, *, labels: bool
    ) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Counters by cell, the same whenever decisions and their labels are asked for."""
        first, width, one = pane * int(Grain.MINUTES5), int(Grain.MINUTES5), self.traffic
        values = np.zeros((len(one.ids), COUNTERS), np.int64)
        if first < int(START.timestamp() * SECOND):
            return values
        for at in range(max(start, first), min(end, first + width), 10 * SECOND):
            rng = np.random.default_rng(at // SECOND)
            n = rng.poisson(one.hourly * 10 * SECOND / HOUR)
            asked = rng.binomial(n, one.asked)
            if not labels:
                values[:, Counter.N] += n
                values[:, Counter.Q] += asked
                continue
            values[:, Counter.LABELLED] += asked
            values[:, Counter.READY] += rng.binomial(asked, one.ready)
            values[:, Counter.DELAY_0] += asked
        return values

    def close(self) -> None:
        self.evaluator.release_lease()
        self.engine.dispose()


def prepared(slices: int, kept: Path) -> Path:
    """A store at 23:00 of the third day."""
    path = kept / f"refresh-{slices}.db"
    if not path.exists():
        site, start = Site(slices, path), to_micros(START)
        site.begin()
        for hour in range(WARM):
            site.feed(start + hour * HOUR, start + (hour + 1) * HOUR)
            site.evaluator.cycle()
        site.close()
    return path


def moments() -> Iterator[int]:
    """Ends of steps, since the start: 10 seconds wide around full hours, else a minute."""
    at = WARM * HOUR
    while at < END:
        near = (at - LATENESS + MINUTE) % HOUR
        at += 10 * SECOND if near < 2 * MINUTE else MINUTE
        yield at


def reached(site: Site) -> dict[str, int]:
    """How far the evaluator is: its watermark, and the last cohort, in panes."""
    memory = site.evaluator._memory
    if memory is None:
        return {}
    decided, cohort = memory.release.decisions or 0, memory.detection.consumed or 0
    return {
        "first cohort of a day": cohort // 24,
        "cohort": cohort,
        "hour": decided // HOUR,
        "5 minutes": decided // (5 * MINUTE),
    }


def measure(slices: int, kept: Path, folder: Path, profiled: str) -> dict[str, list[float]]:
    """CPU milliseconds of cycles by kind."""
    path = folder / f"{slices}.db"
    shutil.copy(prepared(slices, kept), path)
    site, start = Site(slices, path), to_micros(START)
    took: dict[str, list[float]] = defaultdict(list)
    last, found = WARM * HOUR, None
    for at in (last, *moments()):
        if at > last:
            site.feed(start + last, start + at)
        last, before, profile = at, reached(site), cProfile.Profile()
        gc.collect()
        if profiled:
            profile.enable()
        began = time.process_time()
        site.evaluator.cycle()
        took_now = 1e3 * (time.process_time() - began)
        profile.disable()
        now = reached(site)
        kinds = (name for name, pane in now.items() if pane != before[name])
        kind = next(kinds, "no pane") if before else "first after a start"
        took[kind].append(took_now)
        if kind == profiled:
            found = found or pstats.Stats(stream=sys.stdout)
            found.add(profile)
    site.close()
    if found is not None:
        found.sort_stats("cumulative").print_stats(90)
        found.sort_stats("tottime").print_stats(45)
    return took


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--grids", type=int, nargs="+", default=[12, 209], choices=[*GRIDS])
    parser.add_argument("--kept", type=Path, help="folder of stores to begin with")
    parser.add_argument("--profile", default="", help="kind of refresh to look into")
    given = parser.parse_args()
    report = Report(
        "CPU of a refresh, ms: median, and longest",
        *("slices", "since the last", "refreshes", "median", "longest"),
    )
    with tempfile.TemporaryDirectory() as name:
        for slices in given.grids:
            took = measure(slices, given.kept or Path(name), Path(name), given.profile)
            for kind, all_of in took.items():
                cells = f"{median(all_of):.1f}", f"{max(all_of):.1f}"
                report.add(f"{slices:,}", kind, len(all_of), *cells)
    report.close()


if __name__ == "__main__":
    main()
