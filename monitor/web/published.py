"""Reader of what pages and API show; the store has the implementation."""

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
    """Everything published, and acts on incidents; any thread may use it.

    Every method raises StoreError where the store cannot be read or is busy.
    """

    def newest(self) -> tuple[int, Snapshot] | None:
        """The newest Snapshot and its number; None before the first."""
        ...

    def at(self, instant: int) -> tuple[int, Snapshot] | None:
        """The newest stored Snapshot whose watermark an instant (us) had reached."""
        ...

    def history(self, key: SliceKey) -> Sequence[HistoryPoint]:
        """Published figures of a slice and metric, by day."""
        ...

    def incidents(self, now: int, limit: int) -> Sequence[IncidentReport]:
        """The newest incidents, the newest first."""
        ...

    def incident(self, number: int, now: int) -> IncidentReport | None:
        """One incident; None where there is none of that number."""
        ...

    def pipeline(self) -> Pipeline:
        """From the broker to the newest Snapshot."""
        ...

    def weeks(self, limit: int) -> Sequence[StoredWeek]:
        """The newest weeks that have a Release, the newest first."""
        ...

    def report(self, week: IsoWeek, number: int | None = None) -> StoredReport | None:
        """A revision of a week's Release, by default the newest; None where there is none."""
        ...

    def revision(self, week: IsoWeek, number: int) -> Revision | None:
        """A revision of a week's Release without what its report has besides; None without it."""
        ...

    def acknowledge(self, number: int, act_input: ActInput, now: int) -> None:
        """Put on record that somebody looks after an incident."""
        ...

    def close(self, number: int, closing: Closing, act_input: ActInput, now: int) -> None:
        """Put on record what an incident came to."""
        ...
