"""Page two, what a report cannot say, and declared facts, incidents and findings of the annex."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.core.publish.conclusion import limited
from monitor.core.publish.glossary import FINDINGS, slice_name
from monitor.core.publish.limit_words import limits_text, needed_text, own_limits_text
from monitor.core.publish.lines import hidden_rates
from monitor.core.publish.snapshot import ContractTable, GroupTable, WindowTable, periods, tables_of
from monitor.core.publish.words import NONE
from monitor.present.document import Section, Table, table
from monitor.reports.facts import UseCaseFacts
from monitor.reports.first_page import incident_row
from monitor.reports.weekly_report import WeeklyReport


def use_cases(report: WeeklyReport) -> Section:
    """Return a section with a table per contract: version, limits and context as declared."""
    facts = {use_case.name: use_case for use_case in report.facts.use_cases}
    tables: list[Table] = []
    for contract, _ in report.windows():
        rows = [*_contract(contract), *_declared(facts.get(contract.contract), contract)]
        tables += table("what|as declared", rows, contract.contract)
    return Section(tables=tuple(tables))


def _contract(contract: ContractTable) -> Iterator[tuple[str, str]]:
    """Yield name and text of what a contract says: limits, roles, own limits and needed support."""
    yield "contract version", contract.version
    yield "owner", contract.owner
    for metric in limited(contract):
        role = "primary metric" if metric is contract.primary else "guardrail"
        usual = limits_text(contract.limits_of("", "", metric))
        yield f"{role}: {metric.row.heading}", usual or "none for all slices"
        for name, text in own_limits_text(contract, metric):
            yield f"in its place, for {name} ({metric.value})", text
    for metric in limited(contract):
        yield f"{metric.value} needs", needed_text(contract, metric)


def _declared(facts: UseCaseFacts | None, contract: ContractTable) -> Iterator[tuple[str, str]]:
    """Yield name and text of what the settings now say of a contract, such as its reason."""
    if facts is None:
        yield "in the settings", "this contract is not there any more"
        return
    if facts.version != contract.version:
        yield "in the settings", f"version {facts.version}; this week is judged by the other one"
    else:
        yield "holds since", facts.effective.isoformat()
        yield "made because", facts.reason
    for name, text in (("context", facts.context), ("decisions with", facts.where)):
        if text:
            yield name, text
    for group_by, reference in facts.compared:
        yield f"slices by {group_by}", f"compared with {slice_name(reference)}"


def attributes(report: WeeklyReport) -> Section:
    """Return a section that lists attributes with values, definition, source and purpose."""
    rows = (
        (
            f"{attribute.name} (special category)"
            if attribute.special_category
            else attribute.name,
            ", ".join(attribute.values),
            attribute.definition or "not given",
            attribute.source,
            attribute.purpose or "not given",
            attribute.approved_by or "nobody is named",
        )
        for attribute in report.facts.attributes
    )
    return Section(tables=table("attribute|values|definition|source|purpose|approved by", rows))


def findings(report: WeeklyReport) -> Section:
    """Return a section that lists the week's advisory findings, such as drift."""
    rows = (
        (
            finding.contract,
            slice_name(finding.slice),
            finding.metric.value if finding.metric else NONE,
            FINDINGS[finding.annotation],
            report.moment(finding.latest),
        )
        for finding in report.release.findings
    )
    tables = table("contract|slice|rate|what|in data to", rows)
    notes = ("Findings are advice: they neither page nor decide.",) if tables else ()
    return Section(notes=notes, tables=tables)


def incidents(report: WeeklyReport) -> Section:
    """Return a section that lists incidents open in the week, with state and outcome."""
    rows = (
        (
            *incident_row(report, incident),
            incident.severity.value if incident.severity else NONE,
            incident.outcome.words if incident.outcome else NONE,
            NONE if incident.resolved_at is None else report.moment(incident.resolved_at),
        )
        for incident in report.release.incidents
    )
    columns = "incident|contract|metric|slice|since|state|kind|outcome|resolved"
    return Section(tables=table(columns, rows))


def lost(report: WeeklyReport) -> Section:
    """Return a section that lists excluded or lost data by contract, fault and period."""
    rows = [
        (contract.contract, part_table.group_by or "all decisions", fault, span)
        for contract, window in report.windows()
        for part_table in tables_of(window)
        for fault, span in _faults(report, part_table)
    ]
    return Section(tables=table("contract|of|what|in", rows))


def _faults(
    report: WeeklyReport, part_table: WindowTable | GroupTable
) -> Iterator[tuple[str, str]]:
    """Yield the spans of a table in which events are lost or left out."""
    for period in periods(part_table):
        span = f"{report.moment(period.start)} to {report.moment(period.end)}"
        if period.data_lost:
            yield "events are lost, or may be", span
        if period.excluded:
            yield "declared bad, and left out", span


def cannot_say(report: WeeklyReport) -> Section:
    """Return page two: limits of the method, hidden numbers, and known limitations."""
    rows = ((limitation.text, limitation.owner) for limitation in report.facts.limitations)
    notes = (*METHOD, _sampling(report), *_hidden(report))
    return Section(notes=notes, tables=table("known limitation|owner", rows))


def _sampling(report: WeeklyReport) -> str:
    return (
        "Rates weight each label by the decisions of its route and audit rate. A label that comes"
        f" after {report.facts.horizon_days:g} days does not count."
    )


def _hidden(report: WeeklyReport) -> Iterator[str]:
    """Yield a sentence per contract that counts its hidden numbers."""
    for contract, window in report.windows():
        listed, hidden = hidden_rates(contract, window)
        if not hidden:
            continue
        yield (
            f"{report.named(contract)}{hidden} of {listed} rates are hidden to protect"
            f" privacy. Fewer than {contract.k} decisions or labels are behind each, or it would"
            " give away another one. We do not say which."
        )


METHOD = (
    "Ready is the reviewers' judgement. Where reviewers err, rates are wrong.",
    "Missing labels are assumed to be missing at random within a route and audit rate.",
    "Intervals are widened where requests of one unit are alike. Other decisions are assumed to be"
    " independent.",
    "A limit is its owner's decision. A gap within it can still be wrong; one beyond it can have a"
    " reason.",
    "Only declared attributes are compared. People who never send a request are in no rate.",
    "95 % intervals hold together within one group-by, not across group-bys, contracts or weeks.",
    "A slice that is judged every week is over its limit by chance at some time. Incidents bound"
    " that, weekly verdicts do not.",
    "No verdict says that there is no gap. The annex has the smallest gap that this week could"
    " find.",
    "A slice with a hidden number has no row in the tables of the annex that need it.",
    "A blocked request gets no label, so TPR and FPR say nothing about it.",
    "Rates describe decisions, not persons, and explain no cause.",
    "The status page has the flips of matched probes, and the access log who read numbers. Blind"
    " reviews and the thresholds in use are not measured.",
)
"""Limits of the method and of this report."""
