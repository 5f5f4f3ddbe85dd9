"""Reasons why a cell is not decided, and what ends them, as far as the guards allow.

A slice may be hidden for too few decisions, too few labels of a kind, or another slice that could
be computed from it. The cause is never told, because it would reveal something about the few
decisions. Waiting times come only from published rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from monitor.core.contract import Metric, State
from monitor.core.publish.snapshot import (
    ContractTable,
    GroupTable,
    Period,
    SliceRow,
    WindowTable,
)
from monitor.core.publish.words import moment_text

_WEEKS = {
    0: "less than a week of labels at their present rate",
    1: "one to four weeks of labels at their present rate",
    4: "more than four weeks of labels at their present rate",
}


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
    state = place.row.states[metric]
    explain = _EXPLAINED.get(state)
    return explain(place, metric) if explain else ("", "")


def _hidden(place: Place, metric: Metric) -> tuple[str, str]:
    if place.period(metric) is None:
        return _nothing_yet(metric)
    audits = " more audits," if metric.labelled else ""
    return (
        f"Hidden to protect privacy: fewer than {place.contract.k} decisions or labels, or it would"
        " give away a slice that has fewer.",
        f"A longer window,{audits} or one value for several similar ones in the settings helps.",
    )


def _nothing_yet(metric: Metric) -> tuple[str, str]:
    if not metric.labelled:
        return "No hour is complete in decisions yet.", "It is shown after its first whole hour."
    return (
        "No hour is complete in labels yet.",
        "It is shown after twice the time that labels usually take.",
    )


def _insufficient(place: Place, metric: Metric) -> tuple[str, str]:
    if metric is Metric.PRECISION:
        return "It is computed from the TPR and the FPR; one of them has too little support.", ""
    needed = place.contract.min_supports.get(metric)
    rate = place.row.rates.get(metric)
    has = "fewer than can be shown" if rate is None else f"at least {rate.support}"
    asks = f"The contract asks for {needed} {_trials_text(metric)}" if needed else "It needs more"
    why = f"{asks} of the slice and of its reference; the slice has {has}."
    return why, _weeks_text(place.row, metric) or "More labels or a longer window helps."


def _trials_text(metric: Metric) -> str:
    return {
        Metric.TPR: "labelled ready replies",
        Metric.FPR: "labelled replies that were not ready",
    }.get(metric, "requests")


def _maturing(place: Place, metric: Metric) -> tuple[str, str]:
    completeness = place.row.completeness
    share_text = "" if completeness is None else f": {100 * completeness:.0f} % have come"
    return (
        f"Labels that were requested are still missing{share_text}.",
        "It is judged when at least 95 % of them have come.",
    )


def _inconclusive(place: Place, metric: Metric) -> tuple[str, str]:
    return (
        "Its interval straddles the limit, so it is neither kept nor broken for certain.",
        _weeks_text(place.row, metric),
    )


def _stale(place: Place, metric: Metric) -> tuple[str, str]:
    period = place.period(metric)
    end = "" if period is None else f" in {moment_text(period.end)}"
    return (
        f"It was within the contract, but its data end{end}, which is too long ago.",
        "It is judged again when newer decisions or labels can be published.",
    )


def _weeks_text(row: SliceRow, metric: Metric) -> str:
    weeks = row.label_needs.get(metric)
    return (
        "" if weeks is None else f"To find a gap 5 points beyond the limit takes {_WEEKS[weeks]}."
    )


_EXPLAINED = {
    State.SUPPRESSED: _hidden,
    State.INSUFFICIENT_SUPPORT: _insufficient,
    State.MATURING: _maturing,
    State.INCONCLUSIVE: _inconclusive,
    State.STALE: _stale,
}
