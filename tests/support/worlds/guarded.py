"""Worlds counted and released by the real evaluator on SQLite, without broker or server.

The demo's router, the census and plain slices of so many decisions a day become the columns that
the store's deltas are written from; what comes out are the Snapshots that would be published.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from adversary.service import Feed, StillClock
from adversary.worlds import AUTO, BLOCKED, OTHER, REVIEW, START, Ints, Shape, World
from migrated import bring_to_head

from monitor.composition.evaluator import build_evaluator
from monitor.composition.store import open_store
from monitor.core.publish.snapshot import Snapshot, decode
from monitor.core.time import DAY, HOUR, SECOND
from monitor.demo.world import AUDIT_RATE
from monitor.settings import Settings, load
from monitor.store.evaluator.records import RecordStore

LATENESS = 60 * SECOND  # what the feed keeps the watermark behind what it has read
SHARES = {AUTO: 0.60, REVIEW: 0.35, BLOCKED: 0.05}
READY = {AUTO: 0.85, REVIEW: 0.30}
AUDIT = 1
"""Index of the audit rate of what is not reviewed anyway; 0 is that everything is labelled."""
_ATTRIBUTE = """
[[attribute]]
name = "{name}"
values = {values}
definition = "test condition"
purpose = "test"
"""
_SETTINGS = """
[stream]
clock = "history"
score_bands = [0.70, 0.90]
[privacy]
id_key = "a key for tests that is long enough"
{attributes}
[[use_case]]
name = "replies"
owner = "tests"
k = 11
group_bys = [{group_bys}]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "test"
max_tpr_gap = 0.10
max_fpr_gap = 0.10
min_positives = 50
min_negatives = 30
window = "7d"
"""


def settings_for(
    url: str, folder: Path, values: Mapping[str, tuple[str, ...]], *group_bys: str
) -> Settings:
    """Settings of one use case; group-bys are attribute names joined by ``+``."""
    attributes = (_ATTRIBUTE.format(name=n, values=json.dumps(v)) for n, v in values.items())
    groups = (f"{{ attributes = {json.dumps(name.split('+'))} }}" for name in group_bys)
    text = _SETTINGS.format(attributes="".join(attributes), group_bys=", ".join(groups))
    path = folder / "settings.toml"
    path.write_text(text)
    return load(path, {"SLICEWATCH__STORE__URL": url})


class Guarded:
    """A store, and the evaluator that releases what is counted in it."""

    def __init__(self, world: World, settings: Settings) -> None:
        self.engine = open_store(settings, StillClock())
        self._world = world
        self._feed = Feed(world, self.engine)
        self._seen = 0
        self._newest: Snapshot | None = None
        self.evaluator = build_evaluator(settings, self.engine, StillClock())

    def feed(self, now: int) -> None:
        """Count all that is read by the time at which the watermark is ``now``."""
        self._feed.until(now + LATENESS)

    def publish(self) -> Snapshot:
        """What is published after a cycle."""
        assert self.evaluator.cycle()
        newest = RecordStore(self.engine).newest_snapshot(self._seen)
        if newest is not None:
            self._seen, self._newest = newest[0], decode(newest[1])
        assert self._newest is not None
        return self._newest

    def snapshots(self, step: int, first: int = START) -> Iterator[tuple[int, Snapshot]]:
        """Each watermark, a step apart, and what is published then."""
        for now in range(first + step, self._world.end + 1, step):
            self.feed(now)
            yield now, self.publish()

    def close(self) -> None:
        """Let go of the database."""
        self.engine.dispose()


def new_store(folder: Path) -> str:
    """URL of a new, empty database."""
    url = f"sqlite:///{folder}/store.db"
    bring_to_head(url)
    return url


# Worlds.


@dataclass(frozen=True)
class Given:
    """Labels as columns: of which decision, when, first ones or corrections, what they add."""

    says: Ints
    said_at: Ints
    first: Ints
    ready: Ints


def slices_world(flows: Mapping[tuple[str, ...], float], days: int, seed: int) -> World:
    """Attributes ``a``, ``b`` ...; each combination comes so many times a day, evenly at random.

    ``__other__`` is a value that nobody listed. Every flow draws numbers of its own: those of the
    others do not change when one is added.
    """
    parts = [_flow(i, flow, days, seed) for i, flow in enumerate(flows.values())]
    columns = np.concatenate(parts, axis=1)
    at, atom, route, band, asked, delay, ready = columns[:, np.argsort(columns[0], kind="stable")]
    says = np.flatnonzero(asked)
    said_at = at[says] + delay[says]
    order = np.argsort(said_at, kind="stable")
    labels = Given(says[order], said_at[order], np.ones(len(says), np.int64), ready[says][order])
    values = {
        name: tuple(dict.fromkeys(value for value in listed if value != OTHER))
        for name, listed in zip("abc", zip(*flows, strict=True), strict=False)
    }
    return world_of(values, tuple(flows), days, (at, atom, route, band, asked), labels)


def _flow(atom: int, per_day: float, days: int, seed: int) -> Ints:
    rng = np.random.default_rng([seed, atom])
    n = int(rng.poisson(per_day * days))
    at = START + rng.integers(0, days * DAY, n)
    route = rng.choice(list(SHARES), n, p=list(SHARES.values()))
    band = np.minimum(rng.integers(0, 3, n) + (route == AUTO), 2)
    asked = (route == REVIEW) | ((route == AUTO) & (rng.random(n) < AUDIT_RATE))
    delay = (rng.exponential(4, n) * HOUR).astype(np.int64)
    ready = rng.random(n) < np.where(route == AUTO, READY[AUTO], READY[REVIEW])
    return np.stack([at, np.full(n, atom), route, band, asked, delay, ready]).astype(np.int64)


def world_of(
    values: Mapping[str, tuple[str, ...]],
    atoms: tuple[tuple[str, ...], ...],
    days: int,
    decisions: tuple[Ints, ...],
    labels: Given,
) -> World:
    at, atom, route, band, asked = (np.asarray(column, np.int64) for column in decisions)
    none = np.zeros(len(at), np.int64)
    rate = np.where(route == REVIEW, 0, AUDIT)
    shape = Shape(days=days)
    said = (labels.says, labels.said_at, labels.first, labels.ready)
    return World(0, shape, dict(values), atoms, at, at, atom, route, band, rate, asked, none, *said)
