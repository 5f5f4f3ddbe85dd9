"""What hidden labelled rates wait for: how many labels of which route, how long, and what helps.

``slicewatch check`` asks it of assumed traffic, a running service of what it publishes. Then
nothing is used but published rows: the band of a slice's decisions, its rates, the period that they
are of, and two rates of all decisions. Whoever has these can compute the same: it tells no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, inf

from monitor.core.contract import Metric
from monitor.core.counts.cells import Route
from monitor.core.privacy.periods import waited_for
from monitor.core.publish.snapshot import (
    ContractTable,
    GroupTable,
    Period,
    ShownRate,
    SliceRow,
    Snapshot,
    WindowTable,
    tables_of,
)
from monitor.core.time import DAY

USUAL = 2 * DAY
"""What is published ends with a UTC day, so it is usually up to a day and a half old."""

AUTO, REVIEW = Route.AUTO_SERVE.name.lower(), Route.HUMAN_REVIEW.name.lower()

_WEEK = 7
_EDGES = (0, 1, 2, 4, 8)
_WEEKS = {
    0: "less than a week",
    1: "one to two weeks",
    2: "two to four weeks",
    4: "four to eight weeks",
    8: "more than eight weeks",
}
_MOST_POOLED = 20
"""Advice to pool more values than that into one is none."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Labels a day of one slice.

    Attributes:
        labels: by route.
        audit: part of the auto-served that is labelled.
    """

    labels: Mapping[str, float]
    audit: float

    @classmethod
    def of(cls, daily: float, served: float, reviewed: float, audit: float) -> Pace:
        """Of so many decisions a day, where everything is labelled that is reviewed."""
        return cls({AUTO: daily * served * audit, REVIEW: daily * reviewed}, audit)


@dataclass(frozen=True, slots=True)
class LabelWait:
    """How long a slice needs for its next k labels of the slower route.

    Attributes:
        k: labels.
        route: of these.
        days: that they take; infinite where none come.
        waited: days that blocks wait for one slice, on average: slower ones are pooled.
        audit: part of the auto-served that is labelled.
    """

    k: int
    route: str
    days: float
    waited: float
    audit: float

    @classmethod
    def of(cls, pace: Pace, k: int, *, crossed: bool) -> LabelWait:
        """At a pace, of a value or of a cell of several attributes."""
        route, daily = min(pace.labels.items(), key=lambda one: one[1])
        waited = waited_for(crossed=crossed, labels=True) / DAY
        return cls(k, route, k / daily if daily else inf, waited, pace.audit)

    @property
    def named(self) -> bool:
        """Whether such a slice has labelled rates: it is waited for."""
        return self.days <= self.waited

    @property
    def weeks(self) -> int:
        """Weeks that it takes at least: 0, 1, 2, 4 or 8."""
        return max(edge for edge in _EDGES if edge * _WEEK <= self.days)

    @property
    def weeks_text(self) -> str:
        """The same in words, with the most that it takes."""
        return _WEEKS[self.weeks]

    @property
    def ways(self) -> tuple[str, ...]:
        """What each by itself would make it fast enough to be waited for."""
        times = self.days / self.waited
        if times > _MOST_POOLED:
            return ("compare larger slices",)
        pooled = f"pool {ceil(times)} values into one"
        audit = ceil(100 * self.audit * times) / 100
        # Whatever is reviewed is labelled already.
        return (f"audit {audit:.0%} or more", pooled) if self._audits_help(audit) else (pooled,)

    def _audits_help(self, audit: float) -> bool:
        return self.route == AUTO and audit <= 1


@dataclass(frozen=True, slots=True)
class GroupWait:
    """A group-by that is older than its data, and what it waits for.

    Attributes:
        group_by: its name.
        labelled: whether these are its labelled rates; else its selection and blocked rates.
        end: end of what is shown of it (microseconds); None before anything is.
        k: decisions, or labels of each route, that each of its slices needs to have, or none.
        slowest: of the slices that are shown and are waited for, how long the slowest takes; where
            all of them are too slow to be, the fastest; None where what is shown does not say.
    """

    group_by: str
    labelled: bool
    end: int | None
    k: int
    slowest: LabelWait | None = None


def group_waits(
    snapshot: Snapshot, contract: ContractTable, window: WindowTable
) -> Iterator[GroupWait]:
    """The group-bys of a window that wait, in their order."""
    if contract.k == 1:
        return
    for table in tables_of(window):
        if not isinstance(table, GroupTable):
            continue
        if is_behind(table.decisions, snapshot.watermark):
            yield GroupWait(table.group_by, False, _end(table.decisions), contract.k)
        if window.labelled is not None and is_behind(table.labelled, snapshot.frontier):
            slowest = _slowest(shown_waits(contract, table))
            yield GroupWait(table.group_by, True, _end(table.labelled), contract.k, slowest)


def is_behind(period: Period | None, known: int | None) -> bool:
    """True where more data are known than what is shown, by more than usual."""
    return period is None or (known is not None and known - period.end > USUAL)


def shown_waits(contract: ContractTable, table: GroupTable) -> Iterator[LabelWait]:
    """How long each slice needs whose pace is shown."""
    found = (shown_wait(contract, table, row) for row in table.rows)
    return (one for one in found if one is not None)


def shown_wait(contract: ContractTable, table: GroupTable, row: SliceRow) -> LabelWait | None:
    """How long a slice needs, by published rows; None where they do not say.

    By the lower edge of its band, so that it takes no longer than that.
    """
    selection, period = row.rates.get(Metric.SELECTION), table.decisions
    audit = _audited(contract)
    if selection is None or selection.value is None or period is None or audit is None:
        return None
    daily = selection.support * DAY / (period.end - period.start)
    reviewed = 1 - selection.value - _value(row.rates.get(Metric.BLOCKED))
    pace = Pace.of(daily, selection.value, max(reviewed, 0), audit)
    return LabelWait.of(pace, contract.k, crossed="+" in table.group_by)


def _slowest(waits: Iterable[LabelWait]) -> LabelWait | None:
    every = sorted(waits, key=lambda one: one.days)
    named = [one for one in every if one.named]
    return named[-1] if named else next(iter(every), None)


def _audited(contract: ContractTable) -> float | None:
    """Part of the auto-served that is labelled, over all decisions.

    Where P(served) is the rate among what is ready (or is not) and all of the rest is labelled, its
    odds among the labelled are so many times smaller. By the rate whose odds rounding moves least.
    """
    odds = {
        min(known, 1 - known): (known / (1 - known)) / (rate.value / (1 - rate.value))
        for window in contract.windows
        for metric, known in window.total.as_labelled.items()
        if (rate := window.total.rates.get(metric)) is not None
        and rate.value is not None
        and 0 < known < 1
        and 0 < rate.value < 1
        and metric in (Metric.TPR, Metric.FPR)
    }
    return min(odds[max(odds)], 1.0) if odds else None


def _value(rate: ShownRate | None) -> float:
    return rate.value if rate is not None and rate.value is not None else 0.0


def _end(period: Period | None) -> int | None:
    return None if period is None else period.end
