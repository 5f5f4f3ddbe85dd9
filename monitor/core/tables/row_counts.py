"""Count the rows and parts of a use case, from counts of cells."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np

from monitor.core.counts.cells import Counter, Counts, Int64s, Route, decode_strata
from monitor.core.counts.rollup import CellIndex
from monitor.core.tables.settings import Part, TableSettings
from monitor.core.tables.spans import SpanKind

_COUNTED = [
    *(Counter.N, Counter.LABELLED, Counter.READY, Counter.REVISED),
    *(Counter.Q, Counter.UNDECIDABLE),
]
_PAIRS = [Counter.PAIRS_READY, Counter.PAIRS_NOT_READY, Counter.PAIRS_APART]


class Column(enum.IntEnum):
    """Counter of a part of a row: index on the first axis of arrays (5, rows, parts)."""

    DECISIONS = 0
    UNANSWERED = 1  # a label was requested, and has not come
    READY = 2  # labelled ready
    NOT_READY = 3
    REVISED = 4  # the label was corrected, adjudicated or retracted


def changed_labels(first: Int64s, now: Int64s) -> Int64s:
    """Return how many labels of each row certainly changed between two counts, shape (rows,).

    ``max(|ready|, |not ready|, |both together|, revised)`` of the differences of each part. Labels
    that came are counted exactly; a label that was revised twice, or came and was revised, is
    counted once. An undercount makes a row repeat its first edition, which reveals nothing.

    Args:
        first: ready, not ready and revised at the first edition, shape (3, rows, parts).
        now: the same now.

    Example:
        >>> before = np.array([[[5, 0]], [[3, 0]], [[0, 0]]])
        >>> changed_labels(before, np.array([[[8, 0]], [[5, 4]], [[0, 0]]])).tolist()
        [9]
        >>> changed_labels(before, np.array([[[4, 0]], [[4, 0]], [[3, 0]]])).tolist()
        [3]
    """
    ready, not_ready, revised = now - first
    columns = [abs(ready), abs(not_ready), abs(ready + not_ready), revised]
    return np.asarray(np.max(columns, axis=0).sum(axis=1))


class RowCounter:
    """Counter of rows and parts from counts of cells, for one version of table settings."""

    def __init__(self, settings: TableSettings, audit_rates: Sequence[float]) -> None:
        self._settings = settings
        self._rates = audit_rates
        self._texts: dict[int, str | None] = {}

    def parts_in_use(self, counts: Counts, index: CellIndex) -> frozenset[Part]:
        """Return the parts with at least k decisions in the use case as a whole."""
        _, codes, table = self._counts_by_atom(counts, index)
        totals: dict[Part, int] = {}
        decisions = table[:, :, 0].sum(axis=1)
        for code, number in zip(codes.tolist(), decisions.tolist(), strict=True):
            part = self._part(code)
            totals[part] = totals.get(part, 0) + number
        return frozenset(part for part, number in totals.items() if number >= self._settings.k)

    def count_decisions(self, counts: Counts, index: CellIndex) -> int:
        """Return the number of decisions of the use case."""
        return int(self._counts_by_atom(counts, index, [Counter.N])[2].sum())

    def count(self, counts: Counts, index: CellIndex, kind: SpanKind = SpanKind.WEEK) -> Int64s:
        """Return exact counts of a span's rows, shape (5, rows, parts): see :class:`Column`."""
        settings = self._settings
        texts, codes, by_stratum = self._counts_by_atom(counts, index)
        shape = (max(settings.bands, 1), len(settings.parts), len(texts), len(_COUNTED))
        table = np.zeros(shape, np.int64)
        places = np.array(
            [self._place_of_part(self._part(code)) for code in codes.tolist()], np.int64
        )
        bands = decode_strata(codes).band if settings.bands else np.zeros_like(codes)
        np.add.at(table, (bands, places), by_stratum)
        # Labels may be folded a moment before their decisions, or corrections before labels.
        decisions, labelled, ready, revised, asked, unclear = np.moveaxis(table.clip(0), -1, 0)
        unanswered, not_ready = (asked - labelled - unclear).clip(0), (labelled - ready).clip(0)
        columns = (decisions, unanswered, ready, not_ready, revised)
        rows = settings.layout_of(kind).count(texts, np.stack(columns).transpose(3, 1, 0, 2))
        return rows.swapaxes(0, 1)

    def count_pairs(self, counts: Counts, index: CellIndex) -> Int64s:
        """Return decisions with two labels in all rows without score bands, shape (rows, 3).

        Columns: both ready, both not ready, apart. Only reviewed parts count.
        """
        layout = self._settings.layout_of(SpanKind.DAY)
        texts, codes, by_stratum = self._counts_by_atom(counts, index, _PAIRS)
        reviewed = [self._part(code).audit_rate is not None for code in codes.tolist()]
        # Of two increments, the negative one may be counted first.
        pairs = by_stratum[np.array(reviewed, bool)].sum(axis=0).clip(0)
        return layout.count(texts, pairs[:, None])

    def _counts_by_atom(
        self, counts: Counts, index: CellIndex, columns: Sequence[Counter] = _COUNTED
    ) -> tuple[list[str], Int64s, Int64s]:
        """Return atom texts, stratum codes, and counts of shape (strata, atoms, columns)."""
        places = np.searchsorted(index.cells, counts.keys)
        atoms, atom_of = np.unique(index.atoms[places], return_inverse=True)
        for atom in set(atoms.tolist()) - self._texts.keys():
            self._texts[atom] = self._settings.placed(index.atom_texts[atom])
        sent = [self._texts[atom] for atom in atoms.tolist()]
        texts = sorted({text for text in sent if text is not None})
        place = {text: number for number, text in enumerate(texts)}
        slots = np.array([-1 if text is None else place[text] for text in sent], np.int64)
        inside = (slots[atom_of] >= 0) & ~decode_strata(index.strata[places]).probe
        codes, code_of = np.unique(index.strata[places][inside], return_inverse=True)
        table = np.zeros((len(codes), len(texts), len(columns)), np.int64)
        np.add.at(table, (code_of, slots[atom_of][inside]), counts.values[inside][:, columns])
        return texts, codes, table

    def _part(self, code: int) -> Part:
        """Return the part of a stratum code, whether or not the settings have it."""
        stratum = decode_strata(np.array([code]))
        route, evidence = Route(stratum.route.item()), bool(stratum.evidence_passed.item())
        reviewed = evidence and route is not Route.BLOCKED_BY_EVIDENCE
        return Part(route, self._rates[stratum.rate.item()] if reviewed else None)

    def _place_of_part(self, part: Part) -> int:
        """Return the place of a part; if not in use, of its route's part with the nearest rate.

        Its decisions are too few to be shown, but without them rows would not be the sums of
        their parts.
        """
        parts = self._settings.parts
        if part in parts:
            return parts.index(part)
        same_route = [place for place, own in enumerate(parts) if own.route is part.route]
        rate = part.audit_rate or 0.0
        return min(same_route, key=lambda place: abs((parts[place].audit_rate or 0.0) - rate))
