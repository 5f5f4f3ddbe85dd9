"""How costs grow: slices, history, contracts, versions and partitions, one of them at a time.

Run it by ``make bench FOR=growth``, which keeps it in results/growth.json. Each play is a process
of its own, so that its memory is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from statistics import median

from common import Report
from measured import resident_megabytes_of, run_measured
from refresh_site import Play, Site, closing
from results import keep

SMALL = Play(10, 18)
PLAYS: dict[str, tuple[Play, ...]] = {
    "slices": (Play(4, 9), SMALL, Play(24, 39), Play(45, 48)),
    # Fewer decisions an hour, or ninety days would be thirteen million of them.
    "days of history": tuple(Play(10, 18, per_hour=600, days=days) for days in (1, 7, 28, 90)),
    "contracts": (SMALL, Play(10, 18, contracts=4)),
    "versions of the router": (SMALL, Play(10, 18, versions=5), Play(10, 18, versions=20)),
    "partitions": (SMALL, Play(10, 18, partitions=6), Play(10, 18, partitions=24)),
}
SIZES = {
    "slices": lambda play: play.slices,
    "days of history": lambda play: play.days,
    "contracts": lambda play: play.contracts,
    "versions of the router": lambda play: play.versions,
    "partitions": lambda play: play.partitions,
}


def measured(play: Play) -> dict[str, float]:
    """Figures of a play: CPU of reading and of cycles, memory, and the size of the database."""
    with tempfile.TemporaryDirectory() as name:
        site = Site(play, Path(name))
        reading = site.catch_up()
        stored, before = site.stored_megabytes, site.watermark
        cycles = defaultdict(list)
        for now in range(play.measured_from + play.step, play.until, play.step):
            site.feed(now)
            reached = site.watermark
            cycles[closing(reached, before)].append(site.refresh())
            before = reached
        early = site.events.at < play.measured_from
        figures = {
            "us an event": 1e3 * reading / int(early.sum() + site.events.asked[early].sum()),
            "idle": median(cycles["nothing closes"]),
            "hour": median(cycles["an hour closes"]),
            "day": median(cycles["a new day"]),
            "resident": resident_megabytes_of(os.getpid()),
            "stored": stored,
        }
        site.stop()
    return figures


@cache
def in_a_process(play: Play) -> Mapping[str, float]:
    """Figures of a play that runs in a process of its own."""
    figures, _ = run_measured([__file__, "--play", json.dumps(asdict(play))])
    return figures


def main() -> None:
    """Print the table, or the figures of one play."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--play", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--of", choices=PLAYS, action="append")
    chosen = parser.parse_args()
    if chosen.play:
        print(json.dumps(measured(Play(**chosen.play)) | {"starting_ms": 0, "peak_kb": 0}))  # noqa: T201
        return
    cycles = "nothing closes, ms", "an hour closes, ms", "a new day, ms"
    columns = "us an event read", *cycles, "resident MB", "database MB"
    report = Report("Growth", "what grows", "how far", *columns)
    for what in chosen.of or PLAYS:
        for play in PLAYS[what]:
            row = in_a_process(play)
            costs = f"{row['us an event']:.1f}", f"{row['idle']:.1f}", f"{row['hour']:.0f}"
            sizes = f"{row['day']:.0f}", f"{row['resident']:.0f}", f"{row['stored']:.0f}"
            report.add(what, f"{SIZES[what](play):,}", *costs, *sizes)
            if len(sys.argv) == 1:
                keep("growth", rows=report.rows)
    report.close()


if __name__ == "__main__":
    main()
