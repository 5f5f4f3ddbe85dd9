"""What closing blocks costs: an hour with 209 slices, and a back-fill of 28 days of 30 slices.

Run it by ``make bench FOR=blocks``. CPU seconds of the evaluator, in one thread. An hour is closed
in milliseconds unless a block of an intersection may end there, which of blocks that take long is
asked at four hours of a day: then exchanges are counted.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from statistics import median

from common import Report

# isort: split
import pytest
from adversary.worlds import START, World
from bench_guard import BLOCKS, Meter
from guarded import Guarded, new_store, settings_for, slices_world

from monitor.core.time import DAY, HOUR
from monitor.evaluate.publish.week_audit import WeekAudits

SEED = 7
HOURLY, BACKFILL = (10, 18), (4, 5)
"""Values of two attributes: with the total and the pairs, 209 slices and 30."""
PER_CELL = 100  # decisions a day


def crossed(values: tuple[int, int], days: int) -> World:
    """Every pair of values comes as often."""
    a, b = ([f"{name}{i}" for i in range(n)] for name, n in zip("ab", values, strict=True))
    return slices_world(dict.fromkeys(product(a, b), PER_CELL), days, SEED)


def site_of(world: World, folder: Path) -> Guarded:
    return Guarded(
        world, settings_for(new_store(folder), folder, world.attributes, "a", "b", "a+b")
    )


def hours(report: Report) -> None:
    """Each hour of a day, from the second on."""
    with tempfile.TemporaryDirectory() as name:
        site, meter, spent = site_of(crossed(HOURLY, 3), Path(name)), Meter(), []
        site.feed(START + 2 * DAY)
        assert site.evaluator.cycle()
        for hour in range(1, 25):
            site.feed(START + 2 * DAY + hour * HOUR)
            gc.collect()
            with meter.watching():
                assert site.evaluator.cycle()
            spent.append(meter.taken().get(BLOCKS, 0))
        site.close()
    report.add("209 slices, an hour is closed", f"{median(spent):.0f} ms", f"{max(spent):.0f} ms")


def backfill(report: Report) -> None:
    """All of it read before the first evaluation."""
    with tempfile.TemporaryDirectory() as name:
        world = crossed(BACKFILL, 28)
        site = site_of(world, Path(name))
        site.feed(world.end)
        meter, audit = Meter(), Spent()
        began = time.process_time()
        with meter.watching(), audit.watching(WeekAudits, "of"):
            assert site.evaluator.cycle()
        spent = time.process_time() - began
        site.close()
    blocks = meter.taken()[BLOCKS] / 1e3
    report.add("30 slices, 28 days at once", f"{spent:.1f} s", "-")
    report.add("of these the release of blocks", f"{blocks:.1f} s", "-")
    report.add("and the LP audit of weeks", f"{audit.seconds:.1f} s", "-")


class Spent:
    """CPU seconds within a method."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def watching(self, owner: type, name: str) -> Iterator[None]:
        """Count what is called meanwhile."""
        whole = getattr(owner, name)

        def timed(*arguments: object) -> object:
            began = time.process_time()
            try:
                return whole(*arguments)
            finally:
                self.seconds += time.process_time() - began

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, timed)
            yield


def main() -> None:
    """Print the table."""
    report = Report("CPU of the release of blocks", "what", "median, or all of it", "most")
    hours(report)
    backfill(report)
    report.close()


if __name__ == "__main__":
    main()
