"""What one more hour costs slicewatch, beside what a team would run each hour instead.

A week of 6,000 decisions an hour in 209 slices, then one more hour. slicewatch reads the events of
this hour and closes it; the others compute their week again from frames or tables in memory, which
somebody else has filled. Their rates must agree with each other, and the total with what
slicewatch publishes. Run it by ``make bench FOR=beside``, which keeps it in results/beside.json.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from beside import Rates, in_duckdb, newest_week, with_fairlearn, with_pandas
from common import Report
from refresh_site import Play, Site
from results import keep

from monitor.core.metric import Metric
from monitor.core.time import HOUR, SECOND

PLAY = Play(10, 18, days=7)
CYCLES = 3_600 // 10
"""Cycles of the evaluator in an hour."""
NEAR = 0.02
"""How far the published total of whole days may be off that of the newest week."""


def cpu_ms(call: Callable[[], Rates]) -> tuple[float, Rates]:
    """CPU milliseconds of a call, in all threads, and what it returns."""
    gc.collect()
    began = time.process_time()
    rates = call()
    return 1e3 * (time.process_time() - began), rates


def one_more_hour(site: Site) -> dict[str, float]:
    """CPU milliseconds of the newest hour: reading it, its closing, and the cycles between."""
    reading = site.feed(site.clock.micros + HOUR + 10 * 60 * SECOND)
    closing = site.refresh()
    idle = float(np.median([site.refresh() for _ in range(9)]))
    return {"reading": reading, "closing": closing, "cycles": idle * CYCLES}


def others(site: Site) -> Iterator[tuple[str, float, Rates]]:
    """Name, CPU milliseconds and rates of what computes the week again."""
    frames = newest_week(site.play, site.events, site.clock.micros)
    calls: dict[str, Callable[[], Rates]] = {"pandas": lambda: with_pandas(frames)}
    with suppress(ModuleNotFoundError):
        calls["DuckDB"] = in_duckdb(frames)
    calls["fairlearn's MetricFrame"] = lambda: with_fairlearn(frames)  # takes minutes
    for name, call in calls.items():
        yield name, *cpu_ms(call)


def published_total(site: Site) -> tuple[float, ...]:
    """Selection rate, TPR and FPR of all decisions of the newest seven days, as published."""
    snapshot = site.service.snapshot
    assert snapshot is not None
    (contract,) = snapshot.contracts
    (week,) = (window for window in contract.windows if window.window == "7d")
    rates = week.total.rates
    return tuple(rates[metric].value or 0 for metric in (Metric.SELECTION, Metric.TPR, Metric.FPR))


def main() -> None:
    """Print the table, and keep it."""
    report = Report("One more hour of 209 slices", "who", "does what", "ms of CPU")
    with tempfile.TemporaryDirectory() as name:
        site = Site(PLAY, Path(name))
        site.catch_up()
        costs = one_more_hour(site)
        report.add("slicewatch", "reads the hour's events", f"{costs['reading']:.0f}")
        report.add("slicewatch", "closes the hour", f"{costs['closing']:.0f}")
        report.add("slicewatch", f"{CYCLES} cycles between", f"{costs['cycles']:.0f}")
        expected: Rates | None = None
        for other, cost, rates in others(site):
            expected = expected or rates
            assert rates.keys() == expected.keys(), f"{other} has other slices"
            for key, values in rates.items():
                np.testing.assert_allclose(values, expected[key], rtol=1e-9, err_msg=str(key))
            report.add(other, "computes the week again", f"{cost:.0f}")
        assert expected is not None
        np.testing.assert_allclose(published_total(site), expected["*", "*"], atol=NEAR)
        site.stop()
    report.close()
    keep("beside", rows=report.rows)


if __name__ == "__main__":
    main()
