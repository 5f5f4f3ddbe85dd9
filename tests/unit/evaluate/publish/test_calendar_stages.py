"""Stages from published tables: those of the exact counts, where enough is published."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cubes import CODING, Cell, auto, blocked, contract, in_tables, review, slices, window
from stage_counts import ready_counts, stage_counts

from monitor.core.contract import COMPLEMENT, GroupBy
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Stage
from monitor.core.publish.snapshot import GroupTable, ShownStage
from monitor.core.rates.gaps import references
from monitor.core.tables.bands import Detail
from monitor.core.tables.layout import Row
from monitor.core.tables.reader import Measure
from monitor.detection.diagnosis.stages import Passage, diverging_stages
from monitor.evaluate.publish.calendar_stages import STAGED, with_stages

BANDS = CODING.bands - 1
SIZE = 6_000
USUAL_SCORES, LOW_SCORES = (0.2, 0.3, 0.5), (0.45, 0.35, 0.2)
USUAL_SERVED, STRICT_SERVED = (0.1, 0.5, 0.9), (0.1, 0.2, 0.6)


def requests(
    name: str,
    scores: tuple[float, ...] = USUAL_SCORES,
    served: tuple[float, ...] = USUAL_SERVED,
    stopped: float = 0.05,
    size: int = SIZE,
) -> list[Cell]:
    """Fully labelled decisions of one channel; the higher the score, the more are ready."""
    atom = {"channel": name}
    cells = [blocked(atom, round(size * stopped))]
    for band, (share, serve) in enumerate(zip(scores, served, strict=True)):
        in_band = size * (1 - stopped) * share
        for make, part in ((auto, serve), (review, 1 - serve)):
            n = round(in_band * part)
            cells.append(make(atom, n, n, round(n * (0.3 + 0.3 * band)), band=band))
    return cells


def shown_stages(
    cells: list[Cell], reference: str = COMPLEMENT, window_name: str = "7d", k: int = 11
) -> dict[str, dict[Metric, ShownStage]]:
    group = GroupBy(("channel",), reference)
    seen = in_tables(contract(group, k=k, window=window_name), CODING, window(cells, window_name))
    basis = seen.basis(group, window(cells, window_name).kind)
    table: GroupTable = with_stages(seen.group(basis), seen, basis)
    return {row.slice: dict(row.stages) for row in table.rows}


def exact_stage(cells: list[Cell], name: str, metric: Metric, reference: str) -> Stage:
    counts = slices(cells, "channel")
    sides = (counts, references(counts, reference))
    if metric is Metric.TPR:
        passages = [Passage.of_ready(*ready_counts(side, CODING.bands)) for side in sides]
    else:
        passages = [Passage.of_decisions(*stage_counts(side, CODING.bands)) for side in sides]
    return diverging_stages(*passages)[counts.slices.index(name)].stage


@pytest.mark.parametrize("k", [1, 11])
@pytest.mark.parametrize("reference", [COMPLEMENT, "channel=email"])
@pytest.mark.parametrize(
    ("chat", "selection"),
    [
        (requests("chat", served=STRICT_SERVED), Stage.THRESHOLD),
        (requests("chat", scores=LOW_SCORES), Stage.SCORE),
        (requests("chat", stopped=0.3), Stage.EVIDENCE),
        (requests("chat"), Stage.NONE),
    ],
)
def test_a_week_names_the_stage_that_exact_counts_name(
    chat: list[Cell], selection: Stage, reference: str, k: int
) -> None:
    cells = [*chat, *requests("email"), *requests("fax")]
    stages = shown_stages(cells, reference, k=k)["channel=chat"]
    assert stages[Metric.SELECTION].stage is selection
    for metric in STAGED:
        assert stages[metric].stage is exact_stage(cells, "channel=chat", metric, reference)


@pytest.mark.parametrize(
    ("chat", "k", "told"),
    [
        (requests("chat", served=STRICT_SERVED), 11, {}),
        (requests("chat", stopped=0.3), 11, {Metric.SELECTION: Stage.EVIDENCE}),
        (requests("chat", served=STRICT_SERVED), 1, dict.fromkeys(STAGED, Stage.THRESHOLD)),
    ],
)
def test_a_day_tells_the_gate_alone_where_anything_is_hidden(
    chat: list[Cell], k: int, told: dict[Metric, Stage]
) -> None:
    stages = shown_stages([*chat, *requests("email")], window_name="24h", k=k)["channel=chat"]
    named = {metric: shown.stage for metric, shown in stages.items()}
    assert {metric: stage for metric, stage in named.items() if stage is not Stage.NONE} == told


@pytest.mark.parametrize("stopped", [0, 0.02])
def test_a_gate_that_stops_too_few_to_be_shown_is_not_named(stopped: float) -> None:
    """The middle of the band "0 to 10" would be a large share of the slice's score bands."""
    chat = requests("chat", served=(0.3, 0.3, 0.3), stopped=0, size=60)
    stages = shown_stages([*chat, *requests("email", stopped=stopped)], "channel=email")
    named = stages["channel=chat"][Metric.SELECTION].stage
    assert named is not Stage.EVIDENCE


@pytest.mark.parametrize("reference", [COMPLEMENT, "channel=email"])
def test_gates_that_stop_alike_are_not_named_for_the_bands_of_their_counts(reference: str) -> None:
    """Each stops 9 or 12 of about 200: one count is shown, and the other is a bound."""
    chat, email = (
        requests("chat", stopped=0.04, size=220),
        requests("email", stopped=0.06, size=210),
    )
    for stages in shown_stages([*chat, *email], reference).values():
        assert all(shown.stage is not Stage.EVIDENCE for shown in stages.values())


def test_without_a_gap_that_is_a_number_there_is_no_stage() -> None:
    """One slice is never served, so its rates are bounds; the reference has no gap at all."""
    never = requests("chat", served=(0, 0, 0))
    stages = shown_stages([*never, *requests("email")], "channel=email")
    assert stages == {"channel=chat": {}, "channel=email": {}}


def test_a_band_that_is_withheld_hides_the_stages_of_its_slice() -> None:
    """Its decisions look like fewer than k, as if the scores of the slice were others."""
    cells = [*requests("chat", served=STRICT_SERVED), *requests("email"), *requests("fax")]
    group = GroupBy(("channel",), "channel=email")
    counted = window(cells)
    seen = in_tables(contract(group), CODING, counted)
    (table,) = seen.tables.tables[Measure.DECISIONS].values()
    place = table.layout.place[Row("channel=chat", band=2)]
    low, high = table.bands.low.copy(), table.bands.high.copy()
    detail = table.bands.detail.copy()
    low[place], high[place], detail[place] = 0, 10, Detail.HIDDEN
    seen.tables.add([replace(table, bands=replace(table.bands, low=low, high=high, detail=detail))])
    basis = seen.basis(group, counted.kind)
    rows = {row.slice: row for row in with_stages(seen.group(basis), seen, basis).rows}
    assert np.sum(table.bands.low[place]) > 0
    assert rows["channel=chat"].stages == {}
    assert set(rows["channel=fax"].stages) == {*STAGED}
