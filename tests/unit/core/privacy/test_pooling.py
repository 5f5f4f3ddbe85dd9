"""Merge maps: what a value needs to keep its name, and what even ``__other__`` needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product

import pytest
from cubes import auto, blocked, review, slices
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts.cells import OTHER, parse_atom
from monitor.core.counts.rollup import SliceCounts
from monitor.core.privacy.pooling import Flow, MergeMap, decisions_of, label_map, merge_map

K = 11
CHANNEL = ("channel",)
BOTH = ("channel", "region")
CUBES = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b", "c", OTHER]), st.sampled_from(["n", "s", "w"])),
    st.sampled_from([0, 1, 3, 10, 11, 12, 40, 300]),
    min_size=1,
)
NEEDS = st.sampled_from([None, 11, 30, 100])


def of(decisions: Mapping[str, int]) -> SliceCounts:
    """Decisions of each value of one attribute."""
    return slices([auto({"channel": value}, n) for value, n in decisions.items()], *CHANNEL)


def cube(decisions: Mapping[tuple[str, str], int], *attributes: str) -> SliceCounts:
    cells = [auto({"channel": c, "region": r}, n) for (c, r), n in decisions.items() if n]
    return slices(cells, *attributes)


def pooled(counts: SliceCounts, pooling: MergeMap) -> dict[str, int]:
    """Decisions of every row of a map."""
    rows = pooling.apply(counts)
    return dict(zip(rows.slices, decisions_of(rows).tolist(), strict=True))


def by_value(rows: Mapping[str, int], pooling: MergeMap, name: str) -> Counter[str]:
    """Rows added up by the value of one attribute, as a map pools it."""
    sums: Counter[str] = Counter()
    for text, n in rows.items():
        sums[pooling.name(f"{name}={parse_atom(text)[name]}")] += n
    return sums


def kept(found: MergeMap) -> Mapping[str, tuple[str, ...]]:
    return {name: tuple(v for v in values if v != OTHER) for name, values in found.kept.items()}


class TestNeed:
    def test_a_value_keeps_its_name_if_it_comes_often_enough(self) -> None:
        counts = of({"chat": 200, "email": 154, "fax": 153, "post": 20})
        found = merge_map(counts, CHANNEL, K, need=154)
        assert kept(found) == {"channel": ("chat", "email")}

    def test_other_need_not_be_large(self) -> None:
        """Where it is too small it is left out; no value that is large enough is given for it."""
        counts = of({"chat": 200, "email": 30, "fax": 3})
        assert kept(merge_map(counts, CHANNEL, K, need=30)) == {"channel": ("chat", "email")}
        assert kept(merge_map(counts, CHANNEL, K)) == {"channel": ("chat",)}

    def test_the_row_of_others_is_always_there(self) -> None:
        """Its appearance would tell of one arrival."""
        for need in (None, 30):
            found = merge_map(of({"chat": 200}), CHANNEL, K, need=need)
            assert found.kept == {"channel": (OTHER, "chat")}

    def test_other_itself_is_no_value(self) -> None:
        found = merge_map(of({OTHER: 500, "chat": 20}), CHANNEL, K, need=30)
        assert kept(found) == {"channel": ()}

    def test_k_of_one_keeps_every_name_and_adds_none(self) -> None:
        assert merge_map(of({"chat": 1}), CHANNEL, 1, need=100).kept == {"channel": ("chat",)}


class TestWithin:
    def test_it_keeps_no_more_than_those_it_refines(self) -> None:
        marginal = MergeMap({"channel": (OTHER, "chat")})
        counts = cube({("chat", "n"): 100, ("email", "n"): 100}, *BOTH)
        found = merge_map(counts, BOTH, K, need=11, within=[marginal])
        assert kept(found) == {"channel": ("chat",), "region": ("n",)}

    def test_every_one_of_them(self) -> None:
        marginals = [MergeMap({"channel": (OTHER, "a", "b")}), MergeMap({"channel": ("a", "c")})]
        counts = of({"a": 100, "b": 100, "c": 100})
        assert kept(merge_map(counts, CHANNEL, K, need=11, within=marginals)) == {"channel": ("a",)}

    def test_what_they_do_not_divide_does_not_bind(self) -> None:
        marginal = MergeMap({"region": (OTHER,)})
        assert kept(merge_map(of({"a": 100}), CHANNEL, K, need=11, within=[marginal])) == {
            "channel": ("a",)
        }

    @given(CUBES, NEEDS)
    def test_rows_add_up_to_sums_of_rows_of_the_marginals(
        self, decisions: dict[tuple[str, str], int], need: int | None
    ) -> None:
        parents = [merge_map(cube(decisions, name), (name,), K, need=need) for name in BOTH]
        counts = cube(decisions, *BOTH)
        child = merge_map(counts, BOTH, K, need=need, within=parents)
        for name, parent in zip(BOTH, parents, strict=True):
            assert set(child.kept[name]) <= set(parent.kept[name])
            rows, marginal = pooled(counts, child), pooled(cube(decisions, name), parent)
            coarser = MergeMap({name: child.kept[name]})
            assert by_value(rows, coarser, name) == by_value(marginal, coarser, name)


class TestCrossed:
    def test_values_are_named_as_long_as_every_cell_has_enough(self) -> None:
        counts = cube({("a", "n"): 300, ("a", "s"): 100, ("b", "n"): 90, ("b", "s"): 20}, *BOTH)
        # Either attribute could be divided, but not both: (b, s) has 20.
        assert kept(merge_map(counts, BOTH, K, need=30)) == {"channel": ("a", "b"), "region": ()}
        assert kept(merge_map(counts, BOTH, K, need=20))["region"] == ("n", "s")

    def test_which_of_two_alike_is_named_does_not_tell_which_has_more(self) -> None:
        for more in (0, 5):
            cells = {("a", "n"): 40 + more, ("a", "s"): 3, ("b", "n"): 3, ("b", "s"): 40}
            found = merge_map(cube(cells, *BOTH), BOTH, K, need=30)
            assert kept(found) == {"channel": ("a", "b"), "region": ()}

    def test_what_is_large_in_every_cell_stays(self) -> None:
        counts = cube({(c, r): 30 for c in "ab" for r in "ns"}, *BOTH)
        assert kept(merge_map(counts, BOTH, K, need=30)) == {
            "channel": ("a", "b"),
            "region": ("n", "s"),
        }

    def test_a_cell_that_never_occurs_needs_nothing(self) -> None:
        counts = cube({("a", "n"): 300, ("b", "s"): 300}, *BOTH)
        assert kept(merge_map(counts, BOTH, K, need=30)) == {
            "channel": ("a", "b"),
            "region": ("n", "s"),
        }

    @given(CUBES, NEEDS)
    def test_every_cell_has_none_or_what_it_needs(
        self, decisions: dict[tuple[str, str], int], need: int | None
    ) -> None:
        counts = cube(decisions, *BOTH)
        found = merge_map(counts, BOTH, K, need=need)
        rows = pooled(counts, found)
        assert set(rows) == {
            f"channel={c},region={r}" for c, r in product(*(found.kept[n] for n in BOTH))
        }
        assert sum(rows.values()) == sum(decisions.values())
        named = [n for text, n in rows.items() if text != f"channel={OTHER},region={OTHER}"]
        assert all(n == 0 or n >= (need or K) for n in named)
        if any(values for values in kept(found).values()):
            assert all(n == 0 or n >= (need or K) for n in rows.values())

    @given(CUBES, NEEDS)
    def test_it_is_a_function_of_the_counts_alone(
        self, decisions: dict[tuple[str, str], int], need: int | None
    ) -> None:
        turned = dict(reversed(decisions.items()))
        assert merge_map(cube(decisions, *BOTH), BOTH, K, need=need) == merge_map(
            cube(turned, *BOTH), BOTH, K, need=need
        )


class TestLabels:
    CELLS = (
        auto({"channel": "chat"}, 100, 30, 20),
        review({"channel": "chat"}, 50, 10, 5),
        auto({"channel": "email"}, 100),
        blocked({"channel": "email"}, 40),
        review({"channel": "fax"}, 40, 40, 0, probe=True),
    )

    def test_flow_of_every_slice(self) -> None:
        flow = Flow.of(slices(self.CELLS, *CHANNEL))
        assert flow.decisions.tolist() == [150, 140, 0], "probes are no traffic"
        assert flow.labels.tolist() == [[30, 10], [0, 0], [0, 0]]
        assert flow.routes.tolist() == [[100, 50], [100, 0], [0, 0]]

    @pytest.mark.parametrize(("need", "named"), [(10, ("chat",)), (11, ())])
    def test_a_value_needs_enough_labels_in_each_route_that_it_takes(
        self, need: int, named: tuple[str, ...]
    ) -> None:
        """Email has none, fax is only of probes."""
        counts = slices(self.CELLS, *CHANNEL)
        pooling = MergeMap({"channel": (OTHER, "chat", "email", "fax")})
        assert kept(label_map(counts, pooling, need)) == {"channel": named}

    def test_half_as_many_are_enough_to_stay(self) -> None:
        counts = slices(self.CELLS, *CHANNEL)
        before = pooling = MergeMap({"channel": (OTHER, "chat")})
        assert kept(label_map(counts, pooling, 20, before=before)) == {"channel": ("chat",)}
        assert kept(label_map(counts, pooling, 21, before=before)) == {"channel": ()}

    def test_nothing_is_named_that_the_decisions_or_the_marginals_pool(self) -> None:
        counts = slices(self.CELLS, *CHANNEL)
        assert kept(label_map(counts, MergeMap({"channel": (OTHER,)}), 1)) == {"channel": ()}
        pooling, marginal = MergeMap({"channel": (OTHER, "chat")}), MergeMap({"channel": (OTHER,)})
        assert kept(label_map(counts, pooling, 1, within=[marginal])) == {"channel": ()}

    def test_cells_of_an_intersection_have_none_of_a_route_or_enough(self) -> None:
        cells = [
            review({"channel": c, "region": r}, 100, n, n // 2)
            for (c, r), n in {("a", "n"): 60, ("a", "s"): 40, ("b", "n"): 40}.items()
        ]
        counts = slices([*cells, auto({"channel": "b", "region": "s"}, 50)], *BOTH)
        pooling = MergeMap({"channel": (OTHER, "a", "b"), "region": (OTHER, "n", "s")})
        assert kept(label_map(counts, pooling, 40)) == {"channel": ("a", "b"), "region": ("n", "s")}
        assert kept(label_map(counts, pooling, 41)) == {"channel": (), "region": ()}


def test_a_map_without_late_values_pools_them_too() -> None:
    known = MergeMap({"channel": (OTHER, "a", "b"), "region": ("a", "n")})
    assert known.without(()) is known
    later = known.without({("channel", "a")})
    assert later == MergeMap({"channel": (OTHER, "b"), "region": ("a", "n")})
    assert later.name("channel=a,region=a") == f"channel={OTHER},region=a"


def test_rows_whose_labels_are_joined_have_one_number() -> None:
    pooling = MergeMap({"channel": (OTHER, "chat", "email"), "region": (OTHER, "n")})
    coarser = MergeMap({"channel": (OTHER, "chat"), "region": (OTHER, "n")})
    numbers = dict(zip(pooling.slices, coarser.joined(pooling.slices), strict=True))
    assert numbers["channel=email,region=n"] == numbers[f"channel={OTHER},region=n"]
    assert len(set(numbers.values())) == 4
