"""What the privacy guard costs: what it hides, how long it holds back, its share of an evaluation.

Run it by ``make bench FOR=guard``. The first two tables say it for every rule that a release block
could be made by; the shipped one is the weakest that leaves the attacker of the tests nothing.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median

from common import Report, settings_at

# isort: split
import numpy as np
import pytest
from adversary.rules import ruled
from adversary.worlds import OTHER, START, World
from census import EXAMPLES as FILES
from census import History
from guarded import Guarded, census_world, demo_world, new_store, settings_for, slices_world

from monitor.core.privacy.bands import Precision
from monitor.core.privacy.pooling import MergeMap
from monitor.core.publish import contract_tables, rows
from monitor.core.publish.snapshot import Period, Snapshot, WindowTable
from monitor.core.time import DAY, HOUR, MINUTE, WINDOWS
from monitor.demo.demo_run import demo_settings
from monitor.evaluate import evaluator
from monitor.evaluate.blocks.units import Gate
from monitor.evaluate.publish.publisher import Publisher
from monitor.settings import Settings

SEED = 7
CANDIDATES = {
    "decisions; labels per route": "decisions",
    "decisions per route; labels per route": "routes",
    "decisions; labels per route and value": "values",
    "both per route, labels per value": "routes+values",
}
"""Rules by what each cell needs none of, or k; the first is the shipped one."""

FLOWS = (50, 200, 1_000)
WEEKS = 5
LOOKS = 7 * HOUR + 25 * MINUTE
"""Looked at so often: at all hours of the day, and all minutes of an hour."""
EXAMPLE_LOOKS = 96
"""An example is looked at so often until its end. What is shown of intersections then depends on
where blocks happened to close: looked at every hour, the busy census shows 43 % instead of 60 %."""

GRID = (25, 40)
"""Values of two attributes: 1,000 slices of both, 65 of one, and the total."""

SMALLEST = Precision(11).smallest
PER_CELL = 100  # decisions a day
TURNS = 6


# What stays published.


@dataclass(frozen=True)
class Published:
    """Rates of one group-by over all windows, of the values that the settings list.

    Attributes:
        group_by: its name.
        shown: with a number.
        coded: with a bound instead.
        hidden: neither.
        slices: slice x window pairs.
        any: those with any of it.
        large: those with 2 k - 1 decisions: no rate is shown below, whatever blocks are made.
    """

    group_by: str
    shown: int
    coded: int
    hidden: int
    slices: int
    any: int
    large: int

    @property
    def shares(self) -> tuple[float, ...]:
        """With a number, coded, both; then pairs with any of it, and that could have any."""
        every = self.shown + self.coded + self.hidden
        parts = (self.shown, self.coded, self.shown + self.coded)
        pairs = (self.any / self.slices, self.large / self.slices)
        return (*(part / every for part in parts), *pairs)


def published(world: World, snapshot: Snapshot) -> list[Published]:
    """What of a Snapshot is shown, by group-by; the last one is all of them."""
    (contract,) = snapshot.contracts
    names = [group.group_by for group in contract.windows[0].groups]
    found = [_published(world, name, contract.windows) for name in names]
    counted = [f.name for f in fields(Published)][1:]
    return [*found, Published("all", *(sum(getattr(p, n) for p in found) for n in counted))]


def _published(world: World, name: str, windows: Sequence[WindowTable]) -> Published:
    shown = coded = hidden = slices = any_of_it = large = 0
    for window in windows:
        (table,) = (group for group in window.groups if group.group_by == name)
        listed = [row for row in table.rows if OTHER not in row.slice]
        sizes = _sizes(world, name, WINDOWS[window.window].length)
        slices += len(listed)
        large += sum(n >= SMALLEST for text, n in sizes.items() if OTHER not in text)
        for row in listed:
            values = [rate.value is not None for rate in row.rates.values()]
            any_of_it += bool(values)
            shown += sum(values)
            coded += len(values) - sum(values)
            hidden += len(row.states) - len(values)
    return Published(name, shown, coded, hidden, slices, any_of_it, large)


def _sizes(world: World, name: str, length: int) -> Counter[str]:
    """Decisions of every slice within a window's length of the end."""
    recent = world.atom[world.at >= world.end - length]
    chosen = [i for i, one in enumerate(world.names) if one in name.split("+")]
    slices = [",".join(atom[i] for i in chosen) for atom in world.atoms]
    sizes: Counter[str] = Counter()
    for atom, n in enumerate(np.bincount(recent, minlength=len(slices)).tolist()):
        sizes[slices[atom]] += n
    return sizes


