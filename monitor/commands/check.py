"""``slicewatch check``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isinf, prod
from pathlib import Path

import click
import sqlalchemy as sa

from consumers.dedupe import BYTES_PER_KEY
from consumers.sources.kafka_admin import KafkaTopics
from monitor import certificates, composition
from monitor.clock import SystemClock
from monitor.commands.options import load_settings, settings_option
from monitor.core.publish.needed_support import RATES, displayable
from monitor.core.time import DAY, SECOND, to_datetime
from monitor.errors import SlicewatchError
from monitor.settings import Settings, duration_text, resolved, warnings
from monitor.store import database
from monitor.store.codings import Codings
from monitor.store.evaluator.records import RecordStore
from monitor.store.id_keys import IdKeys
from monitor.store.retired import RetiredTopics
from monitor.store.upkeep.last_settings import LastSettings

_RATE = 1_000  # decisions a second that memory is estimated for


@click.command("check")
@settings_option
@click.option("--connect", is_flag=True, help="Also test broker, topics and database.")
def command(path: Path, connect: bool) -> None:
    """Validate the settings and print them as they will be used, secrets masked.

    It also shows the support from which a reader can see that a limit is kept: published numbers
    are rounded, and coded where too few were missed. Verdicts are decided on exact counts.

    Certificates that have expired, or will within two weeks, are reported; an expired server
    certificate is an error.

    With --connect it also checks that the broker, both topics and the database are as required,
    and shows what a start would change in the store. Exit code 2 when something is wrong.

    Example: slicewatch check --settings slicewatch.toml --connect
    """
    settings = load_settings(path)
    click.echo(resolved(settings).rstrip())
    for warning in warnings(settings):
        click.echo(f"warning: {warning}")
    click.echo(f"ok: settings, {settings.coding.max_atoms:,} possible atoms")
    for line in (*_displayable(settings), _recognised(settings)):
        click.echo(line)
    problems = _try(_certificates, settings)
    if connect:
        problems += [*_try(_topics, settings), *_try(_store, settings)]
    if problems:
        raise SlicewatchError(f"{len(problems)} of the checks failed: {'; '.join(problems)}")


def _displayable(settings: Settings) -> Iterator[str]:
    values = {attribute.name: len(attribute.values) for attribute in settings.attribute}
    for contract in settings.contracts:
        largest = max(prod(values[n] for n in g.attributes) for g in contract.group_bys)
        for need in displayable(contract, largest):
            at_rates = ", ".join(
                f"{_support(n)} at rates of {rate:.0%}"
                for n, rate in zip(need.at_rates, RATES, strict=True)
            )
            coded = f", {_support(need.coded)} where fewer than {contract.k} were missed"
            yield (
                f"ok: contract {contract.name}: that no {need.metric.upper()} gap is beyond"
                f" {float(need.limit):g} can be shown from a support of {at_rates}"
                f"{coded if contract.k > 1 else ''}"
            )


def _recognised(settings: Settings) -> str:
    """Period in which copies are recognised, and what that costs."""
    window = settings.dedupe.window
    if not window:
        return "ok: copies of decisions are not recognised; they take no memory"
    total = BYTES_PER_KEY * _RATE * (window // SECOND) / 1e6
    return (
        "ok: copies of a decision in the same partition are recognised for"
        f" {duration_text(window)}; this takes {BYTES_PER_KEY} bytes of a worker's memory for each"
        f" decision of that time: {total:,.0f} MB at {_RATE:,} decisions a second"
    )


def _support(n: int | None) -> str:
    return "no size" if n is None else f"{n:,}"


def _try(check: Callable[[Settings], Iterator[str]], settings: Settings) -> list[str]:
    """Print what a check finds; its failure is returned, so that the others still run."""
    try:
        for line in check(settings):
            click.echo(line)
    except SlicewatchError as error:
        return [str(error)]
    return []


def _certificates(settings: Settings) -> Iterator[str]:
    now, expired = SystemClock().now(), []
    for one in certificates.named(settings):
        try:
            end = one.not_after()
        except SlicewatchError as error:
            yield f"warning: {error}"
            continue
        day = f"{to_datetime(end):%Y-%m-%d}"
        if end > now + certificates.SOON:
            yield f"ok: {one.key} is valid until {day}"
        elif end > now:
            yield f"warning: {one.key} expires on {day}, in less than {-(-(end - now) // DAY)} days"
        elif one.served:
            expired.append(f"{one.key} expired on {day}: install a new certificate")
        else:
            yield f"warning: {one.key} expired on {day}: install a new certificate"
    if expired:
        raise SlicewatchError("; ".join(expired))


def _topics(settings: Settings) -> Iterator[str]:
    stream = settings.stream
    composition.check_access(settings)
    topics = KafkaTopics(composition.kafka_connection(settings))
    try:
        yield f"ok: broker at {', '.join(stream.bootstrap_servers)}"
        for topic in (stream.decisions_topic, stream.labels_topic):
            partitions = len(topics.partitions(topic))
            retention = topics.retention(topic)
            yield f"ok: topic {topic}, {partitions} partitions, {_kept(retention)}"
            if retention is not None and retention < stream.horizon:
                yield (
                    f"warning: topic {topic} keeps messages for {_days(retention)}, less than"
                    f" stream.horizon ({duration_text(stream.horizon)}): counts cannot be rebuilt"
                    " from it"
                )
    finally:
        topics.close()


def _kept(retention: float | None) -> str:
    if retention is None:
        return "we may not read how long it keeps messages"
    return "keeps messages for ever" if isinf(retention) else f"keeps messages {_days(retention)}"


def _days(micros: float) -> str:
    return f"{micros / 86_400e6:.3g} days"


def _store(settings: Settings) -> Iterator[str]:
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
        found, head = database.schema_revision(engine), database.head_revision()
        if found is None:
            yield f"ok: database {url} is empty; the schema {head} has not been created yet"
            return
        database.require_head(engine)
        yield f"ok: database {url}, schema {found}"
        yield from _changes(settings, engine)
    finally:
        engine.dispose()


def _changes(settings: Settings, engine: sa.Engine) -> Iterator[str]:
    records, contracts = RecordStore(engine), composition.contract_records(settings)
    changes = [
        *records.contract_changes(contracts),
        *Codings(engine).changes(settings.coding),
        *IdKeys(engine).changes(composition.id_keys(settings), settings.stream.horizon),
        *RetiredTopics(engine).changes(composition.topics(settings)),
        *LastSettings(engine).changes(composition.remembered(settings)),
    ]
    for line in changes:
        yield f"a start would report: {line}"
    records.refuse_changes(contracts)
    if not changes:
        yield "ok: a start would change nothing"
