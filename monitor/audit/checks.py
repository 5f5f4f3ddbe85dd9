"""The contract's lines on one part of a set: by the point and by the interval, side by side.

In production only intervals decide. Matched pairs are few, so an audit says what the points alone
say too, and calls it that. Points are compared as exact fractions: of a synthetic set as counted,
of real people as shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from monitor.audit.counting import atom_of
from monitor.audit.model import Row
from monitor.audit.report import Check, Point, SupportCheck
from monitor.audit.slices import SUPPORTED, GroupSlices, declared
from monitor.core.coding import Coding
from monitor.core.contract import COMPLEMENT, Contract, Limits, Metric, Verdict, exceeds
from monitor.core.estimates import RateColumns
from monitor.core.gaps import HARMED_BY_LESS, level_verdict
from monitor.core.rollup import slice_text
from monitor.core.snapshot import ShownGap, ShownRate, SliceRow

_GAPS = (Metric.TPR, Metric.FPR, Metric.BLOCKED)

Pairs = Mapping[str, frozenset[str]]
"""The pairs that each slice of a group-by holds variants of."""


def contract_checks(
    groups: Sequence[GroupSlices], contract: Contract, rows: Sequence[Row], coding: Coding
) -> tuple[Check, ...]:
    """Gaps of every slice to its reference, then its levels, group-by after group-by.

    ``slice`` is the one that is compared and ``against`` its reference, whichever is worse off.
    Slices that a synthetic set has no item of are in no check. Which requests such a set holds of
    which slice is its author's choice: a gap is judged by the point only where both sides hold the
    very same pairs.

    Args:
        groups: the total and the group-bys, as :func:`monitor.audit.slices.slices_of` made them.
        contract: what is checked.
        rows: what the slices are made of.
        coding: the same that they were made with.
    """
    checks: list[Check] = []
    for table in groups[1:]:
        pairs = _pairs_of(rows, table.group.attributes, coding)
        for row in declared(table):
            if row.rates or not contract.synthetic:
                checks += _gaps(row, table, contract, pairs)
                checks += _levels(row, contract.limits, exact=contract.synthetic)
    return tuple(checks)


def baseline_checks(
    candidate: Sequence[GroupSlices], baseline: Sequence[GroupSlices], *, exact: bool
) -> tuple[Check, ...]:
    """Guardrails of a candidate: neither the whole nor a slice is served worse than it was.

    What closes a gap by helping everybody less, or by serving more unclear replies to everybody,
    is no repair.

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
                checks += _guardrails(row, old[row.slice], exact=exact)
    return tuple(checks)


def support_checks(groups: Sequence[GroupSlices], contract: Contract) -> tuple[SupportCheck, ...]:
    """Whether every slice that the settings name has its positives and negatives.

    A slice that is hidden, or that the set has no item of, has none that can be shown.
    """
    return tuple(
        _supported(metric, row, contract.limits.min_support(metric))
        for table in groups[1:]
        for row in declared(table)
        for metric in SUPPORTED
    )


def _supported(metric: Metric, row: SliceRow, needed: int) -> SupportCheck:
    support = row.rates[metric].support if metric in row.rates else 0
    return SupportCheck(metric, row.slice, support, needed, met=support >= needed)


def _gaps(row: SliceRow, table: GroupSlices, contract: Contract, pairs: Pairs) -> Iterator[Check]:
    reference = table.group.reference
    if row.slice == reference:
        return
    matched = _same_pairs(pairs, row.slice, reference)
    for metric in _GAPS:
        limit, shown = contract.limits.max_gap(metric), row.gaps.get(metric)
        if limit is not None:
            value, lower, upper = _not_negative(shown)
            point = _rounded(value)
            if contract.synthetic:
                point = _difference(row, table, metric) if matched else None
            yield Check(
                name=f"{metric}_gap",
                metric=metric,
                slice=row.slice,
                against=reference,
                limit=float(limit),
                value=value,
                lower=lower,
                upper=upper,
                point=Point.NONE if point is None else _point(not exceeds(point, limit)),
                verdict=(shown and shown.verdict) or Verdict.INSUFFICIENT_SUPPORT,
                matched=matched,
            )


