"""The conclusion of a contract: all of its checks in one verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from monitor.core.contract import Metric, State, Verdict
from monitor.core.publish.deciding_limit import deciding_limit
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.sides import BAD, better_off_alone, judged_by, listed, mirrored
from monitor.core.publish.snapshot import (
    ContractTable,
    GroupTable,
    LimitKind,
    ShownLimit,
    SliceRow,
    WindowTable,
)
from monitor.core.publish.states import VERDICT_OF


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """One limited metric of one slice, judged.

    Attributes:
        metric: of the limit.
        slice: slice text.
        verdict: by the state of both.
        decided_by: the limit that is broken, or not known to be kept; None where there is none.
        of_rest: it is about all others, who are worse off than the slice.
    """

    metric: Metric
    slice: str
    verdict: Verdict
    decided_by: ShownLimit | None = None
    of_rest: bool = False

    @property
    def name(self) -> str:
        """The slice that it is about, or all but that slice."""
        name = slice_name(self.slice)
        return f"all but {name}" if self.of_rest else name


def limited(table: ContractTable) -> tuple[Metric, ...]:
    """The metrics that a contract limits, the primary one first, guardrails as metrics are listed.

    TPR, FPR, precision, the blocked and the selection rate: those that gaps are limited of come in
    this order.
    """
    limits = {
        *(*table.max_gaps, *table.min_ratios, *table.min_levels, *table.max_levels),
        *(own.metric for own in table.own_limits),
    }
    found = [metric for metric in _ORDER if metric in limits]
    return tuple(sorted(found, key=lambda metric: metric is not table.primary))


_FIRST = (Metric.TPR, Metric.FPR, Metric.PRECISION, Metric.BLOCKED, Metric.SELECTION)
_ORDER = (*_FIRST, *(metric for metric in Metric if metric not in _FIRST))


def checks(table: ContractTable, window: WindowTable) -> Iterator[LimitCheck]:
    """Every check of a contract in a window, metric by metric; each harm is in one of them.

    A slice that others are compared with has a check of its own only if its level is limited, or if
    it is worse off. A slice that is better off has none, nor has one that only mirrors another.
    """
    for metric in limited(table):
        for group in window.groups:
            for row in listed(group):
                verdict = _verdict(row, metric)
                if verdict is not None and _has_check(table, group, row, metric):
                    decided_by = _decided_by(table, group, row, metric)
                    yield LimitCheck(metric, row.slice, verdict, decided_by)
            if (ahead := better_off_alone(group, metric)) is not None:
                decided_by = _decided_by(table, group, ahead, metric)
                yield LimitCheck(metric, ahead.slice, Verdict.FAIL, decided_by, of_rest=True)


def _decided_by(
    table: ContractTable, group: GroupTable, row: SliceRow, metric: Metric
) -> ShownLimit | None:
    gap, limits = judged_by(table, group, row, metric)
    return deciding_limit(row, metric, limits, gap)


def _has_check(table: ContractTable, group: GroupTable, row: SliceRow, metric: Metric) -> bool:
    if row.states[metric] is State.BETTER_OFF or mirrored(table, group, row, metric):
        return False
    limits = table.limits_of(group.group_by, row.slice, metric)
    level = LimitKind.MIN_LEVEL in limits or LimitKind.MAX_LEVEL in limits
    return level or row.states[metric] in BAD or not _is_reference(row, metric)


def _verdict(row: SliceRow, metric: Metric) -> Verdict | None:
    state = row.states.get(metric)
    return None if state is None else VERDICT_OF[state]


def _is_reference(row: SliceRow, metric: Metric) -> bool:
    return metric in row.rates and metric not in row.gaps


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """Fail where anything fails, pass where all pass, else the first that is neither.

    Example:
        >>> overall([Verdict.PASS, Verdict.INCONCLUSIVE]).value, overall([]).value
        ('inconclusive', 'insufficient_support')
    """
    found = {*verdicts}
    if Verdict.FAIL in found:
        return Verdict.FAIL
    if found == {Verdict.PASS}:
        return Verdict.PASS
    open_ones = [v for v in Verdict if v in found - {Verdict.PASS}]
    return open_ones[0] if open_ones else Verdict.INSUFFICIENT_SUPPORT
