"""How fast probes are sent, how often they are tried, and when rounds begin."""

from __future__ import annotations

from itertools import islice, pairwise

import pytest
from probing import MemoryRouter, StillClock, answer, probe

from monitor.probing.protocol import Answer, Failure, FailureKind, Probe
from monitor.probing.rounds import LONGEST_HOLD, Pace, Retries, Schedule, Sender


def pace(clock: StillClock, rate: float) -> Pace:
    return Pace(rate, clock.monotonic, clock)


def turns(clock: StillClock, even: Pace, number: int, lasts: float = 0.0) -> list[float]:
    at = []
    for _ in range(number):
        assert even.turn()
        at.append(clock.seconds)
        clock.seconds += lasts
    return at


def test_turns_are_even_and_the_first_is_at_once() -> None:
    clock = StillClock(seconds=0.0)
    assert turns(clock, pace(clock, 4), 5) == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_lost_time_is_not_made_up_for() -> None:
    clock = StillClock(seconds=0.0)
    even = pace(clock, 10)
    turns(clock, even, 3)
    clock.seconds = 50.0
    at = turns(clock, even, 4)
    assert at[0] == 50.0
    assert all(after - before >= 0.0999 for before, after in pairwise(at))


def test_a_slow_router_sets_its_own_pace() -> None:
    clock = StillClock(seconds=0.0)
    assert turns(clock, pace(clock, 10), 3, lasts=2.0) == [0.0, 2.0, 4.0]


def test_nobody_gets_a_turn_while_it_is_held() -> None:
    clock = StillClock(seconds=0.0)
    even = pace(clock, 10)
    even.hold(7.0)
    even.hold(3.0)
    assert turns(clock, even, 1) == [7.0]


def test_a_wait_ends_when_asked_to() -> None:
    clock = StillClock(seconds=0.0, stop_after=1.0)
    even = pace(clock, 1)
    assert even.turn()
    assert not even.turn()
    assert not even.turn()


def failing(kind: FailureKind, times: int, retry_after: float | None = None) -> MemoryRouter:
    router = MemoryRouter()

    def decide(_: Probe) -> Answer | Failure:
        if len(router.probes) <= times:
            return Failure(kind, "failed", retry_after)
        return answer()

    router.decide = decide
    return router


def sender(router: MemoryRouter, clock: StillClock, retries: Retries = Retries()) -> Sender:  # noqa: B008 - frozen
    router.clock = clock
    return Sender(router, pace(clock, 10), retries)


@pytest.mark.parametrize("kind", [FailureKind.UNREACHABLE, FailureKind.BUSY])
def test_what_may_be_over_in_a_moment_is_tried_again(kind: FailureKind) -> None:
    clock = StillClock(seconds=0.0)
    router = failing(kind, times=2)
    assert isinstance(sender(router, clock).send(probe()), Answer)
    assert router.at == [0.0, 0.5, 1.5]
    assert len(set(map(repr, router.probes))) == 1


@pytest.mark.parametrize("kind", [FailureKind.UNREACHABLE, FailureKind.BUSY])
def test_tries_are_bounded_and_the_next_probe_waits_too(kind: FailureKind) -> None:
    clock = StillClock(seconds=0.0)
    router = failing(kind, times=3)
    sending = sender(router, clock)
    assert sending.send(probe()) == Failure(kind, "failed")
    assert isinstance(sending.send(probe()), Answer)
    assert router.at == [0.0, 0.5, 1.5, 3.5]


@pytest.mark.parametrize(
    "kind", [kind for kind in FailureKind if kind not in ("unreachable", "busy")]
)
def test_nothing_else_is_tried_again(kind: FailureKind) -> None:
    router = failing(kind, times=1)
    assert sender(router, StillClock()).send(probe()) == Failure(kind, "failed")
    assert len(router.probes) == 1


def test_a_router_is_not_asked_before_it_wants_to_be() -> None:
    clock = StillClock(seconds=0.0)
    router = failing(FailureKind.BUSY, times=1, retry_after=12.0)
    assert isinstance(sender(router, clock).send(probe()), Answer)
    assert router.at == [0.0, 12.0]


def test_a_router_puts_us_off_for_a_minute_at_most() -> None:
    clock = StillClock(seconds=0.0)
    router = failing(FailureKind.BUSY, times=1, retry_after=86_400.0)
    sender(router, clock).send(probe())
    assert router.at == [0.0, LONGEST_HOLD]


def test_a_retry_keeps_the_rate() -> None:
    clock = StillClock(seconds=0.0)
    router = failing(FailureKind.BUSY, times=2, retry_after=0.0)
    sender(router, clock).send(probe())
    assert router.at == pytest.approx([0.0, 0.1, 0.2])


def test_no_answer_and_no_failure_when_asked_to_end() -> None:
    router = failing(FailureKind.UNREACHABLE, times=9)
    assert sender(router, StillClock(seconds=0.0, stop_after=0.3)).send(probe()) is None
    assert len(router.probes) == 1


def starts(schedule: Schedule, clock: StillClock, lasts: float, most: int = 5) -> list[float]:
    at = []
    for number in islice(schedule.rounds(clock.monotonic, clock), most):
        at.append(clock.seconds)
        assert number == len(at)
        clock.seconds += lasts
    return at


def test_one_round_by_default() -> None:
    assert starts(Schedule(), StillClock(seconds=0.0), 3.0) == [0.0]


def test_rounds_follow_each_other_without_a_cadence() -> None:
    assert starts(Schedule(times=3), StillClock(seconds=0.0), 3.0) == [0.0, 3.0, 6.0]


def test_a_cadence_counts_from_the_first_start_and_does_not_drift() -> None:
    clock = StillClock(seconds=50.0)
    assert starts(Schedule(10.0, None), clock, 3.5) == [50.0, 60.0, 70.0, 80.0, 90.0]


def test_a_long_round_takes_the_place_of_those_it_overruns() -> None:
    assert starts(Schedule(10.0, 3), StillClock(seconds=0.0), 25.0) == [0.0, 30.0, 60.0]


def test_nobody_waits_after_the_last_round() -> None:
    clock = StillClock(seconds=0.0)
    assert starts(Schedule(10.0, 2), clock, 1.0) == [0.0, 10.0]
    assert clock.seconds == 11.0


def test_a_cadence_ends_when_asked_to() -> None:
    clock = StillClock(seconds=0.0, stop_after=15.0)
    assert starts(Schedule(10.0, None), clock, 1.0) == [0.0, 10.0]
    assert starts(Schedule(10.0, None), clock, 1.0) == []
