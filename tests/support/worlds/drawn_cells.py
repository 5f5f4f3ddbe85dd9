"""A cell with a rate and a gap, for the tests of what is drawn of it."""

from __future__ import annotations

from monitor.core.metric import Metric
from monitor.core.publish.lines import Cell
from monitor.core.publish.snapshot import ShownGap, ShownRate
from monitor.core.state import State

RATE = ShownRate(0.83, 0.79, 0.87, 120)
CELL = Cell(
    metric=Metric.TPR,
    role=None,
    state=State.WITHIN_CONTRACT,
    rate=RATE,
    gap=ShownGap("complement", 0.05, -0.1, 0.2),
    reference_rate=None,
    mirror_of="",
    max_gap=0.1,
    min_ratio=None,
    min_level=None,
    max_level=None,
    decided_by=None,
    ends_at=None,
    why="",
    until="",
    breach_since=None,
    evidence=None,
)
