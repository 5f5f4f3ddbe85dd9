"""Many worlds, one after another: what the attacker of the tests finds.

Run it by ``make adversary``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from adversary.attack import Attack, Budget, Figures
from adversary.model import Cube
from adversary.numbers import K
from adversary.pages import DECISIONS, LABELLED, Publication, Reader, read_all
from adversary.rules import RULES, ruled
from adversary.service import Fetched, running
from adversary.truth import TruthLog
from adversary.worlds import HOUR, START, Shape, World, make_world, random_shape, small_shape

GUARDED, HIDE, ROLLING = "guarded", "hide", "rolling"
GUARDS = (GUARDED, HIDE, ROLLING)
"""The guard as shipped; exact numbers without the cells below k; all of it but the blocks."""


AFTER = 6 * HOUR
"""Scrapes go on when the last decision has come: labels of the last hours are still published."""

SHAPES: dict[str, Callable[[int, float], Shape]] = {
    "any": random_shape,
    "small": lambda seed, days: replace(small_shape(seed), days=days),
    # Two values, of which one is rare: what holds their group-by back is known.
    "pair": lambda seed, days: Shape(values=(2,), days=days, skew=2, strays=0, late=0),
}


def attack(
    world: World,
    *,
    guard: str = GUARDED,
    rule: str = "shipped",
    step: int = HOUR,
    budget: Budget | None = None,
) -> Figures:
    """Run one world, read all scrapes and attack them."""
    exact = guard == HIDE
    with ruled("none" if guard == ROLLING else rule), running(world, exact=exact) as service:
        scrapes, log = [], TruthLog()
        for now in range(START + step, world.end + AFTER, step):
            if (body := service.step(now)) is not None:
                scrapes.append(Fetched(now, body))
                log.note(service.engine, now)
        reader = read_all(scrapes)
        if exact:
            _hide_small(reader)
        cube = Cube.of(world.attributes, reader.publications)
    label = f"seed {world.seed} {guard}"
    attacker = Attack(reader, cube, log, label, exact=exact)
    budget = budget or Budget()
    attacker.subtract()
    attacker.solve(DECISIONS, budget)
    if not exact:
        attacker.solve(LABELLED, budget)
        attacker.time(budget)
    return attacker.figures


def _hide_small(reader: Reader) -> None:
    """What the naive guard does: rows of fewer than k decisions are left out, no more."""
    reader.publications = [_without_small(p) for p in reader.publications]


def _without_small(publication: Publication) -> Publication:
    rows = {
        text: row
        for text, row in publication.rows.items()
        if row and all(numbers.get("support", 0) >= K for numbers in row.values())
    }
    return replace(publication, rows=rows)


def campaign(seeds: range, guard: str, rule: str, shapes: str, days: float) -> Figures:
    """Attack many cubes, telling of each."""
    total = Figures()
    for seed in seeds:
        began = time.perf_counter()
        world = make_world(seed, SHAPES[shapes](seed, days))
        figures = attack(world, guard=guard, rule=rule)
        total.add(figures)
        _say(
            f"{guard} seed {seed} {world.shape.values} {len(world.at)} decisions,"
            f" {time.perf_counter() - began:.1f} s: {figures}"
        )
        for leak in [*figures.leaks[:5], *figures.waits[:2]]:
            _say(f"    {leak}")
    return total


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack as the arguments say; 1 where the guard did not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cubes", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--days", type=float, default=3)
    parser.add_argument("--shapes", choices=list(SHAPES), default="any")
    parser.add_argument("--rule", choices=[*RULES, "none"], default="shipped")
    parser.add_argument("--guard", choices=[*GUARDS, "both"], default="both")
    chosen = parser.parse_args(arguments)
    guards = (GUARDED, HIDE) if chosen.guard == "both" else (chosen.guard,)
    seeds = range(chosen.seed, chosen.seed + chosen.cubes)
    found = {
        guard: campaign(seeds, guard, chosen.rule, chosen.shapes, chosen.days) for guard in guards
    }
    for guard, figures in found.items():
        _say(f"{guard}: {figures}")
    return int(bool(found[guards[0]].leaks))


if __name__ == "__main__":
    sys.exit(main())
