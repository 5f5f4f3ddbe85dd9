"""Inputs of a weekly report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, fields

from monitor.core.publish.release import Release, StoredReport
from monitor.core.publish.snapshot import ContractTable, WindowTable
from monitor.core.publish.words import moment_text
from monitor.core.time import UTC_ZONE, IsoWeek, in_zone
from monitor.reports.facts import ReportFacts

TABLES = ("rates", "gaps", "calibration")
"""Names of the frames and CSV files; kept here so that callers need not load pandas."""


@dataclass(frozen=True, slots=True)
class WeeklyReport(StoredReport):
    """Revision of a week's Release, with everything that a report on it needs.

    Attributes:
        release: the Release of the reported revision, decoded once.
        facts: facts from the settings.
    """

    _: KW_ONLY
    release: Release
    facts: ReportFacts

    @classmethod
    def from_stored(cls, stored: StoredReport, facts: ReportFacts) -> WeeklyReport:
        """Return the WeeklyReport of a stored revision and the facts of the settings."""
        parts = {part.name: getattr(stored, part.name) for part in fields(stored)}
        return cls(**parts, release=stored.revision.release, facts=facts)

    @property
    def zone(self) -> str:
        """Name of the report's time zone: the settings' if the week began in it, else UTC."""
        zone = self.facts.timezone
        week = IsoWeek.named(self.revision.week, zone)
        return zone if self.release.start == week.start else UTC_ZONE

    def moment(self, at: int) -> str:
        """Return date and time of an instant (us) in the report's zone, as text."""
        return moment_text(at, self.zone)

    def day(self, at: int) -> str:
        """Return the date of an instant (us) in the report's zone, as YYYY-MM-DD."""
        return f"{in_zone(at, self.zone):%Y-%m-%d}"

    @property
    def synthetic(self) -> bool:
        """True when any contract is about declared test conditions."""
        return any(table.synthetic for table in self.release.contracts)

    def windows(self) -> Iterator[tuple[ContractTable, WindowTable]]:
        """Return pairs (contract table, week's table), for every contract of the Release."""
        return of_release(self.release)

    def named(self, table: ContractTable) -> str:
        """Return ``Contract NAME: `` to begin a sentence; empty if there is only one contract."""
        return "" if len(self.release.contracts) == 1 else f"Contract {table.contract}: "


def of_release(release: Release) -> Iterator[tuple[ContractTable, WindowTable]]:
    """Return pairs (contract table, week's table), for every contract of a Release."""
    return ((table, window) for table in release.contracts for window in table.windows)
