"""The one state of every slice x metric, decided on shown numbers, and what tests find.

=====================  =============================================================
state                  when (the first that holds)
=====================  =============================================================
suppressed             the rate is hidden, whatever the reason
insufficient_support   support below the contract's minimum, of the slice or its
                       reference, at the rate of both together; or the reference
                       is hidden
maturing               a labelled metric with completeness below 0.90
no_limit               the contract sets no limit that applies
suspected              the bounds of the gap or the ratio are beyond the limit and the
                       slice is worse off, or the rate is beyond its level; of a named
                       reference: a slice is better off than it
better_off             the bounds of the gap or the ratio are beyond the limit and the
                       slice is better off: neutral, as the harm is told of the others
within_contract        the bounds of gap, ratio and level are all within the limits
inconclusive           support, but the bounds straddle a limit
=====================  =============================================================

``stale`` takes the place of ``within_contract`` where the window ends more than the contract's
``max_age`` before the watermark: what was kept then says nothing of now. It takes the place of no
other: what was wrong, or not known, is not better for being old.

No limit applies to ready rates, to what the contract does not limit, to the total, and to the named
reference (whose gaps are the other rows' gaps) unless it has a level to keep, or is worse off than
a slice.

Bounds are those of the published gap and rate: whoever has the row and the contract comes to the
same state. What rounding and codes leave open is inconclusive.

``breach`` takes the place of the last five while the sequential test has crossed and the crossing
is not resolved: what this window's bounds say ends no breach. It takes the place of no other: that
support is lost, or labels are out, is not a recovery, and must be seen. A crossing is that of the
side that is worse off: of the slice, or of its named reference. The slice that others are worse off
than is ``better_off`` meanwhile.

Findings of the sequential tests and the advisory detectors are put on the rows that may show them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import starmap

import numpy as np
import numpy.typing as npt

from monitor.core.contract import Metric, State, Verdict
from monitor.core.counts.cells import OTHER, parse_atom
from monitor.core.publish.annotations import Fault
from monitor.core.publish.snapshot import ContractTable, LimitKind, Noted, SliceRow, WindowTable

Bools = npt.NDArray[np.bool_]

VERDICT_OF: Mapping[State, Verdict | None] = {
    State.SUPPRESSED: Verdict.INSUFFICIENT_SUPPORT,
    State.INSUFFICIENT_SUPPORT: Verdict.INSUFFICIENT_SUPPORT,
    State.MATURING: Verdict.INSUFFICIENT_SUPPORT,
    State.NO_LIMIT: None,
    State.INCONCLUSIVE: Verdict.INCONCLUSIVE,
    State.WITHIN_CONTRACT: Verdict.PASS,
    State.STALE: Verdict.INSUFFICIENT_SUPPORT,
    State.BETTER_OFF: Verdict.BETTER_OFF,
    State.SUSPECTED: Verdict.FAIL,
    State.BREACH: Verdict.FAIL,
}
"""Verdict that a state says of the contract, None where it sets no limit: the one table."""

CROSSED = 4
"""The step of evidence while a crossing is unresolved."""

_NOT_BAD = (State.NO_LIMIT, State.INCONCLUSIVE, State.WITHIN_CONTRACT, State.STALE)

_JUDGED = {
    Verdict.FAIL: State.SUSPECTED,
    Verdict.INSUFFICIENT_SUPPORT: State.INSUFFICIENT_SUPPORT,
    Verdict.BETTER_OFF: State.BETTER_OFF,
    Verdict.INCONCLUSIVE: State.INCONCLUSIVE,
    Verdict.PASS: State.WITHIN_CONTRACT,
}
"""The state by the verdicts of a gap and of a level: the first of these that one of them is."""


def state(
    shown: bool, enough: bool, mature: bool, verdicts: Iterable[Verdict | None] = ()
) -> State:
    """The state of one slice x metric; a verdict of None is a limit that does not apply.

    Example:
        >>> state(True, True, True, [Verdict.PASS, None]).value
        'within_contract'
        >>> state(True, True, True, [None]).value
        'no_limit'
    """
    if not shown:
        return State.SUPPRESSED
    if not enough:
        return State.INSUFFICIENT_SUPPORT
    if not mature:
        return State.MATURING
    return _judged([verdict for verdict in verdicts if verdict is not None])


def states(
    shown: Bools,
    enough: Bools,
    mature: Bools,
    gaps: list[Verdict | None],
    levels: list[Verdict | None],
) -> list[State]:
    """The states of one metric, row by row."""
    rows = zip(shown.tolist(), enough.tolist(), mature.tolist(), gaps, levels, strict=True)
    return list(starmap(_state_of, rows))


@cache
def _state_of(
    shown: bool, enough: bool, mature: bool, gap: Verdict | None, level: Verdict | None
) -> State:
    return state(shown, enough, mature, (gap, level))


def with_crossing(state: State) -> State:
    """The state of a slice x metric of which a crossing is unresolved.

    Example:
        >>> with_crossing(State.WITHIN_CONTRACT).value, with_crossing(State.MATURING).value
        ('breach', 'maturing')
    """
    by_bounds = (*_NOT_BAD, State.BETTER_OFF, State.SUSPECTED)
    return State.BREACH if state in by_bounds else state


def with_others_behind(state: State) -> State:
    """The state of a slice x metric while a crossing says that others are worse off than it.

    Example:
        >>> with_others_behind(State.INCONCLUSIVE).value, with_others_behind(State.BREACH).value
        ('better_off', 'breach')
    """
    return State.BETTER_OFF if state in _NOT_BAD else state


def with_age(row: SliceRow, old: Collection[Metric]) -> SliceRow:
    """The row where these metrics are older than the contract allows: none of them is green.

    Example:
        >>> row = SliceRow("a=x", {Metric.TPR: State.WITHIN_CONTRACT, Metric.FPR: State.SUSPECTED})
        >>> [state.value for state in with_age(row, Metric).states.values()]
        ['stale', 'suspected']
    """
    green = {m for m in old if row.states.get(m) is State.WITHIN_CONTRACT}
    if not green:
        return row
    return replace(row, states={**row.states} | dict.fromkeys(green, State.STALE))


def hidden(metrics: Iterable[Metric]) -> dict[Metric, State]:
    """The states of a row that is hidden."""
    return dict.fromkeys(metrics, State.SUPPRESSED)


def _judged(verdicts: list[Verdict]) -> State:
    return next((state for one, state in _JUDGED.items() if one in verdicts), State.NO_LIMIT)


@dataclass(frozen=True, slots=True)
class SliceEvidence:
    """Finding about a slice and metric, as of the end of a day.

    Attributes:
        evidence: progress of its streams towards a page; CROSSED while a crossing is unresolved.
        since: the end of the day of the crossing (microseconds); None
            where none is unresolved by which the slice is worse off.
        others_behind: a crossing is unresolved by which others are worse off than the slice.
        limit: the one that was crossed; None where none is unresolved.
    """

    evidence: int
    since: int | None = None
    others_behind: bool = False
    limit: LimitKind | None = None


@dataclass(frozen=True, slots=True)
class GroupFindings:
    """Findings about a group-by, as of the ends of days.

    Attributes:
        tests: what the sequential tests found, by slice and metric.
        noted: advisory findings, by slice; each sorted by annotation and metric.
    """

    tests: Mapping[tuple[str, Metric], SliceEvidence] = field(default_factory=dict)
    noted: Mapping[str, tuple[Noted, ...]] = field(default_factory=dict)


def with_findings(row: SliceRow, findings: GroupFindings) -> SliceRow:
    """The row with what is found of its slice, where it is that slice and is shown.

    A row of undeclared values is no slice that is tested.
    """
    if OTHER in parse_atom(row.slice).values():
        return row
    found = {
        metric: findings.tests[row.slice, metric]
        for metric in _shown(row)
        if (row.slice, metric) in findings.tests
    }
    since = {metric: one.since for metric, one in found.items() if one.since is not None}
    states = {**row.states}
    states |= {m: with_others_behind(states[m]) for m, one in found.items() if one.others_behind}
    states |= {metric: with_crossing(states[metric]) for metric in since}
    breached = [metric for metric in since if states[metric] is State.BREACH]
    return replace(
        row,
        states=states,
        evidence={metric: one.evidence for metric, one in found.items()},
        breach_since={m: since[m] for m in breached},
        breach_limits={m: kind for m in breached if (kind := found[m].limit) is not None},
        noted=_noted(row, findings),
    )


def with_missing_labels(table: ContractTable) -> ContractTable:
    """The table with the labelled rates of slices that lack labels as maturing.

    Whatever their bounds say: they are of the labels that came, and others are missing.
    """
    missing = {
        (one.group_by, one.slice) for one in table.labels_at_fault if one.fault is Fault.MISSING
    }
    if not missing:
        return table
    return replace(table, windows=tuple(_unripe(window, missing) for window in table.windows))


def _unripe(window: WindowTable, missing: Collection[tuple[str, str]]) -> WindowTable:
    groups = []
    for group in window.groups:
        rows = [
            replace(row, states={m: _maturing(m, s) for m, s in row.states.items()})
            if (group.group_by, row.slice) in missing
            else row
            for row in group.rows
        ]
        groups.append(replace(group, rows=tuple(rows)))
    return replace(window, groups=tuple(groups))


def _maturing(metric: Metric, state: State) -> State:
    hidden_or_few = (State.SUPPRESSED, State.INSUFFICIENT_SUPPORT)
    return State.MATURING if metric.labelled and state not in hidden_or_few else state


def _noted(row: SliceRow, findings: GroupFindings) -> tuple[Noted, ...]:
    """Advisory findings of shown metrics; those of no metric need a labelled one to be shown."""
    shown = _shown(row)
    labelled = any(metric.labelled for metric in shown)
    noted = findings.noted.get(row.slice, ())
    return tuple(one for one in noted if (one.metric in shown if one.metric else labelled))


def _shown(row: SliceRow) -> list[Metric]:
    return [metric for metric, state in row.states.items() if state is not State.SUPPRESSED]
