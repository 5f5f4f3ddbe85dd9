"""Incidents of all contracts: opened from crossings, acted on by people, shown on pages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

from monitor.core.contract import Contract, Metric
from monitor.core.counts.cells import Counts, merge
from monitor.core.counts.coding import CodingHistory
from monitor.core.publish.calendar_rates import UseCaseTables
from monitor.core.publish.incidents import Incident
from monitor.core.publish.snapshot import ContractTable, ShownIncident
from monitor.core.publish.words import sampling_text
from monitor.core.time import DAY, Grain, pane_of, pane_start
from monitor.detection.diagnosis.explain import BreachCause, explain
from monitor.detection.pages.page_tests import scoped
from monitor.detection.pages.streams import Stream
from monitor.evaluate.detect.cohorts_in_order import DetectionState, NewestTurns
from monitor.evaluate.detect.detection_inputs import Inputs
from monitor.evaluate.incidents.book import IncidentBook, IncidentStep, RowExtras
from monitor.evaluate.incidents.shown import IncidentView, ShownIncidents, TableContext
from monitor.store.evaluator.stored_detection import DetectionChange, FrozenCohort
from monitor.store.evaluator.stored_incidents import IncidentChange, merged

BEFORE = 7 * DAY
"""Time before a crossing in which its causes are looked for: a gap that takes longer to be found is
so small that its onset shows little."""

WEEK = 7 * DAY

_DAY, _QUARTER = 24, 6  # hours

_LAST = 1 << 62

LONGEST = 28 * DAY
"""Cohorts older than this say nothing of an incident that is still open."""


@dataclass(slots=True)
class Incidents:
    """The incidents of all contracts, for the evaluator and for whoever makes tables.

    Attributes:
        detection: the detectors.
        eras: how decisions were coded, by event time.
        book: the incidents.
        now: wall clock of this cycle.
    """

    detection: DetectionState
    eras: CodingHistory
    book: IncidentBook
    now: int = 0
    _first_shown: dict[int, Incident] = field(default_factory=dict)

    def apply_acts(self) -> tuple[IncidentChange, DetectionChange] | None:
        """Carry out what people decided; None where nothing ends by it."""
        change, gone = self.book.close(self._until, self.now)
        if not change.changed:
            return None
        return change, self.detection.crossings.close(gone, self._until)

    def follow(
        self, change: DetectionChange, inputs: Inputs, before: NewestTurns
    ) -> IncidentChange:
        """Let them open, grow and end after the detectors.

        Args:
            change: what the detectors have come to, before it is committed.
            inputs: what cohorts are made of.
            before: the newest hours that had had their turn before.
        """
        around = self._around(inputs, change)
        done = [
            self.book.follow(self._step(change, cohorts, last, labels=labels), around)
            for labels, cohorts, last in (
                (False, change.closed, before.closed),
                (True, change.cohorts, before.labels),
            )
            if cohorts
        ]
        return merged(done)

    def _until(self, metric: Metric) -> int:
        return self.detection.until(metric) or 0

    def _step(
        self,
        change: DetectionChange,
        cohorts: Sequence[FrozenCohort],
        before: int | None,
        *,
        labels: bool,
    ) -> IncidentStep:
        """What metrics that rest on labels have come to, or those that do not."""
        first = cohorts[0].hour
        begin = pane_start(first, Grain.HOUR)
        opened = [one for one in change.opened if one.resolved_at is None]
        known = {one.id: one.stream for one in (*self.book.crossings.values(), *change.opened)}
        return IncidentStep(
            opened=[one for one in opened if rests_on_labels(one.stream) is labels],
            resolved={
                number: at
                for number, at in change.resolved.items()
                if rests_on_labels(known.get(number, "")) is labels
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
        """Those of one contract, as they may be shown with its table.

        Args:
            table: of the contract, as published.
            contract: whose incidents.
            published: tables of its use case; they say which slices may be named.
        """
        standing = [one for one in self.book.standing.values() if one.contract == contract.name]
        if not standing:
            return ()
        frontier, now = (_end(table, labels=labels) for labels in (True, False))
        changed_at = partial(self.detection.advice.changed_at, contract.name)
        beside = TableContext(
            contract, self._sampling(contract), now or 0, frontier, changed_at, published.show
        )
        pages = ShownIncidents(table, beside)
        known = [
            IncidentView(one, self.book.how(one, self.now), self.book.streams(one))
            for one in standing
        ]
        return pages.shown(self._seen(one, pages) for one in known)

    def taken(self) -> IncidentChange:
        """Take the incidents of which values were first shown since the last call."""
        changed, self._first_shown = self._first_shown, {}
        return IncidentChange(changed=[changed[number] for number in sorted(changed)])

    def stored(self, number: int) -> None:
        """Note that a Snapshot with all open incidents was stored under a number."""
        for one in list(self.book.standing.values()):
            if one.snapshot is None:
                self.book.put(replace(one, snapshot=number))

    @property
    def stands(self) -> tuple[tuple[int, str], ...]:
        """State of each open incident by id: pages change with it even when no count does."""
        standing = self.book.standing.values()
        return tuple((one.id, self.book.how(one, self.now).state.value) for one in standing)

    def _repaired(self, since: int) -> set[str]:
        """Keys of the streams whose breach was resolved since; those without labels are ahead."""
        ended = self.detection.crossings.ended
        return {one.stream for one in ended if one.resolved_at and since < one.resolved_at}

    def _seen(self, known: IncidentView, pages: ShownIncidents) -> IncidentView:
        """Keep what is shown of a slice for the first time."""
        if known.incident.first is not None or (value := pages.value(known)) is None:
            return known
        seen = replace(known.incident, first=value)
        self.book.put(seen)
        self._first_shown[seen.id] = seen
        return replace(known, incident=seen)

    def _around(self, inputs: Inputs, fresh: DetectionChange) -> RowExtras:
        changes = [era.start for era in self.eras.eras[1:]]
        changes += [c.effective for c in self.detection.policy.contracts if c.effective is not None]
        return RowExtras(
            explain=_Recent(self.detection, inputs, fresh).explain,
            versions_changed_at=self.detection.advice.changed_at,
            settings_changed_at=changes,
            now=self.now,
        )

    def _sampling(self, contract: Contract) -> str:
        """Sampling of the labels, in words."""
        return sampling_text(*self.detection.fleet.sampling(contract))


@dataclass(slots=True)
class _Recent:
    """Finds the causes of crossings in the cohorts of the last days.

    Those of rates that need no labels are found in what was decided, as their tests consumed it.
    """

    detection: DetectionState
    inputs: Inputs
    fresh: DetectionChange
    _cohorts: dict[bool, list[FrozenCohort]] = field(default_factory=dict)

    def explain(
        self, crossed: Collection[Stream], first: int, until: int
    ) -> tuple[BreachCause, ...]:
        policy = self.detection.policy
        (name,) = {stream.contract for stream in crossed}
        contract = next(one for one in policy.contracts if one.name == name)
        index, since = self.inputs.index, max(first - BEFORE, until - LONGEST)
        hours = range(pane_of(since, Grain.HOUR), pane_of(until, Grain.HOUR))
        labels = any(stream.metric.labelled for stream in crossed)
        known = self._read(hours.start, labels=labels)
        recent = [one for one in known if one.hour in hours]
        panes = [scoped(contract, pane, index) for pane in _panes(recent, hours.stop)]
        return explain(crossed, contract, policy.coding, panes, index).causes

    def _read(self, first: int, *, labels: bool) -> list[FrozenCohort]:
        """Cohorts from an hour on, those of this step too; what was read once is kept."""
        known = self._cohorts.get(labels)
        if not known or known[0].hour > first:
            fresh = self.fresh.cohorts if labels else self.fresh.closed
            end = fresh[0].hour if fresh else _LAST
            stored = self.inputs.cohorts.frozen(first, end, labels=labels)
            known = [x for x in (*stored, *fresh) if not self.inputs.excludes(x.hour)]
            self._cohorts[labels] = known
        return known


def _panes(cohorts: Sequence[FrozenCohort], end: int) -> Iterator[Counts]:
    """Days back from an hour, the last of them in quarters: a large gap is found within hours."""
    newest = end - _DAY

    def pane(one: FrozenCohort) -> int:
        return (one.hour - newest) // (_DAY if one.hour < newest else _QUARTER)

    for _, cohort in groupby(cohorts, key=pane):
        yield merge(one.counts for one in cohort)


def rests_on_labels(key: str) -> bool:
    """Return True for a stream of a labelled metric, or one whose name was removed."""
    return not key or Stream.parse(key).metric.labelled


def _day(hour: int) -> int:
    return pane_of(pane_start(hour, Grain.HOUR), Grain.DAY)


def _end(table: ContractTable, *, labels: bool) -> int | None:
    """End of the periods of the total."""
    periods = [one.labelled if labels else one.decisions for one in table.windows]
    return max((one.end for one in periods if one is not None), default=None)
