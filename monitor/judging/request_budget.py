"""Budget of a judge: requests per minute, and requests and tokens per day (UTC).

A request is recorded before it is sent, so that no restart, and no kill, spends twice. The tokens
of an answer are known after it: the last requests of a day may exceed the budget by their own
tokens.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from monitor.errors import SlicewatchError

MINUTE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits on one worker's requests and tokens.

    Attributes:
        requests_per_minute: evenly spread.
        requests_per_day: requests after which the worker waits for the next day.
        tokens_per_day: likewise; None: not limited.
    """

    requests_per_minute: int
    requests_per_day: int
    tokens_per_day: int | None = None


@dataclass(slots=True)
class _Spent:
    """Requests and tokens that were spent on a day (ISO date, UTC)."""

    day: str
    requests: int = 0
    tokens: int = 0


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


@dataclass(slots=True)
class RequestBudget:
    """Budget of requests and tokens, counted in a file; may be used from several threads.

    Args:
        path: file of today's count; its folder exists.
        limits: limits of this worker.
        today: returns the day, ISO.
        monotonic: returns seconds.
        sleep: waits for the given seconds.
    """

    path: Path
    limits: RequestLimits
    today: Callable[[], str] = _today
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _spent: _Spent | None = None
    _next: float = 0.0

    @property
    def spent(self) -> tuple[int, int]:
        """Return the numbers of requests and tokens used today."""
        with self._lock:
            spent_today = self._spent_today()
            return spent_today.requests, spent_today.tokens

    @property
    def exhausted(self) -> bool:
        """Return True if today's limit of requests or tokens is reached."""
        with self._lock:
            return self._is_exhausted(self._spent_today())

    def take(self) -> bool:
        """Record one request and sleep until its turn; return False if today's budget is spent.

        Raises:
            SlicewatchError: the record cannot be written, so nothing may be sent.
        """
        with self._lock:
            spent = self._spent_today()
            if self._is_exhausted(spent):
                return False
            spent.requests += 1
            self._write(spent)
            turn = max(self._next, self.monotonic())
            self._next = turn + MINUTE_SECONDS / self.limits.requests_per_minute
        self.sleep(max(0.0, turn - self.monotonic()))
        return True

    def add_tokens(self, tokens: int) -> None:
        """Add an answer's tokens to today's count, and store the count."""
        with self._lock:
            spent = self._spent_today()
            spent.tokens += tokens
            self._write(spent)

    def _is_exhausted(self, spent: _Spent) -> bool:
        """Return True if the day's requests, or its tokens if limited, are spent."""
        limits = self.limits
        of_tokens = limits.tokens_per_day is not None and spent.tokens >= limits.tokens_per_day
        return of_tokens or spent.requests >= limits.requests_per_day

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
            return _Spent(str(record["day"]), int(record["requests"]), int(record["tokens"]))
        except FileNotFoundError:
            return _Spent(self.today())
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SlicewatchError(
                f"{self.path}: what was spent today cannot be read ({type(error).__name__});"
                " remove the file to begin the day's budget anew"
            ) from None

    def _write(self, spent: _Spent) -> None:
        """Record what is spent, safe against a crash; nothing is asked if this fails."""
        text = json.dumps({"day": spent.day, "requests": spent.requests, "tokens": spent.tokens})
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
