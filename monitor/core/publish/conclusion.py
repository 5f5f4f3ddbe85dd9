"""Conclusion of a contract: all checks in one verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from monitor.core.contract import Verdict
from monitor.core.metric import GRAVEST_FIRST, Metric
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
from monitor.core.state import State


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """Check of one limited metric of one slice, with its verdict.

    Attributes:
        metric: limited metric.
        slice: slice text.
        verdict: verdict by the state of slice and metric.
        decided_by: the limit that is broken, or not known to be kept; None without one.
        of_rest: True if the check is about all others, who are worse off than the slice.
    """

    metric: Metric
    slice: str
    verdict: Verdict
    decided_by: ShownLimit | None = None
    of_rest: bool = False

    @property
    def name(self) -> str:
        """Name of the slice for people, or ``all but`` that slice."""
        name = slice_name(self.slice)
        return f"all but {name}" if self.of_rest else name


def limited(table: ContractTable) -> tuple[Metric, ...]:
    """Return the metrics that a contract limits, the primary first, then the guardrails.

    Guardrails with the gravest harm come first.
    """
    limits = {
        *(*table.max_gaps, *table.min_ratios, *table.min_levels, *table.max_levels),
        *(own.metric for own in table.own_limits),
    }
    limited_metrics = [metric for metric in GRAVEST_FIRST if metric in limits]
    return tuple(sorted(limited_metrics, key=lambda metric: metric is not table.primary))


def checks(table: ContractTable, window: WindowTable) -> Iterator[LimitCheck]:
    """Yield every check of a contract in a window, metric by metric; each harm is in one check.

    A reference has a check of its own only if its level is limited, or if it is worse off. Slices
    that are better off, and mirrors, have none.
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
    """Return True if a cell counts as a check: it has a limit, and no mirrored row has it."""
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
    """Return fail if any check fails, pass if all pass, else the first other verdict.

    Example:
        >>> overall([Verdict.PASS, Verdict.INCONCLUSIVE]).value, overall([]).value
        ('inconclusive', 'insufficient_support')
    """
    distinct = {*verdicts}
    if Verdict.FAIL in distinct:
        return Verdict.FAIL
    if distinct == {Verdict.PASS}:
        return Verdict.PASS
    undecided = [v for v in Verdict if v in distinct - {Verdict.PASS}]
    return undecided[0] if undecided else Verdict.INSUFFICIENT_SUPPORT
