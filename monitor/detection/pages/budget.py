"""The one budget of false pages: how streams share it, and the evidence each needs to page.

Weights sum to at most 1, whatever is declared and when, and are never changed once given. A
stream pages at S + ln w >= ln 90, S = ln R: then E[false pages up to day t] <= t / 90 over all
streams together, under any dependence between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from monitor.core.contract import Limits, Metric
from monitor.core.counts.cells import Int64s
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.intervals import Floats, z_value
from monitor.core.rates.estimates import RateColumns, estimate
from monitor.core.rates.gaps import HARMED_BY_LESS, Bools, gap, references
from monitor.detection.pages.streams import BUDGET_DAYS, Direction, Stream, StreamKind

_GAP_SHARES = {Metric.TPR: 0.40, Metric.FPR: 0.20, Metric.BLOCKED: 0.20}
_LEVEL_SHARE = 0.20
_DEPTH_SHARES = (0.70, 0.25, 0.05)  # single attributes, pairs, deeper

_FIRST = 0.5
"""Part of each class's share for the streams declared first. The rest is kept: without it the
weights of streams that are added later would come on top (measured: 1.3 false pages in 90 days)."""

_STEPS = np.array([0.25, 0.50, 0.75, 1.0]) * math.log(BUDGET_DAYS)


@dataclass(frozen=True, slots=True)
class Budget:
    """Weights of all streams ever declared; a stream that is withdrawn keeps its own.

    Attributes:
        weights: by stream key, above 0, with a sum of at most 1.
        later: by class (kind, metric and depth), how many streams came after its first ones.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    later: Mapping[str, int] = field(default_factory=dict)

    def declare(self, streams: Iterable[Stream]) -> Budget:
        """The budget with these streams too; known ones are left as they are.

        The first streams of a class share half of it equally, those declared together being
        first together. The i-th later one gets the fraction 6 / (pi^2 i^2) of the other half.

        Raises:
            ValueError: for a metric that has no share.
        """
        weights, later = dict(self.weights), dict(self.later)
        for name, added in _by_class(streams, weights).items():
            share = class_share(added[0])
            if name in later:
                given = [_later_weight(share, later[name] + i + 1) for i in range(len(added))]
                later[name] += len(added)
            else:
                given = [_FIRST * share / len(added)] * len(added)
                later[name] = 0
            weights.update(zip((stream.key for stream in added), given, strict=True))
        return Budget(weights, later)

    def of(self, streams: Iterable[Stream]) -> Floats:
        """Weights of declared streams, in the order given."""
        return np.array([self.weights[stream.key] for stream in streams], np.float64)


def class_share(stream: Stream) -> float:
    """The part of the whole budget that the streams of a stream's class share.

    Raises:
        ValueError: for a metric that has no share.
    """
    share = _LEVEL_SHARE if stream.kind is StreamKind.LEVEL else _GAP_SHARES.get(stream.metric)
    if share is None:
        raise ValueError(f"gaps of {stream.metric} have no share of the error budget")
    return share * _DEPTH_SHARES[min(stream.depth, len(_DEPTH_SHARES)) - 1]


def scores(statistic: Floats, weights: Floats) -> Floats:
    """S + ln w: what is compared with ln 90, in nats."""
    total: Floats = statistic + np.log(weights)
    return total


def crossed(statistic: Floats, weights: Floats) -> Bools:
    """The page rule: which streams have reached S + ln w >= ln 90.

    Args:
        statistic: S = ln R with the clock in days, shape (J,); -inf is no evidence.
        weights: of the streams, shape (J,).
    """
    return np.greater_equal(scores(statistic, weights), math.log(BUDGET_DAYS))


def evidence(statistic: Floats, weights: Floats) -> Int64s:
    """Progress of streams towards a page, in five steps.

    Returns:
        0, 1, 2, 3 for a score below 25, 50, 75 and 100 % of ln 90 (on the log scale: a negative
        score is 0), 4 for a crossing.
    """
    steps: Int64s = np.searchsorted(_STEPS, scores(statistic, weights), side="right")
    return steps.astype(np.int64)


def _by_class(streams: Iterable[Stream], known: Mapping[str, float]) -> dict[str, list[Stream]]:
    """Streams that are not known, once each, in the order given, by class."""
    new = {stream.key: stream for stream in streams if stream.key not in known}
    classes: dict[str, list[Stream]] = {}
    for stream in new.values():
        depth = min(stream.depth, len(_DEPTH_SHARES))
        metric = "" if stream.kind is StreamKind.LEVEL else stream.metric
        name = f"{stream.kind.value}|{metric}|{depth}"
        classes.setdefault(name, []).append(stream)
    return classes


def _later_weight(share: float, position: int) -> float:
    """Weight of the stream that is added to its class in this position, from 1."""
    return (1 - _FIRST) * share * 6 / (math.pi * position) ** 2


Z_ONE_SIDED = z_value(0.90)
"""One-sided 95 %: a two-sided interval of 90 % has this upper bound."""

_SLACK = 1e-12


def resolved(stream: Stream, counts: SliceCounts, coding: Coding, limits: Limits, k: int) -> bool:
    """Return True when a breach is over: its upper 95 % bound is within the limit.

    Args:
        stream: what was paged.
        counts: of the stream's group-by, over the cohorts since the last crossing (at most 7 d).
        coding: what the strata mean.
        limits: of the contract: both sides need its minimum support, else it is not over.
        k: labels that both sides need in every route.

    Raises:
        ValueError: if a stratum has an audit rate that the coding does not know.
    """
    if stream.slice not in counts.slices:
        return False
    row = counts.slices.index(stream.slice)
    slices = estimate(counts, coding, stream.metric, Z_ONE_SIDED)
    if not _supported(slices, row, limits, k):
        return False
    if stream.kind is StreamKind.LEVEL:
        return bool(_level_kept(stream, slices, row))
    other = estimate(references(counts, stream.reference), coding, stream.metric, Z_ONE_SIDED)
    if not _supported(other, row, limits, k):
        return False
    bounds = gap(slices, other)
    worse = stream.direction is Direction.SLICE_WORSE
    upper = bounds.upper[row] if worse else -bounds.lower[row]
    return bool(upper <= float(stream.limit) + _SLACK)


def _supported(rates: RateColumns, row: int, limits: Limits, k: int) -> bool:
    enough = rates.support[row] >= limits.min_support(rates.metric)
    return bool(enough and rates.route_labels[row] >= k)


def _level_kept(stream: Stream, rates: RateColumns, row: int) -> np.bool_:
    if stream.metric in HARMED_BY_LESS:
        return np.bool_(rates.lower[row] >= float(stream.limit) - _SLACK)
    return np.bool_(rates.upper[row] <= float(stream.limit) + _SLACK)
