"""Which slices show their labelled rates, of those with enough labels, and how old they are.

Run it by ``make bench FOR=shown``; ``ARGS="300 census"``: rows that begin with one of these words.
A slice counts for TPR if it has at least 50 labels of replies that were ready in the last 28 days,
for FPR if it has 30 of others. "Plain k" is what a guard would show that hid nothing but what is
below k, and so could be subtracted: of the very last 28 days, slices with k labels in each route
and enough effective support.

What is shown depends on when one looks: a block of labels that has waited for two weeks may close
tomorrow, or be given up. So all is looked at several times, and of the smallest example there are
several worlds.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from pathlib import Path

from common import Report

# isort: split
import numpy as np
from adversary.worlds import OTHER, START, Ints, World
from bench_guard import EXAMPLES
from guarded import Guarded, new_store, settings_for, slices_world
from monitor.core.privacy.guards import each_labelled, route_labels
from releasing import Kept, kept_of

from monitor.core.contract import Metric
from monitor.core.counts.cells import COUNTERS, Route, Stratum
from monitor.core.counts.cells import Counter as Column
from monitor.core.counts.rollup import SliceCounts
from monitor.core.privacy.bands import Precision
from monitor.core.publish.snapshot import GroupTable, Period, Snapshot
from monitor.core.rates.estimates import measure
from monitor.core.time import DAY, HOUR
from monitor.settings import Settings

SEEDS = (3, 4, 5)
"""Of the worlds of the smallest shop; the others have the first one."""
WEEKS = 8
LOOKS = 8
"""From the fourth week's end to the last instant, equally far apart."""
SHARES = (0.38, 0.26, 0.18, 0.12, 0.06)
"""Of the values of each attribute of a shop."""
NEEDED = {Metric.TPR: 50, Metric.FPR: 30}
WINDOW = "28d"
SHOPS = (300, 3_000)
CENSUS = ("census, 7,460 a day", "census, 190 a day")


@dataclass(frozen=True)
class Look:
    """A slice and a labelled rate that it has labels for, at one instant.

    Attributes:
        attributes: how many its group-by has.
        shown: whether the rate is published.
        plain: whether a guard would show it that hides nothing but what is below k.
        used: share of its labels of the last 28 days that are in it.
        age: days from the end of what is shown to that of what is known.
        why: what hides it; empty where it is shown.
    """

    attributes: int
    shown: bool
    plain: bool
    used: float
    age: float
    why: str


def looks(world: World, settings: Settings) -> list[list[Look]]:
    """All that could be shown, each time that one looks."""
    site, found = Guarded(world, settings), []
    for now in instants(world):
        site.feed(now)
        snapshot = site.publish()
        (contract,) = snapshot.contracts
        (window,) = (one for one in contract.windows if one.window == WINDOW)
        kept = kept_of(site.engine)
        found.append(
            [
                look
                for group in window.groups
                for look in _looks(Labelled.of(world, snapshot, group), settings, group, kept)
            ]
        )
    site.close()
    return found


def instants(world: World) -> list[int]:
    """When one looks: on the hour. A world that ends sooner is looked at in the end alone."""
    first = START + 28 * DAY
    if world.end <= first:
        return [world.end]
    return [at - at % HOUR for at in np.linspace(first, world.end, LOOKS).astype(np.int64).tolist()]


@dataclass(frozen=True)
class Labelled:
    """First labels of a world as a group-by sees them, by column.

    Attributes:
        world: of all.
        text: slice of each decision.
        at: when each label's decision was made.
        slices: of each label.
        recent: whether its decision is of the last 28 days that are known.
        span: these days.
    """

    world: World
    text: np.ndarray[tuple[int], np.dtype[np.str_]]
    at: Ints
    slices: np.ndarray[tuple[int], np.dtype[np.str_]]
    recent: np.ndarray[tuple[int], np.dtype[np.bool_]]
    span: Period

    @classmethod
    def of(cls, world: World, snapshot: Snapshot, group: GroupTable) -> Labelled:
        """The labels at a Snapshot."""
        assert snapshot.frontier is not None
        names = group.group_by.split("+")
        place = [world.names.index(name) for name in names]
        texts = [
            ",".join(f"{n}={atom[i]}" for n, i in zip(names, place, strict=True))
            for atom in world.atoms
        ]
        text, at = np.array(texts)[world.atom], world.at[world.says]
        span = Period(snapshot.frontier - 28 * DAY, snapshot.frontier)
        first = world.labelled == 1
        return cls(world, text, at, text[world.says], first & _inside(at, span), span)

    def ready(self, text: str) -> int:
        """Labels of a slice that say so."""
        return int(self.world.ready[self.recent & (self.slices == text)].sum())

    def count(self, text: str, period: Period | None = None) -> int:
        """Labels of a slice in these days, or in a period."""
        first = self.world.labelled == 1
        chosen = self.recent if period is None else first & _inside(self.at, period)
        return int((chosen & (self.slices == text)).sum())

    def counts(self, texts: Sequence[str]) -> SliceCounts:
        """Decisions and labels of these days, by slice and stratum."""
        world, place = self.world, {text: i for i, text in enumerate(texts)}
        kinds = np.stack([world.route, world.band, world.rate])
        known, column = np.unique(kinds, axis=1, return_inverse=True)
        codes = [
            Stratum(Route(route), band, rate, evidence_passed=route != Route.BLOCKED_BY_EVIDENCE)
            for route, band, rate in known.T.tolist()
        ]
        strata = np.array([one.code for one in codes], np.int64)
        order = np.argsort(strata)
        strata, column = strata[order], np.argsort(order)[column.ravel()]
        row = np.array([place.get(text, -1) for text in self.text.tolist()], np.int64)
        values = np.zeros((len(texts), len(strata), COUNTERS), np.int64)
        mine = (row >= 0) & _inside(world.at, self.span)
        np.add.at(values[:, :, Column.N], (row[mine], column[mine]), 1)
        says = world.says[self.recent & (row[world.says] >= 0)]
        np.add.at(values[:, :, Column.Q], (row[says], column[says]), 1)
        np.add.at(values[:, :, Column.LABELLED], (row[says], column[says]), 1)
        ready = world.says[self.recent & (row[world.says] >= 0) & (world.ready == 1)]
        np.add.at(values[:, :, Column.READY], (row[ready], column[ready]), 1)
        return SliceCounts(tuple(texts), strata, values)


