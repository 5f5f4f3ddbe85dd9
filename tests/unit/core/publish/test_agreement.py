from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from cubes import CODING, Cell, auto, blocked, contract, review, slices, window
from monitor.core.privacy.pooling import MergeMap
from monitor.core.publish.contract_tables import Builder
from statsmodels.stats.inter_rater import cohens_kappa as statsmodels_kappa

from monitor.core.contract import GroupBy
from monitor.core.intervals import Z95
from monitor.core.privacy.bands import Precision
from monitor.core.publish.agreement import Pairs, cohens_kappa, pairs_of, shown_agreement
from monitor.core.publish.snapshot import ShownAgreement
from monitor.core.publish.states import GroupFindings

EXACT = Precision(1, exact=True)


def test_a_table_by_hand() -> None:
    """Agree .7; chance .5 * .6 + .5 * .4 = .5."""
    kappa, _ = cohens_kappa(np.array([[20.0, 5.0], [10.0, 15.0]]))
    assert kappa == pytest.approx(0.4)


@pytest.mark.parametrize("classes", [2, 3])
def test_point_and_error_against_statsmodels(classes: int) -> None:
    tables = np.random.default_rng(classes).integers(0, 40, (50, classes, classes)).astype(float)
    kappas, errors = cohens_kappa(tables)
    for table, kappa, error in zip(tables, kappas, errors, strict=True):
        other = statsmodels_kappa(table)
        assert kappa == pytest.approx(other.kappa)
        assert error == pytest.approx(math.sqrt(other.var_kappa))


def test_point_against_labels_one_by_one() -> None:
    from sklearn.metrics import cohen_kappa_score  # two seconds

    rng = np.random.default_rng(4)
    first = rng.integers(0, 2, 200)
    second = np.where(rng.random(200) < 0.8, first, 1 - first)
    table = np.zeros((2, 2))
    np.add.at(table, (first, second), 1)
    assert cohens_kappa(table)[0] == pytest.approx(cohen_kappa_score(first, second))


def test_the_interval_covers_in_19_of_20() -> None:
    rng = np.random.default_rng(9)
    shares = np.array([0.55, 0.07, 0.03, 0.35])
    truth = float(cohens_kappa(shares.reshape(2, 2))[0])
    kappas, errors = cohens_kappa(
        rng.multinomial(400, shares, 4000).reshape(-1, 2, 2).astype(float)
    )
    assert np.mean(np.abs(kappas - truth) <= Z95 * errors) == pytest.approx(0.95, abs=0.012)


def test_edges() -> None:
    agree, chance = np.array([[7.0, 0], [0, 3]]), np.array([[25.0, 25], [25, 25]])
    assert [float(x) for x in cohens_kappa(agree)] == pytest.approx([1, 0])
    assert cohens_kappa(chance)[0] == pytest.approx(0)
    for nothing in (np.zeros((2, 2)), np.array([[9.0, 0], [0, 0]])):
        assert np.isnan(cohens_kappa(nothing)).all()


def test_exact_contracts_show_the_plain_numbers() -> None:
    pairs = Pairs(both=120, neither=60, apart=20)
    kappa, error = (float(x) for x in cohens_kappa(pairs.table))
    shown = shown_agreement(pairs, EXACT)
    assert shown is not None
    assert (shown.kappa, shown.at_least) == (kappa, None)
    assert (shown.lower, shown.upper) == pytest.approx((kappa - Z95 * error, kappa + Z95 * error))
    assert shown_agreement(Pairs(5, 0, 0), EXACT) is None


@pytest.mark.parametrize(
    "pairs",
    [Pairs(5, 3, 2), Pairs(100, 0, 0), Pairs(100, 4, 6), Pairs(4, 100, 6), Pairs(0, 0, 0)],
)
def test_hidden_below_k(pairs: Pairs) -> None:
    assert shown_agreement(pairs, Precision(11)) is None


