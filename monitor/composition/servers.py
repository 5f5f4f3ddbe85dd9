"""HTTP servers and the receiver of events, from the settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from alerts.exposition.exporter import Exporter
from consumers.collaborators import Observer
from monitor.composition.brokers import kafka_writer
from monitor.composition.ingest import checking_codecs
from monitor.ports import Clock
from monitor.settings import Settings
from monitor.settings.checks import is_loopback
from monitor.settings.sections import ANYBODY, MappingSettings, Operations

if TYPE_CHECKING:
    from alerts.http import Find, HealthChecks, HttpConfig, Servers
    from consumers.receiving import EventJudge, EventReceiver
    from consumers.sources.event_log import EventLog
    from monitor.web import Site


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


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


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
