"""Stand of the published window to an incident; its test has more evidence than one window."""

from __future__ import annotations

import enum

from monitor.core.contract import Verdict
from monitor.core.publish.deciding_limit import allowed
from monitor.core.publish.snapshot import LimitKind, PublishedValue, ShownGap, ShownIncident


class WindowSays(enum.StrEnum):
    """Statement of the published window about an incident."""

    NOTHING_YET = "nothing_yet"  # the window ends before the breach was found
    WITHIN_LIMIT = "within_limit"  # days from before the breach outweigh it
    UNSURE = "unsure"  # its interval reaches within the limit; the test has more evidence
    OUTSIDE_LIMIT = "outside_limit"
    UNKNOWN = ""  # the window is withheld


SURE_ANYWAY = {
    WindowSays.NOTHING_YET: "These numbers end before the breach: the test found it in newer data.",
    WindowSays.WITHIN_LIMIT: "They include days within the limit: this is not a false alarm.",
    WindowSays.UNSURE: "Alone they are not certain; the test has the evidence of all days.",
}
"""Sentences on why the sequential test is sure where the published numbers are not."""

_WHOLLY_BEYOND = (Verdict.FAIL, Verdict.BETTER_OFF)


def window_says(incident: ShownIncident, gap: ShownGap | None) -> WindowSays:
    """Return how the latest value of an incident, and its gap, stand to the broken limit."""
    latest, limit = incident.latest, incident.limit
    if latest is None or latest.at < incident.since:
        return WindowSays.UNKNOWN if latest is None else WindowSays.NOTHING_YET
    if limit is None:
        return WindowSays.UNKNOWN
    value, lower, upper = _limited_value(limit.kind, latest, gap)
    if value is None and lower is None:
        return WindowSays.UNKNOWN
    if value is not None and allowed(limit).holds(value):
        return WindowSays.WITHIN_LIMIT
    if allowed(limit).verdict_of(lower, upper) in _WHOLLY_BEYOND:
        return WindowSays.OUTSIDE_LIMIT
    return WindowSays.UNSURE


def _limited_value(
    kind: LimitKind, latest: PublishedValue, gap: ShownGap | None
) -> tuple[float | None, float | None, float | None]:
    """Return the published (value, lower, upper) that a limit of this kind applies to."""
    if kind is not LimitKind.MIN_RATIO:
        return latest.value, latest.lower, latest.upper
    return (None, None, None) if gap is None else (gap.ratio, gap.ratio_lower, gap.ratio_upper)