def utility(example: str, rule: str) -> list[Published]:
    """An example under a rule, at its last instant."""
    with tempfile.TemporaryDirectory() as name, ruled(rule):
        world, settings = EXAMPLES[example](new_store(Path(name)))
        site = Guarded(world, settings)
        for _, snapshot in site.snapshots((world.end - START) // EXAMPLE_LOOKS):
            newest = snapshot
        site.close()
    return published(world, newest)


def _demo(url: str) -> tuple[World, Settings]:
    return demo_world(7, SEED), demo_settings("127.0.0.1:9092", url, 0)


def _census(url: str, spread: str, days: int) -> tuple[World, Settings]:
    frame = History(spread, audit=0.2).frame
    return census_world(frame, days), settings_at(url, FILES / "census.toml")


EXAMPLES: dict[str, Callable[[str], tuple[World, Settings]]] = {
    "demo, 20,000 decisions a day": _demo,
    "census, 7,460 a day": partial(_census, spread="28d", days=28),
    "census, 190 a day": partial(_census, spread="years", days=63),
}


# How old it is.


@dataclass
class Ages:
    """Hours from the end of what is shown to the end of what is known, at every look."""

    shortest: list[float] = field(default_factory=list)
    longer: list[float] = field(default_factory=list)
    labelled: list[float] = field(default_factory=list)

    def look(self, snapshot: Snapshot) -> None:
        tables = {w.window: w.groups[0] for w in snapshot.contracts[0].windows}
        self.shortest.append(_age(snapshot.watermark, tables["1h"].decisions))
        self.longer.append(_age(snapshot.watermark, tables["7d"].decisions))
        self.labelled.append(_age(snapshot.frontier, tables["7d"].labelled))


def _age(known: int | None, period: Period | None) -> float:
    return float("nan") if known is None or period is None else (known - period.end) / HOUR


def ages(flow: int, rule: str) -> Ages:
    """Four slices of so many decisions a day, looked at from the second week on."""
    world = slices_world({(f"v{i}",): flow for i in range(4)}, 7 * WEEKS, SEED)
    found = Ages()
    with tempfile.TemporaryDirectory() as name, ruled(rule):
        folder = Path(name)
        settings = settings_for(new_store(folder), folder, world.attributes, "a")
        site = Guarded(world, settings)
        for now, snapshot in site.snapshots(LOOKS):
            if now >= START + 7 * DAY:
                found.look(snapshot)
        site.close()
    return found


def worded(hours: Sequence[float]) -> str:
    """Median and worst; how often there is nothing yet."""
    known = [x for x in hours if not np.isnan(x)]
    if not known:
        return "never"
    never = f" ({1 - len(known) / len(hours):.0%} none)" if len(known) < len(hours) else ""
    middle = float(np.median([np.inf if np.isnan(x) else x for x in hours]))
    return f"{_time(middle)} / {_time(max(known))}{never}"


def _time(hours: float) -> str:
    if np.isinf(hours):
        return "-"
    if hours < 1:
        return f"{60 * hours:.0f} min"
    return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.1f} d"


# What it costs.


class Meter:
    """CPU seconds within the guard's own functions; those within another of them count once."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._inside = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count what is called meanwhile."""
        with pytest.MonkeyPatch.context() as patch:
            for part, owner, name in GUARD:
                patch.setattr(owner, name, self._timed(part, getattr(owner, name)))
            yield

    def taken(self) -> dict[str, float]:
        """Milliseconds by part since the last call."""
        spent, self.spent = self.spent, {}
        return {part: 1e3 * seconds for part, seconds in spent.items()}

    def _timed(self, part: str, call: Callable[..., object]) -> Callable[..., object]:
        def timing(*arguments: object, **named: object) -> object:
            if self._inside:
                return call(*arguments, **named)
            self._inside, began = True, time.process_time()
            try:
                return call(*arguments, **named)
            finally:
                self._inside = False
                self.spent[part] = self.spent.get(part, 0) + time.process_time() - began

        return timing


BLOCKS, POOLING, SUPPRESSION = "blocks", "pooling", "suppression"
GUARD: tuple[tuple[str, object, str], ...] = (
    (BLOCKS, evaluator, "close_panes"),
    (BLOCKS, Publisher, "shown"),
    (BLOCKS, Gate, "split"),
    (BLOCKS, evaluator, "release_late_counts"),
    (POOLING, MergeMap, "apply"),
    (SUPPRESSION, contract_tables, "opened"),
    *((SUPPRESSION, rows, name) for name in ("show", "show_gaps", "code_third_route")),
)
"""What the guard consists of, where it is called."""


