"""Published rates as planners use them: points, intervals at any confidence, weekly volumes."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.core.intervals import Z95, wilson
from monitor.core.metric import Metric
from monitor.core.privacy.bands import Precision
from monitor.core.publish.reasons import Place
from monitor.core.publish.snapshot import ContractTable, Period, ShownRate
from monitor.core.time import WEEK


@dataclass(frozen=True, slots=True)
class Named:
    """Contract, group-by and slice that identify a planner's row.

    Attributes:
        contract: name of the contract.
        group_by: attribute names joined by ``+``; empty for all decisions.
        slice: slice text; empty for all decisions.
    """

    contract: str
    group_by: str
    slice: str

    @classmethod
    def for_place(cls, place: Place) -> Named:
        """Return the Named of a published row."""
        return cls(place.contract.contract, place.table.group_by, place.row.slice)


def precision_of(contract: ContractTable) -> Precision:
    """Return the Precision of a contract's numbers: its k, exact if synthetic with k of 1."""
    return Precision(contract.k, contract.exact)


def decisions_behind(contract: ContractTable, support: int) -> tuple[float, float]:
    """Return (fewest, most) decisions that a shown weekly support may stand for.

    A support is the sum of the middles of four columns of bands. Half a band is up to a fortieth of
    its count or half of k, and twice that in a row that the table rule coarsened by one step.

    Example:
        >>> from types import SimpleNamespace
        >>> decisions_behind(SimpleNamespace(k=11, exact=False), 1000)
        (906.0, 1094.0)
    """
    half_width = 0.0 if precision_of(contract).exact else 0.05 * support + 4 * contract.k
    return max(support - half_width, 0.0), support + half_width


def point(rate: ShownRate | None) -> float | None:
    """Return a rate's value, else the bound shown in its place; None if it is withheld."""
    shown_numbers = (rate.value, rate.at_least, rate.at_most) if rate is not None else ()
    return next((number for number in shown_numbers if number is not None), None)


def interval_at(rate: ShownRate, z: float = Z95) -> tuple[float, float]:
    """Return (lower, upper) of a shown rate at quantile ``z``; without a value, its own bounds."""
    if rate.value is None:
        return rate.lower or 0.0, 1.0 if rate.upper is None else rate.upper
    lower, upper = wilson(rate.value, rate.support, z)
    return float(lower), float(upper)


def weeks_in(period: Period | None) -> float:
    """Return the length of a period in weeks; 0 without a period."""
    return 0.0 if period is None else (period.end - period.start) / WEEK


def reviewed_weekly(place: Place) -> float:
    """Return the fewest weekly decisions of a slice that are not blocked; 0 if that is hidden."""
    selection, blocked = place.row.rates.get(Metric.SELECTION), place.row.rates.get(Metric.BLOCKED)
    weeks = weeks_in(place.table.decisions)
    if selection is None or blocked is None or blocked.upper is None or not weeks:
        return 0.0
    least, _ = decisions_behind(place.contract, selection.support)
    return least / weeks * (1 - blocked.upper)
