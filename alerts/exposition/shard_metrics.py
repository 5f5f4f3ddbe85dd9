"""Committed totals of shards as samples: a shard that is not ours any more has none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from alerts.exposition import catalogue
from alerts.exposition.catalogue import Family
from monitor.core.privacy.bands import Precision
from monitor.ports import Shard, Tallies

Labels = tuple[str, ...]
Values = dict[Family, dict[Labels, float]]

MIN_REQUESTED = 1_000
"""Requested decisions a share of duplicates needs: 0.1 % is what an alert looks for."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps in which totals of events are shown.

    An exact total next to a rounded rate gives the counts of small windows away, and a total that
    moves with each event reveals that event: whether a label was asked for, hence its route.
    So what is shown is renewed only after a step of further events, and in whole steps.

    Attributes:
        size: events; 1 shows every event as it comes.
    """

    size: int

    @property
    def exact(self) -> bool:
        """True when everything is shown as it is."""
        return self.size == 1

    def down(self, number: int) -> int:
        """In whole steps."""
        return number // self.size * self.size

    def up(self, number: int) -> int:
        """In whole steps, so that more than nothing is never shown as nothing."""
        return -self.down(-number)

    def shown(self, tallies: Tallies, before: ReportedShard | None) -> Tallies:
        """Totals that are shown now."""
        if before is None or self.exact:
            return tallies
        since = tallies.events - before.shown.events
        return before.shown if 0 <= since < self.size else tallies


@dataclass(frozen=True, slots=True)
class ReportedShard:
    """State of a shard as ingest last reported it.

    Attributes:
        tallies: committed totals.
        shown: totals on /metrics: of a moment since which less than a step of events came.
        lag_messages: messages behind the end; None is unknown.
        lag_seconds: age of the oldest unread one.
        offsets: next offset minus start offset.
    """

    tallies: Tallies
    shown: Tallies
    lag_messages: int | None
    lag_seconds: float | None
    offsets: int | None


def add_shard(
    values: Values, shard: Shard, state: ReportedShard, reasons: Iterable[str], steps: Steps
) -> None:
    """Add the samples of one shard; ``reasons`` are those whose series start at 0."""
    labels = (shard.topic, str(shard.partition))
    tallies, shown = state.tallies, state.shown

    def put(family: Family, value: float | None, *more: str) -> None:
        if value is not None:
            values.setdefault(family, {})[*labels, *more] = float(value)

    put(catalogue.MESSAGES, steps.down(shown.messages))
    for outcome, count in _outcomes(shown).items():
        put(catalogue.EVENTS, steps.down(count), outcome)
    # Of nobody who was counted: the first one is to be seen at once.
    put(catalogue.TOMBSTONES, tallies.tombstones)
    put(catalogue.EVENTS, sum(tallies.dead_letters.values()), "dead_letter")
    for reason, count in {**dict.fromkeys(reasons, 0), **tallies.dead_letters}.items():
        put(catalogue.DEAD_LETTERS, count, reason)
    put(catalogue.UNKEPT, tallies.unkept)
    for reason, count in shown.unmatched.items():
        put(catalogue.UNMATCHED, steps.down(count), reason)
    # Rounded up: the first is to be seen, since each distorts the rates.
    for kind, count in (("late", shown.late), ("cross_partition", shown.cross_partition)):
        put(catalogue.COUNTED_AGAIN, steps.up(count), kind)
    put(catalogue.IMBALANCE, tallies.balance, "events")
    if state.offsets is not None:
        put(catalogue.IMBALANCE, state.offsets - tallies.messages - tallies.gaps, "offsets")
    if state.lag_messages is not None:
        put(catalogue.LAG_MESSAGES, steps.up(max(state.lag_messages, 0)))
    if state.lag_seconds is not None:
        put(catalogue.LAG_SECONDS, max(state.lag_seconds, 0.0))


def add_sums(
    values: Values, tallies: Sequence[Tallies], steps: Steps, precision: Precision
) -> None:
    """Add what is a sum over all shards of this process, from the totals that are shown."""
    values[catalogue.WAITING] = {(): float(steps.down(sum(t.waiting for t in tallies)))}
    requested: Counter[str] = Counter()
    repeated: Counter[str] = Counter()
    for tally in tallies:
        requested.update(tally.requested)
        repeated.update(tally.repeated)
    routes = [route for route, count in requested.items() if count >= MIN_REQUESTED]
    # From bands: the exact quotient moves with every decision of a route.
    again = precision.support([repeated[route] for route in routes])
    asked = precision.support([requested[route] for route in routes])
    shares = np.minimum(np.round(again / asked, 4), 1).tolist()
    values[catalogue.DUPLICATES] = {(r,): share for r, share in zip(routes, shares, strict=True)}


def _outcomes(tallies: Tallies) -> Mapping[str, int]:
    return {
        "counted": tallies.counted,
        "duplicate": tallies.duplicates,
        "thinned": tallies.thinned,
        "stale": tallies.stale,
        "unmatched": sum(tallies.unmatched.values()),
    }