def test_few_disagreements_look_alike() -> None:
    """Neither their number nor that there are none can be read."""
    shown = {shown_agreement(Pairs(100, 40, apart), Precision(11)) for apart in range(11)}
    (agreement,) = shown
    assert agreement is not None
    assert agreement.kappa is None
    assert agreement.upper == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_code_is_true_and_equal_bands_look_alike(seed: int) -> None:
    rng, precision = np.random.default_rng(seed), Precision(11)
    by_bands: dict[tuple[int, ...], ShownAgreement | None] = {}
    for both, neither, apart in rng.integers(0, 120, (500, 3)).tolist():
        pairs = Pairs(both, neither, apart // 6)
        shown = shown_agreement(pairs, precision)
        if shown is None:
            continue
        if shown.at_least is not None:
            assert shown.lower <= shown.at_least <= cohens_kappa(pairs.table)[0]
        bands = tuple(precision.support([both, neither, apart // 6]).tolist())
        assert by_bands.setdefault(bands, shown) == shown
        assert shown.lower == round(shown.lower, 2)
        assert -1 <= shown.lower <= shown.upper <= 1


def with_pairs(cell: Cell, both: int, neither: int, apart: int) -> Cell:
    return replace(cell, pairs=(both, neither, apart))


def test_pairs_are_of_what_labelled_rates_are_about() -> None:
    chat, email = {"channel": "chat"}, {"channel": "email"}
    cells = [
        with_pairs(auto(chat, 9), 1, 2, 3),
        with_pairs(review(chat, 9), 10, 20, 30),
        with_pairs(review(email, 9), 5, 0, 0),
        with_pairs(auto(chat, 9, probe=True), 100, 100, 100),
        with_pairs(auto(chat, 9, evidence_passed=False), 100, 100, 100),
        with_pairs(blocked(email, 9), 100, 100, 100),
    ]
    assert pairs_of(slices(cells, "channel")) == [Pairs(11, 22, 33), Pairs(5, 0, 0)]


def test_what_is_taken_back_before_it_was_counted_is_no_pair() -> None:
    cell = with_pairs(review({"channel": "chat"}, 9), -1, 0, 4)
    assert pairs_of(slices([cell], "channel")) == [Pairs(0, 0, 4)]


def agreements(
    chat: tuple[int, int, int], *, n: int = 400, window_name: str = "7d", decides: bool = True
) -> Mapping[str, ShownAgreement | None]:
    """By slice, the total's too; email has 80 pairs, and n decisions on each route, as chat has."""
    cells = [
        make({"channel": name}, size, size, size * 6 // 10)
        for name, size in (("chat", n), ("email", 400))
        for make in (auto, review)
    ]
    cells[0], cells[2] = with_pairs(cells[0], *chat), with_pairs(cells[2], 40, 20, 20)
    group = GroupBy(("channel",))
    builder, counts = Builder(contract(group), CODING), window(cells, window_name).blocks
    kept = MergeMap({"channel": ("chat", "email")})
    table = builder.group(
        builder.pooled(group, counts, kept), None, GroupFindings() if decides else None
    )
    total = builder.window(window_name, counts, ()).total
    return {row.slice: row.agreement for row in (total, *table.rows)}


def test_rows_say_what_their_own_pairs_say() -> None:
    precision = Precision(11)
    assert agreements((100, 60, 40)) == {
        "": shown_agreement(Pairs(140, 80, 60), precision),
        "channel=chat": shown_agreement(Pairs(100, 60, 40), precision),
        "channel=email": shown_agreement(Pairs(40, 20, 20), precision),
    }


def test_a_slice_without_pairs_hides_no_other() -> None:
    found = agreements((0, 0, 0))
    assert found["channel=chat"] is None
    assert found["channel=email"] is not None


def test_a_hidden_row_says_nothing_of_its_reviewers() -> None:
    """In a group-by with a slice of 4 labels no row has labelled rates."""
    found = dict(agreements((100, 60, 40), n=4))
    assert found.pop("") is not None
    assert set(found.values()) == {None}


def test_other_windows_than_the_contract_s_say_nothing() -> None:
    found = agreements((100, 60, 40), window_name="28d", decides=False)
    assert set(found.values()) == {None}
