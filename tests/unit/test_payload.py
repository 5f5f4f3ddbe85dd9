"""The payload of a delta: what is packed comes out again, and summing loses nothing."""

from __future__ import annotations

import random
import zlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.cells import COUNTERS
from monitor.store.ingest import summed
from monitor.store.payload import Payload, decode, encode

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
    sparse = payload(1, 1000, 0)
    values = np.zeros_like(sparse.values)
    values[:, 0] = 1
    small = Payload(sparse.panes, sparse.cells, values, sparse.keys, sparse.arrivals)
    assert len(zlib.decompress(encode(small))) < 25_000


@pytest.mark.parametrize("data", [b"", b"not compressed", zlib.compress(b"\xc1")])
def test_damage_is_never_read_as_counts(data: bytes) -> None:
    with pytest.raises((zlib.error, ValueError)):
        decode(data)
