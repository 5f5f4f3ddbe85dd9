"""Windows that lack events, since these were lost before they could be read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from monitor.store.exclusions import Loss

_BEGINNING, _END = -(1 << 62), 1 << 62


@dataclass(frozen=True, slots=True)
class LostSpan:
    """Event time (microseconds) that lost events may belong to, both ends included."""

    first: int
    last: int

    def touches(self, start: int | None, end: int | None) -> bool:
        """Return True if the span overlaps a window; False if the window has no ends."""
        return start is not None and end is not None and self.first < end and start <= self.last


@dataclass(frozen=True, slots=True)
class LostSpans:
    """Spans of lost events, by their topic: decisions or labels."""

    decisions: tuple[LostSpan, ...] = ()
    labels: tuple[LostSpan, ...] = ()

    @classmethod
    def from_losses(
        cls, losses: Iterable[Loss], decisions_topic: str, lateness: int, horizon: int
    ) -> LostSpans:
        """Return, by topic, the widest span of event time that each loss may have touched.

        Events come up to ``lateness`` out of order, labels up to ``horizon`` after their
        decision; a span that is not known is as wide as can be.
        """
        decisions: list[LostSpan] = []
        labels: list[LostSpan] = []
        for loss in losses:
            if loss.topic == decisions_topic:
                decisions.append(_span(loss, lateness, lateness))
            else:
                labels.append(_span(loss, horizon, lateness))
        return cls(tuple(decisions), tuple(labels))

    def touch_decisions(self, start: int | None, end: int | None) -> bool:
        """Return True when decisions of the window ``start`` to ``end`` may be missing."""
        return any(span.touches(start, end) for span in self.decisions)

    def touch_labelled(self, start: int | None, end: int | None) -> bool:
        """Return True when decisions or labels of a window may be missing."""
        return any(span.touches(start, end) for span in (*self.decisions, *self.labels))


def _span(loss: Loss, before: int, after: int) -> LostSpan:
    """Return the span of event time in which lost events may lie, with margins."""
    first = _BEGINNING if loss.after is None else loss.after - before
    if loss.before is None:
        return LostSpan(first, _END)
    # Shards that were moved back read older events first: the gap is never less than nothing.
    newest = loss.before if loss.after is None else max(loss.before, loss.after)
    return LostSpan(first, newest + after)
