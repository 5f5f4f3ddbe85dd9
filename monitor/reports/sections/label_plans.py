"""Labels of each slice: what this week could find, what would turn it, what to audit next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from monitor.core.metric import Metric
from monitor.core.publish.words import NONE, distance, percent
from monitor.present.document import Section, TableCell, Tone
from monitor.reports.planned import planned
from monitor.reports.planners.detectable import DetectableLine
from monitor.reports.planners.label_budget import BudgetLine
from monitor.reports.planners.published_rates import Named
from monitor.reports.planners.tipping_point import TippingLine
from monitor.reports.sections.names import listed, name_of
from monitor.reports.weekly_report import WeeklyReport

_COLUMNS = (
    "slice|metric|smallest gap found, points|verdict turns at, worst case"
    "|verdict turns at, even errors|audit next week|audits"
)
_Key = tuple[Named, Metric]
_Line = TypeVar("_Line", DetectableLine, TippingLine, BudgetLine)


def labels(report: WeeklyReport) -> Section:
    """Return a section with a row per slice and labelled rate, from three planners."""
    lines = planned(report)
    smallest = _by_key(lines.detectable_gaps)
    tipping, budget = _by_key(lines.tipping_points), _by_key(lines.label_budget)
    keys = dict.fromkeys([*budget, *smallest, *tipping])
    width = distance(report.facts.interval_width)
    sentence = (
        "Smallest gap found: a week like this one finds it in four weeks of five; smaller gaps are"
        " mostly overlooked. Verdict turns: the smallest share of missing or wrong labels that"
        f" changes it. Audit: the share of served replies for an interval of {width} points, end to"
        " end (audit_p)."
    )
    rows = (
        (
            name_of(report, key[0]),
            key[1].value,
            _value(smallest.get(key), _smallest),
            _value(tipping.get(key), lambda line: _share(line.worst_case)),
            _value(tipping.get(key), lambda line: _share(line.even)),
            _value(budget.get(key), _audit_share),
            _value(budget.get(key), _audits),
        )
        for key in keys
    )
    names = "detectable_gaps, tipping_points and label_budget"
    return listed(_COLUMNS, rows, sentence, names)


def _by_key(lines: Iterable[_Line]) -> dict[_Key, _Line]:
    return {(line.of, line.metric): line for line in lines}


def _value(line: _Line | None, text: Callable[[_Line], str | TableCell]) -> str | TableCell:
    return NONE if line is None else text(line)


def _smallest(line: DetectableLine) -> str | TableCell:
    return TableCell("none", Tone.UNSURE) if line.gap is None else distance(line.gap)


def _share(share: float | None) -> str:
    return "never" if share is None else percent(share)


def _audit_share(line: BudgetLine) -> str | TableCell:
    if line.share is not None:
        return percent(line.share)
    narrowest = distance(line.narrowest)
    return TableCell(f"not enough: {narrowest} points at best", Tone.UNSURE)


def _audits(line: BudgetLine) -> str:
    return NONE if line.audits is None else f"about {line.audits:,}"
