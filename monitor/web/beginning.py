"""Overview of a service without a Snapshot: events so far, and the wait for first numbers."""

from __future__ import annotations

from datetime import datetime

from monitor.core.publish.pipeline import Pipeline, TopicFacts
from monitor.core.publish.words import age_text, moment_text
from monitor.core.time import HOUR, SECOND, to_datetime, to_micros
from monitor.web.contents import Beginning


def beginning(pipeline: Pipeline, lateness: int, now: int) -> Beginning:
    """Return what has arrived and what the first numbers wait for.

    Args:
        pipeline: state of the way from the broker.
        lateness: microseconds that the watermark stays behind the newest decision.
        now: wall time, microseconds.
    """
    newest = pipeline.newest_decision
    reached = now if newest is None else to_micros(newest)
    slices_from = to_datetime(reached - reached % HOUR + HOUR + lateness)
    waits_for = _for_a_decision(lateness) if newest is None else _for_the_rest(slices_from)
    return Beginning(_arrived(pipeline.topics), waits_for, slices_from)


def _arrived(topics: tuple[TopicFacts, ...]) -> str:
    """Return the sentence that says how many events arrived and how many are unreadable."""
    counts = " and ".join(
        f"{f'up to {topic.arrived:,}' if topic.arrived else 'no'} events of {topic.topic}"
        for topic in topics
    )
    unreadable = sum(topic.unreadable for topic in topics)
    unreadable_text = (
        f"; {unreadable:,} are unreadable (slicewatch db dead-letters)" if unreadable else ""
    )
    return f"Arrived so far: {counts}{unreadable_text}."


def _for_a_decision(lateness: int) -> str:
    return (
        "It waits for a first decision that can be read. The first table comes"
        f" {age_text(lateness / SECOND)} (stream.lateness) after the end of its hour."
    )


def _for_the_rest(slices_from: datetime) -> str:
    return (
        f"It waits until every partition of decisions is read to {moment_text(slices_from)}: then"
        " comes the table of the first hour. Slices with few decisions come with the tables of"
        " days and weeks."
    )
