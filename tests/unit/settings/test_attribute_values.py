"""Attribute values as people write them: any printable text, aliases, ranges of numbers."""

from __future__ import annotations

import json
import tomllib
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.composition.site import report_facts
from monitor.core.counts.cells import MISSING, OTHER, atom_text, content_id, parse_atom
from monitor.core.counts.coding import Attribute, Coding, range_names
from monitor.errors import SettingsError
from monitor.settings import load, resolved
from monitor.settings.kinds import listed_value

BASE = """
[privacy]
id_key = "0123456789abcdef"
[[attribute]]
{attribute}
[[use_case]]
name = "support"
owner = "team"
group_bys = [{{ attributes = ["city"], reference = {reference} }}]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "first"
"""
CITIES = [
    "New York",
    "S\u00e3o Paulo",
    "66+",
    "Washington, DC",
    'a="b"',
    "back\\slash",
    "\u6771\u4eac",
    "{{x}}",
]


def settings(folder: Path, attribute: str, reference: str = '"complement"') -> Any:
    path = folder / "s.toml"
    path.write_text(BASE.format(attribute=f'name = "city"\n{attribute}', reference=reference))
    return load(path, {})


def error(folder: Path, attribute: str, reference: str = '"complement"') -> tuple[str, ...]:
    with pytest.raises(SettingsError) as raised:
        settings(folder, attribute, reference)
    return raised.value.problems


# Texts


def test_values_of_all_kinds_load_and_are_printed_as_they_load(tmp_path: Path) -> None:
    loaded = settings(tmp_path, f"values = {json.dumps(CITIES)}")
    assert list(loaded.attribute[0].values) == CITIES
    again = tomllib.loads(resolved(loaded), parse_float=Decimal)
    assert again["attribute"][0]["values"] == CITIES


def test_a_value_is_composed_when_it_is_loaded(tmp_path: Path) -> None:
    apart = unicodedata.normalize("NFD", "S\u00e3o Paulo")
    loaded = settings(tmp_path, f'values = ["{apart}", "x"]', f'"city={apart}"')
    assert loaded.attribute[0].values == ("S\u00e3o Paulo", "x")
    assert loaded.contracts[0].group_bys[0].reference == "city=S\u00e3o Paulo"


@pytest.mark.parametrize(
    "value",
    ["", " x", "x ", "a\tb", "a\nb", "a\u200bb", "a\u202eb", "a\u2066b", "\ufeffa", "a\u00adb",
     "a\u00a0b", "__other__", "__missing__", "__x", "\u0338a", "a\ufe0f", "\u3164", "a\x7f",
     "\ue000", "x" * 65],
)  # fmt: skip
def test_what_cannot_be_told_from_another_value_by_looking_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"(?s).*"):
        listed_value(value)


@given(st.text(max_size=70))
def test_a_listed_value_prints_and_is_stable(text: str) -> None:
    try:
        value = listed_value(text)
    except ValueError:
        return
    assert value.isprintable()
    assert 1 <= len(value) <= 64
    assert listed_value(value) == value
    assert unicodedata.normalize("NFC", f"city={value}") == f"city={value}"


# Slices


VALUES = st.text(max_size=12) | st.sampled_from(CITIES)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True)


@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_the_text_of_a_slice_can_be_taken_apart(values: dict[str, str]) -> None:
    assert parse_atom(atom_text(values)) == values


@given(st.dictionaries(NAMES, VALUES, max_size=3), st.dictionaries(NAMES, VALUES, max_size=3))
def test_two_slices_have_two_texts(one: Mapping[str, str], other: Mapping[str, str]) -> None:
    assert (atom_text(one) == atom_text(other)) == (one == other)
    assert (content_id(atom_text(one)) == content_id(atom_text(other))) == (one == other)


def test_texts_without_commas_are_what_they_were() -> None:
    """Ids of what is stored follow from them."""
    assert atom_text({"b": "x=y", "a": "New York"}) == "a=New York,b=x=y"


@pytest.mark.parametrize("text", ["a", "a=b,c", "a\\", "a=b\\", "a=b\\,c,", "x\\y=1"])
def test_what_is_no_slice_is_not_taken_for_one(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_atom(text)


def test_a_reference_may_have_a_comma(tmp_path: Path) -> None:
    listed = "values = ['Washington, DC', 'Rome']"
    loaded = settings(tmp_path, listed, r"'city=Washington\, DC'")
    assert loaded.contracts[0].group_bys[0].reference == r"city=Washington\, DC"
    (text,) = error(tmp_path, listed, "'city=Washington, DC'")
    assert settings(tmp_path, listed, text.rpartition("such as ")[2]).contracts
    assert text.endswith(r'or a slice such as "city=Washington\\, DC"')


# Aliases


def test_an_alias_is_the_value_that_it_stands_for(tmp_path: Path) -> None:
    listed = (
        'values = ["New York", "Rome"]\naliases = { new_york = "New York", "NY, NY" = "New York" }'
    )
    attribute = settings(tmp_path, listed).coding.attributes[0]
    coded = [attribute.code(v) for v in ("New York", "new_york", "NY, NY", "NEW_YORK", "__other__")]
    assert coded == ["New York", "New York", "New York", OTHER, OTHER]


@pytest.mark.parametrize(
    ("aliases", "words"),
    [
        ('{ ny = "Paris" }', "attribute[0].aliases.ny: 'Paris' is not one of values; use one of"),
        ('{ Rome = "New York" }', "attribute[0].aliases.Rome: 'Rome' is a listed value itself"),
    ],
)
def test_aliases_that_mean_nothing(aliases: str, words: str, tmp_path: Path) -> None:
    (text,) = error(tmp_path, f'values = ["New York", "Rome"]\naliases = {aliases}')
    assert words in text


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("{ Paris = 0.5 }", "attribute[0].target: 'Paris' is not one of its values; use some of"),
        ("{ Rome = 0.6, 'New York' = 0.5 }", "attribute[0].target: has shares whose sum is above"),
        ("{ Rome = 0 }", "attribute[0].target.Rome: found the number 0, expected a share"),
        ("{ Rome = 'half' }", "attribute[0].target.Rome: found text 'half', expected a share"),
    ],
)
def test_targets_that_mean_nothing(target: str, words: str, tmp_path: Path) -> None:
    (text,) = error(tmp_path, f'values = ["New York", "Rome"]\ntarget = {target}')
    assert words in text


