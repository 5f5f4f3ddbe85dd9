"""Decision on a week: BLOCKED if a limit is broken, UNDECIDED if anything is not measured.

All requirements are measured. A signature meets none of them: it says who has read which revision.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from monitor.core.publish.annotations import IncidentKind
from monitor.core.publish.conclusion import limited
from monitor.core.publish.glossary import slice_names
from monitor.core.publish.incidents import Stand
from monitor.core.publish.limit_words import breach_text
from monitor.core.publish.release import Release
from monitor.core.publish.snapshot import ContractTable, WindowTable
from monitor.core.publish.words import moment_text, some_text
from monitor.core.time import DAY, UTC_ZONE
from monitor.present.document import Tone
from monitor.reports.judged import Judged, judged_in
from monitor.reports.weekly_report import of_release

_NAMED = 3
"""Number of checks that a reason names; the tables list the rest."""
NOT_DECIDED = "Not decided"
"""Begin of the reason that names undecided checks, which page one lists anyway."""


class Finding(enum.StrEnum):
    """Finding on one requirement."""

    MET = "met"
    BROKEN = "broken"
    NOT_MEASURED = "not measured"


class Word(enum.StrEnum):
    """Decision on a week; only APPROVED approves it."""

    APPROVED = "APPROVED"
    BLOCKED = "BLOCKED"
    UNDECIDED = "UNDECIDED"

    @property
    def tone(self) -> Tone:
        """Emphasis of the word; a week that could not be measured does not look like a breach."""
        return {Word.APPROVED: Tone.GOOD, Word.BLOCKED: Tone.BAD, Word.UNDECIDED: Tone.UNSURE}[self]


@dataclass(frozen=True, slots=True)
class Requirement:
    """Requirement of an approval: what was found, and why.

    Attributes:
        name: what is required.
        finding: met, broken, or not measured.
        why: the facts behind the finding, as a sentence.
    """

    name: str
    finding: Finding
    why: str


@dataclass(frozen=True, slots=True)
class WeekDecision:
    """Decision on a week, from its requirements."""

    requirements: tuple[Requirement, ...]

    @property
    def word(self) -> Word:
        """BLOCKED if any requirement is broken, else UNDECIDED if any is not measured."""
        findings = {requirement.finding for requirement in self.requirements}
        if Finding.BROKEN in findings:
            return Word.BLOCKED
        return Word.UNDECIDED if Finding.NOT_MEASURED in findings else Word.APPROVED

    @property
    def sentence(self) -> str:
        """Reason for the word: what is broken, else what is not measured."""
        decisive = {Word.BLOCKED: Finding.BROKEN, Word.UNDECIDED: Finding.NOT_MEASURED}
        if self.word not in decisive:
            return "Every limit is kept, and everything was measured."
        return " ".join(self.reasons(decisive[self.word]))

    def reasons(self, finding: Finding) -> tuple[str, ...]:
        """Return the reasons of all requirements with this finding."""
        return tuple(
            requirement.why for requirement in self.requirements if requirement.finding is finding
        )


def decide(release: Release, zone: str = UTC_ZONE) -> WeekDecision:
    """Return the WeekDecision on a Release; its texts give times in ``zone``."""
    return WeekDecision(tuple(_requirements(release, zone)))


def _requirements(release: Release, zone: str) -> Iterator[Requirement]:
    """Yield what the decision of a week rests on, each met, broken or not measured."""
    for table, window in of_release(release):
        judged = list(judged_in(table, window))
        yield _limits(table.contract, judged)
        yield _measured(table.contract, judged)
        if any(metric.labelled for metric in limited(table)):
            yield _labels(table, window, zone)
    if not release.contracts:
        yield Requirement("a contract", Finding.NOT_MEASURED, "The Release has no contract.")
    yield _breaches(release)
    yield Requirement(
        "no data of the week are lost",
        Finding.NOT_MEASURED if release.data_lost else Finding.MET,
        "Events of the week are lost, or may be." if release.data_lost else "No loss is known.",
    )
    yield Requirement(
        "no data of the week are left out",
        Finding.NOT_MEASURED if release.excluded else Finding.MET,
        "Data of the week are left out." if release.excluded else "No data are left out.",
    )


def _limits(contract: str, judged_cells: Sequence[Judged]) -> Requirement:
    """Return the requirement that every limit of a contract is kept."""
    broken = [
        breach_text(judged.place.row.slice, judged.cell) for judged in judged_cells if judged.failed
    ]
    why = (
        f"Over the limit: {some_text(broken, _NAMED)}."
        if broken
        else "No measured slice is over its limit."
    )
    finding = Finding.BROKEN if broken else Finding.MET
    return Requirement(f"{contract}: every limit is kept", finding, why)


def _measured(contract: str, judged_cells: Sequence[Judged]) -> Requirement:
    """Return the requirement that every check of a contract is decided."""
    name = f"{contract}: every check is decided"
    checked = [judged for judged in judged_cells if judged.check]
    if not checked:
        return Requirement(name, Finding.NOT_MEASURED, "There is nothing to check.")
    undecided = [judged.short for judged in checked if judged.undecided]
    if not undecided:
        return Requirement(name, Finding.MET, f"All {len(checked)} checks are decided.")
    tally = f"{len(undecided)} of {len(checked)} checks"
    return Requirement(
        name, Finding.NOT_MEASURED, f"{NOT_DECIDED}, {tally}: {some_text(undecided, _NAMED)}."
    )


def _labels(table: ContractTable, window: WindowTable, zone: str) -> Requirement:
    """Return the requirement that labels are released up to a day before the week's end."""
    name = f"{table.contract}: the labels of the week are released"
    if window.labelled is None or window.decisions is None:
        return Requirement(name, Finding.NOT_MEASURED, "No labels of the week are released yet.")
    late = window.labelled.end < window.decisions.end - DAY
    why = f"Labels are released up to {moment_text(window.labelled.end, zone)}."
    return Requirement(name, Finding.NOT_MEASURED if late else Finding.MET, why)


def _breaches(release: Release) -> Requirement:
    """Return the requirement that every breach of the week is closed."""
    name = "no breach of the week is open"
    not_closed = [
        f"incident {incident.id}, {slice_names(incident.slice, incident.further)}:"
        f" {incident.metric.row.heading}"
        for incident in release.incidents
        if incident.kind is IncidentKind.BREACH
        and incident.state in (Stand.OPEN, Stand.ACKNOWLEDGED)
    ]
    if not not_closed:
        return Requirement(name, Finding.MET, "Every breach of the week has ended.")
    return Requirement(name, Finding.BROKEN, f"Breach not closed: {some_text(not_closed, _NAMED)}.")
