"""What incidents name when their cause is planted: slices and stages, at the page and a day later.

Every world of ``cause_worlds`` is played with so many seeds to the shipped tests until they page
(``make bench-incidents``: an hour; ``ARGS="--seeds 20"``: ten minutes). ``--known-onset`` takes a
test that knows when the fault began instead, which is a hundred times faster and has no more
labels at its pages. It fails if anything is right in fewer than 95 of 100 worlds that paged.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests/support" / room) for room in ("", "drivers", "worlds", "oracles")]

from cause_play import Judgement, judge, play, play_known_onset  # noqa: E402
from cause_worlds import Planted, planted_world  # noqa: E402

AIM = 0.95
COLUMNS = {
    "page": "at the page",
    "day": "a day later",
    "both": "both named",
    "stage": "stage at the page",
    "stage_day": "a day later",
}
LEGEND = """
Right is: every slice that is named was planted, as worse off, and one is named. Of two causes one
may have paged so far; "both named" is over the worlds in which both had crossed. The stage is that
of every named slice against its complement."""


def judged(job: tuple[Planted, int, bool]) -> Judgement:
    """Play and judge the world of one seed."""
    kind, seed, known_onset = job
    world = planted_world(kind, seed)
    return judge(play_known_onset(world) if known_onset else play(world))


def row(name: str, cells: list[str]) -> str:
    """One line of the table."""
    return f"{name:<32}" + "".join(f"{cell:>19}" for cell in cells)


def say(text: str) -> None:
    """A line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def shares(found: list[Judgement]) -> dict[str, tuple[int, int]]:
    """Right ones, and all that could be judged, by column."""
    told = {name: [getattr(one, name) for one in found] for name in COLUMNS}
    return {
        name: (values.count(True), len(values) - values.count(None))
        for name, values in told.items()
    }


def main() -> int:
    """Print the table; 1 if something is right too rarely."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="worlds of each kind")
    parser.add_argument("--known-onset", action="store_true", help="pages by a faster test")
    options = parser.parse_args()
    seeds, missed = range(options.seeds), 0
    say(row(f"{options.seeds} seeds each", ["paged", "median days", *COLUMNS.values()]))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for kind in Planted:
            jobs = [(kind, seed, options.known_onset) for seed in seeds]
            found = list(pool.map(judged, jobs))
            days = [one.days for one in found if one.days is not None]
            counted = shares(found)
            cells = [f"{right} of {all_}" if all_ else "" for right, all_ in counted.values()]
            delay = f"{median(days):.1f}" if days else ""
            say(row(kind.value, [str(len(days)), delay, *cells]))
            missed += sum(right < AIM * all_ for right, all_ in counted.values())
    say(LEGEND)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
