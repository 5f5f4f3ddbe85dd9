"""Worlds with a planted cause: a router with stages, and one or two slices that it treats worse.

Requests come from atoms of two or three attributes. Whatever is planted, atoms differ a little all
the time (their readiness, scores and evidence), so that no two slices have the same rates, yet no
gap is near the limit. Human review is labelled completely, and of auto_serve a few per cent.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, count, product
from statistics import NormalDist

import numpy as np
from fleet_cells import contract, limits

from monitor.core.contract import Contract, GroupBy
from monitor.core.counts.cells import (
    COUNTERS,
    Counter,
    Counts,
    Int64s,
    Route,
    Stratum,
    atom_text,
    content_id,
    parse_atom,
)
from monitor.core.counts.coding import Attribute, Coding
from monitor.core.counts.rollup import CellIndex
from monitor.core.intervals import Floats
from monitor.core.metric import Metric

HOURS = 24
START = 20_605 * HOURS
"""A midnight."""

EDGES = (0.6, 0.7, 0.8, 0.9)
SERVE = np.array([0.02, 0.10, 0.88, 0.92, 0.98])
STRICTER = np.array([0.02, 0.05, 0.05, 0.92, 0.98])
"""P(auto_serve | score band), with the threshold at 0.7 and at 0.8."""

JUDGED = {True: 0.82, False: 0.54}
"""Mean score of ready requests and of the others."""

_SPREAD = 0.12
_HARD = -0.13  # hard requests have lower scores


class Fault(enum.StrEnum):
    """What goes wrong in a slice."""

    THRESHOLD = "threshold"  # TPR down by .23
    JUDGE = "judge"  # TPR down by .22
    EVIDENCE = "evidence"  # blocked up by .22
    MIX = "mix"  # nine of ten requests are hard, not one in seven: TPR down by .23

    @property
    def metric(self) -> Metric:
        """The metric that it moves."""
        return Metric.BLOCKED if self is Fault.EVIDENCE else Metric.TPR


@dataclass(frozen=True)
class CauseWorld:
    """A stream of hourly cohorts with a fault in some slices from some hour on.

    Attributes:
        values: of each attribute, with the share of its traffic.
        daily: decisions.
        audit: share of auto_serve that is labelled.
        fault: what goes wrong.
        planted: the slices it goes wrong in.
        onset: hour, from 0.
        seed: of everything that is drawn.
        hidden: whether an attribute that no group-by knows tells hard requests from easy ones.
    """

    values: Mapping[str, Mapping[str, float]]
    daily: float
    audit: float
    fault: Fault
    planted: tuple[str, ...]
    onset: int
    seed: tuple[int, ...]
    metric: Metric = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", self.fault.metric)

    @property
    def hidden(self) -> bool:
        """Whether an attribute that no group-by knows tells hard requests from easy ones."""
        return self.fault is Fault.MIX

    @cached_property
    def coding(self) -> Coding:
        """What the cells mean."""
        listed = {name: tuple(shares) for name, shares in self.values.items()}
        if self.hidden:
            listed["topic"] = ("easy", "hard")
        attributes = tuple(Attribute(name, listed[name]) for name in sorted(listed))
        return Coding(attributes, EDGES, (1.0, self.audit))

    @cached_property
    def contract(self) -> Contract:
        """All attributes, pairs and triples of them, against their complements."""
        names = sorted(self.values)
        subsets = (c for n in range(1, len(names) + 1) for c in combinations(names, n))
        blocked = limits().max_blocked_gap if self.metric is Metric.BLOCKED else None
        return contract(*map(GroupBy, subsets), of=replace(limits(), max_blocked_gap=blocked))

    @cached_property
    def atoms(self) -> tuple[str, ...]:
        """Without the hidden attribute."""
        names = sorted(self.values)
        choices = product(*(self.values[name] for name in names))
        return tuple(atom_text(dict(zip(names, c, strict=True))) for c in choices)

    @cached_property
    def shares(self) -> Floats:
        """Of the traffic, by atom."""
        found = [
            np.prod([self.values[name][value] for name, value in parse_atom(atom).items()])
            for atom in self.atoms
        ]
        return np.array(found)

    def inside(self, slice_: str) -> np.ndarray:
        """Which atoms are in a slice."""
        wanted = parse_atom(slice_).items()
        return np.array([wanted <= parse_atom(atom).items() for atom in self.atoms])

    @cached_property
    def index(self) -> CellIndex:
        """What the cell ids mean."""
        order = np.argsort(self._ids)
        per_atom = len(self._strata)
        texts = {content_id(text): text for text in self._texts}
        atoms = np.repeat(np.array([content_id(text) for text in self._texts]), per_atom)
        strata = np.tile(self._strata, len(self._texts))
        return CellIndex(self._ids[order], atoms[order], strata[order], texts)

    def cohorts(self, hours: int = 1) -> Iterator[Counts]:
        """The decisions of so many hours after another, without end; the same draws each time."""
        rng = np.random.default_rng(self.seed)
        before, after = self._means(rng)
        for hour in count(0, hours):
            yield self._counts(rng.poisson(hours * (after if hour >= self.onset else before)))

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        if not self.hidden:
            return self.atoms
        return tuple(f"{atom},topic={topic}" for atom in self.atoms for topic in ("easy", "hard"))

    @cached_property
    def _strata(self) -> Int64s:
        auto = [Stratum(Route.AUTO_SERVE, band, 1).code for band in range(len(SERVE))]
        review = [Stratum(Route.HUMAN_REVIEW, band, 0).code for band in range(len(SERVE))]
        blocked = Stratum(Route.BLOCKED_BY_EVIDENCE, 0, 0, evidence_passed=False).code
        return np.array([*auto, *review, blocked], np.int64)

    @cached_property
    def _ids(self) -> Int64s:
        cells = product(self._texts, self._strata.tolist())
        return np.array([content_id(f"{text}|{stratum}") for text, stratum in cells], np.int64)

    def _means(self, rng: np.random.Generator) -> list[Floats]:
        """Hourly means before and after, (atom, stratum, ready, labelled)."""
        usual = {
            "ready": 0.6 + self._differences(rng, 0.05),
            "score": self._differences(rng, 0.010),
            "gate": 0.95 + self._differences(rng, 0.012),
        }
        bad = np.any([self.inside(text) for text in self.planted], axis=0)
        before = self._cells(usual, np.zeros(len(bad), bool))
        return [before, self._cells(usual, bad)]

    def _differences(self, rng: np.random.Generator, size: float) -> Floats:
        """Between atoms: a part of every attribute value's own, and one of the atom's."""
        total = rng.uniform(-size, size, len(self.atoms))
        for name, shares in self.values.items():
            for value in shares:
                total += self.inside(f"{name}={value}") * rng.uniform(-size, size)
        return total

    def _cells(self, usual: Mapping[str, Floats], bad: np.ndarray) -> Floats:
        faulty = {fault: bad & (self.fault is fault) for fault in Fault}
        gate = usual["gate"] - 0.22 * faulty[Fault.EVIDENCE]
        score = usual["score"] - 0.09 * faulty[Fault.JUDGE]
        serve = np.where(faulty[Fault.THRESHOLD][:, None], STRICTER, SERVE)
        ready, hourly = usual["ready"], self.shares * self.daily / HOURS
        if self.hidden:
            hard = np.where(faulty[Fault.MIX], 0.9, 0.15)
            hourly = (hourly[:, None] * np.stack([1 - hard, hard], axis=1)).ravel()
            score = (score[:, None] + np.array([0.02, 0.02 + _HARD])).ravel()
            gate, ready = np.repeat(gate, 2), np.repeat(ready, 2)
            serve = np.repeat(serve, 2, axis=0)
        cells = np.zeros((len(hourly), len(self._strata), 2, 2))
        bands = len(SERVE)
        for is_ready in (False, True):
            share = (ready if is_ready else 1 - ready) * gate * hourly
            scored = share[:, None] * _bands(JUDGED[is_ready] + score)
            auto, review = scored * serve, scored * (1 - serve)
            for labelled, part in ((0, 1 - self.audit), (1, self.audit)):
                cells[:, :bands, int(is_ready), labelled] = auto * part
            cells[:, bands:-1, int(is_ready), 1] = review
        cells[:, -1, 0, 0] = hourly * (1 - gate)
        return cells

    def _counts(self, drawn: Int64s) -> Counts:
        values = np.zeros((*drawn.shape[:2], COUNTERS), np.int64)
        values[..., Counter.N] = drawn.sum(axis=(2, 3))
        values[..., Counter.LABELLED] = drawn[..., 1].sum(axis=2)
        values[..., Counter.READY] = drawn[:, :, 1, 1]
        rows = values.reshape(-1, COUNTERS)
        some = rows.any(axis=1)
        return Counts.from_rows(self._ids[some], rows[some])


def _bands(mean: Floats) -> Floats:
    """P(band) of normal scores with these means, shape (atoms, bands)."""
    below = np.vectorize(NormalDist(0, _SPREAD).cdf)(np.array(EDGES) - mean[:, None])
    ends = np.ones((len(mean), 1))
    return np.diff(np.concatenate([0 * ends, below, ends], axis=1), axis=1)


TWO_BY_THREE = {
    "channel": {"chat": 0.5, "email": 0.3, "voice": 0.2},
    "variety": {"a": 0.4, "b": 0.6},
}
TWO_BY_FOUR = {
    "channel": {"chat": 0.35, "email": 0.25, "sms": 0.2, "voice": 0.2},
    "variety": {"a": 0.45, "b": 0.55},
}
THREE = {"device": {"mobile": 0.6, "web": 0.4}, **TWO_BY_THREE}
DAILY = (480.0, 1000.0, 2000.0)
AUDITS = (0.05, 0.10)

SMALLEST_DAILY = 60.0
"""Decisions a day of the smallest slice that anything is planted in: below it no page comes within
weeks."""


def slices_of(values: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> dict[str, float]:
    """The slices of a group-by, with the share of their traffic."""
    return {
        atom_text(dict(zip(names, choice, strict=True))): float(
            np.prod([values[name][value] for name, value in zip(names, choice, strict=True)])
        )
        for choice in product(*(values[name] for name in names))
    }


class Planted(enum.StrEnum):
    """The worlds of the benchmark."""

    INTERSECTION = "one intersection"
    ATTRIBUTE = "one whole attribute value"
    TWO = "two independent causes"
    MIX_SHIFT = "mix shift"
    EVIDENCE = "evidence gate of one slice"
    JUDGE = "judge shift of one slice"
    THRESHOLD = "threshold change of one slice"
    THREE_ATTRIBUTES = "one slice of three attributes"


_FAULTS = {
    Planted.MIX_SHIFT: Fault.MIX,
    Planted.EVIDENCE: Fault.EVIDENCE,
    Planted.JUDGE: Fault.JUDGE,
}


def planted_world(kind: Planted, seed: int) -> CauseWorld:
    """The world of one seed: attributes, traffic, audits, slices and onset vary with it."""
    rng = np.random.default_rng((seed, list(Planted).index(kind)))
    values = (TWO_BY_THREE, TWO_BY_FOUR)[seed % 2]
    if kind is Planted.THREE_ATTRIBUTES:
        values = THREE
    daily = DAILY[seed % 3] if kind is not Planted.THREE_ATTRIBUTES else DAILY[2]
    planted = _planted(kind, values, daily, rng)
    return CauseWorld(
        values,
        daily,
        AUDITS[seed // 3 % 2],
        _FAULTS.get(kind, Fault.THRESHOLD),
        planted,
        onset=5 * HOURS + int(rng.integers(HOURS)),
        seed=(seed, list(Planted).index(kind), 1),
    )


def _planted(
    kind: Planted, values: Mapping[str, Mapping[str, float]], daily: float, rng: np.random.Generator
) -> tuple[str, ...]:
    names = sorted(values)
    depths = {
        Planted.INTERSECTION: (2,),
        Planted.TWO: (2,),
        Planted.ATTRIBUTE: (1,),
        Planted.THREE_ATTRIBUTES: (1, 2, 3),
    }.get(kind, (1, 2))
    depth = int(rng.choice(depths))
    chosen = sorted(rng.choice(names, depth, replace=False).tolist())
    enough = [
        s for s, share in slices_of(values, chosen).items() if share * daily >= SMALLEST_DAILY
    ]
    if kind is not Planted.TWO:
        return (str(rng.choice(enough)),)
    apart = [pair for pair in combinations(sorted(enough), 2) if not _common(*pair)]
    return apart[rng.integers(len(apart))]


def _common(one: str, other: str) -> bool:
    return bool(parse_atom(one).items() & parse_atom(other).items())
