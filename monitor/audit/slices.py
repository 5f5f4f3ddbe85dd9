"""Slices of one part of a set: rows coded and counted, then the rates and calibration of slices.

Rows are computed from calendar tables, as every number of the service is: the set is one span.
Tables of a synthetic set are exact; tables of real people show bands and hide small rows.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from monitor.audit.audit_report import CalibrationLine, SliceLine
from monitor.audit.inputs import Row
from monitor.core.contract import COMPLEMENT, Contract, GroupBy
from monitor.core.counts.cells import (
    COUNTERS,
    MISSING,
    OTHER,
    Counter,
    Counts,
    Route,
    Stratum,
    atom_text,
    content_id,
    parse_atom,
)
from monitor.core.counts.coding import Attribute, Coding
from monitor.core.counts.rollup import CellIndex, SliceCounts, roll_up, slice_text
from monitor.core.metric import Metric
from monitor.core.probes.flips import Observed
from monitor.core.publish.calendar_contract import ContractInTables
from monitor.core.publish.calendar_rates import UseCaseTables
from monitor.core.publish.snapshot import ShownRate, SliceRow
from monitor.core.rates.estimates import calibration
from monitor.core.rates.gaps import comparisons
from monitor.core.tables.closed_span import ClosedSpan
from monitor.core.tables.row_counts import RowCounter
from monitor.core.tables.settings import Part, TableSettings
from monitor.core.tables.spans import Span, SpanKind

_ALL_LABELLED = (1.0,)
_PARTS = (
    Part(Route.AUTO_SERVE, 1.0),
    Part(Route.HUMAN_REVIEW, 1.0),
    Part(Route.BLOCKED_BY_EVIDENCE),
)
_SPAN = Span(SpanKind.WEEK, 0)

MIN_CALIBRATION = 10
"""Labels that a calibration cell needs, whatever k is: fewer say nothing about a score band."""


def audit_coding(coding: Coding) -> Coding:
    """Return the coding with 1 as the only audit rate, since all items of a set are labelled."""
    return replace(coding, audit_rates=_ALL_LABELLED)


@dataclass(frozen=True, slots=True)
class SetCounts:
    """Counts of all rows of a set by cell (atom and stratum); every item is labelled.

    Attributes:
        counts: by cell.
        index: meaning of the cells.
    """

    counts: Counts
    index: CellIndex


def count(rows: Sequence[Row], coding: Coding) -> SetCounts:
    """Return the numbers of items, labels and ready items by cell (atom and stratum).

    Args:
        rows: rows of compared pairs, so that the expected outcome is known.
        coding: coding of :func:`audit_coding`.
    """
    items = Tally((atom_of(row, coding), _stratum(row, coding).code) for row in rows)
    ready = Tally(
        (atom_of(row, coding), _stratum(row, coding).code)
        for row in rows
        if row.item.expected_ready
    )
    cells = sorted((content_id(f"{atom}|{stratum}"), atom, stratum) for atom, stratum in items)
    values = np.zeros((len(cells), COUNTERS), np.int64)
    for line, (_, atom, stratum) in zip(values, cells, strict=True):
        line[[Counter.N, Counter.Q, Counter.LABELLED]] = items[atom, stratum]
        line[Counter.READY] = ready[atom, stratum]
    keys = np.array([key for key, _, _ in cells], np.int64)
    index = CellIndex(
        cells=keys,
        atoms=np.array([content_id(atom) for _, atom, _ in cells], np.int64),
        strata=np.array([stratum for _, _, stratum in cells], np.int64),
        atom_texts={content_id(atom): atom for _, atom, _ in cells},
    )
    return SetCounts(Counts(keys, values), index)


def atom_of(row: Row, coding: Coding) -> str:
    """Return a row's atom: the text of all coded attribute values."""
    return atom_text(
        {
            attribute.name: attribute.code(value_of(row, attribute))
            for attribute in coding.attributes
        }
    )


def value_of(row: Row, attribute: Attribute) -> str | None:
    """Return a row's value of an attribute or, if it stands for a version, that version."""
    if attribute.version_of is not None:
        return str(getattr(row.versions, attribute.version_of))
    return row.item.attributes.get(attribute.name)


