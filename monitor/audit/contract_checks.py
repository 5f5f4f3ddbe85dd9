"""Contract checks on one part of a set, by the point and by the interval.

In production only intervals decide. Matched pairs are few, so an audit also reports what the
points alone say, and marks it as such. Points are compared as exact fractions: of a synthetic set
as counted, of real people as shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np

from monitor.audit.audit_report import Check, Point, SupportCheck
from monitor.audit.inputs import Row
from monitor.audit.matching import by_pair
from monitor.audit.slices import SUPPORTED, GroupSlices, declared, slice_of, slices_within
from monitor.core.contract import COMPLEMENT, Contract, GroupBy, Limits, Role, Verdict, exceeds
from monitor.core.counts.coding import Coding
from monitor.core.metric import LIMITED, Metric
from monitor.core.probes.flips import in_rates
from monitor.core.publish.snapshot import ShownGap, ShownRate, SliceRow
from monitor.core.rates.estimates import RateColumns
from monitor.core.rates.gap_words import worse_off
from monitor.core.rates.gaps import GapColumns, level_verdicts, verdict
from monitor.core.rates.tolerance import Tolerance
from monitor.core.tables.bands import at_least

_Held = Mapping[frozenset[str], Sequence[Row]]
"""Rows of all pairs that hold variants of the same slices, by these slices."""


def contract_checks(
    groups: Sequence[GroupSlices], contract: Contract, rows: Sequence[Row], coding: Coding
) -> tuple[Check, ...]:
    """Return checks of every slice's gaps to its reference, and its levels, by group-by.

    ``slice`` is compared with ``against``, its reference. As in production, a gap is positive where
    the slice is worse off and negative where its reference is; both are limited. Slices without
    items in a synthetic set are not checked. The author of a synthetic set chooses which slices its
    requests have. A gap is therefore over the pairs that hold both sides, and undecided without
    any. Levels are over all items.

    Args:
        groups: the total and the group-bys, as :func:`monitor.audit.slices.slices_of` made them.
        contract: contract with the limits.
        rows: rows that the slices were made of.
        coding: coding that the slices were made with.
    """
    checks: list[Check] = []
    pairs = by_pair(rows, lambda row: row.item).values()
    for table in groups[1:]:
        compared = _rows_to_compare(
            table, _rows_by_held_slices(pairs, table, coding), contract, coding
        )
        table_checks: list[Check] = []
        for row in declared(table):
            if row.rates or not contract.synthetic:
                compared_slice = compared.get(row.slice)
                table_checks += _gap_checks(row.slice, table.group, contract, compared_slice)
                limits = contract.limits_of(table.group.name, row.slice)
                table_checks += _level_checks(row, limits, exact=contract.synthetic)
        checks += _without_repeats(table_checks)
    return tuple(checks)


def _without_repeats(checks: Sequence[Check]) -> list[Check]:
    """Return one group-by's checks, without failures of better-off slices that others report."""
    by_name: dict[str, list[Check]] = defaultdict(list)
    for check in checks:
        by_name[check.name].append(check)
    tellers = {name: _furthest_ahead(namesakes) for name, namesakes in by_name.items()}
    return [_spare_if_told(check, by_name[check.name], tellers[check.name]) for check in checks]


def _spare_if_told(check: Check, namesakes: Sequence[Check], teller: Check | None) -> Check:
    """Return the check; a better-off slice's check fails only if no other reports the harm."""
    if not _is_ahead(check):
        return check
    behind = [
        namesake
        for namesake in namesakes
        if namesake.against == COMPLEMENT and not _is_ahead(namesake)
    ]
    is_told = check is not teller
    told_by_point = is_told or any(namesake.point is Point.FAIL for namesake in behind)
    told_by_interval = is_told or any(namesake.verdict is Verdict.FAIL for namesake in behind)
    point, verdict = check.point, check.verdict
    if point is Point.FAIL and told_by_point:
        point = Point.BETTER_OFF
    if verdict is Verdict.BETTER_OFF and not told_by_interval:
        verdict = Verdict.FAIL
    return replace(check, point=point, verdict=verdict)


