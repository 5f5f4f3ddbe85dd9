"""How an incident stands after what people said of it, and when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.core.metric import Metric
from monitor.core.publish.annotations import IncidentKind, Outcome
from monitor.core.publish.incidents import Act, Action, Incident, Stand, Standing, standing
from monitor.core.time import DAY, HOUR

T0 = 480_000 * HOUR
UNTIL = T0 + 10 * DAY
INCIDENT = Incident(3, IncidentKind.BREACH, "replies", Metric.TPR, T0, T0, "tone", "tone=plain")
RESOLVED = replace(INCIDENT, resolved_at=T0 + 5 * DAY)
OPEN = Standing(Stand.OPEN)
LATER = (0, HOUR, 100 * DAY)


def ack(number: int, at: int, by: str = "first") -> Act:
    return Act(number, at, Action.ACK, by)


def close(number: int, at: int, outcome: Outcome, until: int | None = None) -> Act:
    return Act(number, at, Action.CLOSE, "second", outcome, until)


def accept(number: int, at: int, until: int = UNTIL) -> Act:
    return close(number, at, Outcome.ACCEPTED, until)


@pytest.mark.parametrize("after", LATER)
def test_without_a_word_it_is_open_until_it_is_resolved(after: int) -> None:
    assert standing(INCIDENT, (), T0 + after) == OPEN
    assert standing(RESOLVED, (), T0 + after) == Standing(Stand.RESOLVED)


def test_the_newest_acknowledgement_names_who_looks_after_it() -> None:
    acts = (ack(1, T0), ack(2, T0 + HOUR, "another"))
    assert standing(INCIDENT, acts, T0 + DAY) == Standing(Stand.ACKNOWLEDGED, "another")
    assert standing(RESOLVED, acts, T0 + DAY) == Standing(Stand.RESOLVED)


@pytest.mark.parametrize(
    "outcome", [one for one in Outcome if one is not Outcome.ACCEPTED], ids=str
)
def test_what_was_closed_stays_closed(outcome: Outcome) -> None:
    """Also once the evaluator has resolved it, and whatever is said afterwards."""
    ended = close(2, T0 + HOUR, outcome)
    acts = (ack(1, T0), ended, ack(3, T0 + DAY))
    expected = Standing(Stand.CLOSED, "second", outcome, at=T0 + HOUR)
    for one in (INCIDENT, RESOLVED):
        for after in LATER:
            assert standing(one, acts, T0 + after) == expected
    assert standing(INCIDENT, (accept(1, T0), ended), T0 + HOUR) == expected


def test_accepted_until_a_day_and_then_it_pages_again() -> None:
    acts = (ack(1, T0), accept(2, T0))
    accepted = Standing(Stand.ACCEPTED, "second", Outcome.ACCEPTED, UNTIL)
    assert standing(INCIDENT, acts, UNTIL - 1) == accepted
    assert standing(INCIDENT, acts, UNTIL) == OPEN, "who acknowledged it did so before"
    assert standing(RESOLVED, acts, UNTIL - 1).state is Stand.RESOLVED
    during = (*acts, ack(3, T0 + DAY))
    assert standing(INCIDENT, during, UNTIL - 1) == accepted
    assert standing(INCIDENT, during, UNTIL) == OPEN
    again = (*during, ack(4, UNTIL, "third"))
    assert standing(INCIDENT, again, UNTIL) == Standing(Stand.ACKNOWLEDGED, "third")


def test_of_several_days_the_one_said_last_counts() -> None:
    sooner = (accept(1, T0, UNTIL), accept(2, T0 + HOUR, T0 + DAY))
    assert standing(INCIDENT, sooner, T0 + DAY - 1).until == T0 + DAY
    assert standing(INCIDENT, sooner, T0 + DAY) == OPEN
    longer = (accept(1, T0, T0 + DAY), accept(2, T0 + HOUR, UNTIL))
    assert standing(INCIDENT, longer, T0 + DAY).until == UNTIL


def test_what_is_closed_or_resolved_is_over() -> None:
    over = {state for state in Stand if Standing(state).over}
    assert over == {Stand.CLOSED, Stand.RESOLVED}
