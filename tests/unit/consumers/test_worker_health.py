"""Is the consumer well, and which topic must wait for the other?"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.backpressure import (
    HELD_SECONDS,
    LABELS_AHEAD,
    MAX_HELD,
    EarlyLabels,
    PeerProgress,
    paused_shards,
)
from consumers.worker_health import (
    POLL_SECONDS,
    STUCK_SECONDS,
    UNASSIGNED_SECONDS,
    Health,
    Progress,
)
from monitor.core.time import DAY, HOUR, MINUTE
from monitor.records import Shard
from monitor.shard_status import ConsumerState, ShardStatus, Tallies

HORIZON = 30 * DAY
T0 = 20_000 * DAY


@dataclass
class One:
    """As much of a shard as back-pressure looks at."""

    shard: Shard
    newest: int | None
    caught_up: bool
    high_water: int | None = None
    doubted: bool = False
    dirty: bool = True
    buffered: int = 0

    @property
    def is_decisions(self) -> bool:
        return self.shard.topic == "d"

    @property
    def clock(self) -> Any:
        return SimpleNamespace(newest=self.newest)


def paused(*states: tuple[str, int | None, bool]) -> set[str]:
    shards = [One(Shard(name[0], int(name[1:])), at, done) for name, at, done in states]
    found = paused_shards(shards, HORIZON)  # type: ignore[arg-type]
    return {f"{shard.topic}{shard.partition}" for shard in found}


@pytest.mark.parametrize(
    ("states", "wanted"),
    [
        ((), set()),
        ((("d0", None, False), ("l0", None, False)), set()),
        ((("d0", T0, False), ("l0", T0 + LABELS_AHEAD, False)), set()),
        ((("d0", T0, False), ("l0", T0 + LABELS_AHEAD + 1, False)), {"l0"}),
        ((("d0", T0, True), ("l0", T0 + DAY, False)), set()),
        ((("d0", None, False), ("l0", T0, True)), {"l0"}),
        ((("d0", T0 + HORIZON // 2, False), ("l0", T0, False)), set()),
        ((("d0", T0 + HORIZON // 2 + 1, False), ("l0", T0, False)), {"d0"}),
        ((("d0", T0 + HORIZON, False), ("l0", T0, True)), set()),
        ((("d0", T0 + HORIZON, False), ("l0", None, False)), set()),
        ((("d0", T0, False), ("d1", T0 + HORIZON, False), ("l0", T0, False)), {"d1"}),
    ],
)
def test_pressure(states: Any, wanted: set[str]) -> None:
    assert paused(*states) == wanted


@given(
    st.lists(
        st.tuples(
            st.sampled_from("dl"),
            st.none() | st.integers(0, 100).map(lambda days: T0 + days * DAY),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_pressure_never_stops_everything(shards: list[tuple[str, int | None, bool]]) -> None:
    """Whatever the state, something that is not read to its end may be read."""
    states = [(f"{topic}{i}", at, done) for i, (topic, at, done) in enumerate(shards)]
    unread = {name for name, _, done in states if not done}
    assert not unread or unread - paused(*states)


SHARDS = st.lists(
    st.tuples(
        st.sampled_from("dl"),
        st.none() | st.integers(0, 100).map(lambda days: T0 + days * DAY),
        st.booleans(),
        st.integers(0, 1),
    ),
    max_size=8,
)


@given(SHARDS)
def test_two_workers_never_wait_for_each_other(
    found: list[tuple[str, int | None, bool, int]],
) -> None:
    """No label is later than every decision: then what is earliest of all may be read."""
    top = max((at for topic, at, _, _ in found if topic == "d" and at), default=None)
    workers: tuple[list[One], list[One]] = ([], [])
    for number, (topic, at, done, worker) in enumerate(found):
        newest = at if topic == "d" or at is None or top is None else min(at, top)
        if topic == "l" and top is None:
            newest = None
        workers[worker].append(One(Shard(topic, number), newest, done))
    stopped = {
        shard
        for mine, others in (workers, workers[::-1])
        for shard in paused_shards(mine, HORIZON, seen_from_afar(others, top))  # type: ignore[arg-type]
    }
    unread = {one.shard for one in (*workers[0], *workers[1]) if not one.caught_up}
    assert not unread or unread - stopped


def seen_from_afar(others: list[One], top: int | None) -> PeerProgress:
    """As the store has it: a shard that is caught up took over the newest decision's time."""
    marks = [(one, top if one.caught_up and top else one.newest) for one in others]
    return PeerProgress(
        [mark for one, mark in marks if one.is_decisions],
        [mark for one, mark in marks if not one.is_decisions],
    )


