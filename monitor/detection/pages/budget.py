"""The budget of false pages: the weight of each stream, and the evidence it needs to page.

Weights sum to at most 1, whatever is declared and when, and never change once given. A stream pages
at S + ln w >= ln 90, S = ln R: then E[false pages up to day t] <= t / 90 over all streams together,
under any dependence between them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from monitor.core.contract import Limits
from monitor.core.counts.cells import Int64s
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.intervals import Floats, z_value
from monitor.core.rates.estimates import RateColumns, measure
from monitor.core.rates.gaps import Bools, GapColumns, gap, references, support_together
from monitor.core.rates.tolerance import Tolerance
from monitor.detection.pages.streams import BUDGET_DAYS, Direction, Stream, StreamKind

_LEVEL_SHARE = 0.20
_RATIO_SHARE = 0.20
_DEPTH_SHARES = (0.70, 0.25, 0.05)  # single attributes, pairs, deeper

RESERVE = 0.20
"""Part of the budget that the first streams leave to later ones. Without it later weights would
come on top (measured: 1.3 false pages in 90 days). With a reserve of r the first streams wait
-ln(1 - r) nats longer, later ones -ln r. The mean over stream-days is least if r is the later
streams' share of stream-days, here assumed to be one in five. The first streams lose 0.22 nats,
5 % of ln 90; a half would cost 15 %."""

_STEPS = np.array([0.25, 0.50, 0.75, 1.0]) * math.log(BUDGET_DAYS)


@dataclass(frozen=True, slots=True)
class Budget:
    """Weights of all streams ever declared, summing to at most 1; kept after a withdrawal.

    Attributes:
        weights: weights by stream key, above 0, with a sum of at most 1.
        additions: number of declarations that added streams after the first ones.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    additions: int = 0

    def declare(self, streams: Iterable[Stream]) -> Budget:
        """Return a budget with weights for new streams; declared streams keep theirs.

        The first streams get all but the reserve. The d-th later declaration may spend the fraction
        1 / (d + 1) of the rest: of an untouched reserve 1/2, 1/6, 1/12, ... A later stream never
        gets more than the heaviest earlier one; the difference stays in the reserve. Streams
        declared together share by class, in proportion to :func:`class_share`: classes without
        streams leave their shares to the others.

        Raises:
            ValueError: for a metric that has no share.
        """
        parts = _shares_by_key(stream for stream in streams if stream.key not in self.weights)
        if not parts:
            return self
        if not self.weights:
            return Budget({key: (1 - RESERVE) * part for key, part in parts.items()})
        additions = self.additions + 1
        spent = (1 - math.fsum(self.weights.values())) / (additions + 1)
        most = max(self.weights.values())
        new_weights = {key: min(spent * part, most) for key, part in parts.items()}
        return Budget({**self.weights, **new_weights}, additions)

    def weights_of(self, streams: Iterable[Stream]) -> Floats:
        """Return the weights of declared streams, in the given order, shape (J,)."""
        return np.array([self.weights[stream.key] for stream in streams], np.float64)


def class_share(stream: Stream) -> float:
    """Return the share of the budget that a stream's class gets if all classes have streams.

    Raises:
        ValueError: for a metric that has no share.
    """
    share = stream.metric.row.page_share
    if not share:
        raise ValueError(f"{stream.metric} has no share of the error budget")
    share = {StreamKind.LEVEL: _LEVEL_SHARE, StreamKind.RATIO: _RATIO_SHARE}.get(stream.kind, share)
    return share * _DEPTH_SHARES[min(stream.depth, len(_DEPTH_SHARES)) - 1]


def scores(statistic: Floats, weights: Floats) -> Floats:
    """Return S + ln w of each stream in nats, shape (J,), to be compared with ln 90."""
    total: Floats = statistic + np.log(weights)
    return total


def crossed(statistic: Floats, weights: Floats) -> Bools:
    """Return the mask of streams over the threshold of a page: S + ln w >= ln 90.

    Args:
        statistic: S = ln R with the clock in days, shape (J,); -inf is no evidence.
        weights: weights of the streams, shape (J,).
    """
    return np.greater_equal(scores(statistic, weights), math.log(BUDGET_DAYS))


