"""What a soak holds from time to time, as a table, and what of it is not flat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """What is held at one moment."""

    hour: float
    resident: int
    descriptors: int
    used: int  # bytes of the database's pages that hold something
    free: int  # bytes of pages that wait to be used again
    log: int  # bytes of the write-ahead log before the checkpoint
    page: int  # bytes of a scrape
    keys: int  # nested parts the coder remembers
    cells: int  # cells the evaluator knows
    rows: dict[str, int]


def growing(samples: Sequence[Sample]) -> list[str]:
    """What is larger at the end of the second half than it ever was at its beginning.

    Everything rises and falls with retention, so the greatest of the last quarter is compared
    with the greatest of the quarter before, with a margin for chance.
    """
    quarter = len(samples) // 4
    before, after = samples[2 * quarter : 3 * quarter], samples[3 * quarter :]
    found = []
    for name, (of, share, slack) in (_FLAT | _tables(samples[-1])).items():
        was, now = max(map(of, before)), max(map(of, after))
        if now > was * (1 + share) + slack:
            found.append(f"{name}: at most {was:,}, then {now:,}")
    return found


Flat = tuple[Callable[[Sample], int], float, int]
"""What is looked at, and by which share and by how much more it may grow."""

_FLAT: dict[str, Flat] = {
    "resident memory": (lambda s: s.resident, 0.02, 1 << 20),
    "file descriptors": (lambda s: s.descriptors, 0, 1),  # a scrape that is being closed
    "database file": (lambda s: s.used + s.free, 0.05, 64 << 10),
    "pages in use": (lambda s: s.used, 0.05, 64 << 10),
    "write-ahead log": (lambda s: s.log, 0.05, 512 << 10),
    "scrape": (lambda s: s.page, 0.25, 1 << 10),  # what is suppressed comes and goes
    "coder keys": (lambda s: s.keys, 0.05, 20),
    "known cells": (lambda s: s.cells, 0.05, 20),
}


def _tables(sample: Sample) -> dict[str, Flat]:
    return {f"rows of {name}": (_rows_of(name), 0.05, 20) for name in sample.rows}


def _rows_of(table: str) -> Callable[[Sample], int]:
    return lambda sample: sample.rows[table]


_TABLES = (
    *("pending", "label_state", "double_label", "waiting_label"),
    *("delta", "counts", "calendar_table", "snapshot", "dead_letter"),
)
_COLUMNS = ("hour", "MB", "fds", "db kB", "free kB", "wal kB", "page kB", "keys", "cells", *_TABLES)


def header() -> str:
    return "  ".join(f"{name[:8]:>8}" for name in _COLUMNS)


def row(sample: Sample) -> str:
    sizes = (sample.used, sample.free, sample.log, sample.page)
    numbers = [f"{sample.hour:.1f}", f"{sample.resident / 2**20:.1f}", str(sample.descriptors)]
    numbers += [f"{size / 1024:,.0f}" for size in sizes]
    numbers += [str(sample.keys), str(sample.cells)]
    numbers += [str(sample.rows[table]) for table in _TABLES]
    return "  ".join(f"{number:>8}" for number in numbers)
