"""A contract proposed from a baseline: limits that its weeks kept, and their reach.

A proposal uses Releases alone, so it reveals nothing new. It assumes that the baseline is as it
should be; people have to judge whether it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from monitor.core.metric import Metric
from monitor.core.publish.conclusion import limited
from monitor.core.publish.lines import places
from monitor.core.publish.reasons import Place
from monitor.core.publish.release import Release
from monitor.reports.weekly_report import of_release

LEAST_LIMIT = 0.05
"""Smallest gap proposed as a limit: rounding and a busy week move a gap by about five points."""
MOST_HALF_WIDTH = 0.10
"""Largest half-width of a gap's interval at the proposed support: ten points."""
_LONGER, _WEEK = "28d", "7d"


@dataclass(frozen=True, slots=True)
class SliceReach:
    """Support and interval half-width of a slice in the baseline, and whether it is decided.

    Attributes:
        group_by: attribute names joined by ``+``.
        slice: slice text.
        support: lower edge of its largest band in a week; None if every week hid it.
        half_width: half of its narrowest interval of the gap, as a rate; None if none was shown.
        decided: whether it has the proposed support.
    """

    group_by: str
    slice: str
    support: int | None
    half_width: float | None
    decided: bool


@dataclass(frozen=True, slots=True)
class MetricProposal:
    """Proposed limit and least support of one metric, with the slices they rest on.

    Attributes:
        metric: metric of the limit.
        max_gap: limit on the gap; None if no slice had enough support.
        min_support: smallest support to decide on; None likewise.
        largest: largest gap shown of a slice with that support; None likewise.
        slices: every listed slice that is compared.
    """

    metric: Metric
    max_gap: float | None
    min_support: int | None
    largest: float | None
    slices: tuple[SliceReach, ...]

    @property
    def detectable(self) -> float | None:
        """Gap that would have been outside the limit for every decided slice; None if unknown."""
        widths = [reach.half_width for reach in self.slices if reach.decided and reach.half_width]
        return None if self.max_gap is None or not widths else self.max_gap + max(widths)


@dataclass(frozen=True, slots=True)
class Proposal:
    """Contract proposed from baseline weeks: window, and limits by metric.

    Attributes:
        contract: name of the contract.
        weeks: ISO weeks of the baseline.
        window: name of the window to decide on.
        metrics: metrics whose gaps the contract limits, the primary one first.
    """

    contract: str
    weeks: tuple[str, ...]
    window: str
    metrics: tuple[MetricProposal, ...]


@dataclass(frozen=True, slots=True)
class _WeekGap:
    """Gap of one slice in one week of the baseline."""

    support: int
    value: float | None
    lower: float
    upper: float

    @property
    def half_width(self) -> float:
        return (self.upper - self.lower) / 2

    @property
    def reach(self) -> float:
        """Return the largest gap, either way, that the interval still allows."""
        return max(abs(self.lower), abs(self.upper))


_Slice = tuple[str, str]


def propose(contract: str, releases: Sequence[Release]) -> Proposal:
    """Return the Proposal for a contract from the Releases (at least one) of its baseline."""
    table_places = [
        (table, place)
        for release in releases
        for table, window in of_release(release)
        if table.contract == contract
        for place in places(table, window)
    ]
    metrics = tuple(
        dict.fromkeys(
            metric
            for table, _ in table_places
            for metric in limited(table)
            if metric in table.max_gaps
        )
    )
    slice_places = [place for _, place in table_places]
    proposals = tuple(_metric(metric, slice_places) for metric in metrics)
    weeks = tuple(release.week for release in releases)
    return Proposal(
        contract, weeks, _proposed_window(proposals[0]) if proposals else _WEEK, proposals
    )


def _metric(metric: Metric, slice_places: Iterable[Place]) -> MetricProposal:
    """Propose the limit and smallest support that baseline weeks would have kept."""
    gaps_by_slice: dict[_Slice, list[_WeekGap]] = {}
    for place in slice_places:
        key = place.table.group_by, place.row.slice
        gaps_by_slice.setdefault(key, []).extend(_week_gap(place, metric))
    support = _needed_support(gap for gaps in gaps_by_slice.values() for gap in gaps)
    all_gaps = (gap for gaps in gaps_by_slice.values() for gap in gaps)
    counted = [gap for gap in all_gaps if support is not None and gap.support >= support]
    return MetricProposal(
        metric=metric,
        max_gap=_round_up(max(gap.reach for gap in counted)) if counted else None,
        min_support=support if counted else None,
        largest=max((abs(gap.value) for gap in counted if gap.value is not None), default=None),
        slices=tuple(_reaches(gaps_by_slice, support)),
    )


def _week_gap(place: Place, metric: Metric) -> Iterator[_WeekGap]:
    """Yield the gap of a row, at most one; none if it is hidden or has no bounds."""
    rate, gap = place.row.rates.get(metric), place.row.gaps.get(metric)
    if rate is None or gap is None or gap.lower is None or gap.upper is None:
        return
    yield _WeekGap(rate.support, gap.value, gap.lower, gap.upper)


def _needed_support(gaps: Iterable[_WeekGap]) -> int | None:
    """Return the support, in tens, at which every interval is narrow enough; None without gaps."""
    needed = [gap.support * (gap.half_width / MOST_HALF_WIDTH) ** 2 for gap in gaps]
    return 10 * max(1, math.ceil(max(needed) / 10)) if needed else None


def _round_up(reach: float) -> float:
    """Return a gap rounded up to a whole point, at least ``LEAST_LIMIT``."""
    return max(LEAST_LIMIT, math.ceil(round(100 * reach, 6)) / 100)


def _reaches(
    gaps_by_slice: Mapping[_Slice, Sequence[_WeekGap]], support: int | None
) -> Iterator[SliceReach]:
    """Yield each slice's largest support and narrowest interval, and if it decides."""
    for (group_by, slice_), gaps in gaps_by_slice.items():
        largest_support = max((gap.support for gap in gaps), default=None)
        yield SliceReach(
            group_by=group_by,
            slice=slice_,
            support=largest_support,
            half_width=min((gap.half_width for gap in gaps), default=None),
            decided=support is not None
            and largest_support is not None
            and largest_support >= support,
        )


def _proposed_window(primary: MetricProposal) -> str:
    """Return the window to propose: a week, or 28 days if a week decides too few slices."""
    decided = sum(reach.decided for reach in primary.slices)
    return _WEEK if 2 * decided >= len(primary.slices) else _LONGER
