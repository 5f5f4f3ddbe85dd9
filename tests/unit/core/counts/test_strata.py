from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from slice_tables import auto, blocked, counted, review, slice_counts

from monitor.core.counts.cells import Route, Stratum, decode_strata
from monitor.core.counts.coding import Coding
from monitor.core.counts.strata import merge_bands, post_strata

CODING = Coding((), audit_rates=tuple(2.0 ** (-j / 2) for j in range(16)))


def merged(labels: list[int]) -> list[int]:
    """Labels per band after merging, of one route x rate."""
    cells = np.zeros((3, 1, 1, len(labels), 1))
    cells[0, 0, 0, :, 0] = 100
    cells[1, 0, 0, :, 0] = labels
    out = merge_bands(cells)
    assert out.sum() == cells.sum()
    return [int(n) for n in out[1, 0, 0, :, 0]]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([10, 10, 10, 10], [10, 10, 10, 10]),
        ([9, 1, 10, 0], [0, 10, 10, 0]),
        ([0, 0, 30, 4], [0, 0, 34, 0]),  # the remainder at the top joins the last one
        ([20, 4, 4, 1], [29, 0, 0, 0]),
        ([3, 3, 3, 3], [0, 0, 0, 12]),
        ([3, 3, 3, 0], [0, 0, 0, 9]),  # too few in all: one stratum
        ([12, 0, 0, 9], [21, 0, 0, 0]),
        ([0, 0, 0, 0], [0, 0, 0, 0]),
    ],
)
def test_bands_merge_upwards_until_ten_labels(labels: list[int], expected: list[int]) -> None:
    assert merged(labels) == expected


def test_merging_ignores_outcomes() -> None:
    rng = np.random.default_rng(5)
    cells = np.zeros((3, 2, 3, 4, 50))
    cells[1] = rng.poisson(5, cells.shape[1:])
    cells[0] = cells[1] + rng.poisson(50, cells.shape[1:])
    other = cells.copy()
    other[2] = rng.binomial(cells[1].astype(int), 0.5)
    np.testing.assert_array_equal(merge_bands(cells)[:2], merge_bands(other)[:2])


def test_thin_rates_are_pooled_by_inverse_rate() -> None:
    counts = slice_counts({"a": {auto(2, 0): counted(20, 4, 4), auto(2, 4): counted(40, 8, 0)}})
    strata = post_strata(counts, CODING)
    weighted, squared = 4 * 1 + 8 * 4, 4 * 1 + 8 * 16  # grid rate 4 is a quarter
    assert strata.decisions[0, -1, 0] == 60
    assert strata.labelled[0, -1, 0] == pytest.approx(weighted**2 / squared)
    assert strata.ready[0, -1, 0] / strata.labelled[0, -1, 0] == pytest.approx(4 / weighted)


def test_a_complete_route_and_rate_is_never_pooled() -> None:
    counts = slice_counts({"a": {auto(2, 0): counted(3, 3, 2), auto(2, 8): counted(90, 5, 5)}})
    strata = post_strata(counts, CODING)
    assert strata.decisions[0, -1, 0] == 90
    assert strata.decisions[0].sum() == 93


def test_a_pool_without_labels_takes_the_rate_of_its_route() -> None:
    counts = slice_counts({"a": {auto(1, 0): counted(30, 30, 10), auto(2, 8): counted(15)}})
    strata = post_strata(counts, CODING)
    assert strata.decisions[0, -1, 0] == 0
    assert strata.decisions[0].sum() == 45
    assert strata.labelled[0].sum() == 30


def test_a_route_without_labels_stays_open() -> None:
    counts = slice_counts({"a": {auto(): counted(15), review(): counted(9, 9, 3)}})
    strata = post_strata(counts, CODING)
    assert strata.decisions[0, -1, 0] == 15
    assert strata.labelled[0].sum() == 0


def test_what_is_outside() -> None:
    outside = {
        blocked(): counted(50, 50, 50),
        blocked(evidence_passed=True): counted(50, 50, 50),
        Stratum(Route.AUTO_SERVE, 0, 0, evidence_passed=False): counted(50, 50, 50),
        Stratum(Route.AUTO_SERVE, 0, 0, probe=True): counted(50, 50, 50),
    }
    strata = post_strata(slice_counts({"a": outside | {auto(): counted(7, 7, 1)}}), CODING)
    assert strata.totals[:, :, 0].tolist() == [[7, 0], [7, 0], [1, 0]]
    assert strata.decisions.sum() == 7


def test_labels_folded_before_their_decisions_stay_consistent() -> None:
    strata = post_strata(slice_counts({"a": {auto(): counted(0, 12, 13)}}), CODING)
    assert strata.totals[:, 0, 0].tolist() == [12, 12, 12]


def test_an_unknown_audit_rate_is_an_error() -> None:
    with pytest.raises(ValueError, match="audit rate"):
        post_strata(slice_counts({"a": {auto(2, len(CODING.audit_rates)): counted(7)}}), CODING)


@pytest.mark.parametrize("kind", [np.int64, np.int32])
def test_codes_are_taken_apart_whatever_their_width(kind: type[np.signedinteger[Any]]) -> None:
    strata = [Stratum(route, 0, 0) for route in Route if route is not Route.BLOCKED_BY_EVIDENCE]
    codes = np.array([stratum.code for stratum in strata])
    columns = decode_strata(codes.astype(kind))
    assert [Route(route) for route in columns.route] == [stratum.route for stratum in strata]


def test_codes_of_several_axes_keep_them() -> None:
    codes = np.array([[stratum.code for stratum in (auto(), review())]] * 3)
    assert decode_strata(codes).route.shape == (3, 2)
