"""Logging of the service: one event a line, fields not sentences, never a payload."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON; extra fields are kept."""
        fields = {k: v for k, v in vars(record).items() if k not in _STANDARD}
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"at": at, "level": record.levelname.lower(), "logger": record.name}
        line |= {"event": record.getMessage(), **fields}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """For a person at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, event and its fields."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        extra = " ".join(f"{k}={v}" for k, v in vars(record).items() if k not in _STANDARD)
        line = f"{at} {record.levelname.lower():7} {record.getMessage()} {extra}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _is_ours(record: logging.LogRecord) -> bool:
    """Leave out the Kafka client's own lines: one a retry while a broker is away.

    Our state says so once, and why.
    """
    return record.name.partition(".")[0] != "kafka" or record.levelno >= logging.CRITICAL


def configure(level: str = "INFO") -> None:
    """Log to standard error: text on a terminal, JSON lines elsewhere."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if sys.stderr.isatty() else JsonFormatter())
    handler.addFilter(_is_ours)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("slicewatch").setLevel(level)
