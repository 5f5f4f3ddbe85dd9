"""Traffic from which a contract can be decided, computed with the published rows.

A verdict needs an interval on one side of the limit, and its width depends on the number of
labels. Rows are built from expected counts at growing traffic, like windows
(:mod:`monitor.core.publish.calendar_rows`), and searched for the first with a verdict. Expected
counts are in the middle of the possible ones, so half of the windows get the verdict at that
traffic. At twice as much, 80 to 97 % did (simulated for audits of 5 and 20 %, ready rates of .1
and .5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np

from monitor.core.contract import COMPLEMENT, Contract, GroupBy, Verdict, gap_limit
from monitor.core.counts.cells import Int64s, Route
from monitor.core.intervals import Floats
from monitor.core.metric import Metric
from monitor.core.publish.calendar_rates import UseCaseTables
from monitor.core.publish.calendar_rows import GroupInTables
from monitor.core.rates.gaps import comparisons
from monitor.core.tables.bands import row_rule
from monitor.core.tables.layout import Layout, Row
from monitor.core.tables.reader import Frame, Measure, Table
from monitor.core.tables.settings import Part
from monitor.core.tables.spans import Span, SpanKind

BEYOND = Fraction(1, 10)
"""Excess over the limit of a gap that must ``fail``; a gap of 0 must ``pass``."""

_SURE = 2.0  # multiple of the traffic at which half of the windows are decided
# Up to 100,000 decisions per day and slice; bands of support are as wide as these steps.
_TRAFFIC: Floats = 10 * np.float64(1.2) ** np.arange(51) / _SURE
_BLOCKED = 0.05
_SPAN = Span(SpanKind.DAY, 0)
_WORST_LIMIT = Fraction(1, 2)
_ALONE = (Metric.SELECTION, Metric.PRECISION)
"""Metrics whose gap is assumed alone: a gap in TPR and FPR at once may leave none in these."""


@dataclass(frozen=True, slots=True)
class Design:
    """Assumed conditions for deciding a contract: slices, audit rate, window and true rates.

    Attributes:
        contract: its limits, k and minimum support.
        slices: number of slices of the group-by, all of one size; their bounds hold together.
        reference: ``complement``, or a named slice of the same size.
        audit: labelled share of the auto-served decisions; all of human_review is labelled.
        days: length of the window.
        ready: P(ready).
        tpr: P(auto_serve | ready) of all slices, apart from the gap.
        fpr: P(auto_serve | not ready) of all slices, apart from the gap.
    """

    contract: Contract
    slices: int
    reference: str
    audit: float
    days: float
    ready: float = 0.5
    tpr: float = 0.8
    fpr: float = 0.1

    @property
    def selection(self) -> float:
        """P(auto_serve) of decisions that are not blocked."""
        return self.ready * self.tpr + (1 - self.ready) * self.fpr

    @property
    def precision(self) -> float:
        """P(ready | auto_serve)."""
        return self.ready * self.tpr / self.selection


@dataclass(frozen=True, slots=True)
class Decidable:
    """Decisions per day and slice from which a gap is decided; None if not up to 100,000.

    Attributes:
        passes: traffic at which a gap of 0 gets ``pass`` in at least four of five windows.
        fails: traffic at which a gap of the limit plus BEYOND gets ``fail``; None also if such a
            gap is impossible.
    """

    passes: int | None
    fails: int | None

    def at(self, daily: float) -> bool:
        """Return True when ``daily`` decisions per slice suffice for both verdicts."""
        return all(needed is not None and needed <= daily for needed in (self.passes, self.fails))


def decidable(design: Design, metric: Metric) -> Decidable:
    """Return the least daily traffic at which a gap of a metric can get ``pass``, and ``fail``.

    Raises:
        ValueError: if the contract sets no limit on gaps of the metric.
    """
    limit = design.contract.limits.max_gap(metric)
    if limit is None:
        raise ValueError(f"the contract sets no limit on gaps of {metric}")
    gap_design = _with_limits(design, min_selection_ratio=None)
    largest_gap = {
        Metric.SELECTION: design.selection,
        # No more can be served than there are replies that are not ready.
        Metric.PRECISION: min(1, (1 - design.ready) / design.selection) - 1 + design.precision,
    }.get(metric, min(design.tpr, 1 - design.fpr))
    return _decidable(gap_design, metric, float(limit + BEYOND), largest_gap)


def decidable_ratio(design: Design) -> Decidable:
    """Return the least daily traffic at which a selection ratio can get ``pass``, and ``fail``.

    A ratio of BEYOND below the limit must ``fail``.

    Raises:
        ValueError: if the contract sets no limit on the ratio.
    """
    limit = design.contract.limits.min_selection_ratio
    if limit is None:
        raise ValueError("the contract sets no limit on the ratio of selection rates")
    ratio_design = _with_limits(design, max_selection_gap=None)
    beyond = float(1 - limit + BEYOND) * design.selection
    return _decidable(ratio_design, Metric.SELECTION, beyond, design.selection)


def _decidable(design: Design, metric: Metric, beyond: float, largest_gap: float) -> Decidable:
    """Return the traffic at which a gap of 0 gets ``pass``, and one of ``beyond`` gets ``fail``."""
    passes = _least_traffic(_verdicts_by_traffic(design, 0.0)[metric], Verdict.PASS)
    if beyond > largest_gap:
        return Decidable(passes, None)
    verdicts = _verdicts_by_traffic(design, beyond, metric if metric in _ALONE else None)
    return Decidable(passes, _least_traffic(verdicts[metric], Verdict.FAIL))


def first_decided(
    designs: Iterable[tuple[float, Design]], find: Callable[[Design], Decidable], daily: float
) -> float | None:
    """Return the first choice whose design ``daily`` decisions per slice can decide, or None."""
    return next((choice for choice, design in designs if find(design).at(daily)), None)


def with_limit(design: Design, metric: Metric, limit: Fraction) -> Design:
    """Return the design with ``limit`` as the contract's limit on gaps of a metric."""
    return _with_limits(design, **{gap_limit(metric): limit})


