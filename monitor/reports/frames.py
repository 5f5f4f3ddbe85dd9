"""A Release as tidy pandas frames, for notebooks: one row per number, one column per variable.

Example:
    >>> from monitor.core.publish.release import Release
    >>> {name: len(frame) for name, frame in weekly(Release("2026-W47", 0, 1, ())).items()}
    {'rates': 0, 'gaps': 0, 'calibration': 0}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from monitor.core.metric import Metric
from monitor.core.publish.lines import Cell, all_places, cell
from monitor.core.publish.reasons import Place
from monitor.core.publish.release import Release
from monitor.core.publish.snapshot import Period, ShownGap, ShownRate
from monitor.core.time import to_datetime
from monitor.reports.weekly_report import of_release

if TYPE_CHECKING:
    import pandas as pd

_PLACE = ("week", "contract", "version", "synthetic", "k", "group_by", "slice")
_PERIOD = ("starts_at", "ends_at", "data_lost", "excluded")
_RATE = ("value", "lower", "upper", "at_least", "at_most", "support")
_GAP = ("reference", "value", "lower", "upper", "ratio", "ratio_lower", "ratio_upper", "verdict")
_LIMITS = ("max_gap", "min_ratio", "min_level", "max_level")

COLUMNS = {
    "rates": (
        *_PLACE,
        "metric",
        "state",
        *_RATE,
        "as_labelled",
        "completeness",
        *_LIMITS,
        "decided_by",
        "min_support",
        *_PERIOD,
    ),
    "gaps": (*_PLACE, "metric", "state", *_GAP, "max_gap", "min_ratio", "decided_by", *_PERIOD),
    "calibration": (*_PLACE, "band", "state", *_RATE, *_PERIOD),
}
"""Columns of each frame."""
_NUMBERS = {
    *("value", "lower", "upper", "at_least", "at_most", "support", "as_labelled", "completeness"),
    *(*_LIMITS, "min_support", "ratio", "ratio_lower", "ratio_upper"),
}


def weekly(release: Release) -> dict[str, pd.DataFrame]:
    """Return a Release's numbers as data frames, keyed ``rates``, ``gaps``, ``calibration``.

    Every number is as published. Rates and gaps are in rate units (0.1 is ten points); a gap is
    positive if the slice is worse off. ``support`` is the lower edge of its band. NaN always means
    withheld or coded; ``state`` is the state of the row (in ``calibration``: ``shown`` or
    ``suppressed``). Limits are the slice's; ``decided_by`` names the column of the deciding limit.
    ``rates`` has a row per metric and slice; ``slice`` is empty for all decisions. ``gaps`` has the
    rows with a reference and the hidden ones. Times are UTC.
    """
    return {name: _frame(name, rows) for name, rows in weekly_rows(release).items()}


def weekly_rows(release: Release) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of each frame, in the order of ``COLUMNS``; None is withheld or coded."""
    rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in COLUMNS}
    for table, window in of_release(release):
        for place in all_places(table, window):
            rows["rates"] += _rates(release, place)
            rows["gaps"] += _gaps(release, place) if place.row.slice else ()
            rows["calibration"] += _calibration(release, place)
    return rows


def _frame(name: str, rows: list[tuple[object, ...]]) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - slow to load

    frame = pd.DataFrame(rows, columns=list(COLUMNS[name]))
    numbers = {column: "float64" for column in frame.columns if column in _NUMBERS}
    times = dict.fromkeys(("starts_at", "ends_at"), "datetime64[us, UTC]")
    return frame.astype({**numbers, **times})


def _rates(release: Release, place: Place) -> Iterator[tuple[object, ...]]:
    """Yield a row of the data frame of rates for each metric of a slice."""
    for metric in _metrics(place):
        row, metric_cell = place.row, cell(place, metric)
        yield (
            *_place(release, place),
            metric.value,
            row.states[metric].value,
            *_rate(row.rates.get(metric)),
            row.as_labelled.get(metric),
            row.completeness if metric.labelled else None,
            *(getattr(metric_cell, name) for name in _LIMITS),
            _decided_by(metric_cell),
            place.contract.min_supports.get(metric),
            *_period(place.period(metric)),
        )


def _gaps(release: Release, place: Place) -> Iterator[tuple[object, ...]]:
    """Yield a row of the data frame of gaps for each metric; none for a reference."""
    for metric in _metrics(place):
        row, metric_cell = place.row, cell(place, metric)
        gap = row.gaps.get(metric)
        if gap is None and metric in row.rates:
            continue  # a reference: other slices are compared with it
        yield (
            *_place(release, place),
            metric.value,
            row.states[metric].value,
            *_gap(gap),
            *(metric_cell.max_gap, metric_cell.min_ratio, _decided_by(metric_cell)),
            *_period(place.period(metric)),
        )


def _calibration(release: Release, place: Place) -> Iterator[tuple[object, ...]]:
    for band_cell in place.row.calibration:
        state = "suppressed" if band_cell.rate is None else "shown"
        period = _period(place.table.labelled)
        yield (*_place(release, place), band_cell.band, state, *_rate(band_cell.rate), *period)


def _metrics(place: Place) -> list[Metric]:
    return [metric for metric in Metric if metric in place.row.states]


def _place(release: Release, place: Place) -> tuple[object, ...]:
    table, group_by = place.contract, place.table.group_by
    contract_columns = (table.contract, table.version, table.synthetic, table.k)
    return (release.week, *contract_columns, group_by, place.row.slice)


def _rate(rate: ShownRate | None) -> tuple[object, ...]:
    return tuple(getattr(rate, name, None) for name in _RATE)


def _gap(gap: ShownGap | None) -> tuple[object, ...]:
    gap_fields = (getattr(gap, name, None) for name in _GAP)
    return tuple(getattr(gap_field, "value", gap_field) for gap_field in gap_fields)


def _decided_by(metric_cell: Cell) -> str | None:
    return metric_cell.decided_by.kind.value if metric_cell.decided_by else None


def _period(period: Period | None) -> tuple[object, ...]:
    if period is None:
        return (None, None, False, False)
    return (to_datetime(period.start), to_datetime(period.end), period.data_lost, period.excluded)