def _levels(row: SliceRow, limits: Limits, *, exact: bool) -> Iterator[Check]:
    for name, metric, limit in (
        ("min_tpr", Metric.TPR, limits.min_tpr),
        ("max_fpr", Metric.FPR, limits.max_fpr),
    ):
        if limit is not None:
            verdict = _by_interval(metric, row.rates.get(metric), limit, limits)
            yield replace(_level(name, metric, row, limit, exact=exact), verdict=verdict)


def _guardrails(row: SliceRow, before: SliceRow, *, exact: bool) -> Iterator[Check]:
    for name, metric in (
        ("tpr_not_below_baseline", Metric.TPR),
        ("fpr_not_above_baseline", Metric.FPR),
    ):
        rate, old = row.rates.get(metric), before.rates.get(metric)
        check = _level(name, metric, row, _fraction(old, exact=exact), exact=exact)
        yield _by_codes(check, rate, old) if check.point is Point.NONE else check


def _by_codes(check: Check, rate: ShownRate | None, before: ShownRate | None) -> Check:
    """Where a rate is coded (at least, at most), what its code says all the same.

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
    """Between what a rate lies, by its value or its code."""
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
    """What the bounds that are shown say of a level."""
    if rate is None:
        return Verdict.INSUFFICIENT_SUPPORT
    value, lower, upper = (np.array([x], np.float64) for x in (rate.value, rate.lower, rate.upper))
    support = np.array([rate.support], np.int64)
    columns = RateColumns(
        metric, value, lower, upper, support.astype(np.float64), support, support, support
    )
    return level_verdict(columns, limit, support >= limits.min_support(metric))[0]


def _not_negative(gap: ShownGap | None) -> tuple[float | None, float | None, float | None]:
    """Value and bounds, seen from the larger rate; where the value is coded, from the worse one."""
    if gap is None:
        return None, None, None
    if gap.value is None or gap.value >= 0:
        return gap.value, gap.lower, gap.upper
    lower, upper = (None if x is None else 0.0 - x for x in (gap.upper, gap.lower))
    return -gap.value, lower, upper


def _difference(row: SliceRow, table: GroupSlices, metric: Metric) -> Fraction | None:
    """The gap of a synthetic set, from counts."""
    reference = table.group.reference
    others = [
        other
        for other in table.rows
        if other.slice == reference or (reference == COMPLEMENT and other is not row)
    ]
    hits, trials = _counted(others, metric)
    here, n = _counted([row], metric)
    if not (n and trials):
        return None
    return abs(Fraction(here, n) - Fraction(hits, trials))


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
    """What is shown to two decimals, exactly."""
    return None if value is None else Fraction(f"{value:.2f}")


def _kept(metric: Metric, point: Fraction, limit: Fraction) -> Point:
    """A TPR must be at least its limit, an FPR at most."""
    return _point(point >= limit if metric in HARMED_BY_LESS else point <= limit)


def _point(kept: bool) -> Point:
    return Point.PASS if kept else Point.FAIL


def _pairs_of(rows: Sequence[Row], attributes: tuple[str, ...], coding: Coding) -> Pairs:
    pairs: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        pairs[slice_text(atom_of(row, coding), attributes)].add(row.item.pair)
    return {text: frozenset(held) for text, held in pairs.items()}


def _same_pairs(pairs: Pairs, text: str, reference: str) -> bool:
    """Whether slice and reference hold variants of the very same pairs."""
    here = pairs.get(text, frozenset())
    others = (
        held
        for name, held in pairs.items()
        if name == reference or (reference == COMPLEMENT and name != text)
    )
    return bool(here) and here == frozenset().union(*others)
