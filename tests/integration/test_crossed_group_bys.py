"""Worlds built to leak through group-bys that cross: from exact sums of blocks, by integers.

The attacker knows the exact sum of every slice in every block of every group-by, which is more than
any reader is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from adversary.worlds import AUTO, HOUR, START, World
from exchange_oracle import Known, Solver, group_of
from guarded import Given, world_of
from releasing import MARGIN, STEP, Kept, Releasing, Row, attributes_of, released, row_of

from monitor.evaluate.blocks.crossing import CrossedBlock

pytestmark = pytest.mark.full

K = 11
ATOMS = (("x", "p"), ("x", "q"), ("y", "p"), ("y", "q"))
CALM_HOURS = 25
LEAKING = ((1, 30, 30, 24), (10, 20, 30, 0))
"""Decisions of the four cells in two hours; the margins are published for each, the cells for both
together. Nobody of (y, q) in the second hour: so (x, p) had one or none in the first."""


def crossed_world(hours: Sequence[Sequence[int]], seed: int = 0) -> World:
    """A calm day that names all values, an hour that ends every block, and then these hours."""
    rng = np.random.default_rng(seed)
    counts = np.array([*[[3] * 4] * CALM_HOURS, [22] * 4, *hours])
    hour, atom = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    at = START + hour * HOUR + rng.integers(MARGIN, HOUR - MARGIN, len(hour))
    order = np.argsort(at, kind="stable")
    at, atom = at[order], atom[order]
    route, none = np.full(len(at), AUTO), np.zeros(len(at), np.int64)
    nobody = np.empty(0, np.int64)
    values = {"a": ("x", "y"), "b": ("p", "q")}
    labels = Given(nobody, nobody, nobody, nobody)
    return world_of(values, ATOMS, 3, (at, atom, route, none, none), labels)


@contextmanager
def released_world(world: World, folder: Path, hours: int) -> Iterator[Releasing]:
    with Releasing(world, folder, tested=False) as site:
        for hour in range(1, hours + 1):
            site.until(START + hour * HOUR + MARGIN)
        yield site


def found(kept: Kept, panes: Sequence[Row]) -> list[str]:
    """Every small count of a slice of two attributes that the blocks of all give away."""
    leaks = []
    families = [name for name in kept.maps if (name, False) in kept.edges]
    for family in families:
        if len(attributes_of(family)) == 2:
            for block in kept.blocks(family, labels=False):
                leaks += list(_of_block(kept, families, family, block, panes))
    return leaks


def _of_block(
    kept: Kept, families: Sequence[str], family: str, block: tuple[int, int], panes: Sequence[Row]
) -> Iterator[str]:
    start, end = block
    edges = {
        name: [at for at in sorted(kept.edges[name, False]) if start <= at <= end]
        for name in families
    }
    starts = sorted({at for some in edges.values() for at in some if at < end})
    inside = [pane for pane in panes if start <= pane.start < end]
    atoms = sorted({tuple(sorted(pane.atom.items())) for pane in inside})
    if len(starts) < 2 or not atoms:
        return
    counts = np.zeros((len(atoms), len(starts)), np.int64)
    for pane in inside:
        part = np.searchsorted(starts, pane.start, side="right") - 1
        counts[atoms.index(tuple(sorted(pane.atom.items()))), part] += pane.decisions
    known = []
    for name in families:
        if name == family or not {*attributes_of(family)} < {*attributes_of(name)}:
            known.append(Known(_rows(kept.maps[name], atoms), group_of(edges[name], starts)))
    rows = _rows(kept.maps[family], atoms)
    solver = Solver(counts, known)
    for name in families:
        if len(attributes_of(name)) == 1:
            parts = group_of(edges[name], starts)
            for truth, low, high in solver.given_away(rows, K, parts):
                yield f"{family} {start}-{end}: {truth} is proved to be {low} to {high}"


def _rows(
    kept: Mapping[str, tuple[str, ...]], atoms: Sequence[tuple[tuple[str, str], ...]]
) -> list[int]:
    texts = [row_of(kept, dict(atom)) for atom in atoms]
    return [sorted({*texts}).index(text) for text in texts]


def look(folder: Path, hours: Sequence[Sequence[int]]) -> tuple[Kept, list[Row]]:
    folder.mkdir(exist_ok=True)
    whole = [*hours, [22] * 4, [22] * 4]
    with released_world(crossed_world(whole), folder, CALM_HOURS + 1 + len(whole)) as site:
        return site.kept(), released(site.engine, STEP)


def test_a_world_that_was_built_to_leak_does_not(tmp_path: Path) -> None:
    kept, panes = look(tmp_path, LEAKING)
    second = START + (CALM_HOURS + 3) * HOUR

    assert found(kept, panes) == []
    assert second in kept.edges["replies/a", False]
    assert second - HOUR in kept.edges["replies/b", False]
    assert second not in kept.edges["replies/a+b", False], "it waits"
    assert second + HOUR in kept.edges["replies/a+b", False], "but for an hour only"


def test_without_the_rule_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CrossedBlock, "hides", lambda *_, **__: True)
    leaks = found(*look(tmp_path, LEAKING))
    assert any("1 is proved to be 0 to 1" in leak for leak in leaks)


def hostile_hours(seed: int) -> list[list[int]]:
    """Hours whose cells are few, none or many, as the first that leak were found."""
    rng = np.random.default_rng(seed)
    few = [0, 1, 2, 5, 9, 10, 11, 20, 30]
    return [[int(n) for n in row] for row in rng.choice(few, (10, 4))]


@pytest.mark.parametrize("seed", range(4))
def test_nor_do_others_of_its_kind(seed: int, tmp_path: Path) -> None:
    kept, panes = look(tmp_path, hostile_hours(seed))
    assert found(kept, panes) == []


def test_the_attacker_finds_some_of_them_where_the_rule_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CrossedBlock, "hides", lambda *_, **__: True)
    leaks = [
        leak
        for seed in range(4)
        for leak in found(*look(tmp_path / f"{seed}", hostile_hours(seed)))
    ]
    assert leaks
