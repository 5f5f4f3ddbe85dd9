"""The one state of every slice x metric, decided inside on exact numbers, and what tests find.

=====================  =============================================================
state                  when (the first that holds)
=====================  =============================================================
suppressed             the rate is hidden, whatever the reason
insufficient_support   n_eff below the contract's minimum, of the slice or its
                       reference; or the reference is hidden
maturing               a labelled metric with completeness below 0.90
suspected              the bounds of the gap, or of the rate against its level, are
                       beyond the limit
within_contract        the bounds of the gap and the level are all within the limits
inconclusive           support, but the bounds straddle a limit; or there is no limit
                       to conclude about
=====================  =============================================================

What has no limit is never green: selection and ready rates, the total, and the named reference
(whose gaps are the other rows' gaps) unless it has a level to keep.

``breach`` takes the place of the last three while the sequential test has crossed and the crossing
is not resolved: what this window's bounds say ends no breach. It takes the place of no other: that
support is lost, or labels are out, is not a recovery, and must be seen.

Findings of the sequential tests and the advisory detectors are put on the rows that may show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from monitor.core.contract import Metric, State, Verdict
from monitor.core.counts.cells import OTHER, parse_atom
from monitor.core.privacy.guards import Bools
from monitor.core.privacy.pooling import MergeMap
from monitor.core.publish.snapshot import Noted, SliceRow

VERDICT_OF: Mapping[State, Verdict] = {
    State.SUPPRESSED: Verdict.INSUFFICIENT_SUPPORT,
    State.INSUFFICIENT_SUPPORT: Verdict.INSUFFICIENT_SUPPORT,
    State.MATURING: Verdict.INSUFFICIENT_SUPPORT,
    State.INCONCLUSIVE: Verdict.INSUFFICIENT_SUPPORT,
    State.WITHIN_CONTRACT: Verdict.PASS,
    State.SUSPECTED: Verdict.FAIL,
    State.BREACH: Verdict.FAIL,
}
"""What a state says of the contract: the one table."""

CROSSED = 4
"""The step of evidence while a crossing is unresolved."""

_BY_BOUNDS = (State.INCONCLUSIVE, State.WITHIN_CONTRACT, State.SUSPECTED)
_JUDGED = {VERDICT_OF[state]: state for state in _BY_BOUNDS}


def state(
    shown: bool, enough: bool, mature: bool, verdicts: Iterable[Verdict | None] = ()
) -> State:
    """The state of one slice x metric; a verdict of None is a limit that does not apply.

    Example:
        >>> state(True, True, True, [Verdict.PASS, None]).value
        'within_contract'
        >>> state(True, True, True, [None]).value
        'inconclusive'
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
    flags = zip(shown.tolist(), enough.tolist(), mature.tolist(), strict=True)
    return [
        state(*row, verdicts)
        for row, verdicts in zip(flags, zip(gaps, levels, strict=True), strict=True)
    ]


def with_crossing(state: State) -> State:
    """The state of a slice x metric of which a crossing is unresolved.

    Example:
        >>> with_crossing(State.WITHIN_CONTRACT).value, with_crossing(State.MATURING).value
        ('breach', 'maturing')
    """
    return State.BREACH if state in _BY_BOUNDS else state


def hidden(metrics: Iterable[Metric]) -> dict[Metric, State]:
    """The states of a row that is hidden."""
    return dict.fromkeys(metrics, State.SUPPRESSED)


def _judged(verdicts: list[Verdict]) -> State:
    if Verdict.FAIL in verdicts:
        return _JUDGED[Verdict.FAIL]
    kept = bool(verdicts) and all(verdict is Verdict.PASS for verdict in verdicts)
    return _JUDGED[Verdict.PASS if kept else Verdict.INSUFFICIENT_SUPPORT]


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding about a slice and metric, as of the end of a release block.

    Attributes:
        evidence: progress of its streams towards a page; CROSSED while a crossing is unresolved.
        since: the end of the release block that first shows the crossing (microseconds); None
            where none is unresolved.
    """

    evidence: int
    since: int | None = None


@dataclass(frozen=True, slots=True)
class GroupFindings:
    """Findings about a group-by, as of the ends of release blocks.

    Attributes:
        tests: what the sequential tests found, by slice and metric.
        noted: advisory findings, by slice; each sorted by annotation and metric.
    """

    tests: Mapping[tuple[str, Metric], Finding] = field(default_factory=dict)
    noted: Mapping[str, tuple[Noted, ...]] = field(default_factory=dict)


def with_findings(row: SliceRow, findings: GroupFindings, pooling: MergeMap) -> SliceRow:
    """The row with what is found of its slice, where it is that slice and is shown.

    Streams are of declared slices, rows of pooled ones: a row in which others are pooled is another
    set than the stream of that name.
    """
    if pooling.name(row.slice) != row.slice or OTHER in parse_atom(row.slice).values():
        return row
    found = {
        metric: findings.tests[row.slice, metric]
        for metric in _shown(row)
        if (row.slice, metric) in findings.tests
    }
    since = {metric: one.since for metric, one in found.items() if one.since is not None}
    states = {**row.states} | {metric: with_crossing(row.states[metric]) for metric in since}
    return replace(
        row,
        states=states,
        evidence={metric: one.evidence for metric, one in found.items()},
        breach_since={m: at for m, at in since.items() if states[m] is State.BREACH},
        noted=_noted(row, findings),
    )


def _noted(row: SliceRow, findings: GroupFindings) -> tuple[Noted, ...]:
    """Advisory findings of shown metrics; those of no metric need a labelled one to be shown."""
    shown = _shown(row)
    labelled = any(metric.labelled for metric in shown)
    noted = findings.noted.get(row.slice, ())
    return tuple(one for one in noted if (one.metric in shown if one.metric else labelled))


def _shown(row: SliceRow) -> list[Metric]:
    return [metric for metric, state in row.states.items() if state is not State.SUPPRESSED]
