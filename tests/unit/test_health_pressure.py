"""Is the consumer well, and which topic must wait for the other?"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.health import (
    POLL_SECONDS,
    STUCK_SECONDS,
    UNASSIGNED_SECONDS,
    ConsumerState,
    Health,
)
from consumers.pressure import LABELS_AHEAD, paused_shards
from monitor.core.time import DAY, HOUR
from monitor.ports import Shard

HORIZON = 30 * DAY
T0 = 20_000 * DAY


@dataclass
class One:
    """As much of a shard as back-pressure looks at."""

    shard: Shard
    newest: int | None
    caught_up: bool

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


def test_well_at_first_and_starting() -> None:
    health = Health.at(100.0)
    assert health.state(100.0) is ConsumerState.STARTING
    assert health.live(100.0)
    assert health.ready(100.0) == (False, "no assignment yet")
    assert health.stuck(100.0) is None


@pytest.mark.parametrize(
    ("field", "limit", "behind"),
    [
        ("polled", POLL_SECONDS, False),
        ("stored", STUCK_SECONDS, False),
        ("progressed", STUCK_SECONDS, True),
        ("assigned", UNASSIGNED_SECONDS, False),
    ],
)
def test_each_deadline(field: str, limit: float, behind: bool) -> None:
    now = 10_000.0
    health = Health.at(now)
    health.started, health.behind = True, behind
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
    health.started, health.progressed = True, 0.0
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


def test_labels_ahead_is_an_hour() -> None:
    assert LABELS_AHEAD == HOUR
