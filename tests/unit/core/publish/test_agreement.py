from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from cubes import CODING, Cell, auto, blocked, build_contract, contract, in_tables, review, window
from cubes import table as count
from statsmodels.stats.inter_rater import cohens_kappa as statsmodels_kappa

from monitor.core.contract import GroupBy
from monitor.core.counts.coding import Attribute
from monitor.core.intervals import Z95
from monitor.core.metric import Metric
from monitor.core.publish.agreement import (
    Pairs,
    cohens_kappa,
    rates_if_wrong,
    router_agreement,
    shown_agreement,
)
from monitor.core.publish.snapshot import ShownAgreement, ShownRate
from monitor.core.tables.bands import row_rule
from monitor.core.tables.row_counts import RowCounter
from monitor.core.tables.settings import TableSettings
from monitor.core.tables.spans import SpanKind
from monitor.core.time import WINDOWS


def shown_of(both: int, neither: int, apart: int, k: int = 11) -> ShownAgreement | None:
    bands = row_rule(np.array([[both, neither, apart]]), k)
    return shown_agreement(bands.low[0, 1:], bands.high[0, 1:], k)


def test_a_table_by_hand() -> None:
    """Agree .7; chance .5 * .6 + .5 * .4 = .5."""
    kappa, _ = cohens_kappa(np.array([[20.0, 5.0], [10.0, 15.0]]))
    assert kappa == pytest.approx(0.4)


@pytest.mark.parametrize("classes", [2, 3])
def test_point_and_error_against_statsmodels(classes: int) -> None:
    tables = np.random.default_rng(classes).integers(0, 40, (50, classes, classes)).astype(float)
    kappas, errors = cohens_kappa(tables)
    for pairs, kappa, error in zip(tables, kappas, errors, strict=True):
        other = statsmodels_kappa(pairs)
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


def test_the_router_and_its_reviewers_by_their_shown_rates() -> None:
    """Blocked requests are in neither class; a rate that is a bound leaves no kappa."""
    atom = {"channel": "chat"}
    cells = [auto(atom, 60, 60, 45), review(atom, 40, 40, 10), blocked(atom, 30)]
    made = contract(GroupBy(("channel",)), k=1, synthetic=True)
    row = build_contract(made, CODING, [window(cells)]).windows[0].total
    expected = statsmodels_kappa(np.array([[45.0, 15.0], [10.0, 30.0]])).kappa
    assert router_agreement(row) == pytest.approx(expected, abs=0.005)
    bound = replace(row.rates[Metric.FPR], value=None, at_most=0.2)
    assert router_agreement(replace(row, rates={**row.rates, Metric.FPR: bound})) is None


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
    kappa, error = (float(x) for x in cohens_kappa(Pairs(both=120, neither=60, apart=20).table))
    shown = shown_of(120, 60, 20, k=1)
    assert shown is not None
    assert shown.at_least is None
    assert (shown.kappa, shown.lower, shown.upper) == pytest.approx(
        (kappa, kappa - Z95 * error, kappa + Z95 * error)
    )
    assert shown_of(5, 0, 0, k=1) is None


@pytest.mark.parametrize("pairs", [(5, 3, 2), (100, 0, 0), (100, 4, 6), (4, 100, 6), (0, 0, 0)])
def test_hidden_below_k(pairs: tuple[int, int, int]) -> None:
    assert shown_of(*pairs) is None


