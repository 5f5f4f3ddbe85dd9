"""Findings of the sequential tests and the advisory detectors, and the rows that may show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from monitor.core.contract import Metric, State
from monitor.core.counts.cells import OTHER, parse_atom
from monitor.core.privacy.pooling import MergeMap
from monitor.core.publish.snapshot import Noted, SliceRow
from monitor.core.publish.states import with_crossing

CROSSED = 4
"""The step of evidence while a crossing is unresolved."""


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
