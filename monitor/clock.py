"""The real clocks."""

from __future__ import annotations

import time


class SystemClock:
    """Wall clock and monotonic clock of this machine."""

    def now(self) -> int:
        """Return microseconds since 1970 UTC."""
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        return time.monotonic()
