"""The turn of every hour: in order, none passed over, each consumed or skipped once."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from monitor.core.counts.cells import Route, Stratum
from monitor.core.counts.completeness import MATURE, CohortState
from monitor.core.time import DAY, HOUR, MINUTE
from monitor.evaluate.cohorts import Cohorts

AUDIT = Stratum(Route.AUTO_SERVE, 1, 8).code
REVIEW = Stratum(Route.HUMAN_REVIEW, 0, 0).code
BLOCKED = Stratum(Route.BLOCKED_BY_EVIDENCE, 0, 0, evidence_passed=False).code
HORIZON = 30 * DAY
CONSUMED, INCOMPLETE = CohortState.CONSUMED, CohortState.INCOMPLETE


class Site(Cohorts):
    """Cohorts, told of one hour and stratum at a time."""

    def asked(self, hour: int, number: int, stratum: int = REVIEW) -> None:
        self._one(hour, stratum, number, 0)

    def answered(self, hour: int, number: int, stratum: int = REVIEW) -> None:
        self._one(hour, stratum, 0, number)

    def _one(self, *numbers: int) -> None:
        self.add(*(np.array([number]) for number in numbers))

    def turns(
        self, watermark: int, after: int | None = None, threshold: Fraction = MATURE
    ) -> Iterator[tuple[int, CohortState]]:
        while turn := self.next_cohort(after, watermark, HORIZON, threshold):
            yield turn
            after = turn[0]


def test_nothing_is_known_and_nothing_comes() -> None:
    assert Site().next_cohort(None, 100 * HOUR, HORIZON, MATURE) is None


def test_hours_have_their_turn_once_they_are_complete() -> None:
    site = Site()
    for hour in range(5, 9):
        site.asked(hour, 60)
        site.answered(hour, 60)
    assert list(site.turns(8 * HOUR - 1)) == [(5, CONSUMED), (6, CONSUMED)]
    assert list(site.turns(8 * HOUR, after=6)) == [(7, CONSUMED)]
    assert list(site.turns(8 * HOUR, after=7)) == []


def test_an_hour_that_lacks_labels_holds_back_those_after_it() -> None:
    site = Site()
    for hour in range(6):
        site.asked(hour, 100)
        site.answered(hour, 100 if hour != 2 else 0)
    assert [hour for hour, _ in site.turns(6 * HOUR)] == [0, 1]
    site.answered(2, 95)
    assert [hour for hour, _ in site.turns(6 * HOUR, after=1)] == [2, 3, 4, 5]


def test_at_the_horizon_it_is_skipped_and_the_others_go_on() -> None:
    site = Site()
    for hour in range(4):
        site.asked(hour, 100)
        site.answered(hour, 100 if hour != 1 else 0)
    late = 2 * HOUR + HORIZON
    assert [*site.turns(late - 1, after=0)][:1] == []
    assert [*site.turns(late, after=0)][:3] == [(1, INCOMPLETE), (2, CONSUMED), (3, CONSUMED)]


def test_hours_without_requests_are_mature_as_soon_as_they_are_complete() -> None:
    """For the blocked rate needs no labels: what was never asked for is not waited for."""
    site = Site()
    site.asked(3, 0, BLOCKED)
    assert list(site.turns(6 * HOUR + MINUTE)) == [(3, CONSUMED), (4, CONSUMED), (5, CONSUMED)]


def test_requests_that_no_rate_rests_on_are_not_waited_for() -> None:
    site = Site()
    site.asked(0, 90, BLOCKED)
    site.asked(0, 90, Stratum(Route.AUTO_SERVE, 1, 0, probe=True).code)
    assert list(site.turns(HOUR)) == [(0, CONSUMED)]


def test_every_stratum_is_waited_for() -> None:
    site = Site()
    site.asked(0, 500)
    site.answered(0, 500)
    site.asked(0, 5, AUDIT)
    site.answered(0, 4, AUDIT)
    assert list(site.turns(HOUR)) == []
    site.answered(0, 1, AUDIT)
    assert list(site.turns(HOUR)) == [(0, CONSUMED)]


def test_what_is_waited_for_is_judged_anew_with_later_hours() -> None:
    """3 of 50 never come: the hours that follow show that no more is missing than always is."""
    site = Site()
    site.asked(0, 50)
    site.answered(0, 47)
    assert list(site.turns(HOUR)) == []
    site.asked(1, 50)
    assert list(site.turns(2 * HOUR)) == []
    site.answered(1, 48)
    assert [hour for hour, _ in site.turns(2 * HOUR)] == [0, 1]


def test_the_threshold_is_the_settings_own() -> None:
    site = Site()
    site.asked(0, 100)
    site.answered(0, 90)
    assert list(site.turns(HOUR, threshold=Fraction(9, 10))) == [(0, CONSUMED)]
    assert list(site.turns(HOUR)) == []


def test_hours_that_were_forgotten_are_skipped() -> None:
    """An evaluator that was away for longer than they are kept does not call them complete."""
    site = Site()
    for hour in range(100):
        site.asked(hour, 60)
        site.answered(hour, 60)
    site.forget(90)
    turns = list(site.turns(100 * HOUR, after=87))
    assert turns == [(88, INCOMPLETE), (89, INCOMPLETE), *((h, CONSUMED) for h in range(90, 100))]
    assert next(site.turns(100 * HOUR)) == (90, CONSUMED), "who begins only now misses nothing"


def test_a_back_fill_comes_to_the_same_as_the_hours_came_to_one_by_one() -> None:
    """Two years at once: no cohort is saved by hours that are farther off than its horizon."""
    site, live, years = Site(), Site(), 2 * 365 * 24
    bad = range(100, 100 + 60 * 24)
    one_by_one: list[tuple[int, CohortState]] = []
    for hour in range(0, years, 6):
        for cohorts in (site, live):
            cohorts.asked(hour, 60)
            cohorts.answered(hour, 50 if hour in bad else 60)
        after = one_by_one[-1][0] if one_by_one else None
        one_by_one.extend(live.turns((hour + 6) * HOUR, after))
    all_at_once = list(site.turns(years * HOUR))
    assert [hour for hour, _ in all_at_once] == list(range(years))
    assert all_at_once == one_by_one
    skipped = [hour for hour, state in all_at_once if state is INCOMPLETE]
    assert skipped == list(range(102, 1326)), "7 lacked make up for by 3 to spare, 30 days on"
