"""Ingest loop: poll, decode, and flush once per interval, exactly once in effect.

One thread does everything. At most one unflushed batch exists. All failures between two flushes
have the same answer: drop the buffer, claim again, and read on from the offset in the store.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import SimpleQueue

from consumers.backpressure import EarlyLabels, paused_shards
from consumers.collaborators import IngestPolicy, Observer, Store
from consumers.dead_letters import DeadLetterBreaker
from consumers.ownership import Ownership
from consumers.probe_signing import Doubt
from consumers.reconcile import Reconciler
from consumers.shard import Codecs, FlushNotices, ShardState
from consumers.wall_clock import WallClockWatch
from consumers.worker_health import Health, Progress, lag
from monitor.core.time import DAY, to_datetime
from monitor.errors import DataLossError, FencedError, StoreError
from monitor.ports import Clock, RecordSource
from monitor.records import Polled, RecordBatch, Shard

log = logging.getLogger("slicewatch.ingest")

POLL_SECONDS = 0.5
"""Longest wait for messages, and so for a stop to be noticed."""
REPORT_SECONDS = 5.0
"""Interval of reports of lag, also when nothing can be read or stored."""
FLUSH_EVENTS = 50_000
"""Events after which a flush is due before its time: more would fill a worker's memory in a
back-fill, and fewer would write a transaction for each poll."""
DEAD_LETTER_STOP_SHARE, DEAD_LETTER_MIN_EVENTS = 0.9, 1000
"""Share of unreadable events, of so many at least, at which a worker stops: a topic of another
format would be discarded as a whole. A lower share would stop at one broken producer of many."""

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 30.0
"""Pauses between tries: a database that restarts is back soon; a full disk lasts longer."""


class Retry:
    """Pauses between tries of a failed flush, each twice as long as the one before.

    Example:
        >>> retry = Retry()
        >>> [retry.failed() for _ in range(6)], retry.waits
        ([1.0, 2.0, 4.0, 8.0, 16.0, 30.0], True)
        >>> retry.succeeded()
        >>> retry.failed()
        1.0
    """

    def __init__(self) -> None:
        self._pause = 0.0

    @property
    def waits(self) -> bool:
        """Return True while a failed flush waits to be tried again."""
        return self._pause > 0

    def failed(self) -> float:
        """Record a failed try; return the seconds until the next one."""
        self._pause = min(2 * self._pause or FIRST_SECONDS, LONGEST_SECONDS)
        return self._pause

    def succeeded(self) -> None:
        """Reset the pause, since everything is stored."""
        self._pause = 0.0


class Ingest:
    """Worker that reads events from a source and flushes them to the store, in :meth:`run`.

    Attributes:
        source: source of messages; :meth:`run` closes it at its end.
        store: store of everything that is read.
        codecs: decode and code the events of all shards.
        states: shards that are claimed and read.
        health: health of the loop, for probes and the watchdog.
    """

    def __init__(
        self,
        *,
        source: RecordSource,
        store: Store,
        codecs: Codecs,
        policy: IngestPolicy,
        clock: Clock,
        observer: Observer,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.source = source
        self.store = store
        self.codecs = codecs
        self._policy = policy
        self._clock = clock
        self._observer = observer
        self._progress = progress or (lambda events: None)
        self._stop = threading.Event()
        self._own = Ownership(source, store, codecs, policy)
        self._retry = Retry()
        self.states = self._own.states
        self._paused: set[Shard] = set()
        self._early = EarlyLabels()
        now = clock.monotonic()
        self._next_flush = now + policy.flush_seconds
        self._reconciler = Reconciler(
            source, store, self._own, codecs=codecs, policy=policy, now=now
        )
        self._progress_of = Progress()
        self._reported_parked: set[Shard] = set()
        self._reported_unread: set[Shard] = set()
        self._ends: SimpleQueue[Mapping[Shard, int | None]] = SimpleQueue()
        self._events = 0
        self._next_report = now
        self._day = clock.now() // DAY
        self._wall = WallClockWatch(clock, codecs.clock.max_ahead)
        self._poison = DeadLetterBreaker(DEAD_LETTER_STOP_SHARE, DEAD_LETTER_MIN_EVENTS)
        self.health = Health.at(now)

    def stop(self) -> None:
        """Ask the loop to flush, leave the group and return."""
        self._stop.set()

    def set_end_offsets(self, ends: Mapping[Shard, int | None]) -> None:
        """Hand over the end offsets, or None, of :attr:`Health.unknown` shards; from any thread."""
        self._ends.put(dict(ends))

    def reached(self, are_labels: bool) -> int:
        """Return the event time that all shards of a topic had reached; any thread may ask.

        It is as last read from the store, so it may be some seconds old; 2000 if it is unknown.
        """
        return self._reconciler.reached(self._policy.topics[are_labels])

    def run(self) -> None:
        """Consume until :meth:`stop`, or until a source that ends has ended.

        Raises:
            SourceError: the source cannot be read any more; everything before is in the store.
        """
        try:
            self.register()
            ended = False
            while not ended:
                while not self._stop.is_set() and not self._done():
                    self.step(self._patience)
                self._finish()
                # Where the last flush failed, its shards are to be claimed and read again.
                ended = self._stop.is_set() or self._done()
        finally:
            self.source.close()

    def register(self) -> None:
        """Record all partitions of both topics in the store."""
        topics = self._policy.topics
        self.store.register([s for topic in topics for s in self.source.shards(topic)])

    @property
    def storing(self) -> bool:
        """Return False while a failed flush waits to be tried again."""
        return not self._retry.waits

    def _done(self) -> bool:
        """Return True when the source has ended and no shard waits for a claim or a flush."""
        return self.source.finished and not self._own.unclaimed and self.storing

    @property
    def _patience(self) -> float:
        """Return how long a poll may wait (seconds); longest while no shard is ours."""
        # Long while we join the group: kafka-python forgets a join that is answered between
        # two polls.
        return min(POLL_SECONDS, self._policy.flush_seconds) if self._own.any else POLL_SECONDS

    def step(self, timeout: float) -> None:
        """Run one turn: poll up to ``timeout`` seconds; claim, flush, compare and pause as due."""
        before = self._events
        polled = self._poll(timeout)
        now = self._clock.monotonic()
        self.health.polled = now
        for shard in polled.revoked:
            self._own.drop(shard)
            self._wall.forget(shard)
            self._paused.discard(shard)
            self._observer.drop_shard(shard)
        self._own.assign(polled.assigned)
        self.health.started |= bool(polled.assigned)
        # Before any claim: messages fetched under the last ownership start at its position.
        for records in polled.records:
            self._take(records)
        self._wall.require_right()
        self._claim(now)
        self._note_progress(now, {r.shard for r in polled.records if len(r.offsets)})
        held_shards = self._early.held(self.states.values(), now) if self.storing else ()
        buffered = sum(
            state.buffered for state in self.states.values() if state.shard not in held_shards
        )
        full = buffered >= self._policy.flush_events and self.storing
        if full or now >= self._next_flush:
            self._flush(held_shards)
        self._reconcile(now)
        self._throttle()
        self._progress(self._events - before)

    def _poll(self, timeout: float) -> Polled:
        """Poll the source; after a loss of data, store what came before and park the shard."""
        try:
            return self.source.poll(timeout)
        except DataLossError as error:
            self._flush()  # events before the loss are good
            self._lose(error)
            return Polled()

    def _lose(self, error: DataLossError) -> None:
        """Record a loss of data, or note that the store cannot be written."""
        try:
            self._own.lose(error)
        except StoreError as failure:
            self._lost_store(failure)

    def _note_progress(self, now: float, arrived: Collection[Shard]) -> None:
        """Record how far each shard is, and all facts of health that follow from it."""
        health, states = self.health, self.states.values()
        reported = [*states, *self._own.lost.values()]
        for state in reported:
            state.see_end(self.source.high_water(state.shard))
        for state in states:
            state.position = self.source.position(state.shard)
            if state.caught_up:
                state.attended = self._clock.now()
        while not self._ends.empty():
            ends = self._ends.get()
            self._progress_of.set_end_offsets(self.states, ends, now)
            self._report_unread(ends, now)
        self._forget_unread()
        self._progress_of.note(states, arrived, now, paused=self._paused)
        health.stalled = self._progress_of.stalled(states, now)
        unknown = self._progress_of.unknown(states, now)
        health.unknown = (*unknown, *self._reconciler.unread.shards)
        health.behind = any(not s.caught_up and s.high_water for s in states)
        health.paused = bool(self._paused)
        wire = self.codecs.wire
        health.registry_error = None if wire is None else wire.schemas.trouble
        self._report_parked()
        if now >= self._next_report:
            self._next_report = now + REPORT_SECONDS
            self._report_cardinality()
            for state in reported:
                self._report(state)
        if not any(state.dirty for state in self.states.values()) and health.store_ok:
            health.stored = now
        if self._own.any:
            health.assigned = now
        if not self._own.unclaimed or not health.store_ok:
            health.claimed = now

    def _report_unread(self, ends: Mapping[Shard, int | None], now: float) -> None:
        """Report the lag of partitions that no worker reads."""
        for unread in self._reconciler.unread.set_end_offsets(ends, now):
            if unread.shard in self.states:
                continue  # it is read now: its lag is reported with the shard
            self._reported_unread.add(unread.shard)
            self._observer.set_shard(
                unread.shard,
                unread.tallies,
                unread.messages,
                unread.seconds,
                offsets=unread.offsets,
            )

    def _forget_unread(self) -> None:
        """Take back the lag of partitions that a worker reads again."""
        for shard in self._reported_unread - self._reconciler.unread.shards:
            self._reported_unread.discard(shard)
            if shard not in self.states:
                self._observer.drop_shard(shard)

    def _report_parked(self) -> None:
        """Report which partitions are parked, if that has changed."""
        parked = set(self._own.parked)
        self.health.parked = bool(parked)
        for shard in parked ^ self._reported_parked:
            self._observer.set_parked(shard, shard in parked)
        self._reported_parked = parked

    def _claim(self, now: float) -> None:
        """Claim the assigned shards that are due, and report those that were claimed."""
        try:
            claimed = self._own.claim(now)
            if claimed is None:
                return
            self.health.store_ok = self.storing
            if claimed:
                self._reconciler.reconcile_peers()
        except StoreError as error:
            self._lost_store(error)
            return
        for state in claimed:
            self._paused.discard(state.shard)  # a claim resumes its shards
            self._set_back(state)
            self._report(state)
        self._wall.require_right()

    def _set_back(self, state: ShardState) -> None:
        """Begin a claimed shard at this machine's clock if its stored time is far beyond."""
        stored, now = state.clock.newest, self._clock.now()
        if state.set_back(now) and stored is not None:
            log.error(
                "the store has event time far beyond this machine's clock: the shard goes on at the"
                " clock",
                extra={"shard": str(state.shard), "stood_at": to_datetime(stored).isoformat()},
            )
        self._wall.record(state.shard, beyond=state.clock.beyond)

    def _lost_store(self, error: StoreError) -> None:
        """Note that the store failed, and forget all shards: they are claimed and read again."""
        if self.health.store_ok:
            log.error("store failed, consumption pauses: %s", error)
        self.health.store_ok = False
        self._observer.store_failed()
        self._own.forget_all(self._clock.monotonic())
        self._paused.clear()

    # Data

    def _take(self, records: RecordBatch) -> None:
        """Add a batch to its shard; drop it if the shard is not ours any more."""
        state = self.states.get(records.shard)
        if state is None:
            return  # revoked since: the next owner reads these messages
        with self._counting(state):
            state.add(records, self._clock.now(), self._newest_of_others(state))
            if state.aside and self.source.ended(state.shard):
                state.judge_aside(self._clock.now(), self._newest_of_others(state))
        self._wall.record(records.shard, beyond=state.clock.beyond)
        state.ahead.record(state.clock.ahead, self._clock.monotonic())

    @contextmanager
    def _counting(self, state: ShardState) -> Iterator[None]:
        """Add events read within this context to the progress; the breaker judges them after."""
        events, unreadable = state.tallies.events, Counter(state.unreadable)
        yield
        fresh = state.tallies.events - events
        self._events += fresh
        self._poison.record(state.shard, fresh, state.unreadable - unreadable)

    def _newest_of_others(self, state: ShardState) -> int | None:
        """Return other shards' newest event time if the shard's first event needs it, else None."""
        needs_judging = not self.codecs.clock.live and state.clock.newest is None
        return self._reconciler.newest_of_others(state.shard) if needs_judging else None

    def _flush(self, held_shards: Collection[Shard] = ()) -> None:
        """Flush all shards but the held ones, and set the time of the next flush."""
        loose = [s for s in self.states.values() if s.shard not in held_shards]
        states = [s for s in loose if s.dirty or s.tallies.waiting]
        self._next_flush = self._clock.monotonic() + self._policy.flush_seconds
        if not states and self._retry.waits:
            self._retry.succeeded()  # the waiting events are another worker's now
        for state in states:
            state.advance(self._clock.now())
        self._write(states)

    def _write(self, states: Sequence[ShardState]) -> None:
        """Store all that these shards have buffered; after a failure, schedule another try."""
        if not states:
            return
        began = self._clock.monotonic()
        try:
            result = self.store.flush([s.flush() for s in states], self.codecs.coder.dictionary)
        except FencedError as error:
            self._fenced(error)
            return
        except StoreError as error:
            self._schedule_retry(error)
            return
        self.codecs.coder.settled()
        self._retry.succeeded()
        self.health.store_ok = True
        self.health.stored = self._clock.monotonic()
        for state in states:
            self._log_notices(state, state.flushed(result.tallies[state.shard]))
            self._report(state)
        self._observer.flushed(self._clock.monotonic() - began)
        self._observer.observe_label_delays(result.delays, joined_at=self._clock.now())
        self.source.report({state.shard: state.committed for state in states})

    def _schedule_retry(self, error: StoreError) -> None:
        """Report the failed flush, keep its events, and schedule the next try.

        It is unknown whether a broken commit has reached the database; if it has, the fence tells.
        """
        if self.health.store_ok:
            log.error("store failed, consumption pauses: %s", error)
        self.health.store_ok = False
        self._observer.store_failed()
        self._next_flush = self._clock.monotonic() + self._retry.failed()

    def _log_notices(self, state: ShardState, notices: FlushNotices) -> None:
        """Pass what a flush noticed to the observer: unreadable events, unknown values, doubts."""
        if notices.unreadable:
            self._observer.add_unreadable(notices.unreadable)
        if notices.unknown:
            self._report_unknown_fields(state.is_decisions, notices.unknown)
        if notices.below:
            self._observer.add_below_threshold(notices.below)
        for attribute, number in notices.unlisted.items():
            self._observer.add_unknown_values(attribute, number)
        if notices.doubts:
            doubts = notices.doubts
            self._observer.add_doubtful_probes(doubts[Doubt.UNSIGNED], doubts[Doubt.UNDECLARED])

    def _report_unknown_fields(self, of_decisions: bool, counts: Mapping[str, int]) -> None:
        """Pass the names and numbers of unknown fields to the observer."""
        codecs = self.codecs
        fields = (codecs.decisions if of_decisions else codecs.labels).unknown
        event = "decision" if of_decisions else "label"
        self._observer.add_unknown_fields(event, fields.record(counts))

    def _fenced(self, error: FencedError) -> None:
        """Give up the shard that another worker owns now; the others are flushed at once."""
        self._own.fenced(error.shard)
        if isinstance(error.shard, Shard):
            self._observer.drop_shard(error.shard)
        self._next_flush = self._clock.monotonic()

    def _report(self, state: ShardState) -> None:
        """Pass a shard's tallies, lag and time ahead to the observer."""
        messages, seconds = lag(state, self._clock.now(), storing=self.storing)
        offsets = state.committed - state.start_offset
        self._observer.set_ahead(state.shard, state.ahead.lately(self._clock.monotonic()))
        self._observer.set_shard(state.shard, state.stored, messages, seconds, offsets=offsets)

    def _report_cardinality(self) -> None:
        """Report how many values are unlisted; a new day begins a new count."""
        coder, today = self.codecs.coder, self._clock.now() // DAY
        if today != self._day:
            self._day = today
            coder.begin_day()
        self._observer.set_cardinality(coder.unlisted.estimates(), coder.turned_away)

    # Reconciliation

    def _reconcile(self, now: float) -> None:
        """Compare our shards with the store as due; flush idle ones, and report missing topics."""
        try:
            idle = self._reconciler.review(
                now, self._paused, wall=self._clock.now(), storing=self.storing
            )
            reached = self.health.access_error is None
            missing_topics = self._reconciler.review_topics(now) if reached else ()
        except StoreError as error:
            self._lost_store(error)
            return
        self.health.missing = ", ".join(self._reconciler.missing)
        if idle is not None:
            # Where a claim is due, that will show whether the store can be written.
            self.health.store_ok |= not (self._own.unclaimed or self._retry.waits)
            self._write([state for state in idle if state.shard in self.states])
        if any(shard.topic in missing_topics for shard in self.states):
            self._flush()  # events read before are good
            self._own.claim_anew(missing_topics)

    def _throttle(self) -> None:
        """Pause shards that run ahead of the others, or all while a flush is to be repeated."""
        horizon = self.codecs.clock.horizon
        wanted = paused_shards(self.states.values(), horizon, self._reconciler.peers)
        if self._retry.waits:
            wanted = set(self.states)  # one unstored batch is enough
        self.source.pause(wanted - self._paused)
        self.source.resume((self._paused - wanted) & self.states.keys())
        self._paused = wanted

    def _finish(self) -> None:
        """Flush the buffer; if the source has ended, also close each shard's last day, or hour."""
        if self.source.finished:
            self._judge_aside()
        self._flush()
        if self.source.finished:
            for state in self.states.values():
                state.end(self._clock.now(), self._policy.closes)
            self._write(list(self.states.values()))

    def _judge_aside(self) -> None:
        """Judge events that still wait at the end of the source, shards with most of them first."""
        before = self._events
        for state in sorted(self.states.values(), key=lambda state: -state.aside):
            newest = self._reconciler.newest_of_others(state.shard)
            with self._counting(state):
                state.judge_aside(self._clock.now(), newest, ended=True)
        self._progress(self._events - before)
