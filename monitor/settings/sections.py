"""Settings as frozen values: sections, attributes, and use cases with contracts.

deploy/slicewatch.reference.toml describes each option; a test keeps the two in step.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time
from fractions import Fraction
from math import ceil
from typing import ClassVar, Literal
from unicodedata import normalize

from msgspec import Struct, field

from monitor.core.bias_scores import BiasDimension
from monitor.core.contract import (
    COMPLEMENT,
    DEFAULT_PAGE_ON,
    LIMITED_METRICS,
    MAX_UNJUDGED,
    Contract,
    GroupBy,
    Limits,
    OwnLimits,
)
from monitor.core.counts.cells import atom_text, parse_atom
from monitor.core.counts.coding import DEFAULT_SCORE_BANDS, Attribute, Coding, range_names
from monitor.core.time import DAY, MINUTE, SECOND, WINDOWS, to_micros
from monitor.settings.kinds import (
    ALWAYS_QUIET,
    ENDS,
    Address,
    AnyDuration,
    AttributeName,
    AuditRate,
    Beginning,
    BiasLimit,
    Count,
    DatabaseUrl,
    Digest,
    Divisor,
    Drift,
    Duration,
    Edge,
    ElsewhereFile,
    File,
    Hours,
    Interval,
    Limit,
    Listen,
    Name,
    Quiet,
    Ratio,
    Score,
    Secret,
    SessionTimeout,
    Share,
    SmallCount,
    Term,
    Text,
    TimeZone,
    Topic,
    Url,
    Value,
    WebUrl,
    host_of,
    port_of,
)

DEFAULT_DATABASE = Url("sqlite:///slicewatch.db")
"""Database file next to the settings file."""
SINGLE_KEY = "default"
"""Name of the key in ``privacy.id_key``, without a list of keys."""
STORE_KEY = "store"
"""Name of the key that a store creates itself if all use cases are test conditions."""
DEFAULT_READER = "default"
"""Name of the token in ``server.token``, in the access log."""
ANYBODY = "anonymous"
"""Name of a reader without credentials, if none are required."""
IF_LABELLED = "if_labelled"
"""Constant of ``label_requested`` for logs that do not say whose label was requested."""
LEAST_LEASE = 30 * SECOND
"""Shortest lease: a slow transaction of a healthy evaluator must not cost it its right."""


class SettingsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all tables of the settings file; the fields of a subclass are its keys."""


class Login(SettingsSection, frozen=True, kw_only=True):
    """Options of a connection to another server: user, password and TLS files."""

    username: Text | None = None
    password: Secret | None = None
    ca_file: File | None = None
    cert_file: File | None = None
    key_file: File | None = None


class Security(Login, frozen=True, kw_only=True):
    """Section ``[stream.security]``: protocol, login and TLS files of the Kafka connection."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None

    @property
    def sasl(self) -> bool:
        """True when the protocol has a login (SASL)."""
        return self.protocol.startswith("SASL")

    @property
    def tls(self) -> bool:
        """True when the protocol encrypts the connection (TLS)."""
        return self.protocol.endswith("SSL")


class SchemaRegistrySettings(Login, frozen=True, kw_only=True):
    """Section ``[stream.schema_registry]``: address, login and TLS files of the Avro registry."""

    url: WebUrl | None = None
    token: Secret | None = None


class StreamSettings(SettingsSection, frozen=True, kw_only=True):
    """Section ``[stream]``: broker, topics, formats and rules of event time; durations in us."""

    bootstrap_servers: tuple[Address, ...] = ("localhost:9092",)
    decisions_topic: Topic = "decisions"
    labels_topic: Topic = "labels"
    group_id: Name = "slicewatch"
    instance: Name | None = None
    client: Literal["kafka-python", "librdkafka", "embedded"] = "kafka-python"
    clock: Literal["live", "history"] = "live"
    start: Beginning = Beginning("earliest")
    horizon: Term = Duration(30 * DAY)
    lateness: AnyDuration = Duration(10 * MINUTE)
    session_timeout: SessionTimeout = Duration(45 * SECOND)
    score_bands: tuple[Score, ...] = DEFAULT_SCORE_BANDS
    quiet: tuple[Quiet, ...] = ()
    security: Security = field(default_factory=Security)
    schema_registry: SchemaRegistrySettings = field(default_factory=SchemaRegistrySettings)

    @property
    def topics(self) -> tuple[str, str]:
        """Names of the topics of decisions and of labels."""
        return self.decisions_topic, self.labels_topic

    @property
    def embedded(self) -> bool:
        """True when events come over HTTP and from a folder, and no Kafka is needed."""
        return self.client == "embedded"

    @property
    def start_micros(self) -> int | None:
        """``start`` in microseconds since 1970 UTC; None if it is ``earliest`` or ``latest``."""
        if self.start in ENDS:
            return None
        return to_micros(datetime.fromisoformat(self.start))

    @property
    def format(self) -> Literal["json", "avro"]:
        """Return ``avro`` with a schema registry, whose wire format messages may have then."""
        return "json" if self.schema_registry.url is None else "avro"

    @property
    def expects_decisions(self) -> bool:
        """Return False when decisions may always stay away, so that silence is no fault."""
        return ALWAYS_QUIET not in self.quiet


class EventMappingSettings(SettingsSection, frozen=True, kw_only=True):
    """Mapping of one log's messages to events by field, value and constant; empty for events."""

    fields: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    times: Text = "milliseconds"
    time_zone: TimeZone | None = None


