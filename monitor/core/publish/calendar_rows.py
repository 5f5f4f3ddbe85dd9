"""Rows of one group-by in one window, computed only from published calendar tables.

Points, intervals, verdicts and states follow from the shown tables, so any reader of the tables
and the contract can compute the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

import numpy as np

from monitor.core.contract import COMPLEMENT, Contract, GroupBy, Limits, Verdict
from monitor.core.counts.cells import Int64s
from monitor.core.counts.completeness import SHOWN_MATURE
from monitor.core.intervals import Z95, Floats
from monitor.core.metric import Metric
from monitor.core.publish.calendar_rates import ComparedRates, GroupRates, UseCaseTables, rows_of
from monitor.core.publish.snapshot import Period, ShownGap, ShownRate
from monitor.core.publish.states import states
from monitor.core.rates.gaps import (
    GapColumns,
    both,
    comparisons,
    gap,
    level_verdicts,
    simultaneous_z,
    support_together,
    verdict,
)
from monitor.core.rates.tolerance import Tolerance
from monitor.core.state import State
from monitor.core.tables.bands import Bools
from monitor.core.tables.completeness import MissingLabels
from monitor.core.tables.layout import Row
from monitor.core.tables.rates import ShownRate as Rates
from monitor.core.tables.rates import rate_as_labelled
from monitor.core.tables.spans import Span

_Shown = TypeVar("_Shown", ShownRate, ShownGap)
_Column = TypeVar("_Column", Bools, Int64s)
_Verdicts = Sequence[Verdict | None]
_DECIMALS = 1_000
_NEARLY = 1e-9
_PAIR = 2


@dataclass(frozen=True, slots=True)
class MetricRows:
    """Columns of one metric for all slices of a group-by; lists have one item per slice.

    Attributes:
        slices: slice texts.
        period: period of the rates; None before any span has closed.
        rates: shown rates; None is hidden.
        as_labelled: naive rates of labelled rows; None if a rate has no point.
        gaps: shown gaps; None if slice or reference is hidden, and for the reference.
        states: state of each slice.
        completeness: upper bound on the share of requested labels that have come; None if it is
            not shown, and for metrics that need no labels.
    """

    slices: tuple[str, ...]
    period: Period | None
    rates: list[ShownRate | None]
    as_labelled: list[float | None]
    gaps: list[ShownGap | None]
    states: list[State]
    completeness: list[float | None]


@dataclass(frozen=True)
class GroupInTables:
    """Group-by of a contract with the published tables from which its rows are computed.

    Attributes:
        contract: the limits.
        group: the group-by; None for the total, which has no reference.
        rates: rates of its slices, and of their complements if these are the reference.
        slices: texts of the slices.
        compared: comparisons whose bounds hold together; None for those of the slices.
    """

    contract: Contract
    group: GroupBy | None
    rates: GroupRates
    slices: tuple[str, ...]
    compared: int | None = None

    @classmethod
    def from_tables(
        cls, contract: Contract, group: GroupBy | None, tables: UseCaseTables
    ) -> GroupInTables:
        """Return the group-by with the slices that the newest table of decisions lists."""
        slices = ("",) if group is None else tables.slices(group.attributes)
        rows = [Row(text) for text in slices]
        if group is not None and group.reference == COMPLEMENT:
            rows += [Row(text, complement=True) for text in slices]
        return cls(contract, group, GroupRates(tables, tuple(rows)), slices)

    def over(
        self, spans: Sequence[Span], metric: Metric, unanswered: Span | None = None
    ) -> MetricRows:
        """Return rates, gaps and states of every slice for one metric, over several spans.

        Args:
            spans: oldest first; empty before any has closed.
            metric: the metric.
            unanswered: span whose table of missing labels verdicts allow for; None without one.
        """
        nones: list[None] = [None] * len(self.slices)
        if not spans:
            hidden = [State.SUPPRESSED] * len(self.slices)
            return MetricRows(self.slices, None, [*nones], [*nones], [*nones], hidden, [*nones])
        compared = self._compared_rates(spans, metric)
        enough = self._has_support(compared, metric)
        missing = self.rates.missing(spans, unanswered) if metric.labelled and unanswered else None
        mature, completeness = self._maturity(spans, metric, missing)
        rates = shown_rates(compared.slices, exact=self.contract.k == 1)
        gap_verdicts, gaps = self._judged_gaps(spans, metric, enough & mature)
        levels = self._level_verdicts(compared.slices, metric, enough & mature)
        lacking = self._lacking(missing, compared.slices.shown)
        if missing is not None and lacking.any() and {*gap_verdicts, *levels} != {None}:
            worst = self._worst_case(spans, metric, np.where(lacking, missing.most, 0))
            mature = mature & self._kept_at_worst(metric, (gap_verdicts, levels), worst)
            gap_verdicts, gaps = self._judged_gaps(spans, metric, enough & mature)
            own, references = self._sides(lacking)
            rates = self._with_worst_bounds(rates, worst[1], own)
            gaps = self._with_worst_bounds(gaps, worst[0], own | references)
        reference = self._reference_place
        if reference is not None and Verdict.BETTER_OFF in gap_verdicts:
            gap_verdicts[reference], enough[reference] = Verdict.FAIL, True
        return MetricRows(
            self.slices,
            Period(spans[0].start, spans[-1].end),
            rates,
            self._as_labelled(spans, metric, compared.slices),
            gaps,
            states(compared.slices.shown, enough, mature, gap_verdicts, levels),
            completeness,
        )

    def _as_labelled(
        self, spans: Sequence[Span], metric: Metric, shown: Rates
    ) -> list[float | None]:
        """Return rates over labels alone, rounded like the shown ones; None where hidden."""
        if not metric.labelled:
            return [None] * len(self.slices)
        naive = rate_as_labelled(self.rates.labelled_counts(spans), metric)[: len(self.slices)]
        values, _, _ = _rounded_columns(
            np.where(np.isnan(shown.value), np.nan, naive),
            shown.lower,
            shown.upper,
            exact=self.contract.k == 1,
        )
        return values

    @property
    def _reference_place(self) -> int | None:
        """Place of the named reference among the slices; None without one."""
        reference = None if self.group is None else self.group.reference
        return self.slices.index(reference) if reference in self.slices else None

    @property
    def _has_reference(self) -> Bools:
        """Mask of the slices that are compared with a reference, shape (slices,)."""
        compared = np.full(len(self.slices), self.group is not None)
        if self._reference_place is not None:
            compared[self._reference_place] = False
        elif self.group is not None and self.group.reference != COMPLEMENT:
            compared[:] = False
        return compared

    def _compared_rates(
        self, spans: Sequence[Span], metric: Metric, compared_slices: int = 0
    ) -> ComparedRates:
        """Return rates of slices and references; bounds of ``compared_slices`` hold together."""
        rate = self.rates.rate(spans, metric, simultaneous_z(compared_slices))
        return self._compared(metric, rate, rate)

    def _compared(self, metric: Metric, slices: Rates, references: Rates) -> ComparedRates:
        """Return the slices' rows of one rate, each with its reference's row of another."""
        own, compared = self._sides(np.arange(len(self.rates.rows)))
        return ComparedRates(metric, rows_of(slices, own), rows_of(references, compared))

    def _sides(self, rows: _Column) -> tuple[_Column, _Column]:
        """Return a column of all rows split: of the slices, and of the reference of each."""
        size = len(self.slices)
        if len(rows) > size:
            return rows[:size], rows[size:]
        return rows, rows[np.full(size, self._reference_place or 0)]

    def _lacking(self, missing: MissingLabels | None, shown: Bools) -> Bools:
        """Return True for each row whose missing labels verdicts allow for.

        A complement lacks what its slices lack, and their own rows tell it. So its labels count
        only where no slice lacks any, or where it is a single slice. Otherwise one slice without
        labels would keep all others from being judged.
        """
        size = len(self.slices)
        lacking = np.zeros(size, bool) if missing is None else missing.matter
        if lacking[:size].any() and shown.sum() > _PAIR:
            lacking[size:] = False
        return lacking

    def _worst_case(
        self, spans: Sequence[Span], metric: Metric, missing: Floats
    ) -> tuple[GapColumns, Rates]:
        """Return gaps and rates with bounds that hold whatever the missing labels say."""
        estimates = self.rates.worst_case(spans, metric, missing)
        lowered, raised = (estimate.at(Z95) for estimate in estimates)
        rates = self._compared(metric, replace(lowered, upper=raised.upper), lowered).slices
        z = simultaneous_z(self._comparisons(spans, metric))
        lowered, raised = (estimate.at(z) for estimate in estimates)
        gaps, opposite = (
            gap(*self._compared(metric, *sides).columns())
            for sides in ((raised, lowered), (lowered, raised))
        )
        lower = np.minimum(gaps.lower, opposite.lower)
        gaps = replace(gaps, lower=lower, upper=np.maximum(gaps.upper, opposite.upper))
        return gaps if self.contract.k == 1 else _rounded_outward(gaps), rates

    def _kept_at_worst(
        self, metric: Metric, verdicts: tuple[_Verdicts, _Verdicts], worst: tuple[GapColumns, Rates]
    ) -> Bools:
        """Return False for each slice whose limits are kept, but not whatever labels are missing.

        Args:
            metric: the metric.
            verdicts: on gap and level, of each slice.
            worst: gaps and rates with the bounds that hold whatever the missing labels say.
        """
        every = np.ones(len(self.slices), bool)
        at_worst = (
            self._gap_verdicts(metric, worst[0], every),
            self._level_verdicts(worst[1], metric, every),
        )
        rows = zip(*verdicts, *at_worst, strict=True)
        return np.array([not _all_pass(row[:2]) or _all_pass(row[2:]) for row in rows])

    def _with_worst_bounds(
        self, shown: Sequence[_Shown | None], worst: GapColumns | Rates, bounded: Bools
    ) -> list[_Shown | None]:
        """Return rates or gaps; ``bounded`` ones with bounds whatever the missing labels say."""
        exact = self.contract.k == 1
        _, least, most = _rounded_columns(worst.value, worst.lower, worst.upper, exact=exact)
        rows = zip(shown, least, most, bounded.tolist(), strict=True)
        return [
            replace(number, least=low, most=high) if number and is_bounded else number
            for number, low, high, is_bounded in rows
        ]

    def _maturity(
        self, spans: Sequence[Span], metric: Metric, missing: MissingLabels | None
    ) -> tuple[Bools, list[float | None]]:
        """Return a mask of slices whose own and reference labels came, and each slice's share."""
        size = len(self.slices)
        if not metric.labelled:
            return np.ones(size, bool), [None] * size
        high, shown = self.rates.completeness(spans), self.rates.labelled_counts(spans).shown
        if missing is not None:  # of slices alone: a complement lacks what they lack
            high = np.concatenate([np.minimum(high, 1 - missing.least)[:size], high[size:]])
        ends = zip(high[:size].tolist(), shown[:size].tolist(), strict=True)
        shares = [round(share, 2) if is_shown else None for share, is_shown in ends]
        own, references = self._sides(high >= float(SHOWN_MATURE))
        return np.where(self._has_reference, own & references, own), [*shares]

    def _has_support(self, compared: ComparedRates, metric: Metric) -> Bools:
        """Return a mask of slices that, like their reference, have the contract's minimum support.

        Precision depends on positives and negatives, and each of them has its own minimum.
        """
        minimum = self.contract.limits.min_support(metric)
        slices, references = compared.slices, compared.references
        enough_alone = slices.shown & (slices.support >= minimum - _NEARLY)
        enough_together = slices.shown & references.shown
        sampled = (replace(rate, evidence=rate.sampled) for rate in (slices, references))
        for support in support_together(*sampled):
            enough_together = enough_together & (support >= minimum - _NEARLY)
        return np.where(self._has_reference, enough_together, enough_alone)

    def _judged_gaps(
        self, spans: Sequence[Span], metric: Metric, enough: Bools
    ) -> tuple[list[Verdict | None], list[ShownGap | None]]:
        """Return the verdict on each slice's gap of a metric, and each gap as shown."""
        exact = self.contract.k == 1
        has_reference = self._has_reference
        if self.group is None or not has_reference.any():
            return [None] * len(self.slices), [None] * len(self.slices)
        reference, together = self.group.reference, self._comparisons(spans, metric)
        gaps = gap(*self._compared_rates(spans, metric, together).columns())
        if not exact:
            gaps = _rounded_outward(gaps)
        verdicts = self._gap_verdicts(metric, gaps, enough)
        gaps_shown = [
            ShownGap(reference, *interval, *ratio, judged) if applies and is_known else None
            for interval, ratio, judged, applies, is_known in zip(
                zip(
                    *_rounded_columns(gaps.value, gaps.lower, gaps.upper, exact=exact), strict=True
                ),
                zip(
                    *_rounded_columns(gaps.ratio, gaps.ratio_lower, gaps.ratio_upper, exact=exact),
                    strict=True,
                ),
                verdicts,
                has_reference.tolist(),
                (~np.isnan(gaps.lower)).tolist(),
                strict=True,
            )
        ]
        return verdicts, gaps_shown

    def _comparisons(self, spans: Sequence[Span], metric: Metric) -> int:
        """Return how many comparisons of a metric hold together."""
        if self.compared is not None or self.group is None:
            return self.compared or 0
        shown = self._compared_rates(spans, metric).slices.shown
        return comparisons(int(shown.sum()), self.group.reference)

    def _gap_verdicts(
        self, metric: Metric, gaps: GapColumns, enough: Bools
    ) -> list[Verdict | None]:
        """Return the verdict on each gap; None where no limit applies, or without a reference."""
        verdicts: list[Verdict | None] = [None] * len(self.slices)
        for tolerance, limited in self._tolerances(metric):
            judged = verdict(gaps, tolerance, enough)
            verdicts = _judged_where(limited & self._has_reference, verdicts, judged)
        return verdicts

    def _tolerances(self, metric: Metric) -> Iterator[tuple[Tolerance, Bools]]:
        """Yield each tolerance for a metric's gaps or ratios, with a mask of the limited slices."""
        for limit, limited in self._each_limit(lambda limits: limits.max_gap(metric)):
            yield Tolerance.of_gap(limit), limited
        for limit, limited in self._each_limit(lambda limits: limits.min_ratio(metric)):
            yield Tolerance.of_ratio(limit), limited

    def _each_limit(
        self, limit_of: Callable[[Limits], Fraction | None]
    ) -> Iterator[tuple[Fraction, Bools]]:
        """Yield each distinct limit of the slices, with a mask of the slices that have it."""
        limits = [limit_of(own) for own in self._limits]
        for limit in sorted({limit for limit in limits if limit is not None}):
            yield limit, np.array([slice_limit == limit for slice_limit in limits], bool)

    @cached_property
    def _limits(self) -> list[Limits]:
        name = "" if self.group is None else self.group.name
        return [self.contract.limits_of(name, text) for text in self.slices]

    def _level_verdicts(self, rate: Rates, metric: Metric, enough: Bools) -> list[Verdict | None]:
        """Return the verdict on each slice's rate against its level; None without a level."""
        verdicts: list[Verdict | None] = [None] * len(self.slices)
        if self.group is None:
            return verdicts
        columns, _ = ComparedRates(metric, rate, rate).columns()
        if self.contract.k > 1:
            columns = replace(
                columns, lower=rounded_down(columns.lower), upper=rounded_up(columns.upper)
            )
        for level, limited in self._each_limit(lambda limits: limits.level(metric)):
            judged = level_verdicts(columns, level, enough)
            verdicts = _judged_where(limited, verdicts, judged)
        return verdicts


