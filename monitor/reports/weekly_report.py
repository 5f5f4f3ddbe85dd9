"""All that a weekly report is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from monitor.core.publish.lines import places
from monitor.core.publish.reasons import Place
from monitor.core.publish.release import Release, Revision, Signature, StoredReport
from monitor.core.publish.snapshot import ContractTable, WindowTable
from monitor.core.publish.words import moment_text
from monitor.core.time import UTC_ZONE, IsoWeek, in_zone
from monitor.reports.facts import ReportFacts

TABLES = ("rates", "gaps", "calibration")
"""Names of the frames, and of the CSV files; here, for who must not wait for pandas."""


@dataclass(frozen=True, slots=True)
class WeeklyReport:
    """A revision of a week's Release, and what is needed to read it.

    Attributes:
        revision: the one that is reported.
        newest: number of the newest revision of the week.
        release: that of the revision.
        before: newest revision of the week before; None where none is stored.
        facts: of the settings.
        signatures: of the week, in their order; of whichever revision.
        earlier: the revision that changes are told against; None where there is no earlier one.
        history: newest revisions of the weeks before, a year of them at most, the oldest first.
    """

    revision: Revision
    newest: int
    release: Release
    before: Revision | None
    facts: ReportFacts
    signatures: tuple[Signature, ...] = ()
    earlier: Revision | None = None
    history: tuple[Revision, ...] = ()

    @classmethod
    def of(cls, stored: StoredReport, facts: ReportFacts) -> WeeklyReport:
        """The report of what is stored."""
        return cls(
            revision=stored.revision,
            newest=stored.newest,
            release=stored.revision.release,
            before=stored.before,
            facts=facts,
            signatures=stored.signatures,
            earlier=stored.earlier,
            history=stored.history,
        )

    @property
    def zone(self) -> str:
        """Name of the time zone of its times: UTC where that of the settings began it otherwise."""
        zone = self.facts.timezone
        week = IsoWeek.named(self.revision.week, zone)
        return zone if self.release.start == week.start else UTC_ZONE

    def moment(self, at: int) -> str:
        """Date and time of an instant (microseconds)."""
        return moment_text(at, self.zone)

    def day(self, at: int) -> str:
        """Date of an instant (microseconds)."""
        return f"{in_zone(at, self.zone):%Y-%m-%d}"

    @property
    def synthetic(self) -> bool:
        """True when any contract is about declared test conditions."""
        return any(table.synthetic for table in self.release.contracts)

    def windows(self) -> Iterator[tuple[ContractTable, WindowTable]]:
        """Every contract with its week."""
        return of_release(self.release)

    def places(self) -> Iterator[Place]:
        """Every row of every group-by."""
        for table, window in self.windows():
            yield from places(table, window)

    def named(self, table: ContractTable) -> str:
        """A beginning of sentences on one contract; empty where there is only one."""
        return "" if len(self.release.contracts) == 1 else f"Contract {table.contract}: "


def of_release(release: Release) -> Iterator[tuple[ContractTable, WindowTable]]:
    """Every contract of a Release with its week."""
    return ((table, window) for table in release.contracts for window in table.windows)
