"""An attacker who is told the exact sum of every row in everything that was published.

That is more than any reader is shown: labels by route (or decisions, or corrected labels) of every
block of every group-by, and of the rest that is in a week's Release, each time that one looked.
What was never published by itself is bounded by linear programs over all of these sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from adversary.model import tighter_than_k
from adversary.worlds import AUTO, BLOCKED, HOUR, REVIEW, Ints
from releasing import K, Kept, Releasing, Row, released, row_of
from scipy.optimize import linprog
from scipy.sparse import csr_array

from monitor.core.time import WEEK

ROUTES = (AUTO, REVIEW)


@dataclass(frozen=True)
class Kind:
    """What is counted.

    Attributes:
        count: of a row of the store.
        routes: counted apart; else the first of them stands for all.
        apart: whether each route is.
    """

    count: Callable[[Row], int]
    routes: tuple[int, ...] = ROUTES
    apart: bool = True

    @property
    def columns(self) -> int:
        return len(self.routes) if self.apart else 1

    def column(self, route: int) -> int:
        return self.routes.index(route) if self.apart else 0


LABELS = Kind(lambda row: row.labels)
CORRECTED = Kind(lambda row: row.revised)
DECISIONS = Kind(lambda row: row.decisions, (AUTO, REVIEW, BLOCKED), apart=False)
Atom = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Sum:
    """A published sum: of one row and route in some places, as they were at a look."""

    atoms: tuple[int, ...]
    route: int
    places: tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """Spans of event time that a table of a family is made of, of decisions or of labels."""

    family: str
    labels: bool
    spans: tuple[tuple[int, int], ...]


def hourly_blocks(kept: Kept, family: str, *, labels: bool) -> list[tuple[int, int]]:
    """Blocks that may be published; those that end off the hour are taken together."""
    edges = kept.edges.get((family, labels), {})
    hours = [at for at in sorted(edges) if at % HOUR == 0]
    burned = [at for at, lost in edges.items() if lost]
    return [(a, b) for a, b in pairwise(hours) if not any(a < at <= b for at in burned)]


@dataclass(frozen=True)
class Rows:
    """A group-by as it was pooled at a look."""

    family: str
    names: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass
class Known:
    """What the attacker has seen.

    A place is what came into the release at one time: of one hour, or of the rest of one week.

    Attributes:
        atoms: all values of decisions.
        kind: what is counted.
        rows: every group-by, by every map that it had.
    """

    atoms: list[Atom]
    kind: Kind = LABELS
    rows: set[Rows] = field(default_factory=set)
    _counts: list[Ints] = field(default_factory=list)
    _of: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    _told: set[int] = field(default_factory=set)
    _sums: set[Sum] = field(default_factory=set)
    _late: list[int] = field(default_factory=list)
    _gone: set[tuple[int, ...]] = field(default_factory=set)

    def look(
        self,
        site: Releasing,
        resting: Mapping[int, Collection[str]],
        windows: Collection[Window] = (),
    ) -> None:
        """See everything that is published now.

        Args:
            site: the store.
            resting: by the pane of a week, the families whose tables have its rest.
            windows: what tables were made of since the last look.
        """
        kept = site.kept()
        for grain in (HOUR, WEEK):
            self._read(site, grain)
        for labels, maps in ((True, kept.label_maps), (False, kept.maps)):
            if labels is (self.kind is DECISIONS):
                continue
            for family, names in maps.items():
                one = Rows(family, tuple(sorted(names.items())))
                self.rows.add(one)
                self._tell_spans(one, hourly_blocks(kept, family, labels=labels))
                for window in windows:
                    if (window.family, window.labels) == (family, labels):
                        self._tell_window(one, window.spans)
                for pane, families in resting.items():
                    if family in families:
                        self._tell(one, self._of[WEEK, pane * WEEK])

    def _tell_spans(self, rows: Rows, spans: Collection[tuple[int, int]]) -> None:
        for start, end in spans:
            self._tell(rows, self._places(start, end))

    def _tell_window(self, rows: Rows, spans: Collection[tuple[int, int]]) -> None:
        if all(at % HOUR == 0 for span in spans for at in span):
            self._tell(rows, [place for span in spans for place in self._places(*span)])

    def _places(self, start: int, end: int) -> list[int]:
        hours = ((HOUR, at) for at in range(start, end, HOUR))
        return [place for key in hours for place in self._of.get(key, ())]

    def _read(self, site: Releasing, grain: int) -> None:
        shape = len(self.atoms), self.kind.columns
        now: dict[int, Ints] = defaultdict(lambda: np.zeros(shape, np.int64))
        for row in released(site.engine, grain):
            if row.route in self.kind.routes:
                at = self.atoms.index(tuple(sorted(row.atom.items())))
                now[row.start][at, self.kind.column(row.route)] += self.kind.count(row)
        self._forget({key for key in self._of if key[0] == grain and key[1] not in now})
        for start, counts in now.items():
            places = self._of[grain, start]
            if places and places[-1] not in self._told:
                self._counts[places.pop()] *= 0  # nobody has seen it as it was
            before = sum((self._counts[place] for place in places), np.zeros_like(counts))
            if not places or (counts != before).any():
                self._late += [len(self._counts)] * bool(places)
                places.append(len(self._counts))
                self._counts.append(counts - before)

    def _forget(self, deleted: set[tuple[int, int]]) -> None:
        """What is left of a sum that was told, and its difference, could be told next."""
        gone = {place for key in deleted for place in self._of.pop(key)}
        for one in self._sums:
            away = tuple(place for place in one.places if place in gone)
            if away and len(away) < len(one.places):
                self._gone.add(away)

    def _tell(self, rows: Rows, places: list[int]) -> None:
        self._told.update(places)
        for atoms in self._atoms_of(rows):
            for route in range(self.kind.columns):
                self._sums.add(Sum(atoms, route, tuple(places)))

    def _atoms_of(self, rows: Rows) -> Iterator[tuple[int, ...]]:
        found: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for number, atom in enumerate(self.atoms):
            found[row_of(dict(rows.names), dict(atom))].append(number)
        yield from (tuple(some) for some in found.values())

    def hidden(self) -> int:
        """How many sums of 1 to k - 1 came late, or with a rest."""
        return len(self._targets())

    def leaks(self, most: int = 10) -> list[str]:
        """Those of them that are known too closely."""
        program = _Program.of(sorted(self._sums, key=repr), self._counts)
        return list(self._known(program, sorted(self._targets(), key=repr)[:most]))

    def leaks_of(self, atoms: tuple[int, ...]) -> list[str]:
        """Small sums of some atoms that are known too closely, in what was always told together."""
        program = _Program.of(sorted(self._sums, key=repr), self._counts)
        together: dict[int, list[int]] = defaultdict(list)
        for place, unknown in program.unknowns.items():
            together[unknown].append(place)
        every = (
            Sum(atoms, route, tuple(sorted(places)))
            for places in together.values()
            for route in range(self.kind.columns)
        )
        return list(self._known(program, [one for one in every if 0 < self._sum(one) < K]))

    def _known(self, program: _Program, targets: Iterable[Sum]) -> Iterator[str]:
        for target in targets:
            low, high = program.interval(target)
            truth = self._sum(target)
            assert low - 1e-6 <= truth <= high + 1e-6
            if tighter_than_k(low, high):
                names = [dict(self.atoms[atom]) for atom in target.atoms]
                yield f"{names} {target}: {truth} is {low:.2f} to {high:.2f}"

    def _targets(self) -> set[Sum]:
        every = (
            Sum(atoms, route, places)
            for rows in self.rows
            for atoms in self._atoms_of(rows)
            for route in range(self.kind.columns)
            for places in self._apart()
        )
        return {one for one in every if 0 < self._sum(one) < K}

    def _apart(self) -> Iterator[tuple[int, ...]]:
        """Rests, what joined an hour after it was published, what was deleted of a sum."""
        yield from (tuple(places) for (grain, _), places in self._of.items() if grain == WEEK)
        yield from ((place,) for place in self._late)
        yield from self._gone

    def _sum(self, one: Sum) -> int:
        places = (self._counts[place] for place in one.places)
        return int(sum(counts[list(one.atoms), one.route].sum() for counts in places))


@dataclass
class _Program:
    """The linear program: places that are always told together are one unknown."""

    unknowns: dict[int, int]
    atoms: int
    routes: int
    matrix: csr_array
    truth: npt.NDArray[np.float64]

    @classmethod
    def of(cls, sums: list[Sum], counts: list[Ints]) -> _Program:
        """From every sum that was told."""
        told_in: dict[int, list[int]] = defaultdict(list)
        spans = {one.places: number for number, one in enumerate(sums)}
        for places, number in spans.items():
            for place in places:
                told_in[place].append(number)
        alike: dict[tuple[int, ...], int] = {}
        unknowns = {p: alike.setdefault(tuple(told), len(alike)) for p, told in told_in.items()}
        atoms, routes = counts[0].shape
        made = cls(unknowns, atoms, routes, csr_array((0, 0)), np.zeros(0))
        rows = [made.columns(one) for one in sums]
        indices = np.concatenate(rows)
        starts = np.append(0, np.cumsum([len(row) for row in rows]))
        width = len(alike) * made.atoms * made.routes
        made.matrix = csr_array((np.ones(len(indices)), indices, starts), shape=(len(sums), width))
        made.truth = np.array(
            [sum(counts[p][list(s.atoms), s.route].sum() for p in s.places) for s in sums], float
        )
        return made

    def columns(self, one: Sum) -> Ints:
        """Unknowns that a sum is of."""
        parts = sorted({self.unknowns[place] for place in one.places if place in self.unknowns})
        at = np.array(parts, np.int64)[:, None] * self.atoms + np.array(one.atoms)
        return np.asarray(at.ravel() * self.routes + one.route, np.int64)

    def interval(self, target: Sum) -> tuple[float, float]:
        """Smallest and largest value that agrees with every sum; unbounded where none is of it."""
        if any(place not in self.unknowns for place in target.places):
            return 0, np.inf
        objective = np.zeros(self.matrix.shape[1])
        objective[self.columns(target)] = 1
        ends = []
        for sign in (1, -1):
            solved = linprog(sign * objective, A_eq=self.matrix, b_eq=self.truth, method="highs")
            assert solved.status in (0, 3), solved.message
            ends.append(sign * solved.fun if solved.status == 0 else np.inf)
        parts = {self.unknowns[place] for place in target.places}
        whole = {p for p, part in self.unknowns.items() if part in parts} == {*target.places}
        return float(ends[0]) if whole else 0, float(ends[1])
