"""Backtest: the detectors and incidents of a contract over the stored cohorts.

The code is that of the service; it starts with the oldest stored cohort and writes nothing. The
service's own contract reproduces the pages that were sent, because consumed cohorts are frozen. It
does so only while every cohort since its beginning is kept and nobody has closed an incident.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import sqlalchemy as sa

from monitor.core.contract import Contract
from monitor.core.counts.coding import CodingHistory
from monitor.core.counts.completeness import CohortState
from monitor.core.publish.backtests import Backtest, BacktestIncident
from monitor.core.publish.incidents import Incident
from monitor.core.publish.snapshot import WITHHELD
from monitor.core.time import DAY, Grain, pane_of, pane_start
from monitor.detection.pages.streams import Stream, severity_of
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
    """Contracts that a backtest tries, and the settings under which it tries them.

    Attributes:
        contracts: contracts of all use cases.
        eras: how decisions were coded, by event time.
        completeness: share of requested labels that makes a cohort mature.
        cluster_size: largest number of decisions that depend on each other.
        since: first event time (microseconds); None: from the oldest stored cohort on.
        until: event time before which cohorts are taken; None: all.
    """

    contracts: Sequence[Contract]
    eras: CodingHistory
    completeness: Fraction
    cluster_size: int
    since: int | None = None
    until: int | None = None


class _FrozenCohorts(CountedCohorts):
    """Reader of cohorts for a backtest: as they were frozen, in place of the present counts."""

    def __init__(self, engine: sa.Engine, first: int) -> None:
        super().__init__(engine)
        self._first = first

    def frozen(self, first: int, end: int, *, labels: bool = True) -> list[FrozenCohort]:
        """Return frozen cohorts of hours ``first`` to ``end``, none before the backtest's start."""
        return super().frozen(max(first, self._first), end, labels=labels)

    def counted(self, hours: Sequence[int], *, live: bool) -> list[FrozenCohort]:
        """Return the frozen cohorts of these hours, with labels, marked as ``live``."""
        return self._consumed(hours, live=live, labels=True)

    def decided(self, hours: Sequence[int], *, live: bool) -> list[FrozenCohort]:
        """Return the frozen cohorts of these hours, decisions alone, marked as ``live``."""
        return self._consumed(hours, live=live, labels=False)

    def _consumed(self, hours: Sequence[int], *, live: bool, labels: bool) -> list[FrozenCohort]:
        if not hours:
            return []
        cohorts, due = self.frozen(hours[0], hours[-1] + 1, labels=labels), set(hours)
        return [replace(cohort, live=live) for cohort in cohorts if cohort.hour in due]

    def first_counted(self) -> None:
        """Return None: label requests and missing labels do not page, so they are not tried."""


_Hour = tuple[int, CohortState, bool]
"""Pane index, state of the cohort, and whether it was live."""


class _StoredTurns(Cohorts):
    """Stand-in for Cohorts: returns the stored hours in order, with their stored states."""

    def __init__(self, with_labels: Sequence[_Hour], closed: Sequence[_Hour]) -> None:
        super().__init__()
        self._left, self._closed = (
            [(hour, state) for hour, state, _ in reversed(turns)] for turns in (with_labels, closed)
        )

    def next_cohort(
        self, consumed: int | None, watermark: int, horizon: int, threshold: Fraction
    ) -> tuple[int, CohortState] | None:
        """Return the first labelled hour after ``consumed`` and its state; None after the last."""
        del watermark, horizon, threshold
        return _first_after(consumed, self._left)

    def next_closed(self, after: int | None, watermark: int) -> tuple[int, CohortState] | None:
        """Return the first closed hour after ``after`` and its state; None after the last."""
        del watermark
        return _first_after(after, self._closed)

    @property
    def hours(self) -> range:
        """Return the range of pane indices from the first to the last stored hour."""
        first = min(turns[-1][0] for turns in (self._left, self._closed) if turns)
        return range(first, max(turns[0][0] for turns in (self._left, self._closed) if turns) + 1)

    def labels_due(self, watermark: int, horizon: int) -> None:
        """Return None: checks of missing labels are not tried."""
        del watermark, horizon


def _first_after(
    consumed: int | None, left: list[tuple[int, CohortState]]
) -> tuple[int, CohortState] | None:
    """Return the first hour after ``consumed`` with its state, or None; remove passed hours.

    ``left`` holds the hours in reverse.
    """
    while left and consumed is not None and left[-1][0] <= consumed:
        left.pop()
    return left[-1] if left else None


