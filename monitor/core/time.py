"""Event time: integer microseconds since 1970 UTC, panes of four grains and the windows over them.

A pane is the tumbling interval ``[index * grain, (index + 1) * grain)``. Weeks are ISO weeks, so
their panes are shifted to begin on Monday.

Example:
    >>> pane_of(7_200 * SECOND, Grain.HOUR)
    2
    >>> pane_start(2, Grain.HOUR) // SECOND
    7200
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import overload

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY
# 1970-01-01 was a Thursday: the ISO week that holds it began three days earlier.
_WEEK_SHIFT = 3 * DAY
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Grain(enum.IntEnum):
    """Length of a pane in microseconds."""

    MINUTES5 = 5 * MINUTE
    HOUR = HOUR
    DAY = DAY
    WEEK = WEEK


def _shift(grain: Grain) -> int:
    return _WEEK_SHIFT if grain is Grain.WEEK else 0


@overload
def pane_of(at: int, grain: Grain) -> int: ...
@overload
def pane_of(at: Int64s, grain: Grain) -> Int64s: ...
def pane_of(at: int | Int64s, grain: Grain) -> int | Int64s:
    """Index of the pane that holds an instant (microseconds)."""
    return (at + _shift(grain)) // int(grain)


@overload
def pane_start(pane: int, grain: Grain) -> int: ...
@overload
def pane_start(pane: Int64s, grain: Grain) -> Int64s: ...
def pane_start(pane: int | Int64s, grain: Grain) -> int | Int64s:
    """First instant (microseconds) of a pane."""
    return pane * int(grain) - _shift(grain)


def to_micros(at: datetime) -> int:
    """Microseconds since 1970 UTC of an aware datetime, exact."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def to_datetime(micros: int) -> datetime:
    """The aware UTC datetime of an instant in microseconds."""
    return _EPOCH + timedelta(microseconds=micros)


@dataclass(frozen=True, slots=True)
class WindowKind:
    """A rolling window: its name, its length, the grain of its panes and whether it has labels.

    Attributes:
        name: as shown and exported, for example ``7d``.
        length: microseconds; a whole number of panes.
        grain: the panes it is a union of.
        labelled: False for windows that keep selection and blocked rates only.
    """

    name: str
    length: int
    grain: Grain
    labelled: bool = True


WINDOWS: dict[str, WindowKind] = {
    "1h": WindowKind("1h", HOUR, Grain.MINUTES5, labelled=False),
    "24h": WindowKind("24h", DAY, Grain.HOUR),
    "7d": WindowKind("7d", 7 * DAY, Grain.HOUR),
    "28d": WindowKind("28d", 28 * DAY, Grain.DAY),
}
