"""Faults of the files, as ``slicewatch replay`` reports them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from alerts.exposition.service_metrics import ServiceMetrics
from consumers.event_words import why


class RunNotes(ServiceMetrics):
    """Observer of one replay that also counts exactly: the files are the caller's own.

    Attributes:
        unreadable: number of unreadable events, by reason and field.
        dropped: number of fields that no event type has, by name.
        below: number of decisions served with a score below their own threshold.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unreadable: Counter[tuple[str, str]] = Counter()
        self.dropped: Counter[str] = Counter()
        self.below = 0

    def add_unreadable(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Add dead letters by (reason, field) to the metrics and to ``unreadable``."""
        super().add_unreadable(counts)
        self.unreadable.update(counts)

    def add_unknown_fields(self, event: str, counts: Mapping[str, int]) -> None:
        """Add dropped fields of an event by name to the metrics and to ``dropped``."""
        super().add_unknown_fields(event, counts)
        self.dropped.update(counts)

    def add_below_threshold(self, count: int) -> None:
        """Add decisions served below their threshold to the metrics and to ``below``."""
        super().add_below_threshold(count)
        self.below += count

    def lines(self, events: int) -> Iterator[str]:
        """Yield lines on unreadable events, dropped fields and odd decisions; none if all is well.

        Args:
            events: events read in this run.
        """
        if total := self.unreadable.total():
            yield f"{total:,} of {events:,} events could not be read and are not counted:"
            for (reason, field), number in self.unreadable.most_common():
                yield f"  {number:,}: {why(reason, field)}"
            yield "slicewatch check --events FILE names the lines"
        if self.dropped:
            fields = (f"{name} ({number:,})" for name, number in self.dropped.most_common())
            yield f"fields that no event has were dropped unread: {', '.join(fields)}"
        if self.below:
            yield (
                f"{self.below:,} decisions are on auto_serve although their judge_score is below"
                " their own threshold"
            )
