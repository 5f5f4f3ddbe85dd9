"""Reference rate and gaps of the weeks before, for each row of page one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from monitor.core.metric import Metric
from monitor.core.publish.lines import places
from monitor.core.publish.release import Revision, decode_slices
from monitor.reports.judged import Judged, leading
from monitor.reports.planners.published_rates import Named
from monitor.reports.weekly_report import WeeklyReport, of_release


@dataclass(frozen=True, slots=True)
class WeekGap:
    """Gap of a slice in a week before the reported one.

    Attributes:
        week: ISO week, such as ``2026-W47``.
        value: gap in rate units, positive if the slice is worse off; None if it is not shown.
    """

    week: str
    value: float | None


@dataclass(frozen=True, slots=True)
class TrendLine:
    """Rate of a row's reference, and the gaps of the row in the weeks before.

    Attributes:
        metric: limited metric.
        reference_rate: rate that the slice is compared with; None if it is not shown.
        weeks: stored weeks before, the oldest first.
    """

    of: Named
    metric: Metric
    reference_rate: float | None
    weeks: tuple[WeekGap, ...]


_Key = tuple[Named, Metric]


def trends(report: WeeklyReport) -> tuple[TrendLine, ...]:
    """Return a TrendLine per row of page one, in its order."""
    rows = leading(report)
    names = {judged.place.row.slice for judged in rows}
    weeks = [(revision.week, dict(_gaps(revision, names))) for revision in report.history]
    return tuple(
        TrendLine(*_key(judged), reference_rate(judged), tuple(_week_gaps(judged, weeks)))
        for judged in rows
    )


def _key(judged: Judged) -> _Key:
    return Named.for_place(judged.place), judged.cell.metric


def _week_gaps(
    judged: Judged, weeks: list[tuple[str, dict[_Key, float | None]]]
) -> Iterator[WeekGap]:
    for week, gaps in weeks:
        yield WeekGap(week, gaps.get(_key(judged)))


def _gaps(revision: Revision, names: set[str]) -> Iterator[tuple[_Key, float | None]]:
    """Yield the shown gaps of the named slices in an earlier week."""
    for contract, window in of_release(decode_slices(revision.body, names)):
        for place in places(contract, window):
            for metric, gap in place.row.gaps.items():
                yield (Named.for_place(place), metric), gap.value


def reference_rate(judged: Judged) -> float | None:
    """Return the rate of a row's reference; None if it is not shown."""
    rate = judged.cell.reference_rate
    return None if rate is None else rate.value
