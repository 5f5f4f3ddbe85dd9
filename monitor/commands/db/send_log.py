"""``slicewatch db send-log``: the move from an embedded run to Kafka."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from consumers.sources.event_log import EventLog, Mark
from monitor.clock import SystemClock
from monitor.commands.options import load_settings, settings_option
from monitor.errors import SlicewatchError
from monitor.records import Record, Shard

if TYPE_CHECKING:
    from consumers.sources.kafka_writer import KafkaWriter  # slow to load

BATCH = 1_000
"""Messages after which the place is stored. A repeated batch follows at once: copies are found."""


class _Identified(msgspec.Struct):
    decision_id: str | int


_identified = msgspec.json.Decoder(_Identified | list[_Identified]).decode


@click.command("send-log")
@settings_option
def send_log(path: Path) -> None:
    """Send the events of an embedded run on to the topics of the settings, to move to Kafka.

    Stop the embedded run first. Point the settings at Kafka, and create the topics with slicewatch
    check --connect --create-topics. A command that was interrupted goes on where it stopped.

    Kafka then holds all events of the last stream.horizon. A run on a new database counts them
    again; the old database stays as it is.

    Example: slicewatch db send-log --settings slicewatch.toml
    """
    from monitor.composition.brokers import kafka_writer
    from monitor.composition.embedded import event_folder, open_log

    settings = load_settings(path)
    file = event_folder(settings) / "log.db"
    if not file.exists():
        raise SlicewatchError(f"no event log {file}; name the embedded run's database")
    log = open_log(settings, SystemClock())
    writer = kafka_writer(settings)
    try:
        writer.connect()
        for topic in settings.stream.topics:
            for shard in log.shards(topic):
                sent = _send(log, writer, shard)
                click.echo(f"{sent:,} messages were sent to topic {topic}")
    finally:
        writer.close()
        log.close()
    click.echo("next: give store.url a new database and start slicewatch run without --embedded")


def _send(log: EventLog, writer: KafkaWriter, shard: Shard) -> int:
    """Send the messages of a shard that were not sent yet; return their number."""
    messages, place = 0, f"sent {shard}".encode()
    while (batch := log.read(shard, log.mark(place).position, BATCH)).values:
        writer.write([Record(shard.topic, _key(value), value) for value in batch.values])
        log.append({}, Mark(place, batch.offsets[-1] + 1))
        messages += len(batch.values)
    return messages


def _key(value: bytes | None) -> bytes:
    """Return the decision id as key, or else a hash, so that copies are in the same partition."""
    try:
        event = _identified(value or b"")
        first = event if isinstance(event, _Identified) else event[0]
        return str(first.decision_id).encode()
    except (ValueError, RecursionError, IndexError):
        return blake2b(value or b"", digest_size=8).digest()
