"""All rows of one group-by in one window, as they may be published.

Every metric is estimated once for all slices. What is published comes from the shown columns, not
from the exact ones: numbers, verdicts and states. Only whether labels are in is told from counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from monitor.core.contract import COMPLEMENT, USUAL_METRICS, Limits, Metric, State, Verdict
from monitor.core.counts.cells import Int64s
from monitor.core.counts.coding import Coding
from monitor.core.counts.completeness import SHOWN_MATURE, by_stratum, is_mature
from monitor.core.counts.rollup import SliceCounts
from monitor.core.counts.strata import post_strata
from monitor.core.intervals import Floats, divide
from monitor.core.privacy.bands import Precision
from monitor.core.privacy.guards import Bools, Opened, each_labelled, route_labels
from monitor.core.privacy.pooling import decisions_of
from monitor.core.publish.agreement import pairs_of, shown_agreement
from monitor.core.publish.label_tables import pinned
from monitor.core.publish.shown_precision import shown_precision
from monitor.core.publish.snapshot import (
    CalibrationCell,
    ShownAgreement,
    ShownGap,
    ShownRate,
    SliceRow,
    Spread,
)
from monitor.core.publish.states import hidden, states
from monitor.core.publish.suppression import (
    ShownColumns,
    as_decided,
    code_third_route,
    known,
    show,
    show_gaps,
    shown_gaps,
    shown_rates,
)
from monitor.core.rates.estimates import (
    Measured,
    by_band,
    columns_of,
    measure,
)
from monitor.core.rates.gaps import (
    GapColumns,
    both,
    comparisons,
    gap,
    level_verdict,
    simultaneous_z,
    spread,
    support_together,
    verdict,
    verdicts_together,
)
from monitor.core.rates.tolerance import Tolerance

_T = TypeVar("_T")

MIN_CALIBRATION = 10
"""Labels a calibration cell needs whatever k is: fewer say nothing about a score band."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy by which counts become rows.

    Attributes:
        limits: the contract's numbers.
        coding: what the strata mean.
        precision: the resolution.
        own: limits of slices that have their own in place of these.
    """

    limits: Limits
    coding: Coding
    precision: Precision
    own: Mapping[str, Limits] = field(default_factory=dict)

    def by_limit(
        self, slices: Sequence[str], find: Callable[[Limits], Fraction | None]
    ) -> Iterator[tuple[Fraction, Bools]]:
        """Each limit that some slices have, and which ones do, shape (S,)."""
        if not self.own:
            if (limit := find(self.limits)) is not None:
                yield limit, np.ones(len(slices), bool)
            return
        limits = [find(self.own.get(text, self.limits)) for text in slices]
        for limit in sorted({one for one in limits if one is not None}):
            yield limit, np.array([one == limit for one in limits], bool)


@dataclass(frozen=True, slots=True)
class Rolled:
    """Counts of one group-by in one window, pooled, the same rows in both.

    Attributes:
        decisions: up to the watermark: selection and blocked rates.
        labelled: up to the label frontier: everything that rests on labels; None without.
        listed: the metrics of the contract.
    """

    decisions: SliceCounts
    labelled: SliceCounts | None
    listed: tuple[Metric, ...] = field(default=USUAL_METRICS, kw_only=True)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics the window has."""
        return tuple(m for m in self.listed if self.labelled is not None or not m.labelled)

    def rest(self, counts: SliceCounts) -> SliceCounts:
        """Row i: everything in some of these counts but slice i."""
        return counts.complements

    def counts(self, metric: Metric) -> SliceCounts:
        """The counts a metric rests on."""
        return self.labelled if metric.labelled and self.labelled else self.decisions


@dataclass(frozen=True, slots=True)
class _Rate:
    """One metric of all rows twice: measured, for verdicts, and as it may be shown."""

    measured: Measured
    shown: ShownColumns
    mature: Bools

    def rows(self, at: slice) -> _Rate:
        """Some rows alone."""
        return _Rate(self.measured.rows(at), self.shown.rows(at), self.mature[at])

    def hidden(self, away: Bools) -> _Rate:
        """Without what would be shown of some rows."""
        value = np.where(away, np.nan, self.shown.value)
        return replace(self, shown=replace(self.shown, shown=self.shown.shown & ~away, value=value))


