"""Retention periods of stored rows."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.core.time import DAY, HOUR

MINUTES5_KEPT = 26 * HOUR
HOURS_KEPT_AFTER_HORIZON = 8 * DAY


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Retention periods (microseconds)."""

    horizon: int
    aggregates: int
    dead_letters: int
    snapshots: int
    dedupe_window: int
