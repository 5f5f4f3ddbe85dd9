"""Incidents of all contracts: opened from crossings, acted on by people, shown on pages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

from monitor.core.contract import Contract
from monitor.core.counts.cells import Counts, merge
from monitor.core.counts.coding import Coding, CodingHistory
from monitor.core.counts.rollup import CellIndex
from monitor.core.metric import Metric
from monitor.core.publish.calendar_rates import UseCaseTables
from monitor.core.publish.incidents import Incident
from monitor.core.publish.snapshot import ContractTable, ShownIncident
from monitor.core.publish.words import sampling_text
from monitor.core.time import DAY, Grain, pane_of, pane_start
from monitor.detection.diagnosis.explain import BreachCause, began_together, explain
from monitor.detection.pages.page_tests import scoped
from monitor.detection.pages.streams import Stream
from monitor.evaluate.detect.cohorts_in_order import DetectionState, NewestTurns
from monitor.evaluate.detect.detection_inputs import Inputs
from monitor.evaluate.incidents.book import IncidentBook, IncidentStep, RowExtras
from monitor.evaluate.incidents.shown import IncidentView, ShownIncidents, TableContext
from monitor.store.evaluator.stored_detection import DetectionChange, FrozenCohort
from monitor.store.evaluator.stored_incidents import IncidentChange, merged

BEFORE = 7 * DAY
"""Span before a crossing that is searched for its causes. A gap that takes longer to be found is so
small that its onset hardly shows."""

WEEK = 7 * DAY

_DAY, _QUARTER = 24, 6  # hours

_LAST = 1 << 62

LONGEST = 28 * DAY
"""Longest span searched: older cohorts say nothing about an incident that is still open."""


@dataclass(slots=True)
class Incidents:
    """Incidents of all contracts: the evaluator moves them, the publisher shows them.

    Attributes:
        detection: the detectors.
        eras: how decisions were coded, by event time.
        now: wall clock of the present cycle.
    """

    detection: DetectionState
    eras: CodingHistory
    book: IncidentBook
    now: int = 0
    _first_shown: dict[int, Incident] = field(default_factory=dict)

    def apply_acts(self) -> tuple[IncidentChange, DetectionChange] | None:
        """End incidents and crossings that people closed; return both changes, or None."""
        change, crossing_ids = self.book.close(self._until, self.now)
        if not change.changed:
            return None
        return change, self.detection.crossings.close(crossing_ids, self._until)

    def follow(
        self, change: DetectionChange, inputs: Inputs, before: NewestTurns
    ) -> IncidentChange:
        """Open, extend and end incidents after a step of the detectors; return the changes.

        Args:
            change: the detectors' step, not committed yet.
            inputs: the inputs of that step.
            before: the newest hours that were consumed before it.
        """
        extras = self._extras(inputs, change)
        changes = [
            self.book.follow(self._step(change, cohorts, last, labels=labels), extras)
            for labels, cohorts, last in (
                (False, change.closed, before.closed),
                (True, change.cohorts, before.labels),
            )
            if cohorts
        ]
        return merged(changes)

    def _until(self, metric: Metric) -> int:
        """Return the end of the hours that a metric was tested in (microseconds); 0 before any."""
        return self.detection.until(metric) or 0

    def _step(
        self,
        change: DetectionChange,
        cohorts: Sequence[FrozenCohort],
        before: int | None,
        *,
        labels: bool,
    ) -> IncidentStep:
        """Return the IncidentStep of a detection step, for labelled or unlabelled metrics."""
        first = cohorts[0].hour
        begin = pane_start(first, Grain.HOUR)
        opened = [crossing for crossing in change.opened if crossing.resolved_at is None]
        stream_keys = {
            crossing.id: crossing.stream
            for crossing in (*self.book.crossings.values(), *change.opened)
        }
        return IncidentStep(
            opened=[crossing for crossing in opened if needs_labels(crossing.stream) is labels],
            resolved={
                number: resolved_at
                for number, resolved_at in change.resolved.items()
                if needs_labels(stream_keys.get(number, "")) is labels
            },
            listed=change.listed if labels else None,
            repaired=self._repaired(begin - WEEK),
            begin=begin,
            new_day=before is not None and _day(first) != _day(before),
            labels=labels,
        )

    def shown(
        self, table: ContractTable, contract: Contract, published: UseCaseTables
    ) -> tuple[ShownIncident, ...]:
        """Return a contract's open incidents as its table may show them; keep first values.

        Args:
            table: the published table.
            contract: the contract.
            published: tables of its use case; they decide which slices may be named.
        """
        incidents = [
            incident
            for incident in self.book.standing.values()
            if incident.contract == contract.name
        ]
        if not incidents:
            return ()
        frontier, now = (_end(table, labels=labels) for labels in (True, False))
        changed_at = partial(self.detection.advice.changed_at, contract.name)
        sampling = sampling_text(*self.detection.fleet.sampling(contract))
        context = TableContext(contract, sampling, now or 0, frontier, changed_at, published.show)
        pages = ShownIncidents(table, context)
        views = [
            IncidentView(
                incident,
                self.book.standing_of(incident, self.now),
                self.book.streams(incident),
                contract,
            )
            for incident in incidents
        ]
        return pages.shown(self._with_first_value(view, pages) for view in views)

    def take_first_shown(self) -> IncidentChange:
        """Return and clear the incidents whose value was first shown since the last call."""
        changed, self._first_shown = self._first_shown, {}
        return IncidentChange(changed=[changed[number] for number in sorted(changed)])

    def note_snapshot(self, number: int) -> None:
        """Record the Snapshot's number on open incidents that have none."""
        for incident in list(self.book.standing.values()):
            if incident.snapshot is None:
                self.book.put(replace(incident, snapshot=number))

    @property
    def states(self) -> tuple[tuple[int, str], ...]:
        """Return (id, state text) of each open incident.

        Pages change with these states even when no count does.
        """
        standing = self.book.standing.values()
        return tuple(
            (incident.id, self.book.standing_of(incident, self.now).state.value)
            for incident in standing
        )

    def _repaired(self, since: int) -> set[str]:
        """Return the keys of streams whose breach was resolved after ``since``."""
        ended = self.detection.crossings.ended
        return {
            crossing.stream
            for crossing in ended
            if crossing.resolved_at and since < crossing.resolved_at
        }

    def _with_first_value(self, view: IncidentView, pages: ShownIncidents) -> IncidentView:
        """Return the view with its first published value; keep a value that is new."""
        if view.incident.first is not None or (value := pages.value(view)) is None:
            return view
        incident = replace(view.incident, first=value)
        self.book.put(incident)
        self._first_shown[incident.id] = incident
        return replace(view, incident=incident)

    def _extras(self, inputs: Inputs, fresh: DetectionChange) -> RowExtras:
        settings_changed_at = [era.start for era in self.eras.eras[1:]]
        settings_changed_at += [
            contract.effective
            for contract in self.detection.policy.contracts
            if contract.effective is not None
        ]
        finder = _CauseFinder(self.detection, inputs, fresh)
        return RowExtras(
            explain=finder.explain,
            together=finder.together,
            versions_changed_at=self.detection.advice.changed_at,
            settings_changed_at=settings_changed_at,
            now=self.now,
        )


