"""A world run through the real evaluator, exporter and server; what is kept is what was fetched."""

from __future__ import annotations

import http.client
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from adversary.worlds import AUDIT_RATES, BLOCKED, HOUR, SECOND, START, Ints, World
from migrated import migrated_file

from alerts.exposition.exporter import Exporter
from alerts.exposition.service_metrics import ServiceMetrics
from alerts.http import HealthChecks, HttpConfig, Servers
from monitor.composition.evaluator import build_evaluator
from monitor.composition.store import open_store
from monitor.core.counts import audit_grid
from monitor.core.counts.cells import (
    COUNTERS,
    DELAY_EDGES_HOURS,
    Counter,
    Route,
    Stratum,
    atom_text,
    content_id,
)
from monitor.core.publish.snapshot import decode
from monitor.evaluate.evaluator import Evaluator
from monitor.flushes import Dictionary, ShardFlush
from monitor.records import Shard
from monitor.settings import Settings, load
from monitor.shard_status import Tallies
from monitor.store.database import writing
from monitor.store.deltas import Payload, summed, write_delta
from monitor.store.dictionary_rows import write_dictionary
from monitor.store.evaluator.records import RecordStore
from monitor.store.schema import ownership

K = 11
LATENESS = 60 * SECOND
VERSIONS = ("router=1", "router=2")
_NONE = np.empty(0, np.int64)
_PANE = 300 * SECOND

ATTRIBUTE = """
[[attribute]]
name = "{name}"
values = {values}
definition = "test condition"
purpose = "test"
"""
SETTINGS = """
[stream]
clock = "history"
score_bands = [0.70, 0.90]
horizon = "7d"
[privacy]
id_key = "a key for tests that is long enough"
{attributes}
[[use_case]]
name = "replies"
owner = "tests"
{privacy}
group_bys = [{group_bys}]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "test"
max_blocked_gap = 0.10
min_positives = 50
min_negatives = 30
window = "7d"
"""


def settings_text(world: World, *, exact: bool) -> str:
    """The settings of a world; ``exact`` declares it synthetic with k = 1."""
    attributes = "".join(
        ATTRIBUTE.format(name=name, values=list(values))
        for name, values in world.attributes.items()
    )
    groups = ", ".join(f"{{ attributes = {list(names)} }}" for names in world.group_bys)
    return SETTINGS.format(
        attributes=attributes,
        group_bys=groups,
        privacy="synthetic = true\nk = 1" if exact else f"k = {K}",
    )


class StillClock:
    """Wall clocks tell nothing here: simulated time is the events'."""

    def now(self) -> int:
        return START

    def monotonic(self) -> float:
        return 0.0


