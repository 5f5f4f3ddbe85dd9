"""Rates of all slices against their reference: exact inside, and as they may be shown.

Every metric is estimated once for all slices. Verdicts and states are decided on the exact
columns; every number that is published comes from the shown ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from monitor.core.contract import COMPLEMENT, Limits, Metric, State, Verdict
from monitor.core.counts.coding import Coding
from monitor.core.counts.completeness import SHOWN_MATURE, by_stratum, is_mature
from monitor.core.counts.rollup import SliceCounts
from monitor.core.counts.strata import post_strata
from monitor.core.intervals import Z95, divide, wilson
from monitor.core.privacy.bands import Precision
from monitor.core.privacy.guards import Bools, Opened, each_labelled, route_labels
from monitor.core.privacy.pooling import decisions_of
from monitor.core.publish.snapshot import ShownGap, ShownRate
from monitor.core.publish.states import states
from monitor.core.publish.suppression import (
    ShownColumns,
    code_third_route,
    known,
    show,
    show_gaps,
    shown_gaps,
    shown_rates,
)
from monitor.core.rates.estimates import RateColumns, estimate
from monitor.core.rates.gaps import gap, level_verdict, verdict

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy by which counts become rows: the contract's numbers, the coding, the resolution."""

    limits: Limits
    coding: Coding
    precision: Precision


