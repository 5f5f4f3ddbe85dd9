"""A Snapshot with everything that a published table can say, for tests of those tables."""

from __future__ import annotations

from dataclasses import replace

from monitor.core.contract import Verdict
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import (
    CalibrationCell,
    ContractTable,
    GroupTable,
    Period,
    ShownGap,
    ShownRate,
    SliceRow,
    Snapshot,
    WindowTable,
)
from monitor.core.state import State
from monitor.core.time import DAY, HOUR

T0 = 20_000 * DAY + 9 * HOUR  # 2024-10-04
SHOWN = ShownRate(0.83, 0.43, 0.98, 26)
CODED = ShownRate(None, 0.9, 1.0, 41, at_least=0.97)
FEW = ShownRate(None, 0.0, 0.1, 17, at_most=0.03)
GAP = ShownGap("channel=chat", 0.33, -0.1, 0.7, 0.6, 0.2, 1.1, Verdict.INSUFFICIENT_SUPPORT)
OPEN = ShownGap("complement", None, -0.15, 0.75)


def full(name: str, completeness: float = 0.98) -> SliceRow:
    """A slice of which everything is shown."""
    return SliceRow(
        name,
        dict.fromkeys(Metric, State.INCONCLUSIVE),
        {Metric.SELECTION: CODED, Metric.TPR: SHOWN, Metric.BLOCKED: FEW},
        {Metric.TPR: GAP, Metric.FPR: OPEN},
        {Metric.TPR: 0.17},
        (CalibrationCell("below 0.70", SHOWN), CalibrationCell("no score", None)),
        completeness,
    )


def hidden(name: str) -> SliceRow:
    """A slice of which nothing is shown."""
    return SliceRow(name, dict.fromkeys(Metric, State.SUPPRESSED))


def lesson(*rows: SliceRow, at: int = T0) -> Snapshot:
    """One contract with one window: its total, and one group-by of these slices."""
    decided = Period(at - 7 * DAY, at, data_lost=True)
    group = GroupTable("channel", rows, (), decided, Period(at - 9 * DAY, at, excluded=True))
    table = ContractTable(
        *("lesson", "3", "triage team", True, 11, "7d"),
        {Metric.TPR: 0.1, Metric.FPR: 0.2},
        {Metric.TPR: 0.6},
        {Metric.FPR: 0.3},
        {Metric.TPR: 50, Metric.FPR: 30},
        (WindowTable("7d", replace(full(""), gaps={}), (group,), decided),),
    )
    return Snapshot(at, at - HOUR, (table,))


BOTH = (full("channel=chat"), hidden("channel=email"))
