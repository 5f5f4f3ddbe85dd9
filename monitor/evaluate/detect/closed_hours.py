"""Limits without labels: which closed hour is due, and what it moves.

An hour is closed once the watermark, which stays the lateness behind the newest decision, has
passed its end. Its decisions so far are consumed then. Later ones are counted and published as
ever, but move no test of routes. Cursor and state are separate from those of labelled cohorts,
which are consumed days later; they are committed together.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
"""Factor by which a day's largest unit may exceed that of the week before while the whole day still
counts. Without it, one day in eight would end without evidence."""


@dataclass(slots=True)
class ClosedHours:
    """Sequential tests of all limits without labels, and their cursor; equal to the stored state.

    Attributes:
        settings: settings of the detectors.
        fleet: the streams.
        held: weeks that have ended, until the labelled streams end them too.
        share: divisor of the evidence while a day is not over.
        consumed: the newest consumed hour; None before the first.
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
        """Return the tests restored from stored parts, or new ones if the version differs."""
        fleet = _load_fleet(settings, parts or {})
        closed_hours = cls(settings, fleet, HeldWeeks(_keys(fleet)), ClusterShare(), consumed)
        closed_hours._restore((parts or {}).get(_WEEKS))
        return closed_hours

    def consume(
        self, inputs: Inputs, hours: Sequence[tuple[int, CohortState]], *, live: bool
    ) -> list[ConsumedHour]:
        """Feed successive hours to the tests; return each hour's cohort and new crossings."""
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
            cohort.hour: ConsumedHour(cohort, advance.crossed)
            for cohort, advance in zip(decided, advances, strict=True)
        }
        outcomes = (ConsumedHour(FrozenCohort(hour, state, live)) for hour, state in hours)
        return [moved.get(outcome.cohort.hour, outcome) for outcome in outcomes]

    def week_before(self, hour: int) -> WeekEnd | None:
        """Remove and return the held week that ended before the week of ``hour``, or None."""
        ended_week = self.held.take_before(hour)
        if ended_week is None:
            return None
        week, log_e = ended_week
        return WeekEnd(week, tuple(self.fleet.streams), log_e, self.fleet.weights)

    @property
    def until(self) -> int | None:
        """Return the end of the newest consumed hour (microseconds); None before the first."""
        return None if self.consumed is None else pane_start(self.consumed + 1, Grain.HOUR)

    @property
    def names(self) -> set[str]:
        """Return the names of all parts of the state, the shared budget included."""
        return {*self.fleet.names, _WEEKS}

    def parts(self) -> dict[str, bytes]:
        """Return the encoded state by part name, without the budget that all streams share."""
        facts = {"streams": self.held.keys, "share": self.share.facts()}
        own_parts = {name: body for name, body in self.fleet.parts().items() if name in self._own}
        return own_parts | {_WEEKS: arrays.encode(self.held.to_arrays(), facts)}

    @property
    def _own(self) -> set[str]:
        return self.fleet.names - self.fleet.budget_part.keys()

    def _divisor(self, inputs: Inputs, hour: int) -> float:
        clusters, size = inputs.clusters, self.settings.cluster_size
        day = pane_of(pane_start(hour, Grain.HOUR), Grain.DAY)
        expected = max(size, int(HEADROOM * clusters.largest_before(day)))
        return self.share.enter(day, expected, max(size, clusters.largest_unit(hour)))

    def _hold(self, ended: WeekEnd) -> None:
        """Keep the final evidence of a week's streams until the labelled streams end the week."""
        keys = [stream.key for stream in ended.streams]
        self.held.restore({str(ended.week): ended.log_e}, keys)

    def _restore(self, body: bytes | None) -> None:
        """Load stored weeks and the cluster share; damaged bytes leave both empty."""
        if body is None:
            return
        try:
            weeks, facts = arrays.decode(body)
        except ValueError:
            return
        self.held.restore(weeks, facts["streams"])
        self.share = ClusterShare.restored(facts["share"])


@dataclass(frozen=True, slots=True)
class ConsumedHour:
    """Frozen cohort of a consumed closed hour, and the streams that crossed their limit in it.

    Attributes:
        cohort: the frozen cohort.
        crossed: streams that cross in this hour, each with the days since its change.
    """

    cohort: FrozenCohort
    crossed: Mapping[Stream, float] = field(default_factory=dict)


def _keys(fleet: PageTests) -> tuple[str, ...]:
    return tuple(stream.key for stream in fleet.streams)


def _load_fleet(settings: DetectorSettings, parts: Mapping[str, bytes]) -> PageTests:
    try:
        return PageTests.start(settings, parts, ROUTES)
    except ValueError:
        log.warning("the detectors begin anew: their stored state is of another version")
        return PageTests.start(settings, turn=ROUTES)