@dataclass(frozen=True, slots=True)
class _MetricRows:
    """One metric of all rows, ready to be published."""

    states: list[State]
    rates: list[ShownRate | None]
    gaps: list[ShownGap | None]
    as_labelled: list[float | None]


_Rates = Mapping[Metric, _Rate]


@dataclass(frozen=True, slots=True)
class _Sides:
    """Slices, and what each of them is compared with where that is the rest of the group-by.

    Attributes:
        counts: of the slices, shape (S, K, COUNTERS).
        may: slices whose rates may be shown, shape (S,).
        rest: of their complements, the same rows; None where nothing, or a slice, is the reference.
        may_rest: complements whose rates may be shown, shape (S,).
    """

    counts: SliceCounts
    may: Bools
    rest: SliceCounts | None = None
    may_rest: Bools | None = None

    def rates(self, make: Callable[[SliceCounts, Bools], _Rates]) -> tuple[_Rates, _Rates | None]:
        """Rates of both sides, made together: rows do not know of each other."""
        if self.rest is None or self.may_rest is None:
            return make(self.counts, self.may), None
        both = make(self.counts.above(self.rest), np.concatenate([self.may, self.may_rest]))
        size = len(self.may)
        mine, others = ({m: one.rows(at) for m, one in both.items()} for at in _halves(size))
        return mine, others


def _halves(size: int) -> tuple[slice, slice]:
    return slice(0, size), slice(size, 2 * size)


def _decided_rates(policy: Policy, counts: SliceCounts, may: Bools) -> _Rates:
    """Selection and blocked rates of all rows, exact (with plain 95 % bounds) and as shown."""
    whole = np.ones(len(counts.slices), bool)
    rates = {}
    for metric in (Metric.SELECTION, Metric.BLOCKED):
        measured = measure(counts, policy.coding, metric)
        rates[metric] = _Rate(measured, show(measured, may, policy.precision), whole)
    selection, blocked = rates[Metric.SELECTION], rates[Metric.BLOCKED]
    third = selection.measured.misses - blocked.measured.hits
    coded = code_third_route(selection.shown, blocked.shown, third, policy.precision)
    return {**rates, Metric.BLOCKED: replace(blocked, shown=coded)}


def _labelled_rates(
    policy: Policy, metrics: Sequence[Metric], counts: SliceCounts, may: Bools
) -> _Rates:
    """The rates that rest on labels, in the same way."""
    routes, strata = route_labels(counts), post_strata(counts, policy.coding)
    whole, rates = _mature(counts), {}
    for metric in metrics:
        measured = measure(counts, policy.coding, metric, strata)
        rates[metric] = _Rate(measured, show(measured, may, policy.precision, routes), whole)
    known = {metric: rate.shown for metric, rate in rates.items()}
    away = pinned(counts, policy.coding, known, policy.precision)
    if away.any():
        rates = {metric: rate.hidden(away) for metric, rate in rates.items()}
    if (found := rates.get(Metric.PRECISION)) is not None and not policy.precision.exact:
        tpr, fpr, ready = (rates[m].shown for m in (Metric.TPR, Metric.FPR, Metric.READY))
        derived = shown_precision(tpr, fpr, ready, policy.precision)
        rates[Metric.PRECISION] = replace(found, shown=derived)
    return rates


def _named(rates: _Rates, slices: Sequence[str], reference: str | None) -> _Rates:
    """Rates of the slice that all are compared with; empty where there is no such (any more)."""
    if reference not in slices:
        return {}
    index = slices.index(reference)
    return {metric: rate.rows(slice(index, index + 1)) for metric, rate in rates.items()}