def test_a_target_is_said_by_the_report(tmp_path: Path) -> None:
    listed = 'values = ["New York", "Rome"]\ntarget = { Rome = 0.25 }'
    (facts,) = report_facts(settings(tmp_path, listed)).attributes
    assert facts.target == (("Rome", 0.25),)


# Ranges


def test_a_number_falls_in_its_range(tmp_path: Path) -> None:
    attribute = settings(tmp_path, "ranges = [18, 26, 40, 65]").coding.attributes[0]
    assert attribute.values == ("under 18", "18-25", "26-39", "40-64", "65+")
    for text, name in {
        "17": "under 18", "-3": "under 18", "17.999": "under 18", "18": "18-25", "25.5": "18-25",
        "26": "26-39", "64": "40-64", "65": "65+", "1e3": "65+", "40-64": "40-64",
        "": OTHER, "nan": OTHER, "inf": OTHER, " 18": OTHER, "1_8": OTHER, "\u0661\u0668": OTHER,
        "eighteen": OTHER, "18-26": OTHER, "1e999": "65+", "0x12": OTHER,
    }.items():  # fmt: skip
        assert attribute.code(text) == name, text
    assert attribute.code(None) == MISSING


@given(
    st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 2)), min_size=1, max_size=6, unique=True),
    st.floats(-2e6, 2e6),
)
def test_ranges_part_the_numbers(edges: list[float], number: float) -> None:
    edges = sorted(edges)
    attribute = Attribute("x", range_names(tuple(edges)), edges=tuple(edges))
    assert len(set(attribute.values)) == len(edges) + 1
    below = sum(edge <= number for edge in edges)
    assert attribute.code(repr(number)) == attribute.values[below]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ranges = [18, 18]", "attribute[0].ranges[1]: found 18 after 18; edges must increase"),
        ("ranges = [18, 5]", "edges must increase"),
        ('ranges = [18]\nvalues = ["x"]', "attribute[0].values: is set beside ranges"),
        ('ranges = [18]\naliases = { a = "b" }', "attribute[0].aliases: is set beside ranges"),
        ('ranges = ["x"]', "attribute[0].ranges[0]: found text 'x', expected a number"),
        ("", "attribute[0].values: is empty; list at least one allowed value, or set ranges"),
    ],
)
def test_ranges_that_part_nothing(text: str, words: str, tmp_path: Path) -> None:
    assert any(words in one for one in error(tmp_path, text))


def test_aliases_and_edges_are_part_of_the_coding() -> None:
    """A worker with others would count otherwise: it must not be taken for one of the same."""
    plain = Coding((Attribute("city", ("a", "b")),))
    assert plain.canonical().startswith('{"attributes":[["city",["a","b"],null]],')
    names = range_names((1.0, 2.5))
    codings = [
        plain,
        Coding((Attribute("city", ("a", "b"), aliases=(("c", "a"),)),)),
        Coding((Attribute("city", ("a", "b"), aliases=(("c", "b"),)),)),
        Coding((Attribute("city", names),)),
        Coding((Attribute("city", names, edges=(1.0, 2.5)),)),
    ]
    assert len({coding.hash for coding in codings}) == len(codings)
    for coding in codings:
        again = Coding.parse(coding.canonical())
        assert again.hash == coding.hash
        for value in ("a", "c", "1.5", "x"):
            assert again.attributes[0].code(value) == coding.attributes[0].code(value)


# All at once


def test_all_errors_are_reported_at_once_each_with_its_value(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("""
[stream]
horizon = "soon"
lateness = 3
colour = "red"
[privacy]
id_key = ""
[[attribute]]
name = "Channel"
values = ["chat", "a\\tb", 7]
[[use_case]]
name = "support"
""")
    with pytest.raises(SettingsError) as raised:
        load(tmp_path / "s.toml", {})
    problems = raised.value.problems
    assert [text.split(": ")[0] for text in problems] == [
        "stream.horizon", "stream.lateness", "stream.colour", "privacy.id_key",
        "attribute[0].name", "attribute[0].values[1]", "attribute[0].values[2]",
        "use_case[0].owner", "use_case[0].contract", "use_case[0].group_bys",
    ]  # fmt: skip
    assert problems[0].startswith("stream.horizon: found text 'soon', expected a duration")
    assert problems[4].startswith("attribute[0].name: found text 'Channel', expected an attribute")
    assert problems[5].startswith("attribute[0].values[1]: found text 'a\\tb', expected printable")
    assert problems[6].startswith("attribute[0].values[2]: found the number 7, expected printable")


def test_contradictions_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    text = BASE.format(attribute='name = "city"\nvalues = ["a", "a"]', reference='"city=b"')
    path.write_text('[stream]\nlabels_topic = "decisions"\nscore_bands = [0.9, 0.7]\n' + text)
    with pytest.raises(SettingsError) as raised:
        load(path, {})
    keys = [text.split(": ")[0] for text in raised.value.problems]
    assert keys == [
        "stream.labels_topic", "stream.score_bands", "attribute[0].values[1]",
        "use_case[0].group_bys[0].reference",
    ]  # fmt: skip
