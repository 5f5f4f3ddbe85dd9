"""Report as JUnit XML, which build servers show as tests.

Each requirement, check, support check, flip and excluded pair is one test case. A reason against
the release is a failure, a pair that could not be compared an error. Cases that the data cannot
decide, or that only describe, are skipped. The release is approved exactly if there is no failure
and no error:

=====================  ===============================  =========================================
case                   synthetic set                    reviewed data of real people
=====================  ===============================  =========================================
flip, axis with flips  failure                          skipped: counted, and decides nothing
check                  failure where the point fails    also where the interval does not pass
support missing        skipped: signed for, elsewhere   failure; in the held-out part skipped
=====================  ===============================  =========================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from monitor.audit.audit_report import (
    HELD_OUT,
    AuditReport,
    Check,
    FlipCounts,
    Point,
    ReleaseDecision,
    ShownFlip,
    SupportCheck,
)
from monitor.audit.render import words
from monitor.audit.render.words import CHECKS, CheckFormat, Numbers
from monitor.core.contract import COMPLEMENT, Verdict
from monitor.core.publish.words import NONE, counted
from monitor.present.document import printable

_FAILURE, _ERROR, _SKIPPED = "failure", "error", "skipped"


@dataclass(frozen=True, slots=True)
class _Case:
    """JUnit test case; ``outcome`` is failure, error or skipped, and empty if it passed."""

    name: str
    outcome: str = ""
    kind: str = ""
    message: str = ""


def render(report: AuditReport) -> str:
    """Render the report of an audit as a JUnit XML document."""
    suites = [(name, [*cases]) for name, cases in _suites(report)]
    all_cases = [case for _, cases in suites for case in cases]
    label = " (synthetic)" if report.synthetic else ""
    title = printable(f"slicewatch audit of {report.dataset}{label}")
    root = ET.Element("testsuites", {"name": title} | _totals(all_cases))
    for name, cases in suites:
        root.append(_suite(name, cases, report))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, "unicode")}\n'


def _suites(report: AuditReport) -> Iterator[tuple[str, Iterable[_Case]]]:
    """Yield name and cases of each suite: release, excluded pairs, flips, checks, supports."""
    numbers = Numbers(exact=report.synthetic and report.k == 1)
    yield "release", _requirement_cases(report.decision)
    if report.excluded:
        yield "excluded", (_Case(e.pair, _ERROR, "excluded", e.reason) for e in report.excluded)
    for part in report.judged.parts:
        axes = map(_withheld_axis_case if part.flips_withheld else _axis_case, part.counts)
        yield f"{part.name}.flips", (*map(_flip_case, part.flips), *axes)
        yield (
            f"{part.name}.checks",
            (_check_case(check, report.synthetic) for check in part.checks),
        )
        decides = not report.synthetic and part.name != HELD_OUT
        yield (
            f"{part.name}.supports",
            (_support_case(check, numbers, decides) for check in part.supports),
        )


def _requirement_cases(decision: ReleaseDecision | None) -> Iterator[_Case]:
    """Yield a case for each requirement of a release; one error if nothing was decided."""
    if decision is None:
        yield _Case("decision", _ERROR, "excluded", "pairs are excluded: no decision is made")
        return
    for line in decision.requirements:
        name = line.requirement.value
        yield _Case(name) if line.met else _Case(name, _FAILURE, "missing", line.why)


def _flip_case(flip: ShownFlip) -> _Case:
    sides = " | ".join(f"{v.variant} {words.outcome(v)}" for v in (flip.reference, flip.variant))
    message = f"{sides}; {words.direction(flip)}; {words.stage(flip)}"
    return _Case(f"{flip.pair} {flip.by}", _FAILURE, flip.stage.value, message)


def _axis_case(counts: FlipCounts) -> _Case:
    """Return the test case for all flips of an axis: passed without flips, else a failure."""
    flips = counts.flips + counts.at_gate
    name = _axis_name(counts)
    if not flips:
        return _Case(name)
    return _Case(name, _FAILURE, "flips", counted(flips, "flip"))


def _axis_name(counts: FlipCounts) -> str:
    return f"no flips by {counts.by}, {words.expected(counts.expected_ready)}"


def _withheld_axis_case(counts: FlipCounts) -> _Case:
    """Return the skipped test case of an axis whose flips are not listed."""
    name, flips = _axis_name(counts), max(counts.flips, counts.at_gate)
    if not flips:
        return _Case(name, _SKIPPED, "", "hidden to protect privacy")
    message = f"at least {flips:,} pairs flipped: cases to investigate, which decide no release"
    return _Case(name, _SKIPPED, "", message)


def _check_case(check: Check, synthetic: bool) -> _Case:
    """Return a check as a test case: failed, skipped if nothing is decided, or passed."""
    name = f"{check.name} {_slice_text(check.slice)}"
    if check.against:
        name += f" against {_slice_text(check.against)}"
    message = _check_message(check)
    undecided = check.point in (Point.NONE, Point.BETTER_OFF)
    kept = check.verdict in (Verdict.PASS, Verdict.BETTER_OFF, None)
    if check.point is Point.FAIL or not (kept or synthetic):
        return _Case(name, _FAILURE, check.name, message)
    if not kept or (undecided and (synthetic or check.verdict is not Verdict.PASS)):
        return _Case(name, _SKIPPED, "", message)
    return _Case(name)


def _slice_text(text: str) -> str:
    """Return the slice text with attribute names, or words for the total and the complement."""
    return words.slice_name(text) if text in ("", COMPLEMENT) else text


def _check_message(check: Check) -> str:
    """Return a check in words: limit, point, interval and verdict."""
    write = CheckFormat.for_check(check.name)
    unit = write.unit
    limit = "which is not known" if check.limit is None else f"{write.limit(check.limit)}{unit}"
    value = write.value(check.value)
    clauses = [f"{CHECKS[check.name]} {limit}", _point_clause(check, f"{value}{unit}")]
    if write.bounds(check.lower, check.upper) != NONE:
        clauses.append(f"the interval is {write.bounds(check.lower, check.upper)}{unit}")
    if check.verdict is not None:
        clauses.append(f"by the interval: {check.verdict.value.replace('_', ' ')}")
    return "; ".join(clauses)


def _point_clause(check: Check, value: str) -> str:
    """Return what the point of a check says, with the side that is worse off."""
    if check.value is None:
        return "the point is withheld, or there is none"
    if check.worse_off:
        value += f" ({_slice_text(check.worse_off)} is worse off)"
    if check.point is Point.NONE:
        return f"the point is {value}, which decides nothing"
    return f"the point is {value}: {check.point.value.replace('_', ' ')}"


def _support_case(check: SupportCheck, numbers: Numbers, decides: bool) -> _Case:
    """Return a check of support as a case; a missed one fails only where it ``decides``."""
    name = f"support {check.metric.row.name} {_slice_text(check.slice)}"
    if check.met:
        return _Case(name)
    support = numbers.support(check.support)
    support_note = "too few to be shown" if support == NONE else f"{support} found"
    message = f"{check.needed:,} needed, {support_note}"
    if decides:
        return _Case(name, _FAILURE, "support", message)
    return _Case(name, _SKIPPED, "", f"{message}; it decides nothing here")


def _suite(name: str, cases: list[_Case], report: AuditReport) -> ET.Element:
    """Return a test suite as XML, with the properties of the audit and its notes as output."""
    suite = ET.Element(
        "testsuite", {"name": f"slicewatch.audit.{name}", "time": "0", **_totals(cases)}
    )
    properties = ET.SubElement(suite, "properties")
    for key, value in _properties(report):
        ET.SubElement(properties, "property", name=key, value=printable(value))
    for case in cases:
        suite.append(_element(name, case))
    ET.SubElement(suite, "system-out").text = "\n".join(report.notes)
    return suite


def _properties(report: AuditReport) -> Iterator[tuple[str, str]]:
    yield "dataset", report.dataset
    yield "digest", report.digest
    yield "results_digest", report.results_digest
    yield "made", f"on {report.made_on.isoformat()} by {report.program}"
    yield "contract", report.contract
    yield "judged", report.judged.title
    yield "versions", "; ".join(map(words.versions, report.judged.versions))
    yield "thresholds", ", ".join(map(words.number, report.judged.thresholds))
    for line in report.decision.limits if report.decision else ():
        yield f"{line.role.value} {line.metric.value}", line.verdict.value
    yield "synthetic", "true" if report.synthetic else "false"


def _element(suite: str, case: _Case) -> ET.Element:
    name = printable(case.name)
    element = ET.Element("testcase", classname=f"slicewatch.audit.{suite}", name=name, time="0")
    if case.outcome:
        outcome = ET.SubElement(element, case.outcome, message=printable(case.message))
        if case.kind:
            outcome.set("type", case.kind)
            outcome.text = printable(case.message)
    return element


def _totals(cases: list[_Case]) -> dict[str, str]:
    counts = {"failures": _FAILURE, "errors": _ERROR, "skipped": _SKIPPED}
    by_outcome = {key: sum(c.outcome == outcome for c in cases) for key, outcome in counts.items()}
    return {key: str(count) for key, count in {"tests": len(cases), **by_outcome}.items()}
