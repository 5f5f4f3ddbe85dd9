"""Random cubes of decisions and labels over simulated time: what the service is fed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
START = 1_780_272_000 * SECOND  # Monday, 1 June 2026, 00:00 UTC

OTHER, MISSING = "__other__", "__missing__"
ROUTES = ("auto_serve", "human_review", "blocked_by_evidence")
AUTO, REVIEW, BLOCKED = range(3)
AUDIT_RATES = (1.0, 0.5, 0.25, 0.05)
BANDS = 3


@dataclass(frozen=True)
class Shape:
    """What kind of cube.

    Attributes:
        values: number of listed values of each attribute.
        days: simulated time.
        busy: decisions a day of the largest atoms.
        audit: index of the audit rate of auto_serve; 0 labels everything.
        delay: mean hours from a decision to its label.
        strays: decisions a day with a value nobody listed.
        late: share of decisions that come after the watermark has passed them.
        skew: how unequal the values are; 0 is equal.
        scoreless: share of decisions without a score, a score band of their own.
    """

    values: tuple[int, ...] = (2, 3)
    days: float = 3
    busy: float = 200
    audit: int = 0
    delay: float = 2
    strays: float = 3
    late: float = 0.002
    skew: float = 1
    scoreless: float = 0.02


@dataclass(frozen=True)
class World:
    """All decisions and labels, by column.

    Attributes:
        seed: of everything random.
        shape: what it was made from.
        attributes: listed values by name.
        atoms: values of every atom that occurs, in the order of the names.
        at: event time of each decision, increasing.
        arrives: when it is read.
        atom: index into ``atoms``.
        route: index into ``ROUTES``.
        band: index of the score band.
        rate: index of the audit rate.
        asked: whether a label is requested.
        version: 0, or 1 after the versions changed.
        says: decision of each label event.
        said_at: when it is read.
        labelled: 1 for a first label, 0 for a correction.
        ready: what it adds to the labels that say ready.
    """

    seed: int
    shape: Shape
    attributes: dict[str, tuple[str, ...]]
    atoms: tuple[tuple[str, ...], ...]
    at: Ints
    arrives: Ints
    atom: Ints
    route: Ints
    band: Ints
    rate: Ints
    asked: Ints
    version: Ints
    says: Ints
    said_at: Ints
    labelled: Ints
    ready: Ints

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.attributes)

    @property
    def end(self) -> int:
        return START + int(self.shape.days * DAY)

    @property
    def group_bys(self) -> tuple[tuple[str, ...], ...]:
        """All of one attribute, and all of two."""
        names = self.names
        pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
        return (*((name,) for name in names), *pairs)


def make_world(seed: int, shape: Shape) -> World:
    """The world of a seed."""
    rng = np.random.default_rng([seed, 2])
    names = "abc"[: len(shape.values)]
    attributes = {
        n: tuple(f"{n}{i}" for i in range(m)) for n, m in zip(names, shape.values, strict=True)
    }
    atoms, flow = _atoms(rng, shape, attributes)
    count = rng.poisson(flow * shape.days)
    atom = np.repeat(np.arange(len(atoms)), count)
    at = START + (_days(rng, shape.days, len(atom)) * DAY).astype(np.int64)
    order = np.argsort(at, kind="stable")
    at, atom = at[order], atom[order]
    route = _routes(rng, shape, atoms, attributes, atom)
    band = np.minimum(rng.integers(0, BANDS, size=len(at)) + (route == AUTO), BANDS - 1)
    band[rng.random(len(at)) < shape.scoreless] = BANDS
    rate = np.where(route == AUTO, shape.audit, 0)
    asked = (route != BLOCKED) & (rng.random(len(at)) < np.array(AUDIT_RATES)[rate])
    lateness = rng.integers(0, 30 * SECOND, size=len(at))
    lateness += np.where(rng.random(len(at)) < shape.late, rng.integers(0, 5 * HOUR, len(at)), 0)
    labels = _labels(rng, shape, at, band, asked)
    return World(
        seed,
        shape,
        attributes,
        atoms,
        at,
        at + lateness,
        atom,
        route,
        band,
        rate,
        asked.astype(np.int64),
        (at > START + 0.6 * shape.days * DAY).astype(np.int64),
        *labels,
    )


def _atoms(
    rng: np.random.Generator, shape: Shape, attributes: dict[str, tuple[str, ...]]
) -> tuple[tuple[tuple[str, ...], ...], npt.NDArray[np.float64]]:
    """Every combination of listed values with its decisions a day, and the strays."""
    atoms = list(product(*attributes.values()))
    weights = [np.exp(-shape.skew * rng.exponential(1, size=m)) for m in shape.values]
    flow = np.array([np.prod(w) for w in product(*weights)]) * rng.lognormal(0, 0.5, len(atoms))
    flow = np.clip(shape.busy * flow / flow.max(), 0.3, 200)
    flow[rng.random(len(flow)) < 0.05] = 0
    if shape.strays:
        stray = list(atoms[int(rng.integers(len(atoms)))])
        stray[int(rng.integers(len(stray)))] = str(rng.choice([OTHER, MISSING]))
        atoms.append(tuple(stray))
        flow = np.append(flow, shape.strays)
    return tuple(atoms), flow


def _days(rng: np.random.Generator, days: float, size: int) -> npt.NDArray[np.float64]:
    """Days since the start: evenly spread, or nearly none at night."""
    even = rng.random(size) * days
    return even if rng.random() < 0.5 else np.minimum(np.floor(even) + rng.beta(3, 3, size), days)


def _routes(
    rng: np.random.Generator,
    shape: Shape,
    atoms: Sequence[tuple[str, ...]],
    attributes: dict[str, tuple[str, ...]],
    atom: Ints,
) -> Ints:
    """Each atom's own mixture; some atoms always take one route."""
    p = rng.dirichlet([4, 2, 0.7], size=len(atoms))
    for i in np.flatnonzero(rng.random(len(atoms)) < 0.2).tolist():
        p[i] = np.eye(3)[rng.choice(3, p=[0.6, 0.3, 0.1])]
    draws = rng.random(len(atom))[:, None]
    return np.asarray((draws > np.cumsum(p, axis=1)[atom][:, :2]).sum(axis=1), np.int64)


def _labels(
    rng: np.random.Generator, shape: Shape, at: Ints, band: Ints, asked: npt.NDArray[np.bool_]
) -> tuple[Ints, Ints, Ints, Ints]:
    """First labels of nearly all that were asked for, and corrections of a few."""
    says = np.flatnonzero(asked & (rng.random(len(at)) < 0.99))
    said_at = at[says] + (rng.exponential(shape.delay, len(says)) * HOUR).astype(np.int64)
    ready = (rng.random(len(says)) < 0.3 + 0.25 * band[says]).astype(np.int64)
    wrong = np.flatnonzero(rng.random(len(says)) < 0.02)
    corrected = said_at[wrong] + (rng.exponential(6, len(wrong)) * HOUR).astype(np.int64)
    columns = (
        np.concatenate([says, says[wrong]]),
        np.concatenate([said_at, corrected]),
        np.concatenate([np.ones(len(says), np.int64), np.zeros(len(wrong), np.int64)]),
        np.concatenate([ready, 1 - 2 * ready[wrong]]),
    )
    order = np.argsort(columns[1], kind="stable")
    return tuple(c[order] for c in columns)  # type: ignore[return-value]
