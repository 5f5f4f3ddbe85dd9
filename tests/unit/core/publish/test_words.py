"""Published numbers in words, as tables and plots have them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.core.contract import Metric
from monitor.core.publish.snapshot import ShownGap
from monitor.core.publish.words import NONE, behind_text, gap_text, points


def test_a_gap_is_its_points_with_their_interval_and_this_alone_where_a_rate_is_coded() -> None:
    gap = ShownGap("channel=chat", 0.03, 0.01, 0.05)
    coded = gap_text(replace(gap, value=None))
    assert coded == f"[{points(0.01)} to {points(0.05)}]"
    assert gap_text(gap) == f"{points(0.03)} {coded}"
    assert gap_text(None) == gap_text(replace(gap, lower=None)) == NONE


@pytest.mark.parametrize(
    ("lower", "upper", "said"),
    [
        (0.01, 0.05, "channel=email: ready replies served less often"),
        (-0.01, 0.05, "no clear difference from channel=chat"),
        (None, 0.05, ""),
        (0.01, None, ""),
    ],
)
def test_who_is_worse_off_is_told_by_shown_bounds_alone(
    lower: float | None, upper: float | None, said: str
) -> None:
    gap = ShownGap("channel=chat", 0.03, lower, upper)
    assert behind_text(Metric.TPR, "channel=email", gap).startswith(said)
    assert bool(behind_text(Metric.TPR, "channel=email", gap)) == bool(said)
    assert behind_text(Metric.TPR, "channel=email", replace(gap, value=None)) == ""
