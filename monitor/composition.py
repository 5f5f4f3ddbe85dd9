"""Construction of all parts of the service from the settings."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time
from functools import cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
import sqlalchemy as sa

from alerts import dashboards
from alerts.exposition.exporter import Exporter
from alerts.rules import Conditions, breach_runbooks, runbooks
from consumers.codec import DecisionCodec, LabelCodec
from consumers.coder import MAX_VERSIONS, Coder
from consumers.collaborators import IngestPolicy, Observer, Store
from consumers.dead_letters import IdHasher
from consumers.event_time import ClockPolicy
from consumers.ingest import FLUSH_EVENTS, Ingest
from consumers.mapping import EventMapping, mapping_of
from consumers.probe_signing import ProbePolicy
from consumers.shard import Codecs
from monitor.core.counts.cells import atom_text
from monitor.core.counts.coding import CodingHistory
from monitor.core.probes.rounds import DeclaredSet
from monitor.core.publish.limitations import Limitation
from monitor.core.publish.side_by_side import version_groups
from monitor.core.quiet_times import QuietTime
from monitor.core.time import DAY, HOUR, SECOND, Grain, to_micros
from monitor.errors import SettingsError
from monitor.evaluate.backtest import BacktestPolicy
from monitor.evaluate.evaluator import Evaluator
from monitor.evaluate.policy import EvaluatorPolicy
from monitor.id_key import BEGINNING, IdKey
from monitor.ports import Clock, RecordSource
from monitor.records import Shard, Start
from monitor.reports import AttributeFacts, ReportFacts, UseCaseFacts
from monitor.settings import (
    ProbesSettings,
    Settings,
    contract_numbers,
    contract_record,
    duration_text,
)
from monitor.settings.as_text import mapping_texts, settings_digest
from monitor.settings.checks import is_loopback
from monitor.settings.kinds import ALWAYS_QUIET, ENDS, Beginning
from monitor.settings.paths import SQLITE
from monitor.settings.problems import Problems
from monitor.settings.sections import (
    ANYBODY,
    AttributeSettings,
    MappingSettings,
    Operations,
    SchemaRegistrySettings,
    Security,
    StreamSettings,
    UseCase,
)
from monitor.store import database
from monitor.store.codings import Codings
from monitor.store.dictionary_rows import live_versions
from monitor.store.evaluator.records import ContractRecord, RecordStore
from monitor.store.evaluator.store import EvaluatorStore
from monitor.store.id_keys import IdKeys
from monitor.store.ingest.ingest_store import IngestStore
from monitor.store.retired import ConfiguredTopics, RetiredTopics
from monitor.store.upkeep.last_settings import LastSettings
from monitor.store.upkeep.published_reader import PublishedReader
from monitor.store.upkeep.retention_guard import RetentionPolicy
from monitor.store.upkeep.service_health import HealthPolicy
from monitor.version import program_version

# Kafka clients and web server are imported where they are used: most commands do not need them, and
# importing them is a third of the start.
if TYPE_CHECKING:
    from alerts.http import Find, HealthChecks, HttpConfig, Servers
    from consumers.receiving import EventJudge, EventReceiver
    from consumers.sources.event_log import EventLog
    from consumers.sources.inbox import Inbox
    from consumers.sources.kafka_admin import KafkaConnection
    from consumers.sources.kafka_preflight import Need
    from consumers.sources.kafka_writer import KafkaWriter
    from consumers.sources.librdkafka_source import RdkafkaSource
    from consumers.wire import AvroMessages, SchemaRegistry
    from monitor.web import Site, SiteFacts

ACCESS_TIMEOUT = 4.0  # seconds; short, so that a silent broker is reported soon
DEDUPE_WINDOW = HOUR
"""Event time for which a copy in the same partition is recognised: producers retry for minutes, and
each decision takes ten bytes of a worker's memory."""
FLUSH_SECONDS = 2.0
"""Longest time until counts are stored; a transaction more often costs more than it brings."""
DEAD_LETTERS_KEPT = 7 * DAY
"""Time for which the places and reasons of unreadable events are kept, to repair a producer."""
WRITE_SECONDS = 8.0
"""Time for the broker to write a batch received over HTTP; after it the client sends again."""


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