@dataclass(frozen=True, slots=True)
class Rolled:
    """Counts of one group-by in one window, pooled, the same rows in both.

    Attributes:
        decisions: up to the watermark: selection and blocked rates.
        labelled: up to the label frontier: everything that rests on labels; None without.
    """

    decisions: SliceCounts
    labelled: SliceCounts | None

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics the window has."""
        return tuple(m for m in Metric if self.labelled is not None or not m.labelled)

    @property
    def complements(self) -> Rolled:
        """Row i: everything in the group-by but slice i."""
        labelled = self.labelled.complements if self.labelled else None
        return Rolled(self.decisions.complements, labelled)

    def counts(self, metric: Metric) -> SliceCounts:
        """The counts a metric rests on."""
        return self.labelled if metric.labelled and self.labelled else self.decisions


@dataclass(frozen=True, slots=True)
class Rate:
    """One metric of all rows twice: exact for verdicts, and as it may be shown."""

    exact: RateColumns
    shown: ShownColumns
    mature: Bools

    def row(self, index: int) -> Rate:
        """One row alone."""
        at = slice(index, index + 1)
        fields = ("value", "lower", "upper", "support", "hits", "misses", "route_labels")
        exact = replace(self.exact, **{name: getattr(self.exact, name)[at] for name in fields})
        return Rate(exact, self.shown.row(index), self.mature[at])


@dataclass(frozen=True, slots=True)
class MetricRows:
    """One metric of all rows, ready to be published."""

    states: list[State]
    rates: list[ShownRate | None]
    gaps: list[ShownGap | None]
    as_labelled: list[float | None]


def rates_of(policy: Policy, rolled: Rolled, opened: Opened, z: float) -> dict[Metric, Rate]:
    """Every metric of all rows, exact (bounds at ``z``) and as shown."""
    routes = route_labels(rolled.labelled) if rolled.labelled else None
    strata = post_strata(rolled.labelled, policy.coding) if rolled.labelled else None
    mature = _mature(rolled.labelled) if rolled.labelled else None
    always = np.ones(len(rolled.decisions.slices), bool)
    rates = {}
    for metric in rolled.metrics:
        exact = estimate(rolled.counts(metric), policy.coding, metric, z, strata)
        may = opened.labels if metric.labelled else opened.cells
        shown = show(exact, may, policy.precision, routes if metric.labelled else None)
        whole = mature if metric.labelled and mature is not None else always
        rates[metric] = Rate(exact, shown, whole)
    selection, blocked = rates[Metric.SELECTION], rates[Metric.BLOCKED]
    third = selection.exact.misses - blocked.exact.hits
    coded = code_third_route(selection.shown, blocked.shown, third, policy.precision)
    rates[Metric.BLOCKED] = replace(blocked, shown=coded)
    return rates


def references_of(
    policy: Policy, rolled: Rolled, reference: str | None, rates: dict[Metric, Rate], z: float
) -> dict[Metric, Rate]:
    """Reference rates of the rows; empty where there is no such slice (any more)."""
    if reference == COMPLEMENT:
        rest = rolled.complements
        cells = decisions_of(rest.decisions) >= policy.precision.k
        labels = cells
        if rest.labelled:
            labels = cells & each_labelled(route_labels(rest.labelled), policy.precision.k)
        return rates_of(policy, rest, Opened(cells, labels), z)
    if reference not in rolled.decisions.slices:
        return {}
    index = rolled.decisions.slices.index(reference)
    return {metric: rate.row(index) for metric, rate in rates.items()}


def metric_rows(
    policy: Policy,
    rolled: Rolled,
    rate: Rate,
    other: Rate | None,
    *,
    reference: str | None,
    z: float,
) -> MetricRows:
    """One metric: states and verdicts from the exact columns, numbers from the shown ones."""
    metric, limits, slices = rate.exact.metric, policy.limits, rolled.decisions.slices
    enough, mature = _enough(limits, rate), rate.mature
    gaps: list[ShownGap | None] = [None] * len(slices)
    gap_verdicts: list[Verdict | None] = [None] * len(slices)
    compared = np.array([reference is not None and text != reference for text in slices], bool)
    if other is None:
        enough = enough & ~compared
    else:
        enough = enough & (_enough(limits, other) | ~compared)
        mature = mature & (other.mature | ~compared)
        decided = verdict(gap(rate.exact, other.exact), limits.max_gap(metric), enough)
        gap_verdicts = _only(decided, compared)
        columns = show_gaps(rate.shown, other.shown, z, policy.precision)
        gaps = _only(shown_gaps(columns, reference or COMPLEMENT, gap_verdicts), compared)
    levels: list[Verdict | None] = [None] * len(slices)
    if reference is not None:  # the total is no slice: it has no level of its own to keep
        levels = _levels(limits, rate, enough)
    return MetricRows(
        states=states(rate.shown.shown, enough, mature, gap_verdicts, levels),
        rates=shown_rates(rate.shown, policy.precision),
        gaps=gaps,
        as_labelled=_as_labelled(policy, rate),
    )


def _enough(limits: Limits, rate: Rate) -> Bools:
    """Shown, with the contract's minimum support.

    By the band's lower edge: the exact support would cut the band in two for every reader.
    """
    return rate.shown.shown & (rate.shown.support >= limits.min_support(rate.exact.metric))


def _levels(limits: Limits, rate: Rate, enough: Bools) -> list[Verdict | None]:
    """Each rate against its own level, at plain 95 % bounds: no comparison is made."""
    level = {Metric.TPR: limits.min_tpr, Metric.FPR: limits.max_fpr}.get(rate.exact.metric)
    if level is None:
        return [None] * len(rate.exact.value)
    lower, upper = wilson(rate.exact.value, rate.exact.support, Z95)
    return level_verdict(replace(rate.exact, lower=lower, upper=upper), level, enough)


def _mature(counts: SliceCounts) -> Bools:
    """Mask of the slices whose requested labels are there, in every route x audit rate."""
    return np.asarray(is_mature(*by_stratum(counts), SHOWN_MATURE).all(axis=1), bool)


def _as_labelled(policy: Policy, rate: Rate) -> list[float | None]:
    """The rate over labelled rows, where the labelled rate itself is shown."""
    if not rate.exact.metric.labelled:
        return [None] * len(rate.exact.value)
    # As monitor.core.rates.estimates.as_labelled has it: the same labels are counted in both.
    plain = divide(rate.exact.hits, rate.exact.hits + rate.exact.misses)
    rounded = policy.precision.rounded(plain, rate.shown.step)
    shown = np.where(np.isnan(rate.shown.value), np.nan, rounded)
    return known(shown)


def _only(items: list[_T | None], where: Bools) -> list[_T | None]:
    return [item if keep else None for item, keep in zip(items, where.tolist(), strict=True)]