def backtest(
    engine: sa.Engine, policy: BacktestPolicy, progress: Callable[[int, int], None]
) -> Backtest:
    """Return the pages and tickets that contracts would have caused over the stored cohorts.

    Args:
        engine: the store; nothing is written.
        policy: contracts and settings.
        progress: called after each day of cohorts with the number of hours done, and of all hours.

    Returns:
        The pages and tickets with their times, rounded down to the day. Slices that no published
        table shows are withheld.
    """
    with reading(engine) as connection:
        with_labels, closed = (
            [
                turn
                for turn in consumed_hours(connection, labels=labels)
                if turn[0] in _hours(policy)
            ]
            for labels in (True, False)
        )
        shown = shown_cells(connection)
    labelled = {hour for hour, *_ in with_labels}
    # Closed hours run ahead: the last ones have no labels yet.
    hours = [*with_labels, *(turn for turn in closed if turn[0] not in labelled)]
    replayed = _StoredTurns(with_labels, closed)
    incidents = _incidents(engine, policy, replayed, progress) if hours else ()
    return Backtest(
        start=pane_start(hours[0][0], Grain.HOUR) if hours else None,
        end=pane_start(hours[-1][0] + 1, Grain.HOUR) if hours else None,
        hours=len(hours),
        left_out=sum(state is not CohortState.CONSUMED for _, state, _ in hours),
        bulk=sum(not live for *_, live in hours),
        incidents=tuple(
            _backtest_incident(incident, streams, shown, policy) for incident, streams in incidents
        ),
    )


def _hours(policy: BacktestPolicy) -> range:
    first = -_LAST if policy.since is None else pane_of(policy.since, Grain.HOUR)
    return range(first, _LAST if policy.until is None else pane_of(policy.until, Grain.HOUR))


def _incidents(
    engine: sa.Engine,
    policy: BacktestPolicy,
    replayed: _StoredTurns,
    progress: Callable[[int, int], None],
) -> Iterator[tuple[Incident, list[Stream]]]:
    """Replay the stored hours; yield their final incidents, by id, with all that crossed."""
    incidents = _initial_incidents(policy)
    detection, hours = incidents.detection, replayed.hours
    with reading(engine) as connection:
        inputs = Inputs(
            _FrozenCohorts(engine, hours.start),
            CellDictionary(StoredCells(engine)).index,
            excluded_spans(connection),
            ClusterDays(read_cluster_days(connection)),
        )
    by_number: dict[int, Incident] = {}
    crossed: dict[int, Stream] = {}
    before = detection.turns
    while (change := detection.step(inputs, replayed, _LAST, 0)) is not None:
        followed = incidents.follow(change, inputs, before)
        by_number |= {incident.id: incident for incident in (*followed.opened, *followed.changed)}
        crossed |= {crossing.id: Stream.parse(crossing.stream) for crossing in change.opened}
        before = detection.turns
        newest = max(hour for hour in before if hour is not None)
        progress(newest + 1 - hours.start, len(hours))
    for _, incident in sorted(by_number.items()):
        yield incident, [crossed[number] for number in incident.crossings]


def _initial_incidents(policy: BacktestPolicy) -> Incidents:
    """Return Incidents whose detectors have consumed nothing, with an empty book."""
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


def _backtest_incident(
    incident: Incident,
    streams: Iterable[Stream],
    shown_cells: Collection[ShownCell],
    policy: BacktestPolicy,
) -> BacktestIncident:
    """Return an incident to print; its slice is withheld unless a published table shows it."""
    (contract,) = (declared for declared in policy.contracts if declared.name == incident.contract)
    visible = incident.slice is not None and (
        (incident.contract, incident.group_by or "", incident.slice, incident.metric) in shown_cells
    )
    return BacktestIncident(
        severity=severity_of(incident.kind, streams, contract),
        contract=incident.contract,
        metric=incident.metric,
        group_by=(incident.group_by or "") if visible else "",
        slice=(incident.slice or "") if visible else WITHHELD,
        since=_day(incident.opened_at),
        resolved=None if incident.resolved_at is None else _day(incident.resolved_at),
    )


def _day(at: int) -> int:
    return at - at % DAY
