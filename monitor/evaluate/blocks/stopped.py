"""Rows that have stopped coming: values that are not sent any more, or not labelled.

A block waits until each of its rows has k new decisions or labels, or none. A value that comes to
an end in the midst of a block leaves a few, and its group-by would stand still until merge maps
have forgotten it, weeks later. So a value that has stopped loses its name at once: the others go
on, and it comes back with the weekly maps when it is sent, or labelled, as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from monitor.core.counts.cells import OTHER, Counter, Int64s, decode_strata, parse_atom
from monitor.core.counts.rollup import SliceCounts
from monitor.core.counts.strata import REVIEWED_ROUTES, by_route, production, reviewed
from monitor.core.intervals import divide
from monitor.core.privacy.pooling import Bools, decisions_of
from monitor.core.time import DAY
from monitor.evaluate.blocks.family_state import FamilyState

SHARE = 4
"""What comes at less than a quarter of its usual pace has stopped."""

EXPECTED = 3
"""Times k that would have come at the usual pace: fewer tell nothing. Of so many, less than a
quarter comes by chance once in ten million times."""

LONGEST_WAIT = DAY, 2 * DAY
"""Age of an open block of decisions, and of labels, from which it is asked what it waits for."""


@dataclass(frozen=True, slots=True)
class WaitingBlock:
    """An open block that has waited for long, and what it waits for.

    Attributes:
        state: of the family.
        labels: whether it is a block of labels.
        slices: texts of its rows that have fewer than k, those without a name left out.
    """

    state: FamilyState
    labels: bool
    slices: frozenset[str]


def waiting_blocks(
    families: Mapping[str, FamilyState], until: tuple[int, int]
) -> Iterator[WaitingBlock]:
    """Open blocks that have waited for long for rows with a name.

    Args:
        families: by name.
        until: where panes are closed up to, to decisions and to labels (microseconds).
    """
    for state in families.values():
        for labels in (False, True):
            if state.rows is None or not state.edges:
                continue
            if until[labels] - state.of(labels)[0][-1] <= LONGEST_WAIT[labels]:
                continue
            slices = _few(state, labels)
            if slices:
                yield WaitingBlock(state, labels, slices)


def _few(state: FamilyState, labels: bool) -> frozenset[str]:
    """Rows with a name that have 1 to k - 1 in the open block."""
    tail = state.label_tail if labels else state.tail
    counts = tail.labels.sum(axis=2) if labels else tail.decisions.sum(axis=1, keepdims=True)
    few = ((counts > 0) & (counts < state.family.k)).any(axis=1)
    rows = state.counted(labels)
    if rows.size != len(rows.slices):  # parts of rows, where former maps are known
        return (
            frozenset(text for text in rows.slices if _has_name(text)) if few.any() else frozenset()
        )
    named = (rows.slices[row] for row in np.flatnonzero(few).tolist())
    return frozenset(text for text in named if _has_name(text))


def _has_name(text: str) -> bool:
    return OTHER not in parse_atom(text).values()


def stopped_slices(counts: SliceCounts, lately: SliceCounts, k: int, *, labels: bool) -> set[str]:
    """Texts of the slices that have stopped coming, in any route where it is labels."""
    rows = np.flatnonzero(_stopped(counts, lately, k, labels=labels).any(axis=1))
    return {counts.slices[row] for row in rows.tolist()}


def without_stopped(
    counts: SliceCounts, lately: SliceCounts, k: int, *, labels: bool
) -> SliceCounts:
    """The same counts with a single decision or label where they have stopped coming.

    Args:
        counts: of the weeks that merge maps are made from.
        lately: of the last days, of the same group-by.
        k: smallest cell that may be shown.
        labels: whether labels decide, by route, and not decisions.
    """
    gone = _stopped(counts, lately, k, labels=labels)
    if not gone.any():
        return counts
    values, counter = counts.values.copy(), Counter.LABELLED if labels else Counter.N
    for at, columns in enumerate(_columns(counts, labels)):
        rows = np.flatnonzero(gone[:, at])
        if len(rows) and len(columns):
            most = columns[values[np.ix_(rows, columns)][:, :, counter].argmax(axis=1)]
            values[rows[:, None], columns, counter] = 0
            values[rows, most, counter] = 1
    return SliceCounts(counts.slices, counts.strata, values)


def _stopped(counts: SliceCounts, lately: SliceCounts, k: int, *, labels: bool) -> Bools:
    """Mask of what comes at less than a quarter of its usual share, shape (S, routes or 1).

    Of the share of all that come: where everybody rests, nobody has stopped.
    """
    usual = _totals(counts, labels)
    place = {text: row for row, text in enumerate(lately.slices)}
    rows = np.array([place.get(text, -1) for text in counts.slices], np.int64)
    latest = _totals(lately, labels)
    now = np.concatenate([latest, np.zeros((1, latest.shape[1]), np.int64)])[rows]
    expected = divide(usual * now.sum(axis=0), usual.sum(axis=0), empty=0)
    gone: Bools = (expected >= EXPECTED * k) & (now * SHARE < expected)
    return gone


def _totals(counts: SliceCounts, labels: bool) -> Int64s:
    """Labels by route, shape (S, 2), or decisions, shape (S, 1)."""
    if labels:
        return by_route(counts)[:, :, Counter.LABELLED].T
    return decisions_of(counts)[:, None]


def _columns(counts: SliceCounts, labels: bool) -> list[Int64s]:
    """Columns of the strata behind each column of :func:`_totals`."""
    if not labels:
        return [np.flatnonzero(production(counts))]
    routes, of_rates = decode_strata(counts.strata).route, reviewed(counts)
    return [np.flatnonzero(of_rates & (routes == route)) for route in REVIEWED_ROUTES]
