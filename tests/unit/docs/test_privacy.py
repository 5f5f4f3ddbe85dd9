"""The page on privacy: its numbers, settings, metrics, commands and links are the program's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from monitor.core.privacy.release_blocks import blocks_kept
from monitor.evaluate.blocks.family_state import LABEL_STRIDE

import monitor
from alerts.exposition.catalogue import CATALOGUE
from monitor.cli import cli
from monitor.commands.db import command as db
from monitor.core.contract import State
from monitor.core.privacy import periods
from monitor.core.privacy.bands import STEPS, Precision, edges
from monitor.core.time import DAY, HOUR, WINDOWS
from monitor.evaluate.blocks import merge_maps as release
from monitor.settings.sections import AttributeSettings, Privacy, Retention, StreamSettings, UseCase
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
    assert defaults(Privacy)["k"] == K
    assert f"`privacy.k`, {K} by default" in PAGE
    assert f"2 k - 1 = {Precision(K).smallest}" in row("rounding")
    assert ", ".join(map(str, edges(K)[:7])) in row("bands")
    for step in STEPS:
        assert f"{step:g}".removeprefix("0") in row("rounding")


def test_the_periods_are_those_of_the_release() -> None:
    assert f"slower than k in {periods.POOL_PERIOD // HOUR} hours" in row("pooling")
    assert f"slower than k in {periods.CELL_PERIOD // HOUR} hours" in row("pooling")
    assert f"the last {release.MAP_SPAN // DAY} days" in row("pooling")
    assert f"slower than k in {periods.OTHER_PERIOD // HOUR} hours" in row("leaving out")
    slow = row("labels that come slowly")
    assert f"of a route in {periods.LABEL_PERIOD // DAY} days" in slow
    assert f"(a cell of an intersection: in {periods.CELL_LABEL_PERIOD // DAY})" in slow
    assert f"(`__other__` alone: in {periods.OTHER_LABEL_PERIOD // DAY})" in slow
    assert f"on a stride of {LABEL_STRIDE // DAY} days" in row("one order of group-bys")


def test_each_invariant_is_one_function_with_one_property_test() -> None:
    table = PAGE.partition("### The invariants")[2].partition("\n\nA chain")[0]
    named = [re.findall(r"`(\w+)` \(`([\w/]+\.py)`\)", row) for row in table.splitlines()]
    found = [cells for cells in named if len(cells) > 1]
    assert len(found) == 3
    for (function, module), (check, tests) in found:
        assert f"\ndef {function}(" in (ROOT / module).read_text()
        before, _, after = (ROOT / tests).read_text().partition(f"def {check}(")
        assert after
        assert "@given(" in before.rpartition("def ")[2], "it is a property test"


def test_how_long_things_are_kept() -> None:
    horizon = int(defaults(StreamSettings)["horizon"])
    kept = re.findall(r"^\| [^|]+ \| `(\w+)\.(\w+)` \| (\d+ days) \|$", PAGE, re.MULTILINE)

    assert len(kept) == 5
    for section, name, told in kept:
        assert told == days(defaults(SECTIONS[section])[name])
    assert days(horizon + HOURS_KEPT_AFTER_HORIZON) in row("counts by the hour")
    (released,) = re.findall(r"^\| released counts.*\| (\d+ days) \|$", PAGE, re.MULTILINE)
    assert released == days(blocks_kept(horizon))


def test_the_settings_named_are_settings() -> None:
    named = set(re.findall(r"`(privacy|stream|retention)\.(\w+)`", PAGE))
    words = set(re.findall(r"`(\w+)(?: = [^`]+)?`", PAGE))
    of_attribute = {"special_category", "approved_by", "retention", "owner"}

    assert named
    for section, name in named:
        assert name in defaults(SECTIONS[section]), f"{section}.{name}"
    assert of_attribute <= words & {*defaults(AttributeSettings)}
    assert {"synthetic", "k", "owner"} <= words & {*defaults(UseCase)}


def test_windows_states_and_metrics_exist() -> None:
    metrics = {family.name for family in CATALOGUE}
    named = set(re.findall(r"`(slicewatch_[a-z_]+)`", PAGE)) - {"slicewatch_reporter"}
    (heading,) = re.findall(r"^\| decisions a day of each (.*)$", PAGE, re.MULTILINE)

    assert named
    assert named <= metrics
    assert re.findall(r"\b(\d+[hd])\b", heading) == [*WINDOWS]
    assert f"`{State.SUPPRESSED}`" in row("one hidden state")


def test_the_commands_exist() -> None:
    named = re.findall(r"`slicewatch (\w+)(?: ([a-z-]+))?`", PAGE)

    assert named
    for group, name in named:
        assert group in cli.list_commands(None)  # type: ignore[arg-type]
        assert group != "db" or name in db.commands
    for target, what in re.findall(r"`make (\w+) FOR=(\w+)`", PAGE):
        assert (ROOT / "tests" / target / f"{target}_{what}.py").exists()


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\((?!http)([^)]+)\)", PAGE))))
def test_every_link_leads_somewhere(link: str) -> None:
    name, _, heading = link.partition("#")
    text = (ROOT / "deploy" / "docs" / name).read_text() if name else PAGE
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)

    assert not heading or heading in {anchor(one) for one in headings}


def anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_files_named_exist() -> None:
    """Where they are imported from: the tree, or an installed wheel."""
    for path in re.findall(r"`(monitor/[\w/]+\.py)`", PAGE):
        assert (Path(*monitor.__path__).parent / path).exists()


@pytest.mark.parametrize("name", ["README.md", "deploy/docs/security.md"])
def test_it_can_be_found(name: str) -> None:
    assert "privacy.md)" in (ROOT / name).read_text()


def test_it_says_that_it_is_no_legal_advice() -> None:
    assert "not legal advice" in PAGE.lower()
    assert "verify the current text" in PAGE
