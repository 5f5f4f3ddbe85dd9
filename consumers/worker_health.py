"""Health of the consumer (is it alive, ready, making progress?), and the lag of its shards.

The ingest thread writes it; other threads read it at any moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import inf

from consumers.shard import ShardState
from monitor.ports import ConsumerState, Shard

STUCK_SECONDS = 60.0
"""Read messages are not stored, or assigned shards not taken over, for this long: stuck."""
POLL_SECONDS = 30.0
"""A poll that does not return for this long: stuck."""
UNASSIGNED_SECONDS = 300.0
"""No partition at all for this long: stuck (a spare without partitions is fine before)."""

_NO_ACCESS = "no broker lets this worker in and read"
_NO_SCHEMAS = "messages wait for their schemas: the registry does not answer"
_STALLED = "the broker does not answer, or a message or batch is too large to receive"


@dataclass(slots=True)
class Health:
    """Plain values written by the ingest thread alone (monotonic seconds).

    Attributes:
        polled: when a poll last returned.
        stored: when everything read was last in the store.
        assigned: when the worker last had a partition.
        claimed: when every partition it had was last taken over.
        started: an assignment was received at least once.
        behind: the broker holds messages that were not read.
        stalled: names of shards whose messages do not arrive; empty when all move.
        missing: names of topics that the brokers do not know any more.
        unknown: shards whose end is to be asked for; the watchdog answers.
        paused: nothing is read because of back-pressure.
        store_ok: the last flush or claim succeeded.
        access_error: why no broker would let us in and read, None while one does; written by the
            watchdog's thread.
        parked: a shard waits for a person, because its data is gone from the broker.
        registry_error: why messages wait for their schemas, None while none do for long.
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
        """Everything happened just now: the deadlines begin."""
        return cls(now, now, now, now)

    def stuck(self, now: float) -> str | None:
        """Reason why the consumer makes no progress, or None."""
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
        """Return True when the loop turns. Nothing that a restart cannot repair is asked here."""
        return now - self.polled <= 4 * POLL_SECONDS

    def ready(self, now: float) -> tuple[bool, str]:
        """Readiness of this worker, and if it is not ready, the reason."""
        if not self.started:
            return False, _NO_ACCESS if self.access_error else "no assignment yet"
        if not self.store_ok:
            return False, "the store cannot be written"
        if self.parked:
            return False, "a shard is parked after data loss"
        if self.access_error:  # its words name users and brokers, and anybody may ask
            return False, _NO_ACCESS
        if self.registry_error:
            return False, _NO_SCHEMAS
        reason = self.stuck(now)
        return reason is None, reason or "ok"

    def state(self, now: float) -> ConsumerState:
        """One word for dashboards."""
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
"""Messages are there and none arrive for this long: stalled."""
UNKNOWN_SECONDS = 10.0
"""The first answer of a broker has the end of a shard; without one for this long we must ask
elsewhere, since a first message too large to receive is as silent as an empty topic."""
SILENT_SECONDS = 60.0
"""No messages for this long: where the shard ended is an old memory then, and must be asked for
anew, since a broker that leads this shard alone and is away is as silent as a quiet topic."""
PAUSED_SECONDS = 15.0
"""What is held back is not asked for by its client: its lag is asked for this often."""
NAMED = 3


class Progress:
    """Time at which each shard last had messages, or nothing to wait for (monotonic seconds)."""

    def __init__(self) -> None:
        self._since: dict[Shard, float] = {}
        self._heard: dict[Shard, float] = {}
        self._paused: frozenset[Shard] = frozenset()

    def set_end_offsets(
        self, states: Mapping[Shard, ShardState], ends: Mapping[Shard, int | None], now: float
    ) -> None:
        """Take in end offsets of shards that had been :meth:`unknown`; None: nobody could say."""
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
        """Take in one turn of the loop.

        Args:
            states: the shards that are being read.
            moved: those that brought messages.
            now: monotonic seconds.
            paused: those that are held back on purpose.
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
        """Shards whose messages do not arrive, by name; empty when there are none."""
        names = [
            str(state.shard)
            for state in states
            if state.high_water is not None and self._waits(state, now) > STALLED_SECONDS
        ]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return ", ".join(sorted(names)[:NAMED]) + more

    def unknown(self, states: Iterable[ShardState], now: float) -> list[Shard]:
        """Shards whose end the broker has not reported for too long, or not lately."""
        return [
            state.shard
            for state in states
            if (state.high_water is None and self._waits(state, now) > UNKNOWN_SECONDS)
            or self._silent(state, now) > self._patience(state)
        ]

    def _patience(self, state: ShardState) -> float:
        """Seconds for which the end of a shard is believed without a message."""
        if state.shard in self._paused:
            return PAUSED_SECONDS
        return SILENT_SECONDS if state.caught_up or state.doubted else inf

    def _waits(self, state: ShardState, now: float) -> float:
        return now - self._since.get(state.shard, now)

    def _silent(self, state: ShardState, now: float) -> float:
        return now - self._heard.get(state.shard, now)


def lag(state: ShardState, now: int, *, storing: bool = True) -> tuple[int | None, float | None]:
    """Messages behind the end, and the age of the oldest unread one in seconds; None: unknown.

    Args:
        state: the shard.
        now: wall clock, microseconds.
        storing: whether what is read is stored soon; otherwise it counts as unread.
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
