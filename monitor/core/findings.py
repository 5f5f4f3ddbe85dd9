"""What the sequential tests have found, and which rows may say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from monitor.core.atoms import OTHER, parse_atom
from monitor.core.contract import Metric, State
from monitor.core.pooling import MergeMap
from monitor.core.snapshot import SliceRow
from monitor.core.states import with_crossing

CROSSED = 4
"""The step of evidence while a crossing stands."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is found of a slice and metric, as of the end of a release block.

    Attributes:
        evidence: how far its streams are on the way to a page; CROSSED while one of them stands.
        since: the end of the release block that first shows the crossing (microseconds); None
            where none stands.
    """

    evidence: int
    since: int | None = None


Findings = Mapping[tuple[str, Metric], Finding]
"""By slice and metric."""


def with_findings(row: SliceRow, findings: Findings, pooling: MergeMap) -> SliceRow:
    """The row with what is found of its slice, where it is that slice and is shown.

    Streams are of declared slices, rows of pooled ones: a row in which others are pooled is another
    set than the stream of that name.
    """
    if pooling.name(row.slice) != row.slice or OTHER in parse_atom(row.slice).values():
        return row
    found = {
        metric: findings[row.slice, metric]
        for metric, state in row.states.items()
        if state is not State.SUPPRESSED and (row.slice, metric) in findings
    }
    since = {metric: one.since for metric, one in found.items() if one.since is not None}
    states = {**row.states} | {metric: with_crossing(row.states[metric]) for metric in since}
    return replace(
        row,
        states=states,
        evidence={metric: one.evidence for metric, one in found.items()},
        breach_since={m: at for m, at in since.items() if states[m] is State.BREACH},
    )
