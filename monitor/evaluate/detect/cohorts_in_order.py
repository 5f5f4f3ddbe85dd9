"""Detection between cycles: which cohort comes next, what it moves, and which pages end.

Cohorts are consumed strictly in order. Consumed cohorts are frozen and committed together with the
new state of the detectors, so a restart or another evaluator comes to the same decisions. An hour
has two turns, each with a cursor of its own. Limits without labels consume it as soon as it is
closed (:mod:`~monitor.evaluate.detect.closed_hours`); the others once its labels are in, which is
never earlier. Label requests wait for no labels either.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from itertools import takewhile
from typing import NamedTuple

from monitor.core.counts.cells import Counts, merge
from monitor.core.counts.completeness import CohortState
from monitor.core.counts.rollup import roll_up
from monitor.core.metric import Metric
from monitor.core.time import DAY, Grain, pane_of, pane_start
from monitor.detection.advisory.advisors import Advisors
from monitor.detection.pages.budget import resolved
from monitor.detection.pages.declared import DetectorSettings
from monitor.detection.pages.page_tests import LABELLED, HourCohort, PageTests, scoped
from monitor.detection.pages.streams import Stream
from monitor.evaluate.cohorts import Cohorts
from monitor.evaluate.detect.closed_hours import ClosedHours
from monitor.evaluate.detect.crossings import Crossings, StepChanges
from monitor.evaluate.detect.detection_inputs import HourTurn, Inputs
from monitor.evaluate.detect.request_checks import RequestChecks
from monitor.evaluate.detect.slice_label_checks import SliceLabelChecks
from monitor.store.evaluator.stored_detection import (
    Crossing,
    DetectionChange,
    FrozenCohort,
    StoredDetection,
)

log = logging.getLogger("slicewatch.evaluate")

RESOLVE_SPAN = 7 * DAY
"""Span of cohorts that a page is resolved by: older ones say little about now."""


@dataclass(frozen=True, slots=True)
class DetectionPolicy(DetectorSettings):
    """Settings of detection: those of its detectors, and which cohorts feed them.

    Bets are divided by the largest counted unit if that is larger than ``cluster_size``.

    Attributes:
        completeness: share of requested labels that makes a cohort mature.
        live: whether cohorts may page; cohorts loaded in bulk never do.
    """

    _: KW_ONLY
    completeness: Fraction
    live: bool


class NewestTurns(NamedTuple):
    """Newest hours (pane indices) consumed with and without labels; None before the first.

    Attributes:
        labels: newest hour consumed with its labels.
        closed: newest hour consumed without labels.
    """

    labels: int | None
    closed: int | None


@dataclass(slots=True)
class DetectionState:
    """Detectors of the evaluator and their crossings; equal to the stored state.

    Attributes:
        policy: settings of detection.
        fleet: streams of labelled metrics.
        advice: the advisory detectors.
        routes: streams of metrics without labels.
        crossings: crossings of all streams.
        consumed: the newest hour consumed with its labels; None before the first.
        gone: names of stored parts that are no longer declared.
        cluster_size: the divisor of the bets on the newest cohort; None before the first.
    """

    policy: DetectionPolicy
    fleet: PageTests
    advice: Advisors
    routes: ClosedHours
    crossings: Crossings
    consumed: int | None = None
    gone: Collection[str] = ()
    cluster_size: int | None = None

    @classmethod
    def load(cls, stored: StoredDetection, policy: DetectionPolicy) -> DetectionState:
        """Return the detectors and crossings restored from the stored state."""
        fleet, advice = _load_fleet(policy, stored.parts), _load_advisors(policy, stored.parts)
        # Both share one budget, even where its stored state could not be read.
        routes = ClosedHours.load(policy, {**stored.parts, **fleet.budget_part}, stored.closed)
        crossings = Crossings.load(stored, live=policy.live)
        state = cls(policy, fleet, advice, routes, crossings, stored.consumed)
        state.gone = stored.parts.keys() - fleet.names - advice.names - routes.names
        return state

    @property
    def turns(self) -> NewestTurns:
        """Return the newest hours consumed with labels and without."""
        return NewestTurns(self.consumed, self.routes.consumed)

    def until(self, metric: Metric) -> int | None:
        """Return the end of the newest hour consumed for a metric (microseconds), or None."""
        if not metric.labelled:
            return self.routes.until
        return None if self.consumed is None else pane_start(self.consumed + 1, Grain.HOUR)

    def tests(self, metric: Metric) -> PageTests:
        """Return the tests that hold the streams of a metric: with labels, or without."""
        return self.fleet if metric.labelled else self.routes.fleet

    def step(
        self, inputs: Inputs, cohorts: Cohorts, watermark: int, horizon: int
    ) -> DetectionChange | None:
        """Consume due hours of at most one UTC day; return the changes, or None if none is due.

        Args:
            inputs: inputs of cohorts.
            cohorts: completeness of their labels.
            watermark: event time that decisions are complete to.
            horizon: microseconds after which a label is not waited for.

        Returns:
            The changes; None if nothing is due.
        """
        checked, change = self._requests.step(inputs, watermark), StepChanges()
        closed = _turns_of_one_day(
            lambda after: cohorts.next_closed(after, watermark), self.routes.consumed
        )
        self._consume_closed(inputs, list(closed), change)
        labelled = _turns_of_one_day(
            lambda after: cohorts.next_cohort(after, watermark, horizon, self.policy.completeness),
            self.consumed,
        )
        self._consume_labelled(inputs, list(takewhile(self._is_closed, labelled)), change)
        checked |= self._labels.step(inputs, self._labels_due(cohorts, watermark, horizon))
        parts = checked | self._changed_parts(change)
        if not parts and not change.cohorts and not change.closed:
            return None
        return DetectionChange(
            parts=parts,
            dropped=self.gone,
            cohorts=change.cohorts,
            closed=change.closed,
            resolved=change.resolved,
            refreshed=change.refreshed,
            opened=list(change.opened.values()),
            listed=change.listed if self.policy.live else None,
        )

    def plan_ahead(self) -> None:
        """Compute a test plan of the next day in advance, if the newest hour ended its day.

        The state does not change: the first hour of the next day would compute the same plan.
        """
        if self.consumed is not None and _begins_day(self.consumed + 1, self.consumed):
            self.fleet.plan_ahead(_day(self.consumed + 1))

    def parts(self) -> dict[str, bytes]:
        """Return the encoded state of all detectors, by part name."""
        return self.fleet.parts() | self.advice.parts() | self.routes.parts()

    def _changed_parts(self, change: StepChanges) -> dict[str, bytes]:
        """Return the encoded parts of the state that the hours consumed in ``change`` moved."""
        if change.cohorts:
            return self.parts()
        return self.routes.parts() | self.fleet.budget_part if change.closed else {}

    @property
    def _requests(self) -> RequestChecks:
        watches = list(zip(self.policy.contracts, self.advice.watches, strict=True))
        return RequestChecks(watches, len(self.policy.coding.audit_rates))

    @property
    def _labels(self) -> SliceLabelChecks:
        return SliceLabelChecks(list(zip(self.policy.contracts, self.advice.watches, strict=True)))

    def _labels_due(self, cohorts: Cohorts, watermark: int, horizon: int) -> int | None:
        """Return the end (pane index) of hours whose labels are due or consumed, or None."""
        usual = cohorts.labels_due(watermark, horizon)
        consumed = None if self.consumed is None else self.consumed + 1
        return max((end for end in (usual, consumed) if end is not None), default=None)

    def _consume_closed(self, inputs: Inputs, due: Sequence[HourTurn], change: StepChanges) -> None:
        """Feed closed hours of one day to tests without labels; record it in ``change``."""
        if due and _begins_day(due[0][0], self.routes.consumed):
            self._resolve(inputs, due[0][0], change, labels=False)
        for hours in inputs.portions(due):
            for consumed_hour in self.routes.consume(inputs, hours, live=self.policy.live):
                self.crossings.cross(consumed_hour.crossed, consumed_hour.cohort.hour, change)
                change.closed.append(consumed_hour.cohort)

    def _is_closed(self, turn: HourTurn) -> bool:
        """Return True when the hour of a turn was consumed as a closed hour already."""
        return self.routes.consumed is not None and turn[0] <= self.routes.consumed

    def _consume_labelled(
        self, inputs: Inputs, due: Sequence[HourTurn], change: StepChanges
    ) -> None:
        """Feed labelled hours of one day to the detectors; record it in ``change``."""
        if due and _begins_day(due[0][0], self.consumed):
            self._resolve(inputs, due[0][0], change, labels=True)
        for hours in inputs.portions(due):
            self._consume(inputs, hours, change)

    def _consume(self, inputs: Inputs, hours: Sequence[HourTurn], change: StepChanges) -> None:
        live, due = self.policy.live, [hour for hour, state in hours if state is _CONSUMED]
        counted = inputs.cohorts.counted(due, live=live)
        advances = self.fleet.advance(
            [self._cohort(inputs, cohort) for cohort in counted], inputs.index
        )
        for cohort, advance in zip(counted, advances, strict=True):
            self.crossings.cross(advance.crossed, cohort.hour, change)
            self.advice.advance(cohort.hour, advance.use_cases, inputs.index, advance.listed)
            change.listed = change.listed if advance.listed is None else advance.listed
        consumed = {cohort.hour: cohort for cohort in counted}
        turns = (FrozenCohort(hour, state, live) for hour, state in hours)
        change.cohorts += [consumed.get(cohort.hour, cohort) for cohort in turns]
        self.consumed = hours[-1][0]

    def _cohort(self, inputs: Inputs, counted: FrozenCohort) -> HourCohort:
        hour = counted.hour
        self.cluster_size = max(self.policy.cluster_size, inputs.clusters.largest_unit(hour))
        week_end = self.routes.week_before(hour)
        return HourCohort(hour, counted.counts, self.cluster_size, week_end)

    def _resolve(self, inputs: Inputs, hour: int, change: StepChanges, *, labels: bool) -> None:
        """Resolve crossings whose breach or stream is gone; record it in ``change``."""
        standing = self.crossings.standing_of(labels=labels)
        if not standing:
            return
        now = pane_start(hour, Grain.HOUR)
        first = pane_of(now - RESOLVE_SPAN, Grain.HOUR)
        frozen = inputs.cohorts.frozen(first, hour, labels=labels)
        included = [cohort for cohort in frozen if not inputs.excludes(cohort.hour)]
        tests = self.fleet if labels else self.routes.fleet
        declared = {stream.key: stream for stream in tests.streams}
        for crossing in standing:
            stream = declared.get(crossing.stream)
            if stream is None or self._is_over(
                stream, self._since(crossing, stream, included), inputs
            ):
                self.crossings.resolve(crossing, now, change)

    def _since(self, crossing: Crossing, stream: Stream, cohorts: Sequence[FrozenCohort]) -> Counts:
        """Return the counts since a crossing's latest time, or a later change of versions.

        The replaced versions say nothing about whether the page is still right.
        """
        changed = self.advice.changed_at(stream.contract, stream.group_by, stream.slice)
        begin = max(crossing.latest, changed or crossing.latest)
        return merge(
            cohort.counts for cohort in cohorts if pane_start(cohort.hour, Grain.HOUR) >= begin
        )

    def _is_over(self, stream: Stream, counts: Counts, inputs: Inputs) -> bool:
        """Return True if the counts show that a stream's breach is resolved."""
        contract = next(
            declared for declared in self.policy.contracts if declared.name == stream.contract
        )
        scoped_counts = scoped(contract, counts, inputs.index)
        rolled = roll_up(scoped_counts, inputs.index, stream.group_by.split("+"))
        return resolved(stream, rolled, self.policy.coding, contract.limits, contract.k)


