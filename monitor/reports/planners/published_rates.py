"""Published rates as planners use them: points, intervals at any confidence, what is served."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.contract import Metric
from monitor.core.intervals import Z95, Floats
from monitor.core.privacy.bands import Precision
from monitor.core.publish.reasons import Place
from monitor.core.publish.snapshot import ContractTable, GroupTable, Period, ShownRate
from monitor.core.publish.suppression import ShownColumns
from monitor.core.time import WEEK


@dataclass(frozen=True, slots=True)
class Named:
    """Slice and contract that a row of a planner is about.

    Attributes:
        contract: name.
        group_by: attribute names joined by ``+``; empty for all decisions.
        slice: slice text; empty for all decisions.
    """

    contract: str
    group_by: str
    slice: str

    @classmethod
    def of(cls, place: Place) -> Named:
        """The names of a row."""
        return cls(place.contract.contract, group_by_of(place), place.row.slice)


def group_by_of(place: Place) -> str:
    """The group-by of a row; empty for all decisions."""
    return place.table.group_by if isinstance(place.table, GroupTable) else ""


def precision_of(contract: ContractTable) -> Precision:
    """The resolution of what a contract shows."""
    return Precision(contract.k, contract.synthetic and contract.k == 1)


def point(rate: ShownRate | None) -> float | None:
    """The rounded rate, or the code in its place; None where it is withheld."""
    told = (rate.value, rate.at_least, rate.at_most) if rate is not None else ()
    return next((x for x in told if x is not None), None)


def as_shown(metric: Metric, rates: Floats, support: Floats, precision: Precision) -> ShownColumns:
    """Rates with their effective supports, rounded and banded as they would be shown."""
    values = np.broadcast_to(rates, support.shape).astype(np.float64)
    bands, trials, step = precision.resolution(support)
    none = np.full(support.shape, np.nan)
    shown = np.ones(support.shape, bool)
    rounded = precision.rounded(values, step)
    return ShownColumns(metric, shown, rounded, none, none, bands, trials, step)


def interval_at(rate: ShownRate, precision: Precision, z: float = Z95) -> tuple[float, float]:
    """Bounds of a shown rate at a normal quantile, computed from what is shown."""

    def one(x: float | None) -> Floats:
        return np.array([np.nan if x is None else x])

    support: npt.NDArray[np.int64] = np.array([rate.support])
    columns = ShownColumns(
        Metric.READY,
        np.ones(1, bool),
        one(rate.value),
        one(rate.at_least),
        one(rate.at_most),
        support,
        support.astype(np.float64),
        precision.step(support),
    )
    made = columns.rates(z)
    return float(made.lower[0]), float(made.upper[0])


def weeks_in(period: Period | None) -> float:
    """Length of a period in weeks; 0 where there is none."""
    return 0.0 if period is None else (period.end - period.start) / WEEK


def reviewed_weekly(place: Place) -> float:
    """Decisions of a slice in a week that were not blocked, at least; 0 where that is hidden."""
    selection, blocked = place.row.rates.get(Metric.SELECTION), place.row.rates.get(Metric.BLOCKED)
    weeks = weeks_in(place.table.decisions)
    if selection is None or blocked is None or blocked.upper is None or not weeks:
        return 0.0
    return selection.support / weeks * (1 - blocked.upper)
