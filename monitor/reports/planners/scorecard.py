"""Scorecard: one line per dimension of the watch, and never one number for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from monitor.core.contract import Metric, Verdict
from monitor.core.publish.annotations import Annotation, Severity
from monitor.core.publish.conclusion import LimitCheck, checks, overall
from monitor.core.publish.lines import places, total_place
from monitor.core.publish.snapshot import ContractTable, WindowTable
from monitor.core.publish.states import VERDICT_OF
from monitor.core.publish.words import percent
from monitor.reports.weekly_report import WeeklyReport

DIMENSIONS = {
    Metric.TPR: "help that comes late: ready replies that are held back (TPR)",
    Metric.FPR: "replies that go out unready (FPR)",
    Metric.BLOCKED: "requests that are blocked",
    Metric.SELECTION: "who is served at once (selection rate)",
}
"""Dimensions that a contract can limit."""


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """Result of one scorecard dimension of a contract: a word, and why.

    Attributes:
        contract: name of the contract; empty for a dimension of the whole service.
        dimension: dimension in words.
        word: pass, fail, inconclusive or insufficient support; other words if nothing is judged.
        why: numbers behind the word.
    """

    contract: str
    dimension: str
    word: str
    why: str


def scorecard(report: WeeklyReport) -> tuple[ScoreLine, ...]:
    """Return a ScoreLine per dimension of every contract, then of the whole service."""
    return tuple(_lines(report))


def _lines(report: WeeklyReport) -> Iterator[ScoreLine]:
    for contract, window in report.windows():
        limit_checks = list(checks(contract, window))
        for metric, dimension in DIMENSIONS.items():
            yield _judged(
                contract, dimension, [check for check in limit_checks if check.metric is metric]
            )
        yield _measured(contract, window)
        yield _labels(contract, window)
    yield _incidents(report)
    yield _drift(report)
    yield _data(report)


def _judged(contract: ContractTable, dimension: str, limit_checks: list[LimitCheck]) -> ScoreLine:
    if not limit_checks:
        return ScoreLine(contract.contract, dimension, "no limit", "the contract sets none")
    tally = Counter(check.verdict for check in limit_checks)
    words = {
        Verdict.FAIL: "outside the limit",
        Verdict.INCONCLUSIVE: "undecided",
        Verdict.INSUFFICIENT_SUPPORT: "not measured",
        Verdict.PASS: "within the limit",
    }
    why = ", ".join(
        f"{tally[verdict]} {meaning}" for verdict, meaning in words.items() if tally[verdict]
    )
    word = overall(check.verdict for check in limit_checks).value.replace("_", " ")
    return ScoreLine(contract.contract, dimension, word, why)


def _measured(contract: ContractTable, window: WindowTable) -> ScoreLine:
    judged = list(checks(contract, window))
    measured = sum(check.verdict is not Verdict.INSUFFICIENT_SUPPORT for check in judged)
    word = (
        "complete" if judged and measured == len(judged) else "in part" if measured else "nothing"
    )
    why = f"{measured} of {len(judged)} checks have enough support"
    return ScoreLine(contract.contract, "how much could be measured", word, why)


def _labels(contract: ContractTable, window: WindowTable) -> ScoreLine:
    complete = total_place(contract, window).row.completeness
    dimension = "labels that were requested and came"
    if complete is None:
        return ScoreLine(contract.contract, dimension, "hidden", "no labels are released")
    behind = sum(
        VERDICT_OF[state] is Verdict.INSUFFICIENT_SUPPORT
        for place in places(contract, window)
        for metric, state in place.row.states.items()
        if metric.labelled
    )
    why = f"{percent(complete)} of all; {behind} labelled rates of slices are not measured"
    return ScoreLine(contract.contract, dimension, "measured", why)


def _incidents(report: WeeklyReport) -> ScoreLine:
    open_counts = Counter(incident.severity for incident in report.release.incidents)
    why = f"{open_counts[Severity.PAGE]} pages and {open_counts[Severity.TICKET]} tickets were open"
    word = "open" if report.release.incidents else "none"
    return ScoreLine("", "incidents of the week", word, why)


def _drift(report: WeeklyReport) -> ScoreLine:
    drifts = sum(finding.annotation is Annotation.DRIFT for finding in report.release.findings)
    other_findings = len(report.release.findings) - drifts
    why = f"{drifts} slices worse than their reference period, {other_findings} other findings"
    return ScoreLine("", "drift", "advice" if drifts + other_findings else "none", why)


def _data(report: WeeklyReport) -> ScoreLine:
    lost, excluded = report.release.data_lost, report.release.excluded
    why = "events may be lost" if lost else "no loss is known"
    why += "; tables are left out" if excluded else "; nothing is left out"
    return ScoreLine("", "data of the week", "in part" if lost or excluded else "complete", why)
