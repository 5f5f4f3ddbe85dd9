"""The order of families: whoever can be subtracted from another waits for it."""

from __future__ import annotations

from itertools import combinations, pairwise

from cubes import contract
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.contract import GroupBy
from monitor.core.privacy.families import SliceFamily, of_contracts, ordered

NAMES = "abcd"
ATTRIBUTES = st.lists(st.sampled_from(NAMES), unique=True, max_size=3).map(sorted).map(tuple)
WHERE = st.dictionaries(st.sampled_from(NAMES), st.sampled_from("xy"), max_size=2).map(
    lambda values: tuple(sorted(values.items()))
)


@st.composite
def some_families(draw: st.DrawFn) -> list[SliceFamily]:
    """Families of a few contracts, each with its total."""
    found = []
    for name in draw(st.lists(st.sampled_from("mno"), unique=True, min_size=1)):
        where, k = draw(WHERE), draw(st.sampled_from([1, 11, 20]))
        for attributes in {(), *draw(st.lists(ATTRIBUTES, max_size=3))}:
            found.append(SliceFamily(name, attributes, where, k))
    return found


def by_name(families: tuple[SliceFamily, ...]) -> dict[str, SliceFamily]:
    return {family.name: family for family in families}


def test_families_of_contracts() -> None:
    found = of_contracts(
        [contract(GroupBy(("channel", "region")), GroupBy(("channel",)), where=(("case", "a"),))]
    )
    names = [family.name for family in found]
    assert names == ["replies/", "replies/channel", "replies/channel+region"]
    assert found[2].parents == ("replies/", "replies/channel")
    assert all(family.where == (("case", "a"),) and family.published for family in found)


def test_overlapping_group_bys_meet_in_one_that_is_not_published() -> None:
    pairs = [SliceFamily("m", pair) for pair in pairwise(NAMES)]
    found = by_name(ordered([SliceFamily("m"), *pairs]))
    hidden = {name for name, family in found.items() if not family.published}
    assert hidden == {"/b", "/c"}
    assert found["m/b+c"].parents == ("m/", "/b", "/c")


def test_a_meeting_of_three_is_found_by_two_that_met() -> None:
    triples = [
        SliceFamily("m", names) for names in (("a", "b", "c"), ("a", "b", "d"), ("a", "c", "d"))
    ]
    hidden = {family.name for family in ordered(triples) if not family.published}
    assert hidden == {"/a+b", "/a+c", "/a+d", "/a"}


def test_use_cases_are_rows_of_the_group_by_that_tells_them_apart() -> None:
    chat, email = (SliceFamily(v, (), (("channel", v),)) for v in ("chat", "email"))
    found = by_name(ordered([SliceFamily("all"), chat, email, SliceFamily("all", ("channel",))]))
    assert found["chat/"].parents == found["email/"].parents == ("all/",)
    assert found["all/channel"].parents == ("all/", "chat/", "email/")
    assert not chat.refines(email)
    assert not email.refines(chat)


def test_slices_of_a_use_case_are_rows_of_the_intersection_too() -> None:
    within = SliceFamily("chat", ("language",), (("channel", "chat"),))
    across = SliceFamily("all", ("channel", "language"))
    assert within.refines(across)
    assert across.refines(within)
    assert by_name(ordered([within, across]))["all/channel+language"].parents == ("chat/language",)


def test_use_cases_that_overlap_meet_in_all_decisions() -> None:
    chat, eu = (
        SliceFamily("chat", (), (("channel", "chat"),)),
        SliceFamily("eu", (), (("region", "eu"),)),
    )
    found = by_name(ordered([chat, eu]))
    assert found["/"] == SliceFamily("", k=11, published=False)
    assert found["chat/"].parents == found["eu/"].parents == ("/",)


def test_group_bys_of_one_use_case_meet_within_it() -> None:
    where = (("case", "a"),)
    pairs = [SliceFamily("m", names, where) for names in ((), ("a", "b"), ("b", "c"))]
    (meeting,) = (family for family in ordered(pairs) if not family.published)
    assert meeting.names == {"b", "case"}
    assert meeting.where == where


def test_a_use_case_of_one_value_does_not_stand_for_the_others() -> None:
    """It says nothing of the slices in which two group-bys meet, but for its own."""
    pairs = [
        SliceFamily("m", ("a", "b")),
        SliceFamily("m", ("b", "c")),
        SliceFamily("n", (), (("b", "x"),)),
    ]
    found = by_name(ordered(pairs))
    assert found["/b"].where == ()
    assert {"/b", "n/"} <= {*found["m/a+b"].parents} & {*found["m/b+c"].parents}


def test_k_is_the_largest_of_those_that_meet() -> None:
    families = [SliceFamily("m", ("a", "b"), k=11), SliceFamily("n", ("b", "c"), k=20)]
    (meeting,) = (family for family in ordered(families) if not family.published)
    assert (meeting.attributes, meeting.k) == (("b",), 20)


def test_what_hides_nothing_stands_alone() -> None:
    families = [
        SliceFamily("m", ("a",), k=1),
        SliceFamily("m", ("a", "b"), k=1),
        SliceFamily("n", ("a",)),
    ]
    found = by_name(ordered(families))
    assert found["m/a+b"].parents == ()
    assert found["n/a"].parents == ()


@given(some_families())
def test_what_two_families_have_in_common_holds_them_together(families: list[SliceFamily]) -> None:
    """Both can be added up to it, so both advance only where it does."""
    found = ordered(families)
    position = {family.name: i for i, family in enumerate(found)}
    assert {f.name for f in found if f.published} == {f.name for f in families}
    assert len(position) == len(found), "names are unique"
    for family in found:
        assert all(position[parent] < position[family.name] for parent in family.parents)
    for one, other in combinations([family for family in found if family.k > 1], 2):
        if any(dict(other.where).get(name, value) != value for name, value in one.where):
            continue  # no decision belongs to both
        names, where = one.names & other.names, {*one.where, *other.where}
        common = [f for f in found if f.k > 1 and f.names == names and {*f.where} <= where]
        assert any(_linked(one, f) and _linked(other, f) for f in common)


def _linked(one: SliceFamily, other: SliceFamily) -> bool:
    """The edges of one of them are edges of the other."""
    return one is other or one.name in other.parents or other.name in one.parents
