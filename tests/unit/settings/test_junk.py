"""Whatever stands in the file or the environment: settings, or one SettingsError of one line."""

from __future__ import annotations

import copy
import tomllib
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from example_counts import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor import settings as api
from monitor.errors import SettingsError
from monitor.settings import loading
from monitor.settings.environment import exact

PATH = Path(__file__).parents[3] / "deploy" / "slicewatch.reference.toml"
TREE = tomllib.loads(PATH.read_text(), parse_float=exact)

LEAVES = st.one_of(
    st.booleans(),
    st.integers(),
    st.integers(-(10**3000), 10**3000),
    st.integers(-3, 70_000),
    st.decimals(),
    st.decimals(0, 1, places=3),
    st.sampled_from([Decimal("1e99999"), Decimal("-0"), Decimal("1e-999999"), Decimal("sNaN")]),
    st.text(max_size=30),
    st.sampled_from(["0s", "1h", "30d", "complement", "best", "channel=chat", "a=b,c", "=", "7d"]),
    st.dates(date(1, 1, 1), date(9999, 12, 31)),
    st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)),  # noqa: DTZ001
    st.datetimes(timezones=st.timezones()),
    st.times(time(0)),
)
JUNK = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every key and list item of a tree, as a path."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    found = []
    for key, value in items:
        found.append((*path, key))
        if isinstance(value, dict | list):
            found.extend(places(value, (*path, key)))
    return found


def outcome(tree: dict[str, Any], env: dict[str, str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "_read", lambda path: tree)
        try:
            loaded = api.load("x.toml", env)
        except SettingsError as error:
            text = str(error)
            assert text
            assert len(text.splitlines()) == 1
            text.encode()
        else:
            assert api.resolved(loaded)
            assert isinstance(api.warnings(loaded), list)
            assert [api.contract_record(u) + api.contract_numbers(u) for u in loaded.use_case]
            assert loaded.coding.hash


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
JUNK_SETTINGS = settings(
    max_examples=examples(250), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@JUNK_SETTINGS
@given(place=st.sampled_from(places(TREE)), junk=JUNK)
def test_junk_in_place_of_any_value(place: tuple[Any, ...], junk: Any) -> None:
    tree = copy.deepcopy(TREE)
    node: Any = tree
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = junk
    outcome(tree, {})


@JUNK_SETTINGS
@given(tree=st.dictionaries(st.text(max_size=8) | st.sampled_from(sorted(TREE)), JUNK, max_size=4))
def test_junk_everywhere(tree: dict[str, Any]) -> None:
    outcome(tree, {})


@JUNK_SETTINGS
@given(
    place=st.sampled_from(places(TREE)),
    more=st.lists(st.text(max_size=5), max_size=2),
    raw=st.text(max_size=20) | st.sampled_from(["{}", "[]", "[[]]", "true", "1", "nan", '"x"', ""]),
)
def test_junk_in_the_environment(place: tuple[Any, ...], more: list[str], raw: str) -> None:
    variable = "__".join(["SLICEWATCH", *map(str, place), *more]).upper()
    outcome(copy.deepcopy(TREE), {variable: raw})


@JUNK_SETTINGS
@given(
    data=st.binary(max_size=60) | st.text(max_size=60).map(lambda t: t.encode("utf-8", "ignore"))
)
def test_junk_files(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("junk") / "x.toml"
    path.write_bytes(data)
    with pytest.raises(SettingsError) as caught:
        api.load(path, {})
    assert len(str(caught.value).splitlines()) == 1
