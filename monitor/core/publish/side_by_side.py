"""Versions of the router side by side: the same slice for two versions.

All numbers are copied from published lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from monitor.core.contract import COMPLEMENT, Contract
from monitor.core.counts.cells import atom_text, parse_atom
from monitor.core.counts.coding import Coding
from monitor.core.publish.lines import SliceLine


@dataclass(frozen=True, slots=True)
class VersionGroup:
    """Group-by with an attribute that is a version of the router.

    Attributes:
        contract: name.
        group_by: attribute names joined by ``+``.
        baseline: version to compare the others with, as values by attribute; empty if the settings
            name no slice as the reference.
    """

    contract: str
    group_by: str
    baseline: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class VersionPair:
    """Lines of one slice for a version of the router, and for the baseline version.

    Attributes:
        version: its numbers, those of its gap among them.
        beside: numbers of the baseline; None where the settings name no reference version, or
            nothing of it is published.
    """

    version: SliceLine
    beside: SliceLine | None


def version_groups(contracts: Iterable[Contract], coding: Coding) -> Iterator[VersionGroup]:
    """Yield the group-bys whose attributes include a version of the router, for all contracts."""
    versions = {attribute.name for attribute in coding.attributes if attribute.version_of}
    for contract in contracts:
        for group in contract.group_bys:
            if not versions.isdisjoint(group.attributes):
                reference_values = (
                    {} if group.reference == COMPLEMENT else parse_atom(group.reference)
                )
                baseline = {
                    name: value for name, value in reference_values.items() if name in versions
                }
                yield VersionGroup(contract.name, group.name, baseline)


def side_by_side(
    slices: Sequence[SliceLine], groups: Iterable[VersionGroup]
) -> Iterator[VersionPair]:
    """Yield each line of a version, paired with the same slice of the baseline, group by group.

    Args:
        slices: lines of a contract.
        groups: group-bys of the same contract, in their order.
    """
    for group in groups:
        lines = {
            slice_line.slice: slice_line
            for slice_line in slices
            if slice_line.group_by == group.group_by
        }
        for text, line in lines.items():
            baseline_slice = _baseline_slice(text, group.baseline)
            if baseline_slice != text:
                yield VersionPair(line, lines.get(baseline_slice or ""))


def _baseline_slice(slice_: str, baseline: Mapping[str, str]) -> str | None:
    """Return the text of the same slice in the baseline version; None without a baseline."""
    return atom_text(parse_atom(slice_) | dict(baseline)) if baseline else None
