"""Context of the gaps: other criteria, similar requests, multiplicity, representation."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.core.contract import Metric
from monitor.core.publish.lines import cell, places, total_place
from monitor.core.publish.reasons import Place
from monitor.core.publish.words import NONE, bounds, gap_bounds, percent, points, rate_text
from monitor.drawing.tables import TableCell, Tone
from monitor.reports.layout import Section
from monitor.reports.numbers import state_cell
from monitor.reports.planned import planned
from monitor.reports.planners.criteria import CriteriaLine
from monitor.reports.planners.published_rates import Named
from monitor.reports.planners.representation import RepresentationLine
from monitor.reports.planners.standardised import StandardisedLine
from monitor.reports.sections.names import listed, name_of, slices_in, without
from monitor.reports.weekly_report import WeeklyReport


def criteria(report: WeeklyReport) -> Section:
    """Return a section on criteria that cannot hold together, with accepted trade-offs."""
    lines = planned(report).criteria
    accepted = [
        f"{use_case.name}: the accepted trade-off is: {use_case.accepted_trade_off}"
        if use_case.accepted_trade_off
        else f"{use_case.name}: its owner has declared no accepted trade-off (accepted_trade_off)."
        for use_case in report.facts.use_cases
    ]
    if not lines:
        why = "No slice shows TPR, FPR and ready rate together, so criteria cannot be compared."
        return Section((why, *accepted))
    sentences = (
        "Where slices have different shares of ready replies, equal TPR, equal FPR and equal"
        " precision cannot all hold, but for a router that never errs (Chouldechova 2017). The last"
        " column is the FPR that a slice would have with the TPR and the precision of all"
        " decisions: the further it is from theirs, the more one of the three has to give.",
        *accepted,
        *without(report, slices_in({line.of for line in lines}), "one of its rates is hidden"),
    )
    columns = "slice|ready|precision|fpr|fpr of all decisions|fpr that would follow"
    return listed(columns, (_criteria(report, line) for line in lines), sentences, "criteria")


def _criteria(report: WeeklyReport, line: CriteriaLine) -> tuple[str, ...]:
    numbers = (line.ready, line.precision, line.fpr, line.fpr_of_all)
    forced_fpr = (
        percent(line.fpr_forced) if line.fpr_forced <= 1 else "none: it would be above 100 %"
    )
    return (name_of(report, line.of), *map(percent, numbers), forced_fpr)


def multiplicity(report: WeeklyReport) -> Section:
    """Return a section with the number of comparisons that bounds hold for together."""
    lines = planned(report).multiplicity
    if not lines:
        return Section(("No comparison is shown, so no bounds have to hold together.",))
    sentences = (
        "All intervals of gaps of a group-by hold together with 95 % confidence (Bonferroni), for"
        " one rate. They do not hold together across rates, group-bys, contracts or weeks.",
    )
    rows = (
        (
            line.group_by
            if len(report.release.contracts) == 1
            else f"{line.contract}: {line.group_by}",
            f"{line.comparisons}",
            percent(line.confidence),
            f"{100 * line.each:.3f} %",
            f"{line.z:.3f}",
        )
        for line in lines
    )
    columns = "group-by|comparisons|together|each alone|standard errors on each side"
    return listed(columns, rows, sentences, "multiplicity")


def standardised(report: WeeklyReport) -> Section:
    """Return a section that lists raw gaps, and gaps standardised over another attribute."""
    lines = planned(report).standardised
    if not lines:
        why = "No group-by crosses an attribute with another one, so no gap can be standardised."
        return Section((why,))
    sentences = (
        "The raw gap compares all requests of a slice. The standardised one compares it within each"
        " value of another attribute, and averages with the same weights for both sides (direct"
        " standardisation). Its interval is of it alone. It says what is left among alike requests,"
        " and not that the rest has a good reason.",
    )
    columns = "slice|rate|over|raw gap, points|standardised, points|95 % interval, points"
    rows = (_standardised(report, line) for line in lines)
    return listed(columns, rows, sentences, "standardised")


def _standardised(report: WeeklyReport, line: StandardisedLine) -> tuple[str | TableCell, ...]:
    head = (name_of(report, line.of), line.metric.value, line.over, points(line.raw))
    if line.value is None:
        why = f"not known: {line.hidden} of the {line.cells} cells it needs are hidden"
        return (*head, TableCell(why, Tone.UNSURE), NONE)
    return (*head, points(line.value), gap_bounds(line.lower, line.upper))


def representation(report: WeeklyReport) -> Section:
    """Return a section that compares shares of slices with a population from the settings."""
    if not any(attribute.target for attribute in report.facts.attributes):
        why = "The settings name no population to compare with ([[attribute]] target)."
        return Section((why,))
    lines = planned(report).representation
    if not lines:
        return Section(("No slice of an attribute with a target is shown.",))
    sentences = (
        "Shares among the decisions of the slices that are shown and have a target; between bounds,"
        " since numbers of decisions are bands. Who does not come here at all is in no rate.",
    )
    columns = "slice|share of the population|share of decisions|compared"
    rows = (_represented(report, line) for line in lines)
    return listed(columns, rows, sentences, "representation")


def _represented(report: WeeklyReport, line: RepresentationLine) -> tuple[str | TableCell, ...]:
    comparison = TableCell("as the population, as far as bands tell")
    if line.most < line.target:
        comparison = TableCell("fewer than in the population", Tone.UNSURE)
    elif line.least > line.target:
        comparison = TableCell("more than in the population", Tone.UNSURE)
    share = bounds(line.least, line.most)
    return name_of(report, line.of), percent(line.target), share, comparison


def blocked(report: WeeklyReport) -> Section:
    """Return a section that compares how often requests of each slice are blocked."""
    rows = [
        row
        for contract, window in report.windows()
        for place in (total_place(contract, window), *places(contract, window))
        for row in _blocked(report, place)
    ]
    if not rows:
        return Section(("No blocked rate is shown.",))
    sentences = (
        "A blocked request gets no reply and no label, so whether its reply would have been ready"
        " is not known: TPR and FPR say nothing about it. A slice that is blocked more often is"
        " worse off in a way that no other rate shows.",
    )
    columns = "slice|blocked|95 % interval|gap, points|interval, points|state"
    return listed(columns, rows, sentences, "")


def _blocked(report: WeeklyReport, place: Place) -> Iterator[tuple[str | TableCell, ...]]:
    rate, gap = place.row.rates.get(Metric.BLOCKED), place.row.gaps.get(Metric.BLOCKED)
    if rate is not None:
        yield (
            name_of(report, Named.for_place(place)),
            rate_text(rate),
            bounds(rate.lower, rate.upper),
            points(gap.value) if gap else NONE,
            gap_bounds(gap.lower, gap.upper) if gap else NONE,
            state_cell(cell(place, Metric.BLOCKED)),
        )


def scorecard(report: WeeklyReport) -> Section:
    """Return a section with a scorecard line per dimension; the lines are not added up."""
    sentences = ("One line for each dimension. They are not added up: there is no overall number.",)
    rows = (
        (line.dimension, line.contract or "all", _word(line.word), line.why)
        for line in planned(report).scorecard
    )
    return listed("dimension|contract|result|what was found", rows, sentences, "scorecard")


def _word(word: str) -> TableCell:
    tones = {"fail": Tone.BAD, "pass": Tone.GOOD, "open": Tone.UNSURE, "in part": Tone.UNSURE}
    return TableCell(word, tones.get(word, Tone.PLAIN))
