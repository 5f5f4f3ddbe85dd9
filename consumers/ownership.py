"""Which shards this worker owns, and how it comes to own them.

A shard passes from assigned (by the group's coordinator) to claimed (in the store, which fences
its last owner out) to read. Whatever goes wrong, the way back in is the same claim.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from consumers.roles import IngestPolicy, Store
from consumers.shard import Codecs, ShardState
from monitor.core.time import MINUTE
from monitor.errors import DataLossError, FencedError
from monitor.ports import Claim, RecordSource, Shard

log = logging.getLogger("slicewatch.ingest")

RETRY_SECONDS = 1.0
"""Pause between two tries to reach the store."""
PARKED_SECONDS = 30.0
"""A parked shard that was read without a new loss for this long is parked no more."""


class Ownership:
    """The shards of one worker.

    Attributes:
        states: claimed shards, being read.
        lost: claimed until the store went away; their lag is told until they are claimed again.
        unclaimed: assigned, but not claimed yet.
        parked: assigned, but their data is gone from the broker; and since when (monotonic).
    """

    def __init__(
        self, source: RecordSource, store: Store, codecs: Codecs, policy: IngestPolicy
    ) -> None:
        self.states: dict[Shard, ShardState] = {}
        self.lost: dict[Shard, ShardState] = {}
        self.unclaimed: set[Shard] = set()
        self.parked: dict[Shard, float] = {}
        self._source = source
        self._store = store
        self._codecs = codecs
        self._policy = policy
        self._not_before = 0.0

    @property
    def any(self) -> bool:
        """Whether any shard is assigned."""
        return bool(self.states or self.unclaimed or self.parked)

    def assign(self, shards: Iterable[Shard]) -> None:
        """The coordinator gave us shards."""
        self.unclaimed.update(shards)

    def drop(self, shard: Shard) -> None:
        """The coordinator took a shard away: what was not stored is its next owner's."""
        self.unclaimed.discard(shard)
        self.lost.pop(shard, None)
        self.parked.pop(shard, None)
        if self.states.pop(shard, None) is not None:
            log.info("shard dropped", extra={"shard": str(shard)})

    def claim(self, now: float) -> list[ShardState]:
        """Claim what is assigned, once the coordinator agrees that it is ours.

        Returns the shards that are read from now on. Raises StoreError.
        """
        shards = sorted(self.unclaimed)
        if not shards or now < self._not_before or not self._source.is_member(shards):
            return []
        self._not_before = now + RETRY_SECONDS
        begun = [self._begin(claim, now) for claim in self._store.claim(shards, self._policy.owner)]
        return [state for state in begun if state is not None]

    def _begin(self, claim: Claim, now: float) -> ShardState | None:
        shard = claim.shard
        try:
            offset = self._offset(claim)
            state = self._state(claim, offset)
            self.unclaimed.discard(shard)
            self._source.begin(shard, offset)
        except FencedError:
            log.warning("shard was claimed by another worker", extra={"shard": str(shard)})
            return None
        except DataLossError as error:
            self.park(error, now)
            return None
        self._source.resume([shard])
        self.lost.pop(shard, None)
        self.states[shard] = state
        log.info("shard claimed", extra={"shard": str(shard), "offset": offset})
        return state

    def _offset(self, claim: Claim) -> int:
        if claim.next_offset is not None:
            return claim.next_offset
        offset = self._source.first_offset(claim.shard, self._policy.start)
        self._store.start(claim, offset)
        return offset

    def _state(self, claim: Claim, offset: int) -> ShardState:
        is_decisions = claim.shard.topic == self._policy.decisions_topic
        state = ShardState.of(claim, self._codecs, is_decisions, offset)
        if state.filter is not None and claim.max_decided_at is not None:
            since = (claim.max_decided_at - self._codecs.dedupe_window) // MINUTE
            state.filter.restore(*self._store.duplicate_keys(claim.shard, since))
        return state

    def park(self, error: DataLossError, now: float) -> None:
        """Data is gone from the broker: the shard waits for a person, the others go on.

        Raises the error itself where it concerns no shard that could wait.
        """
        shard = error.shard
        if not isinstance(shard, Shard):
            raise error
        if shard not in self.parked:
            log.error("data loss, shard is parked: %s", error, extra={"shard": str(shard)})
        self.states.pop(shard, None)
        self.lost.pop(shard, None)
        self.unclaimed.discard(shard)
        self.parked[shard] = now

    def look_at_parked(self, now: float) -> None:
        """Try parked shards again: a person may have given them a new offset."""
        for shard, since in list(self.parked.items()):
            if shard not in self.states:
                self.unclaimed.add(shard)
            elif now - since > PARKED_SECONDS:
                del self.parked[shard]
                log.info("shard is read again", extra={"shard": str(shard)})

    def fenced(self, shard: object) -> None:
        """Another worker has claimed a shard; if it is still assigned to us, claim it back."""
        log.warning("shard is owned by another worker now", extra={"shard": str(shard)})
        self._release([own for own in self.states if own == shard])

    def forget_all(self, now: float) -> None:
        """The outcome of a broken commit is unknown: drop everything, claim again later."""
        for state in self.states.values():
            state.lose()
        self.lost |= self.states
        self._release(list(self.states))
        self._not_before = now + RETRY_SECONDS

    def _release(self, shards: list[Shard]) -> None:
        self._source.pause(shards)
        self.unclaimed.update(shards)
        for shard in shards:
            del self.states[shard]
