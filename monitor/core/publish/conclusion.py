"""The conclusion of a contract: all of its checks in one verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from monitor.core.contract import Metric, Verdict
from monitor.core.counts.cells import OTHER, parse_atom
from monitor.core.publish.deciding_limit import deciding_limit
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
    """

    metric: Metric
    slice: str
    verdict: Verdict
    decided_by: ShownLimit | None = None


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
    """Every check of a contract in a window, metric by metric.

    A slice that others are compared with has none of its own, unless its level is limited.
    """
    for metric in limited(table):
        for group in window.groups:
            for row in listed(group):
                verdict = _verdict(row, metric)
                limits = table.limits_of(group.group_by, row.slice, metric)
                level = LimitKind.MIN_LEVEL in limits or LimitKind.MAX_LEVEL in limits
                if verdict is not None and (level or not _is_reference(row, metric)):
                    decided_by = deciding_limit(row, metric, limits)
                    yield LimitCheck(metric, row.slice, verdict, decided_by)


def listed(group: GroupTable) -> Iterator[SliceRow]:
    """The rows that say something: a hidden ``__other__`` is there whether or not it has any."""
    for row in group.rows:
        if row.rates or OTHER not in parse_atom(row.slice).values():
            yield row


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
