"""Detection between cycles: which cohort comes next, what it moves, and which pages end.

Cohorts are consumed strictly in order. What was consumed is frozen and committed with the state
that it moved the detectors to, so a restart or another evaluator goes on to the same decisions.
Hours have two turns, each with a cursor of its own: for limits that need no labels as soon as they
are closed (:mod:`~monitor.evaluate.detect.closed_hours`), and with their labels once these are in,
which is never before. Label requests wait for no labels either.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import takewhile
from typing import NamedTuple

from monitor.core.contract import Contract, Metric
from monitor.core.counts.cells import Counts, merge
from monitor.core.counts.coding import Coding
from monitor.core.counts.completeness import CohortState
from monitor.core.counts.rollup import roll_up
from monitor.core.time import DAY, Grain, pane_of, pane_start
from monitor.detection.advisory.advisors import Advisors
from monitor.detection.pages.budget import resolved
from monitor.detection.pages.declared import DetectorSettings
from monitor.detection.pages.page_tests import LABELLED, HourCohort, PageTests, scoped
from monitor.detection.pages.streams import Stream
from monitor.evaluate.cohorts import Cohorts
from monitor.evaluate.detect.closed_hours import ClosedHours
from monitor.evaluate.detect.crossings import Changing, Crossings
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
"""Cohorts since the last crossing that a page is resolved by: what is older says little of now."""


@dataclass(frozen=True, slots=True)
class DetectionPolicy:
    """Settings of detection: the contracts, and which cohorts feed the detectors.

    Attributes:
        contracts: of all use cases.
        coding: the present one.
        completeness: share of requested labels that makes a cohort mature.
        live: whether cohorts may page; what is loaded in bulk never does.
        cluster_size: largest number of decisions that hang together; bets are divided by the
            largest unit that was counted instead, where that is larger.
    """

    contracts: Sequence[Contract]
    coding: Coding
    completeness: Fraction
    live: bool
    cluster_size: int


class NewestTurns(NamedTuple):
    """The newest hours whose turn has come; None before the first.

    Attributes:
        labels: with its labels.
        closed: for what needs none.
    """

    labels: int | None
    closed: int | None


@dataclass(slots=True)
class DetectionState:
    """The detectors; always equal to what the store holds.

    Attributes:
        policy: settings of detection.
        fleet: the streams that rest on labels.
        advice: the advisory detectors.
        routes: the streams that need no labels.
        crossings: of all streams.
        consumed: the newest hour whose turn has come with its labels; None before the first.
        gone: names of stored parts that nothing declares any more.
        cluster_size: that the newest cohort was divided by; None before the first.
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
        """As it was committed last."""
        settings = DetectorSettings(policy.contracts, policy.coding, policy.cluster_size)
        fleet, advice = _fleet(settings, stored.parts), _advice(settings, stored.parts)
        # One budget, also where what is kept of it could not be read.
        routes = ClosedHours.load(settings, {**stored.parts, **fleet.budget_part}, stored.closed)
        crossings = Crossings.load(stored, live=policy.live)
        known = cls(policy, fleet, advice, routes, crossings, stored.consumed)
        known.gone = stored.parts.keys() - fleet.names - advice.names - routes.names
        return known

    @property
    def turns(self) -> NewestTurns:
        """The newest hours whose turn has come."""
        return NewestTurns(self.consumed, self.routes.consumed)

    def until(self, metric: Metric) -> int | None:
        """End of the newest hour whose turn has come for a metric (microseconds)."""
        if not metric.labelled:
            return self.routes.until
        return None if self.consumed is None else pane_start(self.consumed + 1, Grain.HOUR)

    def tests(self, metric: Metric) -> PageTests:
        """The streams that a metric's are among."""
        return self.fleet if metric.labelled else self.routes.fleet

    def step(
        self, inputs: Inputs, cohorts: Cohorts, watermark: int, horizon: int
    ) -> DetectionChange | None:
        """Consume the hours whose turn has come, and the label requests, of one UTC day at most.

        Args:
            inputs: what cohorts are made of.
            cohorts: completeness of their labels.
            watermark: event time that decisions are complete to.
            horizon: microseconds after which a label is not waited for.

        Returns:
            What has changed; None where everything must be waited for.
        """
        checked, change = self._requests.step(inputs, watermark), Changing()
        closed = _of_one_day(
            lambda after: cohorts.next_closed(after, watermark), self.routes.consumed
        )
        self._consume_closed(inputs, list(closed), change)
        labelled = _of_one_day(
            lambda after: cohorts.next_cohort(after, watermark, horizon, self.policy.completeness),
            self.consumed,
        )
        self._consume_labelled(inputs, list(takewhile(self._is_closed, labelled)), change)
        checked |= self._labels.step(inputs, self._labels_due(cohorts, watermark, horizon))
        parts = checked | self._moved(change)
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
        """Where the newest hour was the last of its day, make one of the plans of the next one.

        The state does not change by it: a plan is what the first hour of that day would make.
        """
        if self.consumed is not None and _begins_day(self.consumed + 1, self.consumed):
            self.fleet.plan_ahead(_day(self.consumed + 1))

    def parts(self) -> dict[str, bytes]:
        """The state of all detectors, by name."""
        return self.fleet.parts() | self.advice.parts() | self.routes.parts()

    def _moved(self, change: Changing) -> dict[str, bytes]:
        """The parts of the state that cohorts have moved."""
        if change.cohorts:
            return self.parts()
        return self.routes.parts() | self.fleet.budget_part if change.closed else {}

    @property
    def _requests(self) -> RequestChecks:
        watches = list(zip(self.policy.contracts, self.advice.watches, strict=True))
        return RequestChecks(watches, len(self.policy.coding.audit_rates))

    @property
    def _labels(self) -> SliceLabelChecks:
        return SliceLabelChecks(
            list(zip(self.policy.contracts, self.advice.watches, strict=True)),
        )

    def _labels_due(self, cohorts: Cohorts, watermark: int, horizon: int) -> int | None:
        """End of the hours whose labels had time to come, or were consumed without them."""
        usual = cohorts.labels_due(watermark, horizon)
        consumed = None if self.consumed is None else self.consumed + 1
        return max((end for end in (usual, consumed) if end is not None), default=None)

    def _consume_closed(self, inputs: Inputs, due: Sequence[HourTurn], change: Changing) -> None:
        """Let closed hours have their turn, of one day."""
        if due and _begins_day(due[0][0], self.routes.consumed):
            self._resolve(inputs, due[0][0], change, labels=False)
        for hours in inputs.portions(due):
            for found in self.routes.consume(inputs, hours, live=self.policy.live):
                self.crossings.cross(found.crossed, found.cohort.hour, change)
                change.closed.append(found.cohort)

    def _is_closed(self, turn: HourTurn) -> bool:
        """Return True where an hour has had its turn among closed ones."""
        return self.routes.consumed is not None and turn[0] <= self.routes.consumed

    def _consume_labelled(self, inputs: Inputs, due: Sequence[HourTurn], change: Changing) -> None:
        """Let hours whose labels are in have their turn, of one day: never before it is closed."""
        if due and _begins_day(due[0][0], self.consumed):
            self._resolve(inputs, due[0][0], change, labels=True)
        for hours in inputs.portions(due):
            self._consume(inputs, hours, change)

    def _consume(self, inputs: Inputs, hours: Sequence[HourTurn], change: Changing) -> None:
        live, due = self.policy.live, [hour for hour, state in hours if state is _CONSUMED]
        counted = inputs.cohorts.counted(due, live=live)
        advances = self.fleet.advance([self._cohort(inputs, one) for one in counted], inputs.index)
        for cohort, advance in zip(counted, advances, strict=True):
            self.crossings.cross(advance.crossed, cohort.hour, change)
            self.advice.advance(cohort.hour, advance.seen, inputs.index, advance.listed)
            change.listed = change.listed if advance.listed is None else advance.listed
        consumed = {one.hour: one for one in counted}
        passed = (FrozenCohort(hour, state, live) for hour, state in hours)
        change.cohorts += [consumed.get(one.hour, one) for one in passed]
        self.consumed = hours[-1][0]

    def _cohort(self, inputs: Inputs, counted: FrozenCohort) -> HourCohort:
        hour = counted.hour
        self.cluster_size = max(self.policy.cluster_size, inputs.clusters.largest_unit(hour))
        beside = self.routes.week_before(hour)
        return HourCohort(hour, counted.counts, self.cluster_size, beside)

    def _resolve(self, inputs: Inputs, hour: int, change: Changing, *, labels: bool) -> None:
        """Judge every unresolved crossing by the cohorts since its post-page window began."""
        standing = self.crossings.standing_of(labels=labels)
        if not standing:
            return
        now = pane_start(hour, Grain.HOUR)
        first = pane_of(now - RESOLVE_SPAN, Grain.HOUR)
        frozen = inputs.cohorts.frozen(first, hour, labels=labels)
        good = [c for c in frozen if not inputs.excludes(c.hour)]
        tests = self.fleet if labels else self.routes.fleet
        declared = {stream.key: stream for stream in tests.streams}
        for one in standing:
            stream = declared.get(one.stream)
            if stream is None or self._is_over(stream, self._since(one, stream, good), inputs):
                self.crossings.resolve(one, now, change)

    def _since(self, one: Crossing, stream: Stream, cohorts: Sequence[FrozenCohort]) -> Counts:
        """Counts since it last crossed, and since other versions answer its slice.

        The replaced versions say nothing of whether the page is still right.
        """
        changed = self.advice.changed_at(stream.contract, stream.group_by, stream.slice)
        begin = max(one.latest, changed or one.latest)
        return merge(c.counts for c in cohorts if pane_start(c.hour, Grain.HOUR) >= begin)

    def _is_over(self, stream: Stream, counts: Counts, inputs: Inputs) -> bool:
        contract = next(c for c in self.policy.contracts if c.name == stream.contract)
        own = scoped(contract, counts, inputs.index)
        rolled = roll_up(own, inputs.index, stream.group_by.split("+"))
        return resolved(stream, rolled, self.policy.coding, contract.limits, contract.k)