def slice_of(row: Row, attributes: Sequence[str], coding: Coding) -> str:
    """Return the text of a row's slice by ``attributes``; empty without attributes."""
    return slice_text(atom_of(row, coding), attributes)


def without_gate(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows with gate-stopped items sent to human_review instead.

    Rates over them are about all items, whatever the gate did: a router cannot improve them by
    stopping what it would get wrong.
    """
    return tuple(replace(row, observed=_let_through(row)) for row in rows)


def _let_through(row: Row) -> Observed:
    """Return the outcome as if the evidence gate had let the request through, to review."""
    observed = row.observed
    blocked = observed.route is Route.BLOCKED_BY_EVIDENCE
    return replace(
        observed, route=Route.HUMAN_REVIEW if blocked else observed.route, evidence_passed=True
    )


def _stratum(row: Row, coding: Coding) -> Stratum:
    """Return the stratum of a row; in an audit every row is labelled."""
    observed = row.observed
    return Stratum(
        observed.route,
        coding.band(observed.score),
        rate=0,
        evidence_passed=observed.evidence_passed,
    )


SUPPORTED = (Metric.TPR, Metric.FPR)
"""Metrics with a minimum support in the contract."""


@dataclass(frozen=True, slots=True)
class GroupSlices:
    """Slices of one group-by, as shown and as counted.

    Attributes:
        group: the group-by; the total has no attributes.
        rows: rows as they may be shown, sorted; hidden rows have no numbers.
        labelled: counts behind them, with a row for each slice that was counted.
    """

    group: GroupBy
    rows: tuple[SliceRow, ...]
    labelled: SliceCounts


def slices_of(rows: Sequence[Row], contract: Contract, coding: Coding) -> tuple[GroupSlices, ...]:
    """Return the slices of the total, then of every group-by of the contract.

    k counts people, and a pair is one request however many variants it has. A pair that may be in
    a cell several times therefore multiplies k by that number.
    """
    counts = count(rows, coding)
    total = replace(contract, group_bys=())
    groups = [
        _group_slices(
            _guarded_contract(total, _most_variants(rows, coding, ())), counts, GroupBy(()), coding
        )
    ]
    for group in contract.group_bys:
        guarded = _guarded_contract(
            replace(contract, group_bys=(group,)), _times_in_cell(rows, coding, group)
        )
        groups.append(_group_slices(guarded, counts, group, coding))
    return tuple(groups)


def slices_within(
    table: GroupSlices, rows: Sequence[Row], contract: Contract, coding: Coding
) -> GroupSlices:
    """Return a synthetic group-by's slices over fewer rows, with bounds as for all slices.

    Args:
        table: group-by over all rows.
        rows: some of the rows of ``table``.
        contract: contract of ``table``.
        coding: coding of ``table``.
    """
    group = table.group
    slices = int((table.labelled.values[:, :, Counter.N].sum(axis=1) > 0).sum())
    compared = comparisons(slices, group.reference)
    single = replace(contract, group_bys=(group,) if group.attributes else ())
    return _group_slices(single, count(rows, coding), group, coding, compared)


def _guarded_contract(contract: Contract, times: int) -> Contract:
    return contract if contract.synthetic else replace(contract, k=contract.k * times)


def _times_in_cell(rows: Sequence[Row], coding: Coding, group: GroupBy) -> int:
    """Return the most rows that one pair may have in one cell of a group-by.

    The complement of a slice may hold all variants of the pair.
    """
    return _most_variants(rows, coding, () if group.reference == COMPLEMENT else group.attributes)


def _most_variants(rows: Sequence[Row], coding: Coding, attributes: tuple[str, ...]) -> int:
    """Return the most variants that one pair has in one slice; 1 without rows."""
    variants = Tally((row.item.pair, slice_of(row, attributes, coding)) for row in rows)
    return max(variants.values(), default=1)


def lines_of(
    groups: Sequence[GroupSlices], contract: Contract, ungated: Sequence[GroupSlices] = ()
) -> tuple[SliceLine, ...]:
    """Return a report line for each slice; empty slices of a synthetic set have none.

    Args:
        groups: as :func:`slices_of` made them.
        contract: contract of ``groups``.
        ungated: ``groups`` of a synthetic set, made of its rows :func:`without_gate`.
    """
    needed = {metric: contract.limits.min_support(metric) for metric in SUPPORTED}
    ungated_tpr = {
        (table.group.name, row.slice): row.rates[Metric.TPR].value
        for table in ungated
        for row in table.rows
        if Metric.TPR in row.rates
    }
    return tuple(
        SliceLine(
            group_by=table.group.name,
            slice=row.slice,
            rates=row.rates,
            supports=_shown_supports(row, synthetic=contract.synthetic),
            needed=needed,
            tpr_with_blocked=ungated_tpr.get((table.group.name, row.slice)),
        )
        for table in groups
        for row in table.rows
        if row.rates or not contract.synthetic
    )


def declared(table: GroupSlices) -> tuple[SliceRow, ...]:
    """Return the rows whose attribute values are all named in the settings."""
    unnamed = {MISSING, OTHER}
    return tuple(row for row in table.rows if not unnamed & {*parse_atom(row.slice).values()})


def _group_slices(
    contract: Contract,
    counts: SetCounts,
    group: GroupBy,
    coding: Coding,
    compared: int | None = None,
) -> GroupSlices:
    """Build the guarded rows and the counts of one group-by, with the set as one span."""
    settings = replace(TableSettings.from_contract(contract, coding, bands=True), parts=_PARTS)
    counted = RowCounter(settings, _ALL_LABELLED).count(counts.counts, counts.index)
    closed = ClosedSpan(_SPAN, settings, counted)
    decisions = closed.decision_table()
    labels = replace(closed, past=decisions).first_edition()
    tables = UseCaseTables(_PARTS)
    tables.add((*decisions, *labels))
    in_tables = ContractInTables(contract, tables, coding)
    table = in_tables.group(
        in_tables.basis_of_week(group if group.attributes else None, _SPAN), compared
    )
    rolled = roll_up(counts.counts, counts.index, group.attributes)
    return GroupSlices(group, table.rows, rolled if group.attributes else rolled.total)


def _shown_supports(row: SliceRow, *, synthetic: bool) -> dict[Metric, int]:
    """Return the trials behind TPR and FPR by metric; hidden ones of real people are absent."""
    supports = {metric: row.rates[metric].support for metric in SUPPORTED if metric in row.rates}
    return dict.fromkeys(SUPPORTED, 0) | supports if synthetic else supports


def calibration_lines(
    groups: Sequence[GroupSlices], coding: Coding, *, synthetic: bool
) -> tuple[CalibrationLine, ...]:
    """Return P(ready) by slice and score band, for group-bys with one attribute.

    Intersections have too few items. For a synthetic set every band with items has a line, even
    with too few; a band without items is absent. For real people all bands have one, and bands
    with few items look like empty ones.
    """
    single = [table for table in groups if len(table.group.attributes) == 1]
    lines_by_band = _exact_calibration if synthetic else _banded_calibration
    return tuple(line for table in single for line in lines_by_band(table, coding))


def _exact_calibration(table: GroupSlices, coding: Coding) -> Iterator[CalibrationLine]:
    """Yield the ready share of each slice and score band that has rows; synthetic sets only."""
    bands = calibration(table.labelled, coding)
    for i, text in enumerate(table.labelled.slices):
        for band, columns in bands.items():
            n = int(columns.hits[i] + columns.misses[i])
            if n:
                value, lower, upper = columns.value[i], columns.lower[i], columns.upper[i]
                rate = ShownRate(float(value), float(lower), float(upper), n)
                name = coding.band_names[band]
                yield CalibrationLine(text, name, n, rate, sufficient=n >= MIN_CALIBRATION)


def _banded_calibration(table: GroupSlices, coding: Coding) -> Iterator[CalibrationLine]:
    """Yield the published ready share of each slice and score band; 0 rows where hidden."""
    for row in table.rows:
        shown = {cell.band: cell.rate for cell in row.calibration}
        for name in coding.band_names:
            rate = shown.get(name)
            n = rate.support if rate else 0
            yield CalibrationLine(row.slice, name, n, rate, sufficient=n >= MIN_CALIBRATION)
