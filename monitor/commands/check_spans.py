"""Shortest spans that show slices of an assumed size, for ``slicewatch check``."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.commands.check_labels import AssumedTraffic
from monitor.core.tables.spans import SpanKind
from monitor.core.time import DAY
from monitor.settings import Settings

_NAMES = {
    SpanKind.HOUR: "hour",
    SpanKind.DAY: "day",
    SpanKind.WEEK: "week",
    SpanKind.FOUR_WEEKS: "four weeks",
}


def span_lines(settings: Settings, assumed: AssumedTraffic) -> Iterator[str]:
    """Yield a line per contract on the first span that shows a slice's decisions, and labels."""
    for contract in settings.contracts:
        k, head = (
            contract.k,
            f"contract {contract.name}: a slice of {assumed.daily} decisions a day",
        )
        if k == 1:
            continue
        decisions = _shortest_span(assumed.daily, 2 * k - 1)
        labels = _shortest_span(min(map(assumed.labels, ("auto_serve", "human_review"))), k)
        yield (
            f"ok: {head} shows its selection rate by the {_NAMES[decisions]}"
            if decisions
            else f"warning: {head} is not shown: it has fewer than {2 * k - 1} in four weeks"
        )
        yield (
            f"ok: {head} shows its labelled rates by the {_NAMES[labels]}"
            if labels
            else f"warning: {head} has no labelled rates: a route has fewer than {k} labels in four"
            " weeks; audit more, or compare larger slices"
        )


def _shortest_span(daily: float, needed: int) -> SpanKind | None:
    """Return the shortest span with ``needed`` items at ``daily`` a day; None if none has."""
    return next((kind for kind in SpanKind if daily * kind / DAY >= needed), None)