def _with_limits(design: Design, **limits: Fraction | None) -> Design:
    changed = replace(design.contract.limits, **limits)  # type: ignore[arg-type]
    return replace(design, contract=replace(design.contract, limits=changed))


@cache
def _verdicts_by_traffic(
    design: Design, gap: float, alone: Metric | None = None
) -> dict[Metric, list[Verdict | None]]:
    """Return each metric's verdicts at rising traffic, for a slice worse off by ``gap``.

    The gap is in TPR, FPR and the blocked rate at once or, with ``alone``, only in that metric.
    """
    contract, volume = design.contract, _TRAFFIC * design.days
    reference_slices = design.slices - 1 if design.reference == COMPLEMENT else 1
    counts = [
        np.concatenate([slices, reference_counts])
        for slices, reference_counts in zip(
            _expected_counts(design, volume, gap, alone),
            _expected_counts(design, volume * max(reference_slices, 1), 0.0),
            strict=True,
        )
    ]
    group_tables = replace(
        GroupInTables.from_tables(contract, GroupBy(("traffic",)), _traffic_tables(design, counts)),
        compared=comparisons(design.slices, design.reference),
    )
    verdicts = {}
    for metric in Metric:
        shown = group_tables.over([_SPAN], metric).gaps
        verdicts[metric] = [None if shown_gap is None else shown_gap.verdict for shown_gap in shown]
    return verdicts


