"""The payload of a delta: what is packed comes out again, and summing loses nothing."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts.cells import COUNTERS, Route
from monitor.core.counts.clusters import Repetition, UnitSizes
from monitor.core.probes.flips import Observed
from monitor.core.probes.probe_decisions import ProbeDecision
from monitor.core.time import DAY
from monitor.store.deltas import Payload, decode, encode, summed

LARGE = 2**62


def payload(seed: int, rows: int, keys: int) -> Payload:
    pick = random.Random(seed)
    return Payload(
        np.array([pick.randrange(-5, 5) for _ in range(rows)], np.int64),
        np.array([pick.choice((0, 1, 7, LARGE)) for _ in range(rows)], np.int64),
        np.array(
            [[pick.choice((0, 0, 0, 1, -1, 5)) for _ in range(COUNTERS)] for _ in range(rows)],
            np.int64,
        ).reshape(rows, COUNTERS),
        np.array([pick.randrange(-LARGE, LARGE) for _ in range(keys)], np.int64),
        np.array([pick.randrange(10**9) for _ in range(keys)], np.int64),
    )


@given(st.integers(0, 10**9), st.integers(0, 30), st.integers(0, 30))
def test_decode_undoes_encode(seed: int, rows: int, keys: int) -> None:
    before = payload(seed, rows, keys)
    after = decode(encode(before))
    for name in ("panes", "cells", "values", "keys", "arrivals"):
        assert np.array_equal(getattr(before, name), getattr(after, name)), name


@given(st.integers(0, 10**9), st.integers(0, 60))
def test_summing_adds_rows_of_one_pane_and_cell(seed: int, rows: int) -> None:
    before = payload(seed, rows, 3)
    after = summed(before)
    assert _table(before) == _table(after)
    pairs = list(zip(after.panes.tolist(), after.cells.tolist(), strict=True))
    assert len(pairs) == len(set(pairs)), "a pane and cell comes once"
    assert after.values.any(axis=1).all(), "rows that cancel out are dropped"
    assert np.array_equal(before.keys, after.keys)


def _table(body: Payload) -> Counter[tuple[int, int, int]]:
    total: Counter[tuple[int, int, int]] = Counter()
    for pane, cell, values in zip(
        body.panes.tolist(), body.cells.tolist(), body.values.tolist(), strict=True
    ):
        for column, value in enumerate(values):
            total[pane, cell, column] += value
    return Counter({key: value for key, value in total.items() if value})


def test_only_counters_that_occur_take_room() -> None:
    pick = np.random.default_rng(1)
    panes, cells = np.arange(1000), pick.integers(LARGE, size=1000)
    one = np.zeros((1000, COUNTERS), np.int64)
    one[:, 0] = pick.integers(LARGE, size=1000)
    two = one.copy()
    two[:, 1] = pick.integers(LARGE, size=1000)
    none = np.empty(0, np.int64)
    sizes = [len(encode(Payload(panes, cells, values, none, none))) for values in (one, two)]
    assert sizes[0] < 8 * 2500
    assert 7900 < sizes[1] - sizes[0] < 8100


@st.composite
def probes(draw: st.DrawFn) -> ProbeDecision:
    texts, part = st.text(max_size=5), st.floats(0, 1)
    seen = Observed(
        draw(st.sampled_from(Route)), draw(st.none() | part), draw(part), draw(st.booleans())
    )
    ready = draw(st.none() | st.booleans())
    at = draw(st.integers(-(2**62), 2**62))
    return ProbeDecision("a" * 64, draw(texts), draw(texts), at, seen, ready)


@given(st.lists(probes(), max_size=4))
def test_probes_come_out_as_they_went_in(found: list[ProbeDecision]) -> None:
    """Summing leaves them as they are; what does not occur takes no room."""
    before = replace(payload(1, 4, 2), probes=tuple(found))
    data = encode(before)
    assert decode(data).probes == tuple(found) == decode(encode(summed(before))).probes
    packed = msgspec.msgpack.decode(data, type=tuple[bytes, bytes])
    columns = msgspec.msgpack.decode(zlib.decompress(packed[0]))
    assert len(columns[5]) == len(found)


@pytest.mark.parametrize(
    "data", [b"", b"not compressed", zlib.compress(b"\xc1"), b"\x92\xc4\x01a\xc4\x01b"]
)
def test_damage_is_never_read_as_counts(data: bytes) -> None:
    with pytest.raises((zlib.error, ValueError)):
        decode(data)


def test_sizes_of_units_and_repetition_come_out_again() -> None:
    units, days = np.array([LARGE >> 20, 7, 7], np.int64), np.array([0, DAY, DAY], np.int64)
    sizes = UnitSizes.from_decisions(units, days, np.array([True, False, True]))
    found = (Repetition(20_000, 500, 40, 3),)
    after = decode(encode(replace(payload(1, 3, 3), sizes=sizes, repetition=found)))
    assert sizes is not None
    assert after.sizes is not None
    assert after.sizes.table[0].tolist() == sizes.table[0].tolist()
    assert after.sizes.table[1].tolist() == sizes.table[1].tolist() == [1, 2]
    assert after.sizes.table[2].tolist() == sizes.table[2].tolist() == [1, 1]
    assert after.repetition == found