class Feed:
    """Writes what a world brings to the store, as the store's flush does."""

    def __init__(self, world: World, engine: sa.Engine) -> None:
        self._world = world
        self._engine = engine
        self._cells, self._of = _cells(world)
        self._offsets = {Shard("decisions", 0): 0, Shard("labels", 0): 0}
        self._read = np.argsort(world.arrives, kind="stable")
        self._arrivals = world.arrives[self._read]
        self._done = [0, 0]
        self.counted = [0, 0]
        with writing(engine) as connection:
            write_dictionary(connection, self._dictionary())
            for shard in self._offsets:
                connection.execute(
                    sa.insert(ownership).values(
                        topic=shard.topic,
                        part=0,
                        epoch=1,
                        seq=0,
                        owner="tests",
                        start_offset=0,
                        next_offset=0,
                        holds_back=True,
                        tallies="{}",
                    )
                )

    def until(self, now: int) -> None:
        """Everything that arrives before an instant."""
        decided = int(np.searchsorted(self._arrivals, now))
        said = int(np.searchsorted(self._world.said_at, now))
        decisions = self._read[self._done[0] : decided]
        labels = np.arange(self._done[1], said)
        self._done = [decided, said]
        mark = now - LATENESS
        with writing(self._engine) as connection:
            self._flush(connection, "decisions", self._decisions(decisions), mark)
            self._flush(connection, "labels", self._labels(labels), mark)

    def _flush(self, connection: sa.Connection, topic: str, body: Payload, mark: int) -> None:
        shard = Shard(topic, 0)
        before = self._offsets[shard]
        self._offsets[shard] = after = before + max(len(body.panes), 1)
        flush = ShardFlush(shard, 1, before, after, mark, mark, True, Tallies())
        write_delta(connection, flush, summed(body))
        connection.execute(
            sa.update(ownership)
            .where(ownership.c.topic == topic)
            .values(next_offset=after, max_decided_at=mark, watermark=mark, flushed_at=mark)
        )

    def _decisions(self, rows: Ints) -> Payload:
        values = np.zeros((len(rows), COUNTERS), np.int64)
        values[:, Counter.N] = 1
        values[:, Counter.Q] = self._world.asked[rows]
        return Payload(self._world.at[rows] // _PANE, self._of[rows], values, _NONE, _NONE)

    def _labels(self, rows: Ints) -> Payload:
        world = self._world
        says, first = world.says[rows], world.labelled[rows]
        values = np.zeros((len(rows), COUNTERS), np.int64)
        values[:, Counter.LABELLED] = first
        values[:, Counter.READY] = world.ready[rows]
        values[:, Counter.REVISED] = first != 1
        hours = (world.said_at[rows] - world.at[says]) / HOUR
        bucket = np.searchsorted(DELAY_EDGES_HOURS, hours, side="right")
        values[np.arange(len(rows)), Counter.DELAY_0 + bucket] = first
        return Payload(world.at[says] // _PANE, self._of[says], values, _NONE, _NONE)

    def _dictionary(self) -> Dictionary:
        atoms = {content_id(text): text for text in map(self._atom, range(len(self._world.atoms)))}
        return Dictionary(atoms, {content_id(v): v for v in VERSIONS}, self._cells)

    def _atom(self, index: int) -> str:
        return atom_of(self._world, index)


def atom_of(world: World, index: int) -> str:
    """Canonical text of an atom."""
    return atom_text(dict(zip(world.names, world.atoms[index], strict=True)))


def _cells(world: World) -> tuple[dict[int, tuple[int, int, int]], Ints]:
    """The dictionary of cells, and the cell of every decision."""
    key = np.stack([world.atom, world.version, world.route, world.band, world.rate])
    unique, inverse = np.unique(key, axis=1, return_inverse=True)
    meaning, ids = {}, []
    for atom, version, route, band, rate in unique.T.tolist():
        on_grid = audit_grid.AUDIT_RATES.index(AUDIT_RATES[rate])
        stratum = Stratum(Route(route), band, on_grid, evidence_passed=route != BLOCKED).code
        row = content_id(atom_of(world, atom)), content_id(VERSIONS[version]), stratum
        ids.append(content_id("/".join(map(str, row))))
        meaning[ids[-1]] = row
    return meaning, np.array(ids, np.int64)[inverse.ravel()]


class Service:
    """Store, evaluator, exporter and server of one world, in one process."""

    def __init__(self, world: World, folder: Path, *, exact: bool = False) -> None:
        path = folder / "settings.toml"
        path.write_text(settings_text(world, exact=exact))
        shutil.copy(migrated_file(), folder / "store.db")
        url = f"sqlite:///{folder}/store.db"
        self.settings: Settings = load(path, {"SLICEWATCH__STORE__URL": url})
        self.engine = open_store(self.settings, StillClock())
        self.evaluator: Evaluator = build_evaluator(self.settings, self.engine, StillClock())
        self.feed = Feed(world, self.engine)
        self._exporter = Exporter(ServiceMetrics(), max_series=10**6, clock=StillClock())
        health = HealthChecks(lambda: True, lambda: (True, ""), lambda: True)
        self._servers = Servers(HttpConfig(port=0), None, self._exporter, health, StillClock())
        self._servers.start()
        self._http = http.client.HTTPConnection("127.0.0.1", self._servers.port, timeout=30)
        self._seen = 0

    def close(self) -> None:
        self._http.close()
        self._servers.stop()
        self.engine.dispose()

    def step(self, now: int) -> str | None:
        """Feed, evaluate, publish and fetch; None where no new Snapshot was stored."""
        self.feed.until(now)
        assert self.evaluator.cycle()
        newest = RecordStore(self.engine).newest_snapshot(self._seen)
        if newest is None:
            return None
        self._seen = newest[0]
        self._exporter.publish(decode(newest[1]))
        return self._fetch()

    def _fetch(self) -> str:
        self._http.request("GET", "/metrics")
        answer = self._http.getresponse()
        body = answer.read().decode()
        assert answer.status == 200, body
        return body


@contextmanager
def running(world: World, *, exact: bool = False) -> Iterator[Service]:
    """A service in a folder of its own, which goes with it."""
    with tempfile.TemporaryDirectory(prefix="slicewatch-adversary-") as folder:
        service = Service(world, Path(folder), exact=exact)
        try:
            yield service
        finally:
            service.close()
