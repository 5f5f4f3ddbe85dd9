"""Logging of the service: one event per line, in fields, without payloads."""

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
    """Return the traceback of an error as text, without its message, which may quote an event.

    Messages of our own errors and of the operating system quote none and are kept.
    """
    return "".join(_trace(error))


def _trace(error: BaseException) -> Iterator[str]:
    """Yield the traceback with its causes; of foreign errors the message is left out."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        yield from _trace(cause)
        yield "\nand then\n\n"
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(error.__traceback__)
    safe = isinstance(error, SlicewatchError | OSError)
    name = type(error).__qualname__
    yield f"{name}: {error}" if safe else f"{name} (what it said is left out: it may quote events)"


class _Formatter(logging.Formatter):
    """Formatter with the traceback of a record's error, or an empty text."""

    def _failure(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        return "" if error is None else trace_of(error)


class JsonFormatter(_Formatter):
    """Log formatter that writes one JSON object per line, for a log collector."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON, with its extra fields."""
        fields = {k: v for k, v in vars(record).items() if k not in _STANDARD}
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"at": at, "level": record.levelname.lower(), "logger": record.name}
        line |= {"event": record.getMessage(), **fields}
        if failure := self._failure(record):
            line["error"] = failure
        return json.dumps(line, default=str)


class TextFormatter(_Formatter):
    """Log formatter that writes one line of text per record, for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, event and fields in one line; a traceback follows below."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        extra = " ".join(f"{k}={v}" for k, v in vars(record).items() if k not in _STANDARD)
        line = f"{at} {record.levelname.lower():7} {record.getMessage()} {extra}".rstrip()
        failure = self._failure(record)
        return f"{line}\n{failure}" if failure else line


def _is_logged(record: logging.LogRecord) -> bool:
    """Return False for the Kafka client's records below critical, which repeat; else True.

    The consumer state tells once that a broker is away, and why.
    """
    return record.name.partition(".")[0] != "kafka" or record.levelno >= logging.CRITICAL


def configure(level: str = "INFO") -> None:
    """Replace the root log handler by one to standard error: text on a terminal, else JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if sys.stderr.isatty() else JsonFormatter())
    handler.addFilter(_is_logged)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("slicewatch").setLevel(level)
