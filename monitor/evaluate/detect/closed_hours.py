"""Limits that need no labels: whose turn it is, and what that moves.

An hour has its turn as soon as it is closed, that is once the watermark, which stays the lateness
behind the newest decision, has passed its end. What was decided in it and has come by then is
consumed; what comes later is counted and published as ever, but moves no test of routes. The
cursor and the state are apart from those of labelled cohorts, which have their turn days later,
and are committed with what they moved to.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from monitor.core.counts.completeness import CohortState
from monitor.core.time import Grain, pane_of, pane_start
from monitor.detection import arrays
from monitor.detection.pages.cluster_share import ClusterShare
from monitor.detection.pages.declared import DetectorSettings
from monitor.detection.pages.page_tests import ROUTES, HourCohort, PageTests, WeekEnd
from monitor.detection.pages.streams import Stream
from monitor.detection.pages.weekly_evidence import HeldWeeks
from monitor.evaluate.detect.detection_inputs import Inputs
from monitor.store.evaluator.stored_detection import FrozenCohort

log = logging.getLogger("slicewatch.evaluate")

_WEEKS = "~routes/weeks"
HEADROOM = 1.25
"""A day's largest unit may be larger by so much than that of the week before, and all of the day
still counts. Without any room, one day in eight would end without evidence."""


@dataclass(slots=True)
class ClosedHours:
    """The tests of all limits that need no labels; always equal to what the store holds.

    Attributes:
        settings: of the detectors.
        fleet: their streams.
        held: weeks that have ended, until those of labels have.
        share: what evidence is divided by, while a day is not over.
        consumed: the newest hour whose turn has come; None before the first.
    """

    settings: DetectorSettings
    fleet: PageTests
    held: HeldWeeks
    share: ClusterShare
    consumed: int | None = None

    @classmethod
    def load(
        cls,
        settings: DetectorSettings,
        parts: Mapping[str, bytes] | None = None,
        consumed: int | None = None,
    ) -> Self:
        """As it was committed last; a state of another version begins anew."""
        fleet = _fleet(settings, parts or {})
        made = cls(settings, fleet, HeldWeeks(_keys(fleet)), ClusterShare(), consumed)
        made._restore((parts or {}).get(_WEEKS))
        return made

    def consume(
        self, inputs: Inputs, hours: Sequence[tuple[int, CohortState]], *, live: bool
    ) -> list[Consumed]:
        """Let some hours have their turn, in their order."""
        due = [hour for hour, state in hours if state is CohortState.CONSUMED]
        decided = inputs.cohorts.decided(due, live=live)
        advances = self.fleet.advance(
            [
                HourCohort(hour, cohort.counts, self._divisor(inputs, hour))
                for hour, cohort in zip(due, decided, strict=True)
            ],
            inputs.index,
        )
        for advance in advances:
            if advance.ended is not None:
                self._hold(advance.ended)
        self.consumed = hours[-1][0]
        moved = {
            cohort.hour: Consumed(cohort, advance.crossed)
            for cohort, advance in zip(decided, advances, strict=True)
        }
        passed = (Consumed(FrozenCohort(hour, state, live)) for hour, state in hours)
        return [moved.get(one.cohort.hour, one) for one in passed]

    def week_before(self, hour: int) -> WeekEnd | None:
        """The week that has ended before that of an hour with its labels, to be listed now."""
        taken = self.held.take_before(hour)
        if taken is None:
            return None
        week, log_e = taken
        return WeekEnd(week, tuple(self.fleet.streams), log_e, self.fleet.weights)

    @property
    def until(self) -> int | None:
        """End of the newest hour whose turn has come (microseconds)."""
        return None if self.consumed is None else pane_start(self.consumed + 1, Grain.HOUR)

    @property
    def names(self) -> set[str]:
        """Names of all parts of the state."""
        return {*self.fleet.names, _WEEKS}

    def parts(self) -> dict[str, bytes]:
        """The whole state, but the budget that all streams share."""
        facts = {"streams": self.held.keys, "share": self.share.facts()}
        own = {name: body for name, body in self.fleet.parts().items() if name in self._own}
        return own | {_WEEKS: arrays.encode(self.held.to_arrays(), facts)}

    @property
    def _own(self) -> set[str]:
        return self.fleet.names - self.fleet.budget_part.keys()

    def _divisor(self, inputs: Inputs, hour: int) -> float:
        clusters, size = inputs.clusters, self.settings.cluster_size
        day = pane_of(pane_start(hour, Grain.HOUR), Grain.DAY)
        expected = max(size, int(HEADROOM * clusters.largest_before(day)))
        return self.share.enter(day, expected, max(size, clusters.largest_unit(hour)))

    def _hold(self, ended: WeekEnd) -> None:
        """Streams that were declared within the week have no evidence of it."""
        keys = [stream.key for stream in ended.streams]
        self.held.restore({str(ended.week): ended.log_e}, keys)

    def _restore(self, body: bytes | None) -> None:
        if body is None:
            return
        try:
            weeks, facts = arrays.decode(body)
        except ValueError:
            return
        self.held.restore(weeks, facts["streams"])
        self.share = ClusterShare.restored(facts["share"])


@dataclass(frozen=True, slots=True)
class Consumed:
    """Outcome of an hour.

    Attributes:
        cohort: as it is frozen.
        crossed: streams that page now.
    """

    cohort: FrozenCohort
    crossed: tuple[Stream, ...] = ()


def _keys(fleet: PageTests) -> tuple[str, ...]:
    return tuple(stream.key for stream in fleet.streams)


def _fleet(settings: DetectorSettings, parts: Mapping[str, bytes]) -> PageTests:
    try:
        return PageTests.start(settings, parts, ROUTES)
    except ValueError:
        log.warning("the detectors begin anew: their stored state is of another version")
        return PageTests.start(settings, turn=ROUTES)
