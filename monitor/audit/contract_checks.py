"""The contract's lines on one part of a set: by the point and by the interval, side by side.

In production only intervals decide. Matched pairs are few, so an audit says what the points alone
say too, and calls it that. Points are compared as exact fractions: of a synthetic set as counted,
of real people as shown.
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
from monitor.core.contract import (
    COMPLEMENT,
    Contract,
    GroupBy,
    Limits,
    Metric,
    Role,
    Verdict,
    exceeds,
)
from monitor.core.counts.coding import Coding
from monitor.core.probes.flips import in_rates
from monitor.core.publish.snapshot import ShownGap, ShownRate, SliceRow
from monitor.core.rates.estimates import RateColumns
from monitor.core.rates.gap_words import worse_off
from monitor.core.rates.gaps import HARMED_BY_LESS, GapColumns, level_verdict, verdict
from monitor.core.rates.tolerance import Tolerance
from monitor.core.tables.bands import at_least

_GAPS = (Metric.TPR, Metric.FPR, Metric.PRECISION, Metric.BLOCKED, Metric.SELECTION)

_Held = Mapping[frozenset[str], Sequence[Row]]
"""The rows of all pairs that hold variants of the same slices, by those slices."""


def contract_checks(
    groups: Sequence[GroupSlices], contract: Contract, rows: Sequence[Row], coding: Coding
) -> tuple[Check, ...]:
    """Gaps of every slice to its reference, then its levels, group-by after group-by.

    ``slice`` is the one that is compared and ``against`` its reference. As in production, a gap is
    positive where the slice is worse off and negative where its reference is; both are limited.
    Slices that a synthetic set has no item of are in no check. Which requests such a set holds of
    which slice is its author's choice: a gap is over the pairs that hold both sides, and without
    any it is not decided. Levels are over all items.

    Args:
        groups: the total and the group-bys, as :func:`monitor.audit.slices.slices_of` made them.
        contract: what is checked.
        rows: what the slices are made of.
        coding: the same that they were made with.
    """
    checks: list[Check] = []
    pairs = by_pair(rows, lambda row: row.item).values()
    for table in groups[1:]:
        compared = _compared(table, _held_slices(pairs, table, coding), contract, coding)
        of_table: list[Check] = []
        for row in declared(table):
            if row.rates or not contract.synthetic:
                its = compared.get(row.slice)
                of_table += _gaps(row.slice, table.group, contract, its)
                limits = contract.limits_of(table.group.name, row.slice)
                of_table += _levels(row, limits, exact=contract.synthetic)
        checks += _told_once(of_table)
    return tuple(checks)


def _told_once(checks: Sequence[Check]) -> list[Check]:
    """The checks of a group-by, in which each harm fails once: of the side that is worse off."""
    by_name: dict[str, list[Check]] = defaultdict(list)
    for check in checks:
        by_name[check.name].append(check)
    tellers = {name: _furthest_ahead(same) for name, same in by_name.items()}
    return [_with_side(check, by_name[check.name], tellers[check.name]) for check in checks]


def _with_side(check: Check, same: Sequence[Check], teller: Check | None) -> Check:
    """A check by which its slice is better off fails only if it alone tells of the others."""
    if not _is_ahead(check):
        return check
    behind = [other for other in same if other.against == COMPLEMENT and not _is_ahead(other)]
    told = check is not teller
    told_by_point = told or any(other.point is Point.FAIL for other in behind)
    told_by_interval = told or any(other.verdict is Verdict.FAIL for other in behind)
    point, verdict = check.point, check.verdict
    if point is Point.FAIL and told_by_point:
        point = Point.BETTER_OFF
    if verdict is Verdict.BETTER_OFF and not told_by_interval:
        verdict = Verdict.FAIL
    return replace(check, point=point, verdict=verdict)


def _furthest_ahead(checks: Iterable[Check]) -> Check | None:
    """The check by which others are furthest worse off than its slice; None without one."""
    return max(filter(_is_ahead, checks), key=_lead, default=None)


def _is_ahead(check: Check) -> bool:
    beyond = check.point is Point.FAIL and check.worse_off == check.against != ""
    return beyond or check.verdict is Verdict.BETTER_OFF


def _lead(check: Check) -> float:
    """How far a slice is ahead; where its value is withheld, at least."""
    ratio = check.name.endswith("_ratio")
    bound = check.lower if ratio else check.upper
    number = bound if check.value is None else check.value
    return 0.0 if number is None else number if ratio else -number


def baseline_checks(
    candidate: Sequence[GroupSlices], baseline: Sequence[GroupSlices], *, exact: bool
) -> tuple[Check, ...]:
    """Checks that neither the whole nor a slice is served worse by a candidate than it was.

    Closing a gap by helping everybody less, or by serving more unclear replies to everybody, is
    no repair.

    Args:
        candidate: its slices.
        baseline: those of the baseline, made of the same items.
        exact: whether rates are as counted (a synthetic set) or rounded.
    """
    checks: list[Check] = []
    for table, before in zip(candidate, baseline, strict=True):
        old = {row.slice: row for row in before.rows}
        for row in declared(table):
            if row.slice in old and row.rates:
                checks += _against_baseline(row, old[row.slice], exact=exact)
    return tuple(checks)


def led_by_primary(checks: Iterable[Check], contract: Contract) -> tuple[Check, ...]:
    """The checks with their roles; of each slice those of the contract's primary metric first."""
    told = [replace(check, role=contract.role(check.metric)) for check in checks]
    order = {text: i for i, text in enumerate(dict.fromkeys(check.slice for check in told))}
    return tuple(sorted(told, key=lambda one: (order[one.slice], one.role is not Role.PRIMARY)))


