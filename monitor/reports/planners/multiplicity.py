"""Number of comparisons for which the bounds of each group-by hold together."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.reports.planners.detectable import group_z, reference_of
from monitor.reports.weekly_report import WeeklyReport


@dataclass(frozen=True, slots=True)
class MultiplicityLine:
    """Number of comparisons of one group-by, with their joint and single confidence.

    Attributes:
        contract: name of the contract.
        group_by: attribute names joined by ``+``.
        comparisons: number of comparisons whose bounds hold together.
        confidence: joint confidence of all comparisons.
        each: confidence of one comparison, so that all hold together (Bonferroni).
        z: normal quantile of each bound.
    """

    contract: str
    group_by: str
    comparisons: int
    confidence: float
    each: float
    z: float


_CONFIDENCE = 0.95


def multiplicity(report: WeeklyReport) -> tuple[MultiplicityLine, ...]:
    """Return a MultiplicityLine per group-by that shows a comparison."""
    lines = []
    for contract, window in report.windows():
        for group in window.groups:
            reference = reference_of(group)
            if reference is not None:
                count, z = group_z(group, reference)
                each_confidence = 1 - (1 - _CONFIDENCE) / max(count, 1)
                numbers = (count, _CONFIDENCE, round(each_confidence, 5), round(z, 3))
                lines.append(MultiplicityLine(contract.contract, group.group_by, *numbers))
    return tuple(lines)
