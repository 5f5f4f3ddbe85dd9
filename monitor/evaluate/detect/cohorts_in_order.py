"""Detection between cycles: which cohort comes next, what it moves, and which pages end.

Cohorts are consumed strictly in order. What was consumed is frozen and committed with the state
that it moved the detectors to, so a restart or another evaluator goes on to the same decisions.
Label requests wait for no labels: their hours have their turn long before, by cursors of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from monitor.core.contract import Contract
from monitor.core.counts.cells import Counts, merge
from monitor.core.counts.coding import Coding
from monitor.core.counts.completeness import CohortState
from monitor.core.counts.rollup import roll_up
from monitor.core.time import DAY, Grain, pane_of, pane_start
from monitor.detection.advisory.advisors import Advisors
from monitor.detection.pages.budget import resolved
from monitor.detection.pages.declared import DetectorSettings
from monitor.detection.pages.fleet import PageTests, scoped
from monitor.detection.pages.streams import Stream
from monitor.evaluate.cohorts import Cohorts
from monitor.evaluate.detect.inputs import Inputs
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


@dataclass(slots=True)
class DetectionState:
    """The detectors; always equal to what the store holds.

    Attributes:
        policy: settings of detection.
        fleet: all streams.
        advice: the advisory detectors.
        consumed: the newest hour whose turn has come; None before the first.
        standing: crossings that are not resolved, by stream key.
        next_id: of the next crossing.
        gone: names of stored parts that nothing declares any more.
        ended: crossings that are resolved.
        cluster_size: that the newest cohort was divided by; None before the first.
    """

    policy: DetectionPolicy
    fleet: PageTests
    advice: Advisors
    consumed: int | None = None
    standing: dict[str, Crossing] = field(default_factory=dict)
    next_id: int = 1
    gone: Collection[str] = ()
    ended: list[Crossing] = field(default_factory=list)
    cluster_size: int | None = None

    @classmethod
    def load(cls, stored: StoredDetection, policy: DetectionPolicy) -> DetectionState:
        """As it was committed last."""
        settings = DetectorSettings(policy.contracts, policy.coding, policy.cluster_size)
        fleet, advice = _fleet(settings, stored.parts), _advice(settings, stored.parts)
        known = cls(policy, fleet, advice, stored.consumed, stored.standing, stored.next_id)
        known.gone = stored.parts.keys() - fleet.names - advice.names
        known.ended = [one for one in stored.crossings if one.resolved_at is not None]
        return known

    @property
    def until(self) -> int | None:
        """End of the newest hour whose turn has come (microseconds)."""
        return None if self.consumed is None else pane_start(self.consumed + 1, Grain.HOUR)

    def stood(self, at: int) -> list[Crossing]:
        """Crossings unresolved after the cohorts up to an instant, which all had their turn."""
        return [one for one in (*self.ended, *self.standing.values()) if one.stood(at)]

    def step(
        self, inputs: Inputs, cohorts: Cohorts, watermark: int, horizon: int
    ) -> DetectionChange | None:
        """Consume the cohorts whose turn has come, and the label requests, of one UTC day at most.

        Args:
            inputs: what cohorts are made of.
            cohorts: completeness of their labels.
            watermark: event time that decisions are complete to.
            horizon: microseconds after which a label is not waited for.

        Returns:
            What has changed; None where everything must be waited for.
        """
        checked = self._requests.step(inputs, watermark)
        change = _Changing()
        while True:
            found = cohorts.next_cohort(self.consumed, watermark, horizon, self.policy.completeness)
            if found is None or (change.cohorts and _day(found[0]) != _day(change.cohorts[0].hour)):
                break
            hour, state = found
            if not change.cohorts and self.standing and self._new_day(hour):
                self._resolve(inputs, hour, change)
            self._consume(inputs, hour, state, change)
        checked |= self._labels.step(inputs, self._labels_due(cohorts, watermark, horizon))
        if not change.cohorts and not checked:
            return None
        return DetectionChange(
            parts=self.parts() if change.cohorts else checked,
            dropped=self.gone,
            cohorts=change.cohorts,
            resolved=change.resolved,
            refreshed=change.refreshed,
            opened=list(change.opened.values()),
            listed=change.listed if self.policy.live else None,
        )

    def close(self, numbers: Collection[int], at: int) -> DetectionChange:
        """End crossings whose incident people have closed; they may cross again."""
        for key, one in list(self.standing.items()):
            if one.id in numbers:
                self.ended.append(replace(one, resolved_at=at))
                del self.standing[key]
        return DetectionChange(resolved=dict.fromkeys(sorted(numbers), at))

    def parts(self) -> dict[str, bytes]:
        """The state of all detectors, by name."""
        return self.fleet.parts() | self.advice.parts()

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

    def _new_day(self, hour: int) -> bool:
        return self.consumed is None or _day(hour) != _day(self.consumed)

    def _consume(self, inputs: Inputs, hour: int, state: CohortState, change: _Changing) -> None:
        live = self.policy.live
        if inputs.excludes(hour):
            state = CohortState.EXCLUDED
        if state is CohortState.CONSUMED:
            cohort = inputs.cohorts.counted(hour, live=live)
            self.cluster_size = max(self.policy.cluster_size, inputs.clusters.largest_unit(hour))
            advance = self.fleet.advance(hour, cohort.counts, inputs.index, self.cluster_size)
            for stream in advance.crossed:
                self._cross(stream, hour, change)
            self.advice.advance(hour, advance.seen, inputs.index, advance.listed)
            change.listed = change.listed if advance.listed is None else advance.listed
        else:
            cohort = FrozenCohort(hour, state, live)
        change.cohorts.append(cohort)
        self.consumed = hour

    def _cross(self, stream: Stream, hour: int, change: _Changing) -> None:
        """Open a crossing, or note that an unresolved one has crossed again."""
        at = pane_start(hour + 1, Grain.HOUR)
        if (known := self.standing.get(stream.key)) is not None:
            change.refresh(known, at)
            self.standing[stream.key] = replace(known, latest=at)
            return
        ended = None if self.policy.live else at
        one = Crossing(self.next_id, stream.key, hour, self.policy.live, at, at, ended)
        self.next_id += 1
        change.opened[one.id] = one
        if ended is None:
            self.standing[stream.key] = one

    def _resolve(self, inputs: Inputs, hour: int, change: _Changing) -> None:
        """Judge every unresolved crossing by the cohorts since its post-page window began."""
        now = pane_start(hour, Grain.HOUR)
        frozen = inputs.cohorts.frozen(pane_of(now - RESOLVE_SPAN, Grain.HOUR), hour)
        good = [c for c in frozen if not inputs.excludes(c.hour)]
        declared = {stream.key: stream for stream in self.fleet.streams}
        for key, one in list(self.standing.items()):
            stream = declared.get(key)
            if stream is None or self._is_over(stream, self._since(one, stream, good), inputs):
                change.resolved[one.id] = now
                self.ended.append(replace(one, resolved_at=now))
                del self.standing[key]

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


@dataclass(slots=True)
class _Changing:
    """Changes that a step has made so far."""

    cohorts: list[FrozenCohort] = field(default_factory=list)
    resolved: dict[int, int] = field(default_factory=dict)
    refreshed: dict[int, int] = field(default_factory=dict)
    opened: dict[int, Crossing] = field(default_factory=dict)
    listed: tuple[Stream, ...] | None = None

    def refresh(self, one: Crossing, at: int) -> None:
        """A crossing that was opened in this step is not in the store yet."""
        if one.id in self.opened:
            self.opened[one.id] = replace(one, latest=at)
        else:
            self.refreshed[one.id] = at


def _day(hour: int) -> int:
    return pane_of(pane_start(hour, Grain.HOUR), Grain.DAY)


def _fleet(settings: DetectorSettings, parts: Mapping[str, bytes]) -> PageTests:
    try:
        return PageTests.start(settings, parts)
    except ValueError:
        log.warning("the detectors begin anew: their stored state is of another version")
        return PageTests.start(settings)


def _advice(settings: DetectorSettings, parts: Mapping[str, bytes]) -> Advisors:
    advice = Advisors.start(settings, parts)
    if advice.renewed:
        log.warning("some advisory detectors begin anew: their stored state cannot be continued")
    return advice
