"""Repeated decisions: recognised while the stream's newest event has not moved by the window."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.dedupe import DuplicateFilter, duplicate_keys
from monitor.core.time import HOUR, MINUTE

T0 = 400_000 * HOUR


def fresh(filter_: DuplicateFilter, keys: list[int], running: list[int]) -> list[bool]:
    found, minutes = filter_.fresh(np.array(keys, np.int64), np.array(running, np.int64))
    assert minutes.tolist() == [at // MINUTE for at in running]
    return [bool(x) for x in found]


@given(st.integers(0, 10**9), st.integers(1, 120), st.sampled_from([1, 5, 60]))
def test_any_cut_and_any_restart_gives_the_same_verdicts(seed: int, size: int, window: int) -> None:
    pick = random.Random(seed)
    running, keys, at = [], [], T0
    for _ in range(size):
        at += pick.choice((0, 0, 1, MINUTE // 2, 3 * MINUTE, 30 * MINUTE))
        running.append(at)
        keys.append(pick.randrange(size // 3 + 1))
    arrived: dict[int, int] = {}
    wanted = []
    for key, now in zip(keys, running, strict=True):
        minute = now // MINUTE
        first = key not in arrived or arrived[key] < minute - window
        wanted.append(first)
        if first:
            arrived[key] = minute
    filter_, found, log = DuplicateFilter(window * MINUTE), [], []
    start = 0
    while start < size:
        step = pick.choice((1, 3, 40))
        part = slice(start, start + step)
        flags = fresh(filter_, keys[part], running[part])
        found += flags
        log += [(k, r // MINUTE) for k, r, f in zip(keys[part], running[part], flags, strict=True)
                if f]  # fmt: skip
        if pick.random() < 0.3:  # the owner changes: the deltas of the window are read again
            since = (running[min(start + step, size) - 1] - window * MINUTE) // MINUTE
            kept = [(key, minute) for key, minute in log if minute >= since]
            filter_ = DuplicateFilter(window * MINUTE)
            filter_.restore(*(np.array([row[i] for row in kept], np.int64) for i in range(2)))
        start += step
    assert found == wanted


def test_the_window_counts_from_the_first_copy() -> None:
    """Repetition does not prolong it, or a faulty producer would never be let in again."""
    filter_ = DuplicateFilter(HOUR)
    assert fresh(filter_, [1], [T0]) == [True]
    assert fresh(filter_, [1], [T0 + 40 * MINUTE]) == [False]
    assert fresh(filter_, [1, 1], [T0 + 80 * MINUTE] * 2) == [True, False]


def test_memory_is_given_back() -> None:
    filter_ = DuplicateFilter(HOUR)
    for minute in range(600):
        keys = list(range(minute * 100, minute * 100 + 100))
        fresh(filter_, keys, [T0 + minute * MINUTE] * 100)
    assert len(filter_._seen) == 61 * 100
    assert len(filter_._by_minute) == 61


def test_empty() -> None:
    filter_ = DuplicateFilter(HOUR)
    assert fresh(filter_, [], []) == []
    filter_.restore(np.empty(0, np.int64), np.empty(0, np.int64))


@pytest.mark.parametrize("other", [(1, 11), (2, 10), (10, 1)])
def test_the_key_is_of_id_and_time_together(other: tuple[int, int]) -> None:
    def key(pair: tuple[int, int]) -> int:
        ids, ts = (np.array([x], np.int64) for x in pair)
        return int(duplicate_keys(ids, ts)[0])

    assert key((1, 10)) == key((1, 10))
    assert key((1, 10)) != key(other)
