"""Changes of rates that this week and the week before both show as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from monitor.core.contract import Metric
from monitor.core.publish.lines import places, total_place
from monitor.core.publish.snapshot import ContractTable, ShownRate, WindowTable
from monitor.reports.planners.published_rates import Named
from monitor.reports.weekly_report import WeeklyReport, of_release

_DIGITS = 9


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """Rate in this week and the week before, and whether the intervals overlap.

    Attributes:
        version: contract version of this week.
        version_before: contract version of the week before.
        before: rate of the week before.
        now: rate of this week.
        change: ``now`` minus ``before``.
        overlap: whether the two intervals overlap; None if either is not shown.
    """

    of: Named
    metric: Metric
    version: str
    version_before: str
    before: float
    now: float
    change: float
    overlap: bool | None


_Rates = Mapping[tuple[Named, Metric], tuple[ShownRate, str]]


def changes(report: WeeklyReport) -> tuple[ChangeLine, ...]:
    """Return a ChangeLine per rate that both weeks show; empty without a Release before."""
    if report.before is None:
        return ()
    return tuple(
        _lines(
            _rates_by_place(report.windows()), _rates_by_place(of_release(report.before.release))
        )
    )


def _rates_by_place(windows: Iterable[tuple[ContractTable, WindowTable]]) -> _Rates:
    """Map (place, metric) to (published rate, contract version); withheld rates are left out."""
    return {
        (Named.for_place(place), metric): (rate, table.version)
        for table, window in windows
        for place in (total_place(table, window), *places(table, window))
        for metric, rate in place.row.rates.items()
        if rate.value is not None
    }


def _lines(rates: _Rates, earlier: _Rates) -> Iterator[ChangeLine]:
    for key, (now, version) in rates.items():
        if key not in earlier:
            continue
        before, version_before = earlier[key]
        if now.value is not None and before.value is not None:
            change = round(now.value - before.value, _DIGITS)
            overlap = _overlap(before, now)
            yield ChangeLine(
                *key, version, version_before, before.value, now.value, change, overlap
            )


def _overlap(first: ShownRate, second: ShownRate) -> bool | None:
    if first.lower is None or first.upper is None or second.lower is None or second.upper is None:
        return None
    return not (first.upper < second.lower or second.upper < first.lower)
