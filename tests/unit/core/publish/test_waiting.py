"""Waits of labelled rates: by published rows, in the words and numbers of ``slicewatch check``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

import pytest
from published_lesson import T0, hidden, lesson

from monitor.core.contract import Metric, State
from monitor.core.privacy.periods import CELL_PERIOD, POOL_PERIOD, waited_for
from monitor.core.publish.lines import find_place
from monitor.core.publish.reasons import Place, why_and_until
from monitor.core.publish.snapshot import (
    ContractTable,
    GroupTable,
    Period,
    ShownRate,
    SliceRow,
    Snapshot,
)
from monitor.core.publish.waiting import (
    AUTO,
    REVIEW,
    USUAL,
    GroupWait,
    LabelWait,
    Pace,
    group_waits,
    shown_wait,
)
from monitor.core.publish.waiting_words import group_wait, pooled_below, slice_wait
from monitor.core.publish.words import moment_text
from monitor.core.time import DAY

TOTAL = {Metric.TPR: ShownRate(0.8, 0.7, 0.9, 26), Metric.FPR: ShownRate(0.1, 0.0, 0.2, 26)}
"""With audits of 5 %, .04 of .24 labels of ready replies are of what was served."""


def decided(name: str, support: int, served: float | None = 0.6) -> SliceRow:
    """A slice whose labels are hidden."""
    rates = {
        Metric.SELECTION: ShownRate(served, 0.4, 0.8, support),
        Metric.BLOCKED: ShownRate(0.05, 0.0, 0.1, support),
    }
    return SliceRow(name, dict.fromkeys(Metric, State.SUPPRESSED), rates)


AUDITED = {Metric.TPR: 1 / 6, Metric.FPR: 0.01}


def snapshot(
    *rows: SliceRow, labelled: int | None = T0, as_labelled: Mapping[Metric, float] = AUDITED
) -> Snapshot:
    """A group-by of these slices; its labelled rates end at an instant, if they are shown."""
    made = lesson(*rows)
    (table,) = made.contracts
    (window,) = table.windows
    (group,) = window.groups
    period = None if labelled is None else Period(labelled - 7 * DAY, labelled)
    group = replace(group, labelled=period)
    total = replace(window.total, rates=TOTAL, as_labelled=dict(as_labelled))
    window = replace(window, total=total, groups=(group,), labelled=Period(T0 - 7 * DAY, T0))
    return replace(made, contracts=(replace(table, windows=(window,)),))


def parts(made: Snapshot) -> tuple[ContractTable, GroupTable]:
    (table,) = made.contracts
    return table, table.windows[0].groups[0]


def waits_of(made: Snapshot) -> list[str]:
    table, _ = parts(made)
    return [group_wait(one) for one in group_waits(made, table, table.windows[0])]


def test_the_pace_of_a_slice_follows_from_what_is_shown_of_it() -> None:
    """280 decisions in 7 days: 24 a day are served, of which 5 % are labelled; 14 are reviewed."""
    table, group = parts(snapshot(decided("channel=chat", 280)))
    found = shown_wait(table, group, group.rows[0])
    assert found is not None
    assert (found.route, found.k, found.waited) == (AUTO, 11, 10)
    assert found.audit == pytest.approx(0.05)
    assert found.days == pytest.approx(11 / (24 * 0.05))
    assert found.named


@pytest.mark.parametrize("rounded", [0.8, 0.81])
def test_where_all_is_labelled_no_rounding_makes_it_more_than_all(rounded: float) -> None:
    """The rate as labelled is then the rate itself, but for the last decimal."""
    table, group = parts(snapshot(decided("channel=chat", 280), as_labelled={Metric.TPR: rounded}))
    found = shown_wait(table, group, group.rows[0])
    assert found is not None
    assert found.audit == pytest.approx(1)
    assert found.route == REVIEW, "the slower one"
    assert found.days == pytest.approx(11 / 14)


def test_it_is_what_check_says_of_the_same_traffic() -> None:
    table, group = parts(snapshot(decided("channel=chat", 140)))
    found = shown_wait(table, group, group.rows[0])
    assumed = LabelWait.of(Pace.of(20, 0.6, 0.35, 0.05), 11, crossed=False)
    assert found is not None
    assert (found.weeks, found.ways, found.named) == (assumed.weeks, assumed.ways, False)
    assert assumed.ways == ("audit 10% or more", "pool 2 values into one")


@pytest.mark.parametrize("served", [None, 0.0])
def test_without_a_pace_nothing_is_guessed(served: float | None) -> None:
    table, group = parts(snapshot(decided("channel=chat", 280, served)))
    found = shown_wait(table, group, group.rows[0])
    if served is None:
        assert found is None, "a coded rate says too little"
    else:
        assert found is not None
        assert (found.days, found.weeks, found.ways) == (inf, 8, ("compare larger slices",))
    assert shown_wait(table, group, hidden("channel=chat")) is None
    bare = replace(table, windows=())
    assert shown_wait(bare, group, group.rows[0]) is None, "nobody knows how much is audited"


def test_more_audits_are_no_help_where_reviews_are_rare() -> None:
    wait = LabelWait.of(Pace.of(100, 0.99, 0.005, 0.5), 11, crossed=True)
    assert (wait.route, wait.waited, wait.weeks) == (REVIEW, 14, 2)
    assert wait.ways == ("pool 2 values into one",)
    assert slice_wait(wait) == (
        "At the pace shown, 11 labels of human_review take it two to four weeks, and 14 days are"
        " waited for; to be fast enough: pool 2 values into one."
    )


def test_of_a_slice_that_is_waited_for_no_help_is_named() -> None:
    wait = LabelWait(11, REVIEW, days=3.0, waited=14.0, audit=0.5)
    assert slice_wait(wait) == (
        "At the pace shown, 11 labels of human_review take it less than a week; which values are"
        " waited for is decided anew each Monday."
    )


def test_a_group_by_that_is_as_new_as_its_data_does_not_wait() -> None:
    assert waits_of(snapshot(decided("channel=chat", 280))) == []
    assert waits_of(snapshot(decided("channel=chat", 280), labelled=T0 - USUAL)) == []


def test_a_group_by_says_what_its_slowest_slice_waits_for() -> None:
    rows = decided("channel=chat", 2800), decided("channel=email", 280), hidden("channel=fax")
    (said,) = waits_of(snapshot(*rows, labelled=T0 - 5 * DAY))
    assert said == (
        "channel: rates that rest on labels end 2024-09-29 09:00 UTC and wait until each slice has"
        " no labels or 11 more of each route. Of those that are shown and waited for, the slowest"
        " gets 11 labels of auto_serve in one to two weeks; more audits, or pooling it with a"
        " similar value, helps."
    )


def test_more_audits_do_not_help_a_slice_that_waits_for_reviews() -> None:
    wait = LabelWait.of(Pace.of(100, 0.9, 0.02, 0.5), 11, crossed=False)
    assert (wait.route, wait.named) == (REVIEW, True)
    said = group_wait(GroupWait("channel", True, T0, 11, wait))
    assert "11 labels of human_review" in said
    assert said.endswith("; pooling it with a similar value, helps.")


def test_where_all_are_too_slow_it_says_what_would_be_enough() -> None:
    (said,) = waits_of(snapshot(decided("channel=chat", 140), labelled=None))
    assert said == (
        "channel: rates that rest on labels are not shown yet and wait until each slice has no"
        " labels or 11 more of each route. None that is shown is fast enough: the fastest gets 11"
        " labels of auto_serve in two to four weeks, and 10 days are waited for; to be fast enough:"
        " audit 10% or more, or pool 2 values into one."
    )
    (said,) = waits_of(snapshot(hidden("channel=chat"), labelled=None))
    assert said.endswith("of each route. More audits, or pooling rare values, help.")


def test_decisions_wait_as_well() -> None:
    made = snapshot(decided("channel=chat", 280))
    late = replace(made, watermark=T0 + 5 * DAY, frontier=T0)
    (said,) = waits_of(late)
    assert said.startswith("channel: selection and blocked rates end 2024-10-04 09:00 UTC")


def test_where_nothing_is_hidden_nothing_waits() -> None:
    made = snapshot(decided("channel=chat", 280), labelled=None)
    table, _ = parts(made)
    assert list(group_waits(made, replace(table, k=1), table.windows[0])) == []


def test_a_hidden_cell_says_how_long_it_takes_and_what_helps() -> None:
    table, _ = parts(snapshot(decided("channel=chat", 140), hidden("channel=fax")))
    window = table.windows[0]
    place, rare = (
        find_place(table, window, "channel", f"channel={name}") for name in ("chat", "fax")
    )
    assert place is not None
    assert rare is not None
    why, until = why_and_until(place, Metric.TPR)
    assert "Which of these it is, is not told" in why
    assert "11 labels of auto_serve take it two to four weeks" in until
    assert "audit 10% or more, or pool 2 values into one" in until
    _, until = why_and_until(rare, Metric.TPR)
    assert until.endswith(pooled_below(crossed=False))


@pytest.mark.parametrize(
    ("weeks", "said"), [(0, "less than a week"), (1, "one to four weeks"), (4, "more than four")]
)
def test_what_is_not_decided_yet_says_how_many_weeks_of_labels_it_takes(
    weeks: int, said: str
) -> None:
    table, _ = parts(snapshot(decided("channel=chat", 140)))
    place = find_place(table, table.windows[0], "channel", "channel=chat")
    assert place is not None
    states, needs = {Metric.TPR: State.INCONCLUSIVE}, {Metric.TPR: weeks}
    waiting = replace(place, row=replace(place.row, states=states, label_needs=needs))
    assert f"takes {said}" in why_and_until(waiting, Metric.TPR)[1]


def test_stale_data_say_when_they_ended() -> None:
    table, _ = parts(snapshot(decided("channel=chat", 140)))
    place = find_place(table, table.windows[0], "channel", "channel=chat")
    assert place is not None
    row = replace(place.row, states={Metric.SELECTION: State.STALE, Metric.TPR: State.STALE})
    ended = Place(place.contract, place.window, replace(place.table, labelled=None), row)
    assert ended.table.decisions is not None
    end = moment_text(ended.table.decisions.end)
    assert f"its data end in {end}," in why_and_until(ended, Metric.SELECTION)[0]
    assert "its data end, which" in why_and_until(ended, Metric.TPR)[0]


def test_the_periods_in_words_are_those_of_the_maps() -> None:
    assert (POOL_PERIOD, CELL_PERIOD) == (DAY, 2 * DAY)
    assert "in a day are pooled" in pooled_below(crossed=False)
    assert "in two days are pooled" in pooled_below(crossed=True)
    assert waited_for(crossed=True, labels=False) == CELL_PERIOD
