"""Hashes of units are those of their texts, remembered or not."""

from __future__ import annotations

import numpy as np
import pytest

from consumers import unit_hashes
from consumers.dead_letters import IdHasher
from consumers.unit_hashes import UnitHasher
from monitor.core.counts.cells import Int64s
from monitor.core.time import DAY, HOUR
from monitor.id_key import BEGINNING, IdKey

T0 = 20_000 * DAY
KEYS = [IdKey("a", BEGINNING, b"a" * 32), IdKey("b", T0 + DAY, b"b" * 32)]


def by_hand(units: list[str], ts: Int64s) -> Int64s:
    texts = [f"unit {at // DAY} {unit}" for unit, at in zip(units, ts.tolist(), strict=True)]
    return IdHasher(KEYS)(texts, ts)


@pytest.mark.parametrize("most", [1, 65_536])
def test_whatever_is_remembered(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(unit_hashes, "MAX_UNITS", most)
    hasher, rng = UnitHasher(IdHasher(KEYS)), np.random.default_rng(5)
    for _ in range(20):
        units = [f"u{number}" for number in rng.integers(6, size=30).tolist()]
        ts = T0 + rng.integers(4 * DAY, size=30)
        assert hasher(units, ts).tolist() == by_hand(units, ts).tolist()


def test_no_units() -> None:
    none = np.empty(0, np.int64)
    assert UnitHasher(IdHasher(KEYS))([], none).tolist() == []


def test_a_unit_is_another_one_on_another_day() -> None:
    ts = np.array([T0, T0 + HOUR, T0 + 2 * DAY])
    first, again, later = UnitHasher(IdHasher(KEYS))(["u", "u", "u"], ts).tolist()
    assert first == again != later


def test_no_unit_is_zero() -> None:
    ts = np.array([T0, T0 + 2 * DAY, T0])
    hashes = UnitHasher(IdHasher(KEYS))(["", "", "u"], ts).tolist()
    assert hashes[:2] == [0, 0]
    assert hashes[2] != 0
