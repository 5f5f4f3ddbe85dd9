"""Contradictions within and between the sections of the settings file.

The module also checks office hours, declared probe sets, id keys, ports, certificates and readers,
and the retention and readers of attributes of special categories.
"""

from __future__ import annotations

import os
import re
import zoneinfo
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from ipaddress import ip_address
from itertools import pairwise

from monitor.core.counts.cells import MAX_BANDS
from monitor.core.quiet_times import QuietTime
from monitor.core.time import DAY, WINDOWS, whole_hours
from monitor.settings.kinds import ALWAYS_QUIET, Duration, Secret, Url, duration_text
from monitor.settings.paths import NO_FILE, SQLITE
from monitor.settings.problems import Problems, join, problem, shown
from monitor.settings.sections import (
    ANYBODY,
    DEFAULT_READER,
    STORE_KEY,
    Alerting,
    AttributeSettings,
    IdKeySettings,
    MappingSettings,
    Privacy,
    ProbeSetSettings,
    ReportSettings,
    SchemaRegistrySettings,
    Security,
    Server,
    Settings,
    StreamSettings,
)

# One band per edge, one above the last edge, and one for decisions without a score.
MAX_EDGES = MAX_BANDS - 2
MIN_SECRET = 16
# Host, port and the rest, as the database's library reads them: everything after the first @.
_DATABASE_ADDRESS = re.compile(r"(\[[^]@/?]+\]|[^]\[:@/?]*)(:[0-9]*)?([/?][^@]*)?\Z", re.DOTALL)
_SCHEME = re.compile(r"[a-z0-9+_]{1,32}")
_SERVERS = ("postgres", "postgresql", "postgresql+psycopg")
MAX_SETS = 64
MAX_VARIANTS = 32
"""Most declared probe sets and most variants per set: every variant has sixty series."""
MAX_DIMENSIONS = 50
_LIST = "probes.sets"
HOURS_KEPT_AFTER_HORIZON = 8 * DAY
"""Time beyond the horizon for which the store always keeps hourly counts."""
_NEEDED = {
    "purpose": "what it may be used for",
    "owner": "who answers for its use",
    "retention": "how long its counts may be kept",
}
MAX_ID_KEY = 64
"""Longest key of BLAKE2b, in bytes."""
_NEW_KEY = "make one with: slicewatch db new-key FILE"
_KEYS = "privacy.id_keys"
_TAKEN = (DEFAULT_READER, ANYBODY, "unknown", "others")
"""Names that the access log itself uses for readers."""


def check_sections(settings: Settings) -> None:
    """Check all sections; raise one SettingsError with the first problem of each."""
    stream, problems = settings.stream, Problems()
    checks: tuple[Callable[[], None], ...] = (
        lambda: _check_topics(stream),
        lambda: _check_quiet(stream),
        lambda: _check_database(settings.store.url),
        lambda: _check_embedded(settings),
        lambda: _check_bands(stream.score_bands),
        lambda: _check_durations(settings),
        lambda: _check_security(stream.security),
        lambda: _check_registry(stream),
        lambda: _check_server(settings.server),
        lambda: _check_alerting(settings.alerting),
        lambda: _check_weeks(settings.report),
        lambda: _check_dimensions(settings),
        lambda: _check_mapping(settings),
    )
    for check in checks:
        with problems.collected():
            check()
    problems.raise_any()


def _check_dimensions(settings: Settings) -> None:
    """Raise SettingsError for too many bias dimensions, or two with one name."""
    names = [dimension.name for dimension in settings.bias_dimension]
    if len(names) > MAX_DIMENSIONS:
        fix = f"declare at most {MAX_DIMENSIONS}"
        raise problem("bias_dimension", f"has {len(names)} dimensions; {fix}")
    for i, name in enumerate(names):
        if name in names[:i]:
            fix = "is the name of another one, too; give each its own"
            raise problem(f"bias_dimension[{i}].name", f"{shown(name)} {fix}")


