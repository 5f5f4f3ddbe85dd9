"""State of every slice x metric, decided on shown numbers and on findings of tests.

=====================  =============================================================
state                  when (the first that holds)
=====================  =============================================================
suppressed             the rate is hidden, whatever the reason
insufficient_support   support below the contract's minimum, of the slice or its
                       reference, at the rate of both together; or the reference
                       is hidden
maturing               a labelled metric with completeness below 0.90; or the limits are
                       kept, but not whatever the missing labels would say
no_limit               the contract sets no limit that applies
suspected              the bounds of the gap or the ratio are beyond the limit and the
                       slice is worse off, or the rate is beyond its level; of a named
                       reference: a slice is better off than it
better_off             the bounds of the gap or the ratio are beyond the limit and the
                       slice is better off: neutral, as the harm is told of the others
within_contract        the bounds of gap, ratio and level are all within the limits
inconclusive           support, but the bounds straddle a limit
=====================  =============================================================

``stale`` replaces ``within_contract`` if the window ends more than the contract's ``max_age``
before the watermark, because the present may differ. ``insufficient_support`` replaces it if more
than the contract's ``max_blocked`` of the slice is blocked, or may be: the other rates leave that
out. Neither replaces another state: wrong or unknown numbers do not improve by it.

No limit applies to ready rates, to unlimited metrics, to the total, and to the named reference
(whose gaps are the other rows' gaps) unless it has a level to keep, or is worse off than a slice.

Bounds are those of the published gap and rate, so any reader of the row and the contract comes to
the same state. Numbers left open by rounding and codes are inconclusive.

``breach`` replaces the last five while a crossing of the sequential test is unresolved: the bounds
of this window end no breach. It replaces no other state, because lost support or missing labels are
no recovery and must be seen; but ``maturing`` where 0.90 of the slice's own labels have come. A
crossing belongs to the side that is worse off: the slice, or its named reference. A slice that
others are behind is ``better_off`` meanwhile.

Findings of the sequential tests and the advisory detectors are added to the rows that may show
them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import starmap

import numpy as np
import numpy.typing as npt

from monitor.core.contract import Verdict
from monitor.core.counts.cells import OTHER, parse_atom
from monitor.core.counts.completeness import SHOWN_MATURE
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Fault
from monitor.core.publish.snapshot import (
    ContractTable,
    GroupTable,
    LimitKind,
    Noted,
    ShownGap,
    SliceRow,
)
from monitor.core.state import State

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
"""Verdict of each state on the contract; None without a limit."""

CROSSED = 4
"""Step of evidence while a crossing is unresolved."""

_NOT_BAD = (State.NO_LIMIT, State.INCONCLUSIVE, State.WITHIN_CONTRACT, State.STALE)

_JUDGED = {
    Verdict.FAIL: State.SUSPECTED,
    Verdict.INSUFFICIENT_SUPPORT: State.INSUFFICIENT_SUPPORT,
    Verdict.BETTER_OFF: State.BETTER_OFF,
    Verdict.INCONCLUSIVE: State.INCONCLUSIVE,
    Verdict.PASS: State.WITHIN_CONTRACT,
}
"""State by the verdicts of gap and level; the first verdict that either has decides."""


def state(
    shown: bool, enough: bool, mature: bool, verdicts: Iterable[Verdict | None] = ()
) -> State:
    """Return the state of one slice x metric; a verdict of None is a limit that does not apply.

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
    return _state_by_verdicts([verdict for verdict in verdicts if verdict is not None])


def states(
    shown: Bools,
    enough: Bools,
    mature: Bools,
    gaps: list[Verdict | None],
    levels: list[Verdict | None],
) -> list[State]:
    """Return the state of every slice for one metric, from columns with one item per slice."""
    rows = zip(shown.tolist(), enough.tolist(), mature.tolist(), gaps, levels, strict=True)
    return list(starmap(_state_of, rows))


