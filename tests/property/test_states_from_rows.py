"""What is shown decides: every state and verdict follows from its own row and the contract."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import msgspec
import pytest
from cubes import (
    CODING,
    LIMITS,
    Cell,
    auto,
    blocked,
    build_contract,
    contract,
    lesson_cells,
    review,
    window,
)
from shown_contract import disagreements

from monitor.core.contract import GroupBy, Limits, OwnLimits
from monitor.core.publish.snapshot import ContractTable

WORLDS = 12
CHANNELS, REGIONS = ("chat", "email", "post"), ("north", "south")
GROUPS = (
    GroupBy(("channel",), "channel=chat"),
    GroupBy(("region",)),
    GroupBy(("channel", "region")),
)
ALL_LIMITS = replace(
    LIMITS, max_tpr_gap=Fraction("0.05"), min_tpr=Fraction("0.75"), max_fpr=Fraction("0.20")
)
EASY = replace(ALL_LIMITS, min_positives=1, min_negatives=1)
"""With these no shown rate lacks support, so that all but maturing is in the rows."""


OWN = (
    OwnLimits("channel", "", (("max_tpr_gap", Fraction("0.20")), ("min_tpr", Fraction("0.5")))),
    OwnLimits(
        "channel",
        "channel=email",
        (("max_tpr_gap", Fraction("0.01")), ("min_selection_ratio", Fraction("0.95"))),
    ),
    OwnLimits("channel+region", "", (("max_selection_gap", Fraction("0.02")),)),
    OwnLimits("region", "region=north", (("max_fpr", Fraction("0.01")),)),
)


def encoded(table: ContractTable) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(table))
    return found


def world(random: Random, *, late: bool) -> list[Cell]:
    """Rates near the limits, supports from a few to many, labels that are in or not."""
    cells = []
    for channel in CHANNELS:
        for region in REGIONS:
            atom = {"channel": channel, "region": region}
            n = int(10 ** random.uniform(1.5, 5))
            served, ready = random.uniform(0.6, 0.9), random.uniform(0.3, 0.9)
            tpr, fpr = random.uniform(0.7, 1.0), random.choice((0, random.uniform(0, 0.3)))
            positives, negatives = int(n * ready), n - int(n * ready)
            hits, wrong = int(positives * tpr), int(negatives * fpr)
            rest = n - hits - wrong
            cells += [
                auto(atom, hits + wrong, hits + wrong, hits),
                review(atom, rest, rest, positives - hits),
                blocked(atom, int(n * (1 - served) * random.random())),
            ]
    if late:
        cells = [
            replace(cell, n=cell.n + random.choice((0, 0, cell.labelled // 2))) for cell in cells
        ]
    return cells


def table(
    cells: list[Cell], limits: Limits, own: tuple[OwnLimits, ...] = (), **settings: Any
) -> dict[str, Any]:
    made = replace(contract(*GROUPS, limits=limits, **settings), own_limits=own)
    return encoded(build_contract(made, CODING, [window(cells)]))


SELECTION = replace(EASY, min_selection_ratio=Fraction("0.80"))
BOTH = replace(SELECTION, max_selection_gap=Fraction("0.10"))
"""Ratio alone, and beside a gap: a row has one verdict on both."""
PRECISION = replace(EASY, max_precision_gap=Fraction("0.10"))
GUARDS = pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="guarded"),
        pytest.param({"k": 1, "synthetic": True}, id="exact", marks=pytest.mark.full),
        pytest.param({"max_blocked": 0.03}, id="judged", marks=pytest.mark.full),
    ],
)


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(ALL_LIMITS, id="minimum", marks=pytest.mark.full),
        pytest.param(EASY, id="easy"),
        pytest.param(SELECTION, id="ratio", marks=pytest.mark.full),
        pytest.param(BOTH, id="gap and ratio"),
        pytest.param(PRECISION, id="precision"),
    ],
)
@GUARDS
def test_every_state_and_verdict_follows_from_its_row(
    limits: Limits, settings: dict[str, Any]
) -> None:
    random = Random(19)
    seen: Counter[str] = Counter()
    for i in range(WORLDS):
        shown = table(world(random, late=i % 4 == 0), limits, **settings)
        assert disagreements(shown) == []
        rows = [row for group in shown["windows"][0]["groups"] for row in group["rows"]]
        seen.update(state for row in rows for state in row["states"].values())
    decided = {"no_limit", "inconclusive", "within_contract", "suspected", "maturing"}
    assert decided <= seen.keys(), "a world in which nothing is decided shows nothing"


@GUARDS
def test_limits_of_group_bys_and_slices_take_the_place_of_the_contracts(
    settings: dict[str, Any],
) -> None:
    random = Random(23)
    changed: Counter[tuple[str, str]] = Counter()
    for i in range(WORLDS):
        cells = world(random, late=i % 4 == 0)
        usual = {one["slice"]: one["states"] for one in _rows(table(cells, EASY, **settings))}
        shown = table(cells, EASY, own=OWN, **settings)
        assert disagreements(shown) == []
        for row in _rows(shown):
            for metric, state in row["states"].items():
                if state != usual[row["slice"]][metric]:
                    changed[row["slice"], metric] += 1
    assert {metric for _, metric in changed} >= {"tpr", "fpr", "selection"}
    assert ("channel=email", "selection") in changed
    assert ("channel=post", "selection") not in changed
    assert not {slice_ for slice_, _ in changed} & {"", "region=south"}


def _rows(shown: dict[str, Any]) -> list[dict[str, Any]]:
    (window,) = shown["windows"]
    return [window["total"], *(row for group in window["groups"] for row in group["rows"])]


def test_with_support_and_labels_there_is_nothing_to_take_on_trust() -> None:
    random = Random(20)
    for _ in range(WORLDS):
        shown = table(world(random, late=False), EASY)
        rows = [row for group in shown["windows"][0]["groups"] for row in group["rows"]]
        states = {state for row in rows if row["rates"] for state in row["states"].values()}
        assert "maturing" not in states
        assert disagreements(shown) == []


def test_the_bounds_that_are_shown_bear_out_what_was_decided() -> None:
    """2 points behind, of at most 6: open with few labels, decided with more."""
    limits = replace(EASY, max_tpr_gap=Fraction("0.06"), min_tpr=None)
    few, many = (_two_slices(n, limits) for n in (400, 60_000))
    assert [one["states"]["tpr"] for one in (few, many)] == ["inconclusive", "within_contract"]
    gaps = [one["gaps"]["tpr"] for one in (few, many)]
    assert [gap["verdict"] for gap in gaps] == ["inconclusive", "pass"]
    assert gaps[0]["upper"] > 0.06 > gaps[1]["upper"] > 0.02


def test_too_much_blocked_is_green_nowhere_and_hides_no_harm() -> None:
    limits = replace(BOTH, max_tpr_gap=Fraction("0.3"))
    changes: Counter[tuple[str, str]] = Counter()
    for seed in range(WORLDS):
        cells = world(Random(seed), late=False)
        shown = [table(cells, limits, max_blocked=most) for most in (None, 0.03)]
        assert disagreements(shown[1]) == []
        for before, after in zip(*map(_rows, shown), strict=True):
            share = before["rates"].get("blocked", {}).get("value")
            states = zip(before["states"].values(), after["states"].values(), strict=True)
            changes.update(pair for pair in states if pair[0] != pair[1])
            if share is not None and share > 0.03 and after["slice"]:
                assert "within_contract" not in after["states"].values()
    assert changes.keys() == {("within_contract", "insufficient_support")}
    assert changes.total() > WORLDS


def _two_slices(n: int, limits: Limits) -> dict[str, Any]:
    cells = []
    for channel, tpr in (("chat", 0.88), ("email", 0.86)):
        hits = int(n * tpr)
        cells += [
            auto({"channel": channel}, hits + n // 10, hits + n // 10, hits),
            review({"channel": channel}, 2 * n - hits, 2 * n - hits, n - hits),
        ]
    made = contract(GroupBy(("channel",), "channel=chat"), limits=limits)
    shown = encoded(build_contract(made, CODING, [window(cells)]))
    (group,) = shown["windows"][0]["groups"]
    return next(row for row in group["rows"] if row["slice"] == "channel=email")


def test_a_metric_without_a_limit_is_never_called_inconclusive() -> None:
    shown = table(world(Random(3), late=False), replace(EASY, max_blocked_gap=None))
    rows = [row for group in shown["windows"][0]["groups"] for row in group["rows"]]
    states = {row["states"][m] for row in rows for m in ("selection", "ready", "blocked")}
    assert "no_limit" in states
    assert not states & {"inconclusive", "within_contract", "suspected"}


def test_the_lesson_s_pairs() -> None:
    group = GroupBy(("language_variety",), "language_variety=formal")
    limits = replace(LIMITS, min_positives=1, min_negatives=1, max_blocked_gap=None)
    made = contract(group, k=1, synthetic=True, limits=limits)
    shown = encoded(build_contract(made, CODING, [window(lesson_cells())]))
    assert disagreements(shown) == []