def _all_pass(verdicts: _Verdicts) -> bool:
    """Return True if a limit applies and all limits that apply are kept."""
    return {*verdicts} - {None} == {Verdict.PASS}


def _judged_where(
    limited: Bools, verdicts: Sequence[Verdict | None], judgements: Sequence[Verdict | None]
) -> list[Verdict | None]:
    """Return ``verdicts`` combined with ``judgements`` on a further limit where it applies."""
    rows = zip(limited.tolist(), verdicts, judgements, strict=True)
    return [
        both(present, judgement) if applies else present for applies, present, judgement in rows
    ]


def shown_rates(rate: Rates, *, exact: bool = False) -> list[ShownRate | None]:
    """Return each rate as published, in thousandths unless numbers are exact; None is hidden.

    A rate without a point is *at most* its upper bound if possibly nothing was a hit, and *at
    least* its lower bound if possibly everything was one.
    """
    values, lowers, uppers = _rounded_columns(rate.value, rate.lower, rate.upper, exact=exact)
    supports = np.floor(rate.support + _NEARLY).astype(np.int64).tolist()
    rows = zip(rate.shown.tolist(), values, lowers, uppers, supports, strict=True)
    return [_shown_rate(*row) if shown else None for shown, *row in rows]


def _shown_rate(
    value: float | None, lower: float | None, upper: float | None, support: int
) -> ShownRate:
    if value is not None or lower is None or upper is None:
        return ShownRate(value, lower, upper, support)
    at_most = upper if lower == 0 and upper < 1 else None
    at_least = lower if upper == 1 and lower > 0 else None
    return ShownRate(None, lower, upper, support, at_least, at_most)