def _furthest_ahead(checks: Iterable[Check]) -> Check | None:
    """Return the check whose slice leads by most beyond its limit; None if none does."""
    return max(filter(_is_ahead, checks), key=_lead, default=None)


def _is_ahead(check: Check) -> bool:
    """Return True if the slice is better off than the limit allows, by point or interval."""
    beyond = check.point is Point.FAIL and check.worse_off == check.against != ""
    return beyond or check.verdict is Verdict.BETTER_OFF


def _lead(check: Check) -> float:
    """Return a better-off slice's lead: ratio or negated gap; a bound if the value is withheld."""
    ratio = check.name.endswith("_ratio")
    bound = check.lower if ratio else check.upper
    number = bound if check.value is None else check.value
    return 0.0 if number is None else number if ratio else -number


def baseline_checks(
    candidate: Sequence[GroupSlices], baseline: Sequence[GroupSlices], *, exact: bool
) -> tuple[Check, ...]:
    """Return checks that the candidate serves no slice, nor the whole, worse than the baseline.

    Closing a gap by helping everybody less, or by serving more unclear replies to everybody, is
    no repair.

    Args:
        candidate: slices of the candidate.
        baseline: slices of the baseline, made of the same items.
        exact: rates are as counted (a synthetic set), not rounded.
    """
    checks: list[Check] = []
    for table, baseline_table in zip(candidate, baseline, strict=True):
        baseline_rows = {row.slice: row for row in baseline_table.rows}
        for row in declared(table):
            if row.slice in baseline_rows and row.rates:
                checks += _baseline_level_checks(row, baseline_rows[row.slice], exact=exact)
    return tuple(checks)


def led_by_primary(checks: Iterable[Check], contract: Contract) -> tuple[Check, ...]:
    """Return checks with roles; in each slice, those of the primary metric come first."""
    with_roles = [replace(check, role=contract.role(check.metric)) for check in checks]
    order = {text: i for i, text in enumerate(dict.fromkeys(check.slice for check in with_roles))}
    return tuple(
        sorted(
            with_roles, key=lambda ranked: (order[ranked.slice], ranked.role is not Role.PRIMARY)
        )
    )


def support_checks(
    groups: Sequence[GroupSlices], contract: Contract, rows: Sequence[Row], coding: Coding
) -> tuple[SupportCheck, ...]:
    """Return checks of each declared slice's positives and negatives against the minimum.

    Hidden slices and slices without items have no support that can be shown. For real people the
    support is a number of pairs, as the lower edge of a band: ten variants of one request say
    little more about a slice than one variant.

    Args:
        groups: as in :func:`contract_checks`.
        contract: contract with the minimum support.
        rows: rows that the slices were made of.
        coding: coding that the slices were made with.
    """
    checks: list[SupportCheck] = []
    for table in groups[1:]:
        pairs_by_slice = (
            {} if contract.synthetic else _pairs_by_slice(rows, table.group.attributes, coding)
        )
        for row, metric in product(declared(table), SUPPORTED):
            support = row.rates[metric].support if metric in row.rates else 0
            if not contract.synthetic:
                pair_count = len(pairs_by_slice.get((row.slice, metric), ()))
                support = min(support, at_least(pair_count, contract.k))
            needed = contract.limits.min_support(metric)
            checks.append(SupportCheck(metric, row.slice, support, needed, support >= needed))
    return tuple(checks)


def _pairs_by_slice(
    rows: Sequence[Row], attributes: tuple[str, ...], coding: Coding
) -> Mapping[tuple[str, Metric], Set[str]]:
    """Map each slice, with TPR or FPR, to the ids of the pairs behind its rate."""
    pairs: dict[tuple[str, Metric], set[str]] = defaultdict(set)
    for row in rows:
        if in_rates(row.observed):
            metric = Metric.TPR if row.item.expected_ready else Metric.FPR
            pairs[slice_of(row, attributes, coding), metric].add(row.item.pair)
    return pairs


@dataclass(frozen=True, slots=True)
class _Compared:
    """Row of one slice, with the table that holds its reference."""

    row: SliceRow
    table: GroupSlices
    matched: bool  # as in Check.matched


