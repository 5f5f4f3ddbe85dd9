"""Does every shard move? One that does not must not hide behind the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import inf

from consumers.shard import ShardState
from monitor.ports import Shard

STALLED_SECONDS = 60.0
"""Messages are there and none arrive for this long: stalled."""
UNKNOWN_SECONDS = 10.0
"""The first answer of a broker tells where a shard ends; without one for this long we must ask
elsewhere, since a first message too large to receive is as silent as an empty topic."""
SILENT_SECONDS = 60.0
"""No messages for this long: where the shard ended is an old memory then, and must be asked for
anew, since a broker that leads this shard alone and is away is as silent as a quiet topic."""
PAUSED_SECONDS = 15.0
"""What is held back is not asked for by its client: how far it lags is asked for this often."""
NAMED = 3


class Progress:
    """When each shard last had messages, or nothing to wait for (monotonic seconds)."""

    def __init__(self) -> None:
        self._since: dict[Shard, float] = {}
        self._heard: dict[Shard, float] = {}
        self._paused: frozenset[Shard] = frozenset()

    def hear(
        self, states: Mapping[Shard, ShardState], ends: Mapping[Shard, int | None], now: float
    ) -> None:
        """Take in where shards end that had been :meth:`unknown`; None: nobody could say."""
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
        """Shards whose end the broker has not told for too long, or not lately."""
        return [
            state.shard
            for state in states
            if (state.high_water is None and self._waits(state, now) > UNKNOWN_SECONDS)
            or self._silent(state, now) > self._patience(state)
        ]

    def _patience(self, state: ShardState) -> float:
        """How long the end of a shard is believed without a message."""
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
