"""The tables of ``replay --summary``: readable in 80 columns, cut nowhere in a pipe."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from monitor.commands.replay import PIPED_WIDTH
from monitor.commands.summary import summary
from monitor.core.contract import COMPLEMENT
from monitor.core.metric import Metric
from monitor.core.publish.sides import turned
from monitor.core.publish.snapshot import (
    ContractTable,
    GroupTable,
    Period,
    ShownGap,
    ShownRate,
    SliceRow,
    Snapshot,
    WindowTable,
)
from monitor.core.publish.states import with_age
from monitor.core.state import State
from monitor.core.time import DAY
from monitor.present.terminal import printed as on_terminal

NOW = 20_600 * DAY
LONG = "a_rather_long_value_of_a_region_in_the_far_north_of_the_country_" * 3
METRICS = (Metric.TPR, Metric.FPR)
OLD, FRESH = Period(NOW - 30 * DAY, NOW - 20 * DAY), Period(NOW - 7 * DAY, NOW)


def row(text: str, **states: State) -> SliceRow:
    metrics = {Metric(name): state for name, state in states.items()}
    rates = dict.fromkeys(metrics, ShownRate(0.41, 0.35, 0.48, 100_000))
    gaps = dict.fromkeys(metrics, ShownGap("complement", 0.31, 0.24, 0.38))
    return SliceRow(text, metrics, rates, gaps)


def snapshot(*rows: SliceRow) -> Snapshot:
    total = SliceRow("", dict.fromkeys(METRICS, State.NO_LIMIT))
    group = GroupTable("region", rows, decisions=FRESH, labelled=OLD)
    window = WindowTable("7d", total, (group,), decisions=FRESH, labelled=FRESH)
    limits = dict.fromkeys(METRICS, 0.1)
    table = ContractTable(
        *("replies", "3", "owner", False, 11, "7d", limits, {}, {}, dict.fromkeys(METRICS, 50)),
        windows=(window,),
        max_age=14 * DAY,
    )
    return Snapshot(NOW, NOW, (table,))


def printed(shown: Snapshot | None, width: int | None) -> str:
    console = Console(file=io.StringIO(), record=True, width=width or PIPED_WIDTH)
    console.print(*map(on_terminal, summary(shown)))
    return console.export_text()


def test_a_guardrail_that_fails_is_said_and_named() -> None:
    """All green by TPR, while the FPR is 31 points off."""
    one = row("region=x", tpr=State.WITHIN_CONTRACT, fpr=State.SUSPECTED)
    text = printed(snapshot(one), None)
    assert "fail: suspected" in text
    assert "FPR (guardrail): gap at most 10 points; needs a support of 50" in text
    last = text.strip().splitlines()[-1]
    assert last.startswith("replies v3: fail. Of 2 checks 1 fail, 1 pass, 0 are undecided.")
    assert last.endswith("Fails: FPR of region=x (gap at most 10 points).")


def test_all_that_passes_and_what_is_undecided() -> None:
    kept = row("region=x", tpr=State.WITHIN_CONTRACT, fpr=State.WITHIN_CONTRACT)
    open_ones = row("region=y", tpr=State.MATURING, fpr=State.STALE)
    assert "replies v3: pass. Of 2" in printed(snapshot(kept), None)
    text = printed(snapshot(kept, open_ones), None)
    assert "2 pass, 2 are undecided" in text
    assert "v3: pass" not in text


def test_every_table_says_from_when_to_when_and_how_old_it_is() -> None:
    text = printed(snapshot(row("region=x", tpr=State.STALE)), None)
    assert "region: 2026-04-27T00:00Z to 2026-05-07T00:00Z, 10 days long, 20 days old" in text
    assert "all decisions: 2026-05-20T00:00Z to 2026-05-27T00:00Z, 7 days long" in text
    assert "numbers older than 14 days are not within the contract" in text


@pytest.mark.parametrize("width", [80, 100, None])
def test_lines_fit_a_terminal_and_nothing_is_cut(width: int | None) -> None:
    text = printed(snapshot(row(f"region={LONG}", tpr=State.SUSPECTED, fpr=State.BREACH)), width)
    assert width is None or max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert (f"{LONG} " in text) == (width is None)
    assert "+31 [+24 to +38]" in " ".join(text.split())


@pytest.mark.parametrize("width", [80, None])
def test_a_mirror_names_the_slice_whose_check_it_is(width: int | None) -> None:
    judged, mirror = (row(f"region={name}", tpr=State.INCONCLUSIVE) for name in "xy")
    gaps = {Metric.TPR: turned(judged.gaps[Metric.TPR], COMPLEMENT)}
    text = printed(snapshot(judged, replace(mirror, gaps=gaps)), width)
    assert width is None or max(map(len, text.splitlines())) <= width
    assert "judged with region=x" in " ".join(text.split())
    assert "Of 1 checks" in text


def test_before_the_first_table_there_is_no_document() -> None:
    assert list(summary(None)) == []


@pytest.mark.parametrize("state", State)
def test_age_turns_green_to_stale_and_leaves_all_else(state: State) -> None:
    aged = with_age(row("region=x", tpr=state, fpr=state), {Metric.TPR})
    assert aged.states[Metric.FPR] is state
    assert aged.states[Metric.TPR] is (State.STALE if state is State.WITHIN_CONTRACT else state)
