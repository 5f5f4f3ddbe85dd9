"""Whether the monitor is blind, judged from facts: each reason with both sides of its limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.core.blindness import (
    BEHIND,
    UNREAD,
    WORKER_SILENT,
    Blind,
    Facts,
    ReadShard,
    Reason,
    blindness,
)
from monitor.core.expected_arrivals import MissingDecisions
from monitor.core.time import DAY, HOUR, MINUTE, SECOND

NOW = 500_000 * HOUR
LATENESS = 10 * MINUTE
FRESH = NOW - MINUTE
SEES = ReadShard("decisions/0", True, 0, FRESH, FRESH - LATENESS, awaited=True)
LABELS = ReadShard("labels/0", False, 0, FRESH, FRESH - LATENESS, awaited=True)


def facts(*shards: ReadShard) -> Facts:
    return Facts(NOW, LATENESS, shards)


def reasons(*shards: ReadShard) -> list[Blind]:
    return [one.why for one in blindness(facts(*shards))]


def text(*shards: ReadShard) -> str:
    (one,) = blindness(facts(*shards))
    return one.text


def test_who_sees_is_not_blind() -> None:
    assert reasons(SEES, LABELS) == []


def test_nothing_expected_is_not_blind() -> None:
    """No partition is known yet, or every topic is retired."""
    assert reasons() == []
    assert facts().newest is None


def test_a_service_that_has_a_worker_and_no_event_yet_is_not_blind() -> None:
    new = replace(SEES, newest=None, watermark=None)
    assert reasons(new, replace(LABELS, newest=None, watermark=None)) == []


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


def test_all_that_are_behind_the_clock_alike_are_not_behind_each_other() -> None:
    old = replace(SEES, newest=NOW - 30 * DAY, watermark=NOW - 30 * DAY - LATENESS)
    assert reasons(old, replace(old, name="decisions/1")) == []


def test_labels_beyond_the_decisions_are_no_measure() -> None:
    assert reasons(SEES, replace(LABELS, newest=NOW + DAY)) == []
    assert facts(SEES, replace(LABELS, newest=NOW + DAY)).newest == FRESH


# Not read


@pytest.mark.parametrize(
    ("unread", "blind"), [(None, False), (UNREAD, False), (UNREAD + 1, True), (30 * DAY, True)]
)
def test_decisions_that_wait_and_are_not_read(unread: int | None, blind: bool) -> None:
    """Whatever is usual at this time: nothing is known of the router here."""
    assert reasons(replace(SEES, unread=unread)) == ([Blind.NOT_READ] if blind else [])
    assert reasons(replace(LABELS, unread=unread)) == [], "labels may wait for their decisions"


def test_a_page_of_what_is_not_read_comes_within_ten_minutes() -> None:
    """Beats, judgements and the alert's own five minutes included."""
    assert UNREAD + 10 * SECOND + 15 * SECOND + 5 * MINUTE < 10 * MINUTE


# Missing decisions

SAID = "On the last four Tuesdays decisions came between 09:10 and 09:15; none since 08:50 (UTC)"


def missing(*shards: ReadShard, pages: bool = True) -> list[Reason]:
    return blindness(Facts(NOW, LATENESS, shards, MissingDecisions(pages, SAID)))


@pytest.mark.parametrize(
    ("pages", "why"), [(True, Blind.DECISIONS_SILENT), (False, Blind.DECISIONS_LATE)]
)
def test_decisions_that_are_missing_say_what_was_expected(pages: bool, why: Blind) -> None:
    (reason,) = missing(SEES, LABELS, pages=pages)
    assert (reason.why, reason.blinds, reason.expected) == (why, pages, SAID)
    assert reason.text == (
        f"{SAID}. All that came was read: look at the router, and at what sends its decisions to"
        " Kafka"
    )


@pytest.mark.parametrize(
    "change", [{"unread": 0}, {"unstored": 0}, {"seen": None}, {"seen": WORKER_SILENT + 1}], ids=str
)
def test_while_decisions_wait_nothing_is_said_of_the_router(change: dict[str, int | None]) -> None:
    other = replace(SEES, name="decisions/1", **change)  # type: ignore[arg-type]
    assert {Blind.DECISIONS_SILENT, Blind.DECISIONS_LATE}.isdisjoint(
        reason.why for reason in missing(SEES, other)
    )
    assert [r.why for r in missing(SEES, replace(LABELS, unread=DAY))] == [Blind.DECISIONS_SILENT]


@pytest.mark.parametrize(
    ("unstored", "blind"), [(None, False), (60 * SECOND, False), (60 * SECOND + 1, True)]
)
def test_a_worker_that_cannot_store(unstored: int | None, blind: bool) -> None:
    found = reasons(SEES, replace(LABELS, unstored=unstored))
    assert found == ([Blind.NOT_STORED] if blind else [])


@pytest.mark.parametrize(
    ("unread", "where"),
    [
        (None, "look at what sends the reviewers' labels"),
        (HOUR, "labels wait to be read, look first at the log of slicewatch ingest"),
    ],
)
def test_silent_labels_are_told_by_the_hour_and_say_where_to_look(
    unread: int | None, where: str
) -> None:
    at = 500_000 * HOUR - 50 * HOUR
    shards = (SEES, replace(LABELS, unread=unread))
    (one,) = blindness(replace(facts(*shards), labels_silent_since=at))
    assert one.why is Blind.LABELS_SILENT
    assert one.text == (
        "hardly any label since 2027-01-13 06:00Z was counted, although a day's labels or more"
        f" usually come in that time: {where}"
    )


def test_every_reason_is_told_in_order() -> None:
    gone = replace(late(2 * DAY), seen=None, newest=None, unstored=DAY, unread=DAY)
    found = blindness(Facts(NOW, LATENESS, [SEES, gone], None, NOW - 3 * DAY))
    found += missing(SEES) + missing(SEES, pages=False)
    assert {one.why for one in found} == set(Blind)
    read = [one.why for one in found[:5]]
    assert read == [why for why in Blind if why in read]
    assert not any(";" in one.text for one in found[:5]), "which parts one reason from the next"
