"""How often a slice's incident has come back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from monitor.core.metric import Metric
from monitor.core.publish.annotations import IncidentKind
from monitor.core.publish.incident_reports import IncidentReport, report
from monitor.core.publish.incidents import Incident
from monitor.core.publish.recurrence import recurrence, recurrence_text
from monitor.core.time import to_micros

MONDAY = datetime(2026, 11, 23, 9, tzinfo=UTC)


def incident(days_before: float, **other: object) -> IncidentReport:
    at = to_micros(MONDAY - timedelta(days=days_before))
    kept = Incident(1, IncidentKind.BREACH, "replies", Metric.TPR, at, at, "channel", None)
    fields = {"group_by": "channel", "slice": "channel=chat", **other}
    return replace(report(kept, (), None, at), **fields)  # type: ignore[arg-type]


def test_incidents_of_the_same_slice_within_four_weeks_count() -> None:
    now = incident(0)
    earlier = [now, incident(7), incident(14), incident(28), incident(29)]
    others = [
        incident(3, slice="channel=email"),
        incident(4, metric=Metric.FPR),
        incident(5, contract="letters"),
        incident(-1),
    ]
    assert recurrence(now, earlier + others) == "4th time in 4 weeks, each on a Monday"
    assert recurrence(now, [*earlier, incident(9)]) == "5th time in 4 weeks"


def test_a_withheld_slice_says_nothing_of_others_that_are_withheld() -> None:
    now = incident(0, slice="withheld")
    assert recurrence(now, [now, incident(7, slice="withheld")]) == ""


def test_the_estimated_beginning_decides_on_the_weekday() -> None:
    begins = [MONDAY - timedelta(days=days) for days in (0, 7, 14)]
    late = [
        incident(days - 1.5, began=begin) for days, begin in zip((0, 7, 14), begins, strict=True)
    ]
    assert recurrence(late[0], late) == "3rd time in 4 weeks, each on a Monday"


@pytest.mark.parametrize(("count", "text"), [(1, ""), (2, "2nd"), (11, "11th"), (22, "22nd")])
def test_ordinals(count: int, text: str) -> None:
    begins = [MONDAY + timedelta(days=day) for day in range(count)]
    assert recurrence_text(begins) == (text and f"{text} time in 4 weeks")
