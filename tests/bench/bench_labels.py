"""False pages where labels vanish, come late or come in clusters: raw events through the service.

Every world of ``label_worlds`` is played with so many seeds through decoding, ingest, a SQLite
store and the evaluator, in steps of a day (``make bench-labels``: an hour on two cores). Each run
is added to a file as soon as it is done, and what is there is not run again: stop it whenever you
like, and delete the file to begin anew. It fails if, where the claim holds, there are more false
pages than its bound lets happen once in a hundred times.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests/support" / room) for room in ("", "drivers", "worlds", "oracles")]

import msgspec  # noqa: E402
from label_play import Played, play  # noqa: E402
from label_worlds import LabelWorld, catalogue  # noqa: E402
from scipy.stats import poisson  # noqa: E402

RESULTS = ROOT / "build" / "bench-labels.jsonl"
SURE = 0.01
"""False pages are too many where the bound makes as many less likely than this."""


@dataclass(frozen=True)
class Run:
    """One world with one seed."""

    world: str
    seed: int
    played: Played


def run(place: int, seed: int) -> Run:
    """Play a world of the catalogue in a folder of its own; a world is code, and no argument."""
    world = catalogue()[place]
    with tempfile.TemporaryDirectory(prefix="slicewatch-labels-") as folder:
        return Run(world.name, seed, play(world.seeded(seed), Path(folder)))


def kept(path: Path) -> list[Run]:
    """The runs of a file."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=Run) for line in lines]


def further(names: Sequence[str], seeds: int, path: Path, workers: int) -> None:
    """Run what is not in the file yet, each seed of all worlds before the next."""
    done = {(one.world, one.seed) for one in kept(path)}
    places = enumerate(names)
    jobs = [(at, s) for at, name in places for s in range(seeds) if (name, s) not in done]
    jobs.sort(key=lambda job: job[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(workers) as pool, path.open("ab") as file:
        try:
            for one in as_completed([pool.submit(run, *job) for job in jobs]):
                file.write(msgspec.json.encode(one.result()) + b"\n")
                file.flush()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def table(worlds: Sequence[LabelWorld], runs: Sequence[Run]) -> Iterator[str]:
    """A table as the docs have it."""
    by_world = defaultdict[str, list[Played]](list)
    for one in runs:
        by_world[one.world].append(one.played)
    yield "| world | seeds | bound | false pages | page of the gap | labels reported |"
    yield "|---|---|---|---|---|---|"
    for world in worlds:
        found = by_world[world.name]
        if found:
            false = sum(len(one.false) for one in found)
            bound = sum(one.bound for one in found)
            delay = _delays([one.found for one in found]) if world.breached else ""
            told = _delays([one.told for one in found]) if world.faulty else ""
            cells = (world.name, len(found), f"{bound:.1f}", false, delay, told)
            yield f"| {' | '.join(map(str, cells))} |"


def _delays(days: Sequence[float | None]) -> str:
    """Median days, and in how many runs at all where not in all."""
    found = [one for one in days if one is not None]
    if not found:
        return "never"
    times = "" if len(found) == len(days) else f" ({len(found)} of {len(days)})"
    return f"{median(found):.1f} d{times}"


def broken(worlds: Sequence[LabelWorld], runs: Sequence[Run]) -> list[str]:
    """Worlds in which the claim holds and there were too many false pages."""
    found = []
    for world in (one for one in worlds if one.covered):
        played = [one.played for one in runs if one.world == world.name]
        false, bound = sum(len(one.false) for one in played), sum(one.bound for one in played)
        if false and poisson.sf(false - 1, bound) < SURE:
            found.append(f"{world.name}: {false} false pages, at most {bound:.1f} expected")
    return found


def say(text: str) -> None:
    """A line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run, print the table; 1 if the claim is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="runs of each world")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of all runs")
    parser.add_argument("--table", action="store_true", help="only print what is in the file")
    chosen = parser.parse_args()
    worlds = catalogue()
    if not chosen.table:
        further([one.name for one in worlds], chosen.seeds, chosen.results, chosen.workers)
    runs = kept(chosen.results)
    for line in table(worlds, runs):
        say(line)
    wrong = broken(worlds, runs)
    for line in wrong:
        say(f"MISSED: {line}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
