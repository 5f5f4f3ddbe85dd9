"""The stage at which a slice parts from the other, as it is published."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from adversary.service import settings_text
from adversary.worlds import AUDIT_RATES, BLOCKED, DAY, HOUR, START, Shape, World
from prometheus_client.parser import text_string_to_metric_families
from releasing import MARGIN, Releasing, instants, prompt

from alerts.exposition.renderer import Renderer
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Share, Stage
from monitor.core.publish.snapshot import (
    GroupTable,
    ShownStage,
    SliceRow,
    Snapshot,
    WindowTable,
    decode,
)

DAYS, A_DAY = 8, 600
FULLY = AUDIT_RATES.index(1.0)
USUAL, STRICT = (0.1, 0.5, 0.9), (0.1, 0.2, 0.6)
DIVERGING = ShownStage(Stage.THRESHOLD, Share.MOST)


def stricter() -> World:
    """Two slices alike, but that one is served less at the same scores, by a version of its own."""
    rng, size = np.random.default_rng(8), DAYS * A_DAY
    at = START + np.arange(size) * (DAY // A_DAY) + 1
    atom = rng.permutation(np.arange(size) % 2)
    ready = (rng.random(size) < 0.6).astype(np.int64)
    band = np.clip(rng.integers(0, 2, size) + ready, 0, 2)
    serve = np.where(atom == 0, np.array(STRICT)[band], np.array(USUAL)[band])
    route = np.where(rng.random(size) < 0.05, BLOCKED, rng.random(size) >= serve).astype(np.int64)
    one, says = np.ones(size, np.int64), np.flatnonzero(route != BLOCKED)
    world = World(
        seed=8, shape=Shape((2,), DAYS), attributes={"a": ("a0", "a1")}, atoms=(("a0",), ("a1",)),
        at=at, arrives=at, atom=atom, route=route, band=band, rate=np.full(size, FULLY),
        asked=one, version=1 - atom, says=says, said_at=at[says],
        labelled=one[says], ready=ready[says],
    )  # fmt: skip
    return prompt(world)


WORLD = stricter()
MOMENTS = instants(WORLD, 12 * HOUR, START + DAYS * DAY - HOUR + MARGIN)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Snapshot]]:
    """All that was published, looked at twice a day."""
    folder = tmp_path_factory.mktemp("diagnosis")
    with Releasing(WORLD, folder, settings_text(WORLD, exact=False)) as one:
        for now in MOMENTS:
            one.until(now)
        yield [decode(body) for body in one.snapshots()]


def windows(snapshot: Snapshot) -> dict[str, WindowTable]:
    return {window.window: window for table in snapshot.contracts for window in table.windows}


def rows(window: WindowTable) -> list[SliceRow]:
    return [row for group in window.groups for row in group.rows]


def test_in_the_end_both_rates_are_explained(shown: list[Snapshot]) -> None:
    table = windows(shown[-1])["7d"]
    named = {row.slice: row for row in rows(table) if row.rates}
    assert set(named) == {"a=a0", "a=a1"}
    for row in named.values():
        assert row.stages == {Metric.SELECTION: DIVERGING, Metric.TPR: DIVERGING}
    assert table.total.stages == {}


def test_the_metrics_have_it(shown: list[Snapshot]) -> None:
    page = Renderer(10_000).render(shown[-1]).plain.decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    stages = families["slicewatch_slice_stage_info"].samples
    told = {(s.labels["slice"], s.labels["metric"]): s for s in stages}
    assert set(told) == {(f"a=a{i}", m) for i in (0, 1) for m in ("selection", "tpr")}
    for sample in told.values():
        assert (sample.labels["stage"], sample.labels["share"]) == ("threshold", "most")
        assert (sample.labels["window"], sample.value) == ("7d", 1)


def test_other_windows_and_hidden_rows_are_not_explained(shown: list[Snapshot]) -> None:
    silent = 0
    for snapshot in shown:
        for name, window in windows(snapshot).items():
            for row in rows(window):
                hidden = {m for m in (Metric.SELECTION, Metric.TPR) if m not in row.rates}
                assert not hidden & set(row.stages)
                if name != "7d" or Metric.SELECTION in hidden:
                    assert row.stages == {}
                    silent += name == "7d"
    assert silent


def test_nothing_changes_between_tables(shown: list[Snapshot]) -> None:
    tables = [tables["7d"] for tables in map(windows, shown) if tables]
    groups = [group for table in tables for group in table.groups if len(group.rows) > 1]
    still = 0
    for before, after in pairwise(groups):
        if before.decisions == after.decisions:
            assert told(before, Metric.SELECTION) == told(after, Metric.SELECTION)
            still += 1
        if before.labelled == after.labelled:
            assert told(before, Metric.TPR) == told(after, Metric.TPR)
    assert still


def told(table: GroupTable, metric: Metric) -> list[object]:
    return [row.stages.get(metric) for row in table.rows]
