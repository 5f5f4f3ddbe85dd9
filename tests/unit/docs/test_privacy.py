"""The page on privacy: its numbers, settings, metrics, commands and links are the program's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import monitor
from monitor.composition.store import DEAD_LETTERS_KEPT
from monitor.core.tables.bands import Coarseness, Detail, edges, row_rule
from monitor.core.time import DAY
from monitor.settings.sections import AttributeSettings, Privacy, Retention, StreamSettings, UseCase
from monitor.store.evaluator.calendar_tables import FINE_KEPT_AFTER_HORIZON
from monitor.store.upkeep.retention_guard import HOURS_KEPT_AFTER_HORIZON

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "deploy" / "docs" / "privacy.md").read_text()
K = 11
SECTIONS = {"privacy": Privacy, "stream": StreamSettings, "retention": Retention}


def row(name: str) -> str:
    """The row of a table, by its first cell."""
    (found,) = re.findall(rf"^\| {re.escape(name)} \| (.*) \|$", PAGE, re.MULTILINE)
    return str(found)


def defaults(section: type[Any]) -> dict[str, Any]:
    return {field.name: field.default for field in msgspec.structs.fields(section)}


def days(length: int) -> str:
    return f"{int(length) // DAY} days"


def test_k_and_what_follows_from_it() -> None:
    """What the row rule says of sizes and bands is what the program does."""
    assert defaults(Privacy)["k"] == K
    assert f"`privacy.k`, {K} by default" in PAGE
    lower = edges(K, Coarseness.FINE)
    first, second = (f"{lower[at]} to {lower[at + 1] - 1}" for at in (0, 1))
    assert f"{first}, {second}, and so on" in row("Row rule")
    widths = np.diff(lower)[1:]
    assert (widths >= np.maximum(K, lower[1:-1] / 20 - K)).all()
    shown = row_rule(np.array([[10, 0], [5, 6], [10, 10], [11, 10], [11, 0]]), K).detail
    assert shown.tolist() == [Detail.HIDDEN, Detail.SIZE, Detail.SIZE, *[Detail.COUNTS] * 2]
    assert f"**{2 * K - 1} decisions**" in PAGE.partition("## What it costs")[2]


def test_how_long_things_are_kept() -> None:
    horizon = int(defaults(StreamSettings)["horizon"])
    kept = re.findall(r"^\| [^|]+ \| `(\w+)\.(\w+)` \| (\d+ days) \|$", PAGE, re.MULTILINE)

    assert len(kept) == 3
    for section, name, told in kept:
        assert told == days(defaults(SECTIONS[section])[name])
    assert days(horizon + HOURS_KEPT_AFTER_HORIZON) in row(
        "counts by the hour, and what the detectors consumed of them"
    )
    assert days(DEAD_LETTERS_KEPT) in row("dead letters: where and why, never the payload")
    assert days(horizon + FINE_KEPT_AFTER_HORIZON) in row("published tables of hours and days")


def test_the_settings_named_are_settings() -> None:
    named = set(re.findall(r"`(privacy|stream|retention)\.(\w+)`", PAGE))
    words = set(re.findall(r"`(\w+)(?: = [^`]+)?`", PAGE))
    of_attribute = {"retention", "owner"}

    assert named
    for section, name in named:
        assert name in defaults(SECTIONS[section]), f"{section}.{name}"
    assert of_attribute <= words & {*defaults(AttributeSettings)}
    assert {"k", "owner"} <= words & {*defaults(UseCase)}


def test_files_named_exist() -> None:
    """Where they are imported from: the tree, or an installed wheel."""
    for path in re.findall(r"`((?:monitor|tests)/[\w/]+\.py)`", PAGE):
        assert (Path(*monitor.__path__).parent / path).exists()


@pytest.mark.parametrize("name", ["README.md", "deploy/docs/security.md"])
def test_it_can_be_found(name: str) -> None:
    assert "privacy.md)" in (ROOT / name).read_text()


def test_it_says_that_it_is_no_legal_advice() -> None:
    assert "not legal advice" in PAGE.lower()
