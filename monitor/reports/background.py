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
    """Use case, contract, version and limits."""
    facts = {one.name: one for one in report.facts.use_cases}
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
        ("why these numbers", facts.rationale),
        ("accepted trade-off", facts.accepted_trade_off),
        ("context", facts.context),
        ("harm when it is broken", facts.harm),
        ("concerns", ", ".join(facts.stakeholders)),
        ("decisions with", facts.where),
    ):
        if text:
            yield name, text
    for group_by, reference in facts.compared:
        yield f"slices by {group_by}", f"compared with {slice_name(reference)}"


def attributes(report: WeeklyReport) -> Section:
    """Attributes with their definition and source."""
    rows = (
        (
            one.name,
            ", ".join(one.values),
            one.definition or "not given",
            one.source,
            one.known_error or "not given",
            one.purpose or "not given",
            one.approved_by or "nobody is named",
            "yes" if one.special_category else "no",
        )
        for one in report.facts.attributes
    )
    columns = "attribute|values|definition|source|known error|purpose|approved by|special category"
    made = titled(table(columns, rows))
    if not made:
        return Section(("The settings list no attribute, so there are no slices.",))
    return Section(("As in the settings when this report was written.",), made)


def sampling(report: WeeklyReport) -> Section:
    """Sampling of labels, and how many came."""
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
    """Drift and other advisory findings of the week."""
    rows = (
        (
            one.contract,
            slice_name(one.slice),
            one.metric.value if one.metric else NONE,
            FINDINGS[one.annotation],
            report.moment(one.latest),
        )
        for one in report.release.findings
    )
    made = titled(table("contract|slice|rate|what|in data to", rows))
    if not made:
        return Section(("No drift and no other advisory finding of this week was published.",))
    return Section(("Advice: none of these pages, and none of them decides.",), made)


def incidents(report: WeeklyReport) -> Section:
    """Incidents and pages that were open in the week, with their outcome."""
    rows = (
        (
            TableCell(str(one.id), link=f"/incidents/{one.id}"),
            one.severity.value if one.severity else NONE,
            one.contract,
            one.metric.value,
            slice_name(one.slice),
            report.moment(one.since),
            one.state.value,
            one.outcome.value.replace("_", " ") if one.outcome else "none yet",
            NONE if one.resolved_at is None else report.moment(one.resolved_at),
        )
        for one in report.release.incidents
    )
    columns = "incident|kind|contract|rate|slice|since|state|outcome|resolved"
    made = titled(table(columns, rows))
    if not made:
        return Section(("No incident was open in this week.",))
    return Section((f"{len(report.release.incidents)} open in this week.",), made)


def lost(report: WeeklyReport) -> Section:
    """Data that are excluded or lost."""
    rows = [
        (contract.contract, _name(part), what, span)
        for contract, window in report.windows()
        for part in tables_of(window)
        for what, span in _faults(report, part)
    ]
    made = titled(table("contract|of|what|in", rows))
    if not made:
        return Section(("No data of this week are known to be lost, and none are left out.",))
    return Section(("Rates of these periods are of what is left.",), made)


def _faults(report: WeeklyReport, part: WindowTable | GroupTable) -> Iterator[tuple[str, str]]:
    for one in periods(part):
        span = f"{report.moment(one.start)} to {report.moment(one.end)}"
        if one.data_lost:
            yield "events were lost before they could be read, or may have been", span
        if one.excluded:
            yield "tables are left out: their data were declared bad", span


def _name(part: WindowTable | GroupTable) -> str:
    return part.group_by if isinstance(part, GroupTable) else "all decisions"


def limitations(report: WeeklyReport) -> Section:
    """The register of known limitations."""
    end = report.release.end
    rows = (
        (
            one.text,
            one.scope or "everything",
            one.restricted_use or NONE,
            one.owner,
            _expiry(one.expires, end),
        )
        for one in report.facts.limitations
    )
    made = titled(table("limitation|concerns|not to be used for|owner|look at it again", rows))
    if not made:
        return Section(("The settings register no limitation ([[limitation]]).",))
    return Section((), made)


def _expiry(day: date | None, end: int) -> str:
    if day is None:
        return "not said"
    overdue = day < to_datetime(end).date()
    return f"{day.isoformat()} (overdue)" if overdue else day.isoformat()


def privacy(report: WeeklyReport) -> Section:
    """k, hidden cells, and what hidden means."""
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
        kind = "synthetic test conditions" if contract.synthetic else "people"
        rows.append((contract.contract, f"{contract.k}", f"{hidden} of {len(states)}", kind))
    made = titled(table("contract|k|cells hidden|about", rows))
    return Section(tuple(sentences), made)


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
"""What the method does not do."""


def method(report: WeeklyReport) -> Section:
    """Limits of the method."""
    del report
    return Section(METHOD)


def decision(report: WeeklyReport) -> Section:
    """APPROVED or BLOCKED, requirement by requirement."""
    found = decide(report.release, report.zone)
    rows = ((one.name, mark(one.met, "met", "MISSING"), one.why) for one in found.requirements)
    sentences = (
        f"{found.word}. {found.sentence}",
        "It is a decision on these measurements alone; a signature meets no requirement.",
    )
    return Section(sentences, titled(table("requirement|state|what was found", rows)))


def signatures(report: WeeklyReport) -> Section:
    """Signatures, and whether they are of this revision; lines for those who are to sign."""
    rows = [
        (
            one.by,
            report.moment(one.at - one.at % MINUTE),
            str(one.revision),
            _which(report, one.digest),
            one.note or NONE,
        )
        for one in report.signatures
    ]
    made = titled(table("signed by|at|revision|which is|note", rows))
    digest = report.revision.digest
    sentences = (
        f"This is revision {report.revision.number}; SHA-256 of its Release: {digest}.",
        "Nobody has signed yet." if not rows else "Signed so far:",
        f"To sign: slicewatch report sign --week {report.revision.week} --by NAME --note TEXT",
        "Owner of the use case: .................................... Date: ...............",
        "Privacy or fairness officer: .................................... Date: ...............",
    )
    return Section(sentences, made)


def _which(report: WeeklyReport, digest: str) -> TableCell:
    if digest == report.revision.digest:
        return TableCell("this revision", Tone.GOOD)
    return TableCell("NOT this revision: its numbers were others", Tone.BAD)
