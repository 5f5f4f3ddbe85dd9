"""The turn of every hour: in order, none passed over, each consumed or skipped once."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from monitor.core.counts.cells import Route, Stratum
from monitor.core.counts.completeness import MATURE, CohortState
from monitor.core.time import DAY, HOUR, MINUTE, Grain, pane_of
from monitor.evaluate.cohorts import CohortColumns, Cohorts

AUDIT = Stratum(Route.AUTO_SERVE, 1, 8).code
REVIEW = Stratum(Route.HUMAN_REVIEW, 0, 0).code
BLOCKED = Stratum(Route.BLOCKED_BY_EVIDENCE, 0, 0, evidence_passed=False).code
HORIZON = 30 * DAY
CONSUMED, INCOMPLETE = CohortState.CONSUMED, CohortState.INCOMPLETE


class Site(Cohorts):
    """Cohorts, told of one hour and stratum at a time."""

    def asked(self, hour: int, number: int, stratum: int = REVIEW) -> None:
        self._one(hour, stratum, number, 0)

    def answered(self, hour: int, number: int, stratum: int = REVIEW, bucket: int = 4) -> None:
        self._one(hour, stratum, 0, number, bucket)

    def _one(self, hour: int, stratum: int, asked: int, came: int, bucket: int = 4) -> None:
        delays = np.zeros((1, 8), np.int64)
        delays[0, bucket] = came
        labels = CohortColumns(np.array([asked]), np.array([came]), delays)
        self.add(np.array([hour]), np.array([stratum]), labels)

    def turn_of(self, hour: int, watermark: int) -> bool:
        """Whether its labels were in, or it was consumed without them."""
        return self._is_mature(hour, pane_of(watermark, Grain.HOUR), HORIZON, MATURE)

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


def test_closed_hours_have_their_turn_whatever_labels_they_lack() -> None:
    site = Site()
    assert site.next_closed(None, 100 * HOUR) is None
    for hour in range(3, 6):
        site.asked(hour, 100)
    assert site.next_closed(None, 4 * HOUR - 1) is None
    assert site.next_closed(None, 4 * HOUR) == (3, CONSUMED)
    assert site.next_closed(4, 6 * HOUR) == (5, CONSUMED)
    assert site.next_closed(5, 9 * HOUR) == (6, CONSUMED), "also one without any decision"
    site.forget(6)
    assert site.next_closed(4, 9 * HOUR) == (5, CohortState.INCOMPLETE), "no longer kept"


def test_an_hour_that_lacks_labels_holds_back_those_after_it() -> None:
    site = Site()
    for hour in range(6):
        site.asked(hour, 100)
        site.answered(hour, 100 if hour != 2 else 0)
    assert [hour for hour, _ in site.turns(6 * HOUR)] == [0, 1]
    site.answered(2, 95)
    assert [hour for hour, _ in site.turns(6 * HOUR, after=1)] == [2, 3, 4, 5]


def test_at_the_horizon_it_is_consumed_as_it_is_and_the_others_go_on() -> None:
    """The bets take the forecast for what was not labelled; nobody waits for one hour for ever."""
    site = Site()
    for hour in range(4):
        site.asked(hour, 100)
        site.answered(hour, 100 if hour != 1 else 0)
    late = 2 * HOUR + HORIZON
    assert [*site.turns(late - 1, after=0)][:1] == []
    assert [*site.turns(late, after=0)][:3] == [(1, CONSUMED), (2, CONSUMED), (3, CONSUMED)]


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
    assert {state for _, state in all_at_once} == {CONSUMED}
    turn = {hour: site.turn_of(hour, years * HOUR) for hour in (101, 102, 1325, 1326)}
    late = [hour for hour, mature in turn.items() if not mature]
    assert late == [102, 1325], "7 lacked make up for by 3 to spare, 30 days on"


def usual(site: Site, days: int, bucket: int = 4, lost: int = 0) -> None:
    """Two hundred labels an hour, all but the lost ones within the delays of a bucket."""
    for hour in range(24 * days):
        site.asked(hour, 200)
        site.answered(hour, 200 - lost, bucket=bucket)


@pytest.mark.parametrize(("answered", "days"), [(180, 1), (100, 1), (99, 2), (50, 2)])
def test_labels_are_waited_for_as_long_as_they_take_or_twice(answered: int, days: int) -> None:
    """Labels come within a day. Of one hour a tenth never does: a day later it is overdue."""
    site = Site()
    usual(site, 30)
    hour = 24 * 30
    site.asked(hour, 200)
    site.answered(hour, answered)
    overdue = (hour + 1) * HOUR + days * DAY
    assert list(site.turns(overdue - 1, after=hour - 1)) == []
    assert list(site.turns(overdue, after=hour - 1))[:1] == [(hour, CONSUMED)]


def test_labels_of_a_team_that_stands_still_are_waited_for() -> None:
    """Fewer than a quarter are in: nobody labels, and will again."""
    site = Site()
    usual(site, 30)
    hours = range(24 * 30, 24 * 40)
    for hour in hours:
        site.asked(hour, 200)
        site.answered(hour, 20)
    assert list(site.turns(24 * 40 * HOUR, after=hours[0] - 1)) == []


@pytest.mark.parametrize(
    ("bucket", "requests", "days"),
    [(0, 200, 1), (4, 200, 1), (5, 200, 3), (7, 200, 28), (4, 20, 2), (5, 20, 6)],
)
def test_in_the_first_weeks_as_long_is_waited_as_the_labels_so_far_tell(
    bucket: int, requests: int, days: int
) -> None:
    """A tenth of the labels never comes. One day has too few labels to tell their usual delay."""
    site = Site()
    for hour in range(24 * days + 1):
        site.asked(hour, requests if hour in (0, 24 * days) else 0)
        site.answered(hour, 9 * requests // 10 if hour in (0, 24 * days) else 0, bucket=bucket)
    assert list(site.turns(days * DAY + HOUR - 1)) == []
    assert list(site.turns(days * DAY + HOUR)) == [(0, CONSUMED)]


def test_where_fewer_than_a_quarter_are_in_the_first_weeks_wait_for_the_horizon() -> None:
    site = Site()
    for hour in range(24 * 35):
        site.asked(hour, 200)
        site.answered(hour, 49)
    assert list(site.turns(HORIZON)) == []
    assert list(site.turns(HORIZON + HOUR)) == [(0, CONSUMED)]


def test_label_tables_are_made_up_to_the_first_hour_that_waits() -> None:
    """Of one hour a tenth of the labels never comes; all later ones are in within a day."""
    site = Site()
    usual(site, 32)
    gap = 24 * 32
    site.asked(gap, 2_000)
    site.answered(gap, 1_000)
    for hour in range(gap + 1, gap + 30):
        site.asked(hour, 20)
        site.answered(hour, 20)
    assert site.frontier((gap + 30) * HOUR, HORIZON, MATURE) == gap * HOUR
    assert site.frontier((gap + 1) * HOUR + 2 * DAY - 1, HORIZON, MATURE) == gap * HOUR
    assert site.frontier((gap + 1) * HOUR + 2 * DAY, HORIZON, MATURE) > gap * HOUR


@pytest.mark.parametrize("answered", [0, 20, 180])
def test_label_tables_wait_for_nobody_beyond_twice_the_usual_delay(answered: int) -> None:
    site = Site()
    usual(site, 30)
    for hour in range(24 * 30, 24 * 36):
        site.asked(hour, 200)
        site.answered(hour, answered)
    assert site.frontier(24 * 36 * HOUR, HORIZON, MATURE) == 24 * 34 * HOUR


@pytest.mark.parametrize(("bucket", "days"), [(0, 2), (4, 2), (5, 6)])
def test_in_the_first_week_twice_the_longest_delay_seen_is_waited(bucket: int, days: int) -> None:
    """A fifth of the first labels never comes, the others within a day or three."""
    site = Site()
    for hour in range(24 * 40):
        site.asked(hour, 200)
    site.answered(0, 160, bucket=bucket)
    assert site.frontier(days * DAY + HOUR, HORIZON, MATURE) == HOUR
    assert site.frontier(days * DAY + HOUR - 1, HORIZON, MATURE) == 0


def test_before_any_label_has_come_label_tables_wait_for_the_horizon() -> None:
    site = Site()
    for hour in range(24 * 40):
        site.asked(hour, 200)
    assert site.frontier(HORIZON, HORIZON, MATURE) == 0
    assert site.frontier(HORIZON + HOUR, HORIZON, MATURE) == HOUR


def test_labels_without_a_table_are_those_of_later_hours() -> None:
    site = Site()
    for hour in range(3):
        site.asked(hour, 10)
        site.answered(hour, 5 + hour)
    assert [site.labels_from(hour * HOUR) for hour in range(4)] == [18, 13, 7, 0]