def topics(settings: Settings) -> ConfiguredTopics:
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
    retired = RetiredTopics(engine).keep(topics(settings), clock.now())
    return [*retired, *LastSettings(engine).keep(remembered(settings))]


def kafka_arguments(security: Security) -> dict[str, object]:
    """Return the security settings as arguments of the Kafka client; unset ones are left out."""
    arguments = {
        "security_protocol": security.protocol,
        "sasl_mechanism": security.sasl_mechanism,
        "sasl_plain_username": security.username,
        "sasl_plain_password": security.password.reveal() if security.password else None,
        "ssl_cafile": security.ca_file,
        "ssl_certfile": security.cert_file,
        "ssl_keyfile": security.key_file,
    }
    return {name: value for name, value in arguments.items() if value is not None}


def kafka_connection(settings: Settings) -> KafkaConnection:
    """Return the addresses and credentials of the brokers as a KafkaConnection; open nothing."""
    from consumers.sources.kafka_admin import KafkaConnection  # noqa: PLC0415 - slow to load

    stream = settings.stream
    return KafkaConnection(stream.bootstrap_servers, security=kafka_arguments(stream.security))


def check_access(settings: Settings, *, writes: bool = False) -> None:
    """Raise AccessError unless a broker lets us read the topics, and write if ``writes`` is set.

    With ``writes`` it also checks access to what is written: events that come over HTTP. An
    embedded run needs no broker.
    """
    if settings.stream.embedded:
        return
    need = _need(settings.stream)
    if writes and settings.server.producers:
        need = replace(need, written=need.topics)
    replace(kafka_connection(settings), timeout=ACCESS_TIMEOUT).check_access(need)


def _need(stream: StreamSettings) -> Need:
    """Return the topics and the consumer group that a worker needs rights for."""
    from consumers.sources.kafka_preflight import Need  # noqa: PLC0415 - slow to load

    return Need(stream.topics, stream.group_id)


def ask_ends(settings: Settings, shards: Collection[Shard]) -> dict[Shard, int]:
    """Return the end offset of each partition, asked of the broker by a separate client.

    Raises:
        SourceError: no answer within moments.
    """
    from consumers.sources import kafka_admin  # noqa: PLC0415 - slow to load

    connection = replace(kafka_connection(settings), timeout=ACCESS_TIMEOUT)
    connection.check_access()
    return kafka_admin.ask_ends(connection, shards)


def event_folder(settings: Settings) -> Path:
    """Return the folder of an embedded run's events, beside its SQLite database."""
    database_file = Path(settings.store.url.removeprefix(SQLITE))
    return database_file.with_name(f"{database_file.stem}-events")


def open_log(settings: Settings, clock: Clock) -> EventLog:
    """Return the event log of an embedded run, opened for this process alone.

    Raises:
        SourceError: another process has it open, or its file cannot be used.
    """
    from consumers.sources.event_log import EventLog  # noqa: PLC0415 - embedded runs only

    path = event_folder(settings) / "log.db"
    return EventLog(path, dict.fromkeys(settings.stream.topics, 1), clock.now)


def log_source(settings: Settings, log: EventLog) -> RecordSource:
    """Return the source that reads an event log, and deletes events older than the horizon."""
    from consumers.sources.log_source import LogSource  # noqa: PLC0415 - embedded runs only

    return LogSource(log, settings.stream.topics, settings.stream.horizon)


def open_inbox(settings: Settings, log: EventLog, judge: EventJudge) -> Inbox:
    """Return the inbox whose files go into an event log; its folder is created.

    Raises:
        SourceError: the folder cannot be created.
    """
    from consumers.sources.inbox import Inbox  # noqa: PLC0415 - embedded runs only

    return Inbox(
        event_folder(settings) / "inbox",
        log,
        settings.stream.topics,
        judge.explain,
        mapped=bool(settings.mapping.labels.fields),
    )


