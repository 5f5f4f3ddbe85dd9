"""Calibration: P(ready | score band) of each slice, over what the evidence gate let through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from monitor.audit.report import CalibrationLine
from monitor.audit.slices import GroupSlices
from monitor.core.coding import Coding
from monitor.core.estimates import calibration
from monitor.core.rows import MIN_CALIBRATION
from monitor.core.snapshot import ShownRate, SliceRow


def calibration_lines(
    groups: Sequence[GroupSlices], coding: Coding, *, synthetic: bool
) -> tuple[CalibrationLine, ...]:
    """By slice and band of every group-by of one attribute; no intersection has the items.

    Of a synthetic set every band with items has a line, with too few items too; a band without
    items is absent. Of real people all bands have one, and those with few items or none look the
    same.
    """
    single = [table for table in groups if len(table.group.attributes) == 1]
    of = _exact if synthetic else _guarded
    return tuple(line for table in single for line in of(table, coding))


def _exact(table: GroupSlices, coding: Coding) -> Iterator[CalibrationLine]:
    bands = calibration(table.labelled, coding)
    for i, text in enumerate(table.labelled.slices):
        for band, columns in bands.items():
            n = int(columns.hits[i] + columns.misses[i])
            if n:
                value, lower, upper = columns.value[i], columns.lower[i], columns.upper[i]
                rate = ShownRate(float(value), float(lower), float(upper), n)
                name = coding.band_names[band]
                yield CalibrationLine(text, name, n, rate, sufficient=n >= MIN_CALIBRATION)


def _guarded(table: GroupSlices, coding: Coding) -> Iterator[CalibrationLine]:
    for row in table.rows:
        shown = {cell.band: cell.rate for cell in row.calibration}
        for name in coding.band_names:
            yield _shown(row, name, shown.get(name))


def _shown(row: SliceRow, band: str, rate: ShownRate | None) -> CalibrationLine:
    n = rate.support if rate else 0
    return CalibrationLine(row.slice, band, n, rate, sufficient=n >= MIN_CALIBRATION)