class Bench:
    """A thousand slices, and what each cycle costs."""

    def __init__(self, folder: Path) -> None:
        a, b = ([f"{name}{i}" for i in range(n)] for name, n in zip("ab", GRID, strict=True))
        world = slices_world(dict.fromkeys(product(a, b), PER_CELL), 3, SEED)
        settings = settings_for(new_store(folder), folder, world.attributes, "a", "b", "a+b")
        self._site = Guarded(world, settings)
        self._meter = Meter()
        self._now = START

    def cycle(self, step: int) -> dict[str, float]:
        """Milliseconds by part; ``all`` is the whole cycle, ``tables`` how many were made."""
        self._now += step
        self._site.feed(self._now)
        made = MadeTables()
        gc.collect()
        with made.counting(), self._meter.watching():
            began = time.process_time()
            assert self._site.evaluator.cycle()
            whole = 1e3 * (time.process_time() - began)
        return {"all": whole, "tables": made.count} | self._meter.taken()

    def idle(self) -> dict[str, float]:
        """A cycle with nothing new."""
        with self._meter.watching():
            began = time.process_time()
            assert self._site.evaluator.cycle()
            whole = 1e3 * (time.process_time() - began)
        return {"all": whole, "tables": 0} | self._meter.taken()

    def close(self) -> None:
        self._site.close()


class MadeTables:
    """How many tables of group-bys were made anew."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        whole = contract_tables.Builder.group

        def counted(*arguments: object) -> object:
            self.count += 1
            return whole(*arguments)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(contract_tables.Builder, "group", counted)
            yield


def cost(report: Report) -> None:
    """The rows of the third table."""
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name))
        bench.cycle(DAY - HOUR)
        _row(report, "first merge maps, after a day", [bench.cycle(HOUR)])
        bench.cycle(DAY)
        _row(report, "5-minute edge", [bench.cycle(5 * MINUTE) for _ in range(TURNS)])
        bench.cycle(HOUR - TURNS * 5 * MINUTE)
        hours = [bench.cycle(HOUR) for _ in range(2 * TURNS)]
        _row(report, "hour edge", hours)
        _row(report, "hour edge, most tables made", [max(hours, key=lambda one: one["tables"])])
        _row(report, "nothing new", [bench.idle() for _ in range(TURNS)])
        bench.close()


def _row(report: Report, what: str, cycles: Sequence[dict[str, float]]) -> None:
    parts = (BLOCKS, POOLING, SUPPRESSION)
    by_part = [median(one.get(part, 0) for one in cycles) for part in parts]
    guard = median(sum(one.get(part, 0) for part in parts) for one in cycles)
    tables = median(one["tables"] for one in cycles)
    whole = median(one["all"] for one in cycles)
    report.add(what, f"{tables:.0f}", *(f"{x:.1f}" for x in (*by_part, guard, whole)))


# All of it.


def main() -> None:
    """Print the tables."""
    with ProcessPoolExecutor(2) as workers:
        pairs = list(product(CANDIDATES, FLOWS))
        old = [workers.submit(ages, flow, CANDIDATES[rule]) for rule, flow in pairs]
        examples = list(product(CANDIDATES, EXAMPLES))
        left = [workers.submit(utility, name, CANDIDATES[rule]) for rule, name in examples]
        report = Report(
            f"Age of what is shown: four slices, {WEEKS - 1} weeks, 60 % auto_serve, 5 % audits;"
            " median / worst",
            *("a block's cells have 0 or k", "decisions a day each", "1h window"),
            *("24h, 7d, 28d", "labelled"),
        )
        for (rule, flow), one in zip(pairs, old, strict=True):
            found = one.result()
            hours = (found.shortest, found.longer, found.labelled)
            report.add(rule, f"{flow:,}", *map(worded, hours))
        report.close()
        report = Report(
            "Rates of slices that are published, over all windows",
            *("a block's cells have 0 or k", "example", "group-by", "number", "coded", "both"),
            *("slices with any", "with 2 k - 1 decisions"),
        )
        for (rule, example), other in zip(examples, left, strict=True):
            for part in other.result():
                report.add(rule, example, part.group_by, *(f"{x:.0%}" for x in part.shares))
        report.close()
    a, b = GRID
    report = Report(
        f"CPU of an evaluation with {a * b + a + b + 1:,} slices (ms, medians)",
        *("cycle", "tables made", BLOCKS, POOLING, SUPPRESSION, "guard", "whole evaluation"),
    )
    cost(report)
    report.close()


if __name__ == "__main__":
    main()
