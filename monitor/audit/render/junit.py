"""The report as JUnit XML, which build servers show as tests.

One test case stands for each requirement, check, support check, flip and excluded pair. What the
data cannot decide is skipped; what is wrong is a failure; a pair that could not be compared is an
error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from monitor.audit.render import words
from monitor.audit.render.words import CHECKS, METRICS, Numbers, printable
from monitor.audit.report import (
    FLIP_SENTENCE,
    SYNTHETIC_SENTENCE,
    AuditReport,
    Check,
    Decision,
    FlipCounts,
    Part,
    Point,
    ShownFlip,
    SupportCheck,
)
from monitor.core.contract import Verdict

_FAILURE, _ERROR, _SKIPPED = "failure", "error", "skipped"


@dataclass(frozen=True, slots=True)
class _Case:
    """One test case; ``outcome`` is empty where it passed."""

    name: str
    outcome: str = ""
    kind: str = ""
    message: str = ""


def render(report: AuditReport) -> str:
    """The XML document."""
    suites = [(name, [*cases]) for name, cases in _suites(report)]
    every = [case for _, cases in suites for case in cases]
    root = ET.Element("testsuites", {"name": _title(report)} | _totals(every))
    for name, cases in suites:
        root.append(_suite(name, cases, report))
    ET.indent(root)
    return _DECLARATION + ET.tostring(root, "unicode") + "\n"


_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'


def _title(report: AuditReport) -> str:
    label = " (synthetic)" if report.synthetic else ""
    return printable(f"slicewatch audit of {report.dataset}{label}")


def _suites(report: AuditReport) -> Iterator[tuple[str, Iterable[_Case]]]:
    numbers = Numbers(exact=report.synthetic and report.k == 1)
    yield "release", _requirements(report.decision)
    if report.excluded:
        yield "excluded", (_Case(e.pair, _ERROR, "excluded", e.reason) for e in report.excluded)
    for part in report.judged.parts:
        yield f"{part.name}.flips", _flips(part)
        yield f"{part.name}.checks", _checks(part, numbers)


def _requirements(decision: Decision | None) -> Iterator[_Case]:
    if decision is None:
        yield _Case("decision", _ERROR, "excluded", "pairs are excluded: no decision is made")
        return
    for line in decision.requirements:
        name = line.requirement.value
        yield _Case(name) if line.met else _Case(name, _FAILURE, "missing", line.why)


def _flips(part: Part) -> Iterator[_Case]:
    yield from map(_flip, part.flips)
    yield from map(_withheld if part.flips_withheld else _exact, part.counts)


def _flip(flip: ShownFlip) -> _Case:
    sides = " | ".join(f"{v.variant} {words.outcome(v)}" for v in (flip.reference, flip.variant))
    message = f"{sides}; {words.direction(flip)}; {words.stage(flip)}"
    return _Case(f"{flip.pair} {flip.by}", _FAILURE, flip.stage.value, message)


def _exact(counts: FlipCounts) -> _Case:
    """An axis as a whole; its flips are cases of their own."""
    flips = counts.flips + counts.at_gate
    name = f"no flips by {counts.by}"
    return _Case(name, _FAILURE, "flips", f"{flips:,} flips") if flips else _Case(name)


def _withheld(counts: FlipCounts) -> _Case:
    """Where no flip is listed, few of them cannot be told from none."""
    name, flips = f"no flips by {counts.by}", max(counts.flips, counts.at_gate)
    if not flips:
        return _Case(name, _SKIPPED, "", "too few comparisons or flips to be shown")
    return _Case(name, _FAILURE, "flips", f"at least {flips:,} flips, counted and not listed")


def _checks(part: Part, numbers: Numbers) -> Iterator[_Case]:
    for check in part.checks:
        yield _check(check, numbers)
    for support in part.supports:
        yield _support(support, numbers)


def _check(check: Check, numbers: Numbers) -> _Case:
    against = f" against {check.against}" if check.against else ""
    name = f"{check.name} {check.slice or words.ALL}{against}"
    message = _explained(check, numbers)
    if Point.FAIL is check.point or check.verdict is Verdict.FAIL:
        return _Case(name, _FAILURE, check.name, message)
    if check.point is Point.NONE or check.verdict is Verdict.INSUFFICIENT_SUPPORT:
        return _Case(name, _SKIPPED, "", message)
    return _Case(name)


def _explained(check: Check, numbers: Numbers) -> str:
    gap = check.name.endswith("_gap")
    write = numbers.points if gap else numbers.rate
    bounds = numbers.points_interval if gap else numbers.interval
    unit = " points" if gap else ""
    interval = check.verdict.value if check.verdict is not None else words.NOTHING
    return (
        f"{CHECKS[check.name]} {write(check.limit)}{unit}: {write(check.value)}{unit}"
        f" ({check.point.value} by the point), interval {bounds(check.lower, check.upper)}{unit}"
        f" ({interval} by the interval)"
    )


def _support(check: SupportCheck, numbers: Numbers) -> _Case:
    name = f"support {METRICS[check.metric]} {check.slice or words.ALL}"
    message = f"{numbers.support(check.support)}, and {check.needed:,} are needed"
    return _Case(name) if check.met else _Case(name, _FAILURE, "support", message)


def _suite(name: str, cases: list[_Case], report: AuditReport) -> ET.Element:
    suite = ET.Element(
        "testsuite", {"name": f"slicewatch.audit.{name}", "time": "0", **_totals(cases)}
    )
    properties = ET.SubElement(suite, "properties")
    for key, value in _properties(report):
        ET.SubElement(properties, "property", name=key, value=printable(value))
    for case in cases:
        suite.append(_element(name, case))
    ET.SubElement(suite, "system-out").text = _notes(report)
    return suite


def _properties(report: AuditReport) -> Iterator[tuple[str, str]]:
    yield "dataset", report.dataset
    yield "digest", report.digest
    yield "contract", report.contract
    yield "judged", report.judged.title
    yield "versions", "; ".join(map(words.versions, report.judged.versions))
    yield "thresholds", ", ".join(map(words.number, report.judged.thresholds))
    yield "synthetic", "true" if report.synthetic else "false"


def _notes(report: AuditReport) -> str:
    notes = [SYNTHETIC_SENTENCE, FLIP_SENTENCE] if report.synthetic else [FLIP_SENTENCE]
    return "\n".join(notes)


def _element(suite: str, case: _Case) -> ET.Element:
    name = printable(case.name)
    element = ET.Element("testcase", classname=f"slicewatch.audit.{suite}", name=name, time="0")
    if case.outcome:
        said = ET.SubElement(element, case.outcome, message=printable(case.message))
        if case.kind:
            said.set("type", case.kind)
            said.text = printable(case.message)
    return element


def _totals(cases: list[_Case]) -> dict[str, str]:
    counts = {"failures": _FAILURE, "errors": _ERROR, "skipped": _SKIPPED}
    by_outcome = {key: sum(c.outcome == outcome for c in cases) for key, outcome in counts.items()}
    return {key: str(count) for key, count in {"tests": len(cases), **by_outcome}.items()}