@cache
def _state_of(
    shown: bool, enough: bool, mature: bool, gap: Verdict | None, level: Verdict | None
) -> State:
    return state(shown, enough, mature, (gap, level))


def with_crossing(state: State) -> State:
    """Return BREACH for a state that bounds decide, as a crossing is open; else the same state.

    Example:
        >>> with_crossing(State.WITHIN_CONTRACT).value, with_crossing(State.MATURING).value
        ('breach', 'maturing')
    """
    by_bounds = (*_NOT_BAD, State.BETTER_OFF, State.SUSPECTED)
    return State.BREACH if state in by_bounds else state


def with_others_behind(state: State) -> State:
    """Return BETTER_OFF for a state that is not bad, as others are behind; else the same state.

    Example:
        >>> with_others_behind(State.INCONCLUSIVE).value, with_others_behind(State.BREACH).value
        ('better_off', 'breach')
    """
    return State.BETTER_OFF if state in _NOT_BAD else state


def with_age(row: SliceRow, old: Collection[Metric]) -> SliceRow:
    """Return the row with the states of ``old`` metrics changed from WITHIN_CONTRACT to STALE.

    Example:
        >>> row = SliceRow("a=x", {Metric.TPR: State.WITHIN_CONTRACT, Metric.FPR: State.SUSPECTED})
        >>> [state.value for state in with_age(row, Metric).states.values()]
        ['stale', 'suspected']
    """
    return _instead_of_green(row, old, State.STALE)


def _instead_of_green(row: SliceRow, metrics: Collection[Metric], state: State) -> SliceRow:
    green = {m for m in metrics if row.states.get(m) is State.WITHIN_CONTRACT}
    return replace(row, states={**row.states} | dict.fromkeys(green, state)) if green else row


def _state_by_verdicts(verdicts: list[Verdict]) -> State:
    return next(
        (state for verdict, state in _JUDGED.items() if verdict in verdicts), State.NO_LIMIT
    )


@dataclass(frozen=True, slots=True)
class SliceEvidence:
    """Evidence of sequential tests about a slice and metric, as of the end of a day.

    Attributes:
        evidence: progress of its streams towards a page; CROSSED while a crossing is unresolved.
        since: end of the day of the unresolved crossing by which the slice is worse off
            (microseconds); None without one.
        others_behind: True while a crossing by which others are worse off is unresolved.
        limit: the crossed limit; None without an unresolved crossing.
    """

    evidence: int
    since: int | None = None
    others_behind: bool = False
    limit: LimitKind | None = None


@dataclass(frozen=True, slots=True)
class GroupFindings:
    """Findings about the slices of a group-by, as of the ends of days.

    Attributes:
        tests: evidence of the sequential tests, by slice and metric.
        noted: advisory findings by slice, each sorted by annotation and metric.
    """

    tests: Mapping[tuple[str, Metric], SliceEvidence] = field(default_factory=dict)
    noted: Mapping[str, tuple[Noted, ...]] = field(default_factory=dict)


def with_findings(row: SliceRow, findings: GroupFindings) -> SliceRow:
    """Return the row with the findings about its slice, for shown metrics only.

    Slices of undeclared values are not tested.
    """
    if OTHER in parse_atom(row.slice).values():
        return row
    evidence = {
        metric: findings.tests[row.slice, metric]
        for metric in _shown_metrics(row)
        if (row.slice, metric) in findings.tests
    }
    since = {
        metric: finding.since for metric, finding in evidence.items() if finding.since is not None
    }
    states = {**row.states}
    states |= {
        m: with_others_behind(states[m]) for m, finding in evidence.items() if finding.others_behind
    }
    if row.completeness is not None and row.completeness >= SHOWN_MATURE:
        # Few of its own labels are missing: these, or those of its reference, end no breach.
        states |= {m: State.INCONCLUSIVE for m in since if states[m] is State.MATURING}
    states |= {metric: with_crossing(states[metric]) for metric in since}
    breached = [metric for metric in since if states[metric] is State.BREACH]
    return replace(
        row,
        states=states,
        evidence={metric: finding.evidence for metric, finding in evidence.items()},
        breach_since={m: since[m] for m in breached},
        breach_limits={m: kind for m in breached if (kind := evidence[m].limit) is not None},
        noted=_shown_findings(row, findings),
    )