def test_a_worker_without_decisions_waits_for_those_of_another() -> None:
    labels = [One(Shard("l", 0), T0 + 2 * HOUR, False)]
    decisions = [One(Shard("d", 0), T0 + HORIZON, False)]

    def waits(shards: list[One], elsewhere: PeerProgress) -> bool:
        return bool(paused_shards(shards, HORIZON, elsewhere))  # type: ignore[arg-type]

    assert not waits(labels, PeerProgress())
    assert waits(labels, PeerProgress(decisions=[T0 + DAY, T0]))
    assert waits(labels, PeerProgress(decisions=[None]))
    assert not waits(labels, PeerProgress(decisions=[T0 + 2 * HOUR - LABELS_AHEAD]))
    assert waits(decisions, PeerProgress(labels=[T0 + HORIZON, T0]))
    assert not waits(decisions, PeerProgress(labels=[None, T0 + HORIZON]))


def held(early: EarlyLabels, *states: One, now: float = 0.0) -> set[str]:
    return {str(shard.partition) for shard in early.held(states, now)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("decisions", "waits"),
    [
        ((), False),
        ([One(Shard("d", 0), T0, False)], True),
        ([One(Shard("d", 0), T0 + 1, False)], False),
        ([One(Shard("d", 0), None, False)], True),
        ([One(Shard("d", 0), T0, True)], False),
        ([One(Shard("d", 0), T0 + 1, False), One(Shard("d", 1), T0, False)], True),
    ],
)
def test_labels_ahead_of_decisions_that_are_about_to_be_read_are_not_stored_yet(
    decisions: list[One], waits: bool
) -> None:
    labels = One(Shard("l", 7), T0 + 1, False)
    assert held(EarlyLabels(), *decisions, labels) == ({"7"} if waits else set())


def test_only_labels_that_are_not_stored_yet_are_held() -> None:
    behind = One(Shard("d", 0), T0, False)
    assert not held(EarlyLabels(), behind, One(Shard("l", 0), T0 + 1, False, dirty=False))
    assert not held(EarlyLabels(), behind, One(Shard("l", 0), None, False))
    assert not held(EarlyLabels(), behind, One(Shard("d", 1), T0 + DAY, False))


def test_labels_are_held_for_a_limited_time_each_time() -> None:
    early, behind = EarlyLabels(), One(Shard("d", 0), T0, False)
    labels = One(Shard("l", 0), T0 + 1, False)
    assert held(early, behind, labels, now=100.0)
    assert held(early, behind, labels, now=99.0 + HELD_SECONDS)
    assert not held(early, behind, labels, now=100.0 + HELD_SECONDS)
    labels.dirty = False  # they were stored
    assert not held(early, behind, labels, now=101.0 + HELD_SECONDS)
    labels.dirty = True
    assert held(early, behind, labels, now=102.0 + HELD_SECONDS)


