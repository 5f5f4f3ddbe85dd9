"""Ownership of shards: how this worker claims, keeps and loses them.

A shard passes from assigned (by the group's coordinator) to claimed (in the store, which fences its
last owner) to read. After all failures the way back is the same claim.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from consumers.collaborators import IngestPolicy, Store
from consumers.shard import Codecs, ShardState
from monitor.core.time import MINUTE
from monitor.errors import DataLossError, FencedError, SourceError
from monitor.ports import RecordSource
from monitor.records import Shard
from monitor.shard_status import CREATED_AGAIN, Claim, ShardStatus

log = logging.getLogger("slicewatch.ingest")

RETRY_SECONDS = 1.0
"""Pause between two tries to reach the store."""


@dataclass(frozen=True, slots=True)
class Parked:
    """Shard that waits for a person, with the epoch of its claim and the reason."""

    epoch: int
    reason: str


class Ownership:
    """Register of one worker's shards: those it reads, lost, not yet claimed, and parked.

    Attributes:
        states: claimed shards, being read.
        lost: claimed until the store failed; their lag is reported until they are claimed again.
        unclaimed: assigned, but not claimed yet.
        parked: assigned, but their data is gone from the broker.
    """

    def __init__(
        self, source: RecordSource, store: Store, codecs: Codecs, policy: IngestPolicy
    ) -> None:
        self.states: dict[Shard, ShardState] = {}
        self.lost: dict[Shard, ShardState] = {}
        self.unclaimed: set[Shard] = set()
        self.parked: dict[Shard, Parked] = {}
        self._source = source
        self._store = store
        self._codecs = codecs
        self._policy = policy
        self._not_before = 0.0

    @property
    def any(self) -> bool:
        """Return True if the coordinator has assigned any shard to this worker."""
        return bool(self.states or self.unclaimed or self.parked)

    def assign(self, shards: Iterable[Shard]) -> None:
        """Record shards that the coordinator assigned to this worker; they are claimed later."""
        self.unclaimed.update(shards)

    def drop(self, shard: Shard) -> None:
        """Forget a shard that the coordinator took away; its next owner rereads unstored events."""
        self.unclaimed.discard(shard)
        self.lost.pop(shard, None)
        self.parked.pop(shard, None)
        if self.states.pop(shard, None) is not None:
            log.info("shard dropped", extra={"shard": str(shard)})

    def claim(self, now: float) -> list[ShardState] | None:
        """Claim assigned shards if the coordinator confirms; return the states of those now read.

        Returns None when the store was not asked. Raises StoreError.
        """
        shards = sorted(self.unclaimed)
        if not shards or now < self._not_before or not self._source.is_member(shards):
            return None
        self._not_before = now + RETRY_SECONDS
        present = self._topic_ids(shards)
        claimable = [shard for shard in shards if shard.topic in present]
        if not claimable:
            return None
        claims = self._store.claim(claimable, self._policy.owner, present)
        # Since the last claim the store may have gone back to an older state, without these rows.
        self._codecs.coder.forget_codes()
        begun = [self._begin(claim, present[claim.shard.topic]) for claim in claims]
        return [state for state in begun if state is not None]

    def _topic_ids(self, shards: Iterable[Shard]) -> dict[str, str | None]:
        """Return the current id of each shard's topic, without topics that cannot be asked now."""
        present = {}
        for topic in {shard.topic for shard in shards}:
            with suppress(SourceError):
                present[topic] = self._source.topic_id(topic)
        return present

    def _begin(self, claim: Claim, topic_id: str | None) -> ShardState | None:
        """Begin to read a claimed shard; return None if it is parked or another worker's now."""
        shard = claim.shard
        if claim.parked is not None:
            self._hold(claim, claim.parked)
            return None
        try:
            _require_same_topic(claim, topic_id)
            if (offset := self._next_offset(claim)) is None:
                return None
            state = self._state(claim, offset)
            self.unclaimed.discard(shard)
            self._source.begin(shard, offset)
        except FencedError:
            log.warning("shard was claimed by another worker", extra={"shard": str(shard)})
            return None
        except DataLossError as error:
            self._park(claim, error)
            return None
        self._source.resume([shard])
        self.lost.pop(shard, None)
        self.states[shard] = state
        log.info("shard claimed", extra={"shard": str(shard), "offset": offset})
        return state

    def _next_offset(self, claim: Claim) -> int | None:
        """Return the claim's next offset, stored if it is the first; None if no broker tells it."""
        if claim.next_offset is not None:
            return claim.next_offset
        try:
            offset = self._source.first_offset(claim.shard, self._policy.start)
        except SourceError as error:
            log.warning("shard is not begun yet: %s", error, extra={"shard": str(claim.shard)})
            return None
        self._store.start(claim, offset)
        return offset

    def _state(self, claim: Claim, offset: int) -> ShardState:
        """Return the state of a claimed shard, with its stored duplicate keys."""
        is_decisions = claim.shard.topic == self._policy.decisions_topic
        state = ShardState.from_claim(claim, self._codecs, is_decisions, offset)
        if is_decisions and claim.max_decided_at is not None:
            since = (claim.max_decided_at - self._codecs.dedupe_window) // MINUTE
            state.filter.restore(*self._store.duplicate_keys(claim.shard, since))
        return state

    def lose(self, error: DataLossError) -> None:
        """Park a shard whose data is gone from the broker, until a person decides.

        Raises StoreError, and the error itself where it names no shard.
        """
        if not isinstance(error.shard, Shard):
            raise error
        # A shard that is not being read is claimed first; its loss is reported again.
        if (state := self.states.get(error.shard)) is None:
            return
        present = self._topic_ids([state.shard])
        if state.shard.topic not in present:
            # The next claim depends on whether the topic is another one now.
            self._release([state.shard])
            return
        self.compare(state.shard.topic, present[state.shard.topic])
        if state.shard in self.states:
            self._park(state.claim, error)

    def compare(self, topic: str, topic_id: str | None) -> None:
        """Park shards of a topic whose id has changed since their claim. Raises StoreError."""
        for state in [s for s in self.states.values() if s.shard.topic == topic]:
            try:
                _require_same_topic(state.claim, topic_id)
            except DataLossError as error:
                self._park(state.claim, error)

    def claim_anew(self, topics: Collection[str]) -> None:
        """Release the shards of missing topics; the next claim checks topics before any read."""
        self._release([shard for shard in self.states if shard.topic in topics])

    @property
    def epochs(self) -> dict[Shard, int]:
        """Return the epoch of each shard that is read or waits for a person."""
        read_epochs = {shard: state.claim.epoch for shard, state in self.states.items()}
        return read_epochs | {
            shard: parked_shard.epoch for shard, parked_shard in self.parked.items()
        }

    def review(self, statuses: Iterable[ShardStatus]) -> None:
        """Release shards that ``statuses`` show as claimed by others; reclaim resumed ones.

        A parked shard that a person gave another offset is claimed again. So is a shard that was
        taken over, or whose position is not ours (after a restore, or a take-over by a lagging
        standby): without a message no flush would notice. Raises StoreError.
        """
        for status in statuses:
            shard = status.shard
            state, parked = self.states.get(shard), self.parked.get(shard)
            if state is not None and not _as_stored(state, status):
                self.fenced(shard)
            if parked is not None and parked.epoch != status.epoch:
                del self.parked[shard]
                self.unclaimed.add(shard)
            elif parked is not None and status.parked is None:
                self._store.park(shard, parked.epoch, parked.reason)  # the store was away before

    def _park(self, claim: Claim, error: DataLossError) -> None:
        self._hold(claim, str(error))
        self._store.park(claim.shard, claim.epoch, str(error))

    def _hold(self, claim: Claim, reason: str) -> None:
        """Park a shard: it is not read until somebody resumes it."""
        shard = claim.shard
        log.error("data loss, shard is parked: %s", reason, extra={"shard": str(shard)})
        self.states.pop(shard, None)
        self.lost.pop(shard, None)
        self.unclaimed.discard(shard)
        self._source.pause([shard])
        self.parked[shard] = Parked(claim.epoch, reason)

    def fenced(self, shard: object) -> None:
        """Release a shard that another worker has claimed; claim it back while it is assigned."""
        log.warning("shard is owned by another worker now", extra={"shard": str(shard)})
        self._release([owned for owned in self.states if owned == shard])

    def forget_all(self, now: float) -> None:
        """Drop all unstored events and claim the shards again later: the commit may have failed."""
        for state in self.states.values():
            state.lose()
        self.lost |= self.states
        self._release(list(self.states))
        self._not_before = now + RETRY_SECONDS

    def _release(self, shards: list[Shard]) -> None:
        """Pause shards, and drop their states until they are claimed again."""
        self._source.pause(shards)
        self.unclaimed.update(shards)
        for shard in shards:
            del self.states[shard]


def _as_stored(state: ShardState, status: ShardStatus) -> bool:
    """Return True if a shard's claim and position are those that the store has."""
    return (state.claim.epoch, state.committed) == (status.epoch, status.next_offset)


def _require_same_topic(claim: Claim, topic_id: str | None) -> None:
    """Raise a DataLossError if the topic was created again since it was last read."""
    shard, stored_id = claim.shard, claim.topic_id
    if stored_id is None or topic_id is None or stored_id == topic_id:
        return
    raise DataLossError(
        f"topic {shard.topic} {CREATED_AGAIN} since partition {shard.partition} was"
        " last read; its stored position means nothing in the new topic. To go on: slicewatch db"
        f" resume-from {shard.topic} {shard.partition} OFFSET --reason TEXT",
        shard,
    )
