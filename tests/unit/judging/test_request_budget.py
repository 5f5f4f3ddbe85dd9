"""A day's budget is kept whatever happens, and requests are spread evenly."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from monitor.errors import SlicewatchError
from monitor.judging.request_budget import RequestBudget, RequestLimits


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now, self.day = 0.0, "2026-11-20"

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def budget(path: Path, limits: RequestLimits, clock: Time) -> RequestBudget:
    return RequestBudget(path, limits, lambda: clock.day, lambda: clock.now, clock.sleep)


def test_it_survives_restarts_and_ends_with_the_day(tmp_path: Path) -> None:
    clock, path = Time(), tmp_path / "spent.json"
    limits = RequestLimits(requests_per_minute=60_000, requests_per_day=5)
    first = budget(path, limits, clock)
    assert [first.take() for _ in range(3)] == [True] * 3
    second = budget(path, limits, clock)  # the first was killed
    assert [second.take() for _ in range(3)] == [True, True, False]
    assert second.exhausted
    clock.day = "2026-11-21"
    assert not second.exhausted
    assert second.take()
    assert second.spent == (1, 0)


def test_tokens_have_a_budget_of_their_own(tmp_path: Path) -> None:
    limits = RequestLimits(requests_per_minute=60_000, requests_per_day=100, tokens_per_day=250)
    found = budget(tmp_path / "spent.json", limits, Time())
    for _ in range(3):
        assert found.take()
        found.add_tokens(100)
    assert not found.take()
    assert found.spent == (3, 300)


def test_requests_are_spread_over_the_minute(tmp_path: Path) -> None:
    clock = Time()
    found = budget(
        tmp_path / "s.json", RequestLimits(requests_per_minute=30, requests_per_day=9), clock
    )
    for _ in range(4):
        assert found.take()
    assert clock.now == pytest.approx(6.0)


def test_many_threads_spend_no_more(tmp_path: Path) -> None:
    found = RequestBudget(tmp_path / "s.json", RequestLimits(1_000_000, 50), sleep=lambda _: None)
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: found.take(), range(80)))
    assert taken.count(True) == 50


@pytest.mark.parametrize("text", ["{", "[]", '{"day": "2026-11-20"}'])
def test_a_record_that_cannot_be_read_spends_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "spent.json"
    path.write_text(text)
    with pytest.raises(SlicewatchError, match="remove the file"):
        budget(path, RequestLimits(60, 5), Time()).take()


def test_a_record_that_cannot_be_written_spends_nothing(tmp_path: Path) -> None:
    with pytest.raises(SlicewatchError, match="nothing is asked"):
        budget(tmp_path / "gone" / "spent.json", RequestLimits(60, 5), Time()).take()
