"""Background to the numbers: use cases, labels, incidents, privacy, method."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from monitor.core.contract import State
from monitor.core.publish.conclusion import limited
from monitor.core.publish.glossary import FINDINGS, TERMS, slice_name
from monitor.core.publish.limit_words import limits_text, needed_text, own_limits_text
from monitor.core.publish.lines import places, total_place
from monitor.core.publish.snapshot import ContractTable, GroupTable, WindowTable, periods, tables_of
from monitor.core.publish.words import NONE, percent
from monitor.core.time import MINUTE, to_datetime
from monitor.drawing.tables import TableCell, Tone, mark, table
from monitor.reports.decision import decide
from monitor.reports.facts import UseCaseFacts
from monitor.reports.layout import Section, Titled, titled
from monitor.reports.weekly_report import WeeklyReport


def use_cases(report: WeeklyReport) -> Section:
    """Return a section with a table per contract: version, limits and context as declared."""
    facts = {use_case.name: use_case for use_case in report.facts.use_cases}
    tables: list[Titled] = []
    for contract, _ in report.windows():
        rows = [*_contract(contract), *_declared(facts.get(contract.contract), contract)]
        tables += titled(table("what|as declared", rows), contract.contract)
    why = ("The Release has no contract.",) if not tables else ()
    return Section(why, tuple(tables))


def _contract(contract: ContractTable) -> Iterator[tuple[str, str]]:
    yield "contract version", contract.version
    yield "owner", contract.owner
    for metric in limited(contract):
        role = "primary metric" if metric is contract.primary else "guardrail"
        usual = limits_text(contract.limits_of("", "", metric))
        yield f"{role}: {TERMS[metric].name}", usual or "none for all slices"
        for name, text in own_limits_text(contract, metric):
            yield f"in its place, for {name} ({metric.value})", text
    for metric in limited(contract):
        yield f"{metric.value} needs", needed_text(contract, metric)


def _declared(facts: UseCaseFacts | None, contract: ContractTable) -> Iterator[tuple[str, str]]:
    if facts is None:
        yield "in the settings", "this contract is not there any more"
        return
    if facts.version != contract.version:
        yield "in the settings", f"version {facts.version}; this week is judged by the other one"
    else:
        yield "holds since", facts.effective.isoformat()
        yield "made because", facts.reason
    for name, text in (
        ("accepted trade-off", facts.accepted_trade_off),
        ("context", facts.context),
        ("decisions with", facts.where),
    ):
        if text:
            yield name, text
    for group_by, reference in facts.compared:
        yield f"slices by {group_by}", f"compared with {slice_name(reference)}"


def attributes(report: WeeklyReport) -> Section:
    """Return a section that lists attributes with values, definition, source and purpose."""
    rows = (
        (
            attribute.name,
            ", ".join(attribute.values),
            attribute.definition or "not given",
            attribute.source,
            attribute.known_error or "not given",
            attribute.purpose or "not given",
            attribute.approved_by or "nobody is named",
            "yes" if attribute.special_category else "no",
        )
        for attribute in report.facts.attributes
    )
    columns = "attribute|values|definition|source|known error|purpose|approved by|special category"
    tables = titled(table(columns, rows))
    if not tables:
        return Section(("The settings list no attribute, so there are no slices.",))
    return Section(("As in the settings when this report was written.",), tables)


def sampling(report: WeeklyReport) -> Section:
    """Return a section on how labels are sampled, with the share of requested labels that came."""
    rates = ", ".join(percent(rate) for rate in report.facts.audit_rates)
    sentences = (
        "The router says with each decision how likely its label was to be requested. That"
        f" probability is taken down to one of {rates}.",
        "Rates weight every label by the decisions of its route and audit rate, so a"
        " small share of audits does not bias them; it makes their intervals wider.",
        f"A label is waited for {report.facts.horizon_days:g} days. Later ones make a new revision"
        " of this report if at least k of a slice have come.",
    )
    rows = (
        (contract.contract, slice_name(place.row.slice), percent(place.row.completeness))
        for contract, window in report.windows()
        for place in (total_place(contract, window),)
    )
    return Section(sentences, titled(table("contract|slice|requested labels that came", rows)))


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
    tables = titled(table("contract|slice|rate|what|in data to", rows))
    if not tables:
        return Section(("No drift and no other advisory finding of this week was published.",))
    return Section(("Advice: none of these pages, and none of them decides.",), tables)


def incidents(report: WeeklyReport) -> Section:
    """Return a section that lists incidents open in the week, with state and outcome."""
    rows = (
        (
            TableCell(str(incident.id), link=f"/incidents/{incident.id}"),
            incident.severity.value if incident.severity else NONE,
            incident.contract,
            incident.metric.value,
            slice_name(incident.slice),
            report.moment(incident.since),
            incident.state.value,
            incident.outcome.value.replace("_", " ") if incident.outcome else "none yet",
            NONE if incident.resolved_at is None else report.moment(incident.resolved_at),
        )
        for incident in report.release.incidents
    )
    columns = "incident|kind|contract|rate|slice|since|state|outcome|resolved"
    tables = titled(table(columns, rows))
    if not tables:
        return Section(("No incident was open in this week.",))
    return Section((f"{len(report.release.incidents)} open in this week.",), tables)


def lost(report: WeeklyReport) -> Section:
    """Return a section that lists excluded or lost data by contract, fault and period."""
    rows = [
        (contract.contract, _name(part_table), fault, span)
        for contract, window in report.windows()
        for part_table in tables_of(window)
        for fault, span in _faults(report, part_table)
    ]
    tables = titled(table("contract|of|what|in", rows))
    if not tables:
        return Section(("No data of this week are known to be lost, and none are left out.",))
    return Section(("Rates of these periods are of what is left.",), tables)


def _faults(
    report: WeeklyReport, part_table: WindowTable | GroupTable
) -> Iterator[tuple[str, str]]:
    for period in periods(part_table):
        span = f"{report.moment(period.start)} to {report.moment(period.end)}"
        if period.data_lost:
            yield "events were lost before they could be read, or may have been", span
        if period.excluded:
            yield "tables are left out: their data were declared bad", span


def _name(part_table: WindowTable | GroupTable) -> str:
    return part_table.group_by if isinstance(part_table, GroupTable) else "all decisions"


def limitations(report: WeeklyReport) -> Section:
    """Return a section that lists the known limitations that the settings register."""
    end = report.release.end
    rows = (
        (
            limitation.text,
            limitation.scope or "everything",
            limitation.restricted_use or NONE,
            limitation.owner,
            _expiry(limitation.expires, end),
        )
        for limitation in report.facts.limitations
    )
    tables = titled(table("limitation|concerns|not to be used for|owner|look at it again", rows))
    if not tables:
        return Section(("The settings register no limitation ([[limitation]]).",))
    return Section((), tables)


def _expiry(day: date | None, end: int) -> str:
    if day is None:
        return "not said"
    overdue = day < to_datetime(end).date()
    return f"{day.isoformat()} (overdue)" if overdue else day.isoformat()


def privacy(report: WeeklyReport) -> Section:
    """Return a section with k and the number of hidden cells of each contract."""
    sentences = [
        "Hidden means that a number would rest on fewer than k decisions or labels, or would give"
        " away another one that does. Which of them is not told, and a hidden cell has no number in"
        " any format of this report.",
        "All numbers are computed from the published tables of this week, which are the ones that"
        " the status page shows: each was made once, and never changes.",
    ]
    rows = []
    for contract, window in report.windows():
        states = [
            state
            for place in (total_place(contract, window), *places(contract, window))
            for state in place.row.states.values()
        ]
        hidden = sum(state is State.SUPPRESSED for state in states)
        subject = "synthetic test conditions" if contract.synthetic else "people"
        rows.append((contract.contract, f"{contract.k}", f"{hidden} of {len(states)}", subject))
    tables = titled(table("contract|k|cells hidden|about", rows))
    return Section(tuple(sentences), tables)


METHOD = (
    "Ready is the reviewers' judgement. Where reviewers err more often in one slice, its rates do.",
    "Labels are taken to be missing at random within a route and audit rate.",
    "Decisions are taken to be independent; many requests of one sender make intervals too narrow.",
    "The limits are decisions of their owner. A gap within its limit can still be wrong, and one"
    " beyond it can have a reason.",
    "Only declared attributes are compared. What is not declared, or not known, is not tested.",
    "Bounds of gaps hold together within one group-by, not across group-bys, contracts or weeks.",
    "A week that is judged again and again is judged by chance at some time: pages, which bound"
    " that, are listed under incidents.",
    "Rates describe decisions, not persons, and explain no cause.",
)
"""Limits of the method, one sentence each."""


def method(report: WeeklyReport) -> Section:
    """Return the fixed section on the limits of the method."""
    del report
    return Section(METHOD)


def decision(report: WeeklyReport) -> Section:
    """Return a section with APPROVED or BLOCKED and the state of each requirement."""
    outcome = decide(report.release, report.zone)
    rows = (
        (requirement.name, mark(requirement.met, "met", "MISSING"), requirement.why)
        for requirement in outcome.requirements
    )
    sentences = (
        f"{outcome.word}. {outcome.sentence}",
        "It is a decision on these measurements alone; a signature meets no requirement.",
    )
    return Section(sentences, titled(table("requirement|state|what was found", rows)))


def signatures(report: WeeklyReport) -> Section:
    """Return a section that lists signatures, the SHA-256 to sign, and lines for signers."""
    rows = [
        (
            signature.by,
            report.moment(signature.at - signature.at % MINUTE),
            str(signature.revision),
            _revision_cell(report, signature.digest),
            signature.note or NONE,
        )
        for signature in report.signatures
    ]
    tables = titled(table("signed by|at|revision|which is|note", rows))
    digest = report.revision.digest
    sentences = (
        f"This is revision {report.revision.number}; SHA-256 of its Release: {digest}.",
        "Nobody has signed yet." if not rows else "Signed so far:",
        f"To sign: slicewatch report sign --week {report.revision.week} --by NAME --note TEXT",
        "Owner of the use case: .................................... Date: ...............",
        "Privacy or fairness officer: .................................... Date: ...............",
    )
    return Section(sentences, tables)


def _revision_cell(report: WeeklyReport, digest: str) -> TableCell:
    if digest == report.revision.digest:
        return TableCell("this revision", Tone.GOOD)
    return TableCell("NOT this revision: its numbers were others", Tone.BAD)