def with_missing_labels(table: ContractTable) -> ContractTable:
    """Return the table with MATURING for labelled metrics of slices whose labels are missing.

    Their bounds do not matter, because they ignore the missing labels.
    """
    missing = {
        (fault.group_by, fault.slice)
        for fault in table.labels_at_fault
        if fault.fault is Fault.MISSING
    }

    def changed(group_by: str, row: SliceRow) -> SliceRow:
        if (group_by, row.slice) not in missing:
            return row
        states = {m: _maturing(m, s) for m, s in row.states.items()}
        gaps = {m: _undecided(gap) if m.labelled else gap for m, gap in row.gaps.items()}
        return replace(row, states=states, gaps=gaps)

    return _with_rows(table, changed) if missing else table


def with_many_blocked(table: ContractTable) -> ContractTable:
    """Return the table with INSUFFICIENT_SUPPORT for WITHIN_CONTRACT where too much is blocked."""

    def changed(_: str, row: SliceRow) -> SliceRow:
        if not too_much_blocked(row, table.max_blocked):
            return row
        undecided = _instead_of_green(row, row.states, State.INSUFFICIENT_SUPPORT)
        return replace(undecided, gaps={m: _undecided(gap) for m, gap in row.gaps.items()})

    return table if table.max_blocked is None else _with_rows(table, changed)


def _undecided(gap: ShownGap) -> ShownGap:
    passed = gap.verdict is Verdict.PASS
    return replace(gap, verdict=Verdict.INSUFFICIENT_SUPPORT) if passed else gap


def too_much_blocked(row: SliceRow, most: float | None) -> bool:
    """Return True if more than a share ``most`` of a slice is blocked, or may be, as it is shown.

    Example:
        >>> from monitor.core.publish.snapshot import ShownRate
        >>> row = SliceRow("a=x", {}, {Metric.BLOCKED: ShownRate(0.06, 0.05, 0.07, 900)})
        >>> too_much_blocked(row, 0.05), too_much_blocked(row, 0.06), too_much_blocked(row, None)
        (True, False, False)
    """
    rate = row.rates.get(Metric.BLOCKED)
    if most is None or rate is None:
        return most is not None
    shown = (rate.value, rate.at_most, rate.upper)
    return next((share for share in shown if share is not None), 1.0) > most


def _with_rows(table: ContractTable, changed: Callable[[str, SliceRow], SliceRow]) -> ContractTable:
    """Return the table with every slice's row as ``changed`` returns it for (group-by, row)."""

    def with_rows(group: GroupTable) -> GroupTable:
        return replace(group, rows=tuple(changed(group.group_by, row) for row in group.rows))

    windows = (replace(w, groups=tuple(map(with_rows, w.groups))) for w in table.windows)
    return replace(table, windows=tuple(windows))


def _maturing(metric: Metric, state: State) -> State:
    hidden_or_few = (State.SUPPRESSED, State.INSUFFICIENT_SUPPORT)
    return State.MATURING if metric.labelled and state not in hidden_or_few else state


def _shown_findings(row: SliceRow, findings: GroupFindings) -> tuple[Noted, ...]:
    """Return a slice's advisory findings on shown metrics.

    Findings without a metric need a shown labelled metric.
    """
    shown = _shown_metrics(row)
    labelled = any(metric.labelled for metric in shown)
    noted = findings.noted.get(row.slice, ())
    return tuple(
        finding for finding in noted if (finding.metric in shown if finding.metric else labelled)
    )


def _shown_metrics(row: SliceRow) -> list[Metric]:
    return [metric for metric, state in row.states.items() if state is not State.SUPPRESSED]
