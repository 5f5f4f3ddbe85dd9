"""Logging of the service: one event a line, fields not sentences, never a payload."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime

from monitor.errors import SlicewatchError

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def trace_of(error: BaseException) -> str:
    """Trace of a failure, without its message: that may quote an event.

    Only our own errors, and those of the system, are known to quote none.
    """
    return "".join(_trace(error))


def _trace(error: BaseException) -> Iterator[str]:
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        yield from _trace(before)
        yield "\nand then\n\n"
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(error.__traceback__)
    safe = isinstance(error, SlicewatchError | OSError)
    name = type(error).__qualname__
    yield f"{name}: {error}" if safe else f"{name} (what it said is left out: it may quote events)"


class _Formatter(logging.Formatter):
    def _failure(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        return "" if error is None else trace_of(error)


class JsonFormatter(_Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON; extra fields are kept."""
        fields = {k: v for k, v in vars(record).items() if k not in _STANDARD}
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"at": at, "level": record.levelname.lower(), "logger": record.name}
        line |= {"event": record.getMessage(), **fields}
        if failure := self._failure(record):
            line["error"] = failure
        return json.dumps(line, default=str)


class TextFormatter(_Formatter):
    """One line of text a record, for a person at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, event and its fields."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        extra = " ".join(f"{k}={v}" for k, v in vars(record).items() if k not in _STANDARD)
        line = f"{at} {record.levelname.lower():7} {record.getMessage()} {extra}".rstrip()
        failure = self._failure(record)
        return f"{line}\n{failure}" if failure else line


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
