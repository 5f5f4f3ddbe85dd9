"""``slicewatch check``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from math import isinf, prod
from pathlib import Path
from typing import TYPE_CHECKING

import click

from consumers.events import missing_fields
from monitor.clock import SystemClock
from monitor.commands.check_labels import (
    AssumedTraffic,
    assumption_lines,
    traffic_lines,
    traffic_table,
)
from monitor.commands.check_pages import page_lines
from monitor.commands.check_spans import span_lines
from monitor.commands.labelled import labelled_ids
from monitor.commands.options import load_settings, settings_option
from monitor.commands.replay import EXIT_UNREADABLE, topic_and_path
from monitor.core.counts.clusters import rounded_up
from monitor.core.publish.needed_support import RATES, displayable
from monitor.core.time import DAY, day_text
from monitor.errors import SlicewatchError
from monitor.present.terminal import show_tables
from monitor.settings import Settings, duration_text, resolved, warnings
from monitor.settings.sections import MappingSettings

if TYPE_CHECKING:
    import sqlalchemy as sa

_PARTITIONS = 4
"""Partitions of created topics: so many workers can share one later; one would forbid that."""

_MOST_LINES = 9
"""Most warnings, and most lines on traffic, so that all fits into 20 lines of a terminal."""


@click.command("check")
@settings_option
@click.option("--connect", is_flag=True, help="Also test broker, topics and database.")
@click.option(
    "--create-topics", is_flag=True, help="Like --connect; first create topics that are missing."
)
@click.option(
    "--daily",
    type=click.IntRange(min=1),
    default=500,
    show_default=True,
    help="Decisions a day in a slice, for which it says what can be decided.",
)
@click.option(
    "--audit",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.05,
    show_default=True,
    help="Share of what is auto-served that gets a label.",
)
@click.option(
    "--ready",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    help="Share of requests that reviewers would call ready.",
)
@click.option(
    "--events",
    "files",
    multiple=True,
    metavar="FILE",
    help="Check the events of a file instead: decisions or labels, in any form replay reads.",
)
@click.option("--all", "every", is_flag=True, help="Also print tables, and the settings in force.")
def command(
    path: Path,
    *,
    connect: bool,
    create_topics: bool,
    files: tuple[str, ...],
    daily: int,
    audit: float,
    ready: float,
    every: bool,
) -> None:
    """Validate the settings, and say what can be decided and shown with them.

    Faults and warnings come first. Then come the limits that --daily, --audit and --ready do not
    decide, with what would decide them, those that are decided, and those that page.

    With --all nothing is left out, and more follows: how many decisions a day each limit needs,
    how much support the rounded numbers need to show
    that a limit is kept, what the bound on false pages assumes about clusters, and the settings as
    they will be used, with secrets masked.

    Certificates that have expired, or will within two weeks, are reported; an expired server
    certificate is an error.

    With --connect it also checks that the broker, both topics, the schema registry if there is one,
    and the database are as required, and that the service may read all of them and write where it
    has to (the database always, dead letters included; the topics where server.producers names
    somebody). The check itself writes nothing; with --create-topics it creates the topics that are
    missing. It shows which published numbers wait for what, and what a start would change in the
    store.
    Exit code 2 when something is wrong.

    With --events it explains each line of a file that would not be counted, or perhaps not as it
    was meant: what is wrong, and what was expected. Then it shows what would be counted. Nothing is
    stored, and no content of an event is printed. As with replay, decisions=FILE or labels=FILE
    says what a file contains; no key is needed.
    Exit code 1 when some events could not be counted.

    Example: slicewatch check --settings slicewatch.toml --connect
    """
    from monitor.composition.ingest import event_mappings

    if files:
        _check_events(load_settings(path, with_secrets=False), files)
        return
    settings = load_settings(path)
    event_mappings(settings, frozenset())  # raises for mappings that cannot work
    _echo([f"warning: {warning}" for warning in warnings(settings)], every=every)
    click.echo(f"ok: settings, {settings.coding.max_atoms:,} possible atoms")
    problems = _run_check(_certificates, settings)
    if connect or create_topics:
        if create_topics and not settings.stream.embedded:
            problems += _run_check(_created_topics, settings)
        for check in (_topics, _registry_lines, _store):
            problems += _run_check(check, settings)
    if problems:
        raise SlicewatchError(f"{len(problems)} of the checks failed: {'; '.join(problems)}")
    assumed = AssumedTraffic(daily, audit, ready)
    lines = (
        *traffic_lines(settings, assumed),
        *page_lines(settings),
        *span_lines(settings, assumed),
    )
    _echo(lines, every=every)
    if every:
        _echo_all(settings, assumed)
    else:
        click.echo("more: slicewatch check --all has the numbers, and the settings in force")


def _echo(lines: Sequence[str], *, every: bool) -> None:
    """Print the lines; without ``every`` the first ones, and how many are left out."""
    shown = lines if every or len(lines) <= _MOST_LINES else lines[: _MOST_LINES - 1]
    for line in shown:
        click.echo(line)
    if left_out := len(lines) - len(shown):
        click.echo(f"... and {left_out} more lines, with --all")


def _echo_all(settings: Settings, assumed: AssumedTraffic) -> None:
    """Print what each limit and number needs, and the settings in force."""
    if settings.contracts:
        click.echo("\n".join(assumption_lines(assumed)))
        show_tables(*traffic_table(settings, assumed))
    for line in (*_displayable(settings), _cluster_line(settings)):
        click.echo(line)
    click.echo(resolved(settings).rstrip())


def _check_events(settings: Settings, files: tuple[str, ...]) -> None:
    from monitor.commands.check_events import EventCheck

    labelled = labelled_ids([topic_and_path(name, settings) for name in files], settings)
    check = EventCheck(settings, SystemClock().now(), labelled)
    for name in files:
        for line in check.lines(name):
            click.echo(line)
    for line in check.joined():
        click.echo(line)
    if check.bad:
        sys.exit(EXIT_UNREADABLE)


def _displayable(settings: Settings) -> Iterator[str]:
    """Yield the support that limits need, so that a gap or ratio of this size can be shown."""
    values = {attribute.name: len(attribute.listed) for attribute in settings.attribute}
    for contract in settings.contracts:
        largest = max(prod(values[n] for n in g.attributes) for g in contract.group_bys)
        for need in displayable(contract, largest):
            at_rates = ", ".join(
                f"{_support(n)} at rates near {rate:.0%}"
                for n, rate in zip(need.at_rates, RATES, strict=True)
            )
            owner = f", {need.own}" if need.own else ""
            kind = "ratio" if need.ratio else "gap"
            limit = f"{need.metric.upper()} {kind} {float(need.limit):g}"
            yield (
                f"ok: contract {contract.name}{owner}: to show that the limit {limit} is kept, a"
                f" slice needs a support of {at_rates}"
            )


def _cluster_line(settings: Settings) -> str:
    """Return a line on the cluster size up to which the bound on false pages holds."""
    size = settings.detection.cluster_size
    return (
        "ok: false pages stay rare while groups of dependent decisions are no larger than the"
        f" largest unit of a day or, without units, than detection.cluster_size ({size}); 50 equal"
        " requests from each sender made about 38 false pages in 90 days: send unit, or raise it"
    )


def _support(n: int | None) -> str:
    return "endless" if n is None else f"{n:,}"


def _run_check(check: Callable[[Settings], Iterator[str]], settings: Settings) -> list[str]:
    """Print the lines of a check; return its failure in a list, which is empty on success."""
    try:
        for line in check(settings):
            click.echo(line)
    except SlicewatchError as error:
        return [str(error)]
    return []


def _certificates(settings: Settings) -> Iterator[str]:
    """Yield until when certificates are valid; raise at the end if a served one has expired."""
    from monitor import certificates

    now, expired = SystemClock().now(), []
    for certificate in certificates.configured(settings):
        try:
            end = certificate.not_after()
        except SlicewatchError as error:
            yield f"warning: {error}"
            continue
        day = day_text(end)
        if end > now + certificates.SOON:
            yield f"ok: {certificate.key} is valid until {day}"
        elif end > now:
            days = -(-(end - now) // DAY)
            yield f"warning: {certificate.key} expires on {day}, in less than {days} days"
        elif certificate.served:
            expired.append(f"{certificate.key} expired on {day}: install a new certificate")
        else:
            yield f"warning: {certificate.key} expired on {day}: install a new certificate"
    if expired:
        raise SlicewatchError("; ".join(expired))


def _created_topics(settings: Settings) -> Iterator[str]:
    """Create the topics that are missing; yield a line for each."""
    from consumers.sources.kafka_admin import KafkaTopics
    from monitor.composition.brokers import kafka_connection

    with closing(KafkaTopics(kafka_connection(settings))) as topics:
        for topic in settings.stream.topics:
            if topics.create(topic, _PARTITIONS, settings.stream.horizon):
                yield f"ok: topic {topic} was created"


def _topics(settings: Settings) -> Iterator[str]:
    from consumers.sources.kafka_admin import KafkaTopics
    from monitor.composition.brokers import check_access, kafka_connection
    from monitor.composition.embedded import event_folder

    stream = settings.stream
    if stream.embedded:
        yield f"ok: events are kept in {event_folder(settings)}; no Kafka is needed"
        return
    check_access(settings, writes=True)
    with closing(KafkaTopics(kafka_connection(settings))) as topics:
        yield f"ok: broker at {', '.join(stream.bootstrap_servers)}"
        if settings.server.producers:
            yield "ok: both topics may be written, for server.producers; nothing was written"
        for topic in stream.topics:
            partitions = len(topics.partitions(topic))
            retention = topics.retention(topic)
            yield f"ok: topic {topic}, {partitions} partitions, {_retention_text(retention)}"
            if retention is not None and retention < stream.horizon:
                yield (
                    f"warning: topic {topic} keeps messages for {_days(retention)}, less than"
                    f" stream.horizon ({duration_text(stream.horizon)}): counts cannot be rebuilt"
                    " from it"
                )


def _registry_lines(settings: Settings) -> Iterator[str]:
    """Test access to the schema registry; yield lines on it and on each topic's newest schema."""
    from monitor.composition.brokers import schema_registry

    registry = schema_registry(settings)
    if registry is None:
        return
    with closing(registry):
        registry.check()
        yield f"ok: schema registry at {registry.url}"
        stream = settings.stream
        for topic, kind in ((stream.decisions_topic, "decision"), (stream.labels_topic, "label")):
            newest = registry.newest(subject := f"{topic}-value")
            if newest is None:
                yield f"note: it has no schema {subject}; another name is as good"
            elif settings.mapping == MappingSettings():
                yield _schema_line(subject, kind, newest.schema)


