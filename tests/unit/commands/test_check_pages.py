"""What ``slicewatch check`` says about who is woken, and what a shared bound costs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from monitor.commands.check_pages import page_lines
from monitor.settings import load

SETTINGS = Path(__file__).parents[3] / "deploy" / "examples" / "ten_pairs.toml"
CONTRACT = "SLICEWATCH__USE_CASE__0__CONTRACT__"
ONE_GROUP_BY = {"SLICEWATCH__USE_CASE__0__GROUP_BYS": '[{ attributes = ["channel"] }]'}


@pytest.mark.parametrize(
    ("changes", "said", "alone", "shared"),
    [
        ({}, "breaches of max_tpr_gap page, of max_fpr_gap are tickets", 6, 6 * 3),
        ({"PAGE_ON": "[]"}, "breaches of no limit page, of max_tpr_gap, max_fpr_gap are", 6, 6 * 3),
        (
            {"PAGE_ON": '["max_fpr", "max_fpr_gap"]', "MAX_FPR": "0.2", "MIN_TPR": "0.7"},
            "breaches of max_fpr_gap, max_fpr page, of max_tpr_gap, min_tpr are tickets",
            3,
            2 * 3 * 4,
        ),
    ],
)
def test_it_names_the_limits_that_page_and_what_sharing_costs(
    changes: dict[str, str], said: str, alone: int, shared: int
) -> None:
    env = ONE_GROUP_BY | {CONTRACT + name: value for name, value in changes.items()}
    settings = load(SETTINGS, env)
    (line,) = page_lines(settings)
    assert line.startswith(f"ok: contract ten-pairs: {said}")
    # Alone the streams of a limit (two directions of a gap, or a level, of two slices and
    # __other__) share four fifths of the bound. Beside others they get a part of four or of three.
    needed = {streams: math.log(90 * streams / 0.8) for streams in (alone, shared)}
    assert f"up to {needed[shared] / needed[alone] - 1:.0%} more days" in line
