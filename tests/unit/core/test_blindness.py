"""Whether the monitor is blind, judged from facts: each reason with both sides of its limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.core.blindness import (
    BEHIND,
    MISSED,
    SILENT,
    WORKER_SILENT,
    Blind,
    Facts,
    ReadShard,
    blindness,
)
from monitor.core.time import DAY, HOUR, MINUTE, SECOND

NOW = 500_000 * HOUR
LATENESS = 10 * MINUTE
FRESH = NOW - MINUTE
SEES = ReadShard("decisions/0", True, 0, FRESH, FRESH - LATENESS, awaited=True)
LABELS = ReadShard("labels/0", False, 0, FRESH, FRESH - LATENESS, awaited=True)


def facts(*shards: ReadShard, missed: float | None = None) -> Facts:
    return Facts(NOW, LATENESS, shards, missed)


def reasons(*shards: ReadShard, missed: float | None = None) -> list[Blind]:
    return [one.why for one in blindness(facts(*shards, missed=missed))]


def text(*shards: ReadShard, missed: float | None = None) -> str:
    (one,) = blindness(facts(*shards, missed=missed))
    return one.text


def test_who_sees_is_not_blind() -> None:
    assert reasons(SEES, LABELS) == []
    assert reasons(SEES, LABELS, missed=0.0) == []


def test_nothing_expected_is_not_blind() -> None:
    """No partition is known yet, or every topic is retired."""
    assert reasons() == []
    assert facts().newest is None


def test_a_service_that_has_a_worker_and_no_event_yet_is_not_blind() -> None:
    new = replace(SEES, newest=None, watermark=None)
    assert reasons(new, replace(LABELS, newest=None, watermark=None)) == []
    assert reasons(new, missed=1e9) == []


# A worker


@pytest.mark.parametrize("shard", [SEES, LABELS])
@pytest.mark.parametrize(
    ("seen", "blind"), [(0, False), (WORKER_SILENT, False), (WORKER_SILENT + 1, True), (None, True)]
)
def test_a_partition_without_a_worker(shard: ReadShard, seen: int | None, blind: bool) -> None:
    other = LABELS if shard is SEES else SEES
    found = reasons(replace(shard, seen=seen), other)
    assert found == ([Blind.NO_WORKER] if blind else [])


def test_a_worker_whose_sign_of_life_is_ahead_of_the_clock_is_there() -> None:
    assert reasons(replace(SEES, seen=-DAY)) == []


@pytest.mark.parametrize("awaited", [True, False])
def test_a_partition_is_read_whether_it_is_awaited_or_not(awaited: bool) -> None:
    """A parked one is claimed by a worker all the same, and an empty one may fill."""
    assert reasons(replace(SEES, seen=None, awaited=awaited)) == [Blind.NO_WORKER]


def test_who_reads_nothing_is_told_what_to_do() -> None:
    said = text(replace(SEES, seen=None))
    assert said == "no worker reads decisions/0: start slicewatch ingest, or look why it stopped"


@pytest.mark.parametrize(
    ("number", "named"),
    [(3, "d/0, d/1, d/2:"), (4, "d/0, d/1, d/2 and 1 more:"), (99, "and 96 more:")],
)
def test_few_partitions_are_named(number: int, named: str) -> None:
    alone = [replace(SEES, name=f"d/{n}", seen=None) for n in range(number)]
    assert named in text(*reversed(alone))


# Behind


def late(by: int) -> ReadShard:
    return replace(SEES, name="decisions/1", watermark=FRESH - LATENESS - by)


@pytest.mark.parametrize(("by", "blind"), [(0, False), (BEHIND, False), (BEHIND + 1, True)])
def test_a_partition_that_holds_all_windows_back(by: int, blind: bool) -> None:
    assert reasons(SEES, late(by)) == ([Blind.BEHIND] if blind else [])


def test_one_without_a_watermark_holds_them_back() -> None:
    never = replace(late(0), newest=None, watermark=None)
    assert reasons(SEES, never) == [Blind.BEHIND]
    said = text(SEES, never)
    assert said.startswith("decisions/1 is more than 15 minutes behind")
    assert "ingest is behind there, look first at the log of the worker" in said


def test_one_that_is_not_awaited_holds_nothing_back() -> None:
    """It is parked, or at its end."""
    assert reasons(SEES, replace(late(DAY), awaited=False)) == []


def test_labels_come_weeks_after_their_decisions() -> None:
    assert reasons(SEES, replace(LABELS, watermark=FRESH - 30 * DAY)) == []
    assert reasons(SEES, replace(LABELS, newest=None, watermark=None)) == []


def test_in_a_simulation_minutes_are_those_of_who_watches() -> None:
    """A day in ten seconds: a thread that waits a moment for a core is an hour behind."""
    pace = 8_640.0
    hours = replace(facts(SEES, late(6 * HOUR)), pace=pace)
    assert blindness(hours) == []
    (reason,) = blindness(replace(hours, shards=(SEES, late(int(BEHIND * pace) + 1))))
    assert reason.why is Blind.BEHIND
    assert blindness(replace(facts(silent(DAY), missed=1e9), pace=pace)) == []


def test_all_that_are_behind_the_clock_alike_are_not_behind_each_other() -> None:
    old = replace(SEES, newest=NOW - 30 * DAY, watermark=NOW - 30 * DAY - LATENESS)
    assert reasons(old, replace(old, name="decisions/1")) == []


def test_labels_beyond_the_decisions_are_no_measure() -> None:
    assert reasons(SEES, replace(LABELS, newest=NOW + DAY)) == []
    assert facts(SEES, replace(LABELS, newest=NOW + DAY)).newest == FRESH


# Silent


def silent(since: int) -> ReadShard:
    return replace(SEES, newest=NOW - since, watermark=NOW - since - LATENESS)


@pytest.mark.parametrize(("since", "blind"), [(SILENT - 1, False), (SILENT, True), (DAY, True)])
def test_a_silence_is_told_after_half_an_hour(since: int, blind: bool) -> None:
    assert reasons(silent(since), missed=1e9) == ([Blind.DECISIONS_SILENT] if blind else [])


@pytest.mark.parametrize(
    ("missed", "blind"), [(None, False), (0.0, False), (MISSED - 1e-6, False), (MISSED, True)]
)
def test_a_silence_is_measured_by_what_usually_comes(missed: float | None, blind: bool) -> None:
    found = reasons(silent(DAY), missed=missed)
    assert found == ([Blind.DECISIONS_SILENT] if blind else [])


def test_the_newest_partition_counts() -> None:
    assert reasons(SEES, replace(silent(DAY), awaited=False), missed=1e9) == []


def test_the_very_instant_of_the_last_decision_is_not_told() -> None:
    at = 500_000 * HOUR - 3 * HOUR + 17 * MINUTE + 12_345
    said = text(replace(SEES, newest=at, watermark=at - LATENESS), missed=99.0)
    assert said == (
        "no decision since 2027-01-15 05:15Z was counted, although many usually come at this time"
        " of the week: look first at slicewatch_consumer_lag_messages: above 0, ingest is behind,"
        " and at 0, the router, or what sends its decisions, is silent"
    )
    assert "99" not in said


def test_where_a_worker_is_known_to_be_behind_nobody_is_sent_to_the_router() -> None:
    at = NOW - 3 * DAY
    known = replace(facts(silent(DAY), missed=MISSED), labels_silent_since=at, ingest_behind=True)
    for one in blindness(known):
        assert one.text.endswith(
            ": ingest is behind, look first at its log and at slicewatch_consumer_lag_messages"
        )
        assert "router" not in one.text


@pytest.mark.parametrize(
    ("unstored", "blind"), [(None, False), (60 * SECOND, False), (60 * SECOND + 1, True)]
)
def test_a_worker_that_cannot_store(unstored: int | None, blind: bool) -> None:
    found = reasons(SEES, replace(LABELS, unstored=unstored))
    assert found == ([Blind.NOT_STORED] if blind else [])


def test_silent_labels_are_told_by_the_hour_and_say_where_to_look() -> None:
    at = 500_000 * HOUR - 50 * HOUR
    (one,) = blindness(replace(facts(SEES, LABELS), labels_silent_since=at))
    assert one.why is Blind.LABELS_SILENT
    assert one.text == (
        "hardly any label since 2027-01-13 06:00Z was counted, although a day's labels or more"
        " usually come in that time: look first at slicewatch_consumer_lag_messages: above 0,"
        " ingest is behind, and at 0, what sends the reviewers' labels is silent"
    )


def test_every_reason_is_told_in_order() -> None:
    gone = replace(late(2 * DAY), seen=None, newest=None, unstored=DAY)
    found = blindness(Facts(NOW, LATENESS, [silent(DAY), gone], MISSED, NOW - 3 * DAY))
    assert [one.why for one in found] == list(Blind)
    assert not any(";" in one.text for one in found), "which parts one reason from the next"
