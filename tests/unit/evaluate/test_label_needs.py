"""What is missing until labels can decide, from a table as it is published."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from cubes import LIMITS, contract

from monitor.core.contract import COMPLEMENT, GroupBy, OwnLimits
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import GroupTable, Period, ShownRate, SliceRow
from monitor.core.rates.gaps import comparisons, simultaneous_z
from monitor.core.state import State
from monitor.core.time import DAY
from monitor.detection.label_power import LabelNeed, PowerDesign, detectable_gaps, label_needs
from monitor.evaluate.label_needs import AT_LEAST, with_label_needs

TPR, FPR = Metric.TPR, Metric.FPR
WEEK = Period(0, 7 * DAY)


def rate(
    value: float | None, support: int, at_least: float | None = None, at_most: float | None = None
) -> ShownRate:
    return ShownRate(value, None, None, support, at_least, at_most)


def row(name: str, tpr: ShownRate | None, fpr: ShownRate | None = None) -> SliceRow:
    shown = {metric: r for metric, r in ((TPR, tpr), (FPR, fpr)) if r is not None}
    text = f"channel={name}"
    if not shown:
        return SliceRow(text, dict.fromkeys(Metric, State.SUPPRESSED))
    return SliceRow(text, dict.fromkeys(Metric, State.INCONCLUSIVE), shown)


def told(
    *rows: SliceRow, reference: str = COMPLEMENT, labelled: Period | None = WEEK
) -> tuple[dict[str, dict[Metric, int]], dict[str, dict[Metric, float]]]:
    group = GroupBy(("channel",), reference)
    table = GroupTable("channel", rows, labelled=labelled)
    found = with_label_needs(contract(group), group, table)
    assert [one.rates for one in found.rows] == [one.rates for one in rows]
    gaps = {one.slice.partition("=")[2]: dict(one.detectable_gaps) for one in found.rows}
    needs = {one.slice.partition("=")[2]: dict(one.label_needs) for one in found.rows}
    return needs, gaps


def expected(reference: float, mine: float, others: float, slices: int) -> tuple[int, float | None]:
    arms = PowerDesign(TPR, *(np.array([x]) for x in (reference, mine, others)))
    z, limit = simultaneous_z(comparisons(slices, COMPLEMENT)), LIMITS.max_tpr_gap
    (need,), (gap,) = label_needs(arms, limit, z), detectable_gaps(arms, limit, z)
    assert need is not None
    return AT_LEAST[need], gap


def test_every_class_has_its_weeks() -> None:
    assert set(AT_LEAST) == set(LabelNeed)
    assert sorted(AT_LEAST.values()) == [0, 1, 4]


def test_a_complement_is_the_mean_of_the_other_rows() -> None:
    rows = (row("a", rate(0.9, 3_000)), row("b", rate(0.8, 1_000)), row("c", rate(0.7, 100)))
    needs, gaps = told(*rows)
    alone = {
        "a": expected((0.8 * 1_000 + 0.7 * 100) / 1_100, 3_000, 1_100, 3),
        "b": expected((0.9 * 3_000 + 0.7 * 100) / 3_100, 1_000, 3_100, 3),
        "c": expected((0.9 * 3_000 + 0.8 * 1_000) / 4_000, 100, 4_000, 3),
    }
    assert {name: found[TPR] for name, found in gaps.items()} == {
        n: g for n, (_, g) in alone.items()
    }
    assert needs == {name: {TPR: need} for name, (need, _) in alone.items()}
    assert needs["c"] == {TPR: 4}


def test_a_named_reference_is_compared_with_nobody() -> None:
    rows = (row("a", rate(0.9, 5_000)), row("b", rate(0.5, 5_000)))
    needs, gaps = told(*rows, reference="channel=a")
    assert (needs, gaps["a"]) == ({"a": {}, "b": {TPR: 0}}, {})
    assert gaps["b"] == {TPR: expected(0.9, 5_000, 5_000, 2)[1]}


def test_a_slice_needs_labels_for_the_limit_of_its_own() -> None:
    rows = (row("a", rate(0.9, 3_000)), row("b", rate(0.8, 1_000)), row("c", rate(0.7, 100)))
    group = GroupBy(("channel",))
    own = OwnLimits("channel", "channel=b", (("max_tpr_gap", Fraction("0.30")),))
    table = GroupTable("channel", rows, labelled=WEEK)
    everyones = contract(group)
    wide = replace(everyones, limits=replace(LIMITS, max_tpr_gap=Fraction("0.30")))
    mixed = replace(everyones, own_limits=(own,))
    found, usual, alike = (
        [dict(one.detectable_gaps) for one in with_label_needs(made, group, table).rows]
        for made in (mixed, everyones, wide)
    )
    assert found == [usual[0], alike[1], usual[2]]
    assert usual[1] != alike[1]


def test_support_is_of_a_week() -> None:
    rows = (row("a", rate(0.9, 800)), row("b", rate(0.9, 800)))
    need, gap = expected(0.9, 200, 200, 2)
    needs, gaps = told(*rows, labelled=Period(0, 28 * DAY))
    assert (needs["a"][TPR], gaps["a"][TPR]) == (need, gap)
    more = told(*rows)[1]["a"][TPR]
    assert more is not None
    assert gap is not None
    assert more < gap


def test_a_code_stands_for_its_rate() -> None:
    coded = row("b", rate(None, 2_000, at_least=0.98))
    plain = row("b", rate(0.98, 2_000))
    assert told(row("a", rate(0.9, 900)), coded) == told(row("a", rate(0.9, 900)), plain)
    low = row("b", None, rate(None, 2_000, at_most=0.02))
    assert told(row("a", None, rate(0.1, 900)), low)[0]["a"].keys() == {FPR}


@pytest.mark.parametrize("hidden_rate", [None, rate(None, 400)])
def test_what_is_hidden_has_no_need_and_gives_none_away(hidden_rate: ShownRate | None) -> None:
    """A rate without a number is as if it were not there."""
    needs, gaps = told(row("a", rate(0.9, 900)), row("b", hidden_rate, rate(0.1, 400)))
    assert needs == {"a": {}, "b": {}}
    assert gaps == {"a": {}, "b": {}}


def test_before_the_first_block_of_labels_nothing_is_told() -> None:
    assert told(row("a", rate(0.9, 900)), row("b", rate(0.9, 900)), labelled=None) == (
        {"a": {}, "b": {}},
        {"a": {}, "b": {}},
    )


def test_selection_and_blocked_rates_need_no_labels() -> None:
    table = GroupTable(
        "channel",
        tuple(
            SliceRow(f"channel={n}", {}, {m: rate(0.5, 900) for m in Metric if not m.labelled})
            for n in "ab"
        ),
        labelled=WEEK,
    )
    group = GroupBy(("channel",))
    found = with_label_needs(contract(group), group, table)
    assert found == table