def log_detection(change: DetectionChange) -> None:
    """Log what has been committed: without slices and numbers."""
    for one in change.opened:
        if one.resolved_at is None:
            log.warning("a contract stream has crossed its limit", extra={"crossing": one.id})
    for number in change.resolved:
        log.warning("a crossing is resolved", extra={"crossing": number})


_CONSUMED = CohortState.CONSUMED


def _of_one_day(
    due: Callable[[int | None], HourTurn | None], consumed: int | None
) -> Iterator[HourTurn]:
    """The hours of one UTC day that are due.

    Args:
        due: the hour after another whose turn is next, and what is to become of it; None where it
            must be waited for.
        consumed: the newest hour that had its turn.
    """
    day = None
    while (found := due(consumed)) is not None and day in (None, _day(found[0])):
        consumed, day = found[0], _day(found[0])
        yield found


def _begins_day(hour: int, consumed: int | None) -> bool:
    return consumed is None or _day(hour) != _day(consumed)


def _day(hour: int) -> int:
    return pane_of(pane_start(hour, Grain.HOUR), Grain.DAY)


def _fleet(settings: DetectorSettings, parts: Mapping[str, bytes]) -> PageTests:
    try:
        return PageTests.start(settings, parts, LABELLED)
    except ValueError:
        log.warning("the detectors begin anew: their stored state is of another version")
        return PageTests.start(settings, turn=LABELLED)


def _advice(settings: DetectorSettings, parts: Mapping[str, bytes]) -> Advisors:
    advice = Advisors.start(settings, parts)
    if advice.renewed:
        log.warning("some advisory detectors begin anew: their stored state cannot be continued")
    return advice
