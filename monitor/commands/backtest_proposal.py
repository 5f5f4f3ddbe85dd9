"""File of use cases with a proposed contract, and its evidence as comments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import msgspec

from monitor.core.contract import gap_limit
from monitor.core.plain_text import LONGEST_NAME
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.words import distance
from monitor.reports.proposals import MetricProposal, Proposal
from monitor.settings import Settings
from monitor.settings.as_text import use_case_text
from monitor.settings.sections import UseCase


def proposed(settings: Settings, proposals: Sequence[Proposal]) -> str:
    """Return proposed use cases as a TOML file for ``--contract``, with evidence as comments."""
    parts = []
    for use_case, proposal in zip(settings.use_case, proposals, strict=True):
        parts += [
            *(f"# {line}" for line in _evidence_lines(proposal)),
            use_case_text(_proposed_use_case(use_case, proposal)),
        ]
    return "\n".join(parts)


def _evidence_lines(proposal: Proposal) -> Iterator[str]:
    weeks = ", ".join(proposal.weeks)
    yield f"Proposed from {weeks}. Each slice that can be decided was within the"
    yield "limits in these weeks, with the whole 95 % interval of its gap. Whether the weeks were"
    yield "as they should be is for people to say, and so is what may be allowed."
    for metric in proposal.metrics:
        yield from _metric_lines(metric)


def _metric_lines(proposal: MetricProposal) -> Iterator[str]:
    name = proposal.metric.value
    if proposal.max_gap is None:
        yield f"{name}: no slice had the support to propose a limit; the present one is kept."
        return
    yield (
        f"{name}: limit {distance(proposal.max_gap)} points, support {proposal.min_support} or"
        f" more; the largest gap was {distance(proposal.largest)} points."
    )
    decided = sum(slice_.decided for slice_ in proposal.slices)
    reach = distance(proposal.detectable)
    yield (
        f"  {decided} of {len(proposal.slices)} slices can be decided in a week; a gap of {reach}"
        " points or more would be outside the limit for each of them."
    )
    for slice_ in proposal.slices:
        if not slice_.decided:
            support = "hidden" if slice_.support is None else f"support {slice_.support}"
            yield f"  not decided: {slice_name(slice_.slice)} ({support})"


def _proposed_use_case(use_case: UseCase, proposal: Proposal) -> UseCase:
    """Return the use case with the proposed limits, supports and window, as a new version."""
    changes: dict[str, object] = {}
    for metric in proposal.metrics:
        if metric.max_gap is not None and metric.min_support is not None:
            changes[gap_limit(metric.metric)] = Fraction(f"{metric.max_gap:.2f}")
            if support := metric.metric.row.support:
                changes[support] = metric.min_support
    changes["window"] = proposal.window
    changes["version"] = f"{use_case.contract.version}-proposed"[:LONGEST_NAME]
    changes["reason"] = f"proposed from {', '.join(proposal.weeks)}"
    contract = msgspec.structs.replace(use_case.contract, **changes)
    return msgspec.structs.replace(use_case, contract=contract)
