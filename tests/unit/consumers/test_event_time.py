"""Early, late and leaping: the verdict on an event never depends on how the stream is cut up."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.event_time import (
    FIRST_DAY,
    FOLLOWERS,
    FUTURE,
    JUMP,
    TOO_EARLY,
    TOO_OLD,
    WITNESSES,
    Ahead,
    ClockPolicy,
    Reading,
    ShardClock,
)
from monitor.core.time import DAY, HOUR, MINUTE

HORIZON, EARLY, AHEAD = 30 * DAY, 5 * MINUTE, DAY
LIVE = ClockPolicy(live=True, horizon=HORIZON, max_early=EARLY, max_ahead=AHEAD)
HISTORY = ClockPolicy(live=False, horizon=HORIZON, max_early=EARLY)
T0 = 20_000 * DAY
NOW = T0 + 500 * DAY
FAR = T0 + 27_000 * DAY  # in 2098


def judge(
    clock: ShardClock, ts: list[int], stamps: list[int] | None = None, now: int = NOW
) -> list[str | None]:
    """The verdicts of a live clock."""
    stamped = np.array(stamps if stamps is not None else [-1] * len(ts), np.int64)
    reasons, running = clock.admit(np.array(ts, np.int64), stamped, now)
    assert len(running) == len(ts)
    return list(reasons)


def read(
    ts: list[int], cuts: list[int], clock: ShardClock | None = None, others: int | None = None
) -> tuple[list[str | None], ShardClock]:
    """The verdicts of a clock of history on a whole shard that is read in pieces, to its end."""
    clock, found, aside = clock or ShardClock(HISTORY), [], 0
    edges = [*sorted({cut for cut in cuts if 0 < cut < len(ts)}), len(ts)]
    for end in edges:
        piece, at = np.array(ts[aside:end], np.int64), np.arange(aside, end)
        reading = Reading(end - 1, ended=end == len(ts), newest_of_others=others)
        looked = clock.look(piece, at, reading)
        decided = len(piece) if looked is None else looked.decided
        unknown = np.full(decided, -1, np.int64)
        found += list(clock.admit(piece[:decided], unknown, NOW, looked)[0])
        aside += decided
        clock = ShardClock(HISTORY, clock.newest, clock.jumps)  # a restart from what is stored
    assert len(found) == len(ts)
    return found, clock


def naive_live(ts: list[int], stamps: list[int], now: int) -> list[str | None]:
    """One event at a time, straight from the design."""
    newest, out = None, []
    for at, stamp in zip(ts, stamps, strict=True):
        reason = None
        if at < FIRST_DAY:
            reason = TOO_OLD
        elif stamp >= 0 and at > stamp * 1000 + EARLY:
            reason = TOO_EARLY
        elif at > now + AHEAD:
            reason = FUTURE
        elif newest is not None and at < newest - HORIZON:
            reason = TOO_OLD
        else:
            newest = min(at, now) if newest is None else max(newest, min(at, now))
        out.append(reason)
    return out


def naive_history(ts: list[int]) -> list[str | None]:
    """One event at a time, each with all that follows it at hand."""
    newest, run = None, 0
    out: list[str | None] = []
    for row, at in enumerate(ts):
        following = ts[row + 1 : row + 1 + FOLLOWERS]
        if newest is None:
            behind = sum(one < at - HORIZON for one in following)
            believed = 2 * behind <= len(following)
        elif at > newest + HORIZON:
            agree = run + sum(abs(one - at) <= HORIZON for one in following)
            believed = agree >= WITNESSES and 2 * agree > run + len(following)
        else:
            believed = True
        if not believed:
            run += 1
            out.append(JUMP)
            continue
        run = 0
        too_old = newest is not None and at < newest - HORIZON
        newest = at if newest is None else max(newest, at)
        out.append(TOO_OLD if too_old else None)
    return out


def story(pick: random.Random, size: int) -> list[int]:
    """Time that goes on, stands, has gaps, and events that are far from where it is."""
    center, ts = T0, []
    for _ in range(size):
        center += pick.choice((0, 1, MINUTE, DAY, DAY, 31 * DAY if pick.random() < 0.02 else 0))
        spread = pick.choice((0, MINUTE, 29 * DAY, 31 * DAY, -30 * DAY, -31 * DAY, FAR - T0))
        ts.append(center + spread if pick.random() < pick.choice((0.05, 0.5)) else center)
    return ts


@given(seed=st.integers(0, 10**9), size=st.integers(1, 300))
def test_any_cut_gives_the_naive_verdicts_live(seed: int, size: int) -> None:
    pick = random.Random(seed)
    ts = story(pick, size)
    now = pick.choice((NOW, T0 + 5 * DAY, ts[-1]))
    stamps = [pick.choice((-1, now // 1000, at // 1000)) for at in ts]
    clock, found = ShardClock(LIVE), []
    at = 0
    while at < size:
        step = pick.choice((1, 2, 50, 300))
        found += judge(clock, ts[at : at + step], stamps[at : at + step], now)
        clock = ShardClock(LIVE, clock.newest)  # a restart from what is stored
        at += step
    assert found == naive_live(ts, stamps, now)
    assert clock.newest is None or clock.newest <= now, "never beyond the wall clock"


@given(seed=st.integers(0, 10**9), size=st.integers(1, 300))
def test_any_cut_gives_the_naive_verdicts_of_history(seed: int, size: int) -> None:
    pick = random.Random(seed)
    ts = story(pick, size)
    cuts = [pick.randrange(size) for _ in range(pick.choice((0, 1, 5, size)))]
    assert read(ts, cuts)[0] == naive_history(ts)


def test_limits_are_inclusive() -> None:
    clock = ShardClock(LIVE)
    stamp = T0 // 1000
    assert judge(clock, [T0 + EARLY, T0 + EARLY + 1], [stamp, stamp]) == [None, TOO_EARLY]
    oldest = T0 + EARLY - HORIZON
    assert judge(clock, [oldest, oldest - 1]) == [None, TOO_OLD]
    assert clock.newest == T0 + EARLY
    assert judge(clock, [NOW + AHEAD, NOW + AHEAD + 1]) == [None, FUTURE]
    assert judge(ShardClock(LIVE), [FIRST_DAY, FIRST_DAY - 1]) == [None, TOO_OLD]


def test_refused_events_do_not_move_the_clock() -> None:
    clock = ShardClock(LIVE)
    assert judge(clock, [T0 + DAY], [T0 // 1000]) == [TOO_EARLY]
    assert judge(clock, [FAR]) == [FUTURE]
    assert clock.newest is None
    found, history = read([FAR], [], ShardClock(HISTORY, T0))
    assert (found, history.newest, history.jumps) == ([JUMP], T0, 1)


@pytest.mark.parametrize("stamp", [-1, FAR // 1000, 2**62], ids=["none", "as early", "absurd"])
def test_one_event_of_2098_leaves_the_others_alone_whatever_its_record_says(stamp: int) -> None:
    clock = ShardClock(LIVE)
    assert judge(clock, [T0, FAR, T0 + 1], [-1, stamp, -1]) == [None, FUTURE, None]
    assert clock.newest == T0 + 1


def test_what_is_ahead_of_the_wall_clock_is_counted_and_moves_nothing() -> None:
    """A producer's clock that is fast, or ours that is slow: nobody knows which."""
    clock = ShardClock(LIVE)
    ahead = NOW + 63 * MINUTE
    assert judge(clock, [NOW, ahead, NOW + 1], [-1, (ahead - 4 * MINUTE) // 1000, -1]) == [None] * 3
    assert (clock.newest, clock.ahead) == (NOW, 63 * MINUTE)
    assert judge(clock, [NOW - HORIZON, NOW - HORIZON - 1]) == [None, TOO_OLD]
    assert clock.ahead == 0


def test_most_of_a_batch_beyond_the_wall_clock_is_told() -> None:
    clock = ShardClock(LIVE)
    judge(clock, [FAR, NOW])
    assert not clock.beyond
    judge(clock, [FAR, FAR, NOW])
    assert clock.beyond
    judge(clock, [FAR, FAR, FAR], [NOW // 1000] * 3)
    assert not clock.beyond, "their own records contradict them"


def test_a_stream_that_really_goes_on_elsewhere_loses_nothing() -> None:
    ts = [T0 + minute * MINUTE for minute in range(50)]
    ts += [T0 + 400 * DAY + minute * MINUTE for minute in range(120)]
    found, clock = read(ts, [])
    assert found == [None] * len(ts)
    assert clock.newest == ts[-1]


@pytest.mark.parametrize("times", [1, 2, 9, 12])
@pytest.mark.parametrize("place", [0, 40, 199], ids=["first", "within", "near the end"])
def test_a_few_wrong_events_of_history_are_dead_letters(times: int, place: int) -> None:
    ts = [T0 + minute * MINUTE for minute in range(200)]
    wrong = ts[:place] + [FAR] * times + ts[place:]
    found, clock = read(wrong, [17, place, place + 1])
    refused = [row for row, reason in enumerate(found) if reason == JUMP]
    if (place, times) == (199, 12):
        assert refused == [], "nobody can tell: more are there than after them"
        return
    assert refused == list(range(place, place + times))
    assert [reason for reason in found if reason != JUMP] == [None] * len(ts)
    assert clock.newest == ts[-1]


def test_the_first_event_is_not_believed_alone() -> None:
    clock = ShardClock(HISTORY)
    one, at = np.array([FAR]), np.array([0])
    waits = clock.look(one, at, Reading(0))
    assert waits is not None
    assert waits.decided == 0
    counts = clock.look(one, at, Reading(0, quiet=True))
    assert list(clock.admit(one, np.array([-1]), NOW, counts)[0]) == [None]
    assert clock.newest is None, "it is counted, and is no clock to go by"
    assert read([FAR], [], others=T0)[0] == [JUMP]
    assert read([T0 + HORIZON], [], others=T0)[0] == [None]
    assert read([T0 - 400 * DAY], [], others=T0)[0] == [None]
    assert read([FAR], [])[0] == [None], "it is all there is"
    assert read([FAR, T0], [])[0] == [JUMP, None]


def test_leaps_that_come_one_by_one_are_believed_after_a_while() -> None:
    """A shard that is quiet after each event: nothing ever follows."""
    clock, found = ShardClock(HISTORY, T0), []
    for number in range(WITNESSES + 2):
        ts, at = np.array([T0 + 400 * DAY + number * HOUR]), np.array([number])
        looked = clock.look(ts, at, Reading(number, quiet=True))
        assert looked is None or looked.decided == 1
        found += list(clock.admit(ts, np.array([-1]), NOW, looked)[0])
    assert found == [JUMP] * WITNESSES + [None] * 2


@pytest.mark.parametrize("cuts", [[], [7], [*range(3 * WITNESSES)]])
def test_events_that_are_all_leaps_are_believed_after_a_while_too(cuts: list[int]) -> None:
    """Those that were refused just before are witnesses, however many were read at once."""
    ts = [T0 + number * (HORIZON + DAY) for number in range(3 * WITNESSES)]
    found, clock = read(ts, cuts)
    assert found == naive_history(ts)
    believed = [row for row, reason in enumerate(found) if reason is None]
    assert believed[0] == 0
    assert believed[1] > WITNESSES
    assert clock.newest == ts[believed[-1]]


def test_a_first_event_is_believed_where_half_of_what_follows_is_of_its_time() -> None:
    assert read([FAR, T0, FAR], [])[0] == [None, TOO_OLD, None]
    assert read([FAR, T0, T0, FAR], [])[0] == [JUMP, None, None, JUMP]


def test_a_leap_that_is_believed_is_no_witness_of_the_next_one() -> None:
    """Nine others are near both leaps, and one is near the first alone."""
    first = T0 + 5 * HORIZON
    second, between = first + 3 * HORIZON // 2, first + 3 * HORIZON // 4
    ts = [first, second, *[between] * (WITNESSES - 1), first]
    found, clock = read(ts, [], ShardClock(HISTORY, T0))
    assert found == [None, JUMP, *[None] * WITNESSES]
    assert clock.newest == between


def test_what_is_unreadable_does_not_make_a_leap_wait() -> None:
    clock = ShardClock(HISTORY, T0)
    ts, at = np.array([FAR, T0]), np.array([0, 1])
    near, far = (clock.look(ts, at, Reading(to)) for to in (150, 200))
    assert near is not None
    assert near.decided == 0
    assert far is not None
    assert (far.refused.tolist(), far.decided) == ([True, False], 2)


def test_clocks_that_were_never_set_are_no_first_event() -> None:
    found, clock = read([0, T0, T0 + 1, FAR, T0 + 2], [1, 2])
    assert found == [TOO_OLD, None, None, JUMP, None]
    assert clock.newest == T0 + 2


def test_nothing_in_nothing_out() -> None:
    clock = ShardClock(HISTORY, T0, jumps=7)
    assert judge(clock, []) == []
    assert (clock.newest, clock.jumps) == (T0, 7)


def test_nothing_is_ahead_before_the_first_event() -> None:
    assert Ahead().lately(0.0) == 0
