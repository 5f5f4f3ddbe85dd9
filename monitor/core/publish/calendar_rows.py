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

import numpy as np

from monitor.core.contract import COMPLEMENT, Contract, GroupBy, Limits, Metric, State, Verdict
from monitor.core.intervals import Floats
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
from monitor.core.tables.bands import Bools
from monitor.core.tables.layout import Row
from monitor.core.tables.rates import ShownRate as Rates
from monitor.core.tables.rates import rate_as_labelled
from monitor.core.tables.spans import Span

_DECIMALS = 1_000
_NEARLY = 1e-9


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

    def over(self, spans: Sequence[Span], metric: Metric) -> MetricRows:
        """Return rates, gaps and states of every slice for one metric, over several spans."""
        nones: list[None] = [None] * len(self.slices)
        if not spans:
            hidden = [State.SUPPRESSED] * len(self.slices)
            return MetricRows(self.slices, None, [*nones], [*nones], [*nones], hidden, [*nones])
        compared = self._compared_rates(spans, metric)
        enough = self._has_support(compared, metric)
        mature, completeness = self._maturity(spans, metric)
        gap_verdicts, gaps = self._judged_gaps(spans, metric, enough & mature)
        levels = self._level_verdicts(compared.slices, metric, enough & mature)
        reference = self._reference_place
        if reference is not None and Verdict.BETTER_OFF in gap_verdicts:
            gap_verdicts[reference], enough[reference] = Verdict.FAIL, True
        return MetricRows(
            self.slices,
            Period(spans[0].start, spans[-1].end),
            shown_rates(compared.slices, exact=self.contract.k == 1),
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
        z = simultaneous_z(compared_slices)
        rate, size = self.rates.rate(spans, metric, z), len(self.slices)
        slices = rows_of(rate, slice(0, size))
        if len(self.rates.rows) > size:
            return ComparedRates(metric, slices, rows_of(rate, slice(size, 2 * size)))
        place = self._reference_place or 0
        return ComparedRates(metric, slices, rows_of(rate, np.full(size, place)))

    def _maturity(self, spans: Sequence[Span], metric: Metric) -> tuple[Bools, list[float | None]]:
        """Return a mask of slices whose own and reference labels came, and each slice's share."""
        size = len(self.slices)
        if not metric.labelled:
            return np.ones(size, bool), [None] * size
        labels = self.rates.completeness(spans)
        ends = zip(labels.high[:size].tolist(), labels.shown[:size].tolist(), strict=True)
        shares = [round(share, 2) if shown else None for share, shown in ends]
        mature = labels.complete[:size]
        if len(labels.complete) > size:
            mature = mature & labels.complete[size:]
        elif self._reference_place is not None:
            mature = mature & mature[self._reference_place]
        return mature, [*shares]

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
        verdicts: list[Verdict | None] = [None] * len(self.slices)
        exact = self.contract.k == 1
        has_reference = self._has_reference
        if self.group is None or not has_reference.any():
            return verdicts, [None] * len(self.slices)
        reference, together = self.group.reference, self.compared
        if together is None:
            shown = self._compared_rates(spans, metric).slices.shown
            together = comparisons(int(shown.sum()), reference)
        gaps = gap(*self._compared_rates(spans, metric, together).columns())
        if not exact:
            gaps = _rounded_outward(gaps)
        for tolerance, limited in self._tolerances(metric):
            judged = verdict(gaps, tolerance, enough)
            verdicts = _judged_where(limited & has_reference, verdicts, judged)
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
                columns, lower=_rounded_down(columns.lower), upper=_rounded_up(columns.upper)
            )
        for level, limited in self._each_limit(lambda limits: limits.level(metric)):
            judged = level_verdicts(columns, level, enough)
            verdicts = _judged_where(limited, verdicts, judged)
        return verdicts


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
        values, lowers = np.rint(values * _DECIMALS) / _DECIMALS, _rounded_down(lowers)
        uppers = _rounded_up(uppers)
    return _listed(values), _listed(lowers), _listed(uppers)


def _listed(numbers: Floats) -> _Numbers:
    # Adding 0 turns -0.0, which would be written with its sign, into 0.0.
    return [None if math.isnan(number) else number for number in (numbers + 0.0).tolist()]


def _rounded_outward(gaps: GapColumns) -> GapColumns:
    """Return the gaps with bounds rounded outward to thousandths, as they are shown."""
    return replace(
        gaps,
        lower=_rounded_down(gaps.lower),
        upper=_rounded_up(gaps.upper),
        ratio_lower=_rounded_down(gaps.ratio_lower),
        ratio_upper=_rounded_up(gaps.ratio_upper),
    )


def _rounded_down(bounds: Floats) -> Floats:
    """Return lower bounds rounded down to thousandths."""
    return np.floor(bounds * _DECIMALS + _NEARLY) / _DECIMALS


def _rounded_up(bounds: Floats) -> Floats:
    """Return upper bounds rounded up to thousandths."""
    return np.ceil(bounds * _DECIMALS - _NEARLY) / _DECIMALS
