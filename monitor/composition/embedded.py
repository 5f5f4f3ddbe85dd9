"""Event log and inbox of an embedded run, from the settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from monitor.ports import Clock, RecordSource
from monitor.settings import Settings
from monitor.settings.paths import SQLITE

if TYPE_CHECKING:
    from consumers.receiving import EventJudge
    from consumers.sources.event_log import EventLog
    from consumers.sources.inbox import Inbox


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