def _metric_rows(
    table: _GroupBounds, metric: Metric, rates: _Rates, references: _Rates
) -> _MetricRows:
    """One metric: numbers and intervals as shown, states and verdicts by these intervals."""
    policy, slices, reference = table.policy, table.slices, table.reference
    rate, other = rates[metric], references.get(metric)
    others = np.array([reference is not None and text != reference for text in slices], bool)
    # Precision has no support of its own: it is computed from the other two.
    needed = (Metric.TPR, Metric.FPR) if metric is Metric.PRECISION else (metric,)
    each = [_enough(policy, rates[one], references.get(one), others) for one in needed]
    enough, mature = np.all(each, axis=0), rate.mature
    gaps: list[ShownGap | None] = [None] * len(slices)
    gap_verdicts: list[Verdict | None] = [None] * len(slices)
    if other is not None:
        mature = mature & (other.mature | ~others)
        shown = _gaps(table, rate, other, enough & mature & others)
        for allowed, its in _tolerances(policy, rate, slices):
            found = _only(verdict(shown, allowed, enough & mature), its & others)
            gap_verdicts = list(map(both, gap_verdicts, found))
        gaps = _only(shown_gaps(shown, reference or COMPLEMENT, gap_verdicts), others)
    levels: list[Verdict | None] = [None] * len(slices)
    if reference is not None:  # the total is no slice: it has no level of its own to keep
        levels = _levels(policy, rate, slices, enough & mature)
    if reference in slices and Verdict.BETTER_OFF in gap_verdicts:
        at = slices.index(reference)  # worse off than a slice, beyond the limit
        gap_verdicts[at], enough[at] = Verdict.FAIL, True
    return _MetricRows(
        states=states(rate.shown.shown, enough, mature, gap_verdicts, levels),
        rates=shown_rates(rate.shown, policy.precision),
        gaps=gaps,
        as_labelled=_as_labelled(policy, rate),
    )


def _gaps(table: _GroupBounds, rate: _Rate, other: _Rate, enough: Bools) -> GapColumns:
    """The gaps of one metric as they may be shown; they agree with what exact counts decide."""
    policy, slices, compared = table.policy, table.slices, table.compared

    def gaps_at(z: float) -> GapColumns:
        return gap(*columns_of((rate.measured, other.measured), z))

    shown = show_gaps(rate.shown, other.shown, simultaneous_z(compared), policy.precision)
    for allowed, its in _tolerances(policy, rate, slices):
        verdicts = verdicts_together(gaps_at, allowed, enough & its, compared)
        shown = as_decided(shown, verdicts, enough & its, allowed)
    return shown


def _tolerances(
    policy: Policy, rate: _Rate, slices: Sequence[str]
) -> Iterator[tuple[Tolerance, Bools]]:
    """Tolerances of the gap of a metric, and of its ratio, and in which slices."""
    metric = rate.measured.metric
    for limit, its in policy.by_limit(slices, lambda limits: limits.max_gap(metric)):
        yield Tolerance.of_gap(limit), its
    for limit, its in policy.by_limit(slices, lambda limits: limits.min_ratio(metric)):
        yield Tolerance.of_ratio(limit), its


def _enough(policy: Policy, rate: _Rate, other: _Rate | None, compared: Bools) -> Bools:
    """Shown, with the contract's minimum support; what is compared, with its reference.

    By the lower edges of bands: exact supports would cut a band in two for every reader.
    """
    least = policy.limits.min_support(rate.measured.metric)
    alone = rate.shown.shown & (rate.shown.support >= least)
    if other is None:
        return alone & ~compared
    pair = rate.shown.shown & other.shown.shown
    for support in support_together(rate.measured, other.measured):
        pair = pair & (policy.precision.support(support) >= least)
    return np.where(compared, pair, alone)


