"""Samples of the committed totals of the shards that are ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.privacy.bands import Precision
from monitor.records import Shard
from monitor.shard_status import Tallies

Labels = tuple[str, ...]
Values = dict[str, dict[Labels, float]]
"""Samples of families, by the name of the family without prefix and by the values of its labels."""

MIN_REQUESTED = 1_000
"""Requested decisions that a share of duplicates needs: an alert looks for 0.1 %."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Step size in which totals of events are shown, so that no single event can be seen.

    An exact total next to a rounded rate reveals the counts of small windows. A total that moves
    with each event reveals whether a label of that event was requested, hence its route. So totals
    are renewed only after a step of further events, and shown in whole steps.

    Attributes:
        size: events per step; 1 shows every event at once.
    """

    size: int

    @property
    def exact(self) -> bool:
        """Return True if totals are shown exactly."""
        return self.size == 1

    def down(self, number: int) -> int:
        """Return the number rounded down to whole steps."""
        return number // self.size * self.size

    def up(self, number: int) -> int:
        """Return the number rounded up to whole steps, so that 0 means none."""
        return -self.down(-number)

    def totals_to_show(self, tallies: Tallies, before: ReportedShard | None) -> Tallies:
        """Return the new totals once a full step of events has passed, else those shown before."""
        if before is None or self.exact:
            return tallies
        since = tallies.events - before.shown.events
        return before.shown if 0 <= since < self.size else tallies


@dataclass(frozen=True, slots=True)
class ReportedShard:
    """Totals and lag of a shard, as ingest last reported them.

    Attributes:
        tallies: committed totals.
        shown: totals on /metrics, older by less than a step of events.
        lag_messages: messages behind the end; None if unknown.
        lag_seconds: age of the oldest unread message.
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
    """Add the samples of one shard to ``values``; series of ``reasons`` start at 0."""
    labels = (shard.topic, str(shard.partition))
    tallies, shown = state.tallies, state.shown

    def put(name: str, value: float | None, *further_labels: str) -> None:
        if value is not None:
            values.setdefault(name, {})[*labels, *further_labels] = float(value)

    put("messages_consumed_total", steps.down(shown.messages))
    for outcome, count in _outcomes(shown).items():
        put("events_total", steps.down(count), outcome)
    # Exact, because no counted decision is in them and the first one must show at once.
    put("tombstones_total", tallies.tombstones)
    put("events_total", sum(tallies.dead_letters.values()), "dead_letter")
    for reason, count in {**dict.fromkeys(reasons, 0), **tallies.dead_letters}.items():
        put("dead_letters_total", count, reason)
    put("dead_letters_unkept_total", tallies.unkept)
    for reason, count in shown.unmatched.items():
        put("labels_unmatched_total", steps.down(count), reason)
    # Rounded up so that the first one shows, since each distorts the rates.
    for kind, count in (("late", shown.late), ("cross_partition", shown.cross_partition)):
        put("duplicates_counted_total", steps.up(count), kind)
    put("conservation_imbalance", tallies.balance, "events")
    if state.offsets is not None:
        put("conservation_imbalance", state.offsets - tallies.messages - tallies.gaps, "offsets")
    if state.lag_messages is not None:
        put("consumer_lag_messages", steps.up(max(state.lag_messages, 0)))
    if state.lag_seconds is not None:
        put("consumer_lag_seconds", max(state.lag_seconds, 0.0))


def add_sums(
    values: Values, tallies: Sequence[Tallies], steps: Steps, precision: Precision
) -> None:
    """Add sums over all shards of this process to ``values``, computed from the shown totals."""
    values["waiting_labels"] = {(): float(steps.down(sum(t.waiting for t in tallies)))}
    requested: Counter[str] = Counter()
    repeated: Counter[str] = Counter()
    for tally in tallies:
        requested.update(tally.requested)
        repeated.update(tally.repeated)
    routes = [route for route, count in requested.items() if count >= MIN_REQUESTED]
    # Computed from bands, because the exact quotient moves with every decision of a route.
    repeats = precision.support([repeated[route] for route in routes])
    requests = precision.support([requested[route] for route in routes])
    shares = np.minimum(np.round(repeats / requests, 4), 1).tolist()
    values["duplicate_ratio"] = {(r,): share for r, share in zip(routes, shares, strict=True)}


def _outcomes(tallies: Tallies) -> Mapping[str, int]:
    return {
        "counted": tallies.counted,
        "duplicate": tallies.duplicates,
        "thinned": tallies.thinned,
        "stale": tallies.stale,
        "unmatched": sum(tallies.unmatched.values()),
    }
