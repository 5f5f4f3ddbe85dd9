"""Worlds of decisions and labels in which faults lie in some intersections of two attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from adversary.worlds import AUDIT_RATES, AUTO, DAY, HOUR, REVIEW, START, Shape, World
from unlabelled import BLURRED, FPR, READY, TPR

from monitor.core.counts.cells import atom_text, parse_atom

VALUES = {
    "channel": {"chat": 0.40, "email": 0.35, "phone": 0.25},
    "language": {"de": 0.40, "en": 0.40, "fr": 0.20},
}
DE_CHAT, DE_EMAIL = "channel=chat,language=de", "channel=email,language=de"
_AUDITED, _FULLY = AUDIT_RATES.index(0.05), AUDIT_RATES.index(1.0)
_DELAY = 6 * HOUR


@dataclass(frozen=True)
class Fault:
    """From a day on, fewer ready replies of a slice are served.

    Attributes:
        slice: text.
        since: day from which it holds.
        drop: of the TPR.
    """

    slice: str
    since: float
    drop: float = 0.30


def crossed_world(seed: int, faults: Sequence[Fault], days: int, a_day: int) -> World:
    """All events: a twentieth of what is served is labelled, and all that is reviewed."""
    rng = np.random.default_rng([seed, 31])
    size = days * a_day
    at = START + np.sort(rng.integers(0, days * DAY, size))
    names = tuple(VALUES)
    atoms = tuple(product(*VALUES.values()))
    shares = np.prod([*product(*(shares.values() for shares in VALUES.values()))], axis=1)
    atom = rng.choice(len(atoms), size, p=shares)
    ready = rng.random(size) < READY
    tpr = np.full(size, TPR)
    for fault in faults:
        wanted = parse_atom(fault.slice).items()
        texts = [atom_text(dict(zip(names, values, strict=True))) for values in atoms]
        inside = np.array([wanted <= parse_atom(text).items() for text in texts])
        tpr -= fault.drop * (inside[atom] & (at >= START + fault.since * DAY))
    auto = rng.random(size) < np.where(ready, tpr, FPR)
    edges = np.cumsum(BLURRED, axis=1)[ready.astype(np.int64), :-1]
    rate = np.where(auto, _AUDITED, _FULLY)
    asked = rng.random(size) < np.array(AUDIT_RATES)[rate]
    says = np.flatnonzero(asked)
    said_at = at[says] + rng.exponential(_DELAY, len(says)).astype(np.int64)
    order = np.argsort(said_at, kind="stable")
    return World(
        seed=seed, shape=Shape((3, 3), days),
        attributes={name: tuple(shares) for name, shares in VALUES.items()},
        atoms=atoms, at=at, arrives=at + 1_000_000, atom=atom.astype(np.int64),
        route=np.where(auto, AUTO, REVIEW), rate=rate, asked=asked.astype(np.int64),
        band=(rng.random((size, 1)) >= edges).sum(axis=1).astype(np.int64),
        version=np.zeros(size, np.int64), says=says[order], said_at=said_at[order],
        labelled=np.ones(len(says), np.int64), ready=ready[says[order]].astype(np.int64),
    )  # fmt: skip
