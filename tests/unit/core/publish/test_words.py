"""Published numbers in words, as tables and plots have them."""

from __future__ import annotations

from dataclasses import replace

from monitor.core.publish.snapshot import ShownGap
from monitor.core.publish.words import NONE, gap_text, points


def test_a_gap_is_its_points_with_their_interval_and_this_alone_where_a_rate_is_coded() -> None:
    gap = ShownGap("channel=chat", 0.03, 0.01, 0.05)
    coded = gap_text(replace(gap, value=None))
    assert coded == f"[{points(0.01)} to {points(0.05)}]"
    assert gap_text(gap) == f"{points(0.03)} {coded}"
    assert gap_text(None) == gap_text(replace(gap, lower=None)) == NONE
