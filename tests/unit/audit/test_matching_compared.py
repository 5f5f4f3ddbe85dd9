"""Which variants are compared: one attribute at a time, jointly where nothing isolates one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matched import REFERENCES, ten_pairs
from matched import pair as pair_of
from matched import row as row_of
from matched import seen as observed

from monitor.audit.inputs import Pair
from monitor.audit.matching import MAX_VARIANTS, comparisons, values
from monitor.errors import AuditError

FE = {"formality": "formal", "language": "en"}
CE = {"formality": "casual", "language": "en"}
FD = {"formality": "formal", "language": "de"}
CD = {"formality": "casual", "language": "de"}
TWO_REFERENCES = {"formality": "formal", "language": "en"}


def pair(variants: Mapping[str, Mapping[str, str]], name: str = "p1") -> Pair:
    return pair_of(row_of(name, one, its, observed(0.8)) for one, its in variants.items())


def said(pairs: list[Pair], references: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [
        ("+".join(one.by), one.reference.item.variant, one.variant.item.variant)
        for one in comparisons(pairs, references)
    ]


def test_the_lessons_pairs() -> None:
    found = comparisons(ten_pairs(), REFERENCES)
    assert [one.pair for one in found] == sorted(
        ["p1", "p2", "p3", "p4", "p5", "p6", "n1", "n2", "n3", "n4"]
    )
    for one in found:
        assert one.by == ("language_variety",)  # the channel is the same in both
        assert one.reference.item.variant == "formal"
        assert one.variant.item.variant == "conversational"
        assert values(one.variant, one.by) == {"language_variety": "conversational"}


def test_several_variants_are_compared_with_the_reference() -> None:
    three = pair({"c": {"x": "c"}, "a": {"x": "a"}, "b": {"x": "b"}})
    assert said([three], {"x": "b"}) == [("x", "b", "a"), ("x", "b", "c")]


@pytest.mark.parametrize("references", [{}, {"y": "a"}, {"x": "elsewhere"}])
def test_without_a_reference_every_two_are(references: Mapping[str, str]) -> None:
    three = pair({"c": {"x": "c"}, "a": {"x": "a"}, "b": {"x": "b"}})
    assert said([three], references) == [("x", "a", "b"), ("x", "a", "c"), ("x", "b", "c")]


def test_two_attributes_are_compared_one_at_a_time() -> None:
    four = pair({"fe": FE, "ce": CE, "fd": FD, "cd": CD})
    assert said([four], TWO_REFERENCES) == [
        ("formality", "fd", "cd"),
        ("formality", "fe", "ce"),
        ("language", "ce", "cd"),
        ("language", "fe", "fd"),
    ]


def test_attributes_that_differ_jointly_are_one_axis() -> None:
    assert said([pair({"a": CD, "b": FE})], TWO_REFERENCES) == [("formality+language", "b", "a")]
    # Without references the name decides.
    assert said([pair({"a": CD, "b": FE})], {}) == [("formality+language", "a", "b")]


def test_only_what_nothing_isolates_is_compared_jointly() -> None:
    three = pair({"fe": FE, "ce": CE, "other": {"formality": "slang", "language": "de"}})
    assert said([three], TWO_REFERENCES) == [
        ("formality", "fe", "ce"),
        ("formality+language", "fe", "other"),
    ]


def test_a_reference_that_nothing_isolates_is_compared_with_all() -> None:
    three = pair({"fe": FE, "cd": CD, "sd": {"formality": "slang", "language": "de"}})
    assert said([three], TWO_REFERENCES) == [
        ("formality", "cd", "sd"),
        ("formality+language", "fe", "cd"),
        ("formality+language", "fe", "sd"),
    ]


def test_variants_that_no_comparison_connects_are_compared_jointly() -> None:
    four = pair(
        {
            name: {"dialect": name, "language": language}
            for name, language in {"us": "en", "uk": "en", "at": "de", "ch": "de"}.items()
        }
    )
    assert said([four], {"dialect": "us"}) == [
        ("dialect", "at", "ch"),
        ("dialect", "us", "uk"),
        ("dialect+language", "us", "at"),
    ]


def test_an_attribute_that_is_not_there_differs_from_any_value() -> None:
    (one,) = comparisons([pair({"none": {}, "some": {"persona": "student"}})], {})
    assert one.by == ("persona",)
    assert values(one.reference, one.by) == {"persona": "__missing__"}


def test_other_expected_outcomes_should_take_other_routes() -> None:
    ready = [row_of("p1", name, {"x": name}, observed(0.8)) for name in "ab"]
    unclear = [row_of("p1", name, {"x": name}, observed(0.8), ready=False) for name in "cd"]
    alone = row_of("p2", "a", {"x": "a"}, observed(0.8))
    other = row_of("p2", "b", {"x": "b"}, observed(0.8), ready=False)
    found = said([pair_of([*ready, *unclear]), pair_of([alone, other])], {})
    assert found == [("x", "a", "b"), ("x", "c", "d")]


def test_too_many_variants_are_refused_in_one_line() -> None:
    variants = {f"v{i:02}": {"x": str(i)} for i in range(MAX_VARIANTS + 1)}
    with pytest.raises(AuditError, match=r"a pair has 51 variants and at most 50") as error:
        comparisons([pair(variants, "customer-7")], {})
    assert "customer-7" not in str(error.value)
    del variants["v00"]
    assert len(comparisons([pair(variants)], {})) == 50 * 49 // 2


ATTRIBUTES = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(["u", "v", "w"]) for name in ("x", "y", "z")}
)
VARIANTS = st.lists(
    ATTRIBUTES, min_size=2, max_size=8, unique_by=lambda its: frozenset(its.items())
)


@given(VARIANTS, st.dictionaries(st.sampled_from(["x", "y", "z"]), st.sampled_from(["u", "v"])))
def test_every_variant_is_compared_and_no_two_twice(
    variants: list[dict[str, str]], references: dict[str, str]
) -> None:
    one = pair({f"v{i}": its for i, its in enumerate(variants)})
    found = comparisons([one], references)
    both = [frozenset({x.reference.item.variant, x.variant.item.variant}) for x in found]
    assert frozenset().union(*both) == {row.item.variant for row in one.rows}
    assert len(set(both)) == len(both)
    reached = {"v0"}
    for _ in variants:
        reached |= {name for two in both if two & reached for name in two}
    assert reached == {row.item.variant for row in one.rows}
    for x in found:
        assert values(x.reference, x.by) != values(x.variant, x.by)
        rest = {"x", "y", "z"} - set(x.by)
        assert values(x.reference, rest) == values(x.variant, rest)


@given(st.permutations(["p1", "p2", "p10", "p3"]))
def test_the_order_of_the_pairs_means_nothing(names: list[str]) -> None:
    found = comparisons([pair({"fe": FE, "ce": CE}, name) for name in names], TWO_REFERENCES)
    assert [one.pair for one in found] == ["p1", "p10", "p2", "p3"]
