"""What the hours of a day may use of every unit, whatever comes later in the day."""

from __future__ import annotations

import math

import numpy as np

from monitor.detection.pages.cluster_share import ClusterShare


def used(rng: np.random.Generator) -> tuple[float, list[float]]:
    """What the unit that uses most has used of itself after a day, and the sizes of the hours."""
    units = rng.poisson(rng.choice([0.05, 0.4, 2.0], (6, 1)), (6, 24))
    share, sizes = ClusterShare(), []
    expected = int(rng.integers(1, 12))
    for hour in range(24):
        share = ClusterShare.restored(share.facts())
        counted = max(1, int(units[:, : hour + 1].sum(axis=1).max()))
        # What came since may be known already: it is a bound, and need not be the largest itself.
        sizes.append(share.enter(7, expected, counted + int(rng.integers(0, 2))))
    return float((units / np.array(sizes)).sum(axis=1).max()), sizes


def test_no_unit_is_used_more_than_once() -> None:
    days = [used(np.random.default_rng(seed)) for seed in range(300)]
    assert max(most for most, _ in days) <= 1 + 1e-9
    assert all(sizes == sorted(sizes) for _, sizes in days), "powers never rise within a day"
    assert any(math.inf in sizes for _, sizes in days)
    assert sum(most > 0.5 for most, _ in days) > 100, "they are used"


def test_what_was_expected_rightly_is_used_all_day() -> None:
    share = ClusterShare()
    assert [share.enter(7, 5, counted) for counted in (2, 2, 4, 5, 5)] == [5.0] * 5
    assert [share.enter(8, 1, 1) for _ in range(24)] == [1.0] * 24, "no unit, nothing to divide by"
