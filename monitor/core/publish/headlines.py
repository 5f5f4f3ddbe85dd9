"""Sentences on the verdict of a contract and on an incident."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from monitor.core.contract import Verdict
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Behind
from monitor.core.publish.conclusion import checks, overall
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.incident_reports import ValueReport
from monitor.core.publish.limit_words import breach_text, limit_text
from monitor.core.publish.lines import SliceLine
from monitor.core.publish.snapshot import WITHHELD, ContractTable, ShownGap, ShownLimit, WindowTable
from monitor.core.publish.words import bounds, gap_text, moment_text, percent
from monitor.core.rates.gap_words import said_of_slice


@dataclass(frozen=True, slots=True)
class Headline:
    """Verdict at the top of a page or contract: a word and a sentence.

    Attributes:
        word: a verdict, or ``blind``.
        sentence: the same in plain words.
    """

    word: str
    sentence: str


def contract_headline(
    table: ContractTable, window: WindowTable, slices: Sequence[SliceLine]
) -> Headline:
    """Return the verdict on a contract in a window; ``slices`` are its lines, the worst first."""
    judged_checks = list(checks(table, window))
    tally = Counter(check.verdict for check in judged_checks)
    verdict = overall(check.verdict for check in judged_checks)
    if verdict is Verdict.FAIL:
        failing = {
            (check.metric, check.slice) for check in judged_checks if check.verdict is verdict
        }
        return Headline(verdict, f"{_worst_failure(slices, failing)}.")
    if verdict is Verdict.PASS:
        return Headline(verdict, "All checks are within their limits.")
    if not judged_checks:
        return Headline(verdict, "Nothing can be checked yet.")
    undecided = len(judged_checks) - tally[Verdict.PASS]
    sentence = f"No limit is broken; undecided checks: {undecided} of {len(judged_checks)}."
    return Headline(verdict, sentence)


def _worst_failure(slices: Sequence[SliceLine], failing: Collection[tuple[Metric, str]]) -> str:
    """Return the first failing metric of the worst slice in words; ``slices`` come worst first."""
    for slice_line in slices:
        for cell in slice_line.cells:
            if (cell.metric, slice_line.slice) in failing:
                return breach_text(slice_line.slice, cell)
    return "a check fails"


def incident_sentence(
    metric: Metric, slice_: str, behind: Behind | None, limit: ShownLimit | None
) -> str:
    """Return a sentence on the gap of an incident, with the broken limit."""
    broken = "" if limit is None else f" (limit: {limit_text(limit)})"
    name = slice_name(slice_)
    if slice_ == WITHHELD:
        return f"a slice hidden to protect privacy is over its limit: {metric.row.event}"
    if behind in (Behind.SLICE, Behind.REFERENCE):
        comparison = said_of_slice(metric, 1 if behind is Behind.SLICE else -1)
        return f"{name}: {comparison} than for its reference{broken}"
    return f"{name}: {metric.row.event}, outside the limit{broken}"


def value_text(behind: Behind | None, evidence: ValueReport) -> str:
    """Return a gap in points, or a rate if its level is broken, with bounds and time of data."""
    data_end = f"in data to {moment_text(evidence.at)}"
    if behind is Behind.LEVEL:
        interval = bounds(evidence.lower, evidence.upper)
        return f"{percent(evidence.value)} [{interval}], {data_end}"
    gap = ShownGap("", evidence.value, evidence.lower, evidence.upper)
    return f"gap {gap_text(gap)} points, {data_end}"