class DecisionMappingSettings(EventMappingSettings, frozen=True, kw_only=True):
    """Mapping of one log's messages to decisions, with what an old log says otherwise."""

    divide: dict[str, Divisor] = field(default_factory=dict)
    audit_p: dict[str, AuditRate] = field(default_factory=dict)

    @property
    def requested_if_labelled(self) -> bool:
        """Return True when a label in the files says that it was requested."""
        return self.constants.get("label_requested") == IF_LABELLED


class MappingSettings(SettingsSection, frozen=True, kw_only=True):
    """Section ``[mapping]``: mappings of messages that are no events to decisions and labels."""

    decisions: DecisionMappingSettings = field(default_factory=DecisionMappingSettings)
    labels: EventMappingSettings = field(default_factory=EventMappingSettings)


class StoreSettings(SettingsSection, frozen=True, kw_only=True):
    """Section ``[store]``: URL of the database that holds counts, positions and Snapshots."""

    url: DatabaseUrl = DEFAULT_DATABASE


class Evaluate(SettingsSection, frozen=True, kw_only=True):
    """Section ``[evaluate]``: interval between two evaluations."""

    cycle: Interval = Duration(10 * SECOND)

    completeness: ClassVar = Fraction("0.95")
    """Share of the requested labels from which a cohort is complete: a few never come, and without
    them no cohort would mature; with much fewer, late labels would change a rate after its test."""

    @property
    def lease(self) -> Duration:
        """Time until another evaluator takes over from a silent one: three missed cycles."""
        return Duration(max(LEAST_LEASE, 3 * self.cycle))


class DetectionSettings(SettingsSection, frozen=True, kw_only=True):
    """Section ``[detection]``: cluster size that the sequential tests assume."""

    cluster_size: SmallCount = 1


class IdKeySettings(SettingsSection, frozen=True, kw_only=True):
    """Entry of ``privacy.id_keys``: name, key, and the first UTC day whose ids it hashes."""

    id: Name
    key: Secret | None = None
    from_day: date | None = None


class Privacy(SettingsSection, frozen=True, kw_only=True):
    """Section ``[privacy]``: smallest cell that may be shown (k), and keys that hash ids."""

    k: Count = 11
    id_key: Secret | None = None
    id_keys: tuple[IdKeySettings, ...] = ()

    @property
    def keys(self) -> tuple[IdKeySettings, ...]:
        """Id keys, oldest first: the list of ``id_keys``, or the single ``id_key``."""
        if self.id_key is None:
            return self.id_keys
        return (IdKeySettings(id=SINGLE_KEY, key=self.id_key),)


class Retention(SettingsSection, frozen=True, kw_only=True):
    """Section ``[retention]``: time (us) for which published numbers are kept."""

    aggregates: Term = Duration(395 * DAY)


class Token(SettingsSection, frozen=True, kw_only=True):
    """Entry of ``[[server.tokens]]``: a reader's bearer token, and name in the access log."""

    name: Name
    token: Secret | None = None


class Operations(SettingsSection, frozen=True, kw_only=True):
    """Section ``[server.operations]``: port for probes and own metrics; off without a number."""

    listen: Listen | None = None

    @property
    def host(self) -> str:
        """Host or address to listen on; empty without a second port."""
        return host_of(self.listen or ":0")

    @property
    def port(self) -> int | None:
        """Port to listen on; None without a second port."""
        return None if self.listen is None else port_of(self.listen)


