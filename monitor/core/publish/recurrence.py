"""The text that says how often the incident of a slice has come back in four weeks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from monitor.core.publish.incident_reports import IncidentReport
from monitor.core.publish.snapshot import WITHHELD

SPAN = timedelta(weeks=4)
"""How far back earlier incidents count: long enough to see a weekly cause four times."""

_PATTERN = 3
"""Fewest incidents on one weekday that are a pattern: three are so by chance once in 49."""

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}
_TEENS = range(11, 14)


def recurrence(incident: IncidentReport, incidents: Iterable[IncidentReport]) -> str:
    """Return how often a slice's incident came in four weeks, such as ``4th time in 4 weeks``.

    Args:
        incident: the incident, with its slice; the text is empty where that is withheld.
        incidents: all kept incidents; those of another contract, metric or slice do not count.

    Returns:
        The text; empty for a first time. It names the weekday if all began on the same one.
    """
    if incident.slice == WITHHELD:
        return ""
    begins = sorted(
        _begin(earlier)
        for earlier in incidents
        if _subject(earlier) == _subject(incident)
        and _begin(incident) - SPAN <= _begin(earlier) <= _begin(incident)
    )
    return recurrence_text(begins)


def recurrence_text(begins: list[datetime]) -> str:
    """Return the text for the beginnings of equal incidents within four weeks, newest included.

    Example:
        >>> mondays = [datetime(2026, 11, day) for day in (2, 9, 16, 23)]
        >>> recurrence_text(mondays)
        '4th time in 4 weeks, each on a Monday'
        >>> recurrence_text([mondays[0], datetime(2026, 11, 4)]), recurrence_text(mondays[:1])
        ('2nd time in 4 weeks', '')
    """
    count, weekdays = len(begins), {begin.weekday() for begin in begins}
    if len(begins) == 1:
        return ""
    suffix = "th" if count % 100 in _TEENS else _SUFFIXES.get(count % 10, "th")
    text = f"{count}{suffix} time in 4 weeks"
    if count >= _PATTERN and len(weekdays) == 1:
        text += f", each on a {_DAYS[weekdays.pop()]}"
    return text


def _subject(incident: IncidentReport) -> tuple[str, str, str, str]:
    return incident.contract, incident.metric.value, incident.group_by, incident.slice


def _begin(incident: IncidentReport) -> datetime:
    return incident.began or incident.since
