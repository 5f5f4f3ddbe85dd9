"""Linear programs over everything published: how small and how large can a hidden cell be?

Unknowns are the counts of every atom in every elementary period, cut at all edges of the spans
that are used. Cumulative sums by row of a group-by keep the constraints sparse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
from adversary.numbers import SMALLEST, STATES, Bound, K, bounds_of, word_bounds
from adversary.pages import Publication, parse_slice
from adversary.worlds import MISSING, OTHER
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
PATIENCE = 20
"""Seconds for one end of an interval: a few large programs take minutes."""

LARGEST = 1e5
"""No count of a test is larger: a program without bounds is harder to solve."""

Spans = tuple[tuple[int, int], ...]
Kept = dict[str, frozenset[str]]


@dataclass(frozen=True)
class Cube:
    """The atoms an attacker reckons with: all listed values, and one for everything else."""

    names: tuple[str, ...]
    atoms: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, attributes: dict[str, tuple[str, ...]], seen: Iterable[Publication]) -> Cube:
        """All listed values, ``__other__``, and ``__missing__`` where it has a row of its own."""
        own = {
            (n, v)
            for p in seen
            for text, row in p.rows.items()
            if row
            for n, v in parse_slice(text).items()
        }
        values = [
            (*listed, OTHER, *((MISSING,) if (name, MISSING) in own else ()))
            for name, listed in attributes.items()
        ]
        return cls(tuple(attributes), tuple(product(*values)))

    def place(self, values: dict[str, str]) -> int:
        """Index of the atom that a decision with these values is in."""
        found = [values.get(name, MISSING) for name in self.names]
        known = [{atom[i] for atom in self.atoms} for i in range(len(self.names))]
        return self.atoms.index(
            tuple(v if v in k else OTHER for v, k in zip(found, known, strict=True))
        )

    def mask(self, text: str, kept: Kept) -> Bools:
        """The atoms of a slice, where all but the kept values are in the other one."""
        wanted = parse_slice(text)
        return np.array(
            [_inside(dict(zip(self.names, a, strict=True)), wanted, kept) for a in self.atoms], bool
        )


def _inside(atom: dict[str, str], wanted: dict[str, str], kept: Kept) -> bool:
    return all(
        (atom[name] if atom[name] in kept.get(name, ()) else OTHER) == value
        for name, value in wanted.items()
    )


def kept_values(publications: Iterable[Publication]) -> dict[tuple[tuple[str, ...], object], Kept]:
    """By group-by and epoch, the values that were ever shown: the others are pooled."""
    seen: dict[tuple[tuple[str, ...], object], dict[str, set[str]]] = {}
    for publication in publications:
        values = seen.setdefault((publication.group_by, publication.epoch), {})
        for text, row in publication.rows.items():
            for name, value in parse_slice(text).items() if row else ():
                values.setdefault(name, set()).add(value)
    return {key: {n: frozenset(v) for n, v in value.items()} for key, value in seen.items()}


@dataclass(frozen=True)
class Fact:
    """A bound on one row over some spans, and where it was read."""

    spans: Spans
    mask: bytes
    bound: Bound
    source: Publication


def facts_of(
    publication: Publication, spans: Spans, cube: Cube, kept: Kept, *, exact: bool = False
) -> list[Fact]:
    """Everything a publication says of its rows, those without numbers included."""
    if not publication.shown:
        return []
    metrics = STATES[publication.kind]
    size = len(next(iter(metrics.values()))[0])
    found = []
    least = {
        t: max((n.get("support", 0) for n in r.values()), default=0)
        for t, r in publication.rows.items()
    }
    for text in row_texts(publication.group_by, kept):
        others = sum(least.values()) - least.get(text, 0)
        mask = cube.mask(text, kept).tobytes()
        row = publication.rows.get(text, {})
        told = [
            b
            for m, n in row.items()
            for b in bounds_of(publication.kind, m, n, exact=exact, others=others)
        ]
        told += word_bounds(publication, text, others, exact=exact)
        if not told and publication.kind == "decisions":
            told = [Bound(np.ones(size), 0, K - 1 if exact else SMALLEST - 1)]
        found += [Fact(spans, mask, b, publication) for b in told]
    return found


def row_texts(group_by: Sequence[str], kept: Kept) -> list[str]:
    """All slices of a group-by, with or without numbers."""
    names = sorted(group_by)
    if not names:
        return [""]
    rows = product(*(sorted({*kept.get(name, ()), OTHER}) for name in names))
    return [",".join(f"{n}={v}" for n, v in zip(names, r, strict=True)) for r in rows]


class Model:
    """One linear program: facts in, intervals of hidden sums out."""

    def __init__(self, cube: Cube, size: int, facts: Sequence[Fact]) -> None:
        self.cube, self.size, self.facts = cube, size, facts
        self.cuts = sorted({t for fact in facts for span in fact.spans for t in span})
        self.masks = sorted({f.mask for f in facts} | {np.ones(len(cube.atoms), bool).tobytes()})
        self._place = {at: i for i, at in enumerate(self.cuts)}
        self._row = {mask: i for i, mask in enumerate(self.masks)}
        self._all = self._row[np.ones(len(cube.atoms), bool).tobytes()]
        self.periods = len(self.cuts) - 1
        self._cells = self.periods * len(cube.atoms) * size
        self._equal, self._upper, self._right = self._matrices()

    @property
    def variables(self) -> int:
        return self._cells + (self.periods + 1) * len(self.masks) * self.size

    def _sum(self, cut: int, row: int, state: int) -> int:
        """Variable: the row's count up to a cut."""
        return self._cells + (cut * len(self.masks) + row) * self.size + state

    def _matrices(self) -> tuple[sparse.csr_array, sparse.csr_array, npt.NDArray[np.float64]]:
        equal = _Rows()
        atoms = len(self.cube.atoms)
        for row, mask in enumerate(self.masks):
            inside = np.flatnonzero(np.frombuffer(mask, bool))
            for state in range(self.size):
                equal.add([self._sum(0, row, state)], [1])
                for p in range(self.periods):
                    cells = (p * atoms + inside) * self.size + state
                    ends = [self._sum(p + 1, row, state), self._sum(p, row, state)]
                    equal.add([*ends, *cells.tolist()], [1, -1, *[-1] * len(inside)])
        upper, right = _Rows(), []
        for fact in self.facts:
            columns, weights = self._span(fact)
            if np.isfinite(fact.bound.high):
                upper.add(columns, weights)
                right.append(fact.bound.high)
            if np.isfinite(fact.bound.low):
                upper.add(columns, [-w for w in weights])
                right.append(-fact.bound.low)
        return (equal.matrix(self.variables), upper.matrix(self.variables), np.array(right, float))

    def _span(self, fact: Fact) -> tuple[list[int], list[float]]:
        """Columns and weights of a fact; ``others`` is the whole less the row."""
        sums = [(self._row[fact.mask], -1 if fact.bound.others else 1)]
        if fact.bound.others:
            sums.append((self._all, 1))
        found = [
            (self._sum(self._place[cut], row, state), sign * side * weight)
            for row, sign in sums
            for start, end in fact.spans
            for cut, side in ((end, 1), (start, -1))
            for state, weight in enumerate(fact.bound.weights.tolist())
            if weight
        ]
        return [column for column, _ in found], [weight for _, weight in found]

    def interval(self, start: int, end: int, inside: Bools, states: Bools) -> tuple[float, float]:
        """Smallest and largest sum that agrees with every fact."""
        objective = self._objective(start, end, inside, states)
        return tuple(self._end(sign * objective) * sign for sign in (1, -1))  # type: ignore[return-value]

    def _objective(
        self, start: int, end: int, inside: Bools, states: Bools
    ) -> npt.NDArray[np.float64]:
        target = np.zeros((self.periods, len(self.cube.atoms), self.size))
        target[self._place[start] : self._place[end]] = inside[:, None] & states
        objective = np.zeros(self.variables)
        objective[: self._cells] = target.ravel()
        return objective

    def whole_interval(
        self, start: int, end: int, inside: Bools, states: Bools, seconds: float = 2
    ) -> tuple[float, float]:
        """The same where all counts are whole numbers: harder, and narrower."""
        objective = self._objective(start, end, inside, states)
        ends = (self._whole_end(sign * objective, seconds) * sign for sign in (1, -1))
        return tuple(ends)  # type: ignore[return-value]

    def _whole_end(self, objective: npt.NDArray[np.float64], seconds: float) -> float:
        """What is proved of the end within some seconds."""
        whole = np.zeros(self.variables)
        whole[: self._cells] = 1
        solved = milp(
            objective,
            integrality=whole,
            bounds=Bounds(0, LARGEST),
            constraints=[
                LinearConstraint(self._upper, -np.inf, self._right),
                LinearConstraint(self._equal, 0, 0),
            ],
            options={"time_limit": seconds, "mip_rel_gap": 0},
        )
        proved = solved.mip_dual_bound
        return -np.inf if proved is None else float(proved)

    def _end(self, objective: npt.NDArray[np.float64]) -> float:
        solved = linprog(
            objective,
            A_ub=self._upper,
            b_ub=self._right,
            A_eq=self._equal,
            b_eq=np.zeros(self._equal.shape[0]),
            bounds=(0, LARGEST),
            method="highs",
            options={"time_limit": PATIENCE},
        )
        if solved.status in (1, 4):  # the solver gives up: nothing is proved
            return -np.inf
        assert solved.status == 0, solved.message
        return float(solved.fun)


class _Rows:
    """A sparse matrix, row by row."""

    def __init__(self) -> None:
        self._columns: list[int] = []
        self._weights: list[float] = []
        self._starts = [0]

    def add(self, columns: Sequence[int], weights: Sequence[float]) -> None:
        self._columns += columns
        self._weights += weights
        self._starts.append(len(self._columns))

    def matrix(self, width: int) -> sparse.csr_array:
        shape = (len(self._starts) - 1, width)
        return sparse.csr_array((self._weights, self._columns, self._starts), shape=shape)


def tighter_than_k(low: float, high: float, k: int = K) -> bool:
    """Whether an interval proves a cell to be below k and holds fewer than k whole numbers."""
    first, last = np.ceil(low - 1e-6), np.floor(high + 1e-6)
    return bool(last < k and last - first + 1 < k)
