"""``slicewatch db status``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.text import Text

from monitor.clock import SystemClock
from monitor.commands.open_store import opened
from monitor.commands.options import settings_option
from monitor.core.publish.words import NONE, iso_text
from monitor.present.document import Table, Tone, table
from monitor.present.terminal import STYLES, console, show_tables
from monitor.settings import Settings

if TYPE_CHECKING:
    import sqlalchemy as sa

    from monitor.store.upkeep.store_status import EvaluatorReport, ShardReport, StoreStatus

EXIT_PROBLEM = 1
_at = partial(iso_text, precision="seconds")


@click.command("status")
@settings_option
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
def status(path: Path, as_json: bool) -> None:
    """Show the state of ingest, evaluator and database, without counts of slices.

    Exit code 0 when all is well, 1 when something needs a person (partitions that nobody reads,
    decisions that do not arrive, a parked partition, events that are not accounted for, an older
    schema), 2 when the database cannot be read, or was made by a newer version.

    Example: slicewatch db status --json
    """
    from monitor.store.upkeep.store_status import read_status

    with opened(path, at_head=False) as (settings, engine):
        store_status = read_status(
            engine,
            settings.store.url.masked,
            settings.stream.decisions_topic,
            settings.evaluate.lease,
            settings.stream.horizon,
            blind=_blindness(settings, engine),
        )
    if as_json:
        click.echo(msgspec.json.encode(store_status))
    else:
        _print(store_status)
    if store_status.problems:
        sys.exit(EXIT_PROBLEM)


def _blindness(settings: Settings, engine: sa.Engine) -> list[str]:
    from monitor.composition.evaluator import health_policy
    from monitor.store import database
    from monitor.store.upkeep.service_health import read_blindness

    if database.schema_revision(engine) != database.head_revision():
        return []
    policy = health_policy(settings)
    return [problem.text for problem in read_blindness(engine, policy, SystemClock().now())]


def _print(store_status: StoreStatus) -> None:
    screen = console()
    for line in _head(store_status):
        screen.print(Text(line))
    show_tables(*_tables(store_status))
    for problem in store_status.problems:
        screen.print(Text(problem, STYLES[Tone.BAD]))


def _head(store_status: StoreStatus) -> Iterator[str]:
    yield f"database {store_status.database}, schema {store_status.schema or 'empty'}"
    if store_status.schema == store_status.schema_needed:
        if store_status.watermark is None:
            yield "decisions are complete in no hour yet"
        else:
            yield f"decisions are complete up to {_at(store_status.watermark)}"
        yield _who_evaluates(store_status.evaluator)


def _who_evaluates(evaluator: EvaluatorReport | None) -> str:
    if evaluator is None:
        return "no evaluator has run yet"
    age = f"last cycle {evaluator.cycle_age_seconds:,.0f} s ago"
    if evaluator.owner is None:
        return f"no evaluator is running, {age}"
    return f"evaluator {evaluator.owner}, lease until {_at(evaluator.until)}, {age}"


def _tables(store_status: StoreStatus) -> Iterator[Table]:
    yield from table(
        "shard|next|complete to|behind|awaited|written|to fold|imbalance|owner|epoch|state",
        map(_shard, store_status.shards),
        "shards",
    )  # fmt: skip
    yield from table(
        "contract|group-by|decisions until|labels until|waits for",
        (
            (p.contract, p.group_by or "all decisions", _at(p.decisions_until),
             _at(p.labels_until), "; ".join(p.waits_for))
            for p in store_status.published
        ),
        "published",
    )  # fmt: skip
    yield from table(
        "table|rows|oldest hour|newest hour",
        (
            (t.name, f"{'about ' if t.estimated else ''}{t.rows:,}",
             _at(t.oldest_hour), _at(t.newest_hour))
            for t in store_status.tables
        ),
        "rows",
    )  # fmt: skip
    yield from table(
        "from|hash", ((_at(c.effective_from), c.hash) for c in store_status.codings), "codings"
    )
    yield from table(
        "key|from|may be destroyed from",
        ((k.id, _day(k.effective_from), _day(k.free_from)) for k in store_status.id_keys),
        "id keys",
    )
    yield from table(
        "contract|version|recorded",
        ((c.name, c.version, _at(c.recorded_at)) for c in store_status.contracts),
        "contracts",
    )
    yield from table(
        "shard|from|to|when|lost after|lost before|reason",
        (
            (f"{g.topic}/{g.partition}", _text(g.from_offset), str(g.to_offset),
             _at(g.resumed_at), _at(g.lost_from), _at(g.lost_until), g.reason)
            for g in store_status.resumptions
        ),
        "gaps",
    )  # fmt: skip
    yield from table(
        "id|from|to|version|when|owner|reason",
        (
            (str(x.id), _at(x.starts_at), _at(x.ends_at), x.version or "all",
             _at(x.excluded_at), x.owner, x.reason)
            for x in store_status.exclusions
        ),
        "exclusions",
    )  # fmt: skip


def _shard(shard: ShardReport) -> tuple[str, ...]:
    behind = NONE if shard.behind_seconds is None else f"{shard.behind_seconds:,.0f} s"
    state = "parked" if shard.parked is not None else "ok"
    return (
        str(shard.shard),
        _text(shard.next_offset),
        _at(shard.watermark),
        behind,
        "yes" if shard.holds_back and shard.retired_at is None else "no",
        _at(shard.flushed_at),
        f"{shard.deltas_waiting:,}",
        f"{shard.offsets_balance}/{shard.events_balance}",
        shard.owner or NONE,
        str(shard.epoch),
        "retired" if shard.retired_at is not None else state,
    )


def _text(value: object) -> str:
    return NONE if value is None else str(value)


def _day(at: datetime | None) -> str:
    return NONE if at is None else f"{at:%Y-%m-%d}"
