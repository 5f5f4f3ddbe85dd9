"""The whole pipeline in one thread: a memory broker, workers, the evaluator, one SQLite file.

Time is moved by hand, every part can be killed, and the counts that come out are read with plain
SQL and named by what they mean, so that they can be compared with the counting oracle's.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from unittest import mock

import id_keys
import msgspec
import numpy.typing as npt
import signed_probes
import sqlalchemy as sa
from memory_source import MemoryBroker, MemorySource
from migrated import bring_to_head, migrated_file
from stored import check_tables

from consumers.collaborators import Store
from consumers.ingest import Ingest
from monitor.composition.evaluator import build_evaluator
from monitor.composition.ingest import build_ingest
from monitor.composition.store import open_store
from monitor.evaluate.evaluator import Evaluator
from monitor.records import Shard
from monitor.settings import Settings, load
from monitor.shard_status import ShardStatus, Tallies
from monitor.store.evaluator.records import RecordStore
from monitor.store.evaluator.store import EvaluatorStore
from monitor.store.ingest.ingest_store import IngestStore
from monitor.store.schema import COUNTER_COLUMNS
from monitor.store.shard_rows import read_statuses

DECISIONS, LABELS = "decisions", "labels"
ID_KEY = id_keys.KEY
GRAINS = {300_000_000: "5min", 3_600_000_000: "1h", 86_400_000_000: "1d", 604_800_000_000: "1w"}
ROUTES = ("auto_serve", "human_review", "blocked_by_evidence")

SETTINGS = f"""
[stream]
score_bands = [0.70, 0.90]
[privacy]
id_key = "{ID_KEY}"
[[attribute]]
name = "channel"
values = ["chat", "email"]
definition = "test condition"
purpose = "test"
[[attribute]]
name = "language_variety"
values = ["formal", "conversational"]
definition = "test condition"
purpose = "test"
[[use_case]]
name = "synthetic"
owner = "tests"
synthetic = true
k = 1
group_bys = [
  {{ attributes = ["language_variety"], reference = "language_variety=formal" }},
  {{ attributes = ["channel"] }},
  {{ attributes = ["channel", "language_variety"] }},
]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "test"
min_positives = 1
min_negatives = 1
window = "7d"
{signed_probes.KEY_TABLE}{signed_probes.SET_TABLE}"""

Cell = tuple[str, int, str, str, str, int, int, bool, bool]
"""(grain, pane, atom, version, route, band, rate, evidence_passed, probe)."""
Counted = dict[Cell, dict[str, int]]


class ManualClock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.seconds = 2_000_000_000.0  # after all that tests send: the present is never early

    def now(self) -> int:
        return int(self.seconds * 1e6)

    def monotonic(self) -> float:
        return self.seconds


@dataclass
class Seen:
    """An observer that keeps what it was told."""

    failures: int = 0
    tallies: dict[Shard, Tallies] = field(default_factory=dict)

    unknown: Counter[str] = field(default_factory=Counter)
    parked: set[Shard] = field(default_factory=set)
    unlisted: dict[str, int] = field(default_factory=dict)
    versions_turned_away: int = 0
    unsigned: int = 0
    undeclared: int = 0
    ahead: dict[Shard, int] = field(default_factory=dict)
    unreadable: Counter[tuple[str, str]] = field(default_factory=Counter)
    fields: Counter[tuple[str, str]] = field(default_factory=Counter)
    below: int = 0

    def set_shard(
        self,
        shard: Shard,
        tallies: Tallies,
        lag_messages: int | None,
        lag_seconds: float | None,
        *,
        offsets: int | None,
    ) -> None:
        self.tallies[shard] = tallies
        assert offsets is None or offsets == tallies.messages + tallies.gaps

    def drop_shard(self, shard: Shard) -> None:
        self.tallies.pop(shard, None)

    def set_parked(self, shard: Shard, parked: bool) -> None:
        (self.parked.add if parked else self.parked.discard)(shard)

    def set_ahead(self, shard: Shard, micros: int) -> None:
        self.ahead[shard] = micros

    def flushed(self, seconds: float) -> None: ...

    def store_failed(self) -> None:
        self.failures += 1

    def observe_label_delays(self, seconds: npt.ArrayLike, *, joined_at: int | None) -> None: ...

    def add_unknown_values(self, attribute: str, count: int) -> None:
        self.unknown[attribute] += count

    def add_doubtful_probes(self, unsigned: int, undeclared: int) -> None:
        self.unsigned += unsigned
        self.undeclared += undeclared

    def add_unreadable(self, counts: Mapping[tuple[str, str], int]) -> None:
        self.unreadable.update(counts)

    def add_unknown_fields(self, event: str, counts: Mapping[str, int]) -> None:
        self.fields.update({(event, name): number for name, number in counts.items()})

    def add_below_threshold(self, count: int) -> None:
        self.below += count

    def set_cardinality(self, unlisted: Mapping[str, int], versions_turned_away: int) -> None:
        self.unlisted, self.versions_turned_away = dict(unlisted), versions_turned_away


def settings_with(folder: Path, text: str = SETTINGS, **overrides: object) -> Settings:
    """The test settings; ``stream__clock="history"`` sets ``stream.clock``."""
    path = folder / "settings.toml"
    path.write_text(text)
    env = {f"SLICEWATCH__{name.upper()}": str(value) for name, value in overrides.items()}
    return load(path, {"SLICEWATCH__STORE__URL": f"sqlite:///{folder}/store.db", **env})


def flushed_by(events: int) -> dict[str, object]:
    """Constants by which workers flush after so many events."""
    return {"monitor.composition.ingest.FLUSH_EVENTS": events}


class Pipeline:
    """A broker with both topics, a store, and as many workers and evaluators as a test likes."""

    def __init__(
        self,
        folder: Path,
        partitions: tuple[int, int] = (1, 1),
        max_records: int = 5000,
        text: str = SETTINGS,
        constants: Mapping[str, object] | None = None,
        **overrides: object,
    ) -> None:
        """Constants of the program, by module and name, have these values in its workers."""
        self._constants = constants or {}
        overrides = {"stream__clock": "history", **overrides}
        self.settings = settings_with(folder, text, **overrides)
        self.path = folder / "store.db"
        if self.settings.store.url.startswith("sqlite"):
            shutil.copy(migrated_file(), self.path)
        else:
            bring_to_head(self.settings.store.url)
        self.clock = ManualClock()
        self.engine = open_store(self.settings, self.clock)
        self.broker = MemoryBroker({DECISIONS: partitions[0], LABELS: partitions[1]})
        self.seen = Seen()
        self._max_records = max_records
        self.workers: list[Ingest] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.dispose()

    def worker(self, store: Store | None = None) -> Ingest:
        """A new worker of the group, composed as the service composes it."""
        source = MemorySource(self.broker, [DECISIONS, LABELS], max_records=self._max_records)
        with ExitStack() as patched:
            for name, value in self._constants.items():
                patched.enter_context(mock.patch(name, value))
            ingest = build_ingest(
                self.settings, self.engine, source, self.seen, self.clock, store=store
            )
        ingest.register()
        self.workers.append(ingest)
        return ingest

    @property
    def store(self) -> IngestStore:
        """The ingest side of the store, to wrap or to call."""
        return IngestStore(self.engine, DECISIONS, self.clock)

    def evaluator(self) -> Evaluator:
        return build_evaluator(self.settings, self.engine, self.clock)

    def kill(self, worker: Ingest) -> None:
        """A crash: nothing is flushed, and the group notices."""
        self.workers.remove(worker)
        worker.source.close()

    def step(self, worker: Ingest, seconds: float = 0.5) -> None:
        self.clock.seconds += seconds
        worker.step(0)

    def drain(self, steps: int = 400) -> None:
        """Step all workers until everything produced is in the store."""
        for _ in range(steps):
            for worker in self.workers:
                self.step(worker)
            if self.drained():
                return self.flush_again()
        states = [str(status) for status in self.statuses()]
        raise AssertionError("the workers make no progress:\n" + "\n".join(states))

    def flush_again(self, times: int = 2) -> None:
        """Give labels that wait another look at what has come since."""
        for worker in self.workers * times:
            self.step(worker, 3.0)

    def drained(self) -> bool:
        return all(s.next_offset == self.broker.log(s.shard).high for s in self.statuses())

    def fold(self) -> None:
        """Fold everything, and give the lease back."""
        evaluator = self.evaluator()
        assert evaluator.cycle()
        evaluator.release_lease()
        self.check_tables()

    def check_tables(self) -> None:
        """No published hour has more than was counted in it."""
        check_tables(self.engine, kept_since(self.engine, self.settings).get("1h", 0))

    def check_probes(self, expected: Sequence[tuple[Any, ...]]) -> None:
        """Every decision of the declared set came out of the store once."""
        assert read_probes(self.engine) == sorted(expected, key=str)

    def statuses(self) -> list[ShardStatus]:
        return read_statuses(self.engine)

    def counts(self) -> Counted:
        return read_counts(self.engine)

    def check_counts(self, expected: Counted) -> None:
        """Counts equal what is expected, at every grain as far back as it is kept."""
        kept = kept_since(self.engine, self.settings)
        assert only_kept(self.counts(), kept) == only_kept(expected, kept)
        self.check_tables()

    def snapshot(self) -> bytes | None:
        newest = RecordStore(self.engine).newest_snapshot(0)
        return None if newest is None else newest[1]

    def check_conservation(self) -> None:
        assert_conserved(self.statuses())


def kept_since(engine: sa.Engine, settings: Settings) -> dict[str, int]:
    """First pane of the short grains that is still kept: the rest may be counted or not."""
    watermark = EvaluatorStore(engine, DECISIONS).deltas.watermark()
    if watermark is None:
        return {}
    hours = (watermark - settings.stream.horizon) // 3_600_000_000 - 8 * 24
    return {"1h": hours + 1}


def only_kept(counts: Counted, kept: Mapping[str, int]) -> Counted:
    """The counts of panes that are kept."""
    return {cell: row for cell, row in counts.items() if cell[1] >= kept.get(cell[0], -(2**62))}


def run_history(
    folder: Path,
    decisions: Sequence[bytes | None],
    labels: Sequence[bytes | None],
    expected: Counted | None = None,
    **overrides: object,
) -> list[ShardStatus]:
    """Produce everything, consume it with one worker, fold and compare; totals of the shards."""
    with Pipeline(folder, **overrides) as pipeline:  # type: ignore[arg-type]
        pipeline.broker.produce(DECISIONS, decisions)
        pipeline.broker.produce(LABELS, labels)
        pipeline.worker()
        pipeline.drain()
        pipeline.fold()
        pipeline.check_conservation()
        if expected is not None:
            pipeline.check_counts(expected)
        return pipeline.statuses()


def assert_conserved(statuses: Iterable[ShardStatus]) -> None:
    """Both conservation equations of every shard."""
    for status in statuses:
        totals = status.tallies
        assert totals.balance == 0, status
        if status.next_offset is not None:
            assert status.start_offset is not None, status
            assert status.next_offset - status.start_offset == totals.messages + totals.gaps, status


def total(statuses: Iterable[ShardStatus], topic: str, name: str) -> int:
    """One total over all shards of a topic; reasons are added up."""
    values = [getattr(s.tallies, name) for s in statuses if s.shard.topic == topic]
    return sum(sum(v.values()) if isinstance(v, dict) else v for v in values)


def read_counts(engine: sa.Engine) -> Counted:
    """All counts by what they mean, without rows and counters that are zero."""
    with engine.connect() as connection:
        rows = connection.execute(
            sa.text(
                f"SELECT c.grain, c.pane, a.text, v.text, d.stratum, {', '.join(COUNTER_COLUMNS)}"
                " FROM counts c LEFT JOIN cell d ON d.id = c.cell"
                " LEFT JOIN atom a ON a.id = d.atom LEFT JOIN version v ON v.id = d.version"
            )
        ).all()
    assert all(row[2] is not None for row in rows), "a count row without a meaning"
    counted: Counted = {}
    for grain, pane, atom, version, stratum, *values in rows:
        kept = {n: v for n, v in zip(COUNTER_COLUMNS, values, strict=True) if v}
        if kept:
            counted[(GRAINS[grain], pane, atom, version or "", *stratum_of(stratum))] = kept
    return counted


def read_probes(engine: sa.Engine) -> list[tuple[Any, ...]]:
    """Probe decisions of all deltas, by what they say, sorted."""
    deltas = EvaluatorStore(engine, DECISIONS).deltas.after({}, 1_000_000)
    found = []
    for probe in (probe for delta in deltas for probe in delta.payload.probes):
        assert probe.probe_set == signed_probes.DIGEST
        seen = probe.observed
        said = (seen.route.name.lower(), seen.score, seen.threshold, seen.evidence_passed)
        found.append((probe.at, probe.pair, probe.variant, *said, probe.expected_ready))
    return sorted(found, key=str)


def stratum_of(code: int) -> tuple[str, int, int, bool, bool]:
    """(route, band, rate, evidence_passed, probe) of a stratum code, by its bit fields."""
    route, band, rate = ROUTES[(code >> 11) & 3], (code >> 6) & 31, code & 63
    return route, band, rate, bool((code >> 13) & 1), bool((code >> 14) & 1)


def messages(events: Sequence[Mapping[str, Any]], sizes: Iterable[int] = ()) -> list[bytes | None]:
    """Events as messages: single ones, or arrays of the given sizes as long as those last."""
    out: list[bytes | None] = []
    rest = list(events)
    for size in sizes:
        if not rest:
            return out
        out.append(json.dumps(rest[:size]).encode())
        rest = rest[size:]
    return out + [json.dumps(event).encode() for event in rest]


def dead_letters(engine: sa.Engine) -> list[tuple[str, int, int, str, str]]:
    """(topic, offset, item, reason, field) of every stored dead letter, in order."""
    with engine.connect() as connection:
        rows = connection.execute(
            sa.text(
                "SELECT topic, msg_offset, item, reason, field FROM dead_letter"
                " ORDER BY topic, part, msg_offset, item"
            )
        ).all()
    return [tuple(row) for row in rows]


def attributes_in(settings: str = SETTINGS) -> dict[str, list[str]]:
    """Allow-lists of the test settings, for the oracle."""
    return {a["name"]: a["values"] for a in tomllib.loads(settings)["attribute"]}


def tallies_text(statuses: Iterable[ShardStatus]) -> bytes:
    """All totals as bytes, to compare."""
    return msgspec.json.encode({str(s.shard): s.tallies for s in statuses})
