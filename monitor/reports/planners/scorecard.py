"""The scorecard: one line for each dimension of what was watched, and never one number for all."""

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
    """One dimension.

    Attributes:
        contract: name; empty for what is of all of them.
        dimension: in words.
        word: pass, fail, inconclusive or insufficient support; other words where nothing is judged.
        why: what was found.
    """

    contract: str
    dimension: str
    word: str
    why: str


def scorecard(report: WeeklyReport) -> tuple[ScoreLine, ...]:
    """Every dimension of every contract, and those that are of the service as a whole."""
    return tuple(_lines(report))


def _lines(report: WeeklyReport) -> Iterator[ScoreLine]:
    for contract, window in report.windows():
        found = list(checks(contract, window))
        for metric, dimension in DIMENSIONS.items():
            yield _judged(contract, dimension, [one for one in found if one.metric is metric])
        yield _measured(contract, window)
        yield _labels(contract, window)
    yield _incidents(report)
    yield _drift(report)
    yield _data(report)


def _judged(contract: ContractTable, dimension: str, found: list[LimitCheck]) -> ScoreLine:
    if not found:
        return ScoreLine(contract.contract, dimension, "no limit", "the contract sets none")
    tally = Counter(one.verdict for one in found)
    words = {
        Verdict.FAIL: "outside the limit",
        Verdict.INCONCLUSIVE: "undecided",
        Verdict.INSUFFICIENT_SUPPORT: "not measured",
        Verdict.PASS: "within the limit",
    }
    why = ", ".join(f"{tally[verdict]} {said}" for verdict, said in words.items() if tally[verdict])
    word = overall(one.verdict for one in found).value.replace("_", " ")
    return ScoreLine(contract.contract, dimension, word, why)


def _measured(contract: ContractTable, window: WindowTable) -> ScoreLine:
    found = list(checks(contract, window))
    known = sum(one.verdict is not Verdict.INSUFFICIENT_SUPPORT for one in found)
    word = "complete" if found and known == len(found) else "in part" if known else "nothing"
    why = f"{known} of {len(found)} checks have enough support"
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
    sent = Counter(one.severity for one in report.release.incidents)
    why = f"{sent[Severity.PAGE]} pages and {sent[Severity.TICKET]} tickets were open"
    word = "open" if report.release.incidents else "none"
    return ScoreLine("", "incidents of the week", word, why)


def _drift(report: WeeklyReport) -> ScoreLine:
    number = sum(one.annotation is Annotation.DRIFT for one in report.release.findings)
    others = len(report.release.findings) - number
    why = f"{number} slices worse than their reference period, {others} other findings"
    return ScoreLine("", "drift", "advice" if number + others else "none", why)


def _data(report: WeeklyReport) -> ScoreLine:
    lost, excluded = report.release.data_lost, report.release.excluded
    why = "events may be lost" if lost else "no loss is known"
    why += "; tables are left out" if excluded else "; nothing is left out"
    return ScoreLine("", "data of the week", "in part" if lost or excluded else "complete", why)
