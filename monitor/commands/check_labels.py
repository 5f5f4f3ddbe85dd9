"""Labels in ``slicewatch check``: what traffic can decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from monitor.core.contract import Contract, GroupBy, Limits
from monitor.core.metric import Metric
from monitor.core.publish.decidable import (
    BEYOND,
    Decidable,
    Design,
    by_audit,
    by_limit,
    by_ratio,
    by_window,
    decidable,
    decidable_ratio,
    first_decided,
)
from monitor.core.publish.words import NONE
from monitor.core.time import DAY, WINDOWS
from monitor.present.document import Table, table
from monitor.settings import Settings

AUDITS = (0.05, 0.10, 0.20, 1.0)
"""Audit rates that traffic is given for."""

_TPR, _FPR = 0.8, 0.1
"""Rates assumed for all slices."""

_FEW, _CLOSE = 500, 0.05
"""Measured: at 240 decisions a day and audits of 5 %, 3 of 10 TPR gaps .05 beyond the limit are
paged within 60 days; at 500 the median is 21 days (``tests/bench/bench_traffic.py``)."""

_PROPOSED = (0.05, 0.10, 0.15, 0.20, 0.25, 0.33, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class AssumedTraffic:
    """Traffic assumed on the command line (--daily, --audit, --ready) for one slice.

    Attributes:
        daily: decisions per day and slice.
        audit: labelled share of the auto-served decisions.
        ready: P(ready).
    """

    daily: int
    audit: float
    ready: float

    def labels(self, route: str) -> float:
        """Return the labels per day and slice on ``route``; all of human_review is labelled."""
        served = self.ready * _TPR + (1 - self.ready) * _FPR
        return self.daily * (served * self.audit if route == "auto_serve" else 1 - served)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Limit of a metric in one group-by of a contract, under the assumed traffic.

    Attributes:
        group_by: the name of the group-by or slice.
        design: the assumed conditions.
        ratio: True if the limit is on the ratio of the metric's rates, not on their gap.
    """

    group_by: str
    metric: Metric
    design: Design
    ratio: bool = False

    @property
    def now(self) -> Decidable:
        return self.decided(self.design)

    def decided(self, design: Design) -> Decidable:
        return decidable_ratio(design) if self.ratio else decidable(design, self.metric)

    @property
    def limit(self) -> float:
        limits = self.design.contract.limits
        limit = limits.min_ratio(self.metric) if self.ratio else limits.max_gap(self.metric)
        return float(limit or 0)

    @property
    def name(self) -> str:
        return f"{self.metric.upper()}{' ratio' if self.ratio else ''}"

    @property
    def text(self) -> str:
        failure = f"{self.name}s below" if self.ratio else f"{self.name} gaps beyond"
        return f"contract {self.design.contract.name}: {failure} {self.limit:g}"

    def allowing(self, daily: int) -> str | None:
        """Return in words the first wider limit that ``daily`` decisions decide; None if none."""
        wider = by_ratio(self.design) if self.ratio else by_limit(self.design, self.metric)
        limit = first_decided(wider, self.decided, daily)
        return None if limit is None else f"allow a {'ratio' if self.ratio else 'gap'} of {limit:g}"

    def row(self) -> tuple[str, ...]:
        """Return the table row: names, limit, window, and per audit rate the traffic to decide."""
        contract = self.design.contract
        decisions = (self.decided(replace(self.design, audit=a)) for a in AUDITS)
        cells = (f"{_count(traffic.passes)} / {_count(traffic.fails)}" for traffic in decisions)
        names = (self.name, self.group_by, contract.name)
        return (*names, f"{self.limit:g}", contract.window, *cells)


def traffic_lines(settings: Settings, assumed: AssumedTraffic) -> Iterator[str]:
    """Yield lines on which limits the assumed traffic decides, undecided limits first."""
    traffic = f"{assumed.daily:,} decisions a day and slice and audits of {assumed.audit:.0%}"
    undecided: dict[tuple[str, str], list[str]] = {}
    decided: dict[str, list[str]] = {}
    for comparison in _comparisons(settings, assumed):
        if comparison.now.at(assumed.daily):
            decided.setdefault(comparison.text, []).append(comparison.group_by)
        else:
            undecided.setdefault(
                (comparison.text, _ways_to_decide(comparison, assumed)), []
            ).append(comparison.group_by)
    for (text, ways), names in undecided.items():
        yield f"warning: {text} are not reliably decided at {traffic} ({', '.join(names)}): {ways}"
    for text, names in decided.items():
        yield f"ok: {text} are reliably decided at {traffic} ({', '.join(names)})"


