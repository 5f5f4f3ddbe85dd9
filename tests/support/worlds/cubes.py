"""Small cubes of counts for the tests of what may be shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from monitor.core.contract import Contract, GroupBy, Limits
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
from monitor.core.counts.rollup import CellIndex, SliceCounts, roll_up
from monitor.core.publish.calendar_contract import ContractInTables
from monitor.core.publish.calendar_rates import UseCaseTables
from monitor.core.publish.snapshot import ContractTable, WindowTable
from monitor.core.tables.closed_span import ClosedSpan
from monitor.core.tables.row_counts import RowCounter
from monitor.core.tables.settings import TableSettings, parts_of_routes
from monitor.core.tables.spans import ANCHOR, Span, SpanKind
from monitor.core.time import WINDOWS, WindowKind

# No declared values: the rows of a table are those that were seen.
CODING = Coding((Attribute("channel", ()),), audit_rates=(1.0, 0.5, 0.05))

LIMITS = Limits(
    max_tpr_gap=Fraction(1, 10),
    max_fpr_gap=Fraction(1, 10),
    max_blocked_gap=Fraction(1, 10),
    min_tpr=None,
    max_fpr=None,
    min_positives=50,
    min_negatives=30,
)


@dataclass(frozen=True)
class Cell:
    """Decisions of one atom in one stratum; labels requested are those received by default.

    ``pairs`` are those that two reviewers labelled: both ready, both not, apart.
    """

    atom: Mapping[str, str]
    stratum: Stratum
    n: int
    labelled: int = 0
    ready: int = 0
    requested: int | None = None
    version: int = 0
    pairs: tuple[int, int, int] = (0, 0, 0)


def auto(
    atom: Mapping[str, str], n: int, labelled: int = 0, ready: int = 0, **stratum: Any
) -> Cell:
    return Cell(
        atom, Stratum(Route.AUTO_SERVE, **{"band": 1, "rate": 0, **stratum}), n, labelled, ready
    )


def review(
    atom: Mapping[str, str], n: int, labelled: int = 0, ready: int = 0, **stratum: Any
) -> Cell:
    return Cell(
        atom, Stratum(Route.HUMAN_REVIEW, **{"band": 0, "rate": 0, **stratum}), n, labelled, ready
    )


def blocked(atom: Mapping[str, str], n: int) -> Cell:
    stratum = Stratum(Route.BLOCKED_BY_EVIDENCE, band=0, rate=0, evidence_passed=False)
    return Cell(atom, stratum, n)


def table(cells: Iterable[Cell]) -> tuple[Counts, CellIndex]:
    """Counts by cell id, and what the ids mean."""
    keys, rows, meaning = [], [], {}
    for cell in cells:
        text = atom_text(cell.atom)
        key = content_id(f"{text}|{cell.stratum.code}|{cell.version}")
        row = np.zeros(COUNTERS, np.int64)
        row[Counter.N], row[Counter.LABELLED], row[Counter.READY] = (
            cell.n,
            cell.labelled,
            cell.ready,
        )
        row[Counter.Q] = cell.labelled if cell.requested is None else cell.requested
        row[Counter.PAIRS_READY : Counter.PAIRS_APART + 1] = cell.pairs
        keys.append(key)
        rows.append(row)
        meaning[key] = (content_id(text), cell.stratum.code, text, cell.version)
    ids = sorted(meaning)
    index = CellIndex(
        cells=np.array(ids, np.int64),
        atoms=np.array([meaning[key][0] for key in ids], np.int64),
        strata=np.array([meaning[key][1] for key in ids], np.int64),
        atom_texts={atom: text for atom, _, text, _ in meaning.values()},
        versions=np.array([meaning[key][3] for key in ids], np.int64),
    )
    values = np.array(rows, np.int64).reshape(-1, COUNTERS)
    return Counts.from_rows(np.array(keys, np.int64), values), index


def slices(cells: Iterable[Cell], *attributes: str) -> SliceCounts:
    counts, index = table(cells)
    return roll_up(counts, index, attributes)


@dataclass(frozen=True)
class WindowCounts:
    """What was counted in one window, the same spans for every group-by."""

    kind: WindowKind
    start: int
    decisions: Counts
    labelled: Counts
    index: CellIndex

    @property
    def span(self) -> Span:
        """One span that the window is made of alone."""
        return Span.containing(self.start, _SPAN_OF[self.kind.name])


_SPAN_OF = {
    "1h": SpanKind.HOUR,
    "24h": SpanKind.DAY,
    "7d": SpanKind.WEEK,
    "28d": SpanKind.FOUR_WEEKS,
}


def window(cells: Iterable[Cell], name: str = "7d", start: int = ANCHOR) -> WindowCounts:
    """Everything in one window, labels and decisions over the same time."""
    counts, index = table(cells)
    return WindowCounts(WINDOWS[name], start, counts, counts, index)


def build_contract(
    settings: Contract, coding: Coding, windows: Sequence[WindowCounts]
) -> ContractTable:
    """The contract's table, from published tables of one span a window."""
    seen = [in_tables(settings, coding, counted) for counted in windows]
    made = [window_table(*each) for each in zip(seen, (w.kind for w in windows), strict=True)]
    return ContractInTables(settings, UseCaseTables(), coding).table(made)


