"""Versions of the router side by side: a slice of one version beside the same of another.

All numbers are those of published lines: nothing is computed here.
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
    """A group-by with an attribute that is a version of the router.

    Attributes:
        contract: name.
        group_by: attribute names joined by ``+``.
        baseline: the version that the others stand beside, as values by attribute; empty where the
            settings name no slice as the reference.
    """

    contract: str
    group_by: str
    baseline: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class VersionPair:
    """A slice of one version of the router, beside the same slice of the reference version.

    Attributes:
        version: its numbers, those of its gap among them.
        beside: numbers of the other one; None where the settings name no version as the reference,
            or nothing of it is published.
    """

    version: SliceLine
    beside: SliceLine | None


def version_groups(contracts: Iterable[Contract], coding: Coding) -> Iterator[VersionGroup]:
    """The group-bys over versions, of all contracts."""
    versions = {attribute.name for attribute in coding.attributes if attribute.version_of}
    for contract in contracts:
        for group in contract.group_bys:
            if not versions.isdisjoint(group.attributes):
                named = {} if group.reference == COMPLEMENT else parse_atom(group.reference)
                baseline = {name: value for name, value in named.items() if name in versions}
                yield VersionGroup(contract.name, group.name, baseline)


def side_by_side(
    slices: Sequence[SliceLine], groups: Iterable[VersionGroup]
) -> Iterator[VersionPair]:
    """Every version but the baseline, beside the baseline; group by group, each in its order.

    Args:
        slices: lines of a contract.
        groups: of the same contract, in the order wanted.
    """
    for group in groups:
        lines = {one.slice: one for one in slices if one.group_by == group.group_by}
        for text, line in lines.items():
            beside = _beside(text, group.baseline)
            if beside != text:
                yield VersionPair(line, lines.get(beside or ""))


def _beside(slice_: str, baseline: Mapping[str, str]) -> str | None:
    """The slice that differs in its version alone; None where there is no baseline."""
    return atom_text(parse_atom(slice_) | dict(baseline)) if baseline else None
