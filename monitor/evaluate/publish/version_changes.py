"""The versions of the router that changed in a slice, by name.

That they changed is an advisory finding, published once a day. Which ones did is read from all
counts around it, and only names are told: of versions that have at least k decisions of the slice
on their side of the change.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from monitor.core.contract import Contract, GroupBy
from monitor.core.counts.cells import OTHER, Counter, Counts, decode_strata, parse_atom
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import CellIndex
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Annotation
from monitor.core.publish.snapshot import ComponentChange, GroupTable, SliceRow
from monitor.core.time import DAY
from monitor.detection.advisory.versions import changed_components

CountsBetween = Callable[[int, int], Counts]
"""Counts of all whole hours from one instant to another (microseconds)."""


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """Finder of the router versions that changed in a slice, by name.

    Attributes:
        counts: of hours; by cell.
        index: gives the meaning of all cells.
        changed_at: the hour in which other versions last began to answer a slice of a contract and
            group-by; None where none did.
    """

    counts: CountsBetween
    index: Callable[[], CellIndex]
    changed_at: Callable[[str, str, str], int | None]

    def named(
        self, table: GroupTable, contract: Contract, group: GroupBy, coding: Coding
    ) -> GroupTable:
        """Return the table; rows that note a version change name the changed versions.

        Rows of a group-by by a version have none: their slices are versions.
        """
        by_version = {attribute.name for attribute in coding.attributes if attribute.version_of}
        if by_version & {*group.attributes}:
            return table
        rows = (
            replace(row, versions_changed=self._changed(row, contract, group, noted_at))
            if (noted_at := _change_noted_until(row)) is not None
            else row
            for row in table.rows
        )
        return replace(table, rows=tuple(rows))

    def _changed(
        self, row: SliceRow, contract: Contract, group: GroupBy, until: int
    ) -> tuple[ComponentChange, ...]:
        """Return the components whose version differs before and after the slice's last change."""
        at = self.changed_at(contract.name, group.name, row.slice)
        if at is None or at >= until:
            return ()  # a later change, which is not published yet
        pairs = {**parse_atom(row.slice), **dict(contract.where)}.items()
        before, after = (
            self._by_version(self.counts(*span), pairs) for span in ((at - DAY, at), (at, until))
        )
        return changed_components(before, after, contract.k)

    def _by_version(self, counts: Counts, pairs: Iterable[tuple[str, str]]) -> Mapping[str, int]:
        """Return the number of production decisions with these values, by text of the version."""
        index, wanted = self.index(), set(pairs)
        places = np.searchsorted(index.cells, counts.keys)
        atoms = [
            atom for atom, text in index.atom_texts.items() if wanted <= parse_atom(text).items()
        ]
        inside = np.isin(index.atoms[places], atoms) & ~decode_strata(index.strata[places]).probe
        if index.versions is None:
            return {}
        decided = Tally[str]()
        numbers = counts.values[inside, Counter.N].tolist()
        for version, n in zip(index.versions[places[inside]].tolist(), numbers, strict=True):
            decided[index.version_texts.get(version, OTHER)] += n
        return decided


def _change_noted_until(row: SliceRow) -> int | None:
    """Return the end of the day (microseconds) that showed a row's newest version change."""
    if Metric.SELECTION not in row.rates or OTHER in parse_atom(row.slice).values():
        return None
    changes = (note for note in row.noted if note.annotation is Annotation.VERSION_CHANGE)
    return next((note.latest for note in changes), None)
