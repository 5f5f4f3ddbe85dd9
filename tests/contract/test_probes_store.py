"""Probe decisions of declared sets come out of the store as they went in, each exactly once."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import sqlalchemy as sa
from set_clock import SetClock

from monitor.core.counts.cells import Route, Stratum
from monitor.core.probes.flips import Observed
from monitor.core.probes.probe_decisions import ProbeDecision
from monitor.core.time import HOUR, MINUTE
from monitor.errors import FencedError
from monitor.flushes import DecisionColumns, Dictionary, LabelRequest, ShardFlush
from monitor.records import Shard
from monitor.shard_status import Claim, Tallies
from monitor.store.deltas import StoredDelta
from monitor.store.evaluator.store import EvaluatorStore
from monitor.store.ingest.ingest_store import IngestStore

SHARD = Shard("decisions", 0)
T0 = 500_000 * HOUR
CELL = 77
DICTIONARY = Dictionary(
    {1: "channel=chat"},
    {2: "v"},
    {CELL: (1, 2, Stratum(Route.HUMAN_REVIEW, 0, 0, probe=True).code)},
)
PROBES = tuple(
    ProbeDecision("5e7" * 21 + "0", pair, "formal \u00e9", T0 + i, seen, ready)
    for i, (pair, seen, ready) in enumerate(
        product(
            ("p1", "p" * 200),
            (
                Observed(Route.AUTO_SERVE, 0.1 + 0.2, 0.7),
                Observed(Route.BLOCKED_BY_EVIDENCE, None, 0.0, False),
            ),
            (True, False, None),
        )
    )
)


@pytest.fixture
def store(engine: sa.Engine) -> IngestStore:
    store = IngestStore(engine, "decisions", SetClock(T0))
    store.register([SHARD])
    return store


def begin(store: IngestStore) -> Claim:
    (claim,) = store.claim([SHARD], "one")
    if claim.next_offset is None:
        store.start(claim, 0)
        return replace(claim, next_offset=0, start_offset=0)
    return claim


def columns(count: int) -> DecisionColumns:
    ids = np.arange(1, count + 1, dtype=np.int64)
    ones = np.ones(count, np.int64)
    return DecisionColumns(
        ids=ids,
        ts=ones * T0,
        cells=ones * CELL,
        request=ones * LabelRequest.NONE,
        routes=ones,
        arrivals=ones * (T0 // MINUTE),
        keys=ids,
    )


def flush(claim: Claim, probes: tuple[ProbeDecision, ...], decisions: int = 20) -> ShardFlush:
    start = claim.next_offset or 0
    tallies = Tallies(messages=start + 20, events=start + 20, counted=start + 20)
    return ShardFlush(
        *(SHARD, claim.epoch, start, start + 20, T0, T0, True, tallies),
        decisions=columns(decisions),
        probes=probes,
    )


def stored(engine: sa.Engine) -> list[StoredDelta]:
    return EvaluatorStore(engine, "decisions").deltas.after({}, 100)


def test_they_come_out_as_they_went_in(engine: sa.Engine, store: IngestStore) -> None:
    store.flush([flush(begin(store), PROBES)], DICTIONARY)
    store.flush([flush(begin(store), ())], DICTIONARY)
    first, second = stored(engine)
    assert tuple(first.payload.probes) == PROBES
    assert tuple(second.payload.probes) == ()
    assert first.payload.values.sum() == 20, "they are counted with all others, not once more"


def test_a_flush_of_nothing_but_probes_is_written(engine: sa.Engine, store: IngestStore) -> None:
    store.flush([flush(begin(store), PROBES[:1], decisions=0)], DICTIONARY)
    (delta,) = stored(engine)
    assert tuple(delta.payload.probes) == PROBES[:1]


def test_what_is_fenced_is_not_there(engine: sa.Engine, store: IngestStore) -> None:
    """The next owner reads the same messages again."""
    late = begin(store)
    now = begin(store)
    with pytest.raises(FencedError):
        store.flush([flush(late, PROBES)], DICTIONARY)
    assert not stored(engine)
    store.flush([flush(now, PROBES)], DICTIONARY)
    with pytest.raises(FencedError):
        store.flush([flush(now, PROBES)], DICTIONARY)
    assert [tuple(delta.payload.probes) for delta in stored(engine)] == [PROBES]
