"""Rows of one group-by in one window, from published calendar tables and from nothing else.

Points, intervals, verdicts and states are computed from what the tables show, so whoever has the
tables and the contract comes to the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

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
    level_verdict,
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
    """One metric of all slices of a group-by, as rows take it up; lists have one item a slice.

    Attributes:
        slices: their texts.
        period: what the rates are of; None before any span has closed.
        rates: shown ones; None is hidden.
        as_labelled: the naive rates of labelled rows alone; None where a rate has no point.
        gaps: shown ones; None where slice or reference is hidden, and of the reference.
        states: of each.
        completeness: share of the labels asked for that have come at most; None where it is not
            shown, and of metrics that need no labels.
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
    """One group-by of a contract, seen through the published tables of its use case.

    Attributes:
        contract: the limits.
        group: which group-by; None for the total, which is compared with nothing.
        rates: of its slices, and of their complements where these are the reference.
        slices: texts of the slices.
        compared: comparisons whose bounds hold together; None where they are those of the slices.
    """

    contract: Contract
    group: GroupBy | None
    rates: GroupRates
    slices: tuple[str, ...]
    compared: int | None = None

    @classmethod
    def of(cls, contract: Contract, group: GroupBy | None, tables: UseCaseTables) -> GroupInTables:
        """The slices of a group-by are those that its newest table lists."""
        slices = ("",) if group is None else tables.slices(group.attributes)
        rows = [Row(text) for text in slices]
        if group is not None and group.reference == COMPLEMENT:
            rows += [Row(text, complement=True) for text in slices]
        return cls(contract, group, GroupRates(tables, tuple(rows)), slices)

    def over(self, spans: Sequence[Span], metric: Metric) -> MetricRows:
        """One metric over some spans together."""
        nothing: list[None] = [None] * len(self.slices)
        if not spans:
            hidden = [State.SUPPRESSED] * len(self.slices)
            return MetricRows(
                self.slices, None, [*nothing], [*nothing], [*nothing], hidden, [*nothing]
            )
        compared = self._compared(spans, metric)
        enough = self._enough(compared, metric)
        mature, completeness = self._mature(spans, metric)
        gap_verdicts, gaps = self._gaps(spans, metric, enough & mature)
        levels = self._levels(compared.slices, metric, enough & mature)
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
        if not metric.labelled:
            return [None] * len(self.slices)
        naive = rate_as_labelled(self.rates.labelled_counts(spans), metric)[: len(self.slices)]
        values, _, _ = _listed(
            np.where(np.isnan(shown.value), np.nan, naive),
            shown.lower,
            shown.upper,
            exact=self.contract.k == 1,
        )
        return values

    @property
    def _reference_place(self) -> int | None:
        """Place of the named reference among the slices; None where there is none."""
        reference = None if self.group is None else self.group.reference
        return self.slices.index(reference) if reference in self.slices else None

    @property
    def _has_reference(self) -> Bools:
        """Which slices are compared with something, shape (slices,)."""
        compared = np.full(len(self.slices), self.group is not None)
        if self._reference_place is not None:
            compared[self._reference_place] = False
        elif self.group is not None and self.group.reference != COMPLEMENT:
            compared[:] = False
        return compared

    def _compared(
        self, spans: Sequence[Span], metric: Metric, compared_slices: int = 0
    ) -> ComparedRates:
        """Rates of both sides; bounds of so many comparisons hold together."""
        z = simultaneous_z(compared_slices)
        rate, size = self.rates.rate(spans, metric, z), len(self.slices)
        slices = rows_of(rate, slice(0, size))
        if len(self.rates.rows) > size:
            return ComparedRates(metric, slices, rows_of(rate, slice(size, 2 * size)))
        place = self._reference_place or 0
        return ComparedRates(metric, slices, rows_of(rate, np.full(size, place)))

    def _mature(self, spans: Sequence[Span], metric: Metric) -> tuple[Bools, list[float | None]]:
        """Return which slices and references have their labels, and how many the slices have."""
        size = len(self.slices)
        if not metric.labelled:
            return np.ones(size, bool), [None] * size
        labels = self.rates.completeness(spans)
        ends = zip(labels.high[:size].tolist(), labels.shown[:size].tolist(), strict=True)
        shares = [round(most, 2) if shown else None for most, shown in ends]
        mature = labels.complete[:size]
        if len(labels.complete) > size:
            mature = mature & labels.complete[size:]
        elif self._reference_place is not None:
            mature = mature & mature[self._reference_place]
        return mature, [*shares]

    def _enough(self, compared: ComparedRates, metric: Metric) -> Bools:
        """Rows with the contract's minimum support; what is compared, together with its reference.

        Precision rests on positives and negatives alike, and each of them has its own minimum.
        """
        least = self.contract.limits.min_support(metric)
        slices, references = compared.slices, compared.references
        alone = slices.shown & (slices.support >= least - _NEARLY)
        pair = slices.shown & references.shown
        sampled = (replace(rate, evidence=rate.sampled) for rate in (slices, references))
        for support in support_together(*sampled):
            pair = pair & (support >= least - _NEARLY)
        return np.where(self._has_reference, pair, alone)

    def _gaps(
        self, spans: Sequence[Span], metric: Metric, enough: Bools
    ) -> tuple[list[Verdict | None], list[ShownGap | None]]:
        """Verdicts on the gaps of a metric and the gaps as they are shown."""
        verdicts: list[Verdict | None] = [None] * len(self.slices)
        exact = self.contract.k == 1
        has_reference = self._has_reference
        if self.group is None or not has_reference.any():
            return verdicts, [None] * len(self.slices)
        reference, together = self.group.reference, self.compared
        if together is None:
            shown = self._compared(spans, metric).slices.shown
            together = comparisons(int(shown.sum()), reference)
        gaps = gap(*self._compared(spans, metric, together).columns())
        if not exact:
            gaps = _rounded_outward(gaps)
        for tolerance, limited in self._tolerances(metric):
            judged = verdict(gaps, tolerance, enough)
            verdicts = _judged_where(limited & has_reference, verdicts, judged)
        gaps_shown = [
            ShownGap(reference, *interval, *ratio, judged) if applies and known else None
            for interval, ratio, judged, applies, known in zip(
                zip(*_listed(gaps.value, gaps.lower, gaps.upper, exact=exact), strict=True),
                zip(
                    *_listed(gaps.ratio, gaps.ratio_lower, gaps.ratio_upper, exact=exact),
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
        """Limits on the gap of a metric, and on its ratio, and which slices have them."""
        for limit, limited in self._each_limit(lambda limits: limits.max_gap(metric)):
            yield Tolerance.of_gap(limit), limited
        for limit, limited in self._each_limit(lambda limits: limits.min_ratio(metric)):
            yield Tolerance.of_ratio(limit), limited

    def _each_limit(
        self, limit_of: Callable[[Limits], Fraction | None]
    ) -> Iterator[tuple[Fraction, Bools]]:
        """Each limit that some slices have, and which slices have it."""
        name = "" if self.group is None else self.group.name
        limits = [limit_of(self.contract.limits_of(name, text)) for text in self.slices]
        for limit in sorted({limit for limit in limits if limit is not None}):
            yield limit, np.array([own == limit for own in limits], bool)

    def _levels(self, rate: Rates, metric: Metric, enough: Bools) -> list[Verdict | None]:
        """Verdicts on the rates against the levels they must keep; the total has none to keep."""
        verdicts: list[Verdict | None] = [None] * len(self.slices)
        if self.group is None:
            return verdicts
        columns, _ = ComparedRates(metric, rate, rate).columns()
        if self.contract.k > 1:
            columns = replace(columns, lower=_down(columns.lower), upper=_up(columns.upper))
        for level, limited in self._each_limit(lambda limits: limits.level(metric)):
            judged = level_verdict(columns, level, enough)
            verdicts = _judged_where(limited, verdicts, judged)
        return verdicts


def _judged_where(
    limited: Bools, verdicts: Sequence[Verdict | None], judged: Sequence[Verdict | None]
) -> list[Verdict | None]:
    """The verdicts, with those on one more limit of the slices that have it."""
    rows = zip(limited.tolist(), verdicts, judged, strict=True)
    return [both(before, now) if applies else before for applies, before, now in rows]


def shown_rates(rate: Rates, *, exact: bool = False) -> list[ShownRate | None]:
    """The rates as they are shown, in thousandths unless numbers are exact; None is hidden.

    A rate without a point is *at most* its upper bound where nothing need have been a hit, and *at
    least* its lower bound where everything may have been one.
    """
    values, lowers, uppers = _listed(rate.value, rate.lower, rate.upper, exact=exact)
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


def _listed(
    values: Floats, lowers: Floats, uppers: Floats, *, exact: bool
) -> tuple[_Numbers, _Numbers, _Numbers]:
    """Points to the nearest thousandth, bounds outward, or all as they are; None for NaN."""

    def listed(numbers: Floats, rounding: Callable[[float], float]) -> _Numbers:
        return [
            None
            if math.isnan(number)
            else (number if exact else rounding(number * _DECIMALS) / _DECIMALS)
            for number in numbers.tolist()
        ]

    return (
        listed(values, round),
        listed(lowers, lambda number: math.floor(number + _NEARLY)),
        listed(uppers, lambda number: math.ceil(number - _NEARLY)),
    )


def _rounded_outward(gaps: GapColumns) -> GapColumns:
    """The gaps with the bounds that are shown: whoever has a row comes to the same verdicts."""
    return replace(
        gaps,
        lower=_down(gaps.lower),
        upper=_up(gaps.upper),
        ratio_lower=_down(gaps.ratio_lower),
        ratio_upper=_up(gaps.ratio_upper),
    )


def _down(bounds: Floats) -> Floats:
    """Lower bounds in thousandths."""
    return np.floor(bounds * _DECIMALS + _NEARLY) / _DECIMALS


def _up(bounds: Floats) -> Floats:
    """Upper bounds in thousandths."""
    return np.ceil(bounds * _DECIMALS - _NEARLY) / _DECIMALS
