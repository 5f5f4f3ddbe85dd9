"""Sections of an audit, in the order in which people should read them.

This module decides, once, what terminal, HTML and Markdown show; they decide how it looks.
"""

from __future__ import annotations

from collections.abc import Iterator

from monitor.audit.audit_report import (
    SYNTHETIC_SENTENCE,
    AuditReport,
    Comparison,
    Part,
    ReleaseDecision,
    Run,
)
from monitor.audit.render import part_sections
from monitor.audit.render.words import PARTS, Numbers, number, slice_name, versions
from monitor.core.contract import Role
from monitor.core.metric import Metric
from monitor.core.publish.words import NONE, bounded_rate_text, counted
from monitor.present.document import (
    Brief,
    Document,
    Section,
    TableCell,
    Tone,
    mark,
    printable,
    table,
)

_LIMITATIONS = (
    "How often: pairs are chosen to find faults, so no flip is no proof.",
    "What was not varied, and whether the reviewers are right.",
    "What happens to real requests: only monitoring sees that.",
)


def document(report: AuditReport) -> Document:
    """Lay out a report as a document of sections, for any renderer."""
    word, tone = _word(report.decision)
    return Document(
        title=printable(f"Matched-pair audit of {report.dataset}"),
        word=word,
        tone=tone,
        verdict=verdict(report),
        counts=" ".join(_flips(part, _numbers(report)) for part in report.judged.parts),
        banner=SYNTHETIC_SENTENCE if report.synthetic else "",
        facts=tuple((name, printable(value)) for name, value in _facts(report)),
        sections=(*_sections(report), _decision(report)),
        folded="Versions, rates, support, calibration, what to try",
    )


def _word(decision: ReleaseDecision | None) -> tuple[str, Tone]:
    if decision is None:
        return "COULD NOT EVALUATE", Tone.UNSURE
    return decision.word, Tone.GOOD if decision.approved else Tone.BAD


def verdict(report: AuditReport) -> str:
    """Return the release decision of a report as one or several sentences."""
    decision = report.decision
    if decision is None:
        return (
            f"No release decision: {counted(len(report.excluded), 'pair')} excluded;"
            " repair the set first."
        )
    if decision.approved:
        return (
            f"The {report.judged.title} is approved: all requirements are met.{_limits(decision)}"
        )
    missing, total = len(decision.missing), len(decision.requirements)
    are = "is" if missing == 1 else "are"
    sentence = (
        f"The {report.judged.title} is blocked: {missing} of {total} requirements {are} missing."
    )
    return sentence + _limits(decision)


_ROLES = {Role.PRIMARY: "Primary metric", Role.GUARDRAIL: "Guardrail"}


def _limits(decision: ReleaseDecision) -> str:
    """Return one sentence per limited metric, joined in one text: role, metric and verdict."""
    return "".join(
        f" {_ROLES[line.role]} {line.metric.row.name}: {line.verdict.value.replace('_', ' ')}."
        for line in decision.limits
    )


def _flips(part: Part, numbers: Numbers) -> str:
    name = PARTS[part.name]
    if part.flips_withheld:
        return (
            f"{name}: {numbers.counted(part.pairs, 'compared pair')}, whose flips are not listed."
        )
    flips = counted(len(part.flips), "flip") if part.flips else "no flip"
    return f"{name}: {flips} in {numbers.counted(part.pairs, 'compared pair')}."


def _facts(report: AuditReport) -> Iterator[tuple[str, str]]:
    """Yield name and value of what an audit was: set, hashes, contract, versions and sizes."""
    yield "set", report.dataset
    yield "kind", "synthetic" if report.synthetic else "reviewed data of real people, guarded"
    yield "content hash", report.digest
    yield "results hash", report.results_digest
    yield "made", f"on {report.made_on.isoformat()} by {report.program}"
    yield "contract", report.contract
    yield "judged", report.judged.title
    for run in filter(None, (report.baseline, report.candidate)):
        yield f"{run.title}: versions", "; ".join(map(versions, run.versions)) or NONE
        yield f"{run.title}: thresholds", ", ".join(map(number, run.thresholds)) or NONE
    numbers = _numbers(report)
    sizes = (
        f"{numbers.counted(part.pairs, 'pair')} in the {PARTS[part.name].lower()}"
        for part in report.judged.parts
    )
    yield "compared", "; ".join(sizes)
    yield "excluded", counted(len(report.excluded), "pair") if report.excluded else "no pair"
    yield "smallest cell shown", f"{report.k:,}"