def _levels(
    policy: Policy, rate: _Rate, slices: Sequence[str], enough: Bools
) -> list[Verdict | None]:
    """Each rate against its own level, by the 95 % bounds that are shown: no comparison is made."""
    metric, precision = rate.shown.metric, policy.precision
    found: list[Verdict | None] = [None] * len(slices)
    for level, its in policy.by_limit(slices, lambda limits: limits.level(metric)):
        rates = rate.shown.rates()
        bounds = replace(rates, lower=precision.down(rates.lower), upper=precision.up(rates.upper))
        found = list(map(both, found, _only(level_verdict(bounds, level, enough), its)))
    return found


def _mature(counts: SliceCounts) -> Bools:
    """Mask of the slices whose requested labels are there, in every route x audit rate."""
    return np.asarray(is_mature(*by_stratum(counts), SHOWN_MATURE).all(axis=1), bool)


def _as_labelled(policy: Policy, rate: _Rate) -> list[float | None]:
    """The rate over labelled rows, where the labelled rate itself is shown.

    That of PRECISION follows from those of the others.
    """
    if not rate.measured.metric.labelled or rate.measured.metric is Metric.PRECISION:
        return [None] * len(rate.measured.value)
    rounded = policy.precision.rounded(rate.measured.as_labelled, rate.shown.step)
    shown = np.where(np.isnan(rate.shown.value), np.nan, rounded)
    return known(shown)


def _only(items: list[_T | None], where: Bools) -> list[_T | None]:
    return [item if keep else None for item, keep in zip(items, where.tolist(), strict=True)]


class BuiltRows(NamedTuple):
    """The rows of a group-by in one window.

    Attributes:
        rows: one for every slice.
        spreads: how far apart the shown slices are.
        labelled: what of them rests on labels; None where nothing does, or nothing is shown.
    """

    rows: tuple[SliceRow, ...]
    spreads: tuple[Spread, ...] = ()
    labelled: LabelledRows | None = None


def build_rows(
    policy: Policy,
    rolled: Rolled,
    opened: Opened,
    reference: str | None = None,
    *,
    decides: bool = False,
    compared: int | None = None,
    before: LabelledRows | None = None,
) -> BuiltRows:
    """The rows of a group-by.

    Args:
        policy: what decides.
        rolled: counts; one row for every slice to be listed.
        opened: what the guards let through.
        reference: slice text or ``complement``; None for the total, which has no gaps.
        decides: whether it is the contract's own window.
        compared: comparisons whose bounds hold together; None where it is those of the table.
        before: what was made of the same labels under the same policy; taken where it still fits.
    """
    slices, metrics = rolled.decisions.slices, rolled.metrics
    if not opened.cells.any():
        return BuiltRows(tuple(SliceRow(text, hidden(metrics)) for text in slices))
    own = comparisons(int(opened.cells.sum()), reference or COMPLEMENT)
    table = _GroupBounds(policy, slices, reference, own if compared is None else compared)
    rest = rolled.rest(rolled.decisions) if reference == COMPLEMENT else None
    cells = None if rest is None else decisions_of(rest) >= policy.precision.k
    sides = _Sides(rolled.decisions, opened.cells, rest, cells)
    rates, others = sides.rates(partial(_decided_rates, policy))
    tables, values = table.metric_rows(rates, others), _values(rates)
    labelled, beside = None, [_Beside()] * len(slices)
    if rolled.labelled is not None:
        basis = _Basis.of(table, opened.labels, cells, decides=decides)
        known = before if before is not None and before.basis == basis else None
        labelled = known or _labelled_rows(table, rolled, basis)
        beside = labelled.beside
        tables, values = tables | labelled.tables, values | labelled.values
    in_order = {metric: tables[metric] for metric in metrics}
    rows = tuple(_rows(slices, in_order, beside))
    shown = {metric: values[metric] for metric in metrics}
    return BuiltRows(rows, _spreads(policy, slices, shown), labelled)


