"""What a contract would have done: its detectors and incidents over the stored cohorts.

The same code as in the service, from the first cohort that is kept on, and read-only. What the
service's own detectors consumed is frozen, so its own contract comes to the pages that were sent,
as long as every cohort since its beginning is kept and nobody closed an incident meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import sqlalchemy as sa

from monitor.core.contract import Contract
from monitor.core.counts.coding import CodingHistory
from monitor.core.counts.completeness import CohortState
from monitor.core.publish.annotations import severity_of
from monitor.core.publish.backtests import Backtest, BacktestIncident
from monitor.core.publish.incidents import Incident
from monitor.core.publish.snapshot import WITHHELD
from monitor.core.time import DAY, Grain, pane_of, pane_start
from monitor.evaluate.clusters import ClusterDays
from monitor.evaluate.cohorts import Cohorts
from monitor.evaluate.detect.cohorts_in_order import DetectionPolicy, DetectionState
from monitor.evaluate.detect.detection_inputs import Inputs
from monitor.evaluate.dictionary import CellDictionary
from monitor.evaluate.incidents.book import IncidentBook
from monitor.evaluate.incidents.incidents import Incidents
from monitor.store.database import reading
from monitor.store.evaluator.cells import StoredCells
from monitor.store.evaluator.cluster_days import read_cluster_days
from monitor.store.evaluator.published_tables import ShownCell, shown_cells
from monitor.store.evaluator.stored_detection import (
    CountedCohorts,
    FrozenCohort,
    StoredDetection,
    consumed_hours,
)
from monitor.store.exclusions import excluded_spans

_LAST = 1 << 62


@dataclass(frozen=True, slots=True)
class BacktestPolicy:
    """The contracts that are tried, and what they are tried under.

    Attributes:
        contracts: of all use cases.
        eras: how decisions were coded, by event time.
        completeness: share of requested labels that makes a cohort mature.
        cluster_size: largest number of decisions that hang together.
        since: event time (microseconds) from which on cohorts are taken; None: all that are kept.
        until: event time up to which; None: all.
    """

    contracts: Sequence[Contract]
    eras: CodingHistory
    completeness: Fraction
    cluster_size: int
    since: int | None = None
    until: int | None = None


class _Replayed(CountedCohorts):
    """Cohorts as they were frozen, in place of counts as they are now."""

    def __init__(self, engine: sa.Engine, first: int) -> None:
        super().__init__(engine)
        self._first = first

    def frozen(self, first: int, end: int, *, labels: bool = True) -> list[FrozenCohort]:
        """Those of the hours that are taken."""
        return super().frozen(max(first, self._first), end, labels=labels)

    def counted(self, hours: Sequence[int], *, live: bool) -> list[FrozenCohort]:
        """The cohorts of hours as they were consumed."""
        return self._consumed(hours, live=live, labels=True)

    def decided(self, hours: Sequence[int], *, live: bool) -> list[FrozenCohort]:
        """The decisions of hours as they were consumed."""
        return self._consumed(hours, live=live, labels=False)

    def _consumed(self, hours: Sequence[int], *, live: bool, labels: bool) -> list[FrozenCohort]:
        if not hours:
            return []
        kept, wanted = self.frozen(hours[0], hours[-1] + 1, labels=labels), set(hours)
        return [replace(one, live=live) for one in kept if one.hour in wanted]

    def first_counted(self) -> None:
        """Nothing: label requests and missing labels are not tried, they do not page."""


_Hour = tuple[int, CohortState, bool]
"""Pane index, what became of it, and whether it was live."""


class _Stored(Cohorts):
    """The hours in the order and with the states that they were stored with."""

    def __init__(self, with_labels: Sequence[_Hour], closed: Sequence[_Hour]) -> None:
        super().__init__()
        self._left, self._closed = (
            [(hour, state) for hour, state, _ in reversed(one)] for one in (with_labels, closed)
        )

    def next_cohort(
        self, consumed: int | None, watermark: int, horizon: int, threshold: Fraction
    ) -> tuple[int, CohortState] | None:
        """The hour after the one that was consumed last."""
        del watermark, horizon, threshold
        return _after(consumed, self._left)

    def next_closed(self, after: int | None, watermark: int) -> tuple[int, CohortState] | None:
        """The same of what needs no labels."""
        del watermark
        return _after(after, self._closed)

    @property
    def hours(self) -> range:
        """From the first to the last."""
        first = min(one[-1][0] for one in (self._left, self._closed) if one)
        return range(first, max(one[0][0] for one in (self._left, self._closed) if one) + 1)

    def labels_due(self, watermark: int, horizon: int) -> None:
        """Nothing: checks of missing labels are not tried."""
        del watermark, horizon


def _after(
    consumed: int | None, left: list[tuple[int, CohortState]]
) -> tuple[int, CohortState] | None:
    """The first hour after another, of those in ``left`` (the first is its last)."""
    while left and consumed is not None and left[-1][0] <= consumed:
        left.pop()
    return left[-1] if left else None


def backtest(
    engine: sa.Engine, policy: BacktestPolicy, progress: Callable[[int, int], None]
) -> Backtest:
    """Try contracts on the stored cohorts.

    Args:
        engine: the store; nothing is written.
        policy: what is tried.
        progress: called after every day of cohorts with the hours that are done, and all of them.

    Returns:
        Pages and tickets by when they would have come. Slices that no published table shows are
        withheld, and times are given to the day.
    """
    with reading(engine) as connection:
        with_labels, closed = (
            [one for one in consumed_hours(connection, labels=labels) if one[0] in _hours(policy)]
            for labels in (True, False)
        )
        shown = shown_cells(connection)
    labelled = {hour for hour, *_ in with_labels}
    # What needs no labels is ahead: its last hours have no labels yet.
    hours = [*with_labels, *(one for one in closed if one[0] not in labelled)]
    tried = _Stored(with_labels, closed)
    found = _incidents(engine, policy, tried, progress) if hours else []
    return Backtest(
        start=pane_start(hours[0][0], Grain.HOUR) if hours else None,
        end=pane_start(hours[-1][0] + 1, Grain.HOUR) if hours else None,
        hours=len(hours),
        left_out=sum(state is not CohortState.CONSUMED for _, state, _ in hours),
        bulk=sum(not live for *_, live in hours),
        incidents=tuple(_told(one, shown, policy) for one in found),
    )


def _hours(policy: BacktestPolicy) -> range:
    first = -_LAST if policy.since is None else pane_of(policy.since, Grain.HOUR)
    return range(first, _LAST if policy.until is None else pane_of(policy.until, Grain.HOUR))


def _incidents(
    engine: sa.Engine,
    policy: BacktestPolicy,
    tried: _Stored,
    progress: Callable[[int, int], None],
) -> list[Incident]:
    """The incidents of the stored hours, by id, as they stand at the end."""
    incidents = _fresh(policy)
    detection, hours = incidents.detection, tried.hours
    with reading(engine) as connection:
        inputs = Inputs(
            _Replayed(engine, hours.start),
            CellDictionary(StoredCells(engine)).index,
            excluded_spans(connection),
            ClusterDays(read_cluster_days(connection)),
        )
    known: dict[int, Incident] = {}
    before = detection.turns
    while (change := detection.step(inputs, tried, _LAST, 0)) is not None:
        followed = incidents.follow(change, inputs, before)
        known |= {one.id: one for one in (*followed.opened, *followed.changed)}
        before = detection.turns
        newest = max(one for one in before if one is not None)
        progress(newest + 1 - hours.start, len(hours))
    return [known[number] for number in sorted(known)]


def _fresh(policy: BacktestPolicy) -> Incidents:
    """Detectors and incidents that have seen nothing yet."""
    detection = DetectionState.load(
        StoredDetection(),
        DetectionPolicy(
            contracts=policy.contracts,
            coding=policy.eras.newest,
            completeness=policy.completeness,
            live=True,
            cluster_size=policy.cluster_size,
        ),
    )
    return Incidents(detection, policy.eras, IncidentBook())


def _told(one: Incident, shown: Collection[ShownCell], policy: BacktestPolicy) -> BacktestIncident:
    (contract,) = (known for known in policy.contracts if known.name == one.contract)
    visible = one.slice is not None and (
        (one.contract, one.group_by or "", one.slice, one.metric) in shown
    )
    return BacktestIncident(
        severity=severity_of(one.kind, contract.role(one.metric)),
        contract=one.contract,
        metric=one.metric,
        group_by=(one.group_by or "") if visible else "",
        slice=(one.slice or "") if visible else WITHHELD,
        since=_day(one.opened_at),
        resolved=None if one.resolved_at is None else _day(one.resolved_at),
    )


def _day(at: int) -> int:
    return at - at % DAY
