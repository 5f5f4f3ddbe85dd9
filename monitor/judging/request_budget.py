"""Budget of a judge: requests per day (UTC).

A request is recorded before it is sent, so that no restart, and no kill, spends twice. There is no
limit per minute: a busy endpoint answers HTTP 429, and the judge waits then.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from monitor.errors import SlicewatchError


@dataclass(slots=True)
class _Spent:
    """Requests that were made on a day (ISO date, UTC)."""

    day: str
    requests: int = 0


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


@dataclass(slots=True)
class RequestBudget:
    """Budget of one worker's requests, counted in a file; may be used from several threads.

    Args:
        path: file of today's count; its folder exists.
        per_day: requests after which the worker waits for the next day.
        today: returns the day, ISO.
    """

    path: Path
    per_day: int
    today: Callable[[], str] = _today
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _spent: _Spent | None = None

    @property
    def spent(self) -> int:
        """Return the number of today's requests."""
        with self._lock:
            return self._spent_today().requests

    @property
    def exhausted(self) -> bool:
        """Return True if today's limit is reached."""
        return self.spent >= self.per_day

    def take(self) -> bool:
        """Record one request and return True; return False if today's budget is spent.

        Raises:
            SlicewatchError: the record cannot be written, so nothing may be sent.
        """
        with self._lock:
            spent = self._spent_today()
            if spent.requests >= self.per_day:
                return False
            spent.requests += 1
            self._write(spent)
        return True

    def _spent_today(self) -> _Spent:
        """Return what was spent today, read once from the file; nothing on a new day."""
        today = self.today()
        if self._spent is None:
            self._spent = self._read()
        if self._spent.day != today:
            self._spent = _Spent(today)
        return self._spent

    def _read(self) -> _Spent:
        """Return what was spent today; nothing if there is no file."""
        try:
            record = json.loads(self.path.read_text(encoding="utf-8"))
            return _Spent(str(record["day"]), int(record["requests"]))
        except FileNotFoundError:
            return _Spent(self.today())
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SlicewatchError(
                f"{self.path}: what was spent today cannot be read ({type(error).__name__});"
                " remove the file to begin the day's budget anew"
            ) from None

    def _write(self, spent: _Spent) -> None:
        """Record what is spent, safe against a crash; nothing is asked if this fails."""
        text = json.dumps({"day": spent.day, "requests": spent.requests})
        new = self.path.with_suffix(".new")
        try:
            with new.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        except OSError as error:
            with suppress(OSError):
                new.unlink()
            raise SlicewatchError(
                f"{self.path}: what is spent cannot be recorded: {error.strerror}; nothing is asked"
            ) from None
