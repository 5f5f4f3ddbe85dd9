"""Interface between pages and store: reads of published values, and acts on incidents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from monitor.core.publish.act_input import ActInput, Closing
from monitor.core.publish.history import HistoryPoint, SliceKey
from monitor.core.publish.incident_reports import IncidentReport
from monitor.core.publish.pipeline import Pipeline
from monitor.core.publish.release import Revision, StoredReport, StoredWeek
from monitor.core.publish.snapshot import Snapshot
from monitor.core.time import IsoWeek


class Published(Protocol):
    """Reader of everything published, and writer of acts on incidents; any thread may use it.

    Every method raises StoreError if the store cannot be read or is busy.
    """

    def newest(self) -> tuple[int, Snapshot] | None:
        """Return the newest Snapshot and its number; None before the first."""
        ...

    def at(self, instant: int) -> tuple[int, Snapshot] | None:
        """Return the newest stored Snapshot whose watermark an instant (us) had reached."""
        ...

    def history(self, key: SliceKey) -> Sequence[HistoryPoint]:
        """Return the published figures of a slice and metric, by day."""
        ...

    def incidents(self, now: int, limit: int) -> Sequence[IncidentReport]:
        """Return the newest incidents, newest first."""
        ...

    def incident(self, number: int, now: int) -> IncidentReport | None:
        """Return one incident; None if none has that number."""
        ...

    def pipeline(self) -> Pipeline:
        """Return the state of the way from the broker to the newest Snapshot."""
        ...

    def weeks(self, limit: int) -> Sequence[StoredWeek]:
        """Return the newest weeks with a Release, newest first."""
        ...

    def report(self, week: IsoWeek, number: int | None = None) -> StoredReport | None:
        """Return a revision of a week's Release, by default the newest; None if there is none."""
        ...

    def revision(self, week: IsoWeek, number: int) -> Revision | None:
        """Return one revision without its report's other inputs; None if there is none."""
        ...

    def acknowledge(self, number: int, act_input: ActInput, now: int) -> None:
        """Record that somebody looks after an incident."""
        ...

    def close(self, number: int, closing: Closing, act_input: ActInput, now: int) -> None:
        """Record the outcome of an incident."""
        ...
