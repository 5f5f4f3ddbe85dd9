"""The real clocks."""

from __future__ import annotations

import time


class SystemClock:
    """Clock of this machine: wall time and monotonic time; implements the port ``Clock``."""

    def now(self) -> int:
        """Return the wall time in microseconds since 1970 UTC."""
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        """Return seconds since a fixed, arbitrary moment; they never run backwards."""
        return time.monotonic()
