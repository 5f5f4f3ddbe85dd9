from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probe_rows import write_text
from statsmodels.stats.proportion import confint_proportions_2indep

from monitor.audit.dataset import (
    DatasetCell,
    DatasetReport,
    Representation,
    balance,
    representation,
)
from monitor.audit.dataset_counts import Combination, RowCounts, read_counts
from monitor.errors import AuditError

LESSON = "language_variety,count,target\nformal,62,0.5\nconversational,38,0.5\n"
LABELLED = """language_variety,channel,ready,count
formal,email,true,400
formal,email,false,220
conversational,email,true,150
conversational,email,false,130
conversational,chat,true,50
conversational,chat,false,50
"""
ROWS = [
    ("formal", "email", 400, 220),
    ("conversational", "email", 150, 130),
    ("conversational", "chat", 50, 50),
]


def report(folder: Path, text: str, *, k: int = 11, synthetic: bool = True) -> DatasetReport:
    return representation(
        read_counts(write_text(folder / "counts.csv", text)), k=k, synthetic=synthetic
    )


def table(shown: DatasetReport, group_by: str) -> Representation:
    (found,) = [one for one in shown.tables if one.group_by == group_by]
    return found


def frame() -> pd.DataFrame:
    """Every row of the labelled set for itself."""
    rows = [
        (variety, channel, ready)
        for variety, channel, hits, misses in ROWS
        for ready in [1] * hits + [0] * misses
    ]
    return pd.DataFrame(rows, columns=["language_variety", "channel", "ready"])


def test_62_to_38_against_50_to_50_is_12_points(tmp_path: Path) -> None:
    shown = report(tmp_path, LESSON)
    (only,) = shown.tables
    assert shown.target_stated
    assert shown.rows == 100
    assert [(one.slice, one.rows, one.share, one.target) for one in only.slices] == [
        ("language_variety=conversational", 38, 0.38, 0.5),
        ("language_variety=formal", 62, 0.62, 0.5),
    ]
    assert only.slices[1].points == pytest.approx(12)
    assert only.points == pytest.approx(12)
    assert only.balancing is not None
    assert only.balancing.points_left == pytest.approx(0)
    assert only.balancing.effective_rows == pytest.approx(94, abs=0.5)
    assert only.balancing.rows_needed == 24


def test_without_a_target_slices_are_meant_to_be_equally_frequent(tmp_path: Path) -> None:
    shown = report(tmp_path, LESSON.replace(",target", "").replace(",0.5", ""))
    assert not shown.target_stated
    assert shown.tables[0].points == pytest.approx(12)


def test_a_target_in_percent(tmp_path: Path) -> None:
    assert report(tmp_path, LESSON.replace("0.5", "50")) == report(tmp_path, LESSON)


def test_shares_are_those_of_the_rows(tmp_path: Path) -> None:
    shown = report(tmp_path, LABELLED)
    for names in (["channel"], ["language_variety"], ["channel", "language_variety"]):
        shares = frame()[names].value_counts(normalize=True)
        for one in table(shown, "+".join(names)).slices:
            values = tuple(part.split("=")[1] for part in one.slice.split(","))
            assert one.share == pytest.approx(shares.get(values, 0))
            assert one.target == 1 / 2 ** len(names)


def test_ready_shares_differ_as_an_independent_interval_says(tmp_path: Path) -> None:
    only = table(report(tmp_path, LABELLED), "language_variety")
    formal = only.slices[1].ready
    assert formal is not None
    counts = frame().groupby("language_variety")["ready"].agg(["sum", "size"])
    (m1, n1), (m2, n2) = counts.loc[["formal", "conversational"]].to_numpy()
    low, high = confint_proportions_2indep(m1, n1, m2, n2, method="newcomb", compare="diff")
    assert formal.share == pytest.approx(m1 / n1)
    assert formal.target == pytest.approx(0.6)
    assert formal.difference == pytest.approx(m1 / n1 - m2 / n2)
    assert (formal.lower, formal.upper) == pytest.approx((low, high))


def test_more_slices_hold_together(tmp_path: Path) -> None:
    """Three slices against the others are three comparisons: Bonferroni."""
    one = table(report(tmp_path, LABELLED), "channel+language_variety").slices[0]
    assert one.ready is not None
    low, high = confint_proportions_2indep(
        50, 100, 550, 900, method="newcomb", compare="diff", alpha=0.05 / 3
    )
    assert (one.ready.lower, one.ready.upper) == pytest.approx((low, high))