class Server(SettingsSection, frozen=True, kw_only=True):
    """Section ``[server]``: address, TLS, tokens and roles for metrics, pages and events."""

    listen: Listen = "127.0.0.1:9095"
    tls_cert_file: File | None = None
    tls_key_file: File | None = None
    client_ca_file: File | None = None
    token: Secret | None = None
    insecure: bool = False
    tokens: tuple[Token, ...] = ()
    responders: tuple[Text, ...] = ()
    producers: tuple[Text, ...] = ()
    operations: Operations = field(default_factory=Operations)

    @property
    def host(self) -> str:
        """Host or address to listen on, without brackets."""
        return host_of(self.listen)

    @property
    def port(self) -> int:
        """Port to listen on; 0 takes a free one."""
        return port_of(self.listen)

    @property
    def tls(self) -> bool:
        """True when the port speaks HTTPS, that is a certificate is set."""
        return self.tls_cert_file is not None

    @property
    def all_tokens(self) -> dict[str, Secret]:
        """Tokens that are set, by name; the token without a name is called DEFAULT_READER."""
        tokens = {DEFAULT_READER: self.token} | {
            reader.name: reader.token for reader in self.tokens
        }
        return {name: token for name, token in tokens.items() if token is not None}

    @property
    def requires_credentials(self) -> bool:
        """Return True when readers must present a token or a client certificate."""
        return bool(self.all_tokens) or self.client_ca_file is not None


class ProbeSetSettings(SettingsSection, frozen=True, kw_only=True):
    """Entry of ``[[probes.sets]]``: declared set with digest, interval, variants and limit."""

    name: Name
    digest: Digest
    pairs: Count
    variants: tuple[Name, ...]
    every: Term = Duration(DAY)
    max_flip_ratio: Limit = Fraction("0.05")


class ProbesSettings(SettingsSection, frozen=True, kw_only=True):
    """Section ``[probes]``: key and declared sets of matched-pair test traffic."""

    key: Secret | None = None
    sets: tuple[ProbeSetSettings, ...] = ()


class BiasDimensionSettings(SettingsSection, frozen=True, kw_only=True):
    """Entry of ``[[bias_dimension]]``: dimension with results on the labels topic, and limit."""

    name: Name
    limit: BiasLimit | None = None
    at_least: bool = False
    drift: Drift = 0.03
    max_age: Term | None = None

    def to_core(self) -> BiasDimension:
        """Return the engine's BiasDimension of this entry; it counts whole days."""
        max_age = None if self.max_age is None else ceil(self.max_age / DAY)
        return BiasDimension(self.name, self.limit, self.at_least, self.drift, max_age)


class JudgeCategory(SettingsSection, frozen=True, kw_only=True):
    """Entry of ``[[judge.categories]]``: own words of a category, or none to leave it out."""

    name: Name
    description: str | None = None


class JudgeSettings(SettingsSection, frozen=True, kw_only=True):
    """Section ``[judge]``: topics, language model and budget of ``slicewatch judge``."""

    url: WebUrl | None = None
    model: Text | None = None
    api_key: Secret | None = None
    outputs_topic: Topic = "outputs"
    judgements_topic: Topic = "judgements"
    decisions_topic: Topic | None = None
    requests_per_day: Count = 10_000
    audit_p: AuditRate = 0.05
    listen: Listen = "127.0.0.1:9096"
    categories: tuple[JudgeCategory, ...] = ()


class Receiver(SettingsSection, frozen=True, kw_only=True):
    """Receiver of one alert route: URLs, and files with secrets that Alertmanager reads."""

    webhook_url: WebUrl | None = None
    webhook_token_file: ElsewhereFile | None = None
    chat_url_file: ElsewhereFile | None = None

    @property
    def notifies(self) -> bool:
        """True when a webhook or a chat is set, so that somebody is notified."""
        return self.webhook_url is not None or self.chat_url_file is not None


class Alerting(SettingsSection, frozen=True, kw_only=True):
    """Section ``[alerting]``: input of ``slicewatch render`` for rules, routes and runbooks."""

    external_url: WebUrl = "http://localhost:9095"
    runbooks: WebUrl | None = None
    office_hours: tuple[Hours, ...] = ("monday-friday 09:00-17:00",)
    page: Receiver = field(default_factory=Receiver)
    ticket: Receiver = field(default_factory=Receiver)
    visible: Receiver = field(default_factory=Receiver)
    deadman: Receiver = field(default_factory=Receiver)

    @property
    def runbooks_url(self) -> str:
        """Return the address of the runbooks: by default, where this service shows them."""
        return (self.runbooks or f"{self.external_url.rstrip('/')}/runbooks").rstrip("/")

    @property
    def receivers(self) -> dict[str, Receiver]:
        """Receivers by alert route: page, ticket, visible and deadman."""
        names = ("page", "ticket", "visible", "deadman")
        return {name: getattr(self, name) for name in names}


