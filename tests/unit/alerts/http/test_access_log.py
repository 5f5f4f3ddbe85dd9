"""The access log: the counts of its lines sum to all accesses, and a flood stays a few lines."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from http import HTTPStatus

import pytest

from alerts.http.access_log import MAX_TALLIES, OTHERS, AccessLog
from monitor.core.time import SECOND

OK, NO_TOKEN = HTTPStatus.OK, HTTPStatus.UNAUTHORIZED
Told = Callable[[], list[tuple[str, int]]]


class ManualClock:
    seconds = 0.0

    def now(self) -> int:
        return int(self.seconds * SECOND)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def access(clock: ManualClock) -> AccessLog:
    return AccessLog(clock)


def accesses(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Records of the access log alone: other tests may have left threads that say something."""
    return [record for record in caplog.records if record.name == "slicewatch.access"]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    """Reader and count of each line since it was asked last."""
    caplog.set_level(logging.INFO, "slicewatch.access")

    def told() -> list[tuple[str, int]]:
        lines = [(vars(r)["reader"], vars(r)["count"]) for r in accesses(caplog)]
        caplog.clear()
        return lines

    return told


def test_a_line_says_who_what_when_and_nothing_else(
    access: AccessLog, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock.seconds = 3_661.0
    access.record("grafana", "/metrics", OK)
    access.record("unknown", "/metrics", NO_TOKEN)
    served, refused = accesses(caplog)

    standard = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
    fields = {k: v for k, v in vars(served).items() if k not in standard}
    assert fields == {
        **{"reader": "grafana", "path": "/metrics", "status": 200},
        **{"count": 1, "since": "1970-01-01T01:01:01+00:00"},
    }
    assert (served.name, served.levelname) == ("slicewatch.access", "INFO")
    assert served.getMessage() == "access"
    assert (refused.levelname, refused.getMessage()) == ("WARNING", "access refused")
    assert vars(refused)["status"] == 401


def test_a_scrape_every_15_s_is_a_line_an_hour(
    access: AccessLog, clock: ManualClock, told: Told
) -> None:
    scrapes = 24 * 3600 // 15
    for _ in range(scrapes):
        access.record("prometheus", "/metrics", OK)
        clock.seconds += 15
    access.close()
    lines = told()

    assert lines[0] == ("prometheus", 1), "the first is told at once"
    assert len(lines) == 25
    assert {count for _, count in lines[1:]} <= {239, 240}
    assert sum(count for _, count in lines) == scrapes


def test_each_reader_path_and_status_is_told_apart(access: AccessLog, told: Told) -> None:
    for _ in range(3):
        access.record("a", "/metrics", OK)
        access.record("b", "/metrics", OK)
        access.record("a", "/api", OK)
        access.record("a", "/metrics", HTTPStatus.INTERNAL_SERVER_ERROR)

    assert told() == [("a", 1), ("b", 1), ("a", 1), ("a", 1)]
    access.close()
    assert told() == [("a", 2), ("b", 2), ("a", 2), ("a", 2)]


def test_an_hours_count_comes_without_another_access(
    access: AccessLog, clock: ManualClock, told: Told
) -> None:
    access.record("a", "/metrics", OK)
    access.record("a", "/metrics", OK)
    told()
    clock.seconds += 3_599
    access.sweep()
    assert told() == []

    clock.seconds += 1
    access.sweep()
    assert told() == [("a", 1)]


def test_who_comes_back_after_a_quiet_hour_is_told_at_once(
    access: AccessLog, clock: ManualClock, told: Told
) -> None:
    for pause in (0, 3_600, 7_200):
        clock.seconds += pause
        access.record("a", "/metrics", OK)
        assert told() == [("a", 1)]


def test_refusals_are_told_one_by_one_and_a_flood_by_count(
    access: AccessLog, clock: ManualClock, told: Told
) -> None:
    for _ in range(10):
        access.record("unknown", "/metrics", NO_TOKEN)
    assert told() == [("unknown", 1)] * 10

    for _ in range(1_000):
        access.record("unknown", "/metrics", NO_TOKEN)
    assert told() == []
    clock.seconds += 60
    access.sweep()
    assert told() == [("unknown", 1_000)]


def test_a_flood_of_a_day_is_a_line_a_minute(
    access: AccessLog, clock: ManualClock, told: Told
) -> None:
    for _ in range(24 * 60):
        for _ in range(50):
            access.record("unknown", "/metrics", NO_TOKEN)
        clock.seconds += 60
    access.close()
    lines = told()

    assert len(lines) == 10 + 24 * 60
    assert sum(count for _, count in lines) == 24 * 60 * 50


def test_names_without_end_are_few_lines_and_little_memory(access: AccessLog, told: Told) -> None:
    for i in range(10_000):
        access.record(f"certificate {i}", "/metrics", OK)
    access.close()
    lines = told()

    assert len(lines) == MAX_TALLIES + 2
    assert lines[-1] == (OTHERS, 10_000 - MAX_TALLIES - 1)
    assert sum(count for _, count in lines) == 10_000


def test_closing_twice_tells_once(access: AccessLog, told: Told) -> None:
    for _ in range(2):
        access.record("a", "/metrics", OK)
    access.close()
    access.close()
    access.sweep()

    assert told() == [("a", 1), ("a", 1)]


def test_accesses_on_many_threads_are_all_counted(access: AccessLog, told: Told) -> None:
    def read() -> None:
        for _ in range(500):
            access.record("a", "/metrics", OK)
            access.sweep()

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    access.close()

    assert sum(count for _, count in told()) == 4_000
