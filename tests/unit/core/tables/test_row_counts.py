"""Counts of rows and parts against decisions counted one by one."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from calendars import CODING, CONTRACT

from monitor.core.contract import GroupBy
from monitor.core.counts.cells import (
    COUNTERS,
    MISSING,
    OTHER,
    Counter,
    Counts,
    Int64s,
    Route,
    Stratum,
    atom_text,
    content_id,
    parse_atom,
)
from monitor.core.counts.rollup import CellIndex
from monitor.core.tables.layout import Row
from monitor.core.tables.row_counts import Column, RowCounter, changed_labels
from monitor.core.tables.settings import Part, TableSettings, parts_of_routes
from monitor.core.tables.spans import SpanKind

RATES = CODING.audit_rates
PARTS = parts_of_routes({Part(Route.AUTO_SERVE, 0.05), Part(Route.HUMAN_REVIEW, 1.0)})
SETTINGS = replace(
    TableSettings.from_contract(
        replace(CONTRACT, group_bys=(GroupBy(("city",)), GroupBy(("tier",)))), CODING
    ),
    parts=PARTS,
    bands=CODING.bands,
)


@dataclass(frozen=True)
class Decision:
    """One decision: who, on which stratum, and what its label says (None: no label).

    Attributes:
        unclear: the label came, and the reviewer could not tell.
    """

    atom: str
    stratum: Stratum
    ready: bool | None
    revised: bool
    asked: bool = False
    unclear: bool = False


def decisions(seed: int, number: int = 3_000) -> Iterator[Decision]:
    rng = np.random.default_rng(seed)
    cities, tiers = ("oslo", "rome", OTHER, None), ("a", "b", "listed later", MISSING)
    for _ in range(number):
        values = {"city": cities[rng.integers(4)], "tier": tiers[rng.integers(4)]}
        route = Route(int(rng.integers(3)))
        stratum = Stratum(
            route,
            band=int(rng.integers(CODING.bands)),
            rate=int(rng.integers(len(RATES))),
            evidence_passed=route is not Route.BLOCKED_BY_EVIDENCE and rng.random() < 0.9,
            probe=bool(rng.random() < 0.1),
        )
        label = (None, True, False)[rng.integers(3)]
        atom = atom_text({name: value for name, value in values.items() if value is not None})
        asked, unclear = label is not None or rng.random() < 0.5, rng.random() < 0.3
        revised = label is not None and rng.random() < 0.2
        yield Decision(atom, stratum, label, revised, asked, asked and unclear and label is None)


def counted(all_decisions: list[Decision]) -> tuple[Counts, CellIndex]:
    rows: dict[int, Int64s] = {}
    meaning: dict[int, tuple[int, int]] = {}
    for decision in all_decisions:
        atom, code = content_id(decision.atom), decision.stratum.code
        cell = content_id(f"{atom}/{code}")
        meaning[cell] = atom, code
        values = rows.setdefault(cell, np.zeros(COUNTERS, np.int64))
        values[Counter.N] += 1
        values[Counter.LABELLED] += decision.ready is not None
        values[Counter.READY] += decision.ready is True
        values[Counter.REVISED] += decision.revised
        values[Counter.Q] += decision.asked
        values[Counter.UNDECIDABLE] += decision.unclear
    cells = np.array(sorted(rows), np.int64)
    atoms, strata = np.array([meaning[cell] for cell in cells.tolist()], np.int64).T.copy()
    texts = {content_id(decision.atom): decision.atom for decision in all_decisions}
    counts = Counts(cells, np.array([rows[cell] for cell in cells.tolist()]))
    return counts, CellIndex(cells, atoms, strata, texts)


def belongs(decision: Decision, row: Row) -> bool:
    """Whether a decision is in a row, from its name alone."""
    sent = parse_atom(decision.atom)
    values = {
        name: sent.get(name, MISSING) if sent.get(name, MISSING) in listed else OTHER
        for name, listed in SETTINGS.values
    }
    inside = parse_atom(row.slice_name).items() <= values.items()
    return inside != row.complement and row.band in {None, decision.stratum.band}


@pytest.mark.parametrize("where", [(), (("city", "oslo"),)])
def test_rows_and_parts_count_what_single_decisions_add_up_to(
    where: tuple[tuple[str, str], ...],
) -> None:
    settings = replace(SETTINGS, where=where)
    every = list(decisions(3))
    inside = [d for d in every if set(where) <= parse_atom(d.atom).items() and not d.stratum.probe]
    rows = RowCounter(settings, RATES).count(*counted(every))
    place = {part.route: i for i, part in enumerate(PARTS)}

    for number, row in enumerate(settings.layout_of(SpanKind.WEEK).rows):
        here = [decision for decision in inside if belongs(decision, row)]
        for column, chosen in (
            (rows[Column.DECISIONS], here),
            (rows[Column.READY], [d for d in here if d.ready is True]),
            (rows[Column.NOT_READY], [d for d in here if d.ready is False]),
            (rows[Column.REVISED], [d for d in here if d.revised]),
            (
                rows[Column.UNANSWERED],
                [d for d in here if d.asked and d.ready is None and not d.unclear],
            ),
        ):
            by_part = Tally(place[decision.stratum.route] for decision in chosen)
            assert column[number].tolist() == [by_part[i] for i in range(len(PARTS))], row


def test_a_rate_that_is_not_in_use_is_counted_with_the_nearest_one() -> None:
    parts = parts_of_routes({Part(Route.AUTO_SERVE, rate) for rate in (1.0, 0.05)})
    settings = replace(TableSettings.from_contract(CONTRACT, CODING), parts=parts)
    strata = [Stratum(Route.AUTO_SERVE, 0, rate) for rate in (0, 1, 2)]
    strata.append(Stratum(Route.AUTO_SERVE, 0, 0, evidence_passed=False))
    every = [Decision("city=oslo", stratum, None, revised=False) for stratum in strata]
    total = RowCounter(settings, RATES).count(*counted(every))[Column.DECISIONS, 0]

    assert dict(zip([part.name for part in parts], total.tolist(), strict=True)) == {
        "auto_serve@1": 1,
        "auto_serve@0.05": 3,
        "human_review@1": 0,
        "blocked_by_evidence": 0,
    }


def test_parts_in_use_have_k_decisions_of_the_use_case() -> None:
    often, seldom = Stratum(Route.AUTO_SERVE, 0, 2), Stratum(Route.AUTO_SERVE, 0, 1)
    elsewhere = Stratum(Route.HUMAN_REVIEW, 0, 0)
    probe = replace(seldom, probe=True)
    every = [
        *[
            Decision("city=oslo", replace(often, band=i % 2), None, revised=False)
            for i in range(11)
        ],
        *[Decision("city=oslo", seldom, None, revised=False)] * 10,
        *[Decision("city=oslo", probe, None, revised=False)] * 20,
        *[Decision("city=rome", elsewhere, None, revised=False)] * 20,
    ]
    settings = replace(SETTINGS, where=(("city", "oslo"),))
    in_use = RowCounter(settings, RATES).parts_in_use(*counted(every))
    assert in_use == {Part(Route.AUTO_SERVE, 0.05)}


def test_labels_before_their_decisions_are_no_negative_counts() -> None:
    early = Counts(np.array([1]), np.zeros((1, COUNTERS), np.int64))
    early.values[0, [Counter.LABELLED, Counter.READY]] = 0, -1
    stratum = Stratum(Route.AUTO_SERVE, 0, 2).code
    index = CellIndex(np.array([1]), np.array([7]), np.array([stratum]), {7: "city=oslo"})
    rows = RowCounter(SETTINGS, RATES).count(early, index)
    assert rows.min() == 0


@pytest.mark.parametrize("seed", range(20))
def test_never_more_labels_changed_than_truly_did(seed: int) -> None:
    """Each decision has a label before and after; a revised one has been counted so for good."""
    rng = np.random.default_rng(seed)
    before, after = rng.integers(0, 3, (2, 400))
    after = np.where(rng.random(400) < 0.7, before, after)
    revised_before = (before > 0) & (rng.random(400) < 0.3)
    revised_after = revised_before | ((before > 0) & (before != after))

    def columns(label: Int64s, revised: Int64s) -> Int64s:
        return np.array([[[n]] for n in ((label == 1).sum(), (label == 2).sum(), revised.sum())])

    changed = changed_labels(
        columns(before, revised_before.astype(np.int64)),
        columns(after, revised_after.astype(np.int64)),
    )
    assert 0 <= changed.item() <= (before != after).sum()
