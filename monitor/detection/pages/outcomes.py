"""The possible outcomes of a day's decisions, and the score of each for TPR, FPR and precision.

A decision adds ``z = (D - c) g`` to the evidence about the limit c of a rate, where D is 1 for
auto_serve and g is an unbiased score for y (ready for the TPR, not ready for the FPR)::

    g = f                  if not labelled          f = P(y | stratum), forecast earlier
    g = f + (1 - f) / pi   if labelled y            pi = audit rate
    g = f - f / pi         if labelled not y

``E[z] = P(y) (rate - c)`` if pi or f is right, and for precision, P(ready | auto_serve),
``z = D (g - c)`` with ``E[z] = P(D) (rate - c)`` (augmented inverse probability weighting; Robins,
Rotnitzky and Zhao 1994, JASA 89). Forecasts are fixed for a day and rounded to the middle of one of
20 bins, so z takes few values, shared by all slices: an outcome is a column, a slice a row of
counts, and the log of any product of bets is a matrix product.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s, Route
from monitor.core.counts.strata import REVIEWED_ROUTES
from monitor.core.intervals import Floats, divide
from monitor.core.metric import Among, Metric
from monitor.core.rates.gaps import Bools
from monitor.detection.pages.cohort import Layout, SliceCohort
from monitor.detection.pages.ready import Forecast

BINS = 20
"""Bins of the forecast: rounding costs at most 4 % of the information, and on average nothing."""

EXPECTED_SHARE = 0.001
"""Smallest share of a slice's decisions for a stratum with scores of its own. A rarer stratum could
only shrink the largest stake; its decisions count at the worst score instead."""

SAFE = 0.95
"""Largest part of the wealth that one decision may cost."""


class Side(enum.Enum):
    """Side of a limit for which a bet is evidence; the value is the sign of z in ``1 + lam z``."""

    ABOVE = 1  # that the rate is above c
    BELOW = -1  # that the rate is below c


class LabelOutcome(enum.IntEnum):
    """Outcome of one decision's label: ready, not ready, or unlabelled if none came."""

    UNLABELLED = 0
    READY = 1
    NOT_READY = 2


def scores(metric: Metric, ready: npt.ArrayLike, audit: npt.ArrayLike) -> Floats:
    """Return the score g of each label outcome, for given P(ready) and audit rates.

    Args:
        metric: TPR, PRECISION (y is ready) or FPR (y is not ready).
        ready: P(ready | stratum).
        audit: audit rates in (0, 1], broadcast with ``ready``.

    Returns:
        Shape (..., 3), the last axis by :class:`LabelOutcome`.

    Example:
        >>> scores(Metric.TPR, 0.75, 0.5).tolist()
        [0.75, 1.25, -0.75]
        >>> scores(Metric.FPR, 0.75, 0.5).tolist()
        [0.25, -0.25, 1.75]
    """
    rate, weight = np.broadcast_arrays(np.asarray(ready, float), 1 / np.asarray(audit, float))
    unready = metric.row.among is Among.NOT_READY
    target = 1 - rate if unready else rate
    is_y, is_not = target + (1 - target) * weight, target - target * weight
    labelled = (is_not, is_y) if unready else (is_y, is_not)
    return np.stack([target, *labelled], axis=-1)


