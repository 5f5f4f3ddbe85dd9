"""Probe sets in the settings: contradictions name the key; sets too small to page are told of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from monitor import settings as api
from monitor.detection.flip_test import fewest_flips
from monitor.errors import SettingsError

PLAIN = """
[privacy]
id_key = "0123456789abcdef"
[probes]
{key}
[[attribute]]
name = "channel"
values = ["chat", "email"]
[[use_case]]
name = "replies"
owner = "team"
group_bys = [{{ attributes = ["channel"] }}]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "first"
"""
KEY = 'key = "a probe key of bytes"'
SET: dict[str, Any] = {
    "name": "pairs",
    "digest": "ab" * 32,
    "pairs": 200,
    "variants": ["formal", "conversational"],
}


def load(folder: Path, *sets: dict[str, Any], key: str = KEY) -> api.Settings:
    path = folder / "settings.toml"
    lines = [PLAIN.format(key=key)]
    for one in sets:
        lines += ["[[probes.sets]]", *(f"{name} = {value!r}" for name, value in one.items())]
    path.write_text("\n".join(lines))
    return api.load(path, {})


def test_a_declared_set_is_loaded_with_its_defaults(tmp_path: Path) -> None:
    (one,) = load(tmp_path, SET).probes.sets
    assert (one.name, one.pairs) == ("pairs", 200)
    assert api.duration_text(one.every) == "24h"
    assert float(one.max_flip_ratio) == 0.05


def test_the_key_may_be_in_a_file_and_is_never_printed(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a probe key of bytes\n")
    settings = load(tmp_path, SET, key=f'key_file = "{tmp_path / "key"}"')
    assert settings.probes.key is not None
    assert settings.probes.key.reveal() == "a probe key of bytes"
    assert "a probe key" not in api.resolved(settings)


@pytest.mark.parametrize(
    ("changes", "key", "why"),
    [
        ({"variants": ["formal"]}, "probes.sets[0].variants", "two variants"),
        ({"variants": ["formal", "formal"]}, "probes.sets[0].variants", "repeats"),
        ({"digest": "abc"}, "probes.sets[0].digest", "content hash"),
        ({"pairs": 0}, "probes.sets[0].pairs", "a whole number"),
        ({"every": "1m"}, "probes.sets[0].every", "a duration"),
    ],
)
def test_a_set_that_cannot_be_is_one_line(
    tmp_path: Path, changes: dict[str, Any], key: str, why: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        load(tmp_path, SET | changes)
    assert str(raised.value).startswith(key)
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("field", ["name", "digest"])
def test_sets_differ_in_name_and_content(tmp_path: Path, field: str) -> None:
    other = SET | {"name": "others", "digest": "cd" * 32, field: SET[field]}
    with pytest.raises(SettingsError, match=rf"^probes\.sets\[1\]\.{field}: repeats"):
        load(tmp_path, SET, other)


def test_sets_need_a_key_that_is_long_enough(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^probes\.key: is missing"):
        load(tmp_path, SET, key="")
    with pytest.raises(SettingsError, match=r"^probes\.key: must have at least"):
        load(tmp_path, SET, key='key = "short"')


def test_a_set_that_can_never_page_is_told_of(tmp_path: Path) -> None:
    def told(pairs: int, variants: list[str]) -> list[str]:
        settings = load(tmp_path, SET | {"pairs": pairs, "variants": variants})
        return [line for line in api.warnings(settings) if line.startswith("probes.sets[0].pairs")]

    for variants in (["formal", "slang"], ["formal", "slang", "terse"]):
        fewest = fewest_flips(len(variants) - 1)
        assert told(fewest, variants) == []
        (line,) = told(fewest - 1, variants)
        assert f"needs {fewest} pairs" in line
