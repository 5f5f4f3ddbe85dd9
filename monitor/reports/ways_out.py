"""Ways to a verdict for an undecided check: more audits, more time, or larger slices.

They follow from published numbers alone: the shown support and the class of weeks until a verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from monitor.core.contract import Metric, State
from monitor.core.publish.reasons import Place

_FACTORS = (2, 3, 5, 10)
_MORE_LABELS = {
    0: "at the present rate of audits, less than a week is missing",
    1: "with up to four times as many audits, a week decides",
    4: "with more than four times as many audits, a week decides",
}
_WEEKS = {0: "less than one week", 1: "one to four weeks", 4: "more than four weeks"}
_UNTIL = {0: (1, "until about"), 1: (4, "until some day before"), 4: (4, "until some day after")}


@dataclass(frozen=True, slots=True)
class WaysOut:
    """Three ways to decide an undecided metric, a sentence each.

    Attributes:
        audit: ask for more labels; for a rate without labels, a sentence that this does not help.
        wait: let more data come at the present rate.
        merge: compare larger slices, or over a longer time.
    """

    audit: str
    wait: str
    merge: str


def ways_out(place: Place, metric: Metric, after: Callable[[int], str]) -> WaysOut:
    """Return a sentence per way to decide a metric; ``after(weeks)`` words a time to wait until.

    Args:
        place: published row of the slice.
        metric: undecided metric.
        after: function from a number of weeks to the date that long after the end of the week.
    """
    return WaysOut(_audit(place, metric), _wait(place, metric, after), _merge(place))


def _audit(place: Place, metric: Metric) -> str:
    if not metric.labelled:
        return "Audits do not help: this rate needs decisions, not labels."
    weeks = place.row.label_needs.get(metric)
    if weeks is not None:
        return f"Audit more: {_MORE_LABELS[weeks]}."
    if _is_inconclusive(place, metric):
        return "Audit more: four times as many labels halve its interval."
    factor = _needed_multiple(place, metric)
    if factor:
        return f"Audit more: about {factor} as many labels are needed."
    return "Audit more of this slice; how many more is hidden with its numbers."


def _wait(place: Place, metric: Metric, after: Callable[[int], str]) -> str:
    weeks = place.row.label_needs.get(metric)
    if weeks is not None:
        more, until = _UNTIL[weeks]
        return f"Wait {until} {after(more)}: {_WEEKS[weeks]} of labels at the present rate."
    if _is_inconclusive(place, metric):
        return "Wait: four times the time, at the present rate, halves its interval."
    factor = _needed_multiple(place, metric)
    if factor:
        return f"Wait: {factor} the time, at the present rate."
    return "Wait until more has come; how long is hidden with its numbers."


def _is_inconclusive(place: Place, metric: Metric) -> bool:
    """Return True when a metric has support but its interval is too wide."""
    return place.row.states[metric] is State.INCONCLUSIVE


def _needed_multiple(place: Place, metric: Metric) -> str:
    """Return the needed multiple of the shown support, as ``3 times``; empty if hidden."""
    rate, needed = place.row.rates.get(metric), place.contract.min_supports.get(metric)
    if rate is None or not rate.support or not needed:
        return ""
    times = needed / rate.support
    step = next((factor for factor in _FACTORS if times <= factor), None)
    return f"{step} times" if step else f"more than {_FACTORS[-1]} times"


def _merge(place: Place) -> str:
    crossed = "+" in getattr(place.table, "group_by", "")
    partner = "one attribute instead of several" if crossed else "a similar value"
    return f"Merge: compare it together with {partner}, or decide over 28 days instead of one week."
