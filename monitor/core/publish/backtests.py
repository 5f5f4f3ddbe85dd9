"""Result of a contract over stored cohorts: for its owner, never for a page."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.core.contract import Metric
from monitor.core.publish.annotations import Severity


@dataclass(frozen=True, slots=True)
class BacktestIncident:
    """A page or a ticket that would have been raised.

    Attributes:
        severity: page or ticket.
        contract: name.
        metric: of its streams.
        group_by: of the slice; empty where that is withheld.
        slice: the smallest that explains it; ``withheld`` where no published table shows it.
        since: the UTC day of event time on which it would have come (microseconds).
        resolved: the day on which it would have ended; None where it would not have.
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
    """The outcome of a trial.

    Attributes:
        start: event time at which the cohorts begin (microseconds); None where none is kept.
        end: at which they end; None likewise.
        hours: of cohorts.
        left_out: hours that no detector consumed: excluded, or never complete.
        bulk: hours that were loaded as history, of which the service itself pages nothing.
        incidents: by when they would have come.
    """

    start: int | None
    end: int | None
    hours: int
    left_out: int
    bulk: int
    incidents: tuple[BacktestIncident, ...]
