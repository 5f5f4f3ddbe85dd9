"""Repeated decisions: recognised while the stream's newest event has not moved by the window."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.dedupe import DuplicateFilter, KeyRun, duplicate_keys, upper_halves
from monitor.core.time import HOUR, MINUTE

BYTES_PER_KEY = 10
"""Most memory per key, where there are many: the key 8, its minute 1, bitmap 3/4, and a share of
keys that are past the window and not deleted yet."""

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
    assert 61 * 100 <= len(filter_) <= 62 * 100
    fresh(filter_, [1], [T0 + 10_000 * MINUTE])
    assert len(filter_) == 1


SPREAD = np.random.default_rng(3)


def spread(size: int) -> npt.NDArray[np.int64]:
    """Keys as hashes are."""
    ends = np.iinfo(np.int64)
    return SPREAD.integers(ends.min, ends.max, size, np.int64, endpoint=True)


@pytest.mark.parametrize("hours", [1, pytest.param(24, marks=pytest.mark.full)])
def test_a_key_takes_ten_bytes(hours: int) -> None:
    """In the steady state, over two windows: of those that are still remembered."""
    filter_, batch = DuplicateFilter(hours * HOUR), 5_000
    step = hours * HOUR // 200
    for number in range(400):
        at = T0 + number * step + np.arange(batch) * (step // batch)
        assert filter_.fresh(spread(batch), at)[0].all()
        remembered = min(number + 1, 200) * batch
        if remembered > 100_000:
            assert filter_.nbytes <= BYTES_PER_KEY * remembered * 1.02, "of the present minute"
    assert filter_.nbytes <= BYTES_PER_KEY * 1_000_000


def test_a_million_that_were_stored_are_found_again() -> None:
    keys, arrivals = spread(1_000_000), T0 // MINUTE + SPREAD.integers(0, 60, 1_000_000)
    filter_ = DuplicateFilter(HOUR)
    filter_.restore(keys, arrivals)
    assert (len(filter_), filter_.nbytes <= BYTES_PER_KEY * len(keys)) == (len(keys), True)
    for part in np.array_split(keys, 7):
        now, others = np.full(len(part), T0 + 59 * MINUTE), spread(len(part))
        assert not filter_.fresh(part, now)[0].any()
        assert filter_.fresh(others, now)[0].all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("window", [1, 7, 60, 1440])
def test_hashes_by_the_batch_against_a_dictionary(seed: int, window: int) -> None:
    """Batches of hundreds, keys that come back within and after the window, and a restart."""
    pick = np.random.default_rng((seed, window))
    pool, filter_ = spread(3_000), DuplicateFilter(window * MINUTE)
    arrived: dict[int, int] = {}
    at, log = T0, np.empty((2, 0), np.int64)
    for number in range(60):
        keys = pool[pick.integers(0, len(pool), pick.integers(1, 400))]
        gaps = pick.integers(0, window * MINUTE * 8 // 10_000, len(keys))
        running = at + np.cumsum(gaps)
        at = int(running[-1])
        wanted = []
        for key, minute in zip(keys.tolist(), (running // MINUTE).tolist(), strict=True):
            first = key not in arrived or arrived[key] < minute - window
            wanted.append(first)
            if first:
                arrived[key] = minute
        found, minutes = filter_.fresh(keys, running)
        assert found.tolist() == wanted
        log = np.hstack((log, (keys[found], minutes[found])))
        if number % 20 == 10:
            kept = log[:, log[1] >= at // MINUTE - window]
            kept = kept[:, pick.permutation(kept.shape[1])]
            filter_ = DuplicateFilter(window * MINUTE)
            filter_.restore(kept[0], kept[1])


@pytest.mark.parametrize("clustered", [False, True])
@given(st.integers(0, 10**9), st.integers(1, 500), st.integers(1, 500))
def test_a_run_finds_what_it_has(clustered: bool, seed: int, older: int, newer: int) -> None:
    """Also where keys are not spread, as hashes are, and the ends of their range occur."""
    pick, ends = np.random.default_rng(seed), np.iinfo(np.int64)
    low, high = (0, 400) if clustered else (ends.min, ends.max)
    pool = np.append(pick.integers(low, high, 300, np.int64), (ends.min, ends.max, -1, 0))

    def run(size: int, minutes: tuple[int, int]) -> KeyRun:
        keys = np.sort(pick.choice(pool, size))
        offsets = np.sort(pick.integers(*minutes, size)).astype(np.uint8)
        return KeyRun.from_sorted(keys, offsets, 1_000)

    both = run(older, (0, 50)).merged(run(newer, (50, 100)))
    newest = dict(zip(both.keys.tolist(), both.offsets.tolist(), strict=True))
    for one in filter(None, (both, both.arrived_since(1_030))):
        wanted = np.sort(np.append(pool, spread(50)))
        arrived = np.full(len(wanted), -7)
        one.look_up(wanted, upper_halves(wanted), arrived)
        since = 0 if one is both else 30
        for key, minute in zip(wanted.tolist(), arrived.tolist(), strict=True):
            offset = newest.get(key, -1)
            assert minute == (1_000 + offset if offset >= since else -7)
    assert both.arrived_since(2_000) is None


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
