"""A service that has published nothing: what has arrived, and what the first numbers wait for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.core.publish.pipeline import Pipeline, TopicFacts
from monitor.core.publish.words import age_text, moment_text
from monitor.core.time import DAY, MINUTE, SECOND, to_datetime, to_micros
from monitor.web.contents import Beginning


@dataclass(frozen=True, slots=True)
class FirstNumbers:
    """What the settings say of the first numbers.

    Attributes:
        lateness: how far the watermark stays behind the newest decision, microseconds.
        live: rates of all decisions together do not wait for the end of the first UTC day.
    """

    lateness: int = 10 * MINUTE
    live: bool = True


def beginning(pipeline: Pipeline, first: FirstNumbers, now: int) -> Beginning:
    """What has arrived, and what the first numbers wait for; ``now`` is the wall clock."""
    newest = pipeline.newest_decision
    if newest is None:
        slices_from = _end_of_day(now, first) if first.live else None
        waits_for = _for_a_decision(first, slices_from)
    else:
        slices_from = _end_of_day(to_micros(newest), first)
        waits_for = _for_the_rest(newest, first, slices_from)
    return Beginning(_arrived(pipeline.topics), waits_for, slices_from)


def _end_of_day(at: int, first: FirstNumbers) -> datetime:
    """When the UTC day of an instant is complete."""
    return to_datetime(at - at % DAY + DAY + first.lateness)


def _arrived(topics: tuple[TopicFacts, ...]) -> str:
    counts = " and ".join(
        f"{f'up to {topic.arrived:,}' if topic.arrived else 'no'} events of {topic.topic}"
        for topic in topics
    )
    unreadable = sum(topic.unreadable for topic in topics)
    rest = f"; {unreadable:,} are unreadable (slicewatch db dead-letters)" if unreadable else ""
    return f"Arrived so far: {counts}{rest}."


def _for_a_decision(first: FirstNumbers, slices_from: datetime | None) -> str:
    if slices_from is None:
        return "It waits for a first decision that can be read, and for the end of its UTC day."
    return (
        "It waits for a first decision that can be read. Rates of all decisions together come"
        f" {age_text(first.lateness / SECOND)} later (stream.lateness). Slices by name come after"
        f" the end of the UTC day, at {moment_text(slices_from)} at the earliest."
    )


def _for_the_rest(newest: datetime, first: FirstNumbers, slices_from: datetime) -> str:
    if not first.live:
        return (
            f"It waits until every partition of decisions is read to {moment_text(slices_from)}:"
            " a history shows nothing before its first UTC day has ended."
        )
    totals_from = newest + timedelta(microseconds=first.lateness)
    return (
        f"It waits until every partition of decisions is read to {moment_text(totals_from)}: then"
        " come rates of all decisions together. Slices by name come after the end of the UTC day,"
        f" at about {moment_text(slices_from)}."
    )