def _traffic_tables(design: Design, counts: Sequence[Int64s]) -> UseCaseTables:
    """Return tables in which each volume of traffic is a slice with its reference."""
    names = [f"traffic={place:02d}" for place in range(len(_TRAFFIC))]
    rows = [*map(Row, names), *(Row(name, complement=True) for name in names)]
    parts = (
        Part(Route.AUTO_SERVE, design.audit),
        Part(Route.HUMAN_REVIEW, 1.0),
        Part(Route.BLOCKED_BY_EVIDENCE),
    )
    tables = UseCaseTables(parts)
    measures = (Measure.DECISIONS, Measure.READY, Measure.NOT_READY)
    for measure, table in zip(measures, counts, strict=True):
        columns = tuple(part.name for part in parts)[: table.shape[1]]
        frame = Frame(_SPAN, Layout(tuple(rows), ()), columns)
        tables.add([Table(frame, measure, row_rule(table, design.contract.k))])
    return tables


def _least_traffic(verdicts: list[Verdict | None], expected: Verdict) -> int | None:
    """Return the least daily traffic from which all verdicts are ``expected``, or None."""
    missed = [place for place, verdict in enumerate(verdicts) if verdict is not expected]
    first = missed[-1] + 1 if missed else 0
    return round(float(f"{_SURE * _TRAFFIC[first]:.2g}")) if first < len(verdicts) else None


def _expected_counts(
    design: Design, volume: Floats, gap: float, alone: Metric | None = None
) -> tuple[Int64s, Int64s, Int64s]:
    """Return expected decisions, ready labels and not ready labels of each volume, by part.

    Every gap is in the direction of harm.
    """
    limited = design.contract.limits.max_blocked_gap is not None
    blocked = min(_BLOCKED + (0.0 if alone else gap), 1.0) if limited else 0.0
    tpr, fpr = _served_rates(design, gap, alone)
    ready = volume * (1 - blocked) * design.ready
    not_ready = volume * (1 - blocked) * (1 - design.ready)
    routed = [(ready * tpr, not_ready * fpr), (ready * (1 - tpr), not_ready * (1 - fpr))]
    decisions = np.column_stack([*(np.round(a + b) for a, b in routed), volume * blocked])
    labels = [np.column_stack([part[kind] for part in routed]) for kind in (0, 1)]
    audited = np.array([design.audit, 1.0])
    labelled_ready, labelled_not_ready = (np.round(audited * label) for label in labels)
    return (
        decisions.astype(np.int64),
        labelled_ready.astype(np.int64),
        labelled_not_ready.astype(np.int64),
    )


def _served_rates(design: Design, gap: float, alone: Metric | None) -> tuple[float, float]:
    """Return TPR and FPR of a slice that is worse off by ``gap`` in all metrics or in ``alone``."""
    if alone is Metric.SELECTION:  # the same share of all served replies, ready or not
        kept = 1 - gap / design.selection
        return design.tpr * kept, design.fpr * kept
    if alone is Metric.PRECISION:  # equally many served, more of them not ready
        moved = gap * design.selection
        return design.tpr - moved / design.ready, design.fpr + moved / (1 - design.ready)
    return max(design.tpr - gap, 0.0), min(design.fpr + gap, 1.0)


def by_audit(design: Design, rates: Iterable[float]) -> Iterable[tuple[float, Design]]:
    """Yield each audit rate with the design at that rate."""
    return ((rate, replace(design, audit=rate)) for rate in rates)


def by_window(design: Design, days: Iterable[float]) -> Iterable[tuple[float, Design]]:
    """Yield each length of a window in days with the design for that window."""
    return ((length, replace(design, days=length)) for length in days)


def by_limit(design: Design, metric: Metric) -> Iterable[tuple[float, Design]]:
    """Yield each wider limit on a metric's gap with its design, in steps of .05 up to .5."""
    limit = design.contract.limits.max_gap(metric) or Fraction(0)
    while (limit := limit + Fraction(1, 20)) <= _WORST_LIMIT:
        yield float(limit), with_limit(design, metric, limit)


def by_ratio(design: Design) -> Iterable[tuple[float, Design]]:
    """Yield each lower limit on the selection ratio with its design, in steps of .05 down to .5."""
    limit = design.contract.limits.min_selection_ratio or Fraction(0)
    while (limit := limit - Fraction(1, 20)) >= _WORST_LIMIT:
        yield float(limit), _with_limits(design, min_selection_ratio=limit)
