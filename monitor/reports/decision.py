"""The release decision of a week: APPROVED where every requirement is met, else BLOCKED.

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
"""Number of checks that are named; the tables list the others."""
_OVER = (Stand.CLOSED, Stand.RESOLVED, Stand.ACCEPTED)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement of an approval.

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
    """The decision on a week, by its requirements."""

    requirements: tuple[Requirement, ...]

    @property
    def approved(self) -> bool:
        """True when every requirement is met."""
        return all(one.met for one in self.requirements)

    @property
    def word(self) -> str:
        """APPROVED or BLOCKED."""
        return "APPROVED" if self.approved else "BLOCKED"

    @property
    def sentence(self) -> str:
        """The same in a sentence."""
        of = len(self.requirements)
        missing = sum(not one.met for one in self.requirements)
        if not missing:
            return f"All {of} requirements are met."
        return f"{missing} of {of} requirements {'is' if missing == 1 else 'are'} missing."


def decide(release: Release, zone: str = UTC_ZONE) -> WeekDecision:
    """The decision on a Release; times in the words are of a time zone."""
    return WeekDecision(tuple(_requirements(release, zone)))


def _requirements(release: Release, zone: str) -> Iterator[Requirement]:
    for table, window in of_release(release):
        yield from _of_contract(table, window, zone)
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


def _of_contract(table: ContractTable, window: WindowTable, zone: str) -> Iterator[Requirement]:
    found = list(checks(table, window))
    name = f"{table.contract}: every check is within its limit"
    yield Requirement(
        name,
        bool(found) and all(one.verdict is Verdict.PASS for one in found),
        "; ".join(_faults(found)) or f"all {len(found)} are",
    )
    if any(metric.labelled for metric in limited(table)):
        yield _labels(table, window, zone)


def _faults(found: Sequence[LimitCheck]) -> Iterator[str]:
    if not found:
        yield "there is nothing to check"
    for verdict, said in (
        (Verdict.FAIL, "outside the limit"),
        (Verdict.INCONCLUSIVE, "undecided"),
        (Verdict.INSUFFICIENT_SUPPORT, "not measured"),
    ):
        some = [one for one in found if one.verdict is verdict]
        if some:
            names = ", ".join(map(_named, some[:_NAMED]))
            more = f" and {len(some) - _NAMED} more" if len(some) > _NAMED else ""
            yield f"{said}: {names}{more}"


def _named(check: LimitCheck) -> str:
    return f"{check.metric.value} of {check.name}"


def _labels(table: ContractTable, window: WindowTable, zone: str) -> Requirement:
    name = f"{table.contract}: the labels of the week are released"
    if window.labelled is None or window.decisions is None:
        return Requirement(name, False, "no labels of the week are released yet")
    late = window.labelled.end < window.decisions.end - DAY
    return Requirement(name, not late, f"up to {moment_text(window.labelled.end, zone)}")


def _pages(release: Release) -> Requirement:
    breaches = [one for one in release.incidents if one.kind is IncidentKind.BREACH]
    open_ = [f"{one.id}" for one in breaches if one.state not in _OVER]
    if open_:
        why = f"without an outcome: {', '.join(open_)}"
    else:
        why = f"{len(breaches)} in the week, none without one" if breaches else "there was none"
    return Requirement("every breach of the week has an outcome", not open_, why)
