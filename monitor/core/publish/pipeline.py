"""Facts on the way from the broker to the page, from the store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """Counts of one topic: partitions (also unowned and parked), events and dead letters.

    Attributes:
        topic: name.
        partitions: how many are known.
        unowned: how many no worker has claimed.
        parked: how many wait for a person.
        flushed_at: wall clock of the newest flush, to the minute; None before the first.
        arrived: events so far, in whole hundreds, rounded up: the first one is to be seen.
        unreadable: dead letters so far, which are part of these.
    """

    topic: str
    partitions: int
    unowned: int
    parked: int
    flushed_at: datetime | None
    arrived: int
    unreadable: int


@dataclass(frozen=True, slots=True)
class Pipeline:
    """State of the pipeline from the broker to the Snapshot, as the store knows it.

    Attributes:
        topics: of the settings, in their order; without partitions until these are known.
        newest_decision: event time, taken down to five minutes; None before the first.
        stored_at: wall clock at which the newest Snapshot was stored; None before the first.
    """

    topics: tuple[TopicFacts, ...]
    newest_decision: datetime | None
    stored_at: datetime | None
