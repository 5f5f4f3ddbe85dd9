"""Rows of an audit, counted exactly as the service counts decisions.

Every item is labelled by the outcome that reviewers expect, so there is one audit rate, 1. What the
evidence gate stopped is outside TPR, FPR and calibration here as everywhere.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from monitor.audit.model import Row
from monitor.core.atoms import atom_text, content_id
from monitor.core.build import BlockCounts
from monitor.core.cells import COUNTERS, Counter, Counts, Route, Stratum
from monitor.core.coding import Coding
from monitor.core.flips import Observed
from monitor.core.rollup import CellIndex, slice_text

_ALL_LABELLED = (1.0,)


def audit_coding(coding: Coding) -> Coding:
    """The service's coding for items that are all labelled."""
    return replace(coding, audit_rates=_ALL_LABELLED)


def count(rows: Sequence[Row], coding: Coding) -> BlockCounts:
    """All rows as the counts of one window: decisions, and the labels of all of them.

    Args:
        rows: of compared pairs, so that the expected outcome is known.
        coding: as :func:`audit_coding` makes it.
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
    counts = Counts(keys, values)
    return BlockCounts(
        has_labels=True,
        decided=None,
        labelled_in=None,
        decisions=counts,
        labelled=counts,
        index=index,
    )


def atom_of(row: Row, coding: Coding) -> str:
    """The atom of a row: listed attributes, and versions where an attribute is taken from them."""
    values = row.item.attributes
    return atom_text(
        {
            a.name: a.code(
                values.get(a.name) if a.version_of is None else getattr(row.versions, a.version_of)
            )
            for a in coding.attributes
        }
    )


def slice_of(row: Row, attributes: Sequence[str], coding: Coding) -> str:
    """The slice of a group-by over some attributes that a row is in; ``""`` for none of them."""
    return slice_text(atom_of(row, coding), attributes)


def without_gate(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows as if the evidence gate had sent to review what it stopped.

    Rates over them are about all items, whatever the gate did: a router cannot improve them by
    stopping what it would get wrong.
    """
    return tuple(replace(row, observed=_let_through(row)) for row in rows)


def _let_through(row: Row) -> Observed:
    seen = row.observed
    blocked = seen.route is Route.BLOCKED_BY_EVIDENCE
    return replace(seen, route=Route.HUMAN_REVIEW if blocked else seen.route, evidence_passed=True)


def _stratum(row: Row, coding: Coding) -> Stratum:
    seen = row.observed
    return Stratum(
        seen.route, coding.band(seen.score), rate=0, evidence_passed=seen.evidence_passed
    )
