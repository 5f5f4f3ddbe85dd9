"""Early, late and leaping: the verdict on an event never depends on how the stream is cut up."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.clocks import JUMP, JUMPS_BELIEVED, TOO_EARLY, TOO_OLD, ClockPolicy, ShardClock
from monitor.core.time import DAY, MINUTE

HORIZON, EARLY = 30 * DAY, 5 * MINUTE
LIVE = ClockPolicy(live=True, horizon=HORIZON, max_early=EARLY)
HISTORY = ClockPolicy(live=False, horizon=HORIZON, max_early=EARLY)
T0 = 20_000 * DAY


def judge(clock: ShardClock, ts: list[int], stamps: list[int] | None = None) -> list[str | None]:
    stamped = np.array(stamps if stamps is not None else [-1] * len(ts), np.int64)
    reasons, running = clock.admit(np.array(ts, np.int64), stamped)
    assert len(running) == len(ts)
    return list(reasons)


def naive(policy: ClockPolicy, ts: list[int], stamps: list[int]) -> list[str | None]:
    """One event at a time, straight from the design."""
    newest, jumps, out = None, 0, []
    for at, stamp in zip(ts, stamps, strict=True):
        reason = None
        ahead = newest is not None and at > newest + policy.horizon
        if policy.live:
            if stamp >= 0 and at > stamp * 1000 + policy.max_early:
                reason = TOO_EARLY
        elif ahead and jumps < JUMPS_BELIEVED:
            reason, jumps = JUMP, jumps + 1
        if not ahead or reason is None:
            jumps = 0
        if reason is None and newest is not None and at < newest - policy.horizon:
            reason = TOO_OLD
        elif reason is None:
            newest = at if newest is None else max(newest, at)
        out.append(reason)
    return out


@pytest.mark.parametrize("policy", [LIVE, HISTORY], ids=["live", "history"])
@given(seed=st.integers(0, 10**9), size=st.integers(1, 300))
def test_any_cut_gives_the_naive_verdicts(policy: ClockPolicy, seed: int, size: int) -> None:
    pick = random.Random(seed)
    center, ts, stamps = T0, [], []
    for _ in range(size):
        center += pick.choice((0, 1, MINUTE, DAY, DAY, 31 * DAY if pick.random() < 0.02 else 0))
        spread = pick.choice((0, MINUTE, 29 * DAY, 31 * DAY, -30 * DAY, -31 * DAY))
        ts.append(center + spread if pick.random() < 0.5 else center)
        stamps.append(pick.choice((-1, center // 1000, (center + spread) // 1000)))
    clock, found = ShardClock(policy), []
    at = 0
    while at < size:
        step = pick.choice((1, 2, 50, 300))
        found += judge(clock, ts[at : at + step], stamps[at : at + step])
        clock = ShardClock(policy, clock.newest, clock.jumps)  # a restart from what is stored
        at += step
    assert found == naive(policy, ts, stamps)


def test_limits_are_inclusive() -> None:
    clock = ShardClock(LIVE)
    stamp = T0 // 1000
    assert judge(clock, [T0 + EARLY, T0 + EARLY + 1], [stamp, stamp]) == [None, TOO_EARLY]
    oldest = T0 + EARLY - HORIZON
    assert judge(clock, [oldest, oldest - 1]) == [None, TOO_OLD]
    assert clock.newest == T0 + EARLY


def test_refused_events_do_not_move_the_clock() -> None:
    clock = ShardClock(LIVE)
    assert judge(clock, [T0 + DAY], [T0 // 1000]) == [TOO_EARLY]
    assert clock.newest is None
    clock = ShardClock(HISTORY, T0)
    assert judge(clock, [T0 + HORIZON + 1]) == [JUMP]
    assert (clock.newest, clock.jumps) == (T0, 1)


def test_a_hundred_leaps_in_a_row_are_believed() -> None:
    clock, far = ShardClock(HISTORY, T0), T0 + 400 * DAY
    assert judge(clock, [far] * JUMPS_BELIEVED) == [JUMP] * JUMPS_BELIEVED
    assert judge(clock, [far, T0]) == [None, TOO_OLD]
    interrupted = ShardClock(HISTORY, T0)
    verdicts = judge(interrupted, [far] * 99 + [T0] + [far] * 100)
    assert verdicts == [JUMP] * 99 + [None] + [JUMP] * 100


def test_nothing_in_nothing_out() -> None:
    clock = ShardClock(HISTORY, T0, jumps=7)
    assert judge(clock, []) == []
    assert (clock.newest, clock.jumps) == (T0, 7)