@dataclass(slots=True)
class _CauseFinder:
    """Finder of causes: explains crossings by the cohorts of the last days.

    Crossings of unlabelled metrics are explained by the decisions that their tests consumed.
    """

    detection: DetectionState
    inputs: Inputs
    fresh: DetectionChange
    _cohorts: dict[bool, list[FrozenCohort]] = field(default_factory=dict)

    def explain(
        self, crossed: Collection[Stream], first: int, until: int
    ) -> tuple[BreachCause, ...]:
        """Return the causes of crossings by the cohorts from a week before the first one."""
        stream, since = next(iter(crossed)), max(first - BEFORE, until - LONGEST)
        return explain(crossed, *self._evidence(stream, since, until)).causes

    def together(self, slices: tuple[str, str], stream: Stream, until: int) -> bool:
        """Return True if two slices became worse at one time, by all recent cohorts."""
        evidence = self._evidence(stream, until - LONGEST, until)
        return began_together(stream, *evidence, slices=slices)

    def _evidence(
        self, stream: Stream, since: int, until: int
    ) -> tuple[Contract, Coding, list[Counts], CellIndex]:
        """Return a stream's contract, the coding, the cohorts of a time as panes, and the index."""
        policy, index = self.detection.policy, self.inputs.index
        contract = next(
            contract for contract in policy.contracts if contract.name == stream.contract
        )
        hours = range(pane_of(since, Grain.HOUR), pane_of(until, Grain.HOUR))
        cohorts = self._read(hours.start, labels=stream.metric.labelled)
        recent = [cohort for cohort in cohorts if cohort.hour in hours]
        panes = [scoped(contract, pane, index) for pane in _panes(recent, hours.stop)]
        return contract, policy.coding, panes, index

    def _read(self, first: int, *, labels: bool) -> list[FrozenCohort]:
        """Return the cohorts since hour ``first``, stored and of this step; skip excluded hours."""
        cohorts = self._cohorts.get(labels)
        if not cohorts or cohorts[0].hour > first:
            fresh = self.fresh.cohorts if labels else self.fresh.closed
            end = fresh[0].hour if fresh else _LAST
            stored = self.inputs.cohorts.frozen(first, end, labels=labels)
            cohorts = [
                cohort for cohort in (*stored, *fresh) if not self.inputs.excludes(cohort.hour)
            ]
            self._cohorts[labels] = cohorts
        return cohorts


def _panes(cohorts: Sequence[FrozenCohort], end: int) -> Iterator[Counts]:
    """Yield the merged counts of each day of cohorts, and of six-hour quarters of the last day."""
    newest = end - _DAY

    def pane(cohort: FrozenCohort) -> int:
        return (cohort.hour - newest) // (_DAY if cohort.hour < newest else _QUARTER)

    for _, group in groupby(cohorts, key=pane):
        yield merge(cohort.counts for cohort in group)


def needs_labels(key: str) -> bool:
    """Return True if a stream's key is of a labelled metric, or empty (its name was removed)."""
    return not key or Stream.parse(key).metric.labelled


def _day(hour: int) -> int:
    return pane_of(pane_start(hour, Grain.HOUR), Grain.DAY)


def _end(table: ContractTable, *, labels: bool) -> int | None:
    """Return the end of the newest labelled or decisions period of the totals, or None."""
    periods = [window.labelled if labels else window.decisions for window in table.windows]
    return max((period.end for period in periods if period is not None), default=None)