def support_checks(
    groups: Sequence[GroupSlices], contract: Contract, rows: Sequence[Row], coding: Coding
) -> tuple[SupportCheck, ...]:
    """Check that every slice named in the settings has its positives and negatives.

    A slice that is hidden, or that the set has no item of, has none that can be shown. Of real
    people pairs are counted, as the lower edge of a band: ten variants of one request say little
    more of how a slice is treated than one does.

    Args:
        groups: as in :func:`contract_checks`.
        contract: what is asked for.
        rows: what the slices are made of.
        coding: the same that they were made with.
    """
    checks: list[SupportCheck] = []
    for table in groups[1:]:
        people = {} if contract.synthetic else _people(rows, table.group.attributes, coding)
        for row, metric in product(declared(table), SUPPORTED):
            support = row.rates[metric].support if metric in row.rates else 0
            if not contract.synthetic:
                pairs = len(people.get((row.slice, metric), ()))
                support = min(support, at_least(pairs, contract.k))
            needed = contract.limits.min_support(metric)
            checks.append(SupportCheck(metric, row.slice, support, needed, support >= needed))
    return tuple(checks)


def _people(
    rows: Sequence[Row], attributes: tuple[str, ...], coding: Coding
) -> Mapping[tuple[str, Metric], Set[str]]:
    """The pairs behind TPR and FPR of each slice."""
    found: dict[tuple[str, Metric], set[str]] = defaultdict(set)
    for row in rows:
        if in_rates(row.observed):
            metric = Metric.TPR if row.item.expected_ready else Metric.FPR
            found[slice_of(row, attributes, coding), metric].add(row.item.pair)
    return found


@dataclass(frozen=True, slots=True)
class _Compared:
    """Row of one slice, and the table it is in with its reference; the gaps come from them."""

    row: SliceRow
    table: GroupSlices
    matched: bool  # as in Check.matched


def _compared(
    table: GroupSlices, held: _Held, contract: Contract, coding: Coding
) -> dict[str, _Compared]:
    """Rows to compare, by slice; of a synthetic set only if a pair holds their reference too."""
    if contract.synthetic:
        of_both = _tables_of_both(table, held, contract, coding)
        rows = {id(its): {row.slice: row for row in its.rows} for its in of_both.values()}
        return {text: _Compared(rows[id(its)][text], its, True) for text, its in of_both.items()}
    reference = table.group.reference
    return {
        row.slice: _Compared(row, table, _same_pairs(held, row.slice, reference))
        for row in table.rows
    }


def _gaps(
    text: str, group: GroupBy, contract: Contract, compared: _Compared | None
) -> Iterator[Check]:
    reference, limits = group.reference, contract.limits_of(group.name, text)
    if text == reference:
        return
    for metric in _GAPS:
        limit = limits.max_gap(metric)
        if limit is not None:
            allowed = Tolerance.of_gap(limit)
            shown = compared.row.gaps.get(metric) if compared else None
            value = shown.value if shown else None
            point = _rounded(value)
            if contract.synthetic and compared:
                point = _difference(compared.row, compared.table, metric)
            yield Check(
                name=f"{metric}_gap",
                metric=metric,
                slice=text,
                against=reference,
                limit=float(limit),
                value=value,
                lower=shown.lower if shown else None,
                upper=shown.upper if shown else None,
                point=Point.NONE if point is None else _point(not exceeds(abs(point), limit)),
                verdict=_by_bounds(shown, allowed),
                matched=compared is not None and compared.matched,
                worse_off=worse_off(text, reference, value),
            )
    yield from _ratios(text, group, contract, compared)