def evidence(statistic: Floats, weights: Floats) -> Int64s:
    """Return the progress of streams towards a page, as steps 0 to 4, shape (J,).

    Returns:
        0, 1, 2, 3 for a score below 25, 50, 75 and 100 % of ln 90 (on the log scale: a negative
        score is 0), 4 for a crossing.
    """
    steps: Int64s = np.searchsorted(_STEPS, scores(statistic, weights), side="right")
    return steps.astype(np.int64)


def _shares_by_key(streams: Iterable[Stream]) -> dict[str, float]:
    """Return, by key, each distinct stream's part of the weight to share out; they sum to 1."""
    streams_by_key = {stream.key: stream for stream in streams}
    sizes = Counter(map(_class_of, streams_by_key.values()))
    shares = {
        key: class_share(stream) / sizes[_class_of(stream)]
        for key, stream in streams_by_key.items()
    }
    total = math.fsum(shares.values())
    return {key: share / total for key, share in shares.items()}


def _class_of(stream: Stream) -> tuple[StreamKind, str, int]:
    """Return a stream's class: kind, metric (empty for a level) and depth, at most 3."""
    metric = "" if stream.kind is StreamKind.LEVEL else stream.metric
    return stream.kind, metric, min(stream.depth, len(_DEPTH_SHARES))


Z_ONE_SIDED = z_value(0.90)
"""One-sided 95 %: a two-sided interval of 90 % has this upper bound."""

_SLACK = 1e-12


def resolved(stream: Stream, counts: SliceCounts, coding: Coding, limits: Limits, k: int) -> bool:
    """Return True when a breach is over: a one-sided 95 % bound is within the limit.

    Args:
        stream: the stream that paged.
        counts: counts of its group-by, over the cohorts since the last crossing (at most 7 d).
        coding: meaning of the strata.
        limits: limits of the contract; without their minimum support on both sides, the breach is
            not over.
        k: labels that both sides need in every route.

    Raises:
        ValueError: if a stratum has an audit rate that the coding does not know.
    """
    if stream.slice not in counts.slices:
        return False
    row = counts.slices.index(stream.slice)
    slices = measure(counts, coding, stream.metric).row(row)
    least = limits.min_support(stream.metric)
    if stream.kind is StreamKind.LEVEL:
        support = slices.evidence.support_at(np.array([float(stream.limit)]))
        is_kept = _level_kept(stream, slices.columns(Z_ONE_SIDED))
        return bool(is_kept and support[0] >= least and slices.route_labels[0] >= k)
    reference = measure(references(counts, stream.reference), coding, stream.metric).row(row)
    supports = support_together(slices, reference)
    labels = min(int(side.route_labels[0]) for side in (slices, reference))
    if labels < k or min(float(support[0]) for support in supports) < least:
        return False
    bounds = gap(slices.columns(Z_ONE_SIDED), reference.columns(Z_ONE_SIDED))
    return _comparison_kept(stream, bounds)


def _comparison_kept(stream: Stream, bounds: GapColumns) -> bool:
    """Return True if the bound on the stream's side shows that its limit is kept."""
    allowed = Tolerance.of_ratio if stream.kind is StreamKind.RATIO else Tolerance.of_gap
    lower_side, upper_side = allowed(stream.limit).sides_within(bounds)
    # A gap is above 0 where the slice is worse off, its ratio below 1.
    by_upper = (stream.direction is Direction.SLICE_WORSE) != (stream.kind is StreamKind.RATIO)
    return bool((upper_side if by_upper else lower_side)[0])


def _level_kept(stream: Stream, rates: RateColumns) -> bool:
    """Return True if the interval's bound on the harmful side keeps the level."""
    if stream.metric.harmed_by_less:
        return bool(rates.lower[0] >= float(stream.limit) - _SLACK)
    return bool(rates.upper[0] <= float(stream.limit) + _SLACK)
