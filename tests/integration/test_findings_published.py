"""A breach as it is published: it comes and goes with release blocks, and never between them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from adversary.service import settings_text
from adversary.worlds import AUDIT_RATES, DAY, HOUR, START, Shape, World
from releasing import MARGIN, Releasing, instants, prompt

from monitor.core.contract import Metric, State
from monitor.core.findings import CROSSED
from monitor.core.snapshot import GroupTable, SliceRow, decode

DAYS, A_DAY = 10, 800
BREACH, REPAIR = START + 2 * DAY, START + 4 * DAY
FULLY = AUDIT_RATES.index(1.0)
WORSE = "a=a0"
TPR = Metric.TPR


def repaired() -> World:
    """Two slices alike, but that one is served far less from one day to another; all labelled."""
    rng, size = np.random.default_rng(5), DAYS * A_DAY
    at = START + np.arange(size) * (DAY // A_DAY) + 1
    atom = rng.permutation(np.arange(size) % 2)
    low = (atom == 0) & (at >= BREACH) & (at < REPAIR)
    route = (rng.random(size) >= np.where(low, 0.3, 0.7)).astype(np.int64)
    ready = (rng.random(size) < 0.6).astype(np.int64)
    one, all_of_them = np.ones(size, np.int64), np.arange(size)
    world = World(
        seed=5, shape=Shape((2,), DAYS), attributes={"a": ("a0", "a1")}, atoms=(("a0",), ("a1",)),
        at=at, arrives=at, atom=atom, route=route, band=rng.integers(0, 3, size),
        rate=np.full(size, FULLY), asked=one, version=0 * one, says=all_of_them, said_at=at,
        labelled=one, ready=ready,
    )  # fmt: skip
    return prompt(world)


WORLD = repaired()
END = START + DAYS * DAY - HOUR + MARGIN
MOMENTS = instants(WORLD, 3 * HOUR, END)


@contextmanager
def site(folder: Path) -> Iterator[Releasing]:
    folder.mkdir()
    text = settings_text(WORLD, exact=False).replace('clock = "history"', 'clock = "live"')
    with Releasing(WORLD, folder, text) as made:
        yield made


def tables(bodies: list[bytes]) -> list[GroupTable]:
    """The group-by in the window that decides, of every Snapshot that has one."""
    return [
        group
        for body in bodies
        for contract in decode(body).contracts
        for window in contract.windows
        if window.window == contract.window
        for group in window.groups
    ]


def row(table: GroupTable, text: str = WORSE) -> SliceRow:
    (found,) = (one for one in table.rows if one.slice == text)
    return found


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Releasing]:
    """After all of it, looked at every three hours by one evaluator."""
    with site(tmp_path_factory.mktemp("alone") / "store") as one:
        for now in MOMENTS:
            one.until(now)
        yield one


@pytest.fixture(scope="module")
def shown(alone: Releasing) -> list[GroupTable]:
    return tables(alone.snapshots())


def test_a_breach_becomes_visible_at_the_end_of_a_block_and_ends_after_the_repair(
    alone: Releasing, shown: list[GroupTable]
) -> None:
    crossed, resolved = alone_crossing(alone)
    inside = [t for t in shown if row(t).states[TPR] is State.BREACH]
    first, last = inside[0], inside[-1]
    assert inside == [t for t in shown if shown.index(first) <= shown.index(t) <= shown.index(last)]
    assert first.labelled is not None
    assert last.labelled is not None
    edges = sorted({t.labelled.end for t in shown if t.labelled is not None})
    assert first.labelled.end == min(edge for edge in edges if edge >= crossed)
    assert {row(t).breach_since[TPR] for t in inside} == {first.labelled.end}
    assert BREACH < first.labelled.end <= REPAIR < resolved
    assert last.labelled.end == max(edge for edge in edges if edge <= resolved)
    assert row(shown[-1]).states[TPR] in (
        State.WITHIN_CONTRACT,
        State.INCONCLUSIVE,
        State.SUSPECTED,
    )
    assert row(shown[-1]).breach_since == {}


def alone_crossing(one: Releasing) -> tuple[int, int]:
    """When the gap of the worse slice crossed first, and when it was resolved last."""
    query = "SELECT crossed_at, resolved_at FROM crossing WHERE stream LIKE :stream ORDER BY id"
    with one.engine.connect() as connection:
        like = f"%|tpr|gap|{WORSE}|%"
        rows = connection.exec_driver_sql(query, {"stream": like}).all()
    assert rows
    return rows[0].crossed_at, rows[-1].resolved_at


def test_evidence_is_full_while_it_stands_and_only_then(shown: list[GroupTable]) -> None:
    steps = [row(t).evidence[TPR] for t in shown if TPR in row(t).evidence]
    assert {0, CROSSED} <= set(steps) <= set(range(5))
    for table in shown:
        one = row(table)
        assert (one.evidence.get(TPR) == CROSSED) == (one.states[TPR] is State.BREACH)
        hidden = {m for m, state in one.states.items() if state is State.SUPPRESSED}
        assert not hidden & {*one.evidence, *one.breach_since, *one.detectable_gaps}


def test_nothing_changes_between_the_ends_of_blocks(shown: list[GroupTable]) -> None:
    """Labelled findings move with the blocks of labels alone, though decisions go on."""
    moved, still = 0, 0
    for before, after in pairwise(shown):
        same = before.labelled == after.labelled
        told = [[labelled_part(one) for one in t.rows] for t in (before, after)]
        assert not same or told[0] == told[1]
        assert not same or before.label_needs == after.label_needs
        still += same and before.decisions != after.decisions
        moved += told[0] != told[1]
    assert moved > 3
    assert still > 10


def labelled_part(one: SliceRow) -> tuple[object, ...]:
    tables = (one.states, one.evidence, one.breach_since, one.detectable_gaps)
    return tuple({m: x for m, x in table.items() if m.labelled} for table in tables)


def test_restarts_publish_the_same_bytes(alone: Releasing, tmp_path: Path) -> None:
    pick = random.Random(1)
    with site(tmp_path / "store") as one:
        for now in MOMENTS:
            one.until(now)
            if pick.random() < 0.3:
                one.restart()
        assert one.snapshots() == alone.snapshots()


def test_who_looks_at_other_times_sees_the_same_in_the_end(
    alone: Releasing, tmp_path: Path
) -> None:
    with site(tmp_path / "store") as one:
        for now in [*instants(WORLD, 31 * HOUR, END), END]:
            one.until(now)
        assert one.snapshots()[-1] == alone.snapshots()[-1]


def test_labels_that_are_missing_are_told_in_classes(shown: list[GroupTable]) -> None:
    needs = {weeks for t in shown for weeks in t.label_needs.values()}
    assert needs
    assert needs <= {0, 1, 4}
    gaps = [gap for t in shown for one in t.rows for gap in one.detectable_gaps.values()]
    assert gaps
    assert all(gap == round(gap, 2) > 0.10 for gap in gaps)
