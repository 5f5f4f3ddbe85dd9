"""Where probe sets stand, as the evaluator writes it, on each kind of database."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from monitor.core.time import DAY
from monitor.errors import FencedError
from monitor.records import Shard
from monitor.store import database as db
from monitor.store.evaluator.probe_sets import ProbeSetsChange, StoredProbeSet, read_probe_sets
from monitor.store.evaluator.store import Cycle, EvaluatorStore
from monitor.store.schema import fold_cursor

NOW = 1_700_000_000_000_000
SHARD = Shard("decisions", 0)
TONE = StoredProbeSet("a" * 64, b"\x00\xff open rounds")
LANGUAGE = StoredProbeSet("b" * 64, b"")


@pytest.fixture
def store(engine: sa.Engine) -> EvaluatorStore:
    return EvaluatorStore(engine, "decisions")


def commit(store: EvaluatorStore, cycle: Cycle, owner: str = "me") -> None:
    epoch = store.lease.acquire(owner, DAY)
    assert epoch is not None
    store.commit(epoch, cycle, NOW)


def change(store: EvaluatorStore, dropped: tuple[str, ...] = (), **states: StoredProbeSet) -> None:
    commit(store, Cycle(probes=ProbeSetsChange(states, dropped)))


def test_nothing_is_kept_at_first(store: EvaluatorStore) -> None:
    assert store.read(read_probe_sets) == {}
    commit(store, Cycle())
    assert store.read(read_probe_sets) == {}


def test_states_are_kept_byte_for_byte_by_name(store: EvaluatorStore) -> None:
    change(store, tone=TONE, language=LANGUAGE)
    assert store.read(read_probe_sets) == {"tone": TONE, "language": LANGUAGE}


def test_a_state_takes_the_place_of_the_last_one_whatever_it_was_of(store: EvaluatorStore) -> None:
    change(store, tone=TONE, language=LANGUAGE)
    other = StoredProbeSet("c" * 64, b"anew")
    change(store, tone=other)
    assert store.read(read_probe_sets) == {"tone": other, "language": LANGUAGE}


def test_a_set_that_nothing_declares_goes(store: EvaluatorStore) -> None:
    change(store, tone=TONE, language=LANGUAGE)
    change(store, ("tone", "never there"))
    assert store.read(read_probe_sets) == {"language": LANGUAGE}


def test_a_name_can_be_dropped_and_set_at_once(store: EvaluatorStore) -> None:
    change(store, tone=TONE)
    change(store, ("tone",), tone=LANGUAGE)
    assert store.read(read_probe_sets) == {"tone": LANGUAGE}


def test_a_state_is_written_with_the_cursors_that_fed_it_or_not_at_all(
    engine: sa.Engine, store: EvaluatorStore
) -> None:
    epoch = store.lease.acquire("me", DAY)
    assert epoch is not None
    fed = Cycle(cursors={SHARD: 1}, probes=ProbeSetsChange({"tone": TONE}))
    with pytest.raises(FencedError):
        store.commit(epoch + 1, fed, NOW)
    with pytest.raises(FencedError):
        store.commit(epoch, Cycle(folded={SHARD: 7}, probes=fed.probes), NOW)
    with db.reading(engine) as connection:
        assert read_probe_sets(connection) == {}
        assert connection.execute(sa.select(fold_cursor)).all() == []
    store.commit(epoch, fed, NOW)
    assert (store.read(read_probe_sets), store.deltas.cursors()) == ({"tone": TONE}, {SHARD: 1})