@dataclass(frozen=True, slots=True)
class Reach:
    """Largest positive and negative scores that each arm can have, by route, shape (S, 2).

    Attributes:
        up: max g, at least 1.
        down: max -g, at least 0.
    """

    up: Floats
    down: Floats

    def losses(self, side: Side) -> Floats:
        """Return the scores that cost a bet for this side most, by route, (S, 2), at least 0."""
        auto, review = (self.down, self.up) if side is Side.ABOVE else (self.up, self.down)
        return np.stack([auto[:, 0], review[:, 1]], axis=1)

    def largest_loss(self, side: Side, limit: float) -> Floats:
        """Return the largest loss of a stake of 1 at a limit in (0, 1), above 0; shape (S,)."""
        losses: Floats = (self.losses(side) * (1 - limit, limit)).max(axis=1)
        return losses


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Possible outcomes (columns) of one group-by's decisions on one day, fixed beforehand.

    The last two columns (auto_serve, human_review) are for decisions of strata that were not
    expected in their slice: whatever their outcome, they get the score in [0, 1] that is worst for
    the bet. That keeps the bet valid without their audit rate.

    Attributes:
        rates: indices of the known audit rates in the grid.
        first: column of the outcome UNLABELLED of every stratum, shape (S, route, rate, band); the
            other outcomes follow it. -1 where the stratum is not expected.
        auto: mask of the columns of auto_serve, shape (J,).
        centre: P(ready) as it is bet on, shape (J,).
        audit: audit rate, shape (J,).
        outcome: outcome of the column, shape (J,).
        traffic: ready and other decisions expected, shape (2, S, J); zeros without a past.
    """

    rates: tuple[int, ...]
    first: Int64s
    auto: Bools
    centre: Floats
    audit: Floats
    outcome: Int64s
    traffic: Floats

    @classmethod
    def from_forecast(cls, forecast: Forecast) -> Outcomes:
        """Return Outcomes: columns per outcome of expected strata, and one per route for others."""
        layout = forecast.layout
        codes = _column_codes(forecast.ready)
        expected = _is_expected(forecast.decisions)
        used_codes, position = np.unique(codes[expected], return_inverse=True)
        first = np.full(codes.shape, -1, np.int64)
        first[expected] = len(LabelOutcome) * position
        route, rate, bins = np.unravel_index(used_codes, (*layout.shape[:2], BINS))
        columns = len(LabelOutcome) * len(used_codes) + len(REVIEWED_ROUTES)
        traffic = _expected_traffic(forecast, first, columns)
        return cls(
            layout.rates,
            first,
            np.append(np.repeat(route == Route.AUTO_SERVE, len(LabelOutcome)), (True, False)),
            np.append(np.repeat((bins + 0.5) / BINS, len(LabelOutcome)), (0.5, 0.5)),
            np.append(np.repeat(layout.audit[rate], len(LabelOutcome)), (1.0, 1.0)),
            np.append(np.tile(np.arange(len(LabelOutcome)), len(used_codes)), (0, 0)),
            traffic,
        )

    @property
    def columns(self) -> int:
        """Return the number J of columns."""
        return len(self.auto)

    @property
    def known(self) -> Bools:
        """Return True for slices with an expected stratum, shape (S,); others do not bet."""
        mask: Bools = np.any(self.first >= 0, axis=(1, 2, 3))
        return mask

    def bin_counts(self, cohort: SliceCohort, layout: Layout) -> Floats:
        """Return the number of decisions with each outcome in each slice, shape (S, J).

        Rows may be summed, over the cohorts of the day and over slices: each decision keeps the
        forecast of its own slice, so a complement is the sum of all rows but one.

        Args:
            cohort: the cohort, with a row per slice.
            layout: layout of the cohort; audit rates first seen today are not expected.
        """
        first = self._first_of(layout)
        row, route, rate, band = np.nonzero(cohort.decisions)
        stratum = (row, route, rate, band)
        decisions, labelled, ready = (
            counts[stratum] for counts in (cohort.decisions, cohort.labelled, cohort.ready)
        )
        column = np.where(
            first[stratum] >= 0, first[stratum], self.columns - len(REVIEWED_ROUTES) + route
        )
        step = row * self.columns + column
        further = first[stratum] >= 0
        counted = np.zeros(len(first) * self.columns)
        values = (decisions - labelled, ready, labelled - ready)
        for outcome, value in zip(LabelOutcome, values, strict=True):
            counted += np.bincount(step + outcome * further, value, counted.size)
        return counted.reshape(len(first), self.columns)

    def scores(self, metric: Metric, side: Side) -> Floats:
        """Return the score g of every column in a bet for this side, shape (J,)."""
        column_scores = scores(metric, self.centre, self.audit)[
            np.arange(self.columns), self.outcome
        ]
        worst = (0.0, 1.0) if side is Side.ABOVE else (1.0, 0.0)
        column_scores[-len(REVIEWED_ROUTES) :] = worst
        return column_scores

    def evidence_per_decision(self, metric: Metric, side: Side, limit: float) -> Floats:
        """Return z, the evidence that one decision of each outcome adds about a limit, (J,)."""
        return (self.auto - limit) * self.scores(metric, side)

    def possible(self) -> Bools:
        """Return True where a slice can have the outcome, shape (S, J)."""
        mask = np.zeros((len(self.first), self.columns), np.bool_)
        mask[:, -len(REVIEWED_ROUTES) :] = True
        row, *_ = expected = np.nonzero(self.first >= 0)
        for outcome in LabelOutcome:
            mask[row, self.first[tuple(expected)] + outcome] = True
        return mask

    def reach(self, metric: Metric, possible: Bools) -> Reach:
        """Return the largest scores of arms with these possible outcomes (S, J), by route."""
        g = self.scores(metric, Side.BELOW)
        routes = (self.auto, ~self.auto)
        up = [np.where(possible & route, g, 1).max(axis=1) for route in routes]
        down = [np.where(possible & route, -g, 0).max(axis=1) for route in routes]
        return Reach(np.stack(up, axis=1), np.stack(down, axis=1))

    def _first_of(self, layout: Layout) -> Int64s:
        """Return ``first`` on the axes of ``layout``; -1 for rates that are not known."""
        if layout.rates == self.rates:
            return self.first
        first = np.full((len(self.first), *layout.shape), -1, np.int64)
        for position, rate in enumerate(self.rates):
            if rate in layout.rates:
                first[:, :, layout.rates.index(rate)] = self.first[:, :, position]
        return first


def _column_codes(ready: Floats) -> Int64s:
    """Code each stratum by its route, audit rate and bin of P(ready); the same shape."""
    bins = np.clip((ready * BINS).astype(np.int64), 0, BINS - 1)
    _, routes, rates, _ = ready.shape
    family = np.arange(routes * rates).reshape(routes, rates, 1)
    codes: Int64s = family * BINS + bins
    return codes


def _is_expected(decisions: Floats) -> Bools:
    """Return True for strata with at least EXPECTED_SHARE of their slice's decisions."""
    share = divide(decisions, decisions.sum(axis=(1, 2, 3), keepdims=True), empty=0)
    expected: Bools = share >= EXPECTED_SHARE
    return expected


def _expected_traffic(forecast: Forecast, first: Int64s, columns: int) -> Floats:
    """Return the forecast's ready and not ready decisions by outcome, shape (2, S, J)."""
    row, _, rate, _ = expected = np.nonzero(first >= 0)
    step = row * columns + first[expected]
    audit, ready = forecast.layout.audit[rate], forecast.ready[expected]
    size = len(first) * columns
    traffic = []
    for outcome, share in ((LabelOutcome.READY, ready), (LabelOutcome.NOT_READY, 1 - ready)):
        decisions = forecast.decisions[expected] * share
        unlabelled = np.bincount(step, decisions * (1 - audit), size)
        labelled = np.bincount(step + outcome, decisions * audit, size)
        traffic.append((unlabelled + labelled).reshape(len(first), columns))
    return np.stack(traffic)
