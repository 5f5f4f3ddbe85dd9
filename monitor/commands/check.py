"""``slicewatch check``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isinf, prod
from pathlib import Path

import click
import sqlalchemy as sa

from consumers.sources.kafka_topics import KafkaTopics
from monitor.commands import wiring
from monitor.commands.options import load_settings, settings_option
from monitor.core.displayable import RATES, displayable
from monitor.errors import SlicewatchError
from monitor.settings import Settings, duration_text, resolved, warnings
from monitor.store import database
from monitor.store.codings import Codings
from monitor.store.id_keys import IdKeys
from monitor.store.records import Records


@click.command("check")
@settings_option
@click.option("--connect", is_flag=True, help="Also try the broker, its topics and the database.")
def command(path: Path, connect: bool) -> None:
    """Validate the settings and print them as they will be used, secrets masked.

    It also says from which support on a reader can see that a limit is kept: what is shown is
    rounded, and coded where too few were missed. Verdicts are decided on exact counts.

    With --connect it also says whether the broker, both topics and the database are as needed,
    and what a start would change against the store. Exit code 2 when something is wrong.

    Example: slicewatch check --settings slicewatch.toml --connect
    """
    settings = load_settings(path)
    click.echo(resolved(settings).rstrip())
    for warning in warnings(settings):
        click.echo(f"warning: {warning}")
    click.echo(f"ok: settings, {settings.coding.max_atoms:,} possible atoms")
    for line in _displayable(settings):
        click.echo(line)
    if connect:
        problems = [*_try(_topics, settings), *_try(_store, settings)]
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
                f" {float(need.limit):g} can be seen from a support of {at_rates}"
                f"{coded if contract.k > 1 else ''}"
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


def _topics(settings: Settings) -> Iterator[str]:
    stream = settings.stream
    wiring.knock(settings)
    topics = KafkaTopics(wiring.kafka_connection(settings))
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
        return "does not tell us for how long it keeps messages"
    return "keeps messages for ever" if isinf(retention) else f"keeps them {_days(retention)}"


def _days(micros: float) -> str:
    return f"{micros / 86_400e6:.3g} days"


def _store(settings: Settings) -> Iterator[str]:
    engine = database.create_engine(settings.store.url)
    try:
        url = settings.store.url.masked
        if not database.is_there(engine):
            yield f"ok: database {url} will be made at the first start"
            return
        found, head = database.schema_revision(engine), database.head_revision()
        if found is None:
            yield f"ok: database {url} is empty; the schema {head} is still to be made"
            return
        database.require_head(engine)
        yield f"ok: database {url}, schema {found}"
        yield from _changes(settings, engine)
    finally:
        engine.dispose()


def _changes(settings: Settings, engine: sa.Engine) -> Iterator[str]:
    records, contracts = Records(engine), wiring.contract_records(settings)
    changes = [
        *records.contract_changes(contracts),
        *Codings(engine).changes(settings.coding),
        *IdKeys(engine).changes(wiring.id_keys(settings), settings.stream.horizon),
    ]
    for line in changes:
        yield f"a start would say: {line}"
    records.refuse_changes(contracts)
    if not changes:
        yield "ok: a start would change nothing"
