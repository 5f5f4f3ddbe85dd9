"""Interface between pages and store: reads of published values, and acts on incidents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from monitor.core.metric import Metric
from monitor.core.publish.act_input import ActInput, Closing
from monitor.core.publish.history import HistoryPoint, SliceKey, Trends
from monitor.core.publish.incident_reports import IncidentReport
from monitor.core.publish.pipeline import Pipeline
from monitor.core.publish.release import Revision, StoredReport, StoredWeek
from monitor.core.publish.snapshot import Snapshot
from monitor.core.time import IsoWeek


class Published(Protocol):
    """Reader of all that is published, and writer of acts on incidents; any thread may use it.

    Every method raises StoreError if the store cannot be read or is busy.
    """

    def newest(self) -> tuple[int, Snapshot] | None:
        """Return (number, Snapshot) of the newest; None before the first."""
        ...

    def at(self, instant: int) -> tuple[int, Snapshot] | None:
        """Return the newest (number, Snapshot) with a watermark up to ``instant`` (us), or None."""
        ...

    def history(self, key: SliceKey) -> Sequence[HistoryPoint]:
        """Return a HistoryPoint per day of a slice and metric, as published."""
        ...

    def trends(self, contract: str, window: str, metric: Metric) -> Trends:
        """Return the shown rates of four weeks of all slices."""
        ...

    def incidents(self, now: int, limit: int) -> Sequence[IncidentReport]:
        """Return at most ``limit`` incidents, newest first; ``now`` is wall time (us)."""
        ...

    def incident(self, number: int, now: int) -> IncidentReport | None:
        """Return the incident with this number; None if there is none."""
        ...

    def pipeline(self) -> Pipeline:
        """Return the state of the pipeline, from the broker to the newest Snapshot."""
        ...

    def weeks(self, limit: int) -> Sequence[StoredWeek]:
        """Return at most ``limit`` weeks with a Release, newest first."""
        ...

    def report(self, week: IsoWeek, number: int | None = None) -> StoredReport | None:
        """Return a revision of a week's Release, by default the newest; None if there is none."""
        ...

    def revision(self, week: IsoWeek, number: int) -> Revision | None:
        """Return a revision of a week's Release by number; None if there is none."""
        ...

    def acknowledge(self, number: int, act_input: ActInput, now: int) -> None:
        """Record that the author of ``act_input`` looks after incident ``number``."""
        ...

    def close(self, number: int, closing: Closing, act_input: ActInput, now: int) -> None:
        """Record the outcome in ``closing`` of incident ``number``, with author and note."""
        ...