def kafka_source(settings: Settings) -> RecordSource:
    """Check access, and return the record source made with the Kafka client of the settings."""
    from consumers.sources.kafka_source import KafkaSource  # noqa: PLC0415 - slow to load

    stream, connection = settings.stream, kafka_connection(settings)
    source = _rdkafka_source() if stream.client == "librdkafka" else KafkaSource
    # Without this check the clients report refused access late, in many lines, or never.
    connection.check_access(_need(stream))
    return source(
        connection,
        stream.topics,
        stream.group_id,
        group_instance_id=stream.instance,
        session_timeout=stream.session_timeout / SECOND,
    )


def _rdkafka_source() -> type[RdkafkaSource]:
    """Return the source class of librdkafka; an error if its package is not installed."""
    try:
        from consumers.sources.librdkafka_source import RdkafkaSource  # noqa: PLC0415 - optional
    except ImportError as error:
        raise SettingsError(
            'stream.client: "librdkafka" needs a package that is not installed; '
            'pip install "slicewatch[librdkafka]", or set "kafka-python"'
        ) from error
    return RdkafkaSource


def schema_registry(settings: Settings) -> SchemaRegistry | None:
    """Return a client of the Avro schema registry; None if all messages are JSON.

    Raises:
        SettingsError: the package that reads Avro is not installed.
        AccessError: a file named in the settings cannot be used.
    """
    registry = settings.stream.schema_registry
    if registry.url is None:
        return None
    try:
        from consumers.wire import RegistryAccess, SchemaRegistry  # noqa: PLC0415 - optional
    except ImportError as error:
        raise SettingsError(
            "stream.schema_registry: Avro needs a package that is not installed; "
            'pip install "slicewatch[avro]", or remove the section'
        ) from error
    return SchemaRegistry(
        RegistryAccess(
            url=registry.url.rstrip("/"),
            username=registry.username,
            password=registry.password.reveal() if registry.password else None,
            token=registry.token.reveal() if registry.token else None,
            ca_file=registry.ca_file,
            cert_file=registry.cert_file,
            key_file=registry.key_file,
        )
    )


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


def id_keys(settings: Settings) -> tuple[IdKey, ...]:
    """Return the settings' id keys in order of start; empty if the store makes its own key."""
    return tuple(
        IdKey(key.id, _day_start(key.from_day), key.key.reveal().encode())
        for key in settings.privacy.keys
        if key.key is not None
    )


def _day_start(day: date | None) -> int:
    return BEGINNING if day is None else to_micros(datetime.combine(day, time(), UTC))


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
        dedupe_window=DEDUPE_WINDOW,
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


def declared_sets(probes: ProbesSettings) -> list[DeclaredSet]:
    """Return a DeclaredSet for each probe set in the settings."""
    return [
        DeclaredSet(
            **msgspec.structs.asdict(declared) | {"max_flip_ratio": float(declared.max_flip_ratio)},
            reference=declared.variants[0],
        )
        for declared in probes.sets
    ]


def build_evaluator(settings: Settings, engine: sa.Engine, clock: Clock) -> Evaluator:
    """Return the evaluator of this database, with its policy taken from the settings."""
    stream = settings.stream
    policy = EvaluatorPolicy(
        owner=owner_name(),
        lease=settings.evaluate.lease,
        horizon=stream.horizon,
        lateness=stream.lateness,
        completeness=settings.evaluate.completeness,
        eras=Codings(engine).eras(settings.coding),
        contracts=settings.contracts,
        live=stream.clock == "live",
        cluster_size=settings.detection.cluster_size,
        probes=declared_sets(settings.probes),
        timezone=settings.report.timezone,
        aggregates=settings.retention.aggregates,
    )
    store = EvaluatorStore(engine, stream.decisions_topic)
    return Evaluator(store, policy, clock)


