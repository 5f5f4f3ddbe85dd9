"""Published figures of one slice and metric, one point per UTC day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from monitor.core.contract import Verdict
from monitor.core.metric import Metric
from monitor.core.state import State

Trends = dict[tuple[str, str], list[tuple[date, float]]]
"""Days with their published rates, ascending, by group-by and slice."""


@dataclass(frozen=True, slots=True)
class SliceKey:
    """Key of a history: contract, window, slice and metric.

    Attributes:
        contract: name.
        window: name of the window.
        group_by: attribute names joined by ``+``; empty for the total.
        slice: slice text; empty for the total.
        metric: the rate.
    """

    contract: str
    window: str
    group_by: str
    slice: str
    metric: Metric


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """Point of a history: numbers of the last publication of a day; None is withheld.

    Attributes:
        day: of the watermark, UTC.
        ends_at: event time to which the rate goes; None before the first table.
        version: of the contract.
        limit: largest allowed gap; None where the contract set none.
        state: of slice and metric.
        value: the rate.
        lower: its lower bound.
        upper: its upper bound.
        at_least: shown instead of the value.
        at_most: shown instead of the value.
        support: lower edge of its band.
        reference: what it is compared with.
        gap: positive where the slice is worse off.
        gap_lower: lower bound.
        gap_upper: upper bound.
        verdict: on the gap.
    """

    day: date
    ends_at: datetime | None
    version: str
    limit: float | None
    state: State
    value: float | None
    lower: float | None
    upper: float | None
    at_least: float | None
    at_most: float | None
    support: int | None
    reference: str | None
    gap: float | None
    gap_lower: float | None
    gap_upper: float | None
    verdict: Verdict | None
