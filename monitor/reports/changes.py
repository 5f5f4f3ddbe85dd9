"""Changes since an earlier revision: labels came, data were left out, incidents ended.

Both revisions are published, so their difference reveals nothing new: a row of a final edition
differs from the first only if at least k of its labels changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from monitor.core.metric import Metric
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.lines import all_metrics, all_places
from monitor.core.publish.reasons import Place
from monitor.core.publish.release import Release
from monitor.core.publish.snapshot import ShownGap, ShownRate
from monitor.core.publish.words import NONE, gap_text, rate_text
from monitor.core.state import State
from monitor.present.document import Section, table
from monitor.reports.decision import decide
from monitor.reports.judged import state_text
from monitor.reports.weekly_report import WeeklyReport, of_release


@dataclass(frozen=True, slots=True)
class Shown:
    """Figures of a slice and metric in one revision; None where withheld."""

    state: State
    rate: ShownRate | None
    gap: ShownGap | None


@dataclass(frozen=True, slots=True)
class Change:
    """Slice and metric whose figures differ between two revisions; None: not in that revision.

    Attributes:
        contract: name.
        group_by: attribute names joined by ``+``; empty for all decisions.
        slice: slice text; empty for all decisions.
        metric: which rate.
        before: as in the earlier revision; None where it had no such row.
        after: as in this one; None likewise.
    """

    contract: str
    group_by: str
    slice: str
    metric: Metric
    before: Shown | None
    after: Shown | None


@dataclass(frozen=True, slots=True)
class Changes:
    """Differences of a revision from an earlier one: the earlier decision, and changed cells.

    Attributes:
        since: number of the earlier revision.
        decision: what the earlier one was decided as.
        cells: those that differ, in the order of the tables.
    """

    since: int
    decision: str
    cells: tuple[Change, ...]


_Key = tuple[str, str, str, Metric]


def changes(report: WeeklyReport) -> Changes | None:
    """Return the differences from the earlier revision; None if there is no earlier one."""
    if report.earlier is None:
        return None
    release = report.earlier.release
    before, after = _figures_by_cell(release), _figures_by_cell(report.release)
    keys = [*after, *(key for key in before if key not in after)]
    cells = (
        Change(*key, before.get(key), after.get(key))
        for key in keys
        if before.get(key) != after.get(key)
    )
    return Changes(report.earlier.number, decide(release).word, tuple(cells))


def _figures_by_cell(release: Release) -> Mapping[_Key, Shown]:
    return {
        _key(place, metric): Shown(
            place.row.states[metric], place.row.rates.get(metric), place.row.gaps.get(metric)
        )
        for contract, window in of_release(release)
        for place in all_places(contract, window)
        for metric in all_metrics(contract)
        if metric in place.row.states
    }


def _key(place: Place, metric: Metric) -> _Key:
    return place.contract.contract, place.table.group_by, place.row.slice, metric


def changed(report: WeeklyReport) -> Section:
    """Return a section that lists what changed of the rates that the earlier revision shows."""
    differences = changes(report)
    if differences is None:
        return Section()
    since = differences.since
    shown = [change for change in differences.cells if change.before and change.before.rate]
    sentence = (
        f"Revision {since} was {differences.decision}."
        f" {len(differences.cells) - len(shown)} rates that it did not show are not listed."
        " A slice is published anew only if at least k of its labels changed."
    )
    columns = f"contract|slice|rate|in revision {since}|in this one|gap then|gap now"
    return Section(notes=(sentence,), tables=table(columns, map(_row, shown)))


def _row(change: Change) -> tuple[str, ...]:
    """Return a change between two revisions as texts of a table's row."""
    return (
        change.contract,
        slice_name(change.slice),
        change.metric.value,
        _text(change.before),
        _text(change.after),
        gap_text(change.before.gap if change.before else None),
        gap_text(change.after.gap if change.after else None),
    )


def _text(shown: Shown | None) -> str:
    if shown is None:
        return NONE
    return f"{rate_text(shown.rate)} ({state_text(shown.state)})"