def _schema_line(subject: str, kind: str, text: str) -> str:
    missing = missing_fields(kind, text)
    if missing:
        return (
            f"warning: schema {subject} has no field {' and none '.join(missing)}, which a {kind}"
            " must have: add it, or map what there is by [mapping]"
        )
    return f"ok: schema {subject} has every field that a {kind} must have"


def _retention_text(retention: float | None) -> str:
    if retention is None:
        return "we may not read how long it keeps messages"
    return "keeps messages for ever" if isinf(retention) else f"keeps messages {_days(retention)}"


def _days(micros: float) -> str:
    return f"{micros / 86_400e6:.3g} days"


def _store(settings: Settings) -> Iterator[str]:
    from monitor.store import database
    from monitor.store.upkeep.write_rights import require_write_rights

    engine = database.create_engine(settings.store.url)
    try:
        url = settings.store.url.masked
        if not database.is_there(engine):
            yield f"ok: database {url} will be created at the first start"
            return
        if database.open_to_others(engine):
            yield (
                f"warning: database {url} can be opened by others on this machine: chmod 600 it,"
                " and its files -wal and -shm"
            )
        schema, head = database.schema_revision(engine), database.head_revision()
        if schema is None:
            yield f"ok: database {url} is empty; the schema {head} has not been created yet"
            return
        database.require_head(engine)
        yield f"ok: database {url}, schema {schema}"
        yield f"ok: it can be written, with its dead letters: {require_write_rights(engine)}"
        yield from _unit_lines(settings, engine)
        yield from _waiting_lines(engine)
        yield from _changes(settings, engine)
    finally:
        engine.dispose()


