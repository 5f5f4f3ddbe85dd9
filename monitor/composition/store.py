"""Opening of the store: contracts, attributes, topics and id keys are checked and kept."""

from __future__ import annotations

import os
import secrets
import socket
from datetime import UTC, date, datetime, time

import sqlalchemy as sa

from consumers import dedupe
from monitor.core.time import DAY, to_micros
from monitor.id_key import BEGINNING, IdKey
from monitor.ports import Clock
from monitor.settings import Settings, contract_numbers, contract_record, duration_text
from monitor.settings.as_text import mapping_texts
from monitor.store import database
from monitor.store.codings import Codings
from monitor.store.evaluator.records import ContractRecord, RecordStore
from monitor.store.id_keys import IdKeys
from monitor.store.retired import ConfiguredTopics, RetiredTopics
from monitor.store.upkeep.last_settings import LastSettings
from monitor.store.upkeep.retention_guard import RetentionPolicy

DEAD_LETTERS_KEPT = 7 * DAY
"""Time for which the places and reasons of unreadable events are kept, to repair a producer."""


def owner_name() -> str:
    """Return ``host/pid/random``, the name under which this process takes claims and leases.

    Containers often share host name and process number; two evaluators with one name would both
    hold the lease.
    """
    return f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"


def contract_records(settings: Settings) -> list[ContractRecord]:
    """Return a ContractRecord per use case: name, version, and canonical JSON as stored."""
    return [
        ContractRecord(
            case.name, case.contract.version, contract_numbers(case), contract_record(case)
        )
        for case in settings.use_case
    ]


def open_store(settings: Settings, clock: Clock) -> sa.Engine:
    """Return an engine of the checked database, after storing contracts, attributes and id keys.

    SQLite is upgraded to the newest schema. Processes share the schema of a server, so only
    ``slicewatch db migrate`` changes that.

    Raises:
        StoreError: the database is unreachable or has the wrong schema, numbers changed under an
            unchanged version, or the settings lack attributes or id keys that the store needs.
        OutdatedError: the store was started with newer settings.
    """
    engine = database.create_engine(settings.store.url)
    try:
        if engine.dialect.name == "sqlite":
            database.migrate(engine)
        database.require_head(engine)
        _store_settings(settings, engine, clock)
    except BaseException:
        engine.dispose()
        raise
    return engine


def _store_settings(settings: Settings, engine: sa.Engine, clock: Clock) -> None:
    """Store contracts, coding and id keys; raise StoreError for a change that is not allowed."""
    records, contracts = RecordStore(engine), contract_records(settings)
    records.refuse_changes(contracts)
    live = settings.stream.clock == "live"
    Codings(engine).keep(settings.coding, clock.now() if live else None)
    IdKeys(engine).keep(id_keys(settings), settings.stream.horizon)
    records.keep_contracts(contracts, clock.now())


def configured_topics(settings: Settings) -> ConfiguredTopics:
    """Return the names of the decisions and labels topics as ConfiguredTopics."""
    return ConfiguredTopics(*settings.stream.topics)


def remembered(settings: Settings) -> dict[str, str]:
    """Return texts by settings key, stored so that the next start can report their changes."""
    stream = settings.stream
    return {
        "stream.clock": stream.clock,
        "stream.schema_registry": stream.format,
        "stream.horizon": duration_text(stream.horizon),
        "stream.lateness": duration_text(stream.lateness),
        **mapping_texts(settings),
    }


def begin_service(settings: Settings, engine: sa.Engine, clock: Clock) -> list[str]:
    """Retire topics no longer in the settings; return a line per change since the last start.

    Only for services that read Kafka: files are read as history, by the topics of their settings.
    """
    retired = RetiredTopics(engine).keep(configured_topics(settings), clock.now())
    return [*retired, *LastSettings(engine).keep(remembered(settings))]


def id_keys(settings: Settings) -> tuple[IdKey, ...]:
    """Return the settings' id keys in order of start; empty if the store makes its own key."""
    return tuple(
        IdKey(key.id, _day_start(key.from_day), key.key.reveal().encode())
        for key in settings.privacy.keys
        if key.key is not None
    )


def _day_start(day: date | None) -> int:
    return BEGINNING if day is None else to_micros(datetime.combine(day, time(), UTC))


def retention_policy(settings: Settings) -> RetentionPolicy:
    """Return the retention periods of stored rows, taken from the settings."""
    return RetentionPolicy(
        horizon=settings.stream.horizon,
        aggregates=settings.retention.aggregates,
        dead_letters=DEAD_LETTERS_KEPT,
        snapshots=settings.retention.aggregates,
        dedupe_window=dedupe.WINDOW,
    )