def _rows_to_compare(
    table: GroupSlices, held: _Held, contract: Contract, coding: Coding
) -> dict[str, _Compared]:
    """Map slices to the row and table from which their gaps are taken.

    In a synthetic set a slice is included only if a pair holds its reference too.
    """
    if contract.synthetic:
        tables = _tables_of_both(table, held, contract, coding)
        rows = {
            id(pair_table): {row.slice: row for row in pair_table.rows}
            for pair_table in tables.values()
        }
        return {
            text: _Compared(rows[id(pair_table)][text], pair_table, True)
            for text, pair_table in tables.items()
        }
    reference = table.group.reference
    return {
        row.slice: _Compared(row, table, _same_pairs(held, row.slice, reference))
        for row in table.rows
    }


def _gap_checks(
    text: str, group: GroupBy, contract: Contract, compared: _Compared | None
) -> Iterator[Check]:
    """Yield a check for each gap that the contract limits in a slice; none for the reference."""
    reference, limits = group.reference, contract.limits_of(group.name, text)
    if text == reference:
        return
    for metric in LIMITED:
        limit = limits.max_gap(metric)
        if limit is not None:
            allowed = Tolerance.of_gap(limit)
            shown = compared.row.gaps.get(metric) if compared else None
            value = shown.value if shown else None
            point = _shown_fraction(value)
            if contract.synthetic and compared:
                point = _exact_gap(compared.row, compared.table, metric)
            yield Check(
                name=f"{metric}_gap",
                metric=metric,
                slice=text,
                against=reference,
                limit=float(limit),
                value=value,
                lower=shown.lower if shown else None,
                upper=shown.upper if shown else None,
                point=Point.NONE
                if point is None
                else _pass_or_fail(not exceeds(abs(point), limit)),
                verdict=_verdict_by_bounds(shown, allowed),
                matched=compared is not None and compared.matched,
                worse_off=worse_off(text, reference, value),
            )
    yield from _ratio_checks(text, group, contract, compared)


def _ratio_checks(
    text: str, group: GroupBy, contract: Contract, compared: _Compared | None
) -> Iterator[Check]:
    """Yield a check for each ratio to the reference that the contract limits in a slice."""
    reference, limits = group.reference, contract.limits_of(group.name, text)
    for metric in LIMITED:
        limit = limits.min_ratio(metric)
        if limit is not None:
            allowed = Tolerance.of_ratio(limit)
            shown = compared.row.gaps.get(metric) if compared else None
            point = _ratio_point(_shown_fraction(shown.ratio if shown else None), limit)
            if contract.synthetic and compared:
                point = _counted_ratio_point(compared, metric, limit)
            yield Check(
                name=f"{metric}_ratio",
                metric=metric,
                slice=text,
                against=reference,
                limit=float(limit),
                value=shown.ratio if shown else None,
                lower=shown.ratio_lower if shown else None,
                upper=shown.ratio_upper if shown else None,
                point=point,
                verdict=_verdict_by_bounds(shown, allowed),
                matched=compared is not None and compared.matched,
                worse_off=worse_off(text, reference, shown.value if shown else None),
            )


def _verdict_by_bounds(shown: ShownGap | None, allowed: Tolerance) -> Verdict:
    """Decide one limit on a gap or ratio from its shown bounds; return the verdict."""
    if shown is None or shown.verdict in (None, Verdict.INSUFFICIENT_SUPPORT):
        return Verdict.INSUFFICIENT_SUPPORT
    numbers = (shown.value, shown.lower, shown.upper)
    ratios = (shown.ratio, shown.ratio_lower, shown.ratio_upper)
    columns = (np.array([number], np.float64) for number in (*numbers, *ratios))
    (decided,) = verdict(GapColumns(Metric.SELECTION, *columns), allowed, np.array([True]))
    return decided or Verdict.INSUFFICIENT_SUPPORT


def _ratio_point(ratio: Fraction | None, limit: Fraction) -> Point:
    return Point.NONE if ratio is None else _pass_or_fail(limit <= ratio <= 1 / limit)


