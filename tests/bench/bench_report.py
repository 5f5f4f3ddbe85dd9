"""What the weekly report costs: a year of stored weeks, 1,000 slices, all formats, one process.

Run it by ``make bench FOR=report``. The goal is 30 s and 1 GB.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from common import QUICKSTART, Report

# isort: split
import numpy as np
from migrated import bring_to_head
from released_rows import WEEK, released, rows_of
from slice_tables import simulate

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.publish.release import Release, Revision, encode
from monitor.core.publish.snapshot import GroupTable, SliceRow
from monitor.core.time import HOUR
from monitor.store import database
from monitor.store.evaluator.weekly_releases import write_revisions

WEEKS, FIRST, SECOND = 52, 40, 24
DECISIONS, AUDIT = 3_000, 0.05
FORMATS = ("html", "json", "html,json,csv,md")
CODING = Coding((), audit_rates=(*[1.0] * 8, AUDIT))
SHARES = np.array([[[0, 0.2], [0.05, 0], [0.02, 0]], [[0, 0.15], [0.3, 0], [0.28, 0]]])


def rows(names: list[str], decisions: int) -> tuple[SliceRow, ...]:
    """Rows of so many slices, by the code of the tables."""
    counts = simulate(np.random.default_rng(len(names)), SHARES, decisions, len(names), AUDIT)
    named = SliceCounts(tuple(sorted(names)), counts.strata, counts.values)
    return rows_of(named, CODING, reference=COMPLEMENT)


def week() -> Release:
    """A week of 1,024 slices of three group-bys."""
    first, second = (
        [f"{name}=v{at:02}" for at in range(size)] for name, size in (("a", FIRST), ("b", SECOND))
    )
    pairs = [f"{one},{other}" for one in first for other in second]
    (total,) = rows(["a=all"], DECISIONS * len(pairs))
    made = released([], total)
    (table,) = made.contracts
    (window,) = table.windows
    period = window.decisions
    groups = tuple(
        GroupTable(name, rows(found, size), (), period, period)
        for name, found, size in (
            ("a", first, DECISIONS * SECOND),
            ("b", second, DECISIONS * FIRST),
            ("a+b", pairs, DECISIONS),
        )
    )
    return replace(made, contracts=(replace(table, windows=(replace(window, groups=groups),)),))


def store(url: str) -> int:
    """A database with a year of such weeks; returns the bytes of one Release."""
    made, at = week(), WEEK
    bring_to_head(url)
    engine = database.create_engine(url)
    found = []
    for _ in range(WEEKS):
        one = replace(made, week=at.name, start=at.start, end=at.end)
        found.append(Revision(at.name, 1, at.end + HOUR, encode(one)))
        at = at.before
    with database.writing(engine) as connection:
        write_revisions(connection, found, WEEK.end)
    engine.dispose()
    return len(found[0].body)


def main() -> None:
    """Measure, and print the table."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/store.db"
        size = store(url)
        report = Report(
            f"a report of {FIRST * SECOND + FIRST + SECOND} slices and a year of weeks",
            *("formats", "seconds", "of CPU", "largest memory, MB", "files, MB"),
        )
        settings = Path(folder) / "slicewatch.toml"
        settings.write_text(QUICKSTART.read_text())
        (Path(folder) / "slicewatch.key").write_bytes(bytes(range(32)))
        for formats in FORMATS:
            report.add(formats, *measured(settings, url, formats))
        report.close()
        print(f"a Release has {size / 1e6:.1f} MB")  # noqa: T201


def measured(settings: Path, url: str, formats: str) -> tuple[str, ...]:
    """One call of the command as cron makes it."""
    out = settings.parent / formats
    arguments = ("--week", WEEK.name, "--format", formats, "--out", str(out))
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "monitor", "report", *arguments, "-s", str(settings)],
        env={**os.environ, "SLICEWATCH__STORE__URL": url},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    sizes = {file.suffix[1:]: file.stat().st_size / 1e6 for file in sorted(out.iterdir())}
    return (
        f"{took:.1f}",
        f"{after.ru_utime - before.ru_utime:.1f}",
        f"{after.ru_maxrss / 1024:.0f}",
        ", ".join(f"{name} {size:.2f}" for name, size in sizes.items()),
    )


if __name__ == "__main__":
    main()