@dataclass(frozen=True, slots=True)
class _GroupBounds:
    """What all metrics of a group-by are judged by; ``compared``: bounds that hold together."""

    policy: Policy
    slices: tuple[str, ...]
    reference: str | None
    compared: int

    def metric_rows(self, rates: _Rates, rest: _Rates | None) -> dict[Metric, _MetricRows]:
        """Metrics of all rows, against the rest of the group-by, or the named reference."""
        others = _named(rates, self.slices, self.reference) if rest is None else rest
        return {metric: _metric_rows(self, metric, rates, others) for metric in rates}


@dataclass(frozen=True, slots=True)
class _Basis:
    """Whatever rows of labels rest on besides the labels: where it is equal, they are.

    Attributes:
        slices: the rows.
        compared: comparisons whose bounds hold together.
        may: rows whose labelled rates may be shown.
        rest: rows whose complements have enough decisions; None without complements.
        decides: whether it is the contract's own window.
    """

    slices: tuple[str, ...]
    compared: int
    may: tuple[bool, ...]
    rest: tuple[bool, ...] | None
    decides: bool

    @classmethod
    def of(cls, table: _GroupBounds, may: Bools, rest: Bools | None, *, decides: bool) -> _Basis:
        """The basis of the rows of a table."""
        others = None if rest is None else tuple(rest.tolist())
        return cls(table.slices, table.compared, tuple(may.tolist()), others, decides)


@dataclass(frozen=True, slots=True)
class LabelledRows:
    """What rests on labels of all rows: decisions that come later do not change it.

    Attributes:
        basis: what else it was made of.
        tables: the labelled metrics.
        values: their shown values, shape (S,).
        beside: label statistics of every row.
    """

    basis: _Basis
    tables: dict[Metric, _MetricRows]
    values: dict[Metric, Floats]
    beside: list[_Beside]


def _labelled_rows(table: _GroupBounds, rolled: Rolled, basis: _Basis) -> LabelledRows:
    policy, labelled = table.policy, rolled.labelled
    assert labelled is not None, "called where there are labels"  # noqa: S101
    metrics, may = [m for m in rolled.metrics if m.labelled], np.array(basis.may, bool)
    sides = _Sides(labelled, may)
    if basis.rest is not None:
        rest = rolled.rest(labelled)
        open_rest = np.array(basis.rest, bool)
        open_rest &= each_labelled(route_labels(rest), policy.precision.k)
        sides = _Sides(labelled, may, rest, open_rest)
    rates, others = sides.rates(partial(_labelled_rates, policy, metrics))
    beside = _beside(policy, labelled, may, _numbers(rates), decides=basis.decides)
    return LabelledRows(basis, table.metric_rows(rates, others), _values(rates), beside)


def _values(rates: _Rates) -> dict[Metric, Floats]:
    return {metric: rate.shown.value for metric, rate in rates.items()}


@dataclass(frozen=True, slots=True)
class _Beside:
    """Label statistics of a row, shown only with its labelled rates."""

    calibration: tuple[CalibrationCell, ...] = ()
    completeness: float | None = None
    agreement: ShownAgreement | None = None


def _numbers(rates: Mapping[Metric, _Rate]) -> Bools:
    """Rows whose TPR and FPR are both shown as numbers: no count that they are of is below k."""
    values = [rates[metric].shown.value for metric in (Metric.TPR, Metric.FPR) if metric in rates]
    return np.asarray(~np.isnan(values).any(axis=0), bool)


def _beside(
    policy: Policy, labelled: SliceCounts, may: Bools, numbers: Bools, *, decides: bool
) -> list[_Beside]:
    """Calibration, completeness and agreement of every row, of labels that may be shown.

    Where a score band is a route, its calibration is one more ratio of the table that TPR and FPR
    are of: a row has it only if both are numbers.
    """
    if not may.any():
        return [_Beside()] * len(labelled.slices)
    bands = zip(*_calibration(policy, labelled, may, numbers), strict=True)
    cells = [
        tuple(map(CalibrationCell, policy.coding.band_names, row)) if show_it else ()
        for row, show_it in zip(bands, may.tolist(), strict=True)
    ]
    complete = np.where(may, _completeness(policy.precision, labelled), np.nan)
    agreement = [
        shown_agreement(pairs, policy.precision) if decides and show_it else None
        for pairs, show_it in zip(pairs_of(labelled), may.tolist(), strict=True)
    ]
    return list(map(_Beside, cells, known(complete), agreement))


