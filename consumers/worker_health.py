"""Health of the consumer (alive, ready, making progress), and the lag of its shards.

The ingest thread writes it; other threads read it at any moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import inf

from consumers.shard import ShardState
from monitor.records import Shard
from monitor.shard_status import ConsumerState

STUCK_SECONDS = 60.0
"""Time without storing read messages, or taking over assigned shards, that means stuck."""
POLL_SECONDS = 30.0
"""Time without the return of a poll that means stuck."""
UNASSIGNED_SECONDS = 300.0
"""Time without any partition that means stuck (before, a spare worker is fine)."""

_NO_ACCESS = "no broker lets this worker in and read"
_NO_SCHEMAS = "messages wait for their schemas: the registry does not answer"
_STALLED = "the broker does not answer, or a message or batch is too large to receive"


@dataclass(slots=True)
class Health:
    """Health of an ingest worker, written by its thread alone (times in monotonic seconds).

    Attributes:
        polled: time when a poll last returned.
        stored: time when everything read was last in the store.
        assigned: time when the worker last had a partition.
        claimed: time when all of its partitions were last taken over.
        started: an assignment was received at least once.
        behind: the broker holds messages that were not read.
        stalled: names of shards whose messages do not arrive; empty when all move.
        missing: names of topics that the brokers no longer know.
        unknown: shards whose end is to be asked for; the watchdog answers.
        paused: nothing is read because of back-pressure.
        store_ok: the last flush or claim succeeded.
        access_error: reason why no broker grants us access, None while one does; written by the
            watchdog's thread.
        parked: a shard waits for a person, because its data is gone from the broker.
        registry_error: reason why messages wait for their schemas, None while none do for long.
    """

    polled: float
    stored: float
    assigned: float
    claimed: float
    started: bool = False
    behind: bool = False
    stalled: str = ""
    missing: str = ""
    unknown: tuple[Shard, ...] = ()
    paused: bool = False
    store_ok: bool = True
    access_error: str | None = None
    parked: bool = False
    registry_error: str | None = None

    @classmethod
    def at(cls, now: float) -> Health:
        """Return a new worker's health, whose deadlines begin at ``now``."""
        return cls(now, now, now, now)

    def stuck(self, now: float) -> str | None:
        """Return the reason why the consumer makes no progress; None if it does."""
        reasons = (
            (self.access_error, self.access_error),
            (self.registry_error, self.registry_error),
            (now - self.polled > POLL_SECONDS, "no poll has returned"),
            (now - self.stored > STUCK_SECONDS, "what was read could not be stored"),
            (self.missing, f"topic {self.missing} does not exist any more"),
            (self.stalled, f"messages of {self.stalled} are waiting and none arrive: {_STALLED}"),
            (now - self.claimed > STUCK_SECONDS, "assigned partitions could not be taken over"),
            (now - self.assigned > UNASSIGNED_SECONDS, "no partition is assigned"),
        )
        return next((reason for holds, reason in reasons if holds), None)

    def live(self, now: float) -> bool:
        """Return True if the loop turns; faults that a restart cannot repair do not matter."""
        return now - self.polled <= 4 * POLL_SECONDS

    def ready(self, now: float) -> tuple[bool, str]:
        """Return whether this worker is ready, and the reason if not, or "ok"."""
        if not self.started:
            return False, _NO_ACCESS if self.access_error else "no assignment yet"
        if not self.store_ok:
            return False, "the store cannot be written"
        if self.parked:
            return False, "a shard is parked after data loss"
        if self.access_error:  # its text names users and brokers, and anybody may ask for this one
            return False, _NO_ACCESS
        if self.registry_error:
            return False, _NO_SCHEMAS
        reason = self.stuck(now)
        return reason is None, reason or "ok"

    def state(self, now: float) -> ConsumerState:
        """Return the state of the consumer, for dashboards."""
        if not self.started:
            return ConsumerState.STUCK if self.access_error else ConsumerState.STARTING
        if self.parked:
            return ConsumerState.PARKED
        if self.stuck(now):
            return ConsumerState.STUCK
        if self.paused or not self.store_ok:
            return ConsumerState.PAUSED
        return ConsumerState.CONSUMING if self.behind else ConsumerState.CAUGHT_UP