def _looks(known: Labelled, settings: Settings, group: GroupTable, kept: Kept) -> Iterator[Look]:
    texts = sorted({text for text in known.text.tolist() if OTHER not in text})
    plain = _plain(known.counts(texts), settings)
    rows = {row.slice: row for row in group.rows}
    for place, text in enumerate(texts):
        ready, labels = known.ready(text), known.count(text)
        have = {Metric.TPR: ready, Metric.FPR: labels - ready}
        for metric, needed in NEEDED.items():
            if have[metric] < needed:
                continue
            shown = text in rows and metric in rows[text].rates
            end = group.labelled.end if group.labelled else 0
            yield Look(
                attributes=len(group.group_by.split("+")),
                shown=shown,
                plain=plain[metric][place],
                used=min(known.count(text, group.labelled) / labels, 1) if group.labelled else 0,
                age=(known.span.end - end) / DAY,
                why="" if shown else _why(text, group, kept),
            )


def _plain(counts: SliceCounts, settings: Settings) -> dict[Metric, list[bool]]:
    """Whether each slice is k or more by itself."""
    (contract,) = settings.contracts
    enough = each_labelled(route_labels(counts), contract.k)
    smallest = Precision(contract.k).smallest
    return {
        metric: (enough & (measure(counts, settings.coding, metric).support >= smallest)).tolist()
        for metric in NEEDED
    }


def _why(text: str, group: GroupTable, kept: Kept) -> str:
    """What hides a labelled rate."""
    values = dict(part.split("=") for part in text.split(","))
    (family,) = (name for name in kept.maps if name.partition("/")[2] == group.group_by)
    named, labelled = (
        all(value in maps[family][name] for name, value in values.items())
        for maps in (kept.maps, kept.label_maps)
    )
    if not named:
        return "pooled"
    if not labelled:
        return "its labels are pooled"
    return "labels of a route, or its support, are too few" if group.labelled else "no block yet"


def _inside(when: Ints, period: Period) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray((when >= period.start) & (when < period.end), bool)


def shop(flow: int, *, pairs: bool, seeds: Sequence[int] = SEEDS[:1]) -> list[list[Look]]:
    """Three attributes of five values each, with so many decisions a day in all."""
    flows = {
        tuple(f"{name}{i}" for name, i in zip("abc", cell, strict=True)): flow
        * float(np.prod([SHARES[i] for i in cell]))
        for cell in product(range(len(SHARES)), repeat=3)
    }
    both = ["+".join(pair) for pair in combinations("abc", 2)] if pairs else []
    return [one for seed in seeds for one in _shop(flows, seed, both)]


def _shop(flows: dict[tuple[str, ...], float], seed: int, both: Sequence[str]) -> list[list[Look]]:
    world = slices_world(flows, 7 * WEEKS, seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = new_store(folder)
        return looks(world, settings_for(url, folder, world.attributes, *"abc", *both))


def census(example: str) -> list[list[Look]]:
    """Both attributes, and both together."""
    with tempfile.TemporaryDirectory() as name:
        return looks(*EXAMPLES[example](new_store(Path(name))))


ROWS: Mapping[str, Callable[[], list[list[Look]]]] = {
    "300 a day, shop": partial(shop, 300, pairs=False, seeds=SEEDS),
    "300 a day, shop with pairs": partial(shop, 300, pairs=True),
    "3,000 a day, shop": partial(shop, 3_000, pairs=False),
    "3,000 a day, shop with pairs": partial(shop, 3_000, pairs=True),
} | {example: partial(census, example) for example in CENSUS}


def main(*chosen: str) -> None:
    """Print the table."""
    report = Report(
        "Labelled rates that are shown, of slices with 50 positives or 30 negatives, on average",
        *("example", "attributes", "shown", "least", "most", "plain k", "of", "labels used"),
        *("days, median", "worst", "hidden because"),
    )
    for name, row in ROWS.items():
        if not chosen or name.startswith(chosen):
            found = row()
            for attributes in sorted({look.attributes for one in found for look in one}):
                some = [[look for look in one if look.attributes == attributes] for one in found]
                report.add(name, attributes, *_cells(some))
    report.close()


def _cells(turns: Sequence[Sequence[Look]]) -> tuple[str, ...]:
    found = [look for one in turns for look in one]
    shown = [look for look in found if look.shown]
    each = [sum(look.shown for look in one) for one in turns]
    plain = sum(look.plain for look in found) / len(turns)
    used = sum(look.used for look in shown) / len(found)
    ages = [look.age for look in shown]
    age = (f"{np.median(ages):.1f}", f"{max(ages):.1f}") if ages else ("-", "-")
    reasons = Counter(look.why for look in found if not look.shown)
    why = ", ".join(f"{reason} {n / len(turns):.1f}" for reason, n in reasons.most_common()) or "-"
    mean, of = np.mean(each), len(found) / len(turns)
    counts = (f"{mean:.1f}", f"{min(each)}", f"{max(each)}", f"{plain:.1f}", f"{of:.1f}")
    return (*counts, f"{used:.0%}", *age, why)


if __name__ == "__main__":
    main(*sys.argv[1:])
