"""Release decision of a week: APPROVED if every requirement is met, else BLOCKED.

All requirements are measured. A signature meets none of them: it says who has read which revision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from monitor.core.contract import Verdict
from monitor.core.publish.annotations import IncidentKind
from monitor.core.publish.conclusion import LimitCheck, checks, limited
from monitor.core.publish.incidents import Stand
from monitor.core.publish.release import Release
from monitor.core.publish.snapshot import ContractTable, WindowTable
from monitor.core.publish.words import moment_text
from monitor.core.time import DAY, UTC_ZONE
from monitor.reports.weekly_report import of_release

_NAMED = 3
"""Number of checks that a requirement names; the tables list the rest."""
_OVER = (Stand.CLOSED, Stand.RESOLVED, Stand.ACCEPTED)


@dataclass(frozen=True, slots=True)
class Requirement:
    """Requirement of an approval: is it met, and why.

    Attributes:
        name: what is required.
        met: whether it is.
        why: what was found.
    """

    name: str
    met: bool
    why: str


@dataclass(frozen=True, slots=True)
class WeekDecision:
    """Decision on a week: APPROVED if all requirements are met, else BLOCKED."""

    requirements: tuple[Requirement, ...]

    @property
    def approved(self) -> bool:
        """True when every requirement is met."""
        return all(requirement.met for requirement in self.requirements)

    @property
    def word(self) -> str:
        """APPROVED or BLOCKED."""
        return "APPROVED" if self.approved else "BLOCKED"

    @property
    def sentence(self) -> str:
        """Sentence with the number of requirements met or missing."""
        total = len(self.requirements)
        missing = sum(not requirement.met for requirement in self.requirements)
        if not missing:
            return f"All {total} requirements are met."
        return f"{missing} of {total} requirements {'is' if missing == 1 else 'are'} missing."


def decide(release: Release, zone: str = UTC_ZONE) -> WeekDecision:
    """Return the WeekDecision on a Release; its texts give times in ``zone``."""
    return WeekDecision(tuple(_requirements(release, zone)))


def _requirements(release: Release, zone: str) -> Iterator[Requirement]:
    for table, window in of_release(release):
        yield from _contract_requirements(table, window, zone)
    yield _pages(release)
    yield Requirement(
        "no data of the week are lost",
        not release.data_lost,
        "events that could not be read are missing" if release.data_lost else "none are known",
    )
    yield Requirement(
        "no data of the week are left out",
        not release.excluded,
        "tables are left out" if release.excluded else "every table is complete",
    )


def _contract_requirements(
    table: ContractTable, window: WindowTable, zone: str
) -> Iterator[Requirement]:
    limit_checks = list(checks(table, window))
    name = f"{table.contract}: every check is within its limit"
    yield Requirement(
        name,
        bool(limit_checks) and all(check.verdict is Verdict.PASS for check in limit_checks),
        "; ".join(_faults(limit_checks)) or f"all {len(limit_checks)} are",
    )
    if any(metric.labelled for metric in limited(table)):
        yield _labels(table, window, zone)


def _faults(limit_checks: Sequence[LimitCheck]) -> Iterator[str]:
    if not limit_checks:
        yield "there is nothing to check"
    for verdict, meaning in (
        (Verdict.FAIL, "outside the limit"),
        (Verdict.INCONCLUSIVE, "undecided"),
        (Verdict.INSUFFICIENT_SUPPORT, "not measured"),
    ):
        failing = [check for check in limit_checks if check.verdict is verdict]
        if failing:
            names = ", ".join(map(_named, failing[:_NAMED]))
            more = f" and {len(failing) - _NAMED} more" if len(failing) > _NAMED else ""
            yield f"{meaning}: {names}{more}"


def _named(check: LimitCheck) -> str:
    return f"{check.metric.value} of {check.name}"


def _labels(table: ContractTable, window: WindowTable, zone: str) -> Requirement:
    name = f"{table.contract}: the labels of the week are released"
    if window.labelled is None or window.decisions is None:
        return Requirement(name, False, "no labels of the week are released yet")
    late = window.labelled.end < window.decisions.end - DAY
    return Requirement(name, not late, f"up to {moment_text(window.labelled.end, zone)}")


def _pages(release: Release) -> Requirement:
    breaches = [incident for incident in release.incidents if incident.kind is IncidentKind.BREACH]
    open_ids = [f"{breach.id}" for breach in breaches if breach.state not in _OVER]
    if open_ids:
        why = f"without an outcome: {', '.join(open_ids)}"
    else:
        why = f"{len(breaches)} in the week, none without one" if breaches else "there was none"
    return Requirement("every breach of the week has an outcome", not open_ids, why)