_Numbers = list[float | None]


def _rounded_columns(
    values: Floats, lowers: Floats, uppers: Floats, *, exact: bool
) -> tuple[_Numbers, _Numbers, _Numbers]:
    """Return points and bounds in thousandths, bounds outward, or exact numbers; None for NaN."""
    if not exact:
        values, lowers = np.rint(values * _DECIMALS) / _DECIMALS, rounded_down(lowers)
        uppers = rounded_up(uppers)
    return _listed(values), _listed(lowers), _listed(uppers)


def _listed(numbers: Floats) -> _Numbers:
    # Adding 0 turns -0.0, which would be written with its sign, into 0.0.
    return [None if math.isnan(number) else number for number in (numbers + 0.0).tolist()]


def _rounded_outward(gaps: GapColumns) -> GapColumns:
    """Return the gaps with bounds rounded outward to thousandths, as they are shown."""
    return replace(
        gaps,
        lower=rounded_down(gaps.lower),
        upper=rounded_up(gaps.upper),
        ratio_lower=rounded_down(gaps.ratio_lower),
        ratio_upper=rounded_up(gaps.ratio_upper),
    )


def rounded_down(bounds: Floats) -> Floats:
    """Return lower bounds rounded down to thousandths."""
    return np.floor(bounds * _DECIMALS + _NEARLY) / _DECIMALS


def rounded_up(bounds: Floats) -> Floats:
    """Return upper bounds rounded up to thousandths."""
    return np.ceil(bounds * _DECIMALS - _NEARLY) / _DECIMALS
