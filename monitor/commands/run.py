"""``slicewatch run``, and its halves ``ingest`` and ``serve``."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from monitor import logs
from monitor.commands.options import load_settings, settings_option
from monitor.commands.starting import StopSignal, collect_rarely, leave


@click.command("run")
@settings_option
@click.option(
    "--embedded",
    is_flag=True,
    help='Take events over HTTP and from a folder, without Kafka: stream.client = "embedded".',
)
@click.pass_obj
def run(stop: StopSignal | None, path: Path, embedded: bool) -> None:
    """Ingest, evaluate and serve in one process.

    With --embedded no Kafka is needed: on one machine, to try it out or for a small site. Events
    come by POST /v1/events and from files of JSON lines or CSV in the folder
    slicewatch-events/inbox beside the database. They are on disk before a POST is answered; kill
    and restart lose none.

    Stops cleanly on SIGTERM and Ctrl-C: what was read is stored, and the port is closed.

    Example: slicewatch run --embedded
    """
    run_until_stopped(path, stop, embedded=embedded)


@click.command("ingest")
@settings_option
@click.pass_obj
def ingest(stop: StopSignal | None, path: Path) -> None:
    """Consume decisions and labels; one of any number of workers in a consumer group.

    Stops cleanly on SIGTERM and Ctrl-C: what was read is stored, and the port is closed.

    Example: slicewatch ingest --settings slicewatch.toml
    """
    run_until_stopped(path, stop, serve=False)


@click.command("serve")
@settings_option
@click.pass_obj
def serve(stop: StopSignal | None, path: Path) -> None:
    """Evaluate what was ingested and serve metrics.

    Stops cleanly on SIGTERM and Ctrl-C: what was read is stored, and the port is closed.

    Example: slicewatch serve --settings slicewatch.toml
    """
    run_until_stopped(path, stop, ingest=False)


log = logging.getLogger("slicewatch.service")


def run_until_stopped(
    path: Path, stop: StopSignal | None = None, *, embedded: bool = False, **chosen: bool
) -> None:
    """Run the service, or a part of it, until SIGTERM or Ctrl-C; raise a failure that ends it.

    Args:
        path: settings file.
        stop: a signal that already listens.
        embedded: True takes events without Kafka, whatever the settings say.
        chosen: fields of :class:`monitor.service.Parts`.
    """
    from monitor.composition.embedded import event_folder
    from monitor.composition.servers import producers
    from monitor.service import Parts, Service

    parts = Parts(**chosen)
    logs.configure()
    stop = stop or StopSignal()
    stop.listen()
    service = stop.unless_asked(lambda: Service(load_settings(path, embedded=embedded), parts))
    if service is None:
        log.info("stopped before it had started")
        leave()
    stop.call(service.ask_to_stop)
    collect_rarely()
    if parts.ingest and service.settings.stream.embedded:
        way = "by POST /v1/events and" if producers(service.settings) else "only"
        log.info(
            "embedded, for one machine: trying out and small sites; events come %s from files in"
            " %s; slicewatch db send-log moves them to Kafka",
            *(way, event_folder(service.settings) / "inbox"),
        )
    service.run()