def test_labels_that_are_held_do_not_fill_the_memory() -> None:
    behind = One(Shard("d", 0), T0, False)
    many = [One(Shard("l", i), T0 + 1, False, buffered=MAX_HELD // 2) for i in range(2)]
    assert held(EarlyLabels(), behind, *many) == {"0", "1"}
    many[0].buffered += 1
    assert not held(EarlyLabels(), behind, *many)


def test_what_the_store_says_of_others() -> None:
    def status(shard: Shard, watermark: int | None, **more: Any) -> ShardStatus:
        fields: dict[str, Any] = dict.fromkeys(
            ("owner", "start_offset", "next_offset", "max_decided_at")
        )
        return ShardStatus(
            shard=shard, epoch=1, seq=0, watermark=watermark, tallies=Tallies(), **fields, **more
        )  # fmt: skip

    statuses = [
        status(Shard("d", 0), T0),
        status(Shard("d", 1), T0 + 1),
        status(Shard("d", 2), None),
        status(Shard("d", 3), T0 - DAY, parked="its data is gone"),
        status(Shard("d", 4), None, holds_back=False),
        status(Shard("l", 0), T0 - HOUR),
    ]
    found = PeerProgress.from_statuses(statuses, [Shard("d", 0)], "d", 600)
    assert found == PeerProgress([T0 + 601, None], [T0 - HOUR + 600])


def stalled(*turns: tuple[float, One, bool]) -> tuple[str, list[Shard]]:
    """Shards that stall, and those whose end is unknown, after (seconds, state, moved)."""
    progress = Progress()
    for now, state, moved in turns:
        progress.note([state], {state.shard} if moved else (), now)  # type: ignore[list-item]
    now, state, _ = turns[-1]
    return progress.stalled([state], now), progress.unknown([state], now)  # type: ignore[list-item]


def test_a_shard_that_does_not_move() -> None:
    behind = One(Shard("d", 0), T0, False, high_water=9)
    assert stalled((0, behind, False), (60, behind, False)) == ("", [])
    assert stalled((0, behind, False), (61, behind, False)) == ("d/0", [])
    assert stalled((0, behind, False), (50, behind, True), (61, behind, False)) == ("", [])
    done = One(Shard("d", 0), T0, True, high_water=9)
    assert stalled((0, done, False), (500, done, False), (501, behind, False)) == ("", [])


def test_a_shard_whose_end_nobody_told() -> None:
    nothing = One(Shard("d", 0), None, False)
    assert stalled((0, nothing, False), (10, nothing, False)) == ("", [])
    assert stalled((0, nothing, False), (61, nothing, False)) == ("", [nothing.shard])
    told = One(Shard("d", 0), None, False, high_water=1)
    assert stalled((0, nothing, False), (61, told, False)) == ("d/0", [])


def test_the_end_of_a_quiet_shard_is_asked_for_again() -> None:
    """What was read to its end an hour ago may have gone on, where its leader is away."""
    quiet = One(Shard("d", 0), T0, True, high_water=9)
    assert stalled((0, quiet, True), (60, quiet, False)) == ("", [])
    assert stalled((0, quiet, True), (61, quiet, False)) == ("", [quiet.shard])
    assert stalled((0, quiet, False), (50, quiet, True), (61, quiet, False)) == ("", [])
    doubted = One(Shard("d", 0), T0, False, high_water=9, doubted=True)
    assert stalled((0, quiet, True), (61, doubted, False)) == ("d/0", [doubted.shard])


def test_many_stalled_shards_are_not_all_named() -> None:
    shards = [One(Shard("d", number), T0, False, high_water=9) for number in range(5)]
    progress = Progress()
    progress.note(shards, (), 0)  # type: ignore[arg-type]
    assert progress.stalled(shards, 61) == "d/0, d/1, d/2 and 2 more"  # type: ignore[arg-type]


def test_a_stall_is_named() -> None:
    health = Health.at(0.0)
    health.started, health.stalled = True, "decisions/1"
    assert "decisions/1 are waiting" in (health.stuck(0.0) or "")
    health.missing = "labels"
    assert health.ready(0.0) == (False, "topic labels does not exist any more")


def test_well_at_first_and_starting() -> None:
    health = Health.at(100.0)
    assert health.state(100.0) is ConsumerState.STARTING
    assert health.live(100.0)
    assert health.ready(100.0) == (False, "no assignment yet")
    assert health.stuck(100.0) is None


@pytest.mark.parametrize(
    ("field", "limit"),
    [
        ("polled", POLL_SECONDS),
        ("stored", STUCK_SECONDS),
        ("claimed", STUCK_SECONDS),
        ("assigned", UNASSIGNED_SECONDS),
    ],
)
def test_each_deadline(field: str, limit: float) -> None:
    now = 10_000.0
    health = Health.at(now)
    health.started = True
    setattr(health, field, now - limit)
    assert health.stuck(now) is None
    setattr(health, field, now - limit - 0.1)
    assert health.stuck(now)
    assert health.state(now) is ConsumerState.STUCK
    assert health.ready(now)[0] is False
    assert health.live(now), "a restart would not mend it"


def test_silence_is_no_stall() -> None:
    """Nothing there, or held back on purpose, for hours."""
    now = 10_000.0
    health = Health.at(now)
    health.started = True
    assert health.state(now) is ConsumerState.CAUGHT_UP
    health.behind = health.paused = True
    assert health.stuck(now) is None
    assert health.state(now) is ConsumerState.PAUSED
    assert health.ready(now) == (True, "ok")


def test_a_store_that_is_away_and_a_parked_shard_are_not_ready() -> None:
    health = Health.at(0.0)
    health.started, health.store_ok = True, False
    assert health.ready(1.0) == (False, "the store cannot be written")
    assert health.state(1.0) is ConsumerState.PAUSED
    health.store_ok, health.parked = True, True
    assert health.ready(1.0)[0] is False
    assert health.state(1.0) is ConsumerState.PARKED


def test_a_loop_that_no_longer_turns_is_not_alive() -> None:
    health = Health.at(0.0)
    assert health.live(4 * POLL_SECONDS)
    assert not health.live(4 * POLL_SECONDS + 1)


def test_labels_ahead_is_ten_minutes() -> None:
    assert LABELS_AHEAD == 10 * MINUTE
