"""Reasons why a cell is not decided, and what ends them, as far as the guards allow.

A slice may be hidden for too few decisions, too few labels of a kind, or another slice that could
be computed from it. One text stands for all of these causes: the cause would reveal something about
the few decisions. Waiting times come only from published rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from monitor.core.counts.completeness import SHOWN_MATURE
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import (
    ContractTable,
    GroupTable,
    LimitKind,
    Period,
    SliceRow,
    WindowTable,
)
from monitor.core.publish.states import too_much_blocked
from monitor.core.publish.words import bounds, gap_bounds, moment_text, percent
from monitor.core.state import State

_WEEKS = {
    0: "Expect an answer within a week.",
    1: "Expect an answer in 1 to 4 weeks.",
    4: "Expect an answer after more than 4 weeks.",
}
TRIALS = {Metric.TPR: "labelled ready replies", Metric.FPR: "labelled unready replies"}
"""Trials of a rate in words; all other rates count requests."""


@dataclass(frozen=True, slots=True)
class Place:
    """Row of a slice with the tables of its contract, window and group-by.

    Attributes:
        contract: table of the contract.
        window: table of the window.
        table: table of the group-by, or the window itself for the total.
        row: the slice.
    """

    contract: ContractTable
    window: WindowTable
    table: WindowTable | GroupTable
    row: SliceRow

    def period(self, metric: Metric) -> Period | None:
        """Return the event time that a metric of the row covers; None before the first table."""
        return self.table.labelled if metric.labelled else self.table.decisions


def why_and_until(place: Place, metric: Metric) -> tuple[str, str]:
    """Return two texts: why a metric is not decided, and what ends that; empty if it is decided."""
    state, most = place.row.states[metric], place.contract.max_blocked
    if state not in _ENDS:
        return "", ""
    supported = state is State.INSUFFICIENT_SUPPORT and _has_support(place, metric)
    if supported and too_much_blocked(place.row, most):
        blocked = place.row.rates.get(Metric.BLOCKED)
        is_number = blocked is not None and blocked.value is not None
        until = "Find out why it is blocked." if is_number else "More requests would tell."
        return f"More than {percent(most)} is blocked, or may be.", until
    why = (
        "Nothing is published yet" if place.period(metric) is None else state.row.words.capitalize()
    )
    return f"{why}.", _ENDS[state](place, metric)


def _has_support(place: Place, metric: Metric) -> bool:
    rate = place.row.rates.get(metric)
    return rate is not None and rate.support >= place.contract.min_supports.get(metric, 0)


def _hidden(place: Place, metric: Metric) -> str:
    """Return what ends that a number is hidden: the first tables, or else more decisions."""
    if place.period(metric) is not None:
        return (
            f"A longer window{', more audits' if metric.labelled else ''} or broader values help."
        )
    wait = "twice the usual delay of labels" if metric.labelled else "its first whole hour"
    return f"The first numbers come after {wait}."


def _insufficient(place: Place, metric: Metric) -> str:
    if metric not in place.contract.min_supports:
        return "TPR and FPR need enough data first."
    needed = place.contract.min_supports[metric]
    trials = TRIALS.get(metric, "requests")
    return f"You need {needed} {trials} per slice." if needed else _expected(place, metric)


def _maturing(place: Place, metric: Metric) -> str:
    completeness = place.row.completeness
    if completeness is not None and completeness < SHOWN_MATURE:
        return f"{percent(completeness)} have come; {percent(float(SHOWN_MATURE))} are needed."
    if ranges := " and ".join(_worst_case(place, metric)):
        return f"Whatever the missing ones say, {ranges}."
    return "Labels of the slice or of its reference are missing."


def _worst_case(place: Place, metric: Metric) -> Iterator[str]:
    """Yield the range of the gap, and of a rate with a limit, whatever the missing labels say."""
    gap, rate = place.row.gaps.get(metric), place.row.rates.get(metric)
    if gap is not None and gap.least is not None:
        yield f"the gap is {gap_bounds(gap.least, gap.most)} points"
    levels = {LimitKind.MIN_LEVEL, LimitKind.MAX_LEVEL}
    if rate is not None and rate.least is not None and levels & place.contract.limit_kinds(metric):
        yield f"the rate is {bounds(rate.least, rate.most)}"


def _expected(place: Place, metric: Metric) -> str:
    weeks = place.row.label_needs.get(metric)
    return "" if weeks is None else _WEEKS[weeks]


def _stale(place: Place, metric: Metric) -> str:
    period = place.period(metric)
    return "" if period is None else f"They end {moment_text(period.end)}."


_ENDS = {
    State.SUPPRESSED: _hidden,
    State.INSUFFICIENT_SUPPORT: _insufficient,
    State.MATURING: _maturing,
    State.INCONCLUSIVE: _expected,
    State.STALE: _stale,
}
"""Texts on what ends an undecided state."""