def _ratios(
    text: str, group: GroupBy, contract: Contract, compared: _Compared | None
) -> Iterator[Check]:
    reference, limits = group.reference, contract.limits_of(group.name, text)
    for metric in _GAPS:
        limit = limits.min_ratio(metric)
        if limit is not None:
            allowed = Tolerance.of_ratio(limit)
            shown = compared.row.gaps.get(metric) if compared else None
            point = _ratio_point(_rounded(shown.ratio if shown else None), limit)
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
                verdict=_by_bounds(shown, allowed),
                matched=compared is not None and compared.matched,
                worse_off=worse_off(text, reference, shown.value if shown else None),
            )


def _by_bounds(shown: ShownGap | None, allowed: Tolerance) -> Verdict:
    """Verdict on one limit, from the bounds that are shown; the row's is on all limits at once."""
    if shown is None or shown.verdict in (None, Verdict.INSUFFICIENT_SUPPORT):
        return Verdict.INSUFFICIENT_SUPPORT
    numbers = (shown.value, shown.lower, shown.upper)
    ratios = (shown.ratio, shown.ratio_lower, shown.ratio_upper)
    columns = (np.array([x], np.float64) for x in (*numbers, *ratios))
    (found,) = verdict(GapColumns(Metric.SELECTION, *columns), allowed, np.array([True]))
    return found or Verdict.INSUFFICIENT_SUPPORT


def _ratio_point(ratio: Fraction | None, limit: Fraction) -> Point:
    return Point.NONE if ratio is None else _point(limit <= ratio <= 1 / limit)


def _counted_ratio_point(compared: _Compared, metric: Metric, limit: Fraction) -> Point:
    """The ratio of a synthetic set against its limit, from counts; none of two rates of 0."""
    sides = _sides(compared.row, compared.table, metric)
    if sides is None or not any(sides):
        return Point.NONE
    low, high = sorted(sides)
    return _point(low >= limit * high)


def _levels(row: SliceRow, limits: Limits, *, exact: bool) -> Iterator[Check]:
    for name, metric, limit in (
        ("min_tpr", Metric.TPR, limits.min_tpr),
        ("max_fpr", Metric.FPR, limits.max_fpr),
    ):
        if limit is not None:
            verdict = _by_interval(metric, row.rates.get(metric), limit, limits)
            yield replace(_level(name, metric, row, limit, exact=exact), verdict=verdict)


def _against_baseline(row: SliceRow, before: SliceRow, *, exact: bool) -> Iterator[Check]:
    for name, metric in (
        ("tpr_not_below_baseline", Metric.TPR),
        ("fpr_not_above_baseline", Metric.FPR),
    ):
        rate, old = row.rates.get(metric), before.rates.get(metric)
        check = _level(name, metric, row, _fraction(old, exact=exact), exact=exact)
        yield _by_codes(check, rate, old) if check.point is Point.NONE else check


def _by_codes(check: Check, rate: ShownRate | None, before: ShownRate | None) -> Check:
    """Decide a baseline check of a coded rate (at least, at most) where the code suffices.

    A baseline that serves hardly any unclear reply has no FPR that can be shown; a candidate that
    serves a third of them is above it for certain.
    """
    here, there = _range(rate), _range(before)
    if here is None or there is None:
        return check
    if check.metric in HARMED_BY_LESS:
        worse, kept, limit = here[1] < there[0], here[0] >= there[1], there[0]
    else:
        worse, kept, limit = here[0] > there[1], here[1] <= there[0], there[1]
    if worse:
        return replace(check, limit=float(limit), point=Point.FAIL)
    return replace(check, point=Point.PASS) if kept else check


def _range(rate: ShownRate | None) -> tuple[Fraction, Fraction] | None:
    """Smallest and largest value that a rate may have, by its value or its code."""
    if rate is None:
        return None
    value, least, most = map(_rounded, (rate.value, rate.at_least, rate.at_most))
    if value is not None:
        return value, value
    if least is None and most is None:
        return None
    return least or Fraction(0), Fraction(1) if most is None else most


def _level(
    name: str, metric: Metric, row: SliceRow, limit: Fraction | None, *, exact: bool
) -> Check:
    """A rate against what it must keep to, by the point alone."""
    rate = row.rates.get(metric)
    point = _fraction(rate, exact=exact)
    return Check(
        name=name,
        metric=metric,
        slice=row.slice,
        against="",
        limit=None if limit is None else float(limit),
        value=rate.value if rate else None,
        lower=rate.lower if rate else None,
        upper=rate.upper if rate else None,
        point=Point.NONE if point is None or limit is None else _kept(metric, point, limit),
        verdict=None,
    )