def window_table(seen: ContractInTables, kind: WindowKind) -> WindowTable:
    """The newest tables of one window."""
    total = seen.group(seen.basis(None, kind))
    groups = [seen.group(seen.basis(group, kind)) for group in seen.contract.group_bys]
    (row,) = total.rows
    return WindowTable(
        kind.name, row, tuple(groups), decisions=total.decisions, labelled=total.labelled
    )


def in_tables(contract: Contract, coding: Coding, counted: WindowCounts) -> ContractInTables:
    """The contract seen through the tables of one window alone."""
    coding = _with_values(coding, counted.index)
    wanted = TableSettings.from_contract(contract, coding, bands=True)
    counter = RowCounter(wanted, coding.audit_rates)
    parts = parts_of_routes(counter.parts_in_use(counted.decisions, counted.index))
    made = replace(wanted, parts=parts)
    rows = RowCounter(made, coding.audit_rates).count(
        counted.decisions, counted.index, counted.span.kind
    )
    closed = ClosedSpan(counted.span, made, rows)
    decisions = closed.decision_table()
    tables = UseCaseTables(parts)
    tables.add(decisions)
    if counted.kind.labelled:
        tables.add(replace(closed, past=decisions).first_edition())
        if counted.span.kind >= SpanKind.WEEK:
            pairs = RowCounter(made, coding.audit_rates).count_pairs(
                counted.labelled, counted.index
            )
            tables.add(closed.pairs_table(pairs))
    return ContractInTables(contract, tables, coding)


def _with_values(coding: Coding, index: CellIndex) -> Coding:
    """The coding with the values that were seen, where none are declared."""
    seen: dict[str, set[str]] = {}
    for text in index.atom_texts.values():
        for name, value in parse_atom(text).items():
            seen.setdefault(name, set()).add(value)
    known = {attribute.name: attribute for attribute in coding.attributes}
    attributes = [
        replace(
            known.get(name, Attribute(name, ())), values=tuple(sorted(values - {OTHER, MISSING}))
        )
        if name not in known or not known[name].values
        else known[name]
        for name, values in sorted(seen.items())
    ]
    return replace(coding, attributes=tuple(attributes))


def contract(
    *group_bys: GroupBy,
    k: int = 11,
    synthetic: bool = False,
    limits: Limits = LIMITS,
    **more: object,
) -> Contract:
    plain = Contract(
        name="replies",
        version="1",
        owner="team",
        limits=limits,
        window="7d",
        group_bys=group_bys,
        synthetic=synthetic,
        k=k,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


PAIRS: Sequence[tuple[bool, str, float, float]] = (
    (True, "chat", 0.92, 0.88),
    (True, "chat", 0.88, 0.73),
    (True, "chat", 0.84, 0.72),
    (True, "email", 0.78, 0.67),
    (True, "email", 0.74, 0.56),
    (True, "email", 0.66, 0.61),
    (False, "chat", 0.71, 0.60),
    (False, "chat", 0.62, 0.55),
    (False, "email", 0.60, 0.52),
    (False, "email", 0.68, 0.63),
)
"""The lesson's ten pairs: ready, channel, score formal, score conversational. Invented test
conditions, not groups of people."""


def lesson_cells() -> list[Cell]:
    """The ten pairs as decisions, all labelled; equality with the threshold 0.70 is auto_serve."""
    cells: dict[tuple[str, str, int, int], list[int]] = {}
    for ready, channel, *scores in PAIRS:
        for variety, score in zip(("formal", "conversational"), scores, strict=True):
            route = Route.AUTO_SERVE if score >= 0.70 else Route.HUMAN_REVIEW
            key = (variety, channel, int(route), CODING.band(score))
            n_ready = cells.setdefault(key, [0, 0])
            n_ready[0] += 1
            n_ready[1] += ready
    return [
        Cell(
            {"language_variety": variety, "channel": channel},
            Stratum(Route(route), band=band, rate=0),
            n,
            n,
            ready,
        )
        for (variety, channel, route, band), (n, ready) in cells.items()
    ]