def _counted_ratio_point(compared: _Compared, metric: Metric, limit: Fraction) -> Point:
    """Decide a ratio's limit from exact counts; NONE without trials, or if both rates are 0."""
    sides = _exact_rates(compared.row, compared.table, metric)
    if sides is None or not any(sides):
        return Point.NONE
    low, high = sorted(sides)
    return _pass_or_fail(low >= limit * high)


def _level_checks(row: SliceRow, limits: Limits, *, exact: bool) -> Iterator[Check]:
    """Yield a check of a slice's TPR and FPR against the contract's levels, where it has any."""
    for name, metric, limit in (
        ("min_tpr", Metric.TPR, limits.min_tpr),
        ("max_fpr", Metric.FPR, limits.max_fpr),
    ):
        if limit is not None:
            verdict = _level_by_interval(metric, row.rates.get(metric), limit, limits)
            yield replace(_level_check(name, metric, row, limit, exact=exact), verdict=verdict)


def _baseline_level_checks(row: SliceRow, before: SliceRow, *, exact: bool) -> Iterator[Check]:
    """Yield two checks: TPR not below the baseline's, FPR not above it."""
    for name, metric in (
        ("tpr_not_below_baseline", Metric.TPR),
        ("fpr_not_above_baseline", Metric.FPR),
    ):
        rate, old_rate = row.rates.get(metric), before.rates.get(metric)
        check = _level_check(name, metric, row, _rate_fraction(old_rate, exact=exact), exact=exact)
        yield _decide_by_codes(check, rate, old_rate) if check.point is Point.NONE else check


def _decide_by_codes(check: Check, rate: ShownRate | None, before: ShownRate | None) -> Check:
    """Return the baseline check, decided from codes (at least, at most) where they suffice.

    A baseline that serves hardly any unclear reply has no FPR that can be shown; a candidate that
    serves a third of them is certainly above it.
    """
    new, old = _possible_range(rate), _possible_range(before)
    if new is None or old is None:
        return check
    if check.metric.harmed_by_less:
        worse, kept, limit = new[1] < old[0], new[0] >= old[1], old[0]
    else:
        worse, kept, limit = new[0] > old[1], new[1] <= old[0], old[1]
    if worse:
        return replace(check, limit=float(limit), point=Point.FAIL)
    return replace(check, point=Point.PASS) if kept else check


def _possible_range(rate: ShownRate | None) -> tuple[Fraction, Fraction] | None:
    """Return the (least, greatest) value that a shown rate allows; None without information."""
    if rate is None:
        return None
    value, least, most = map(_shown_fraction, (rate.value, rate.at_least, rate.at_most))
    if value is not None:
        return value, value
    if least is None and most is None:
        return None
    return least or Fraction(0), Fraction(1) if most is None else most


def _level_check(
    name: str, metric: Metric, row: SliceRow, limit: Fraction | None, *, exact: bool
) -> Check:
    """Return a check of a rate against its limit, decided by the estimate alone."""
    rate = row.rates.get(metric)
    point = _rate_fraction(rate, exact=exact)
    return Check(
        name=name,
        metric=metric,
        slice=row.slice,
        against="",
        limit=None if limit is None else float(limit),
        value=rate.value if rate else None,
        lower=rate.lower if rate else None,
        upper=rate.upper if rate else None,
        point=Point.NONE if point is None or limit is None else _level_point(metric, point, limit),
        verdict=None,
    )


def _level_by_interval(
    metric: Metric, rate: ShownRate | None, limit: Fraction, limits: Limits
) -> Verdict | None:
    """Decide a level's limit from the shown bounds and support; return the verdict."""
    if rate is None:
        return Verdict.INSUFFICIENT_SUPPORT
    value, lower, upper = (
        np.array([number], np.float64) for number in (rate.value, rate.lower, rate.upper)
    )
    support = np.array([rate.support], np.int64)
    columns = RateColumns(
        metric, value, lower, upper, support.astype(np.float64), support, support, support
    )
    return level_verdicts(columns, limit, support >= limits.min_support(metric))[0]


