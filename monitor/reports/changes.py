"""Changes since an earlier revision: labels came, data were left out, incidents ended.

Both revisions are published, so their difference says nothing that they do not: a row of a final
edition differs from the first only if at least k of its labels changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from monitor.core.contract import Metric, State
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.lines import all_metrics, places, total_place
from monitor.core.publish.reasons import Place
from monitor.core.publish.release import Release
from monitor.core.publish.snapshot import GroupTable, ShownGap, ShownRate
from monitor.core.publish.words import NONE, gap_text, rate_text
from monitor.drawing.tables import table
from monitor.reports.decision import decide
from monitor.reports.first_page import state_text
from monitor.reports.layout import Section, titled
from monitor.reports.weekly_report import WeeklyReport, of_release

_LISTED = 200
"""Changes that a page lists; the JSON file has all."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Figures of a slice and metric in a revision; absent numbers are withheld."""

    state: State
    rate: ShownRate | None
    gap: ShownGap | None


@dataclass(frozen=True, slots=True)
class Change:
    """A slice and metric of which two revisions show different things.

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
    """Differences of a revision from an earlier one.

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
    """The changes since the earlier revision; None where there is no earlier one."""
    if report.earlier is None:
        return None
    release = report.earlier.release
    was, now = _shown(release), _shown(report.release)
    keys = [*now, *(key for key in was if key not in now)]
    cells = (
        Change(*key, was.get(key), now.get(key)) for key in keys if was.get(key) != now.get(key)
    )
    return Changes(report.earlier.number, decide(release).word, tuple(cells))


def _shown(release: Release) -> Mapping[_Key, Shown]:
    return {
        _key(place, metric): Shown(
            place.row.states[metric], place.row.rates.get(metric), place.row.gaps.get(metric)
        )
        for contract, window in of_release(release)
        for place in (total_place(contract, window), *places(contract, window))
        for metric in all_metrics(contract)
        if metric in place.row.states
    }


def _key(place: Place, metric: Metric) -> _Key:
    group_by = place.table.group_by if isinstance(place.table, GroupTable) else ""
    return place.contract.contract, group_by, place.row.slice, metric


def changed(report: WeeklyReport) -> Section:
    """The section of a report."""
    found = changes(report)
    if found is None:
        return Section(("There is no earlier revision of this week that this one differs from.",))
    word = decide(report.release).word
    decision = (
        f"It is {word}, as before."
        if word == found.decision
        else f"It was {found.decision}, and is {word} now."
    )
    if not found.cells:
        same = f"No rate, gap or state is another one than in revision {found.since}."
        return Section((same, decision))
    rest = len(found.cells) - _LISTED
    sentences = [
        f"In {_cells(len(found.cells))} a rate, a gap or a state is another one than in revision"
        f" {found.since}.",
        "A slice is published anew only if at least k of its labels changed, so no change here is"
        " one of a few.",
        decision,
    ]
    if rest > 0:
        sentences.append(f"The first {_LISTED} are listed; the JSON file has {rest} more.")
    columns = f"contract|slice|rate|in revision {found.since}|in this one|gap then|gap now"
    rows = (row for one in found.cells[:_LISTED] for row in _row(one))
    return Section(tuple(sentences), titled(table(columns, rows)))


def _cells(number: int) -> str:
    return "one cell" if number == 1 else f"{number:,} cells"


def _row(one: Change) -> Iterator[tuple[str, ...]]:
    yield (
        one.contract,
        slice_name(one.slice),
        one.metric.value,
        _text(one.before),
        _text(one.after),
        gap_text(one.before.gap if one.before else None),
        gap_text(one.after.gap if one.after else None),
    )


def _text(one: Shown | None) -> str:
    if one is None:
        return NONE
    return f"{rate_text(one.rate)} ({state_text(one.state)})"
