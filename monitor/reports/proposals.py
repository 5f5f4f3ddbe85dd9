"""A contract proposed from a baseline: limits that its weeks kept, and what these could tell.

By what Releases show alone, so a proposal says nothing that they do not. The baseline is taken to
be as it should be; whether it is, is for people to say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from monitor.core.contract import Metric
from monitor.core.publish.conclusion import limited
from monitor.core.publish.lines import places
from monitor.core.publish.reasons import Place
from monitor.core.publish.release import Release
from monitor.reports.weekly_report import of_release

LEAST_LIMIT = 0.05
"""No smaller gap is proposed as a limit: five points are about what rounding and a busy week
move."""
MOST_HALF_WIDTH = 0.10
"""So much support is asked for that intervals of gaps reach ten points to each side at most."""
_LONGER, _WEEK = "28d", "7d"


@dataclass(frozen=True, slots=True)
class SliceReach:
    """Reach of a slice's labels in the baseline: the differences that they could tell.

    Attributes:
        group_by: attribute names joined by ``+``.
        slice: slice text.
        support: lower edge of its largest band in a week; None where it was hidden in all.
        half_width: half of its narrowest interval of the gap, as a rate; None where none was shown.
        decided: whether it has the support that is proposed.
    """

    group_by: str
    slice: str
    support: int | None
    half_width: float | None
    decided: bool


@dataclass(frozen=True, slots=True)
class MetricProposal:
    """The proposal for one metric.

    Attributes:
        metric: of the limit.
        max_gap: limit on its gap; None where no slice had enough support to tell.
        min_support: smallest support to be decided on; None likewise.
        largest: the largest gap that was shown of a slice with that support; None likewise.
        slices: every listed slice that is compared.
    """

    metric: Metric
    max_gap: float | None
    min_support: int | None
    largest: float | None
    slices: tuple[SliceReach, ...]

    @property
    def detectable(self) -> float | None:
        """A gap that large would have been outside the limit for every slice that is decided."""
        widths = [one.half_width for one in self.slices if one.decided and one.half_width]
        return None if self.max_gap is None or not widths else self.max_gap + max(widths)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A contract proposed from a baseline.

    Attributes:
        contract: name.
        weeks: of the baseline.
        window: name of the window to decide on.
        metrics: those whose gaps the contract limits, the primary one first.
    """

    contract: str
    weeks: tuple[str, ...]
    window: str
    metrics: tuple[MetricProposal, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """One gap of one week."""

    support: int
    value: float | None
    lower: float
    upper: float

    @property
    def half_width(self) -> float:
        return (self.upper - self.lower) / 2

    @property
    def reach(self) -> float:
        return max(abs(self.lower), abs(self.upper))


_Slice = tuple[str, str]


def propose(contract: str, releases: Sequence[Release]) -> Proposal:
    """The proposal for a contract by the Releases of its baseline, at least one."""
    found = [
        (table, place)
        for release in releases
        for table, window in of_release(release)
        if table.contract == contract
        for place in places(table, window)
    ]
    metrics = tuple(
        dict.fromkeys(m for table, _ in found for m in limited(table) if m in table.max_gaps)
    )
    listed = [place for _, place in found]
    made = tuple(_metric(metric, listed) for metric in metrics)
    weeks = tuple(release.week for release in releases)
    return Proposal(contract, weeks, _window(made[0]) if made else _WEEK, made)


def _metric(metric: Metric, listed: Iterable[Place]) -> MetricProposal:
    seen: dict[_Slice, list[_Seen]] = {}
    for place in listed:
        key = getattr(place.table, "group_by", ""), place.row.slice
        seen.setdefault(key, []).extend(_gaps(place, metric))
    support = _support(one for gaps in seen.values() for one in gaps)
    every = (one for gaps in seen.values() for one in gaps)
    counted = [one for one in every if support is not None and one.support >= support]
    return MetricProposal(
        metric=metric,
        max_gap=_rounded(max(one.reach for one in counted)) if counted else None,
        min_support=support if counted else None,
        largest=max((abs(one.value) for one in counted if one.value is not None), default=None),
        slices=tuple(_reaches(seen, support)),
    )


def _gaps(place: Place, metric: Metric) -> Iterator[_Seen]:
    """The gap of a row; none where it is hidden or has no bounds."""
    rate, gap = place.row.rates.get(metric), place.row.gaps.get(metric)
    if rate is None or gap is None or gap.lower is None or gap.upper is None:
        return
    yield _Seen(rate.support, gap.value, gap.lower, gap.upper)


def _support(seen: Iterable[_Seen]) -> int | None:
    """Support at which every interval would be narrow enough: they narrow with its root."""
    needed = [one.support * (one.half_width / MOST_HALF_WIDTH) ** 2 for one in seen]
    return 10 * max(1, math.ceil(max(needed) / 10)) if needed else None


def _rounded(reach: float) -> float:
    """Up to a whole point, and never less than what anybody would ask for."""
    return max(LEAST_LIMIT, math.ceil(round(100 * reach, 6)) / 100)


def _reaches(seen: Mapping[_Slice, Sequence[_Seen]], support: int | None) -> Iterator[SliceReach]:
    for (group_by, slice_), gaps in seen.items():
        most = max((one.support for one in gaps), default=None)
        yield SliceReach(
            group_by=group_by,
            slice=slice_,
            support=most,
            half_width=min((one.half_width for one in gaps), default=None),
            decided=support is not None and most is not None and most >= support,
        )


def _window(primary: MetricProposal) -> str:
    """A week, unless less than half of the slices could be decided in one."""
    decided = sum(one.decided for one in primary.slices)
    return _WEEK if 2 * decided >= len(primary.slices) else _LONGER
