"""False pages and delays of the shipped page rule and of what others would page by.

All rules read the same seeded worlds. Run it by ``make bench-detection`` (under ten minutes; a
minute with ``ARGS=--quick``). It ends with what the shipped rule aims at, and fails if it misses
any of it; a quick run has too few breaches to decide that, and does not fail. Every figure but the
time is the same in each run of one seed.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests/support" / room) for room in ("", "drivers", "worlds", "oracles")]

import numpy as np  # noqa: E402
from fleet_catalogue import (  # noqa: E402
    QUICK,
    Sizes,
    dropping_levels,
    limits_broken,
    limits_kept,
    nulls,
    part_in_breach,
    standing_breaches,
    standing_gaps,
)
from fleet_optimum import information, limit, oracle  # noqa: E402
from fleet_play import Score, Truth, play  # noqa: E402
from fleet_rivals import Page, rivals  # noqa: E402
from fleet_shipped import Latches, ShippedFleet  # noqa: E402
from fleet_worlds import HOURS, World  # noqa: E402
from scipy.stats import poisson  # noqa: E402

from monitor.core.metric import Metric  # noqa: E402
from monitor.detection.pages.streams import BUDGET_DAYS, StreamKind  # noqa: E402
from monitor.detection.pages.weekly_evidence import FALSE_DISCOVERIES  # noqa: E402

SHIPPED = "slicewatch"
LEVEL_AIM = 1.35
RESOLVE_AIM = 0.03
SURE = 0.01
"""A count above its bound misses the aim when the bound makes it less likely than this."""

LEGEND = """
Every rule is silent on a stream for 7 days after a page. river: default parameters, fed with the
labelled positives (FPR: negatives) as they are, only drifts to the worse count. point: the point
of the last 7 days is beyond the limit. Wilson: its 95 % interval is (a gap's by MOVER). windowed z:
7 days, z such that all streams together would page falsely once in 90 days if looked at weekly.
All windows are right under sampled labels, and are looked at every hour."""

SECTIONS: dict[str, Callable[[Sizes], list[World]]] = {
    "nulls": nulls,
    "gaps": standing_gaps,
    "levels": dropping_levels,
    "breaches": standing_breaches,
    "tickets": lambda sizes: [part_in_breach(sizes)],
    "kept": limits_kept,
    "broken": limits_broken,
}


LIMITS = ("kept", "broken")
UNIT = "median / p95 in days; in labels of the slice; share found in time"


@dataclass(frozen=True)
class Job:
    """One world to play: built again in each process, since its path is code."""

    section: str
    place: int
    sizes: Sizes
    seed: int

    def world(self) -> World:
        """The world, with the seed of this run."""
        world = SECTIONS[self.section](self.sizes)[self.place]
        return replace(world, seed=(self.seed, *world.seed))


@dataclass(frozen=True)
class Aim:
    """Something the shipped rule is held to."""

    text: str
    held: bool


Scores = dict[str, dict[str, Score]]
"""By the name of a world, then of a rule."""


def scored(job: Job) -> dict[str, Score]:
    """What every rule did in one world."""
    world = job.world()
    return play(world, {SHIPPED: ShippedFleet(world), **rivals(world)})


def alone(job: Job) -> dict[str, Score]:
    """What the shipped rule did: the limits that no other rule is asked about."""
    world = job.world()
    return play(world, {SHIPPED: ShippedFleet(world)})


def resolved(job: Job) -> tuple[int, int]:
    """Latches of standing breaches: opened by a page, and of these released in the meantime."""
    world = job.world()
    rule, latches = ShippedFleet(world), Latches(world)
    pages, released = set[Page](), set[Page]()
    for cohort in world.cohorts():
        crossed = rule.advance(cohort)
        pages |= set(crossed)
        released |= set(latches.look(cohort, crossed))
    return len(pages), len(released)


def weekly_lists(job: Job) -> list[tuple[int, int]]:
    """Length of each weekly list, and streams on it that kept to their contract that week."""
    world = job.world()
    rule = ShippedFleet(world)
    truth, lists = Truth(world), []
    for cohort in world.cohorts():
        rule.advance(cohort)
        listed = rule.tickets()
        if listed is not None:
            start, end = max(0, cohort.hour - 7 * HOURS), cohort.hour
            false = [not truth.broken(truth.watch(p), p.row, start, end) for p in listed]
            lists.append((len(false), sum(false)))
    return lists


PLAYED: dict[str, Callable[[Job], Any]] = {
    "nulls": scored,
    "gaps": scored,
    "levels": scored,
    "breaches": resolved,
    "tickets": weekly_lists,
    "kept": alone,
    "broken": alone,
}
"""What is done with the worlds of a section."""


# Tables.


def false_pages_table(scores: Scores) -> None:
    """False pages of every rule in worlds where the contract holds."""
    table(
        "False pages per 90 days of the fleet (per million labels): the contract holds",
        scores,
        lambda score: f"{_per_90_days(score):,.1f}{_per_million(score)}",
    )


def _per_million(score: Score) -> str:
    """Of labels; nothing for limits that need none."""
    return f" ({1e6 * score.false / score.labels:,.0f})" if score.labels else ""


def delays_table(title: str, scores: Scores) -> None:
    """Delays of every rule in worlds with a breach."""
    table(title, scores, _delays)


def ratios_table(ratios: Mapping[str, float]) -> None:
    """How far the shipped rule is from what is possible."""
    say("\n### Median delay of a level against the optimum\n")
    say("| world | slicewatch / optimum |\n|---|---|")
    for name, ratio in ratios.items():
        say(f"| {name} | {ratio:.2f} |")


def table(title: str, scores: Scores, cell: Callable[[Score], str]) -> None:
    """One row a world, one column a rule."""
    names = list(next(iter(scores.values())))
    say(f"\n### {title}\n\n| world | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}")
    for world, by_rule in scores.items():
        say(f"| {world} | {' | '.join(cell(by_rule[name]) for name in names)} |")


def _delays(score: Score) -> str:
    if score.early == score.breaches:
        return "all paged before"
    days, labels = ([score.quantile(what, q) for q in (0.5, 0.95)] for what in ("days", "labels"))
    early = f", {score.early / score.breaches:.0%} before" if score.early else ""
    return (
        f"{' / '.join(map(_days, days))} d; {' / '.join(map(_count, labels))}; "
        f"{score.share_found:.0%}{early}"
    )


def _days(value: float) -> str:
    return f"{value:.1f}" if math.isfinite(value) else "never"


def _count(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else "never"


def _per_90_days(score: Score) -> float:
    return BUDGET_DAYS * score.false / score.days


# Aims.


def bound_aims(scores: Scores) -> list[Aim]:
    """At most one false page in 90 days, in every world."""
    return [_bound_aim(name, by_rule[SHIPPED]) for name, by_rule in scores.items()]


def _bound_aim(name: str, score: Score) -> Aim:
    expected = score.days / BUDGET_DAYS
    surprise = float(poisson.sf(score.false - 1, expected))
    text = f"{name}: {score.false} false pages, at most {expected:.1f} expected"
    return Aim(text, surprise >= SURE)


def level_aims(ratios: Mapping[str, float]) -> list[Aim]:
    """Levels are found within so many times the optimum."""
    return [
        Aim(f"{name}: {ratio:.2f} of the optimum, at most {LEVEL_AIM}", ratio <= LEVEL_AIM)
        for name, ratio in ratios.items()
    ]


def release_aim(scores: Scores) -> Aim:
    """Weekly versions do not slow the page of a gap down."""
    found = {name: by_rule[SHIPPED].quantile("days", 0.5) for name, by_rule in scores.items()}
    (released,) = (name for name in found if name.endswith("weekly versions"))
    plain = released.partition(",")[0]
    text = f"{released}: {found[released]:.1f} days, without {found[plain]:.1f}"
    return Aim(text, math.isfinite(found[released]) and found[released] <= found[plain])


def level_ratios(scores: Scores, worlds: Mapping[str, World]) -> dict[str, float]:
    """Median delay of the shipped rule against the optimum at the same false alarms."""
    return {name: _ratio(worlds[name], by_rule[SHIPPED]) for name, by_rule in scores.items()}


def _ratio(world: World, score: Score) -> float:
    """In labels against the oracle where all is labelled, else in decisions against the limit.

    The optimum has the mean time to a false alarm that the stream's weight allows: 90 days / w.
    """
    row, watch = 0, world.watches[0]
    days = BUDGET_DAYS / ShippedFleet(world).weight(Page(row, Metric.TPR, StreamKind.LEVEL))
    decisions = days * HOURS * float(world.hourly[row])
    after = world.path(np.array([float(world.days)]))
    if world.audits.rates.min() == 1:
        ready, tpr = float(after.ready[0, row, 0]), float(after.tpr[0, row, 0])
        best = oracle(float(watch.limit), tpr, ready * decisions).median
        return score.quantile("labels", 0.5) / best
    nats = information(after, world.audits, row, float(watch.limit))
    return score.quantile("decisions", 0.5) / limit(nats, decisions)


# The run.


class Bench:
    """All sections, begun at once on a pool of processes."""

    def __init__(
        self, pool: ProcessPoolExecutor, sizes: Sizes, seed: int, sections: Sequence[str]
    ) -> None:
        jobs = [
            (Job(section, place, sizes, seed), world)
            for section in sections
            for place, world in enumerate(SECTIONS[section](sizes))
        ]
        # The longest begin first, or the last of them would run alone at the end.
        longest = sorted(jobs, key=lambda one: -one[1].size * one[1].days)
        begun = {job: pool.submit(PLAYED[job.section], job) for job, _ in longest}
        self._played = {
            section: [(world, begun[job]) for job, world in jobs if job.section == section]
            for section in sections
        }

    def run(self) -> list[Aim]:
        """Print every table; the aims of the shipped rule."""
        say(LEGEND)
        compared = self._compared() if "nulls" in self._played else []
        return [*compared, *self._further_limits()]

    def _further_limits(self) -> list[Aim]:
        kept, broken = (self._scores(section) for section in LIMITS)
        false_pages_table(kept)
        delays_table(f"Further limits: {UNIT}", broken)
        return bound_aims(kept)

    def _compared(self) -> list[Aim]:
        calm, opened, dropped = (self._scores(x) for x in ("nulls", "gaps", "levels"))
        false_pages_table(calm)
        delays_table(f"Gaps of a TPR: {UNIT}", opened)
        delays_table(f"Levels of a TPR: {UNIT}", dropped)
        ratios = level_ratios(dropped, {world.name: world for world, _ in self._played["levels"]})
        ratios_table(ratios)
        return [
            *bound_aims(calm),
            *level_aims(ratios),
            release_aim(opened),
            *self._resolving(),
            self._tickets(),
        ]

    def _scores(self, section: str) -> Scores:
        """The section's scores; those of worlds of one name are added up."""
        scores: Scores = {}
        for world, played in self._played[section]:
            kept = scores.setdefault(world.name, {})
            for name, score in played.result().items():
                kept[name] = kept[name] + score if name in kept else score
        return scores

    def _resolving(self) -> Iterable[Aim]:
        say("\n### Standing breaches falsely resolved\n")
        say("| world | paged | resolved |\n|---|---|---|")
        found: dict[str, list[tuple[int, int]]] = {}
        for world, played in self._played["breaches"]:
            found.setdefault(world.name, []).append(played.result())
        for name, counts in found.items():
            paged, released = map(sum, zip(*counts, strict=True))
            share = released / max(paged, 1)
            say(f"| {name} | {paged} | {share:.1%} |")
            held = paged > 0 and share <= RESOLVE_AIM
            yield Aim(f"{name}: {share:.1%} of {paged} falsely resolved", held)

    def _tickets(self) -> Aim:
        ((_, played),) = self._played["tickets"]
        lists = played.result()
        length = mean(listed for listed, _ in lists)
        share = mean(false / max(listed, 1) for listed, false in lists)
        say(
            f"\n{len(lists)} weekly ticket lists of {length:.1f} streams:"
            f" {share:.3f} of a list false."
        )
        held = length > 0 and share <= FALSE_DISCOVERIES
        return Aim(f"ticket lists: {share:.3f} false, at most {FALSE_DISCOVERIES:.2f}", held)


def say(text: str) -> None:
    """A line of the report."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def report(aims: Sequence[Aim]) -> int:
    """Print the aims; the exit code."""
    say("\n### Aims\n")
    for aim in aims:
        say(f"- {'held' if aim.held else 'MISSED'}: {aim.text}")
    return int(not all(aim.held for aim in aims))


def main() -> int:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="smaller and shorter worlds")
    parser.add_argument("--limits", action="store_true", help="only what TPR and FPR are not")
    parser.add_argument("--workers", type=int, default=min(os.cpu_count() or 1, 4))
    chosen = parser.parse_args()
    began = time.monotonic()
    say(f"Seed {chosen.seed}{', quick' if chosen.quick else ''}")
    with ProcessPoolExecutor(chosen.workers) as pool:
        sizes, sections = QUICK if chosen.quick else Sizes(), LIMITS if chosen.limits else SECTIONS
        missed = report(Bench(pool, sizes, chosen.seed, tuple(sections)).run())
    sys.stderr.write(f"{time.monotonic() - began:.0f} seconds\n")
    return 0 if chosen.quick else missed


if __name__ == "__main__":
    sys.exit(main())
