"""Sections on labels and changes, and on numbers that a Release lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from monitor.core.publish.annotations import Annotation
from monitor.core.publish.glossary import FINDINGS, slice_name
from monitor.core.publish.lines import places, total_place
from monitor.core.publish.reasons import Place
from monitor.core.publish.snapshot import ContractTable, ShownAgreement
from monitor.core.publish.words import NONE, percent, points
from monitor.drawing.tables import table
from monitor.reports.layout import Section, titled
from monitor.reports.planned import planned
from monitor.reports.planners.change import ChangeLine
from monitor.reports.planners.published_rates import Named
from monitor.reports.sections.names import listed, name_of
from monitor.reports.weekly_report import WeeklyReport

_DELAYS = (Annotation.LABELS_LATER, Annotation.LABELS_EARLIER)


def labels(report: WeeklyReport) -> Section:
    """Return a section on labels per slice: share and time of arrival, and agreement (kappa)."""
    rows = [
        row
        for contract, window in report.windows()
        for place in (total_place(contract, window), *places(contract, window))
        for row in _labels(report, place)
    ]
    sentences = (
        "How many labels of each slice came later than those of what it is compared with is an"
        " advisory finding; the days themselves are not published: the hours that labels took are"
        " kept in eight classes, and no guard is made for the small numbers in them.",
        "Kappa (Cohen's) is how far two reviewers of one decision agree beyond chance: 1 is always,"
        " 0 as often as chance, with its 95 % interval. It is computed from bands, and hidden where"
        " fewer than k decisions with two labels say the same.",
    )
    if not rows:
        return Section(("No label of this week is released yet.", *sentences))
    columns = "slice|requested labels that came|labels until|came|kappa|interval"
    return listed(columns, rows, sentences, "")


def _labels(report: WeeklyReport, place: Place) -> Iterator[tuple[str, ...]]:
    period = place.table.labelled
    if place.row.completeness is not None and period is not None:
        row_name = Named.for_place(place)
        delays = [
            FINDINGS[finding.annotation]
            for finding in report.release.findings
            if finding.annotation in _DELAYS
            and (finding.contract, finding.group_by, finding.slice)
            == (row_name.contract, row_name.group_by, row_name.slice)
        ]
        yield (
            name_of(report, row_name),
            percent(place.row.completeness),
            report.moment(period.end),
            "; ".join(delays) or NONE,
            *_kappa_texts(place.row.agreement),
        )


def _kappa_texts(agreement: ShownAgreement | None) -> tuple[str, str]:
    """Return (kappa, interval) as texts; dashes if withheld."""
    if agreement is None:
        return NONE, NONE
    kappa = (
        f"{agreement.kappa}" if agreement.kappa is not None else f"at least {agreement.at_least}"
    )
    return kappa, f"{agreement.lower} to {agreement.upper}"


def changes(report: WeeklyReport) -> Section:
    """Return a section that lists contracts with another version than the week before."""
    before = {} if report.before is None else _versions(report.before.release.contracts)
    facts = {(use_case.name, use_case.version): use_case for use_case in report.facts.use_cases}
    rows = []
    for contract in report.release.contracts:
        version_before = before.get(contract.contract)
        use_case = facts.get((contract.contract, contract.version))
        if version_before is not None and version_before != contract.version:
            date = use_case.effective.isoformat() if use_case else NONE
            reason = use_case.reason if use_case else NONE
            rows.append(
                (contract.contract, version_before, contract.version, contract.owner, date, reason)
            )
    sentences = (
        "Changes of the threshold and of other versions of the router are found slice by slice, as"
        " advisory findings; whoever deploys the router knows their owner and reason.",
    )
    tables = titled(table("contract|version before|now|owner|holds since|made because", rows))
    if report.before is None:
        return Section(("No Release of the week before is stored to compare with.", *sentences))
    if not tables:
        return Section(("No contract has another version than the week before.", *sentences))
    return Section(sentences, tables)


def _versions(contracts: Iterable[ContractTable]) -> dict[str, str]:
    return {contract.contract: contract.version for contract in contracts}


def change(report: WeeklyReport) -> Section:
    """Return a section that lists rates of both weeks, and whether intervals overlap."""
    before = report.before
    if before is None:
        return Section(("No Release of the week before is stored, so nothing can be compared.",))
    lines = planned(report).changes
    if not lines:
        return Section((f"No rate is shown in both {before.week} and this week.",))
    sentences = (
        f"Compared with {before.week}, revision {before.number}. A difference is no finding by"
        " itself: where the intervals overlap, chance may explain it; and every week compares many"
        " rates.",
    )
    columns = "contract|slice|rate|last week|this week|change, points|intervals"
    return listed(columns, map(_change, lines), sentences, "changes")


_OVERLAPS = {True: "overlap", False: "do not overlap", None: "not known"}


def _change(line: ChangeLine) -> tuple[str, ...]:
    name = line.of.contract
    if line.version != line.version_before:
        name = f"{name} (version {line.version_before}, now {line.version})"
    rates = (percent(line.before), percent(line.now), points(line.change), _OVERLAPS[line.overlap])
    return (name, slice_name(line.of.slice), line.metric.value, *rates)


def reference(report: WeeklyReport) -> Section:
    """Return a section that lists slices worse than in their own frozen reference period."""
    rows = [
        (
            name_of(report, Named(finding.contract, finding.group_by, finding.slice)),
            finding.metric.value if finding.metric else NONE,
            report.moment(finding.latest),
        )
        for finding in report.release.findings
        if finding.annotation is Annotation.DRIFT
    ]
    sentences = (
        "Each slice is compared, mix by mix, with a reference period that was frozen. What is"
        " published is whether it is worse, with a false discovery rate of 0.10, not by how much:"
        " the numbers of that period are in no Release.",
    )
    if not rows:
        why = "No slice was found to be worse than in its frozen reference period."
        return Section((why, *sentences))
    return Section(sentences, titled(table("slice|rate|in data to", rows)))


def by_version(report: WeeklyReport) -> Section:
    """Return a section that names the attributes of router versions, or how to add one."""
    names = [
        attribute.name for attribute in report.facts.attributes if attribute.source == "version"
    ]
    if names:
        attributes = ", ".join(names)
        return Section((f"Slices by version are among the tables, by the attribute {attributes}.",))
    return Section(
        (
            "No attribute is taken from a version of the router, so no rate is given by version. An"
            ' attribute with source = "policy_version" makes a group-by of them.',
        )
    )


def told_elsewhere(sentence: str) -> Callable[[WeeklyReport], Section]:
    """Return a function that returns a section with ``sentence`` alone for any report."""

    def section(report: WeeklyReport) -> Section:
        del report
        return Section((sentence,))

    return section


blind_subsample = told_elsewhere(
    "No rate of a blind random subsample is published: labels that were made blind count like all"
    " others. Send a part of both routes to reviewers who do not see the route, and compare their"
    " labels in the review tool."
)
probe_flips = told_elsewhere(
    "Flips of matched probes are counted since a set was declared, not by week, and probe traffic"
    " is in no rate of this report: slicewatch probe status and the status page have them."
)
thresholds_used = told_elsewhere(
    "How many distinct thresholds were used for a slice is not counted: a threshold is a part of"
    " the version of the router, and a finding says where other versions began to answer."
)
access = told_elsewhere(
    "Who has read numbers is in the access log of the service, by the name of the"
    " reader and without values; it is no part of a Release."
)
