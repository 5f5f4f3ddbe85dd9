"""What one cohort costs the detectors: ten thousand page streams, and what advises beside them.

Run it by ``make bench FOR=cohort`` on a machine that does nothing else. Every hour most of the
slices have some decisions, an intersection few: as where many values are declared.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests/support" / room) for room in ("", "drivers", "worlds", "oracles")]

import numpy as np  # noqa: E402
from fleet_cells import MONDAY, Cells, Traffic, contract, limits  # noqa: E402

from monitor.core.contract import GroupBy  # noqa: E402
from monitor.core.counts.cells import atom_text  # noqa: E402
from monitor.core.counts.coding import Attribute, Coding  # noqa: E402
from monitor.detection.advisory.advisors import Advisors  # noqa: E402
from monitor.detection.pages.declared import DetectorSettings  # noqa: E402
from monitor.detection.pages.page_tests import HourCohort, PageTests  # noqa: E402

A, B = 50, 33
DAYS = 4
AIM_MS = 100.0
SEED = 7


def main() -> int:
    """Advance by the cohorts of four days; the first day, which learns everything, is left out."""
    values = {"a": [f"a{i}" for i in range(A)], "b": [f"b{i}" for i in range(B)]}
    coding = Coding(
        tuple(Attribute(name, tuple(listed)) for name, listed in values.items()),
        (0.5,),
        (1.0, 0.2, 0.05, 0.02),
    )
    watched = contract(GroupBy(("a",)), GroupBy(("b",)), GroupBy(("a", "b")), of=limits())
    cells = Cells(tuple(atom_text({"a": x, "b": y}) for x in values["a"] for y in values["b"]))
    settings = DetectorSettings([watched], coding)
    fleet, advice = PageTests.start(settings), Advisors.start(settings)
    rng = np.random.default_rng(SEED)
    paged, advised = [], []
    for hour in range(MONDAY, MONDAY + 24 * DAYS):
        counts = cells.hour(rng, Traffic(hourly=rng.gamma(0.5, 4.0, len(cells.atoms))))
        began = time.perf_counter()
        (advance,) = fleet.advance([HourCohort(hour, counts)], cells.index)
        crossed = time.perf_counter()
        advice.advance(hour, advance.use_cases, cells.index, advance.listed)
        if hour >= MONDAY + 24:
            paged.append(1e3 * (crossed - began))
            advised.append(1e3 * (time.perf_counter() - crossed))
    say(f"{len(fleet.streams):,} page streams of {A * B + A + B:,} slices, {len(paged)} cohorts")
    for name, took in (("pages", paged), ("what advises", advised)):
        say(f"- {name}: median {median(took):.0f} ms, longest {max(took):.0f} ms")
    held = median(paged) < AIM_MS
    say(f"- {'held' if held else 'MISSED'}: pages in under {AIM_MS:.0f} ms")
    return 0 if held else 1


def say(text: str) -> None:
    """A line of the report."""
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
