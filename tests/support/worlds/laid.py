"""Worlds laid out by hand: how many decisions of what come when, and when their labels do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from adversary.worlds import AUTO, HOUR, MINUTE, START, Ints, World
from guarded import Given, world_of

Atom = tuple[str, ...]


@dataclass(frozen=True)
class Laid:
    """Some decisions alike, in hours since the start.

    Attributes:
        atom: values of the attributes.
        n: decisions.
        hour: first hour of them.
        hours: through which they are spread evenly.
        route: of all of them.
        arrive: hour in which they are read; None is at once.
        labelled: how many of them have a label.
        said: hour of their labels; None is two hours after each.
        corrected: hour in which all of these labels say the opposite; None is never.
        taken: hour in which all of these labels are taken back; None is never.
    """

    atom: Atom
    n: int
    hour: int
    hours: int = 1
    route: int = AUTO
    arrive: int | None = None
    labelled: int = 0
    said: int | None = None
    corrected: int | None = None
    taken: int | None = None

    @property
    def at(self) -> Ints:
        """When each is decided: evenly, but in no hour's first or last minute."""
        spread = (np.arange(self.n) * self.hours * HOUR) // max(self.n, 1)
        inside = spread // HOUR * HOUR + MINUTE + spread % HOUR * 29 // 30
        return np.asarray(START + self.hour * HOUR + inside, np.int64)


def laid_world(values: Mapping[str, tuple[str, ...]], days: int, parts: Sequence[Laid]) -> World:
    """The world of all parts; labels say ready in turn."""
    atoms = tuple(dict.fromkeys(part.atom for part in parts))
    at = np.concatenate([part.at for part in parts])
    route = _each(parts, [part.route for part in parts])
    atom = _each(parts, [atoms.index(part.atom) for part in parts])
    arrive = _each(parts, [-1 if part.arrive is None else part.arrive for part in parts])
    firsts = np.cumsum([0, *(part.n for part in parts)])
    place = np.empty(len(at), np.int64)
    order = np.argsort(at, kind="stable")
    place[order] = np.arange(len(at))
    told = [_labels(part, first) for part, first in zip(parts, firsts.tolist(), strict=False)]
    says, said_at, labelled, ready = np.concatenate(told, axis=1)
    asked = np.zeros(len(at), np.int64)
    asked[says] = 1
    by_time = np.argsort(said_at, kind="stable")
    given = Given(*(column[by_time] for column in (place[says], said_at, labelled, ready)))
    cells = (at[order], atom[order], route[order], np.zeros(len(at), np.int64), asked[order])
    made = world_of(values, atoms, days, cells, given)
    late = START + arrive[order] * HOUR
    return replace(made, arrives=np.where(arrive[order] < 0, made.arrives, late))


def _each(parts: Sequence[Laid], values: Sequence[int]) -> Ints:
    """The value of its part, for every decision."""
    return np.repeat(np.array(values, np.int64), [part.n for part in parts])


def _labels(part: Laid, first: int) -> Ints:
    """Decision, instant, change of labels and of ready ones, of each label event of a part."""
    chosen = np.arange(part.labelled) * part.n // max(part.labelled, 1)
    says, ready = first + chosen, np.arange(part.labelled) % 2
    instants = [
        part.at[chosen] + 2 * HOUR if part.said is None else _hour(part.said, part.labelled),
        *(_hour(at, part.labelled) for at in (part.corrected, part.taken) if at is not None),
    ]
    changes = [(1, ready)]
    if part.corrected is not None:
        changes.append((0, 1 - 2 * ready))
        ready = 1 - ready
    if part.taken is not None:
        changes.append((-1, -ready))
    columns = [
        np.stack([says, said, np.full(part.labelled, first_ones), ready_ones])
        for said, (first_ones, ready_ones) in zip(instants, changes, strict=True)
    ]
    return np.concatenate(columns, axis=1).astype(np.int64)


def _hour(hour: int, n: int) -> Ints:
    return np.full(n, START + hour * HOUR)