STALLED_SECONDS = 60.0
"""Time without arrivals, though messages wait, that means stalled."""
UNKNOWN_SECONDS = 10.0
"""Time without a first answer, which has the end of a shard, after which we ask elsewhere: a first
message too large to receive is as silent as an empty topic."""
SILENT_SECONDS = 60.0
"""Time without messages after which the end of a shard is asked for anew: an absent broker that
leads only this shard is as silent as a quiet topic."""
PAUSED_SECONDS = 15.0
"""Interval of asking for the end of shards that are held back: their client does not ask."""
NAMED = 3


class Progress:
    """Tracker of the time when each shard last had messages or nothing to wait for (monotonic)."""

    def __init__(self) -> None:
        self._since: dict[Shard, float] = {}
        self._heard: dict[Shard, float] = {}
        self._paused: frozenset[Shard] = frozenset()

    def set_end_offsets(
        self, states: Mapping[Shard, ShardState], ends: Mapping[Shard, int | None], now: float
    ) -> None:
        """Record end offsets of the shards that we own; None makes a shard doubted."""
        for shard in states.keys() & ends.keys():
            end = ends[shard]
            states[shard].see_end(end)
            states[shard].doubted = end is None
            if end is not None:
                self._heard[shard] = now

    def note(
        self,
        states: Iterable[ShardState],
        moved: Collection[Shard],
        now: float,
        *,
        paused: Collection[Shard] = (),
    ) -> None:
        """Record one turn of the loop: which shards moved, and which are paused.

        Args:
            states: states of the shards that are read.
            moved: shards that brought messages.
            now: monotonic seconds.
            paused: shards that are held back on purpose.
        """
        self._paused = frozenset(paused)
        before, self._since = self._since, {}
        heard, self._heard = self._heard, {}
        for state in states:
            shard = state.shard
            rests = shard in moved or shard in self._paused or state.caught_up
            self._since[shard] = now if rests else before.get(shard, now)
            self._heard[shard] = now if shard in moved else heard.get(shard, now)

    def stalled(self, states: Iterable[ShardState], now: float) -> str:
        """Return the names of shards whose messages do not arrive, as a text; empty without any."""
        names = [
            str(state.shard)
            for state in states
            if state.high_water is not None and self._waits(state, now) > STALLED_SECONDS
        ]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return ", ".join(sorted(names)[:NAMED]) + more

    def unknown(self, states: Iterable[ShardState], now: float) -> list[Shard]:
        """Return the shards whose end offset must be asked for: never, or not lately, reported."""
        return [
            state.shard
            for state in states
            if (state.high_water is None and self._waits(state, now) > UNKNOWN_SECONDS)
            or self._silent(state, now) > self._trust_seconds(state)
        ]

    def _trust_seconds(self, state: ShardState) -> float:
        """Return the seconds for which a shard's end offset is believed without a message."""
        if state.shard in self._paused:
            return PAUSED_SECONDS
        return SILENT_SECONDS if state.caught_up or state.doubted else inf

    def _waits(self, state: ShardState, now: float) -> float:
        """Return the seconds since a shard moved, paused or was at its end; 0 before any."""
        return now - self._since.get(state.shard, now)

    def _silent(self, state: ShardState, now: float) -> float:
        """Return the seconds since a shard's end was last heard of; 0 before any."""
        return now - self._heard.get(state.shard, now)


def lag(state: ShardState, now: int, *, storing: bool = True) -> tuple[int | None, float | None]:
    """Return the number of unread messages, and the age (seconds) of the oldest; None if unknown.

    Args:
        state: the shard.
        now: wall clock, microseconds.
        storing: whether events are stored soon; otherwise they count as unread.
    """
    if state.high_water is None or state.doubted:
        return None, None
    unstored = state.dirty and not storing
    read_to = state.committed if unstored else state.next_offset
    behind = unstored or state.aside > 0 or not state.caught_up
    messages = max(0, state.high_water - read_to) if behind else 0
    if messages == 0 or state.last_timestamp is None or state.last_timestamp < 0:
        return messages, 0.0 if messages == 0 else None
    return messages, max(0.0, now / 1e6 - state.last_timestamp / 1e3)
