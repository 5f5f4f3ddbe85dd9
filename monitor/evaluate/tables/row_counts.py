"""From counts of cells to counts of a use case's rows and parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Counter, Counts, Int64s, Route, StratumColumns, decode_strata
from monitor.core.counts.rollup import CellIndex
from monitor.core.tables.settings import Part, TableSettings

_COUNTED = (Counter.N, Counter.Q, Counter.LABELLED, Counter.READY, Counter.REVISED)
_OUTSIDE = -1


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Exact counts of one span, arrays of shape (rows, parts).

    Attributes:
        decisions: all of them.
        requested: those that a label was requested for.
        ready: those labelled ready.
        not_ready: those labelled not ready.
        revised: those whose label was corrected, adjudicated or retracted.
    """

    decisions: Int64s
    requested: Int64s
    ready: Int64s
    not_ready: Int64s
    revised: Int64s

    def labels(self, reviewed: Sequence[int]) -> Int64s:
        """Ready, not ready and revised in some parts, shape (3, rows, parts)."""
        places = list(reviewed)
        return np.stack([c[:, places] for c in (self.ready, self.not_ready, self.revised)])


def changed_labels(first: Int64s, now: Int64s) -> Int64s:
    """Labels of each row that changed for certain since the first edition, shape (rows,).

    ``max(|ready|, |not ready|, |both together|, revised)`` of the differences of each part. Labels
    that came are counted exactly; a label that was revised twice, or came and was revised, is
    counted once. Fewer than truly changed make a row repeat its first edition, which tells nothing.

    Args:
        first: as :meth:`RowCounts.labels` gave them for the first edition.
        now: likewise.

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
    """Counts by row and part, for one use case and one version of its settings."""

    def __init__(self, settings: TableSettings, audit_rates: Sequence[float]) -> None:
        self._settings = settings
        self._rates = audit_rates
        self._members: dict[str, npt.NDArray[np.float64]] = {}
        self._texts: dict[int, str | None] = {}

    def parts_in_use(self, counts: Counts, index: CellIndex) -> frozenset[Part]:
        """Parts with k decisions or more in the use case as a whole."""
        cells = _Cells.of(counts, index)
        inside = np.array([text is not None for text in self._placed(cells, index)], bool)
        production = ~cells.strata.probe[cells.stratum_of] & inside[cells.atom_of]
        decisions = np.zeros(len(cells.strata.route), np.int64)
        np.add.at(decisions, cells.stratum_of[production], counts.values[production, Counter.N])
        totals: dict[Part, int] = {}
        for part, number in zip(self._parts(cells.strata), decisions.tolist(), strict=True):
            totals[part] = totals.get(part, 0) + number
        return frozenset(part for part, n in totals.items() if n >= self._settings.k)

    def count(self, counts: Counts, index: CellIndex) -> RowCounts:
        """The counts of all rows."""
        settings, cells = self._settings, _Cells.of(counts, index)
        texts = self._placed(cells, index)
        slots = sorted({text for text in texts if text is not None})
        slot = {text: place for place, text in enumerate(slots)}
        atom_slots = np.array([slot.get(t, _OUTSIDE) if t is not None else _OUTSIDE for t in texts])
        slot_of = atom_slots.astype(np.int64)[cells.atom_of]
        inside = (slot_of >= 0) & ~cells.strata.probe[cells.stratum_of]
        places = np.array([self._place(part) for part in self._parts(cells.strata)], np.int64)
        stratum_of = cells.stratum_of[inside]
        shape = (len(_COUNTED), len(slots), max(settings.bands, 1), len(settings.parts))
        table = np.zeros(shape, np.int64)
        bands = cells.strata.band if settings.bands else np.zeros_like(cells.strata.band)
        at = (slot_of[inside], bands[stratum_of], places[stratum_of])
        for column, counter in zip(table, _COUNTED, strict=True):
            np.add.at(column, at, counts.values[inside, counter])
        decisions, requested, labelled, ready, revised = table.clip(0)
        # A correction may be folded before the label that it corrects.
        not_ready = (labelled - ready).clip(0)
        columns = np.stack([decisions, requested, ready, not_ready, revised])
        return RowCounts(*self._in_rows(columns, slots))

    def _in_rows(self, table: Int64s, slots: Sequence[str]) -> Int64s:
        """Counts of rows, from those of atoms and bands; floats are exact up to 2^53."""
        rows = self._settings.layout.rows
        members = np.zeros((len(rows), len(slots)))
        for place, text in enumerate(slots):
            members[:, place] = self._column(text)
        counted = np.zeros((len(table), len(rows), table.shape[-1]), np.int64)
        of_band = np.array([_OUTSIDE if row.band is None else row.band for row in rows])
        for band in np.unique(of_band).tolist():
            chosen = of_band == band
            atoms = table.sum(axis=2) if band == _OUTSIDE else table[:, :, band]
            counted[:, chosen] = members[chosen] @ atoms.astype(np.float64)
        return counted

    def _column(self, text: str) -> npt.NDArray[np.float64]:
        if text not in self._members:
            self._members[text] = self._settings.layout.members([text])[:, 0].astype(np.float64)
        return self._members[text]

    def _placed(self, cells: _Cells, index: CellIndex) -> list[str | None]:
        for atom in cells.atoms.tolist():
            if atom not in self._texts:
                self._texts[atom] = self._settings.placed(index.atom_texts[atom])
        return [self._texts[atom] for atom in cells.atoms.tolist()]

    def _parts(self, strata: StratumColumns) -> list[Part]:
        """The part that each stratum is, whether the settings have it or not."""
        columns = (strata.route, strata.rate, strata.evidence_passed)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [
            Part(Route(route), self._rates[rate])
            if evidence and route != Route.BLOCKED_BY_EVIDENCE
            else Part(Route(route))
            for route, rate, evidence in rows
        ]

    def _place(self, part: Part) -> int:
        """The place of a part; a part that is not in use counts as the one with the nearest rate.

        The few decisions of it would be too few to be shown, and without them rows would not be
        the sums of their parts.
        """
        parts = self._settings.parts
        same_route = [place for place, own in enumerate(parts) if own.route is part.route]
        return min(same_route, key=lambda place: _apart(parts[place], part))


def _apart(part: Part, wanted: Part) -> float:
    if part == wanted:
        return -1.0
    return abs((part.audit_rate or 0.0) - (wanted.audit_rate or 0.0))


@dataclass(frozen=True, slots=True)
class _Cells:
    """Counted cells by the atoms and the strata that occur in them."""

    atoms: Int64s
    atom_of: Int64s
    strata: StratumColumns
    stratum_of: Int64s

    @classmethod
    def of(cls, counts: Counts, index: CellIndex) -> _Cells:
        places = np.searchsorted(index.cells, counts.keys)
        atoms, atom_of = np.unique(index.atoms[places], return_inverse=True)
        codes, stratum_of = np.unique(index.strata[places], return_inverse=True)
        return cls(atoms, atom_of, decode_strata(codes), stratum_of)
