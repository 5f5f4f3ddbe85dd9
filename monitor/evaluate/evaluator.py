"""The evaluator: fold deltas, keep the windows, publish a Snapshot when its bytes change.

Exactly one evaluator works at a time, by a lease with a fence. A cycle reads and computes outside
any transaction and writes in one that begins with the fence. When the fence fails, the evaluator
forgets its memory and reads it again from the store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from monitor.core.counts.clusters import rounded_up
from monitor.core.publish.encoding import encode_after
from monitor.core.publish.release import AFTER_HORIZON, ReleasedIncident, released_incidents
from monitor.core.publish.snapshot import Snapshot
from monitor.core.time import DAY, HOUR, SECOND, WEEK, IsoWeek
from monitor.errors import FencedError
from monitor.evaluate.detect.cohorts_in_order import log_detection
from monitor.evaluate.detect.detection_inputs import Inputs
from monitor.evaluate.incidents.book import log_incidents
from monitor.evaluate.memory import Memory
from monitor.evaluate.policy import EvaluatorPolicy
from monitor.evaluate.publish.losses import LostSpans
from monitor.evaluate.publish.publisher import Published
from monitor.evaluate.publish.weeks import WeekSources
from monitor.evaluate.tables.calendar import progress_of, sums_of
from monitor.ports import Clock
from monitor.store.deltas import StoredDelta
from monitor.store.evaluator.store import Cycle, EvaluatorStore
from monitor.store.evaluator.stored_detection import DetectionChange
from monitor.store.evaluator.stored_incidents import Acts, IncidentChange
from monitor.store.evaluator.weekly_releases import find_revision
from monitor.store.upkeep.reported_incidents import reports_between

log = logging.getLogger("slicewatch.evaluate")

MAX_DELTAS = 200
"""Limit on deltas folded in one transaction; it bounds the memory for catching up."""

_LONG = 10_000 * DAY  # longer than any history


class Evaluator:
    """Service that folds deltas, detects and publishes; call :meth:`cycle` from one thread.

    Attributes:
        hurried: returns True to leave waiting label cohorts to the next cycle.
        store: the store that the evaluator reads and writes.
        policy: settings of this evaluator.
    """

    def __init__(self, store: EvaluatorStore, policy: EvaluatorPolicy, clock: Clock) -> None:
        self.hurried: Callable[[], bool] = lambda: False
        self.store = store
        self.policy = policy
        self._clock = clock
        self._lease = policy.lease
        self._epoch: int | None = None
        self._memory: Memory | None = None

    def cycle(self) -> bool:
        """Fold new deltas, detect and publish; return False while another evaluator works.

        Raises:
            StoreError: the database cannot be used; the next cycle begins from the store.
            OutdatedError: the store was started with newer settings.
        """
        try:
            while (epoch := self._hold_lease()) is not None:
                began = self._clock.monotonic()
                try:
                    if not self._step(epoch):
                        return True
                finally:
                    self._learn_lease(self._clock.monotonic() - began)
        except FencedError:
            log.warning("another evaluator has taken over, or the database has gone back in time")
            self._forget()
        except BaseException:
            self._forget()
            raise
        return False

    @property
    def age(self) -> float:
        """Return the seconds since the working evaluator, here or elsewhere, began a cycle."""
        return max(0, self.store.lease.renewed_ago(self.policy.lease)) / SECOND

    @property
    def coverage(self) -> float | None:
        """Return the smallest label completeness (0 to 1) of any published window, or None.

        Computed from the published Snapshot alone.
        """
        if self._memory is None or self._memory.stored is None:
            return None
        shares = [
            share
            for table in self._memory.stored[1].contracts
            for window in table.windows
            if (share := window.total.completeness) is not None
        ]
        return min(shares, default=None)

    @property
    def unpublished_labels(self) -> int | None:
        """Return the number of labels in hours without label tables; None if not evaluating."""
        memory = self._memory
        if memory is None or memory.published.labels is None:
            return None
        return memory.cohorts.labels_from(memory.published.labels)

    @property
    def published(self) -> tuple[int, Snapshot] | None:
        """Return number and content of the newest Snapshot; None before this process evaluates."""
        return self._memory.stored if self._memory else None

    @property
    def cluster_size(self) -> int | None:
        """Return the divisor of the newest cohort's bets, as the next power of two, or None."""
        size = self._memory.detection.cluster_size if self._memory else None
        return None if size is None else rounded_up(size)

    @property
    def repeats(self) -> bool | None:
        """Return True if decisions without a unit repeat beyond chance; None if not evaluating."""
        size = self.policy.cluster_size
        return self._memory.clusters.repeats(size) if self._memory else None

    def release_lease(self) -> None:
        """Release the lease and drop the state, so that another evaluator may start at once."""
        self.store.lease.release(self.policy.owner)
        self._forget()

    def _forget(self) -> None:
        self._memory = self._epoch = None

    def _hold_lease(self) -> int | None:
        """Take or renew the lease; return its epoch, or None while another evaluator works."""
        epoch = self.store.lease.acquire(self.policy.owner, self._lease)
        if epoch != self._epoch:
            self._forget()
            self._epoch = epoch
        return epoch

    def _learn_lease(self, took: float) -> None:
        """Set the length of the next lease to outlast a step that took ``took`` seconds.

        Otherwise two evaluators could fence each other forever. The lease shrinks only by halves,
        so it is still long enough for the first evaluation, the longest step, after the load.
        """
        self._lease = max(self.policy.lease, int(4 * took * SECOND), self._lease // 2)

    def _step(self, epoch: int) -> bool:
        """Load the state, or fold and publish once; return whether more work may wait."""
        if self._memory is None:
            self._memory = Memory.load(self.store, self.policy)
            return True
        return self._fold_some(epoch, self._memory)

    def _fold_some(self, epoch: int, memory: Memory) -> bool:
        """Fold a bounded number of deltas, detect and publish; return whether more may wait."""
        news = self.store.deltas.news(memory.cursors, MAX_DELTAS)
        watermark, deltas = news.watermark, news.deltas
        memory.horizon = self._horizon(watermark, news.labels_read_to)
        if deltas:
            self._fold(epoch, memory, deltas, watermark)
        # The watermark promises more than was folded while deltas are left: show nothing yet.
        behind = len(deltas) >= MAX_DELTAS
        if not behind:
            memory.publisher.lost = LostSpans.from_losses(
                news.losses, self.store.decisions_topic, self.policy.lateness, self.policy.horizon
            )
            memory.publisher.excluded = news.excluded
            self._apply_acts(epoch, memory, news.acts)
            self._compare(epoch, memory, watermark)
            behind = self._detect(epoch, memory, watermark) and not self.hurried()
            published = self._publish(epoch, memory, watermark, caught_up=not behind)
            if not published and not behind and not self.hurried():
                memory.detection.plan_ahead()
        return behind

    def _horizon(self, watermark: int | None, read_to: int | None) -> int:
        """Return the microseconds that a label is waited for: more while label shards lag.

        The lag counts from half of the horizon on: otherwise a back-fill that reads
        decisions first would pass over their labels.
        """
        horizon = self.policy.horizon
        if watermark is None or read_to is None:
            return horizon
        lag = watermark - read_to
        return horizon + min(lag, _LONG) if lag > horizon // 2 else horizon

    def _apply_acts(self, epoch: int, memory: Memory, acts: Acts) -> None:
        """End the incidents that people closed; commit and log the changes."""
        memory.incidents.now = self._clock.now()
        memory.incidents.book.set_acts(acts)
        ended = memory.incidents.apply_acts()
        if ended is not None:
            self._commit_findings(epoch, memory, *ended)

    def _commit_findings(
        self, epoch: int, memory: Memory, incidents: IncidentChange, detection: DetectionChange
    ) -> None:
        cycle = Cycle(folded=memory.cursors, incidents=incidents, detection=detection)
        self.store.commit(epoch, cycle, self._clock.now())
        log_detection(detection)
        log_incidents(incidents)
        memory.moved = True

    def _compare(self, epoch: int, memory: Memory, watermark: int | None) -> None:
        """Compare the probes that are due at the watermark; commit and log the changes."""
        change = memory.probes.advance(watermark)
        if change is not None:
            cycle = Cycle(folded=memory.cursors, probes=change)
            self.store.commit(epoch, cycle, self._clock.now())
            memory.probes.log_changes()

    def _detect(self, epoch: int, memory: Memory, watermark: int | None) -> bool:
        """Feed due hours to the detectors, commit the changes; return whether more may wait."""
        if watermark is None:
            return False
        inputs = Inputs(
            self.store.cohorts, memory.dictionary.index, memory.publisher.excluded, memory.clusters
        )
        before = memory.detection.turns
        change = memory.detection.step(inputs, memory.cohorts, watermark, memory.horizon)
        if change is None:
            return False
        incidents = memory.incidents.follow(change, inputs, before)
        self._commit_findings(epoch, memory, incidents, change)
        return True

    def _fold(
        self, epoch: int, memory: Memory, deltas: Sequence[StoredDelta], watermark: int | None
    ) -> None:
        increments = memory.apply_deltas(deltas, watermark, self.policy.horizon)
        cursors = {delta.shard: delta.seq for delta in deltas}
        cycle = Cycle(
            folded=memory.cursors,
            cursors=cursors,
            increments=increments,
            probes=memory.probes.take(deltas),
            clusters=memory.clusters.take(deltas),
        )
        self.store.commit(epoch, cycle, self._clock.now())
        memory.cursors.update(cursors)

    def _publish(
        self, epoch: int, memory: Memory, watermark: int | None, *, caught_up: bool
    ) -> bool:
        """Make due tables, store a changed Snapshot; return False if nothing was due.

        A Snapshot is due too when the detectors have caught up: findings of the last days must not
        wait for the next table.
        """
        has_new_tables = watermark is not None and self._make_tables(epoch, memory, watermark)
        publisher, probes = memory.publisher, memory.probes.shown
        shown = (publisher.lost, publisher.excluded, memory.incidents.states, probes)
        if not has_new_tables and shown == memory.shown and not (memory.moved and caught_up):
            return False
        calendar = memory.published
        published = Published(calendar.decisions, calendar.labels, calendar.windows)
        snapshot = replace(publisher.snapshot(published), probes=probes)
        before, encoded = memory.encoded, encode_after(snapshot, memory.encoded)
        cycle = Cycle(
            folded=memory.cursors,
            incidents=memory.incidents.take_first_shown(),
            snapshot=snapshot if before is None or encoded.body != before.body else None,
            body=encoded.body,
        )
        number = self.store.commit(epoch, cycle, self._clock.now())
        if number is not None:
            memory.incidents.note_snapshot(number)
            memory.stored = number, snapshot
        memory.encoded, memory.shown, memory.moved = encoded, shown, False
        if memory.weeks.due(calendar.decisions, calendar.week_tables):
            self._release_weeks(epoch, memory, snapshot)
        return True

    def _release_weeks(self, epoch: int, memory: Memory, snapshot: Snapshot) -> None:
        """Store the Releases of closed weeks that have changed; runs once a day of event time."""
        store, now = self.store, self._clock.now()

        def incidents(week: IsoWeek) -> tuple[ReleasedIncident, ...]:
            return released_incidents(
                week, reports_between(store.engine, week.start, week.end, now)
            )

        calendar = memory.published
        assert calendar.decisions is not None, "called when due"  # noqa: S101
        sources = WeekSources(
            decisions=calendar.decisions,
            tables=calendar.weeks,
            snapshot=snapshot,
            incidents=incidents,
            newest=lambda week: store.read(find_revision, week.name),
        )
        revisions = memory.weeks.revisions(sources)
        if revisions:
            store.commit(epoch, Cycle(folded=memory.cursors, weeks=revisions), now)
        memory.weeks.looked(calendar.decisions, calendar.week_tables)
        for revision in revisions:
            log.info(
                "a week is released", extra={"week": revision.week, "revision": revision.number}
            )

    def _make_tables(self, epoch: int, memory: Memory, watermark: int) -> bool:
        """Make and store the tables of all closed spans; return whether there were any.

        Everything up to the watermark is folded, so each span is complete.
        """
        policy, has_made_tables = self.policy, False
        labels_to = memory.cohorts.frontier(
            watermark, memory.horizon, policy.completeness, policy.oldest_cohort(watermark)
        )
        # Spans end on whole hours: until one of these hours has passed, no other span is due.
        reached = watermark // HOUR, (watermark - policy.horizon) // HOUR, labels_to
        progress = reached != memory.tables_to and progress_of(
            self.store, watermark, labels_to, policy.horizon, policy.aggregates
        )
        while progress:
            sums, index = sums_of(self.store), memory.dictionary.index
            steps = [calendar.step(sums, index, progress) for calendar in memory.calendars]
            changes = [change for change in steps if change is not None]
            if not changes:
                memory.tables_to = reached
                break
            cycle = Cycle(folded=memory.cursors, calendar=changes)
            self.store.commit(epoch, cycle, self._clock.now())
            memory.published.add(changes, memory.calendars)
            has_made_tables = True
        if has_made_tables:
            memory.published.forget(watermark - policy.horizon - AFTER_HORIZON - WEEK)
        oldest = policy.oldest_cohort(watermark - (memory.horizon - policy.horizon))
        memory.cohorts.forget(oldest)
        memory.clusters.forget(oldest)
        return has_made_tables