def test_weights_make_slice_and_label_independent(tmp_path: Path) -> None:
    balancing = table(report(tmp_path, LABELLED), "language_variety").balancing
    assert balancing is not None
    weights = {
        (one.slice.split("=")[1], int(bool(one.ready))): one.weight for one in balancing.weights
    }
    rows = frame()
    rows["weight"] = [
        weights[variety, ready]
        for variety, ready in zip(rows["language_variety"], rows["ready"], strict=True)
    ]
    sums = rows.pivot_table(
        index="language_variety", columns="ready", values="weight", aggfunc="sum"
    )
    expected = [[200.0, 300.0], [200.0, 300.0]]
    np.testing.assert_allclose(sums.to_numpy(), expected)
    kish = rows["weight"].sum() ** 2 / (rows["weight"] ** 2).sum()
    assert balancing.effective_rows == pytest.approx(kish)
    assert balancing.points_left == pytest.approx(0)


def test_further_rows_reach_the_target(tmp_path: Path) -> None:
    balancing = table(report(tmp_path, LABELLED), "language_variety").balancing
    assert balancing is not None
    more = {(one.slice, one.ready): one.rows_needed for one in balancing.weights}
    rows = {
        ("language_variety=formal", True): 400,
        ("language_variety=formal", False): 220,
        ("language_variety=conversational", True): 200,
        ("language_variety=conversational", False): 180,
    }
    assert more["language_variety=formal", True] == 0
    total = sum(rows.values()) + balancing.rows_needed
    for cell, target in zip(rows, (0.3, 0.2, 0.3, 0.2), strict=True):
        assert (rows[cell] + more[cell]) / total == pytest.approx(target, abs=1 / total)


def test_a_target_for_slice_and_label_together(tmp_path: Path) -> None:
    text = "v,ready,count,target\na,true,30,0.2\na,false,30,0.3\nb,true,30,0.4\nb,false,10,0.1\n"
    only = report(tmp_path, text).tables[0]
    assert only.points == pytest.approx(10)
    assert [one.ready.target for one in only.slices if one.ready] == pytest.approx([0.4, 0.8])
    assert only.balancing is not None
    assert [one.weight for one in only.balancing.weights] == pytest.approx([2 / 3, 1, 4 / 3, 1])


def test_what_has_no_rows_cannot_be_weighted(tmp_path: Path) -> None:
    text = "v,count,target\na,60,0.4\nb,40,0.4\nc,0,0.2\n"
    only = report(tmp_path, text).tables[0]
    assert only.balancing is not None
    assert [one.weight for one in only.balancing.weights] == pytest.approx([2 / 3, 1, None])
    assert [one.rows_needed for one in only.balancing.weights] == [0, 20, 30]
    assert only.balancing.points_left == pytest.approx(20)


def test_what_the_target_has_no_place_for_is_left_out(tmp_path: Path) -> None:
    only = report(tmp_path, "v,count,target\na,60,0\nb,40,1\n").tables[0]
    assert only.balancing is not None
    assert [one.weight for one in only.balancing.weights] == [0, 1 / 0.4]
    assert only.balancing.rows_needed == 0
    assert only.balancing.effective_rows == pytest.approx(40)


def test_one_slice_alone_has_nothing_to_differ_from(tmp_path: Path) -> None:
    only = report(tmp_path, "v,ready,count\na,true,30\na,false,10\n").tables[0]
    (one,) = only.slices
    assert one.ready is not None
    assert (one.share, one.ready.share, one.ready.difference) == (1, 0.75, None)
    assert only.points == 0


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=2, max_size=6).filter(
        lambda counts: any(n for n, _ in counts) and any(t for _, t in counts)
    )
)
def test_balancing_is_what_brute_force_makes_of_it(counts: list[tuple[int, int]]) -> None:
    rows, aims = (np.array(column) for column in zip(*counts, strict=True))
    shares, targets = rows / rows.sum(), aims / aims.sum()
    cells = [
        DatasetCell(str(i), None, *pair) for i, pair in enumerate(zip(shares, targets, strict=True))
    ]
    done = balance(cells, int(rows.sum()))
    weight = np.repeat([one.weight or 0 for one in done.weights], rows)
    kish = weight.sum() ** 2 / (weight**2).sum() if weight.any() else 0
    assert done.effective_rows == pytest.approx(kish)
    assert done.effective_rows <= rows.sum() * (1 + 1e-9)
    kept = np.where(aims > 0, rows, 0) + [one.rows_needed for one in done.weights]
    if kept.any():
        assert np.abs(kept / kept.sum() - targets).max() <= len(cells) / kept.sum()
    reached = np.where(rows > 0, targets, 0)
    if reached.any():
        left = np.abs(reached / reached.sum() - targets).max()
        assert done.points_left == pytest.approx(100 * left)


def counted(cells: Sequence[tuple[str, str, bool, int]]) -> RowCounts:
    lines = tuple(Combination({"a": a, "b": b}, ready, count, None) for a, b, ready, count in cells)
    return RowCounts(("a", "b"), True, False, lines)