def log_detection(change: DetectionChange) -> None:
    """Log opened and resolved crossings by id, without slices and numbers."""
    for crossing in change.opened:
        if crossing.resolved_at is None:
            log.warning("a contract stream has crossed its limit", extra={"crossing": crossing.id})
    for number in change.resolved:
        log.warning("a crossing is resolved", extra={"crossing": number})


_CONSUMED = CohortState.CONSUMED


def _turns_of_one_day(
    due: Callable[[int | None], HourTurn | None], consumed: int | None
) -> Iterator[HourTurn]:
    """Yield the due hours after ``consumed`` with their states, of one UTC day at most.

    Args:
        due: returns the hour after a given one and its state; None while it must be waited for.
        consumed: the newest consumed hour.
    """
    day = None
    while (turn := due(consumed)) is not None and day in (None, _day(turn[0])):
        consumed, day = turn[0], _day(turn[0])
        yield turn


def _begins_day(hour: int, consumed: int | None) -> bool:
    return consumed is None or _day(hour) != _day(consumed)


def _day(hour: int) -> int:
    return pane_of(pane_start(hour, Grain.HOUR), Grain.DAY)


def _load_fleet(settings: DetectorSettings, parts: Mapping[str, bytes]) -> PageTests:
    try:
        return PageTests.start(settings, parts, LABELLED)
    except ValueError:
        log.warning("the detectors begin anew: their stored state is of another version")
        return PageTests.start(settings, turn=LABELLED)


def _load_advisors(settings: DetectorSettings, parts: Mapping[str, bytes]) -> Advisors:
    advice = Advisors.start(settings, parts)
    if advice.renewed:
        log.warning("some advisory detectors begin anew: their stored state cannot be continued")
    return advice
