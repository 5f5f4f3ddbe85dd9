"""What was really let into the release: used to judge the attack, never by it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from adversary.model import Cube
from adversary.pages import DECISIONS, LABELLED, parse_slice
from adversary.worlds import AUTO, BLOCKED, REVIEW

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_QUERY = """
SELECT r.pane, a.text, d.stratum, r.n, r.labelled, r.ready
FROM released r JOIN cell d ON d.id = r.cell JOIN atom a ON a.id = d.atom
WHERE r.grain = :grain ORDER BY r.pane, r.cell
"""
GRAINS = {DECISIONS: 300_000_000, LABELLED: 3_600_000_000}
Holes = dict[tuple[tuple[str, ...], str], list[tuple[int, int]]]
Rows = list[tuple[int, str, int, int, int, int]]


@dataclass(frozen=True)
class Truth:
    """Counts by instant, atom of the attacker's cube, and state.

    Attributes:
        at: beginning of the pane of each row.
        atom: index into the cube's atoms.
        state: as in :data:`adversary.numbers.STATES`.
        count: how many.
    """

    at: Ints
    atom: Ints
    state: Ints
    count: Ints

    def sum(self, start: int, end: int, atoms: Bools, states: npt.ArrayLike) -> float:
        """Weighted count of a span."""
        rows = (self.at >= start) & (self.at < end) & atoms[self.atom]
        return float((np.asarray(states, float)[self.state[rows]] * self.count[rows]).sum())


@dataclass
class TruthLog:
    """The truth as it was at every scrape: late counts may join what is published already."""

    _versions: dict[str, list[tuple[int, Rows]]] = field(default_factory=dict)
    _holes: list[tuple[int, Holes]] = field(default_factory=list)

    def note(self, engine: sa.Engine, at: int) -> None:
        """Look at the store, after a page was fetched."""
        self._holes.append((at, _read_holes(engine)))
        for kind, grain in GRAINS.items():
            with engine.connect() as connection:
                rows = [tuple(r) for r in connection.execute(sa.text(_QUERY), {"grain": grain})]
            versions = self._versions.setdefault(kind, [])
            if versions and not _changed(versions[-1][1], rows):
                versions[-1] = versions[-1][0], rows
            else:
                versions.append((at, rows))

    def spans(
        self, group_by: tuple[str, ...], kind: str, start: int, end: int, at: int
    ) -> tuple[tuple[int, int], ...]:
        """What a window really holds: blocks that are never published are missing in it.

        The attacker is told: subtracting the slices from the total soon tells as much.
        """
        holes = next((known for since, known in reversed(self._holes) if since <= at), {})
        found = []
        for first, last in holes.get((group_by, kind), ()):
            if start <= first and last <= end:
                found.append((start, first))
                start = last
        return tuple(span for span in (*found, (start, end)) if span[0] < span[1])

    def of(self, kind: str, cube: Cube, at: int) -> tuple[int, Truth]:
        """What was published at an instant, and from when on."""
        since, rows = max((v for v in self._versions[kind] if v[0] <= at), key=lambda v: v[0])
        return since, _truth(kind, cube, rows)


def _read_holes(engine: sa.Engine) -> Holes:
    query = "SELECT family, labels, at, burned FROM release_edge ORDER BY family, labels, at"
    with engine.connect() as connection:
        rows = connection.execute(sa.text(query)).all()
    holes: Holes = {}
    for before, edge in pairwise(rows):
        if edge.burned and (before.family, before.labels) == (edge.family, edge.labels):
            name = edge.family.partition("/")[2]
            key = tuple(name.split("+")) if name else (), LABELLED if edge.labels else DECISIONS
            holes.setdefault(key, []).append((before.at, edge.at))
    return holes


def _changed(before: Rows, now: Rows) -> bool:
    """Whether anything changed but that panes were added at the end."""
    newest = max((row[0] for row in before), default=0)
    return set(before) != {row for row in now if row[0] <= newest}


def _truth(kind: str, cube: Cube, rows: Rows) -> Truth:
    grain = GRAINS[kind]
    found: list[tuple[int, int, int, int]] = []
    places: dict[str, int] = {}
    for pane, text, stratum, n, labelled, ready in rows:
        atom = places.setdefault(text, cube.place(parse_slice(text)))
        route = (stratum >> 11) & 3
        if kind == DECISIONS:
            found.append((pane * grain, atom, route, n))
        elif route != BLOCKED:
            base = {AUTO: 0, REVIEW: 2}[route]
            found.append((pane * grain, atom, base, labelled - ready))
            found.append((pane * grain, atom, base + 1, ready))
    return Truth(*np.array(found, np.int64).reshape(-1, 4).T)
