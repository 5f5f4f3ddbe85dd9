"""Committed totals of shards as samples: a shard that is not ours any more has none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from alerts import catalogue
from alerts.catalogue import Family
from monitor.ports import Shard, Tallies

Labels = tuple[str, ...]
Values = dict[Family, dict[Labels, float]]

MIN_REQUESTED = 1_000
"""Requested decisions a share of duplicates needs: 0.1 % is what an alert looks for."""


@dataclass(frozen=True, slots=True)
class ShardState:
    """What ingest last said of a shard."""

    tallies: Tallies
    lag_messages: int | None
    lag_seconds: float | None
    offsets: int | None


def add_shard(values: Values, shard: Shard, state: ShardState, reasons: Iterable[str]) -> None:
    """Add the samples of one shard; ``reasons`` are those whose series start at 0."""
    labels = (shard.topic, str(shard.partition))
    tallies = state.tallies

    def put(family: Family, value: float | None, *more: str) -> None:
        if value is not None:
            values.setdefault(family, {})[*labels, *more] = float(value)

    put(catalogue.MESSAGES, tallies.messages)
    for outcome, count in _outcomes(tallies).items():
        put(catalogue.EVENTS, count, outcome)
    for reason, count in {**dict.fromkeys(reasons, 0), **tallies.dead_letters}.items():
        put(catalogue.DEAD_LETTERS, count, reason)
    put(catalogue.UNKEPT, tallies.unkept)
    for reason, count in tallies.unmatched.items():
        put(catalogue.UNMATCHED, count, reason)
    put(catalogue.IMBALANCE, tallies.balance, "events")
    if state.offsets is not None:
        put(catalogue.IMBALANCE, state.offsets - tallies.messages - tallies.gaps, "offsets")
    if state.lag_messages is not None:
        put(catalogue.LAG_MESSAGES, max(state.lag_messages, 0))
    if state.lag_seconds is not None:
        put(catalogue.LAG_SECONDS, max(state.lag_seconds, 0.0))


def add_sums(values: Values, tallies: Sequence[Tallies]) -> None:
    """Add what is a sum over all shards of this process."""
    values[catalogue.WAITING] = {(): float(sum(t.waiting for t in tallies))}
    requested: Counter[str] = Counter()
    repeated: Counter[str] = Counter()
    for tally in tallies:
        requested.update(tally.requested)
        repeated.update(tally.repeated)
    values[catalogue.DUPLICATES] = {
        (route,): round(repeated[route] / count, 4)
        for route, count in requested.items()
        if count >= MIN_REQUESTED
    }


def _outcomes(tallies: Tallies) -> Mapping[str, int]:
    return {
        "counted": tallies.counted,
        "duplicate": tallies.duplicates,
        "thinned": tallies.thinned,
        "stale": tallies.stale,
        "unmatched": sum(tallies.unmatched.values()),
        "dead_letter": sum(tallies.dead_letters.values()),
    }
