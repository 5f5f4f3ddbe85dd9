"""Result of a contract over stored cohorts, for its owner and never for a page."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.core.contract import Severity
from monitor.core.metric import Metric


@dataclass(frozen=True, slots=True)
class BacktestIncident:
    """Page or ticket that a contract would have raised over stored cohorts.

    Attributes:
        severity: page or ticket.
        contract: name.
        metric: metric of its streams.
        group_by: group-by of the slice; empty if that is withheld.
        slice: the smallest slice that explains it; ``withheld`` if no published table shows it.
        since: UTC day of event time on which it would have come (microseconds).
        resolved: day on which it would have ended; None if it would not have.
    """

    severity: Severity
    contract: str
    metric: Metric
    group_by: str
    slice: str
    since: int
    resolved: int | None


@dataclass(frozen=True, slots=True)
class Backtest:
    """Result of trying a contract on stored cohorts: their span, and the incidents it would raise.

    Attributes:
        start: event time at which the cohorts begin (microseconds); None without cohorts.
        end: event time at which they end; None without cohorts.
        hours: number of hours of cohorts.
        left_out: hours that no detector consumed: excluded, or never complete.
        bulk: hours loaded as history, for which the service itself pages nothing.
        incidents: sorted by the time at which they would have come.
    """

    start: int | None
    end: int | None
    hours: int
    left_out: int
    bulk: int
    incidents: tuple[BacktestIncident, ...]
