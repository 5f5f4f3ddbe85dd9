"""What must hold of every published table, whatever was counted."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import msgspec
import pytest
from cubes import CODING, Cell, build_contract, contract, slices, table, window
from example_counts import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.core.contract import GroupBy, Metric, State
from monitor.core.counts.cells import Counts, Route, Stratum, parse_atom
from monitor.core.counts.rollup import SliceCounts
from monitor.core.privacy.bands import Precision, edges
from monitor.core.publish.snapshot import ContractTable, SliceRow, Snapshot, WindowTable, encode
from monitor.core.rates.estimates import estimate

K = 11
CHANNELS, REGIONS = ("chat", "email", "post"), ("north", "south")
GROUPS = (
    GroupBy(("channel",), "channel=chat"),
    GroupBy(("channel", "region")),
    GroupBy(("region",)),
)
SETTINGS = contract(*GROUPS, k=K)
PLAIN = settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

# Mostly around k, so that every guard is met; sometimes large, so that something is shown.
SIZES = st.one_of(
    st.just(0), st.integers(0, 14), st.integers(9, 40), st.integers(60, 400), st.just(2000)
)


@st.composite
def cell(draw: st.DrawFn, atom: dict[str, str]) -> Cell:
    route = draw(st.sampled_from(Route))
    stratum = Stratum(
        route,
        band=draw(st.integers(0, 3)),
        rate=draw(st.sampled_from((0, 0, 1, 2))),
        evidence_passed=route is not Route.BLOCKED_BY_EVIDENCE,
        probe=draw(st.integers(0, 9)) == 0,
    )
    n = draw(SIZES)
    labelled = n if stratum.rate == 0 else draw(st.integers(0, n))
    ready = draw(st.one_of(st.just(labelled), st.just(0), st.integers(0, labelled)))
    return Cell(atom, stratum, n, labelled, ready, requested=min(n, labelled + draw(SIZES)))


@st.composite
def cubes(draw: st.DrawFn) -> list[Cell]:
    found: dict[tuple[str, str, int], Cell] = {}
    for channel in CHANNELS:
        for region in REGIONS:
            atom = {"channel": channel, "region": region}
            for one in draw(st.lists(cell(atom), max_size=5)):
                found[channel, region, one.stratum.code] = one
    return list(found.values())


def build(cells: list[Cell]) -> ContractTable:
    return build_contract(SETTINGS, CODING, [window(cells, "7d"), window(cells, "1h")])


def rows_of(shown: WindowTable) -> list[tuple[str, SliceRow]]:
    return [("", shown.total)] + [(g.group_by, row) for g in shown.groups for row in g.rows]


def counted(cells: list[Cell], group_by: str, row: str, kept: set[str]) -> SliceCounts:
    """Brute force: what is in a published row, pooled values included."""

    def inside(one: Cell) -> bool:
        return all(
            (one.atom[name] if one.atom[name] in kept else "__other__") == value
            for name, value in parse_atom(row).items()
        )

    return slices([one for one in cells if inside(one)])


def kept_values(shown: WindowTable, group_by: str) -> set[str]:
    """Values with a name in a group-by: an intersection may keep fewer than its marginals."""
    groups = [g for g in shown.groups if g.group_by == group_by]
    return {v for g in groups for row in g.rows for v in parse_atom(row.slice).values()}


def decisions(cells: list[Cell], group_by: str, row: str, kept: set[str]) -> int:
    counts = counted(cells, group_by, row, kept)
    return int(sum(estimate(counts, CODING, Metric.SELECTION).support)) if counts.slices else 0


@PLAIN
@given(cubes())
def test_no_support_below_k_and_bounds_hold_their_point(cells: list[Cell]) -> None:
    for shown in build(cells).windows:
        for _, row in rows_of(shown):
            calibrated = [c.rate for c in row.calibration if c.rate is not None]
            for rate in [*row.rates.values(), *calibrated]:
                assert rate.support >= K
                assert rate.support in edges(K)
                assert rate.lower is not None
                assert rate.upper is not None
                assert 0 <= rate.lower <= rate.upper <= 1
                for number in (rate.value, rate.at_least, rate.at_most):
                    assert number is None or rate.lower <= number <= rate.upper
                assert (rate.value is None) == (
                    rate.at_least is not None or rate.at_most is not None
                )
            for gap in row.gaps.values():
                if gap.value is not None:
                    assert gap.lower is not None
                    assert gap.upper is not None
                    assert gap.lower <= gap.value <= gap.upper
                if gap.ratio_upper is not None:
                    assert gap.ratio_lower is not None
                    assert gap.ratio_lower <= gap.ratio_upper


@PLAIN
@given(cubes())
def test_small_complements_are_coded_and_codes_are_true(cells: list[Cell]) -> None:
    shown = build(cells).windows[0]
    for group_by, row in rows_of(shown):
        kept = kept_values(shown, group_by)
        for metric, rate in row.rates.items():
            exact = estimate(counted(cells, group_by, row.slice, kept), CODING, metric)
            if exact.hits[0] < K or exact.misses[0] < K:
                assert rate.value is None
                assert row.as_labelled.get(metric) is None
            (value,) = exact.value.tolist()
            assert rate.at_least is None or rate.at_least <= value
            assert rate.at_most is None or rate.at_most >= value
            half = float(Precision(K).step(rate.support)) / 2
            assert rate.value is None or abs(rate.value - value) <= half + 1e-9


@PLAIN
@given(cubes())
def test_gaps_of_coded_rates_are_coded(cells: list[Cell]) -> None:
    for shown in build(cells).windows:
        named = shown.groups[0]
        reference = next((row for row in named.rows if row.slice == "channel=chat"), None)
        for row in named.rows:
            for metric, gap in row.gaps.items():
                assert reference is not None
                sides = (row.rates[metric], reference.rates[metric])
                if any(side.value is None for side in sides):
                    assert gap.value is None
                    assert gap.ratio is None
                else:
                    assert gap.value is not None


@PLAIN
@given(cubes())
def test_all_or_nothing(cells: list[Cell]) -> None:
    for shown in build(cells).windows:
        for group in shown.groups:
            kept = kept_values(shown, group.group_by)
            sizes = [decisions(cells, group.group_by, row.slice, kept) for row in group.rows]
            if any(0 < n < K for n in sizes):
                assert not any(row.rates for row in group.rows)


@PLAIN
@given(cubes())
def test_hidden_rows_differ_in_their_name_only(cells: list[Cell]) -> None:
    for shown in build(cells).windows:
        plain = {
            msgspec.json.encode(replace(row, slice=""), order="deterministic")
            for _, row in rows_of(shown)
            if not row.rates
        }
        assert len(plain) <= 1
        for _, row in rows_of(shown):
            hidden = {m for m, s in row.states.items() if s is State.SUPPRESSED}
            assert hidden == set(row.states) - set(row.rates)
            assert set(row.gaps) <= set(row.rates)


@PLAIN
@given(cubes(), st.randoms(use_true_random=False))
def test_equal_inputs_have_equal_bytes_without_nan(cells: list[Cell], random: Random) -> None:
    data = encode(Snapshot(1, 1, (build(cells),)))
    json.loads(data, parse_constant=pytest.fail)
    shuffled = list(cells)
    random.shuffle(shuffled)
    assert encode(Snapshot(1, 1, (build(shuffled),))) == data


@PLAIN
@given(cubes())
def test_a_few_arrivals_of_a_new_value_are_not_seen(cells: list[Cell]) -> None:
    """A group-by lists the same rows with and without one rare arrival of a pooled value."""
    before = build(cells).windows[0].groups[0]
    if decisions(cells, "", "", set()) < 4 * K:
        return  # then everything is pooled, and pooling may change
    rare = Cell({"channel": "fax", "region": "north"}, Stratum(Route.AUTO_SERVE, 0, 0), 1, 1, 1)
    after = build([*cells, rare]).windows[0].groups[0]
    assert "channel=__other__" in {row.slice for row in before.rows}
    assert "channel=fax" not in {row.slice for row in after.rows}


def test_empty_counts_have_no_cells() -> None:
    counts, index = table([])
    assert len(index.cells) == 0
    assert len(counts.keys) == len(Counts.empty().keys)