def _check_alerting(alerting: Alerting) -> None:
    """Raise SettingsError for wrong office hours, or a receiver with a token but no URL."""
    _check_office(alerting)
    for name, receiver in alerting.receivers.items():
        key = join("alerting", name)
        if receiver.webhook_token_file is not None and receiver.webhook_url is None:
            raise problem(f"{key}.webhook_url", "is missing; it goes with webhook_token_file")


def _check_mapping(settings: Settings) -> None:
    """Refuse a mapping together with HTTP producers or probe sets, because they send events."""
    if settings.mapping != MappingSettings() and settings.server.producers:
        fix = "send messages of the log to Kafka, or leave out the mapping"
        raise problem("server.producers", f"is set beside [mapping], and takes events; {fix}")
    if settings.mapping.decisions != MappingSettings().decisions and settings.probes.sets:
        fix = "probe with settings and a topic of their own"
        raise problem(_LIST, f"are set beside [mapping.decisions], and are events; {fix}")


def _check_office(alerting: Alerting) -> None:
    if not alerting.office_hours:
        raise problem("alerting.office_hours", "is empty; tickets would be sent on no day")
    for i, text in enumerate(alerting.office_hours):
        begin, _, end = text.partition(" ")[2].partition("-")
        if begin >= end:
            key = join("alerting.office_hours", i)
            raise problem(key, "ends before it begins; swap the two times")


