"""Keys that hash decision ids, and how exact the times are that choose a key."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from monitor.core.time import MINUTE, to_micros

NEAR = MINUTE
"""Largest error of a decision's time in its label, also across the edge of an hour."""


BEGINNING = to_micros(datetime.min.replace(tzinfo=UTC))
"""Start of the first id key."""


@dataclass(frozen=True, slots=True)
class IdKey:
    """Key for hashing ids, with its first day.

    Attributes:
        id: name of the key.
        start: first decided_at (microseconds) of the key; the successor's start ends its use.
        key: the secret.
    """

    id: str
    start: int
    key: bytes = field(repr=False)
