"""Checks at intervals: the store's status of all shards, and the ids of the topics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from consumers.backpressure import PeerProgress
from consumers.collaborators import IngestPolicy, Store
from consumers.event_time import FIRST_DAY
from consumers.ownership import Ownership
from consumers.shard import Codecs, ShardState
from monitor.errors import MissingTopicError, RetiredTopicError, SourceError, StoreError
from monitor.ports import RecordSource
from monitor.records import Shard
from monitor.shard_status import ShardStatus, Tallies

REVIEW_SECONDS = 10.0
"""Interval of reading the store's status of all shards: which were resumed or taken over, the
progress of other workers, and the event time for caught-up shards (clock ``live``)."""
PAUSED_SECONDS = 1.0
"""Interval of reading the progress of other workers while a shard is held back for them."""
TOPICS_SECONDS = 15.0
"""Longest time until we notice that a topic was created again while we read it, or that a partition
was added."""

VERSIONS_SECONDS = 600.0
"""Shortest interval of looking up the live version tuples, while there are too many."""


@dataclass(frozen=True, slots=True)
class UnreadLag:
    """Lag of a shard that no worker reads, with its stored totals.

    Attributes:
        tallies: stored totals of the shard.
        offsets: next offset minus start offset.
        messages: messages behind the end.
        seconds: least time that it has lagged; 0 when there is nothing to read.
    """

    shard: Shard
    tallies: Tallies
    offsets: int
    messages: int
    seconds: float


class UnreadShards:
    """Register of shards that no worker reads and whose lag this worker reports.

    They were just added, or wait for a person; their lag is reported too.
    """

    def __init__(self) -> None:
        self._statuses: dict[Shard, ShardStatus] = {}
        self._since: dict[Shard, float] = {}

    @property
    def shards(self) -> frozenset[Shard]:
        """Return the unread shards, whose end offsets the caller should ask for."""
        return frozenset(self._statuses)

    def review(
        self, statuses: Iterable[ShardStatus], parked: Collection[Shard], topics: Collection[str]
    ) -> None:
        """Replace the unread shards: those of these topics that have no owner or are parked here.

        Args:
            statuses: statuses of all shards.
            parked: shards of this worker that wait for a person.
            topics: topics of the settings.
        """
        self._statuses = {
            status.shard: status
            for status in statuses
            if status.next_offset is not None
            and status.shard.topic in topics
            and (status.owner is None or status.shard in parked)
        }
        self._since = {s: at for s, at in self._since.items() if s in self._statuses}

    def set_end_offsets(self, ends: Mapping[Shard, int | None], now: float) -> Iterator[UnreadLag]:
        """Yield the lag of each unread shard with an end offset, at ``now`` (monotonic seconds).

        Args:
            ends: next offset to be written; None where unknown.
            now: monotonic seconds.
        """
        for shard in self._statuses.keys() & ends.keys():
            status, end = self._statuses[shard], ends[shard]
            if end is None or status.next_offset is None:
                continue
            messages = max(0, end - status.next_offset)
            since = self._since.setdefault(shard, now) if messages else now
            if not messages:
                self._since.pop(shard, None)
            offsets = status.next_offset - (status.start_offset or 0)
            yield UnreadLag(shard, status.tallies, offsets, messages, now - since)


class Reconciler:
    """Periodic comparison with store and topics; methods return at once until they are due.

    Attributes:
        peers: progress of the shards of other workers at the last look.
        missing: topics that the brokers did not know at the last look.
        unread: shards that nobody reads, and this worker reports.
    """

    def __init__(
        self,
        source: RecordSource,
        store: Store,
        own: Ownership,
        *,
        codecs: Codecs,
        policy: IngestPolicy,
        now: float,
    ) -> None:
        self.peers = PeerProgress()
        self.missing: list[str] = []
        self.unread = UnreadShards()
        self._known: set[Shard] = set()
        self._source = source
        self._store = store
        self._own = own
        self._codecs = codecs
        self._policy = policy
        self._next_review = now + REVIEW_SECONDS
        self._next_peers = now + PAUSED_SECONDS
        self._next_topics = now + TOPICS_SECONDS
        self._next_versions = now
        self._reached: dict[Shard, int | None] = {}
        self._positions: dict[Shard, int] = {}

    def reconcile_peers(self, statuses: Sequence[ShardStatus] | None = None) -> None:
        """Update other workers' progress from ``statuses``, or from the store if None.

        Raises:
            StoreError: the store cannot be read.
        """
        if self._codecs.clock.live:
            self.peers = PeerProgress.from_statuses(
                self._store.statuses() if statuses is None else statuses,
                self._own.states,
                self._policy.decisions_topic,
                self._codecs.lateness,
            )

    def review(
        self, now: float, paused: Collection[Shard] = (), *, wall: int, storing: bool = True
    ) -> list[ShardState] | None:
        """Compare with the store when due; return idle shards with a new status, None if not due.

        None when it is not time to look. Meanwhile only the progress of other workers is read, if
        shards are paused, which may wait for it. Paused shards never change their status: how
        their topic goes on is unknown.

        Args:
            now: monotonic seconds.
            paused: shards that are held back.
            wall: this worker's wall clock, microseconds.
            storing: whether events can be stored.

        Raises:
            StoreError: the store cannot be read.
            RetiredTopicError: the store was started with other topics since.
        """
        if now < self._next_review:
            if paused and storing and now >= self._next_peers:
                self._next_peers = now + PAUSED_SECONDS
                self.reconcile_peers()
            return None
        self._next_review = now + REVIEW_SECONDS
        self._renew_versions(now)
        with suppress(StoreError):  # the flush that fails reports it
            self._store.beat(self._own.epochs, storing=storing, waiting=self._shards_behind(paused))
        statuses = self._store.statuses()
        self._require_in_use(statuses)
        self._own.review(statuses)
        self.unread.review(statuses, self._own.parked, self._policy.topics)
        self._reached = {s.shard: s.max_decided_at for s in statuses}
        self._known |= self._reached.keys()
        self.reconcile_peers(statuses)
        decisions = self._policy.decisions_topic
        idle = [
            state
            for state in self._own.states.values()
            if state.caught_up and not state.dirty and state.shard not in paused
        ]
        self._judge_aside(wall)
        return self._advance_idle(idle, [s for s in statuses if s.shard.topic == decisions], wall)

    def _shards_behind(self, paused: Collection[Shard]) -> dict[Shard, bool]:
        """Return the shards not read to their end, each True if it moves or is paused.

        Values are True where events were read since the last call, or where a shard is held back on
        purpose: it waits for another shard.
        """
        before, self._positions = self._positions, {}
        waiting = {}
        for shard, state in self._own.states.items():
            self._positions[shard] = state.next_offset
            if not state.caught_up:
                moved = before.get(shard, state.next_offset) != state.next_offset
                waiting[shard] = moved or shard in paused
        return waiting

    def _require_in_use(self, statuses: Iterable[ShardStatus]) -> None:
        """Raise RetiredTopicError if a status shows one of our topics as retired.

        A claim would tell, too; a worker that lost its shards to others makes none.
        """
        for status in statuses:
            if status.retired_at is not None and status.shard.topic in self._policy.topics:
                raise RetiredTopicError(status.shard.topic)

    def reached(self, topic: str) -> int:
        """Return the event time that each shard of a topic had reached; 2000 if any had none."""
        times = [at for shard, at in self._reached.items() if shard.topic == topic]
        return min((FIRST_DAY if at is None else at for at in times), default=FIRST_DAY)

    def newest_of_others(self, shard: Shard) -> int | None:
        """Return the newest event time of all other shards, as last read; None without any."""
        reached = self._reached | {s.shard: s.reached for s in self._own.states.values()}
        return max(
            (at for other_shard, at in reached.items() if other_shard != shard and at is not None),
            default=None,
        )

    def _judge_aside(self, wall: int) -> None:
        """Have caught-up shards judge waiting events at the second look, since nothing follows."""
        for state in self._own.states.values():
            if state.aside and state.caught_up:
                if state.quiet:
                    state.judge_aside(wall, self.newest_of_others(state.shard))
                state.quiet = True

    def _renew_versions(self, now: float) -> None:
        """Drop version tuples that are not live in the store, if due and new ones lack room."""
        coder = self._codecs.coder
        if coder.crowded and now >= self._next_versions:
            self._next_versions = now + VERSIONS_SECONDS
            coder.renew_versions(self._store.live_versions())

    def _advance_idle(
        self, idle: Sequence[ShardState], decisions: Sequence[ShardStatus], wall: int
    ) -> list[ShardState]:
        """Advance idle shards to the newest event time of all (``live``); return changed ones.

        Under both clocks the status of shards that never had an event must reach the store.
        """
        newest = [s.max_decided_at for s in decisions if s.max_decided_at is not None]
        latest = max(newest, default=None) if self._codecs.clock.live else None
        return [s for s in idle if s.advance(wall, latest) or s.holds_back != s.held_back]

    def review_topics(self, now: float) -> Collection[str]:
        """Park shards of re-created topics, register new partitions, return missing topics, if due.

        The list is empty when it is not time to look.

        Raises:
            StoreError: the parking could not be stored; the next review tries again.
        """
        if now < self._next_topics or self._source.finished:
            return ()
        self._next_topics = now + TOPICS_SECONDS
        self.missing = [topic for topic in self._policy.topics if not self._review_topic(topic)]
        return self.missing

    def _review_topic(self, topic: str) -> bool:
        """Check a topic's id and partitions; return False only if it is known to be missing."""
        try:
            present = self._source.topic_id(topic)
        except MissingTopicError:
            return False
        except SourceError:
            return True  # the brokers are away, as the watchdog reports
        self._own.compare(topic, present)
        self._add_partitions(topic)
        return True

    def _add_partitions(self, topic: str) -> None:
        """Record added partitions of a topic in the store, before any worker reads them."""
        try:
            new = set(self._source.shards(topic)) - self._known
        except SourceError:
            return
        if new:
            self._store.register(sorted(new))
            self._known |= new