def test_few_disagreements_look_alike() -> None:
    """Neither their number nor that there are none can be read."""
    (agreement,) = {shown_of(100, 40, apart) for apart in range(11)}
    assert agreement is not None
    assert agreement.kappa is None
    assert agreement.upper == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_code_is_true_and_bounds_hold_the_exact_kappa(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for both, neither, apart in rng.integers(0, 120, (500, 3)).tolist():
        shown = shown_of(both, neither, apart // 6)
        if shown is None:
            continue
        exact = cohens_kappa(Pairs(both, neither, apart // 6).table)[0]
        assert -1 <= shown.lower <= exact <= shown.upper <= 1
        if shown.at_least is not None:
            assert shown.lower <= shown.at_least <= exact


def with_pairs(cell: Cell, both: int, neither: int, apart: int) -> Cell:
    return replace(cell, pairs=(both, neither, apart))


def test_pairs_are_of_what_labelled_rates_are_about() -> None:
    chat, email = {"channel": "chat"}, {"channel": "email"}
    cells = [
        with_pairs(auto(chat, 9), 1, 2, 3),
        with_pairs(review(chat, 9), 10, 20, 30),
        with_pairs(review(email, 9), 5, -1, 0),  # taken back before it was counted
        with_pairs(auto(chat, 9, probe=True), 100, 100, 100),
        with_pairs(auto(chat, 9, evidence_passed=False), 100, 100, 100),
        with_pairs(blocked(email, 9), 100, 100, 100),
    ]
    coding = replace(CODING, attributes=(Attribute("channel", ("chat", "email")),))
    settings = TableSettings.from_contract(contract(GroupBy(("channel",), "channel=chat")), coding)
    pairs = RowCounter(settings, coding.audit_rates).count_pairs(*count(cells))
    rows = dict(zip(map(str, settings.layout_of(SpanKind.DAY).rows), pairs.tolist(), strict=True))
    assert rows["channel=chat"] == [11, 22, 33]
    assert rows["channel=email"] == [5, 0, 0]
    assert rows[""] == [16, 22, 33]


def agreements(
    chat: tuple[int, int, int], *, n: int = 400, shown_in: str = "7d"
) -> Mapping[str, ShownAgreement | None]:
    """By slice, the total's too; email has 80 pairs, and n decisions on each route, as chat has."""
    cells = [
        make({"channel": name}, size, size, size * 6 // 10)
        for name, size in (("chat", n), ("email", 400))
        for make in (auto, review)
    ]
    cells[0], cells[2] = with_pairs(cells[0], *chat), with_pairs(cells[2], 40, 20, 20)
    group, counted = GroupBy(("channel",)), window(cells)
    seen = in_tables(contract(group), CODING, counted)
    tables = [seen.group(seen.basis(by, WINDOWS[shown_in])) for by in (None, group)]
    return {row.slice: row.agreement for made in tables for row in made.rows}


def test_rows_say_what_their_own_pairs_say() -> None:
    assert agreements((100, 60, 40)) == {
        "": shown_of(140, 80, 60),
        "channel=chat": shown_of(100, 60, 40),
        "channel=email": shown_of(40, 20, 20),
    }


def test_a_slice_without_pairs_hides_no_other() -> None:
    shown = agreements((0, 0, 0))
    assert shown["channel=chat"] is None
    assert shown["channel=email"] is not None


def test_a_hidden_row_says_nothing_of_its_reviewers() -> None:
    shown = agreements((100, 60, 40), n=4)
    assert shown["channel=chat"] is None
    assert shown["channel=email"] is not None


def test_other_windows_than_the_contract_s_say_nothing() -> None:
    assert set(agreements((100, 60, 40), shown_in="28d").values()) == {None}


@pytest.mark.parametrize("wrong", [0.0, 0.03, 0.08])
@pytest.mark.parametrize(("tpr", "fpr", "ready"), [(0.85, 0.10, 0.6), (0.3, 0.2, 0.2)])
def test_labels_that_reviewers_got_wrong_leave_the_truth_between_the_bounds(
    wrong: float, tpr: float, fpr: float, ready: float
) -> None:
    """Every label is wrong with this chance, of 2,000,000 decisions; pairs of two such labels."""
    rng = np.random.default_rng(7)
    truth = rng.random(2_000_000) < ready
    served = rng.random(truth.size) < np.where(truth, tpr, fpr)
    first, second = (truth ^ (rng.random(truth.size) < wrong) for _ in range(2))
    pairs = ((first & second), (~first & ~second), (first ^ second))
    both, neither, apart = (int(pair.sum()) for pair in pairs)
    shown = shown_of(both, neither, apart, k=1)
    assert shown is not None
    assert shown.wrong == pytest.approx(wrong, abs=0.001)
    labels = (served[first], served[~first], first)
    labelled = dict(zip((Metric.TPR, Metric.FPR, Metric.READY), map(np.mean, labels), strict=True))
    rates = {m: ShownRate(float(x), float(x), float(x), 9) for m, x in labelled.items()}
    changed = rates_if_wrong(rates, shown.wrong)
    for metric, exact in ((Metric.TPR, tpr), (Metric.FPR, fpr)):
        ends = changed[metric].if_wrong
        assert (ends is None) == (wrong == 0)
        low, high = ends or (rates[metric].lower, rates[metric].upper)
        assert sorted([exact, labelled[metric]]) == pytest.approx([low, high], abs=0.004)


def test_rates_without_points_or_disagreement_have_no_such_bounds() -> None:
    bound = ShownRate(None, 0.9, 1.0, 500, at_least=0.9)
    rates = {Metric.TPR: bound, Metric.FPR: ShownRate(0.1, 0.05, 0.15, 300)}
    for wrong in (None, 0.0, 0.1):
        assert rates_if_wrong(rates, wrong) == rates
    few = shown_of(120, 80, 4)
    assert few is not None
    assert few.wrong is None
