"""Many worlds of published tables, attacked one after another; and climbs against the guard.

Run it by ``make adversary``: first random worlds, then climbs, from a seed on. It fails
where a count below k is left fewer than 6 values in a random world, or fewer than 4 in any.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from adversary.table_attack import NOTHING, Attack, Left, narrowest
from adversary.table_climb import SAMPLED_SLOPES, SLOPES, Slope, climb
from adversary.table_worlds import Traffic, published, random_world

from monitor.core.tables.spans import SpanKind

HOUR, DAY, WEEK, FOUR_WEEKS = SpanKind
LEAST, LEAST_AT_RANDOM = 4, 6

SAMPLED_TRAFFIC = {
    "audits of 5 %": Traffic(400, (3, 2), audits=(0.05,), missing=0.1, lost=0.02, corrected=0.03),
    "audits of 20 %": Traffic(250, (3, 2), audits=(0.2,), missing=0.1, lost=0.02, corrected=0.03),
    "both audit rates": Traffic(300, (3,), audits=(0.2, 0.05), missing=0.1, corrected=0.03),
    "one label missing": Traffic(60, (3,), audits=(0.2,), missing=0.05, one_missing=True),
    "many corrections": Traffic(150, (2, 2), audits=(0.2,), missing=0.2, corrected=0.2),
    "audits in weeks": Traffic(
        *(60, (2, 2), 28, (WEEK, FOUR_WEEKS)), audits=(0.05,), missing=0.1, corrected=0.05
    ),
    "audits in quiet hours": Traffic(
        *(300, (3,), 1, (HOUR, DAY)), quiet=True, audits=(0.2,), lost=0.1
    ),
    "audits and blocked replies": Traffic(
        *(200, (3,)), served=0.6, audits=(0.2,), blocked=0.3, missing=0.1, corrected=0.03
    ),
    "audits and late decisions": Traffic(300, (3,), audits=(0.05,), missing=0.1, late=0.02),
}
"""Worlds in which labels of a sample of the served decisions are requested."""
TRAFFIC = {
    **SAMPLED_TRAFFIC,
    "weeks": Traffic(150, (3,), 28, (DAY, WEEK, FOUR_WEEKS)),
    "days": Traffic(150, (3, 3)),
    "many": Traffic(600, (3, 3)),
    "long": Traffic(60, (2, 2), 28, (DAY, WEEK, FOUR_WEEKS)),
    "quiet hours": Traffic(200, (3, 2), 1, (HOUR, DAY), quiet=True),
    "rarely served": Traffic(300, (3, 3), served=0.12),
    "all labelled": Traffic(100, (3, 2), audits=(1.0,), missing=0.01, corrected=0.02),
    "labels of weeks": Traffic(60, (3,), 28, (WEEK, FOUR_WEEKS), audits=(1.0,), missing=0.02),
    "three attributes": Traffic(300, (2, 2, 2), days=1, kinds=(DAY,)),
}


@dataclass
class Figures:
    """What was found in worlds of one kind."""

    worlds: int = 0
    tried: int = 0
    below_k: int = 0
    least: int = 99
    leaks: list[str] = field(default_factory=list)

    def add(self, found: Sequence[Left], least: int) -> None:
        """Count what is left in one world, where this is the least that may be."""
        self.worlds += 1
        self.tried += len(found)
        self.below_k += sum(left.values < 11 for left in found)
        self.least = min([self.least, *(left.values for left in found)])
        self.leaks += [str(left) for left in found if left.values < least]

    def __str__(self) -> str:
        return (
            f"{self.worlds} worlds, {self.tried} counts tried, {self.below_k} left fewer than 11"
            f" values, the narrowest {self.least}, leaks {len(self.leaks)}"
        )


def random_worlds(
    kinds: Mapping[str, Traffic], seeds: range, counts: int
) -> Iterator[tuple[str, Figures]]:
    """Attack worlds of every traffic, for each seed."""
    for name, traffic in kinds.items() if seeds else ():
        figures = Figures()
        for seed in seeds:
            world = random_world(f"{name} {seed}", seed, traffic)
            told = NOTHING if seed % 2 else 0
            attack = Attack(world, published(world), with_late=traffic.late > 0, told=told)
            figures.add(narrowest(attack, counts, seed), LEAST_AT_RANDOM)
        yield name, figures


def climbs(
    kinds: Mapping[str, Slope], seeds: range, seconds: float
) -> Iterator[tuple[str, Figures]]:
    """Climb in every kind of worlds, from each seed."""
    for name, slope in kinds.items() if seeds else ():
        figures = Figures()
        for seed in seeds:
            reader = replace(slope, told=NOTHING if seed % 2 else 0)
            end = climb(reader, seed, steps=10**9, seconds=seconds)
            figures.add([] if end.left is None else [end.left], LEAST)
            _say(f"  {name} seed {seed}: {end.tried} steps, {end.left}")
            if end.values < LEAST:
                _say(f"  {end.counts.tolist()}")
        yield name, figures


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack as the arguments say; 1 where the guard did not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=10, help="of each traffic")
    parser.add_argument("--counts", type=int, default=40, help="tried in each world")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--climbs", type=int, default=2, help="of each kind")
    parser.add_argument("--seconds", type=float, default=120, help="of each climb")
    parser.add_argument("--sampled", action="store_true", help="audits of 5 and 20 percent alone")
    chosen = parser.parse_args(arguments)
    traffic = SAMPLED_TRAFFIC if chosen.sampled else TRAFFIC
    slopes = SAMPLED_SLOPES if chosen.sampled else SLOPES
    began, leaks = time.perf_counter(), 0
    seeds = range(chosen.seed, chosen.seed + chosen.worlds)
    ends = range(chosen.seed, chosen.seed + chosen.climbs)
    for kind, found in (
        ("random", random_worlds(traffic, seeds, chosen.counts)),
        ("climbed", climbs(slopes, ends, chosen.seconds)),
    ):
        for name, figures in found:
            _say(f"{kind} {name}: {figures}; {time.perf_counter() - began:.0f} s")
            for leak in figures.leaks[:5]:
                _say(f"    {leak}")
            leaks += len(figures.leaks)
    return int(leaks > 0)


if __name__ == "__main__":
    sys.exit(main())
