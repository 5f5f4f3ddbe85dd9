"""The versions that changed in a slice are named from k decisions on each side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cubes import CODING, Cell, auto, contract, review, table

from monitor.core.contract import GroupBy
from monitor.core.counts.cells import Counts
from monitor.core.counts.coding import Attribute
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Annotation
from monitor.core.publish.snapshot import ComponentChange, GroupTable, Noted, ShownRate, SliceRow
from monitor.core.state import State
from monitor.core.time import DAY, HOUR
from monitor.evaluate.publish.version_changes import VersionChanges

CHANNEL = GroupBy(("channel",))
VERSIONS = {1: "judge=j1,policy=p1", 2: "judge=j2,policy=p1"}
AT = 10 * DAY + 5 * HOUR
REPORTED = 11 * DAY


def decided(name: str, version: int, n: int, **more: str) -> Cell:
    return replace(auto({"channel": name, **more}, n), version=version)


BEFORE = [decided("chat", 1, 400, region="north"), decided("email", 1, 300, region="north")]
AFTER = [
    decided("chat", 2, 200, region="north"),
    decided("email", 1, 150, region="north"),
    replace(review({"channel": "chat", "region": "south"}, 90), version=1),
]


def changes(
    before: list[Cell],
    after: list[Cell],
    at: int | None = AT,
    asked: list[tuple[int, int]] | None = None,
) -> VersionChanges:
    _, index = table([*before, *after])
    index = replace(index, version_texts=VERSIONS)

    def counts(start: int, end: int) -> Counts:
        if asked is not None:
            asked.append((start, end))
        return table(before if end == AT else after)[0]

    return VersionChanges(counts, lambda: index, lambda *_: at)


def row(name: str, *, shown: bool = True, noted: bool = True) -> SliceRow:
    rates = {Metric.SELECTION: ShownRate(0.5, 0.4, 0.6, 100)} if shown else {}
    notes = (Noted(Annotation.VERSION_CHANGE, None, 1, REPORTED),) if noted else ()
    return SliceRow(f"channel={name}", {Metric.SELECTION: State.NO_LIMIT}, rates, noted=notes)


def named(
    changed: VersionChanges, *rows: SliceRow, **settings: Any
) -> list[tuple[ComponentChange, ...]]:
    made = changed.named(
        GroupTable("channel", rows), contract(CHANNEL, **settings), CHANNEL, CODING
    )
    return [row.versions_changed for row in made.rows]


def test_the_part_that_changed_is_named_for_its_slice_alone() -> None:
    asked: list[tuple[int, int]] = []
    both = named(changes(BEFORE, AFTER, asked=asked), row("chat"), row("email"))
    assert both == [(ComponentChange("judge", "j1", "j2"),), ()]
    assert set(asked) == {(AT - DAY, AT), (AT, REPORTED)}


def test_only_decisions_of_the_use_case_count() -> None:
    southern = named(changes(BEFORE, AFTER), row("chat"), where=(("region", "south"),))
    assert southern == [()]


@pytest.mark.parametrize(
    "hidden", [row("chat", shown=False), row("chat", noted=False), row("__other__")]
)
def test_a_row_that_is_hidden_or_notes_no_change_names_none(hidden: SliceRow) -> None:
    assert named(changes(BEFORE, AFTER), hidden) == [()]


@pytest.mark.parametrize(
    ("n", "expected"), [(10, ()), (11, (ComponentChange("judge", "j1", "j2"),))]
)
def test_a_version_with_fewer_than_k_decisions_is_not_named(
    n: int, expected: tuple[ComponentChange, ...]
) -> None:
    assert named(changes(BEFORE, [decided("chat", 2, n)]), row("chat")) == [expected]


@pytest.mark.parametrize("at", [None, REPORTED, REPORTED + HOUR])
def test_a_change_that_is_not_published_yet_is_not_named(at: int | None) -> None:
    assert named(changes(BEFORE, AFTER, at), row("chat")) == [()]


def test_slices_that_are_versions_name_none() -> None:
    coding = replace(CODING, attributes=(Attribute("channel", (), version_of="judge"),))
    made = changes(BEFORE, AFTER).named(
        GroupTable("channel", (row("chat"),)), contract(CHANNEL), CHANNEL, coding
    )
    assert np.all([row.versions_changed == () for row in made.rows])
