"""Which slices show their labelled rates in published tables, and how far off these are.

Run it by ``make bench FOR=tables``; ``ARGS="shop tiny"``: worlds that begin with one of these
words, ``ARGS=--hours``: with tables of hours too.

A slice counts for TPR if it has at least 50 labels of replies that were ready in the last 28 days,
for FPR if it has 30 of others. "Plain k" is what a guard would show that hid nothing but what is
below k. A table of four weeks is at its best on day 28, so all is looked at on other days too;
before that, the newest week is what there is. The error is against the exact rate of the same
spans.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import common  # noqa: F401 - finds what is imported from the tests

# isort: split
import numpy as np
import numpy.typing as npt
from adversary.table_worlds import (
    NOT_READY,
    READY,
    Ints,
    K,
    TableWorld,
    all_pairs,
    published,
    without_changes,
)
from recidivism import COUNTS

from monitor.core.counts.strata import REVIEWED_ROUTES
from monitor.core.intervals import divide
from monitor.core.metric import Metric
from monitor.core.rates.effective import Trials, served_share
from monitor.core.tables.bands import Bands
from monitor.core.tables.counted import Counted
from monitor.core.tables.rates import LabelledCounts, ShownRate, labelled_estimate
from monitor.core.tables.reader import Measure, Table
from monitor.core.tables.spans import Span, SpanKind
from monitor.core.tables.windows import chosen_spans

LOOKS = (20, 28, 35, 42, 55)
DAYS = 56
ENOUGH = {Metric.TPR: 50, Metric.FPR: 30}
MEASURES = {Metric.TPR: Measure.READY, Metric.FPR: Measure.NOT_READY}
WINDOWS = ("28d", "7d", "24h")
Bools = npt.NDArray[np.bool_]


def real_file(slots: int) -> Ints:
    """Everybody of the recidivism file, evenly over 27 days, again and again, all labelled."""
    rng = np.random.default_rng(0)
    found = np.zeros((slots, len(COUNTS), 2, 3), np.int64)
    cells = [(0, READY), (0, NOT_READY), (1, READY), (1, NOT_READY)]
    people = [
        (atom, *cell)
        for atom, counts in enumerate(COUNTS.values())
        for cell, n in zip(cells, counts, strict=True)
        for _ in range(n)
    ]
    month = slots * 28 // DAYS
    for begin in range(0, slots, month):
        at = begin + np.arange(len(people)) * month * 27 // (28 * len(people))
        atoms, routes, labels = rng.permutation(people).T
        np.add.at(found, (at, atoms, routes, labels), 1)
    return found


def shop(daily: int, slots: int) -> Ints:
    """Three attributes of five values; 5 % of what is served and 95 % of the rest has a label."""
    rng = np.random.default_rng(5)
    n, shares = daily * DAYS, np.array([0.5, 0.25, 0.13, 0.08, 0.04])
    values = np.stack([rng.choice(5, n, p=shares) for _ in range(3)])
    ready = rng.random(n) < 0.62 - 0.04 * values[0]
    atoms = np.ravel_multi_index(tuple(values), (5, 5, 5))
    return _routed(rng, slots, atoms, ready, (0.05, 0.95))


def tiny(slots: int) -> Ints:
    """40 decisions a day and one attribute; half of what is served has a label."""
    rng = np.random.default_rng(7)
    n = 40 * DAYS
    atoms = (rng.random(n) < 0.3).astype(np.int64)
    return _routed(rng, slots, atoms, rng.random(n) < 0.6, (0.5, 0.97))


def _routed(
    rng: np.random.Generator, slots: int, atoms: Ints, ready: Bools, labelled: tuple[float, float]
) -> Ints:
    n, many = len(atoms), int(atoms.max()) + 1
    routes = np.where(rng.random(n) < np.where(ready, 0.8, 0.25), 0, 1)
    has_label = rng.random(n) < np.array(labelled)[routes]
    labels = np.where(has_label, np.where(ready, READY, NOT_READY), 0)
    found = np.zeros((slots, many, 2, 3), np.int64)
    np.add.at(found, (rng.integers(0, slots, n), atoms, routes, labels), 1)
    return found


WORLDS = {
    "real file": (real_file, (6, 2)),
    "shop 300": (lambda slots: shop(300, slots), (5, 5, 5)),
    "shop 3,000": (lambda slots: shop(3000, slots), (5, 5, 5)),
    "tiny": (tiny, (2,)),
}


def world_of(name: str, *, hours: bool) -> TableWorld:
    """A world with its tables of days and longer spans, or of hours too."""
    make, sizes = WORLDS[name]
    kinds = tuple(SpanKind) if hours else tuple(SpanKind)[1:]
    counts = without_changes(make(DAYS * SpanKind.DAY // kinds[0]))
    return TableWorld(name, sizes, counts, kinds, all_pairs(len(sizes)), labels=True)


@dataclass(frozen=True, slots=True)
class Looked:
    """One metric of all rows at one look, shapes (rows,)."""

    wanted: Bools
    plain: Bools
    rate: ShownRate
    error: npt.NDArray[np.float64]
    attributes: Ints
    spans: tuple[Span, ...]


def look(world: TableWorld, tables: Sequence[Table], day: int, metric: Metric) -> Looked:
    """What a reader sees of a metric at the end of a day; labels are there at once."""
    end = Span(SpanKind.DAY, day).start
    closed = [table for table in tables if table.span.end <= end]
    measures = (Measure.DECISIONS, Measure.READY, Measure.NOT_READY)
    bands = {m: {t.span: t.bands for t in closed if t.measure is m} for m in measures}
    spans = next(s for w in WINDOWS if (s := chosen_spans(w, bands[MEASURES[metric]])))
    decisions, ready, not_ready = (_total(bands[measure], spans) for measure in measures)
    served = np.array([True, False])
    rate = labelled_estimate(LabelledCounts(decisions, ready, not_ready, served), metric).at()
    recent = Span(SpanKind.DAY, day - 1).before(28)
    wanted, plain, _ = _exact(world, [span for span in recent if span.index >= 0], metric)
    truth = _exact(world, spans, metric)[2]
    attributes = np.array([row.slice_name.count("=") for row in closed[0].layout.rows])
    return Looked(
        wanted & (attributes > 0), plain, rate, abs(rate.value - truth), attributes, spans
    )


def _total(bands: dict[Span, Bands], spans: Sequence[Span]) -> Counted:
    return Counted.total([Counted.from_bands(bands[span]) for span in spans])


def _exact(
    world: TableWorld, spans: Sequence[Span], metric: Metric
) -> tuple[Bools, Bools, npt.NDArray[np.float64]]:
    """Rows with enough labels, those that plain k shows, and the exact rates."""
    first = world.counts.sum(axis=(4, 5))
    states = np.sum([world.in_rows(span, first) for span in spans], axis=0)
    decisions, labelled = states.sum(axis=2), states[:, :, 1:].sum(axis=2)
    hits = states[:, :, READY if metric is Metric.TPR else NOT_READY]
    assert len(REVIEWED_ROUTES) == 2
    columns = (c.T[:, None, :].astype(float) for c in (decisions, labelled, hits))
    evidence = served_share(Trials(*columns))
    weights = divide(decisions, labelled, empty=0)
    weighed = (weights * hits).sum(axis=1) ** 2
    effective = divide(weighed, (weights**2 * hits).sum(axis=1), empty=0)
    plain = (labelled.min(axis=1) >= K) & (effective >= 2 * K - 1)
    return hits.sum(axis=1) >= ENOUGH[metric], plain, evidence.value


def report(world: TableWorld) -> None:
    """Tell of all looks at a world."""
    began = time.process_time()
    tables = published(world)
    _say(f"{world.name}: {len(tables)} tables, {time.process_time() - began:.1f} CPU s")
    for day in LOOKS:
        looks = [look(world, tables, day, metric) for metric in MEASURES]
        for attributes, name in ((1, "singles"), (2, "pairs")):
            rows = [one.wanted & (one.attributes == attributes) for one in looks]
            if any(chosen.any() for chosen in rows):
                _say(f"  day {day} {name}: {_told(looks, rows)}")


def _told(looks: Sequence[Looked], rows: Sequence[Bools]) -> str:
    def many(column: Sequence[Bools]) -> int:
        return sum(int((c & r).sum()) for c, r in zip(column, rows, strict=True))

    points = many([~np.isnan(one.rate.value) for one in looks])
    shown = many([one.rate.shown for one in looks])
    errors = np.concatenate([one.error[r] for one, r in zip(looks, rows, strict=True)])
    errors = errors[~np.isnan(errors)]
    median, p95 = np.quantile(errors, [0.5, 0.95]) if len(errors) else (np.nan, np.nan)
    spans = ", ".join(sorted({f"{len(one.spans)} {one.spans[0].kind.name}" for one in looks}))
    return (
        f"{shown} shown ({points} rates, {shown - points} bounds) of {many(rows)}, plain k"
        f" {many([one.plain for one in looks])}; error {median:.3f}, p95 {p95:.3f}; {spans}"
    )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    """Measure the worlds that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("worlds", nargs="*", default=[""])
    parser.add_argument("--hours", action="store_true", help="tables of hours too")
    chosen = parser.parse_args()
    for name in WORLDS:
        if name.startswith(tuple(chosen.worlds)):
            report(world_of(name, hours=chosen.hours))


if __name__ == "__main__":
    main()