def _check_weeks(report: ReportSettings) -> None:
    """Raise SettingsError for a report time zone that is unknown, or not whole hours from UTC."""
    fix = 'use "UTC" or a name such as "Europe/Berlin"'
    try:
        exact = whole_hours(report.timezone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        fault = f"{shown(report.timezone)} is not known here; {fix}"
        raise problem("report.timezone", fault) from None
    if not exact:
        reason = "is not a whole number of hours away from UTC, and counts are by the UTC hour"
        raise problem("report.timezone", f"{shown(report.timezone)} {reason}; {fix}")


def _check_topics(stream: StreamSettings) -> None:
    if not stream.bootstrap_servers:
        raise problem("stream.bootstrap_servers", "is empty; name at least one broker")
    if stream.decisions_topic == stream.labels_topic:
        raise problem("stream.labels_topic", "is the decisions topic too; use two topics")


def _check_database(url: Url) -> None:
    """Refuse a database URL of another kind, or one that names no file or no proper host."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        _check_database_file(url.removeprefix(SQLITE) if url.startswith(SQLITE) else "")
    elif scheme in _SERVERS:
        _check_database_address(rest)
    else:
        beginning = f"{scheme}://" if _SCHEME.fullmatch(scheme) else "another text"  # no password
        fix = "use sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        raise problem("store.url", f"begins with {beginning}, which cannot be the store; {fix}")


def _check_embedded(settings: Settings) -> None:
    """Refuse an embedded run without an SQLite database beside which it keeps its events."""
    if not settings.stream.embedded:
        return
    if not settings.store.url.startswith(SQLITE):
        fix = "use sqlite:///FILE, or read Kafka"
        raise problem("store.url", f'is no file, and stream.client is "embedded"; {fix}')
    if settings.stream.format != "json":
        reason = 'is set, and stream.client is "embedded", which takes JSON'
        raise problem("stream.schema_registry", f"{reason}; leave it out")


def _check_database_file(file: str) -> None:
    """Refuse a SQLite path that is empty, in memory, a folder, or has ``?`` or ``%`` in it."""
    if not file or file.startswith(NO_FILE):
        fix = "the store is a file on disk: use sqlite:///FILE, or sqlite:////FOLDER/FILE"
        raise problem("store.url", f"names no file; {fix}")
    if "?" in file or "%" in file:
        reason = "is the path of a file with ? or % in its name, which mean something else in a URL"
        raise problem("store.url", f"{reason}; use another name")
    if file.endswith("/") or os.path.isdir(file):
        raise problem("store.url", f"names the folder {file}; name a file in it")


def _check_database_address(rest: str) -> None:
    """Refuse an address without a proper host: a piece of the password may stand in its place."""
    address = rest.partition("@")[2] or rest
    if not _DATABASE_ADDRESS.match(address):
        fix = "write @ in a password as %40, and several hosts as ?host=A:5432&host=B:5432"
        raise problem("store.url", f"has no HOST or HOST:PORT where it belongs; {fix}")


def _check_quiet(stream: StreamSettings) -> None:
    for text in stream.quiet:
        try:
            if text != ALWAYS_QUIET:
                QuietTime.named(text)
        except ValueError:
            fix = "write dates that exist, the earlier one first, as 2026-12-24..2026-12-26"
            raise problem("stream.quiet", f"{shown(text)} is no quiet time; {fix}") from None


def _check_bands(edges: Sequence[float]) -> None:
    key = "stream.score_bands"
    if len(edges) > MAX_EDGES:
        raise problem(key, f"has {len(edges)} edges, at most {MAX_EDGES} are possible; remove some")
    if any(low >= high for low, high in pairwise(edges)):
        raise problem(key, "must increase from edge to edge; sort it and remove repeats")
    if any(f"{low:.2f}" == f"{high:.2f}" for low, high in pairwise(edges)):
        raise problem(key, "has edges that are equal at two decimals; bands are named by them")


def _check_durations(settings: Settings) -> None:
    for small_key, small, large_key, large in _duration_pairs(settings):
        if small > large:
            small_text, large_text = duration_text(small), duration_text(large)
            fix = f"lower it or raise {large_key}"
            raise problem(
                small_key, f"{small_text} is longer than {large_key} ({large_text}); {fix}"
            )


def _duration_pairs(settings: Settings) -> Iterator[tuple[str, Duration, str, Duration]]:
    """Yield (key, duration, key, duration); the first duration must not exceed the second."""
    stream, keep = settings.stream, settings.retention
    longest = Duration(max(window.length for window in WINDOWS.values()))
    yield "stream.lateness", stream.lateness, "stream.horizon", stream.horizon
    yield "the longest window", longest, "retention.aggregates", keep.aggregates
    # A label could not be folded into a row that is deleted.
    yield "stream.horizon", stream.horizon, "retention.aggregates", keep.aggregates


def _check_security(security: Security) -> None:
    key = "stream.security"
    login = {
        "sasl_mechanism": security.sasl_mechanism,
        "username": security.username,
        "password": security.password,
    }
    for name, value in login.items():
        if security.sasl and value is None:
            raise problem(f"{key}.{name}", f"is missing; {security.protocol} needs it")
        if not security.sasl and value is not None:
            fix = "use SASL_SSL or remove it"
            raise problem(f"{key}.{name}", f"has no effect with {security.protocol}; {fix}")
    if security.username is not None and str(security.sasl_mechanism).startswith("SCRAM"):
        _check_scram_name(f"{key}.username", security.username)
    for name in ("ca_file", "cert_file", "key_file"):
        if not security.tls and getattr(security, name) is not None:
            fix = "use SSL or SASL_SSL, or remove it"
            raise problem(f"{key}.{name}", f"has no effect with {security.protocol}; {fix}")
    check_pair(key, "cert_file", security.cert_file, "key_file", security.key_file)


def _check_registry(stream: StreamSettings) -> None:
    key, registry = "stream.schema_registry", stream.schema_registry
    if registry.url is None and registry != SchemaRegistrySettings():
        raise problem(f"{key}.url", f"is missing; set it, or remove [{key}]")
    for name, partner in (("username", "password"), ("password", "username")):
        if getattr(registry, name) is None and getattr(registry, partner) is not None:
            raise problem(f"{key}.{name}", f"is missing; it goes with {partner}")
    if registry.token is not None and registry.username is not None:
        raise problem(f"{key}.token", "is set beside username; keep one of the two")
    if not str(registry.url).startswith("https:"):
        for name in ("ca_file", "cert_file", "key_file"):
            if getattr(registry, name) is not None:
                raise problem(f"{key}.{name}", "has no effect without TLS; use an https address")
    check_pair(key, "cert_file", registry.cert_file, "key_file", registry.key_file)


def _check_scram_name(key: str, name: str) -> None:
    """Refuse a user name that SCRAM cannot carry: with ``,`` or ``=`` in it, or not ASCII."""
    if not name.isascii() or set(name) & set(",="):
        raise problem(key, 'cannot log in by SCRAM; use ASCII characters other than "," and "="')


def check_probes(settings: Settings) -> None:
    """Raise SettingsError for the first problem of the probe key or of a declared probe set."""
    probes = settings.probes
    if probes.key is not None and len(probes.key.reveal().encode()) < MIN_SECRET:
        raise problem("probes.key", f"must have at least {MIN_SECRET} bytes; make a longer one")
    if probes.sets and probes.key is None:
        fix = f"{_NEW_KEY}, and set key_file = FILE"
        raise problem("probes.key", f"is missing; decisions of {_LIST} must be signed; {fix}")
    if len(probes.sets) > MAX_SETS:
        raise problem(_LIST, f"has {len(probes.sets)} sets; declare at most {MAX_SETS}")
    for i, probe_set in enumerate(probes.sets):
        _check_set(probe_set, f"{_LIST}[{i}]")
    _check_repeats(probes.sets)


def _check_set(probe_set: ProbeSetSettings, key: str) -> None:
    if len(set(probe_set.variants)) < len(probe_set.variants):
        raise problem(f"{key}.variants", "repeats a variant; name each once")
    if len(probe_set.variants) < 2:  # noqa: PLR2004 - a pair
        raise problem(f"{key}.variants", "needs two variants at least; a single one matches none")
    if len(probe_set.variants) > MAX_VARIANTS:
        fix = f"name at most {MAX_VARIANTS}, and make several sets of more"
        raise problem(f"{key}.variants", f"has {len(probe_set.variants)} variants; {fix}")


def _check_repeats(sets: Sequence[ProbeSetSettings]) -> None:
    for field in ("name", "digest"):
        seen = set()
        for i, probe_set in enumerate(sets):
            text = getattr(probe_set, field)
            if text in seen:
                raise problem(f"{_LIST}[{i}].{field}", f"repeats {shown(text)}; sets must differ")
            seen.add(text)


def check_special(settings: Settings) -> None:
    """Raise SettingsError with all undocumented special attributes, bad retentions and readers."""
    problems = Problems()
    for i, attribute in enumerate(settings.attribute):
        key = join("attribute", i)
        with problems.collected():
            if attribute.special_category:
                _check_documented(attribute, key)
        with problems.collected():
            if attribute.retention is not None:
                _check_retention(attribute.name, attribute.retention, f"{key}.retention", settings)
    with problems.collected():
        _check_readers(settings)
    problems.raise_any()


def _check_documented(attribute: AttributeSettings, key: str) -> None:
    for name, meaning in _NEEDED.items():
        if not str(getattr(attribute, name) or "").strip():
            reason = f"{shown(attribute.name)} is of a special category"
            raise problem(f"{key}.{name}", f"is missing, but {reason}; say {meaning}")


def _check_retention(name: str, longest: Duration, key: str, settings: Settings) -> None:
    for kept_by, duration, fix in _retention_settings(settings):
        if longest < duration:
            allowed, actual = duration_text(longest), duration_text(duration)
            text = (
                f"counts of {shown(name)} may be kept {allowed} only, {kept_by} keeps them {actual}"
            )
            raise problem(key, f"{text}; lower {fix} or raise it")


def _retention_settings(settings: Settings) -> Iterator[tuple[str, Duration, str]]:
    """Yield (setting, duration, key to change it) for settings that keep counts of an attribute."""
    yield "retention.aggregates", settings.retention.aggregates, "retention.aggregates"
    hours = Duration(settings.stream.horizon + HOURS_KEPT_AFTER_HORIZON)
    yield "stream.horizon plus 8d", hours, "stream.horizon"


def _check_readers(settings: Settings) -> None:
    """Refuse unidentified readers of special-category attributes, unless all data are synthetic."""
    special = [attribute.name for attribute in settings.attribute if attribute.special_category]
    synthetic = all(use_case.synthetic for use_case in settings.use_case)
    if special and not synthetic and not settings.server.requires_credentials:
        reason = (
            f"{shown(special[0])} is of a special category, so readers must be known everywhere"
        )
        fix = "set token_file, tokens or client_ca_file"
        raise problem("server.token_file", f"is missing; {reason}; {fix}")


def check_id_keys(settings: Settings) -> None:
    """Refuse a missing or faulty id key; call this after the use cases are checked."""
    privacy = settings.privacy
    if not privacy.keys and not all(case.synthetic for case in settings.use_case):
        raise problem(
            "privacy.id_key",
            "is not set, but ids of real decisions are kept only as keyed hashes;"
            f" {_NEW_KEY}, and set id_key_file = FILE",
        )
    if privacy.id_key is not None:
        _check_single(privacy, privacy.id_key)
    for i, id_key in enumerate(privacy.id_keys):
        _check_listed_key(id_key, f"{_KEYS}[{i}]")
    _check_days(privacy.id_keys)
    _check_key_repeats(privacy.id_keys)


def _check_single(privacy: Privacy, id_key: Secret) -> None:
    if privacy.id_keys:
        key = "privacy.id_key" if id_key.file is None else "privacy.id_key_file"
        raise problem(key, f"is set beside {_KEYS}; make it the first of that list")
    _check_size("privacy.id_key", id_key)


def _check_listed_key(id_key: IdKeySettings, key: str) -> None:
    if id_key.id == STORE_KEY:
        fix = "choose another name"
        raise problem(f"{key}.id", f'is "{STORE_KEY}", as a key is called that a store made; {fix}')
    if id_key.key is None:
        raise problem(f"{key}.key_file", f"is missing, and so is key; {_NEW_KEY}")
    _check_size(f"{key}.key", id_key.key)


def _check_size(key: str, secret: Secret) -> None:
    size = len(secret.reveal().encode())
    if not MIN_SECRET <= size <= MAX_ID_KEY:
        raise problem(key, f"has {size} bytes; use {MIN_SECRET} to {MAX_ID_KEY} bytes")


def _check_days(keys: Sequence[IdKeySettings]) -> None:
    for i, (before, id_key) in enumerate(pairwise(keys), start=1):
        key = f"{_KEYS}[{i}].from_day"
        if id_key.from_day is None:
            raise problem(key, "is missing; say from which UTC day on the key is used")
        if id_key.from_day <= (before.from_day or date.min):
            raise problem(key, "must be later than that of the key before it; sort the keys")


def _check_key_repeats(keys: Sequence[IdKeySettings]) -> None:
    names: dict[str, int] = {}
    secrets: dict[Secret, int] = {}
    for i, id_key in enumerate(keys):
        key = f"{_KEYS}[{i}]"
        if id_key.id in names:
            fix = "give each key a name of its own"
            raise problem(f"{key}.id", f"repeats {shown(id_key.id)}; {fix}")
        if id_key.key in secrets:
            fix = f"a rotation needs a new key, {_NEW_KEY}"
            raise problem(f"{key}.key", f"is the key of {_KEYS}[{secrets[id_key.key]}] too; {fix}")
        names[id_key.id] = i
        if id_key.key is not None:
            secrets[id_key.key] = i


def _check_server(server: Server) -> None:
    """Raise SettingsError for the first problem in TLS, tokens, responders, producers or ports."""
    check_pair("server", "tls_cert_file", server.tls_cert_file, "tls_key_file", server.tls_key_file)
    if server.client_ca_file is not None and not server.tls:
        fix = "set tls_cert_file and tls_key_file"
        raise problem("server.client_ca_file", f"needs TLS; {fix}")
    _check_tokens(server)
    _check_named(server, "server.responders", server.responders)
    _check_named(server, "server.producers", server.producers)
    _check_producers(server)
    _check_address(server)
    _check_operations(server)


def is_loopback(host: str) -> bool:
    """Return True when a host name or address is reachable from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_pair(section: str, first: str, cert: str | None, second: str, key: str | None) -> None:
    """Raise SettingsError unless a certificate and its key are both set or both not."""
    if (cert is None) != (key is None):
        missing, present = (first, second) if cert is None else (second, first)
        raise problem(f"{section}.{missing}", f"is missing; it goes with {section}.{present}")


def _check_address(server: Server) -> None:
    if is_loopback(server.host) or server.insecure:
        return
    if not server.tls:
        fix = "set tls_cert_file and tls_key_file, or insecure = true"
        raise problem("server.listen", f"is not loopback, so TLS is required; {fix}")
    if not server.requires_credentials:
        fix = "set token_file, tokens or client_ca_file, or insecure = true"
        raise problem("server.listen", f"is not loopback, so readers must be known; {fix}")


def _check_tokens(server: Server) -> None:
    names: dict[str, str] = {}
    for i, reader in enumerate(server.tokens):
        key = join("server.tokens", i)
        if reader.token is None:
            raise problem(f"{key}.token_file", f"is missing; give {shown(reader.name)} a token")
        if reader.name in _TAKEN:
            raise problem(f"{key}.name", f"{shown(reader.name)} has a meaning in logs; rename it")
        if reader.name in names:
            raise problem(f"{key}.name", f"is taken by {names[reader.name]}.name; rename one")
        names[reader.name] = key
    secrets: dict[Secret, str] = {}
    for key, token in tokens_by_key(server):
        text = token.reveal()
        if not (text.isascii() and text.isprintable()) or " " in text:
            raise problem(key, "does not fit into a header; use letters and digits")
        if token in secrets:
            raise problem(key, f"is also {secrets[token]}; give each reader its own")
        secrets[token] = key


def _check_named(server: Server, key: str, names: Sequence[str]) -> None:
    """Refuse names without a token (or client CA); ``ANYBODY`` is only for open loopback."""
    for i, name in enumerate(names):
        name_key = join(key, i)
        if name == ANYBODY:
            if server.requires_credentials or not is_loopback(server.host):
                fix = "name tokens or certificates instead"
                raise problem(name_key, f"{shown(name)} is only for loopback without tokens; {fix}")
        elif server.client_ca_file is None and name not in server.all_tokens:
            token_names = ", ".join(server.all_tokens) or "there are none yet"
            raise problem(name_key, f"{shown(name)} is no name of a token; known: {token_names}")


def _check_producers(server: Server) -> None:
    """Refuse a producer that is also a responder, and producers that hold all tokens."""
    producers = set(server.producers)
    for i, name in enumerate(server.producers):
        if name in server.responders and name != ANYBODY:
            fix = "give the router a token of its own"
            raise problem(join("server.producers", i), f"{shown(name)} is a responder too; {fix}")
    if (
        server.all_tokens
        and server.client_ca_file is None
        and producers >= server.all_tokens.keys()
    ):
        fix = "set token_file, or add one of [[server.tokens]] for readers"
        raise problem("server.producers", f"has every token, and producers read nothing; {fix}")


def tokens_by_key(server: Server) -> Iterator[tuple[str, Secret]]:
    """Yield (key, token) for every token that is set."""
    named_tokens = (
        (f"server.tokens[{i}].token", reader.token) for i, reader in enumerate(server.tokens)
    )
    for key, token in (("server.token", server.token), *named_tokens):
        if token is not None:
            yield key, token


def _check_operations(server: Server) -> None:
    operations, key = server.operations, "server.operations"
    if operations.port and operations.port == server.port:
        raise problem(f"{key}.listen", "has the port of server.listen; use two ports")