def assumption_lines(assumed: AssumedTraffic) -> Iterator[str]:
    """Yield a line on what the numbers of the traffic table mean, and one on what they assume."""
    yield (
        f"Decisions a day and slice from which four of five windows are decided: pass where"
        f" there is no gap / fail where it is {float(BEYOND):.2f} beyond the limit."
    )
    yield (
        f"Assumed: slices of one size; {assumed.ready:.0%} of requests ready, {_TPR:.0%} of"
        f" these and {_FPR:.0%} of the others auto-served; all of human_review labelled. Below"
        f" {_FEW} decisions a day, do not expect gaps within {_CLOSE:g} of a limit to be found."
    )


def traffic_table(settings: Settings, assumed: AssumedTraffic) -> tuple[Table, ...]:
    """Return a table of the decisions per day that each limit needs, hardest limit first."""
    hardest = sorted(
        _comparisons(settings, assumed), key=lambda comparison: -_needed(comparison.now)
    )
    audits = "|".join(f"audits {rate:.0%}" for rate in AUDITS)
    rows = (comparison.row() for comparison in hardest)
    return table(f"gap|group-by|contract|limit|window|{audits}", rows)


def _comparisons(settings: Settings, assumed: AssumedTraffic) -> list[_Comparison]:
    """Return a _Comparison per limit of each group-by, in the order of the file, TPR first."""
    values = {attribute.name: len(attribute.values) for attribute in settings.attribute}
    return [
        _Comparison(
            name,
            metric,
            Design(
                replace(contract, limits=limits),
                prod(values[name] for name in group.attributes),
                group.reference,
                assumed.audit,
                WINDOWS[contract.window].length / DAY,
                assumed.ready,
                _TPR,
                _FPR,
            ),
            ratio,
        )
        for contract in settings.contracts
        for group in contract.group_bys
        for name, limits in _limits_by_name(contract, group)
        for metric in Metric
        for ratio, limit in ((False, limits.max_gap(metric)), (True, limits.min_ratio(metric)))
        if limit is not None
    ]


def _limits_by_name(contract: Contract, group: GroupBy) -> Iterator[tuple[str, Limits]]:
    """Yield (name, limits) of a group-by, then of each of its slices with own limits."""
    yield group.name, contract.limits_of(group.name)
    for own_limits in contract.own_limits:
        if own_limits.group_by == group.name and own_limits.slice:
            yield own_limits.slice, own_limits.alone(contract.limits)


def _ways_to_decide(comparison: _Comparison, assumed: AssumedTraffic) -> str:
    """Return in words the single changes that decide a comparison, else two changes together."""
    design, daily = comparison.design, assumed.daily
    rates = [rate for rate in _PROPOSED if rate > assumed.audit]
    longer = [w.length / DAY for w in WINDOWS.values() if w.length / DAY > design.days]
    ways = []
    if (rate := first_decided(by_audit(design, rates), comparison.decided, daily)) is not None:
        ways.append(f"audit {rate:.0%}")
    if (days := first_decided(by_window(design, longer), comparison.decided, daily)) is not None:
        ways.append(f"set the contract's window to {days:g}d")
    if (wider := comparison.allowing(daily)) is not None:
        ways.append(wider)
    return ", or ".join(ways) or _both_ways(comparison, daily, longer, rates)


def _both_ways(
    comparison: _Comparison, daily: int, longer: Sequence[float], rates: Sequence[float]
) -> str:
    for days, widened in by_window(comparison.design, longer):
        if (rate := first_decided(by_audit(widened, rates), comparison.decided, daily)) is not None:
            return f"audit {rate:.0%} and set the contract's window to {days:g}d"
    return "no audit rate, window or limit is enough; compare larger slices"


def _needed(traffic: Decidable) -> float:
    return max(float("inf") if n is None else n for n in (traffic.passes, traffic.fails))


def _count(traffic: int | None) -> str:
    return NONE if traffic is None else f"{traffic:,}"