def _calibration(
    policy: Policy, labelled: SliceCounts, may: Bools, numbers: Bools
) -> list[list[ShownRate | None]]:
    """P(ready | score band) of every row, by band.

    A band is hidden in all rows if one has 1 to k - 1 labels.
    """
    precision, size, bands = policy.precision, len(labelled.slices), policy.coding.bands
    counts = by_band(labelled, bands)
    routes, k = route_labels(counts), precision.k
    labels: Int64s = routes.labels.sum(axis=0).reshape(bands, size)
    few = np.any((labels != 0) & (labels < k), axis=1, keepdims=True)
    shown = may & (labels >= max(MIN_CALIBRATION, k)) & ~few & (numbers | precision.exact)
    exact = measure(counts, policy.coding, Metric.READY)
    rates = shown_rates(show(exact, shown.ravel(), precision, routes), precision)
    return [rates[at : at + size] for at in range(0, len(rates), size)]


def _completeness(precision: Precision, labelled: SliceCounts) -> Floats:
    """Received / requested, the minimum over route x audit rate; NaN if nothing was requested.

    Of each stratum it is rounded like a rate, and complete if less than k of at least 10 (k - 1)
    are missing. Where fewer were requested, or less than k came, both numbers are floored to bands
    first (below k: received counts as 0, requested is left out).
    """
    k, (received, requested) = precision.k, by_stratum(labelled)
    asked = requested.any(axis=0)
    received, requested = received[:, asked], requested[:, asked]
    bands, missing = precision.support(requested), requested - received
    banded = precision.nearest(divide(precision.support(received), bands))
    share = np.select(
        [bands == 0, (received >= k) & (missing >= k), (missing < k) & (bands >= 10 * (k - 1))],
        [np.inf, precision.rate(divide(received, requested), requested), 1.0],
        np.minimum(banded, 1),
    )
    least = share.min(axis=1, initial=np.inf)
    return np.where(np.isinf(least), np.nan, least)


def _rows(
    slices: Sequence[str], tables: Mapping[Metric, _MetricRows], beside: Sequence[_Beside]
) -> Iterator[SliceRow]:
    """Rows from the columns of all metrics."""
    each = tables.values()
    columns = (
        zip(*(table.states for table in each), strict=True),
        zip(*(table.rates for table in each), strict=True),
        zip(*(table.gaps for table in each), strict=True),
        zip(*(table.as_labelled for table in each), strict=True),
    )
    for text, states_, rates, gaps, as_labelled, found in zip(
        slices, *columns, beside, strict=True
    ):
        shown = _known_of(tables, rates)
        # Without labelled rates the row looks like any hidden one.
        more = found if any(metric.labelled for metric in shown) else _Beside()
        yield SliceRow(
            slice=text,
            states=dict(zip(tables, states_, strict=True)),
            rates=shown,
            gaps=_known_of(tables, gaps),
            as_labelled=_known_of(tables, as_labelled),
            calibration=more.calibration,
            completeness=more.completeness,
            agreement=more.agreement,
        )


def _known_of(metrics: Iterable[Metric], items: Sequence[_T | None]) -> dict[Metric, _T]:
    """Items of the metrics that have one."""
    return {m: item for m, item in zip(metrics, items, strict=True) if item is not None}


def _spreads(
    policy: Policy, slices: tuple[str, ...], values: Mapping[Metric, Floats]
) -> tuple[Spread, ...]:
    """Worst to best over the values that are shown; coded and hidden slices have none."""
    found = ((metric, spread(metric, value)) for metric, value in values.items())
    return tuple(
        Spread(metric, slices[ends[0]], slices[ends[1]], float(policy.precision.nearest(ends[2])))
        for metric, ends in found
        if ends is not None
    )