def _unit_lines(settings: Settings, engine: sa.Engine) -> Iterator[str]:
    """Yield lines on whether stored decisions name their unit, and whether they repeat."""
    import sqlalchemy as sa

    from monitor.evaluate.clusters import ClusterDays
    from monitor.store import database
    from monitor.store.evaluator.calendar_tables import newest_effects
    from monitor.store.evaluator.cluster_days import read_cluster_days
    from monitor.store.schema import counts

    size = settings.detection.cluster_size
    with database.reading(engine) as connection:
        days, effects = ClusterDays(read_cluster_days(connection)), newest_effects(connection)
        counted = connection.execute(sa.select(counts.c.cell).limit(1)).first() is not None
    if (newest := days.newest_named) is not None:
        largest = rounded_up(days.largest_in(range(newest, newest + 1)))
        yield f"ok: decisions name their unit; the largest of the newest day made up to {largest}"
    elif counted:
        yield (
            "warning: no stored decision names its unit, so the bound on false pages rests on"
            f" detection.cluster_size ({size}) alone"
        )
    for name, effect in effects.items():
        if effect > 1:
            yield (
                f"note: use case {name}: requests of a unit are alike, so intervals are as wide as"
                f" if one decision in {effect:g} counted"
            )
    if days.repeats(size):
        yield (
            "warning: decisions without a unit repeat each other far more often than by chance, in"
            f" groups of about {rounded_up(round(days.recent.implied_size))}: the bound on false"
            " pages does not hold; send unit, or raise detection.cluster_size"
        )


def _waiting_lines(engine: sa.Engine) -> Iterator[str]:
    """Yield a line per group-by that has newer data but waits to be published, and why."""
    from monitor.store.upkeep.published_ages import published_ages

    for age in published_ages(engine):
        group = f"group-by {age.group_by}" if age.group_by else "all decisions together"
        for reason in age.waits_for:
            yield f"note: contract {age.contract}, {group}: publishing waits for {reason}"


def _changes(settings: Settings, engine: sa.Engine) -> Iterator[str]:
    """Yield what a start with these settings would change in this database."""
    from monitor.composition.store import configured_topics, contract_records, id_keys, remembered
    from monitor.store.codings import Codings
    from monitor.store.evaluator.records import RecordStore
    from monitor.store.id_keys import IdKeys
    from monitor.store.retired import RetiredTopics
    from monitor.store.upkeep.last_settings import LastSettings

    records, contracts = RecordStore(engine), contract_records(settings)
    changes = [
        *records.contract_changes(contracts),
        *Codings(engine).changes(settings.coding),
        *IdKeys(engine).changes(id_keys(settings), settings.stream.horizon),
        *RetiredTopics(engine).changes(configured_topics(settings)),
        *LastSettings(engine).changes(remembered(settings)),
    ]
    for line in changes:
        yield f"a start would report: {line}"
    records.refuse_changes(contracts)
    if not changes:
        yield "ok: a start would change nothing"