def _exact_gap(row: SliceRow, table: GroupSlices, metric: Metric) -> Fraction | None:
    """Return a gap from exact counts, positive if the slice is worse off; None without trials."""
    sides = _exact_rates(row, table, metric)
    if sides is None:
        return None
    more = sides[0] - sides[1]
    return -more if metric.harmed_by_less else more


def _exact_rates(
    row: SliceRow, table: GroupSlices, metric: Metric
) -> tuple[Fraction, Fraction] | None:
    """Return the exact rates of a slice and of its reference; None unless both have trials."""
    reference = table.group.reference
    reference_rows = [
        table_row
        for table_row in table.rows
        if table_row.slice == reference or (reference == COMPLEMENT and table_row is not row)
    ]
    hits, trials = _exact_counts(reference_rows, metric)
    slice_hits, n = _exact_counts([row], metric)
    return (Fraction(slice_hits, n), Fraction(hits, trials)) if n and trials else None


def _exact_counts(rows: Sequence[SliceRow], metric: Metric) -> tuple[int, int]:
    """Return the hits and trials of a metric, summed over rows with exact rates."""
    rates = [row.rates[metric] for row in rows if metric in row.rates]
    hits = sum(round(rate.value * rate.support) for rate in rates if rate.value is not None)
    return hits, sum(rate.support for rate in rates)


def _rate_fraction(rate: ShownRate | None, *, exact: bool) -> Fraction | None:
    """Return a rate as a fraction, with ``exact`` of its counts; None if there is no value."""
    if rate is None or rate.value is None:
        return None
    if exact:
        return Fraction(round(rate.value * rate.support), rate.support)
    return _shown_fraction(rate.value)


def _shown_fraction(value: float | None) -> Fraction | None:
    """Return a value shown to three decimals as an exact fraction; None stays None."""
    return None if value is None else Fraction(f"{value:.3f}")


def _level_point(metric: Metric, point: Fraction, limit: Fraction) -> Point:
    """Return PASS if a rate keeps its limit (TPR at least, FPR at most), else FAIL."""
    return _pass_or_fail(point >= limit if metric.harmed_by_less else point <= limit)


def _pass_or_fail(kept: bool) -> Point:
    return Point.PASS if kept else Point.FAIL


def _rows_by_held_slices(
    pairs: Iterable[Sequence[Row]], table: GroupSlices, coding: Coding
) -> _Held:
    """Group the rows of pairs by the set of slices that each pair's variants are in."""
    attributes = table.group.attributes
    held: dict[frozenset[str], list[Row]] = defaultdict(list)
    for rows in pairs:
        held[frozenset(slice_of(row, attributes, coding) for row in rows)] += rows
    return held


def _same_pairs(held: _Held, text: str, reference: str) -> bool:
    """Return True if exactly the same pairs hold variants of a slice and of its reference."""
    holds = [(text in slices, _has_reference(slices, text, reference)) for slices in held]
    return (True, True) in holds and (True, False) not in holds and (False, True) not in holds


def _tables_of_both(
    table: GroupSlices, held: _Held, contract: Contract, coding: Coding
) -> dict[str, GroupSlices]:
    """Map each slice to a table over only the pairs that also hold its reference.

    A slice is absent if no pair holds both. Slices that are held by the same pairs share a table.
    """
    by_holding: dict[tuple[frozenset[str], ...], list[str]] = defaultdict(list)
    reference = table.group.reference
    for text in (row.slice for row in table.rows if row.slice != reference):
        both = tuple(
            group for group in held if text in group and _has_reference(group, text, reference)
        )
        if both:
            by_holding[both].append(text)
    tables: dict[str, GroupSlices] = {}
    for both, texts in by_holding.items():
        rows = [row for slices in both for row in held[slices]]
        is_all = len(both) == len(held)
        pair_table = table if is_all else slices_within(table, rows, contract, coding)
        tables |= dict.fromkeys(texts, pair_table)
    return tables


def _has_reference(slices: frozenset[str], text: str, reference: str) -> bool:
    """Return True if the reference has rows: of its own, or for a complement other slices."""
    return bool(slices - {text}) if reference == COMPLEMENT else reference in slices
