"""Calendar spans that tables cover, and which of them have closed.

Spans are hours, days, ISO weeks and four ISO weeks. Days and weeks begin at midnight in a zone that
is a whole number of hours away from UTC, so every span is a whole number of the next finer ones.

Example:
    >>> from datetime import UTC, datetime
    >>> from monitor.core.time import HOUR, to_micros
    >>> noon = to_micros(datetime(2026, 11, 27, 12, tzinfo=UTC))
    >>> [Span.containing(noon, kind).name for kind in SpanKind]
    ['2026-11-27T12', '2026-11-27', '2026-W48', '2026-W45+4']
    >>> Span.containing(noon, SpanKind.DAY, offset=13).name
    '2026-11-28'
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime

from monitor.core.time import DAY, HOUR, WEEK, to_datetime, to_micros

ANCHOR = to_micros(datetime(2024, 1, 1, tzinfo=UTC))
"""The Monday that spans are counted from. Any will do, but it must never change."""


class SpanKind(enum.IntEnum):
    """Length of a calendar span in microseconds, finest first."""

    HOUR = HOUR
    DAY = DAY
    WEEK = WEEK
    FOUR_WEEKS = 4 * WEEK

    @property
    def finer(self) -> SpanKind | None:
        """Return the next finer kind, of which this one consists; None for hours."""
        kinds = list(SpanKind)
        place = kinds.index(self)
        return kinds[place - 1] if place else None


class Edition(enum.StrEnum):
    """Edition of a span's label tables: the first, or the final one after the horizon.

    ``first`` is made at the label frontier. ``final`` is made once the horizon has passed, of
    weeks and four weeks alone: a row differs only if at least k of its labels have changed.
    """

    FIRST = "first"
    FINAL = "final"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A calendar span of event time: an hour, a day, a week or four weeks.

    Attributes:
        kind: its length.
        index: its number; 0 begins on the Monday of the anchor, earlier ones are negative.
        offset: hours that the zone is ahead of UTC. Hours are the same in every zone.
    """

    kind: SpanKind
    index: int
    offset: int = 0

    @classmethod
    def containing(cls, at: int, kind: SpanKind, offset: int = 0) -> Span:
        """Return the span of a kind that contains an instant (microseconds)."""
        shift = 0 if kind is SpanKind.HOUR else offset
        return cls(kind, (at + shift * HOUR - ANCHOR) // kind, shift)

    @property
    def start(self) -> int:
        """Return the first instant in the span (microseconds)."""
        return ANCHOR + self.index * self.kind - self.offset * HOUR

    @property
    def end(self) -> int:
        """Return the first instant after the span (microseconds)."""
        return self.start + self.kind

    @property
    def name(self) -> str:
        """Return the span's name, such as 2026-11-27T12, 2026-11-27, 2026-W48 or 2026-W45+4."""
        begin = to_datetime(self.start + self.offset * HOUR)
        if self.kind < SpanKind.WEEK:
            return f"{begin:%Y-%m-%dT%H}" if self.kind is SpanKind.HOUR else f"{begin:%Y-%m-%d}"
        week = "{0.year:04}-W{0.week:02}".format(begin.isocalendar())
        return week if self.kind is SpanKind.WEEK else f"{week}+4"

    def before(self, count: int) -> tuple[Span, ...]:
        """Return ``count`` consecutive spans that end with this one, oldest first.

        Example:
            >>> [span.index for span in Span(SpanKind.DAY, 9).before(3)]
            [7, 8, 9]
        """
        indexes = range(self.index - count + 1, self.index + 1)
        return tuple(Span(self.kind, index, self.offset) for index in indexes)

    def holds(self, span: Span) -> bool:
        """Return True when ``span`` lies within this one."""
        return self.start <= span.start and span.end <= self.end

    @property
    def parts(self) -> tuple[Span, ...]:
        """Return the next finer spans within this one, oldest first; empty for an hour.

        Example:
            >>> [len(Span(kind, 0).parts) for kind in SpanKind]
            [0, 24, 7, 4]
        """
        finer = self.kind.finer
        if finer is None:
            return ()
        return Span.containing(self.end - 1, finer, self.offset).before(self.kind // finer)


def label_frontier(watermark: int, usual_delay: int | None, seen_delay: int, horizon: int) -> int:
    """Return the event time (microseconds) up to which label tables are made, for all rows at once.

    ``watermark - min(2 * delay, horizon)``. Twice the usual delay, because labels of a span's last
    minute are as late as others.

    Args:
        watermark: event time that decisions are complete to.
        usual_delay: the usual time from a decision to its label; None in the first week.
        seen_delay: the longest delay seen so far, which stands for it until then; 0 if there is
            no label yet, and then the frontier waits for the horizon.
        horizon: how long labels are waited for at most.

    Example:
        >>> label_frontier(100, 10, 3, 50), label_frontier(100, None, 3, 50)
        (80, 94)
        >>> label_frontier(100, 40, 3, 50), label_frontier(100, None, 0, 50)
        (50, 50)
    """
    delay = seen_delay if usual_delay is None else usual_delay
    return watermark - (min(2 * delay, horizon) if delay else horizon)
