"""Ingest worker with its codecs and policies, from the settings."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import msgspec
import sqlalchemy as sa

from consumers import dedupe
from consumers.codec import DecisionCodec, LabelCodec
from consumers.coder import MAX_VERSIONS, Coder
from consumers.collaborators import IngestPolicy, Observer, Store
from consumers.dead_letters import IdHasher
from consumers.event_time import ClockPolicy
from consumers.ingest import FLUSH_EVENTS, Ingest
from consumers.mapping import EventMapping, mapping_of
from consumers.probe_signing import ProbePolicy
from consumers.shard import Codecs
from monitor.composition.brokers import schema_registry
from monitor.composition.store import id_keys, owner_name
from monitor.core.counts.coding import CodingHistory
from monitor.core.time import SECOND, Grain
from monitor.id_key import IdKey
from monitor.ports import Clock, RecordSource
from monitor.records import Start
from monitor.settings import ProbesSettings, Settings
from monitor.settings.kinds import ENDS, Beginning
from monitor.settings.problems import Problems
from monitor.settings.sections import SchemaRegistrySettings, StreamSettings
from monitor.store.codings import Codings
from monitor.store.dictionary_rows import live_versions
from monitor.store.id_keys import IdKeys
from monitor.store.ingest.ingest_store import IngestStore

if TYPE_CHECKING:
    from consumers.wire import AvroMessages

FLUSH_SECONDS = 2.0
"""Longest time until counts are stored; a transaction more often costs more than it brings."""


def avro_messages(settings: Settings) -> AvroMessages | None:
    """Return the reader of Avro messages with its schemas; None if all messages are JSON."""
    registry = schema_registry(settings)
    if registry is None:
        return None
    from consumers.wire import AvroMessages, WriterSchemas  # noqa: PLC0415 - optional

    return AvroMessages(WriterSchemas(registry.schema))


def as_history(settings: Settings) -> Settings:
    """Return a copy of the settings to read files: JSON, from the first line, by event time."""
    stream = msgspec.structs.replace(
        settings.stream,
        clock="history",
        start=Beginning("earliest"),
        schema_registry=SchemaRegistrySettings(),
    )
    return msgspec.structs.replace(settings, stream=stream)


def id_hasher(settings: Settings, engine: sa.Engine) -> IdHasher:
    """Return the hasher of decision ids, with the keys of this store.

    Raises:
        StoreError: the settings have other keys.
    """
    return IdHasher(IdKeys(engine).in_force(id_keys(settings)))


def probe_policy(probes: ProbesSettings) -> ProbePolicy:
    """Return the policy that checks probe decisions: key, and variants by digest of a set."""
    return ProbePolicy(
        probes.key.reveal().encode() if probes.key else None,
        {declared.digest: frozenset(declared.variants) for declared in probes.sets},
    )


def event_mappings(
    settings: Settings, labelled: frozenset[str] | None = None
) -> tuple[EventMapping | None, EventMapping | None]:
    """Return the (decisions, labels) mappings of messages to events; None for plain events.

    Args:
        settings: settings with the mappings.
        labelled: ids of decisions with a label; None where no files of labels are read.

    Raises:
        SettingsError: a mapping cannot make events.
    """
    mapping, problems = settings.mapping, Problems()
    of_decisions = of_labels = None
    with problems.collected():
        of_decisions = mapping_of("decisions", mapping.decisions, labelled)
    with problems.collected():
        of_labels = mapping_of("labels", mapping.labels)
    problems.raise_any()
    return of_decisions, of_labels


def build_codecs(
    settings: Settings,
    engine: sa.Engine,
    eras: CodingHistory,
    keys: Sequence[IdKey],
    labelled: frozenset[str] | None = None,
) -> Codecs:
    """Return the codecs that all shards of this process share; ids are hashed with ``keys``."""
    return _codecs(settings, eras, IdHasher(keys), live_versions(engine), labelled)


def checking_codecs(settings: Settings, labelled: frozenset[str] | None = None) -> Codecs:
    """Return codecs that need no store: ids are hashed with a temporary key."""
    eras = CodingHistory.always(settings.coding)
    return _codecs(settings, eras, IdHasher.with_key(secrets.token_bytes(32)), (), labelled)


def _codecs(
    settings: Settings,
    eras: CodingHistory,
    hasher: IdHasher,
    versions: Collection[str],
    labelled: frozenset[str] | None,
) -> Codecs:
    """Build the decoders and coders of decisions and labels, and the clock that checks times."""
    stream = settings.stream
    wheres = [contract.where for contract in settings.contracts]
    coder = Coder(eras, MAX_VERSIONS, versions, wheres)
    of_decisions, of_labels = event_mappings(settings, labelled)
    return Codecs(
        decisions=DecisionCodec(coder, eras.newest, probe_policy(settings.probes), of_decisions),
        labels=LabelCodec(
            hasher,
            mapping=of_labels,
            dimensions=[dimension.name for dimension in settings.bias_dimension],
        ),
        coder=coder,
        hasher=hasher,
        clock=ClockPolicy(stream.clock == "live", stream.horizon),
        lateness=stream.lateness,
        dedupe_window=dedupe.WINDOW,
    )


def build_ingest(
    settings: Settings,
    engine: sa.Engine,
    source: RecordSource,
    metrics: Observer,
    clock: Clock,
    *,
    store: Store | None = None,
    progress: Callable[[int], None] | None = None,
    closes: Grain = Grain.DAY,
    labelled: frozenset[str] | None = None,
    by_size: bool = False,
) -> Ingest:
    """Return the ingest worker from ``source`` into the database, or into ``store`` if given.

    Flushes are due by size alone where nobody waits for what comes: each costs a commit.

    ``closes`` is the span that the end of a file completes: the day or the hour of its last event;
    ``labelled`` is as for :func:`event_mappings`.
    """
    stream = settings.stream
    eras = Codings(engine).eras(settings.coding)
    keys = IdKeys(engine).in_force(id_keys(settings))
    codecs = build_codecs(settings, engine, eras, keys, labelled)
    if (wire := avro_messages(settings)) is not None:
        from consumers.wire import SchemaGate  # noqa: PLC0415 - optional

        source, codecs = SchemaGate(source, wire.schemas), replace(codecs, wire=wire)
    return Ingest(
        source=source,
        store=store or IngestStore(engine, stream.decisions_topic, clock, eras, keys),
        codecs=codecs,
        policy=IngestPolicy(
            decisions_topic=stream.decisions_topic,
            labels_topic=stream.labels_topic,
            owner=owner_name(),
            start=_start(stream),
            flush_events=FLUSH_EVENTS,
            flush_seconds=inf if by_size else _flush_seconds(settings),
            closes=closes,
        ),
        clock=clock,
        observer=metrics,
        progress=progress,
    )


def _flush_seconds(settings: Settings) -> float:
    """Return the seconds between two flushes: five of them a cycle, or more."""
    return min(FLUSH_SECONDS, settings.evaluate.cycle / SECOND / 5)


def _start(stream: StreamSettings) -> Start:
    if stream.start in ENDS:
        return Start(stream.start)
    return Start("time", stream.start_micros)
