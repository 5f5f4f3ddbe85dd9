"""Which slices show their labelled rates, of those with enough labels, and how old they are.

Run it by ``make bench FOR=shown``. A slice counts for TPR if it has at least 50 labels of replies
that were ready in the last 28 days, for FPR if it has 30 of others. A guard that hid nothing but
slices below k, and so could be subtracted, would show them all.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

from common import Report

# isort: split
import numpy as np
from adversary.worlds import OTHER, World
from bench_guard import EXAMPLES
from guarded import Guarded, new_store, settings_for, slices_world
from releasing import Kept, kept_of

from monitor.core.contract import Metric
from monitor.core.publish.snapshot import GroupTable, Period, Snapshot
from monitor.core.time import DAY
from monitor.settings import Settings

SEED = 3
WEEKS = 6
SHARES = (0.38, 0.26, 0.18, 0.12, 0.06)
"""Of the values of each attribute of a shop."""
NEEDED = {Metric.TPR: 50, Metric.FPR: 30}
WINDOW = "28d"
SHOPS = (300, 3_000)
CENSUS = ("census, 7,460 a day", "census, 190 a day")


@dataclass(frozen=True)
class Look:
    """A slice and a labelled rate that it has labels for.

    Attributes:
        attributes: how many its group-by has.
        shown: whether the rate is published.
        used: share of its labels of the last 28 days that are in it.
        age: days from the end of what is shown to that of what is known.
        why: what hides it; empty where it is shown.
    """

    attributes: int
    shown: bool
    used: float
    age: float
    why: str


def looks(world: World, settings: Settings) -> list[Look]:
    """All that could be shown in the end, of a world that is read at once: as it is live."""
    site = Guarded(world, settings)
    site.feed(world.end)
    snapshot = site.publish()
    kept = kept_of(site.engine)
    site.close()
    (contract,) = snapshot.contracts
    (window,) = (one for one in contract.windows if one.window == WINDOW)
    return [look for group in window.groups for look in _looks(world, snapshot, group, kept)]


def _looks(world: World, snapshot: Snapshot, group: GroupTable, kept: Kept) -> Iterator[Look]:
    assert snapshot.frontier is not None
    names = group.group_by.split("+")
    at = [world.names.index(name) for name in names]
    rows = {row.slice: row for row in group.rows}
    texts = [
        ",".join(f"{n}={atom[i]}" for n, i in zip(names, at, strict=True)) for atom in world.atoms
    ]
    label_of = np.array(texts)[world.atom[world.says]]
    when, first = world.at[world.says], world.labelled == 1
    recent = first & (when >= snapshot.frontier - 28 * DAY) & (when < snapshot.frontier)
    for text in sorted({text for text in texts if OTHER not in text}):
        mine = label_of == text
        ready = int(world.ready[mine & recent].sum())
        have = {Metric.TPR: ready, Metric.FPR: int((mine & recent).sum()) - ready}
        for metric, needed in NEEDED.items():
            if have[metric] >= needed:
                shown = text in rows and metric in rows[text].rates
                used = (mine & first & _inside(when, group.labelled)).sum() / (mine & recent).sum()
                end = group.labelled.end if group.labelled else 0
                why = "" if shown else _why(text, group, kept)
                age = (snapshot.frontier - end) / DAY
                yield Look(len(names), shown, min(float(used), 1), age, why)


def _why(text: str, group: GroupTable, kept: Kept) -> str:
    """What hides a labelled rate."""
    values = dict(part.split("=") for part in text.split(","))
    named, labelled = (
        all(value in maps[f"replies/{group.group_by}"][name] for name, value in values.items())
        for maps in (kept.maps, kept.label_maps)
    )
    if not named:
        return "pooled"
    if not labelled:
        return "its labels are pooled"
    return "labels of a route, or its support, are too few" if group.labelled else "no block yet"


def _inside(when: np.ndarray[tuple[int], np.dtype[np.int64]], period: Period | None) -> object:
    return (when >= period.start) & (when < period.end) if period else np.zeros(len(when), bool)


def shop(flow: int, *, pairs: bool) -> list[Look]:
    """Three attributes of five values each, with so many decisions a day in all."""
    flows = {
        tuple(f"{name}{i}" for name, i in zip("abc", cell, strict=True)): flow
        * float(np.prod([SHARES[i] for i in cell]))
        for cell in product(range(len(SHARES)), repeat=3)
    }
    world = slices_world(flows, 7 * WEEKS, SEED)
    both = ["+".join(pair) for pair in combinations("abc", 2)] if pairs else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = new_store(folder)
        return looks(world, settings_for(url, folder, world.attributes, *"abc", *both))


def census(example: str) -> list[Look]:
    """Both attributes, and both together."""
    with tempfile.TemporaryDirectory() as name:
        return looks(*EXAMPLES[example](new_store(Path(name))))


def main() -> None:
    """Print the table."""
    with ProcessPoolExecutor(2) as workers:
        made = [(f"shop, {n:,} a day", workers.submit(shop, n, pairs=False)) for n in SHOPS]
        made += [(f"shop, {n:,} a day, pairs", workers.submit(shop, n, pairs=True)) for n in SHOPS]
        made += [(example, workers.submit(census, example)) for example in CENSUS]
        report = Report(
            "Labelled rates that are shown, of slices with 50 positives or 30 negatives; their age",
            *("example", "attributes", "shown", "of", "labels used", "days, median / worst"),
            "hidden because",
        )
        for name, future in made:
            found = future.result()
            for attributes in sorted({look.attributes for look in found}):
                some = [look for look in found if look.attributes == attributes]
                report.add(name, f"{attributes}", *_cells(some))
        report.close()


def _cells(found: Sequence[Look]) -> tuple[str, ...]:
    shown = [look for look in found if look.shown]
    used = sum(look.used for look in shown) / len(found)
    ages = [look.age for look in shown]
    age = f"{np.median(ages):.1f} / {max(ages):.1f}" if ages else "-"
    reasons = Counter(look.why for look in found if not look.shown)
    why = ", ".join(f"{reason} {n}" for reason, n in reasons.most_common()) or "-"
    return f"{len(shown)}", f"{len(found)}", f"{used:.0%}", age, why


if __name__ == "__main__":
    main()