CELLS = st.lists(
    st.tuples(st.sampled_from("xyz"), st.sampled_from("uv"), st.booleans(), st.integers(0, 400)),
    min_size=1,
    max_size=12,
    unique_by=lambda cell: cell[:3],
).filter(lambda cells: any(count for *_, count in cells))


@settings(deadline=None)
@given(CELLS, st.integers(2, 20))
def test_nothing_below_k_is_shown_of_real_people(
    cells: list[tuple[str, str, bool, int]], k: int
) -> None:
    shown = representation(counted(cells), k=k, synthetic=False)
    rows = pd.DataFrame(cells, columns=["a", "b", "ready", "n"])
    for one in shown.tables:
        sums = rows.groupby(one.group_by.split("+"))["n"].sum()
        few = bool(((sums > 0) & (sums < k)).any())
        assert one.withheld is few
        assert (one.slices == ()) is few
        assert (one.balancing is None) is few
        parts = rows.pivot_table(
            index=one.group_by.split("+"), columns="ready", values="n", aggfunc="sum", fill_value=0
        ).reindex(columns=[True, False], fill_value=0)
        few_of_a_label = bool((parts.min(axis=1) < k)[parts.sum(axis=1) > 0].any())
        assert one.ready_withheld is (few or few_of_a_label)
        if one.ready_withheld:
            assert all(slice_.ready is None for slice_ in one.slices)
        assert all(slice_.rows == 0 or slice_.rows >= k for slice_ in one.slices)


def test_one_row_of_real_people_more_or_less_changes_nothing(tmp_path: Path) -> None:
    text = "v,ready,count\na,true,{}\na,false,500\nb,true,300\nb,false,{}\n"
    shown = report(tmp_path, text.format(700, 500), synthetic=False)
    assert shown == report(tmp_path, text.format(701, 501), synthetic=False)
    assert shown.tables[0].slices[0].ready is not None
    assert report(tmp_path, text.format(700, 500)) != report(tmp_path, text.format(701, 501))


def test_a_rare_slice_of_real_people_is_not_shown_as_none(tmp_path: Path) -> None:
    only = report(tmp_path, "v,count\na,100000\nb,20\n", synthetic=False).tables[0]
    assert only.slices[1].rows == 11
    assert 0 < only.slices[1].share < 0.001
    assert only.balancing is not None
    assert only.balancing.points_left == pytest.approx(0)


def test_counts_are_read(tmp_path: Path) -> None:
    counts = read_counts(write_text(tmp_path / "counts.csv.gz", LABELLED))
    assert counts.attributes == ("channel", "language_variety")
    assert counts.has_ready
    assert not counts.has_target
    assert counts.combinations[1] == Combination(
        {"channel": "email", "language_variety": "formal"}, False, 220, None
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("v,count\na,-1\n", ", line 2, field count: write a whole number from 0"),
        ("v,count\na,1.0\n", ", line 2, field count: write a whole number from 0"),
        ("v,count\na,\n", ", line 2, field count: write a whole number from 0"),
        ("v,count\na," + "9" * 13, ", line 2, field count: write a whole number from 0"),
        ("v,count\n,3\n", ", line 2, field v: empty or unfit; write text of at most 200"),
        ("v,count\na,3\na,4\n", ", line 3: the combination of line 2 again; add the counts up"),
        ("v,ready,count\na,,3\n", ", line 2, field ready: write true or false"),
        ("v,count,target\na,3,x\n", ", line 2, field target: write a share such as 0.25, or 25"),
        ("v,count,target\na,3,-1\n", ", line 2, field target: write a share such as 0.25, or 25"),
        ("v,count,target\na,3,.9\n", ", line 2, field target: write a share such as 0.25, or 25"),
        ("v,count,target\na,3,0.9\n", ", field target: adds up to 0.9; make it 1, or 100 in per"),
        ("v,count\na,0\n", ": no rows are counted; write one line for each combination"),
        ("v,count\n", ": no rows are counted; write one line for each combination"),
        ("v,n\na,3\n", ", line 1: no column count; write attributes, count and a header"),
        ("count\n3\n", ", line 1: no column of an attribute; write attributes, count and a head"),
        ("Secret,3\n", ", line 1: column 1 has no name of an attribute; write an attribute name"),
        ("v,count\n" + "".join(f"v{i},3\n" for i in range(101)), ", field v: more than 100 val"),
    ],
)
def test_counts_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    path = write_text(tmp_path / "counts.csv", text)
    with pytest.raises(AuditError) as refusal:
        read_counts(path)
    assert str(refusal.value).removeprefix(str(path)).startswith(said)
    assert "Secret" not in str(refusal.value)


def test_counts_are_csv(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=r"choose a name that ends in \.csv"):
        read_counts(write_text(tmp_path / "counts.jsonl", "{}"))