def _by_interval(
    metric: Metric, rate: ShownRate | None, limit: Fraction, limits: Limits
) -> Verdict | None:
    """Verdict on a level, from the bounds that are shown."""
    if rate is None:
        return Verdict.INSUFFICIENT_SUPPORT
    value, lower, upper = (np.array([x], np.float64) for x in (rate.value, rate.lower, rate.upper))
    support = np.array([rate.support], np.int64)
    columns = RateColumns(
        metric, value, lower, upper, support.astype(np.float64), support, support, support
    )
    return level_verdict(columns, limit, support >= limits.min_support(metric))[0]


def _difference(row: SliceRow, table: GroupSlices, metric: Metric) -> Fraction | None:
    """The gap of a synthetic set, from counts; positive where the slice is worse off."""
    sides = _sides(row, table, metric)
    if sides is None:
        return None
    more = sides[0] - sides[1]
    return -more if metric in HARMED_BY_LESS else more


def _sides(row: SliceRow, table: GroupSlices, metric: Metric) -> tuple[Fraction, Fraction] | None:
    """Rates of a slice and of its reference in a synthetic set; None without trials in both."""
    reference = table.group.reference
    others = [
        other
        for other in table.rows
        if other.slice == reference or (reference == COMPLEMENT and other is not row)
    ]
    hits, trials = _counted(others, metric)
    here, n = _counted([row], metric)
    return (Fraction(here, n), Fraction(hits, trials)) if n and trials else None


def _counted(rows: Sequence[SliceRow], metric: Metric) -> tuple[int, int]:
    """Hits and trials behind exact rates."""
    rates = [row.rates[metric] for row in rows if metric in row.rates]
    hits = sum(round(rate.value * rate.support) for rate in rates if rate.value is not None)
    return hits, sum(rate.support for rate in rates)


def _fraction(rate: ShownRate | None, *, exact: bool) -> Fraction | None:
    if rate is None or rate.value is None:
        return None
    if exact:
        return Fraction(round(rate.value * rate.support), rate.support)
    return _rounded(rate.value)


def _rounded(value: float | None) -> Fraction | None:
    """A value shown to three decimals, as an exact fraction; None stays None."""
    return None if value is None else Fraction(f"{value:.3f}")


def _kept(metric: Metric, point: Fraction, limit: Fraction) -> Point:
    """A TPR must be at least its limit, an FPR at most."""
    return _point(point >= limit if metric in HARMED_BY_LESS else point <= limit)


def _point(kept: bool) -> Point:
    return Point.PASS if kept else Point.FAIL


def _held_slices(pairs: Iterable[Sequence[Row]], table: GroupSlices, coding: Coding) -> _Held:
    """Group the rows of pairs by the slices of a group-by that each pair holds variants of."""
    attributes = table.group.attributes
    held: dict[frozenset[str], list[Row]] = defaultdict(list)
    for rows in pairs:
        held[frozenset(slice_of(row, attributes, coding) for row in rows)] += rows
    return held


def _same_pairs(held: _Held, text: str, reference: str) -> bool:
    """Return True when exactly the same pairs hold a slice and its reference."""
    both = [(text in slices, _has_reference(slices, text, reference)) for slices in held]
    return (True, True) in both and (True, False) not in both and (False, True) not in both


def _tables_of_both(
    table: GroupSlices, held: _Held, contract: Contract, coding: Coding
) -> dict[str, GroupSlices]:
    """Tables by slice of a synthetic set, each over the pairs that hold its reference too.

    A slice is absent if no pair holds both. Slices that are held by the same pairs share a table.
    """
    found: dict[tuple[frozenset[str], ...], list[str]] = defaultdict(list)
    reference = table.group.reference
    for text in (row.slice for row in table.rows if row.slice != reference):
        both = tuple(one for one in held if text in one and _has_reference(one, text, reference))
        if both:
            found[both].append(text)
    tables: dict[str, GroupSlices] = {}
    for both, texts in found.items():
        rows = [row for slices in both for row in held[slices]]
        whole = len(both) == len(held)
        its = table if whole else slices_within(table, rows, contract, coding)
        tables |= dict.fromkeys(texts, its)
    return tables


def _has_reference(slices: frozenset[str], text: str, reference: str) -> bool:
    return bool(slices - {text}) if reference == COMPLEMENT else reference in slices
