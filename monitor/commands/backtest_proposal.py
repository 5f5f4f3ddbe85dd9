"""A proposed contract as a file of use cases, with what its numbers could tell as comments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import msgspec

from monitor.core.contract import GAP_LIMITS, Metric
from monitor.core.plain_text import LONGEST_NAME
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.words import points
from monitor.reports.proposals import MetricProposal, Proposal
from monitor.settings import Settings
from monitor.settings.as_text import use_case_text
from monitor.settings.sections import UseCase

_SUPPORTS = {Metric.TPR: "min_positives", Metric.FPR: "min_negatives"}


def proposed(settings: Settings, made: Sequence[Proposal]) -> str:
    """A file of use cases for ``--contract``; what the numbers could tell is in its comments."""
    parts = []
    for use_case, one in zip(settings.use_case, made, strict=True):
        parts += [*(f"# {line}" for line in _said(one)), use_case_text(_changed(use_case, one))]
    return "\n".join(parts)


def _said(one: Proposal) -> Iterator[str]:
    yield f"Proposed from {', '.join(one.weeks)}. Each slice that can be decided was within the"
    yield "limits in these weeks, with the whole 95 % interval of its gap. Whether the weeks were"
    yield "as they should be is for people to say, and so is what may be allowed."
    for metric in one.metrics:
        yield from _said_of(metric)


def _said_of(one: MetricProposal) -> Iterator[str]:
    name = one.metric.value
    if one.max_gap is None:
        yield f"{name}: no slice had the support to propose a limit; the present one is kept."
        return
    yield (
        f"{name}: limit {_points(one.max_gap)} points, support {one.min_support} or more;"
        f" the largest gap was {_points(one.largest)} points."
    )
    decided = sum(slice_.decided for slice_ in one.slices)
    reach = _points(one.detectable)
    yield (
        f"  {decided} of {len(one.slices)} slices can be decided in a week; a gap of {reach} points"
        " or more would be outside the limit for each of them."
    )
    for slice_ in one.slices:
        if not slice_.decided:
            support = "hidden" if slice_.support is None else f"support {slice_.support}"
            yield f"  not decided: {slice_name(slice_.slice)} ({support})"


def _changed(use_case: UseCase, one: Proposal) -> UseCase:
    changes: dict[str, object] = {}
    for metric in one.metrics:
        if metric.max_gap is not None and metric.min_support is not None:
            changes[GAP_LIMITS[metric.metric]] = Fraction(f"{metric.max_gap:.2f}")
            if metric.metric in _SUPPORTS:
                changes[_SUPPORTS[metric.metric]] = metric.min_support
    windows = use_case.windows
    if one.window in windows:
        changes["window"] = one.window
    changes["version"] = f"{use_case.contract.version}-proposed"[:LONGEST_NAME]
    changes["reason"] = f"proposed from {', '.join(one.weeks)}"
    contract = msgspec.structs.replace(use_case.contract, **changes)
    return msgspec.structs.replace(use_case, contract=contract)


def _points(difference: float | None) -> str:
    return points(difference).lstrip("+")