class LimitationSettings(SettingsSection, frozen=True, kw_only=True):
    """Entry of ``[[limitation]]``: known limitation with its owner; pages and reports show it."""

    text: Text
    owner: Text


class Links(SettingsSection, frozen=True, kw_only=True):
    """Section ``[links]``: addresses of other views of the same numbers, such as Grafana."""

    grafana: WebUrl | None = None


class ReportSettings(SettingsSection, frozen=True, kw_only=True):
    """Section ``[report]``: time zone and present threshold of weekly reports."""

    timezone: TimeZone = "UTC"
    present_threshold: Score | None = None


Source = Literal[
    "declared",
    "inferred",
    "device",
    "judge_version",
    "rubric_version",
    "policy_version",
    "router_version",
]
_VERSION = "_version"


class AttributeSettings(SettingsSection, frozen=True, kw_only=True):
    """Entry of ``[[attribute]]``: allow-listed attribute, its values, source and approval.

    It has either ``values`` or ``ranges``; decisions are coded with their names.
    """

    name: AttributeName
    values: tuple[Value, ...] = ()
    aliases: dict[str, str] = field(default_factory=dict)
    ranges: tuple[Edge, ...] = ()
    definition: str = ""
    source: Source = "declared"
    purpose: str = ""
    special_category: bool = False
    owner: str = ""
    retention: Term | None = None
    target: dict[str, Share] = field(default_factory=dict)

    def to_core(self) -> Attribute:
        """Return the engine's Attribute, by which decisions are coded."""
        aliases = tuple(sorted(self.aliases.items()))
        return Attribute(self.name, self.listed, self.version_of, aliases, self.ranges)

    @property
    def version_of(self) -> str | None:
        """Part of the router whose version is the value; None if the event has the value."""
        part = self.source.removesuffix(_VERSION)
        return None if part == self.source else part

    @property
    def listed(self) -> tuple[str, ...]:
        """Values of the attribute after coding: those listed, or the names of the ranges."""
        return range_names(self.ranges) if self.ranges else self.values


class GroupBySettings(SettingsSection, frozen=True, kw_only=True):
    """Entry of ``use_case.group_bys``: attributes whose slices are compared, and the reference."""

    attributes: tuple[AttributeName, ...]
    reference: Text = COMPLEMENT

    def to_core(self) -> GroupBy:
        """Return the engine's GroupBy, with sorted names in the attributes and in the reference."""
        reference = self.reference
        if reference != COMPLEMENT:
            reference = atom_text(parse_atom(normalize("NFC", reference)))
        return GroupBy(tuple(sorted(self.attributes)), reference)


class ContractSettings(SettingsSection, frozen=True, kw_only=True):
    """Section ``use_case.contract``: inclusive limits in rate units (0.10 is ten points).

    The default numbers 0.10 / 0.10 / 50 / 30 are product decisions that need an owner, not
    definitions of fairness: a smaller gap can still be wrong, and a larger one can be right.
    """

    version: Name
    effective: date
    reason: Text
    page_on: tuple[Name, ...] | None = None
    max_tpr_gap: Limit = Fraction("0.10")
    max_fpr_gap: Limit = Fraction("0.10")
    max_blocked_gap: Limit | None = None
    max_selection_gap: Limit | None = None
    min_selection_ratio: Ratio | None = None
    max_precision_gap: Limit | None = None
    min_tpr: Limit | None = None
    max_fpr: Limit | None = None
    min_positives: Count = 50
    min_negatives: Count = 30
    window: str = "7d"

    @property
    def limits(self) -> Limits:
        """Limits of this section as the engine's Limits."""
        return Limits(
            max_tpr_gap=self.max_tpr_gap,
            max_fpr_gap=self.max_fpr_gap,
            max_blocked_gap=self.max_blocked_gap,
            max_selection_gap=self.max_selection_gap,
            min_selection_ratio=self.min_selection_ratio,
            max_precision_gap=self.max_precision_gap,
            min_tpr=self.min_tpr,
            max_fpr=self.max_fpr,
            min_positives=self.min_positives,
            min_negatives=self.min_negatives,
        )


