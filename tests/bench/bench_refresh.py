"""What one cycle of the service costs: a refresh by what closes in it, and rendering by series.

CPU of the thread that turns the service's own parts. Run it by ``make bench FOR=refresh``, which
keeps it in results/refresh.json.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import median

from common import Report
from refresh_site import Play, Site, closing, cpu
from results import keep

from alerts.exposition.exporter import Exporter
from alerts.exposition.service_metrics import ServiceMetrics
from monitor.clock import SystemClock
from monitor.core.publish.snapshot import Snapshot
from monitor.core.time import MINUTE

COPIES = (1, 2, 4, 8)
"""Contracts with the same content that are rendered: the number of series grows, and no row."""
PLAYS = {play.slices: play for play in (Play(10, 18), Play(45, 48, 5 * MINUTE))}


def refreshes(site: Site) -> dict[str, list[float]]:
    """CPU milliseconds of cycles, by what closed in them."""
    play = site.play
    site.catch_up()
    taken, before = defaultdict(list), site.watermark
    for now in range(play.measured_from + play.step, play.until, play.step):
        site.feed(now)
        reached = site.watermark
        taken[closing(reached, before)].append(site.refresh())
        before = reached
    for _ in range(2):
        site.restart()
        taken["the first after a start"].append(site.refresh())
    return taken


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
    """The rows of one play."""
    with tempfile.TemporaryDirectory() as name:
        site = Site(PLAYS[slices], Path(name))
        for what, took in refreshes(site).items():
            cycles.add(f"{slices:,}", what, len(took), f"{median(took):.1f}", f"{max(took):.1f}")
        snapshot = site.service.snapshot
        assert snapshot is not None
        for copies in COPIES if slices == min(PLAYS) else (1,):
            series, micros = rendering(snapshot, copies)
            pages.add(f"{slices:,}", copies, f"{series:,}", f"{micros:.1f}")
        site.stop()


def reports() -> tuple[Report, Report]:
    """Tables of cycles and of pages."""
    title = "A cycle's CPU, 6,000 decisions an hour with their labels"
    cycles = Report(title, "slices", "what closes", "cycles", "median ms", "longest ms")
    return cycles, Report("Rendering of a new page", "slices", "contracts", "series", "us each")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, choices=PLAYS, action="append")
    chosen = parser.parse_args()
    cycles, pages = reports()
    for slices in chosen.slices or PLAYS:
        measure(slices, cycles, pages)
    cycles.close()
    pages.close()
    if len(sys.argv) == 1:
        keep("refresh", cycles=cycles.rows, pages=pages.rows)


if __name__ == "__main__":
    main()