def _numbers(report: AuditReport) -> Numbers:
    return Numbers(exact=report.synthetic and report.k == 1)


def _sections(report: AuditReport) -> Iterator[Section]:
    """Yield the sections: regression part, comparison, held-out part, training data."""
    numbers = _numbers(report)
    regression, *more_parts = report.judged.parts
    if report.excluded:
        yield _excluded(report)
    yield from part_sections.sections(regression, numbers)
    if report.candidate is not None:
        if report.comparison is not None:
            yield _comparison(report.comparison, "Candidate and baseline")
        yield _side_by_side(report.baseline, report.candidate, numbers)
        yield part_sections.flips(report.baseline.parts[0], "The baseline's flips", Brief.NOTHING)
    for part in more_parts:
        prefix = f"{PARTS[part.name]}: "
        yield from part_sections.sections(part, numbers, prefix)
        if report.held_out_comparison is not None:
            yield _comparison(report.held_out_comparison, f"{prefix}Candidate and baseline")
    if report.training is not None:
        yield from part_sections.training_sections(report.training)
    yield Section("What no audit says", _LIMITATIONS)


def _excluded(report: AuditReport) -> Section:
    note = "Not compared; while there is any, no release decision is made."
    rows = ((exclusion.pair, exclusion.reason) for exclusion in report.excluded)
    pairs = table("pair|why, and what to do", rows)
    return Section("Excluded pairs", (note,), pairs, Brief.ALL)


def _comparison(comparison: Comparison, title: str) -> Section:
    """Return the section of pairs that the candidate repairs, breaks or leaves failing."""
    lines = (
        ("repaired", comparison.repaired, Tone.GOOD),
        ("still failing", comparison.still_failing, Tone.BAD),
        ("newly failing", comparison.newly_failing, Tone.BAD),
        ("ready, and newly held back", comparison.newly_held_back, Tone.BAD),
        ("not ready, and newly served", comparison.newly_served, Tone.BAD),
    )
    rows = (
        (
            name,
            f"{len(pairs):,}",
            TableCell(", ".join(pairs) or "none", tone if pairs else Tone.PLAIN),
        )
        for name, pairs, tone in lines
    )
    return Section(
        title,
        (comparison.sentence,) if comparison.sentence else (),
        table("on the same pairs|how many|which", rows),
        Brief.ALL,
    )


def _side_by_side(baseline: Run, candidate: Run, numbers: Numbers) -> Section:
    """Return the section with TPR and FPR of each slice in both regression parts."""
    before = {(line.group_by, line.slice): line for line in baseline.parts[0].slices}
    after = {(line.group_by, line.slice): line for line in candidate.parts[0].slices}
    rows = (
        (
            key[0] or NONE,
            slice_name(key[1]),
            *(
                bounded_rate_text(lines[key].rates.get(metric), "\n") if key in lines else NONE
                for metric in (Metric.TPR, Metric.FPR)
                for lines in (before, after)
            ),
        )
        for key in {**before, **after}
    )
    names = "|".join(
        f"{metric.row.name}, {run.title}"
        for metric in (Metric.TPR, Metric.FPR)
        for run in (baseline, candidate)
    )
    return Section("Slices of both", (), table(f"by|slice|{names}", rows))


def _decision(report: AuditReport) -> Section:
    lines = report.decision.requirements if report.decision is not None else ()
    rows = (
        (
            line.requirement.value,
            mark(line.met, "met", "MISSING"),
            line.by or NONE,
            line.at.isoformat() if line.at is not None else NONE,
            line.why,
        )
        for line in lines
    )
    columns = "requirement|state|by|on|why"
    return Section("Release decision", (verdict(report),), table(columns, rows), Brief.FIRST)
