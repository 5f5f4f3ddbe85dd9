"""Diagnosis of slices: the stage at which they differ from their reference, and versions.

All of it is of the very rows that the table shows, and only of what it shows: it moves when the
table does, and a hidden slice says nothing. It is of the table's blocks; which versions changed is
of the released blocks around the change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from monitor.core.contract import COMPLEMENT, Metric
from monitor.core.counts.cells import OTHER, Int64s, parse_atom
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.publish.annotations import Annotation
from monitor.core.publish.contract_tables import Pooled
from monitor.core.publish.snapshot import GroupTable, ShownStage, SliceRow
from monitor.core.rates.gaps import references
from monitor.detection.advisory.versions import changed_components, versions_differ
from monitor.detection.diagnosis.stages import Passage, diverging_stages, ready_counts, stage_counts

STAGED = (Metric.SELECTION, Metric.TPR)
"""The rates that are the product of the stages: shares of served ones, in all and in the ready."""

_Stages = Mapping[str, Mapping[Metric, ShownStage]]


def with_diagnosis(pooled: Pooled, table: GroupTable, coding: Coding, k: int) -> GroupTable:
    """The table with the stages of its rows, and whether their versions differ.

    A stage is reported where the gap of its metric is a number. Where a rate is hidden there is no
    gap; where it is coded, its bound stands for 0 to k - 1 decisions alike, and a stage, which is
    made of just those, could tell some of them apart.

    The versions are reported where both slices are shown, coded or not: they do not know the
    routes. Never of a group-by by a version, whose slices are versions, and never where fewer than
    k decisions of the slice name one: what is not sent does not differ, and does not agree.

    Args:
        pooled: what the table was made of.
        table: one group-by in the contract's window.
        coding: of its counts.
        k: smallest number of decisions that may be told of.
    """
    stages = _stages(pooled, table, coding.bands)
    sent = _versions_sent(pooled, table, k)
    differ = _versions_differ(pooled, table, coding, sent)
    rows = (
        replace(
            row,
            stages=stages[row.slice],
            versions_differ=differ.get(row.slice),
            versions_sent=sent.get(row.slice),
        )
        for row in table.rows
    )
    return replace(table, rows=tuple(rows))


def _stages(pooled: Pooled, table: GroupTable, bands: int) -> _Stages:
    """Stages of every row, by metric."""
    found: dict[str, dict[Metric, ShownStage]] = {row.slice: {} for row in table.rows}
    for metric in STAGED:
        told = [row.slice for row in table.rows if _is_number(row, metric)]
        if told:
            known = _stages_of(pooled, metric, bands)
            for text in told:
                found[text][metric] = known[text]
    return found


def _is_number(row: SliceRow, metric: Metric) -> bool:
    gap = row.gaps.get(metric)
    return gap is not None and gap.value is not None


def _stages_of(pooled: Pooled, metric: Metric, bands: int) -> dict[str, ShownStage]:
    counts = pooled.rolled.counts(metric)
    sides = (counts, references(counts, pooled.group.reference))
    found = diverging_stages(*(_passage(side, metric, bands) for side in sides))
    shown = (ShownStage(one.stage, one.share) for one in found)
    return dict(zip(counts.slices, shown, strict=True))


def _passage(counts: SliceCounts, metric: Metric, bands: int) -> Passage:
    if metric is Metric.TPR:
        return Passage.of_ready(*ready_counts(counts, bands))
    return Passage.of_decisions(*stage_counts(counts, bands))


def _versions_sent(pooled: Pooled, table: GroupTable, k: int) -> dict[str, bool]:
    """Flags of whether at least k decisions of a row name a version, of the rows that are shown.

    Windows of a few hours do not distinguish versions: nothing is known there.
    """
    shown = [row.slice for row in table.rows if Metric.SELECTION in row.rates]
    named = _named_decisions(pooled) if shown else None
    if named is None:
        return {}
    enough = dict(zip(pooled.rolled.decisions.slices, (named >= k).tolist(), strict=True))
    return {text: enough[text] for text in shown}


def _named_decisions(pooled: Pooled) -> Int64s | None:
    """Decisions of each row that name a version, shape (S,); None where none is distinguished."""
    versions, decided = pooled.versions()
    if not versions.any():
        return None
    texts = pooled.counts.index.version_texts
    total: Int64s = decided[:, [texts.get(v, OTHER) != "" for v in versions.tolist()]].sum(axis=1)
    return total


def _versions_differ(
    pooled: Pooled, table: GroupTable, coding: Coding, sent: Mapping[str, bool]
) -> dict[str, bool]:
    """Flags of differing versions, of the rows that are shown along with their reference."""
    by_version = {attribute.name for attribute in coding.attributes if attribute.version_of}
    told = [row.slice for row in table.rows if Metric.SELECTION in row.gaps and sent.get(row.slice)]
    if not told or by_version & {*pooled.group.attributes}:
        return {}
    slices, decided = pooled.rolled.decisions.slices, pooled.by_version()
    others = _others(decided, slices, pooled.group.reference)
    known = dict(zip(slices, versions_differ(decided, others).tolist(), strict=True))
    return {text: known[text] for text in told}


Sides = Callable[[int], tuple[Pooled, Pooled] | None]
"""A group-by in the released blocks before and after an instant; None where a side has none."""


def with_version_changes(table: GroupTable, sides: Sides, coding: Coding, k: int) -> GroupTable:
    """The table with the versions that changed, of the rows in which a change is noted.

    Only of rows whose decisions are shown, and of versions with at least k of them on their side
    of the change: so neither a hidden slice nor a rare version is told of. Never of a group-by by
    a version, whose slices are versions.

    Args:
        table: one group-by in the contract's window, with its annotations.
        sides: gives the group-by before and after the change that a block's end reports.
        coding: of its counts.
        k: smallest number of decisions of a version that may be named.
    """
    by_version = {attribute.name for attribute in coding.attributes if attribute.version_of}
    noted = {row.slice: at for row in table.rows if (at := _changed_at(row)) is not None}
    if not noted or by_version & {*table.group_by.split("+")}:
        return table
    around = {at: sides(at) for at in {*noted.values()}}
    changed = {
        text: changed_components(_of_row(both[0], text), _of_row(both[1], text), k)
        for text, at in noted.items()
        if (both := around[at]) is not None
    }
    rows = (replace(row, versions_changed=changed.get(row.slice, ())) for row in table.rows)
    return replace(table, rows=tuple(rows))


def _changed_at(row: SliceRow) -> int | None:
    """End of the block that a version change of a shown row is reported with; None without."""
    if Metric.SELECTION not in row.rates or OTHER in parse_atom(row.slice).values():
        return None
    return next((x.latest for x in row.noted if x.annotation is Annotation.VERSION_CHANGE), None)


def _of_row(pooled: Pooled, text: str) -> Mapping[str, int]:
    """Production decisions of a row by version tuple; without a known text they are of others."""
    if text not in pooled.rolled.decisions.slices:
        return {}
    versions, decided = pooled.versions()
    counts = decided[pooled.rolled.decisions.slices.index(text)].tolist()
    known, sums = pooled.counts.index.version_texts, Counter[str]()
    for version, count in zip(versions.tolist(), counts, strict=True):
        sums[known.get(version, OTHER)] += count
    return sums


def _others(decided: Int64s, slices: tuple[str, ...], reference: str) -> Int64s:
    """Decisions that those of each row are compared with."""
    if reference == COMPLEMENT:
        rest: Int64s = decided.sum(axis=0) - decided
        return rest
    return np.broadcast_to(decided[slices.index(reference)], decided.shape)