def backtest_policy(
    settings: Settings, engine: sa.Engine, since: int | None, until: int | None
) -> BacktestPolicy:
    """Return the BacktestPolicy that tries these contracts on cohorts from since to until."""
    return BacktestPolicy(
        contracts=settings.contracts,
        eras=Codings(engine).eras(settings.coding),
        completeness=settings.evaluate.completeness,
        cluster_size=settings.detection.cluster_size,
        since=since,
        until=until,
    )


def retention_policy(settings: Settings) -> RetentionPolicy:
    """Return the retention periods of stored rows, taken from the settings."""
    return RetentionPolicy(
        horizon=settings.stream.horizon,
        aggregates=settings.retention.aggregates,
        dead_letters=DEAD_LETTERS_KEPT,
        snapshots=settings.retention.aggregates,
        dedupe_window=DEDUPE_WINDOW,
    )


def health_policy(settings: Settings, pace: float = 1.0) -> HealthPolicy:
    """Return the HealthPolicy by which the whole service is judged: topics, lateness, quiet times.

    Args:
        settings: settings of the service.
        pace: seconds of event time per second; more than 1 only in a simulation.
    """
    stream = settings.stream
    return HealthPolicy(
        live=stream.clock == "live",
        lateness=stream.lateness,
        topics=stream.topics,
        pace=pace,
        expects_decisions=stream.expects_decisions,
        quiet=[QuietTime.named(text) for text in stream.quiet if text != ALWAYS_QUIET],
        zone=settings.report.timezone,
    )


def build_servers(
    settings: Settings,
    exporter: Exporter,
    health: HealthChecks,
    clock: Clock,
    *,
    snapshots: Find | None = None,
    site: Site | None = None,
    receiver: EventReceiver | None = None,
) -> Servers:
    """Return the HTTP servers, not yet started: one for metrics and pages, one for operations."""
    from alerts.http import HttpConfig, PortViews, Servers  # noqa: PLC0415 - slow to load
    from consumers.receiving import PATH  # noqa: PLC0415 - slow to load

    server = settings.server
    config = HttpConfig(
        host=server.host,
        port=server.port,
        tokens={name: token.reveal() for name, token in server.all_tokens.items()},
        cert_file=_path(server.tls_cert_file),
        key_file=_path(server.tls_key_file),
        client_ca_file=_path(server.client_ca_file),
        insecure=server.insecure,
        responders=server.responders,
        producers=producers(settings),
        origins=(_origin(settings.alerting.external_url),),
    )
    operations = _operations(server.operations)
    pages = PortViews(
        read=site.views() if site else {},
        forms=site.forms() if site else {},
        events={PATH: receiver.view} if receiver else {},
    )
    return Servers(config, operations, exporter, health, clock, snapshots=snapshots, pages=pages)


def producers(settings: Settings) -> tuple[str, ...]:
    """Return who may send events over HTTP: those named, or anybody to an open embedded run."""
    server = settings.server
    is_open = is_loopback(server.host) and not server.requires_credentials
    takes_events = settings.stream.embedded and settings.mapping == MappingSettings()
    return server.producers or ((ANYBODY,) if is_open and takes_events else ())


def build_receiver(
    settings: Settings, metrics: Observer, judge: EventJudge, log: EventLog | None = None
) -> EventReceiver | None:
    """Return the receiver of events over HTTP, into Kafka or ``log``; None without producers."""
    if not producers(settings):
        return None
    from consumers.receiving import EventReceiver  # noqa: PLC0415 - slow to load

    return EventReceiver(
        judge, log or kafka_writer(settings), settings.stream.topics, metrics.add_unreadable
    )


def event_judge(settings: Settings, clock: Clock, reached: Callable[[bool], int]) -> EventJudge:
    """Return the judge of events, which asks ``reached`` for the event time of their topic."""
    from consumers.receiving import EventJudge  # noqa: PLC0415 - slow to load

    return EventJudge(checking_codecs(settings), clock.now, reached)


