"""Shares of slices among all decisions, compared with shares of a target population."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, floor

from monitor.core.metric import Metric
from monitor.core.publish.glossary import attribute_values
from monitor.core.publish.sides import listed
from monitor.core.publish.snapshot import ContractTable, GroupTable
from monitor.reports.planners.published_rates import Named, decisions_behind
from monitor.reports.weekly_report import WeeklyReport

_DECIMALS = 100
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class RepresentationLine:
    """Share of a slice among decisions, as bounds, beside its target from the settings.

    Attributes:
        target: share of the slice in the sum of these targets.
        least: smallest possible share, by the bands of decisions.
        most: largest possible share.
    """

    of: Named
    target: float
    least: float
    most: float


def representation(report: WeeklyReport) -> tuple[RepresentationLine, ...]:
    """Return a RepresentationLine per shown slice of an attribute with a target."""
    targets = {
        attribute.name: dict(attribute.target)
        for attribute in report.facts.attributes
        if attribute.target
    }
    return tuple(
        line
        for contract, window in report.windows()
        for group in window.groups
        if group.group_by in targets
        for line in _lines(contract, group, targets[group.group_by])
    )


def _lines(
    contract: ContractTable, group: GroupTable, targets: Mapping[str, float]
) -> Iterator[RepresentationLine]:
    """Yield a slice's target share, and the bounds of its share of decisions."""
    bands = {}
    for row in listed(group):
        rate, value = row.rates.get(Metric.SELECTION), attribute_values(row.slice)[group.group_by]
        if rate is not None and value in targets:
            bands[row.slice] = targets[value], *decisions_behind(contract, rate.support)
    target_sum = sum(target for target, _, _ in bands.values())
    least, most = (sum(band[end] for band in bands.values()) for end in (1, 2))
    for slice_text, (target, low, high) in bands.items():
        yield RepresentationLine(
            Named(contract.contract, group.group_by, slice_text),
            round(target / target_sum, 2),
            floor(low / (low + most - high) * _DECIMALS + _SLACK) / _DECIMALS,
            ceil(high / (high + least - low) * _DECIMALS - _SLACK) / _DECIMALS,
        )