class OwnLimitSettings(SettingsSection, frozen=True, kw_only=True):
    """Entry of ``use_case.limit``: limits of a group-by or a slice, in place of the contract's.

    The most specific limit applies. It may be tighter or looser than the contract's, or apply to a
    metric without a limit in the contract.
    """

    group_by: tuple[AttributeName, ...]
    slice: str = ""
    max_tpr_gap: Limit | None = None
    max_fpr_gap: Limit | None = None
    max_blocked_gap: Limit | None = None
    max_selection_gap: Limit | None = None
    min_selection_ratio: Ratio | None = None
    max_precision_gap: Limit | None = None
    min_tpr: Limit | None = None
    max_fpr: Limit | None = None

    @property
    def numbers(self) -> tuple[tuple[str, Fraction], ...]:
        """Pairs (name, limit) of the limits that are set."""
        limits = ((name, getattr(self, name)) for name in LIMITED_METRICS)
        return tuple((name, value) for name, value in limits if value is not None)

    def to_core(self) -> OwnLimits:
        """Return the engine's OwnLimits, with sorted names in the group-by and in the slice."""
        text = atom_text(parse_atom(normalize("NFC", self.slice))) if self.slice else ""
        return OwnLimits("+".join(sorted(self.group_by)), text, self.numbers)


class UseCase(SettingsSection, frozen=True, kw_only=True):
    """Entry of ``[[use_case]]``: a use of the router, with its owner, filter and contract.

    After loading, ``k`` is never None: ``privacy.k`` has been filled in.
    """

    name: Name
    owner: Text
    contract: ContractSettings
    context: str = ""
    review_cadence: Term = Duration(90 * DAY)
    synthetic: bool = False
    k: Count | None = None
    where: dict[str, str] = field(default_factory=dict)
    group_bys: tuple[GroupBySettings, ...]
    limit: tuple[OwnLimitSettings, ...] = ()

    def to_core(self) -> Contract:
        """Return the engine's Contract; the use case must come from ``load``, which sets ``k``."""
        assert self.k is not None, "load() fills k in"  # noqa: S101 - an invariant of load
        effective = datetime.combine(self.contract.effective, time(), UTC)
        return Contract(
            name=self.name,
            version=self.contract.version,
            owner=self.owner,
            limits=self.contract.limits,
            window=self.contract.window,
            group_bys=tuple(group_by.to_core() for group_by in self.group_bys),
            synthetic=self.synthetic,
            k=self.k,
            where=tuple(sorted(self.where.items())),
            effective=to_micros(effective),
            review_due=to_micros(effective) + self.review_cadence,
            # One table may be missing, as of a holiday; older rates are nobody's present.
            max_age=2 * WINDOWS[self.contract.window].length,
            own_limits=tuple(limits.to_core() for limits in self.limit),
            page_on=DEFAULT_PAGE_ON if self.contract.page_on is None else self.contract.page_on,
        )


class Settings(SettingsSection, frozen=True, kw_only=True):
    """Complete settings of slicewatch, created by :func:`monitor.settings.load`."""

    stream: StreamSettings = field(default_factory=StreamSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    evaluate: Evaluate = field(default_factory=Evaluate)
    detection: DetectionSettings = field(default_factory=DetectionSettings)
    privacy: Privacy = field(default_factory=Privacy)
    retention: Retention = field(default_factory=Retention)
    server: Server = field(default_factory=Server)
    alerting: Alerting = field(default_factory=Alerting)
    links: Links = field(default_factory=Links)
    probes: ProbesSettings = field(default_factory=ProbesSettings)
    judge: JudgeSettings = field(default_factory=JudgeSettings)
    report: ReportSettings = field(default_factory=ReportSettings)
    mapping: MappingSettings = field(default_factory=MappingSettings)
    limitation: tuple[LimitationSettings, ...] = ()
    bias_dimension: tuple[BiasDimensionSettings, ...] = ()
    attribute: tuple[AttributeSettings, ...] = ()
    use_case: tuple[UseCase, ...] = ()

    @property
    def coding(self) -> Coding:
        """Coding of decisions into cells: attributes sorted by name, and score bands."""
        attributes = sorted((a.to_core() for a in self.attribute), key=lambda a: a.name)
        return Coding(tuple(attributes), self.stream.score_bands)

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """Contracts, one per use case, in the order of the file."""
        judged = self.judge.decisions_topic == self.stream.decisions_topic
        most = MAX_UNJUDGED if judged else None
        return tuple(replace(use_case.to_core(), max_blocked=most) for use_case in self.use_case)