def kafka_writer(settings: Settings) -> KafkaWriter:
    """Return a writer to both topics, which connects when it is first used."""
    from consumers.sources.kafka_writer import KafkaWriter  # noqa: PLC0415 - slow to load

    connection = replace(kafka_connection(settings), timeout=ACCESS_TIMEOUT)
    return KafkaWriter(connection, settings.stream.topics, WRITE_SECONDS)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def build_site(
    settings: Settings,
    engine: sa.Engine,
    clock: Clock,
    blind: Callable[[], Sequence[str]],
    exporter: Exporter,
) -> Site:
    """Return the status page and API; ``blind()`` returns the reasons why the service is blind."""
    from monitor.web import Site  # noqa: PLC0415 - slow to load

    published, facts = PublishedReader(engine, settings.stream.topics), _site_facts(settings)
    conditions = Conditions(settings, facts.runbooks_url, exporter, clock).standing
    return Site(published, facts, blind=blind, conditions=conditions, now=clock.now)


def _site_facts(settings: Settings) -> SiteFacts:
    """Return what pages and reports say of the installation, from the settings."""
    from monitor.web import SiteFacts  # noqa: PLC0415 - slow to load

    alerting = settings.alerting
    base = alerting.runbooks_url if alerting.runbooks else "/runbooks"
    return SiteFacts(
        version=program_version(),
        limitations=_limitations(settings),
        dashboard_url=dashboards.address(settings, "fleet"),
        slice_dashboard_url=dashboards.address(settings, "slice"),
        runbooks_url=base,
        runbooks={metric: f"{base}/{name}.md" for metric, name in breach_runbooks().items()},
        runbook_texts=cache(lambda: runbooks(settings)),
        versions=tuple(version_groups(settings.contracts, settings.coding)),
        report=report_facts(settings),
        lateness=settings.stream.lateness,
    )


def report_facts(settings: Settings) -> ReportFacts:
    """Return the facts of the settings that a weekly report shows."""
    return ReportFacts(
        program=f"slicewatch {program_version()}",
        use_cases=tuple(map(_use_case_facts, settings.use_case)),
        attributes=tuple(sorted(map(_attribute_facts, settings.attribute), key=lambda a: a.name)),
        audit_rates=settings.coding.audit_rates,
        score_bands=settings.coding.band_names,
        horizon_days=settings.stream.horizon / DAY,
        limitations=_limitations(settings),
        present_threshold=settings.report.present_threshold,
        status_url=_status_url(settings.alerting.external_url),
        dashboard_url=dashboards.address(settings, "fleet"),
        settings_digest=settings_digest(settings),
        timezone=settings.report.timezone,
    )


def _status_url(url: str) -> str:
    """Return the status page's address without a trailing slash; empty for a loopback host."""
    return "" if is_loopback(urlsplit(url).hostname or "") else url.rstrip("/")


def _use_case_facts(use_case: UseCase) -> UseCaseFacts:
    contract = use_case.contract
    return UseCaseFacts(
        name=use_case.name,
        owner=use_case.owner,
        context=use_case.context,
        version=contract.version,
        effective=contract.effective,
        reason=contract.reason,
        where=atom_text(use_case.where) if use_case.where else "",
        compared=tuple((g.name, g.reference) for g in use_case.to_core().group_bys),
    )


def _attribute_facts(attribute: AttributeSettings) -> AttributeFacts:
    return AttributeFacts(
        name=attribute.name,
        values=attribute.listed,
        definition=attribute.definition,
        source="version" if attribute.version_of else attribute.source,
        purpose=attribute.purpose,
        approved_by=attribute.owner,
        special_category=attribute.special_category,
        target=tuple((value, float(share)) for value, share in sorted(attribute.target.items())),
    )


def _limitations(settings: Settings) -> tuple[Limitation, ...]:
    return tuple(Limitation(**msgspec.structs.asdict(declared)) for declared in settings.limitation)


def _operations(operations: Operations) -> HttpConfig | None:
    """Return the HTTP settings of the port for health and own metrics; None without that port."""
    if operations.port is None:
        return None
    from alerts.http import HttpConfig  # noqa: PLC0415 - slow to load

    return HttpConfig(
        host=operations.host, port=operations.port, slices=False, section="server.operations"
    )


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None
