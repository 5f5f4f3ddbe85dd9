"""The evaluator: fold deltas, keep the windows, publish a Snapshot when its bytes change.

Exactly one works at a time, by a lease with a fence. A cycle reads and computes outside any
transaction and writes in one that begins with the fence; when the fence fails, everything in
memory is forgotten and read again from the store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import sqlalchemy as sa

from monitor.core.contract import Contract
from monitor.core.counts.cells import COUNTERS, Counter, Int64s
from monitor.core.counts.clusters import rounded_up
from monitor.core.counts.coding import CodingHistory
from monitor.core.privacy.bands import Precision
from monitor.core.privacy.families import of_contracts
from monitor.core.privacy.release_blocks import Span, blocks_kept
from monitor.core.probes.rounds import DeclaredSet
from monitor.core.publish.encoding import Encoded, encode_after
from monitor.core.publish.release import ReleasedIncident, released_incidents
from monitor.core.publish.snapshot import ShownProbeSet, Snapshot, decode
from monitor.core.time import (
    DAY,
    SECOND,
    UTC_ZONE,
    Grain,
    IsoWeek,
    WindowKind,
    pane_of,
    pane_start,
)
from monitor.errors import FencedError
from monitor.evaluate.blocks.closing import (
    begin_release,
    close_panes,
    load_release,
    sift,
    sift_first_day,
)
from monitor.evaluate.blocks.late_counts import LateCounts, release_late_counts
from monitor.evaluate.blocks.losses import LostSpans
from monitor.evaluate.blocks.release_blocks import ReleaseBlocks
from monitor.evaluate.blocks.units import Gate, UnitRows
from monitor.evaluate.blocks.week_rests import release_rests, rest_pane
from monitor.evaluate.blocks.windows import split_panes
from monitor.evaluate.clusters import ClusterDays
from monitor.evaluate.cohorts import CohortColumns, Cohorts
from monitor.evaluate.detect.cohorts_in_order import DetectionPolicy, DetectionState, log_detection
from monitor.evaluate.detect.detection_inputs import Inputs
from monitor.evaluate.dictionary import CellDictionary
from monitor.evaluate.incidents.book import IncidentBook, log_incidents
from monitor.evaluate.incidents.incidents import Incidents
from monitor.evaluate.probes import ProbeSets
from monitor.evaluate.publish.label_faults import LabelFaults
from monitor.evaluate.publish.published_findings import PublishedFindings
from monitor.evaluate.publish.publisher import Publisher
from monitor.evaluate.publish.request_faults import RequestFaults
from monitor.evaluate.publish.weeks import Weeks, WeekSources, open_weeks
from monitor.ports import Clock, Loss, PaneCounts, PaneUnits, Shard, StoredDelta
from monitor.store.codings import require_eras
from monitor.store.evaluator.cluster_days import read_cluster_days
from monitor.store.evaluator.probe_sets import read_probe_sets
from monitor.store.evaluator.release_blocks import ReleaseChange, read_release
from monitor.store.evaluator.store import Cycle, EvaluatorStore, newest_snapshot
from monitor.store.evaluator.stored_detection import read_detection
from monitor.store.evaluator.stored_incidents import Acts, read_acts, read_standing
from monitor.store.evaluator.weekly_releases import find_revision
from monitor.store.exclusions import excluded_spans
from monitor.store.upkeep.reported_incidents import reports_between
from monitor.store.upkeep.retention_guard import HOURS_KEPT_AFTER_HORIZON

log = logging.getLogger("slicewatch.evaluate")

MAX_DELTAS = 200
"""Deltas folded in one transaction at most, so that catching up stays bounded in memory."""

_FIRST = -(1 << 62)
_LONG = 10_000 * DAY  # longer than any history
_LABEL_GRAINS = (Grain.HOUR, Grain.DAY, Grain.WEEK)


@dataclass(frozen=True, slots=True)
class EvaluatorPolicy:
    """Settings of the evaluator.

    Attributes:
        owner: name of this evaluator, for the lease.
        lease: microseconds; longer where a step takes longer.
        horizon: microseconds after which a label is not waited for.
        lateness: microseconds that events come out of order.
        completeness: share of requested labels that makes a cohort mature.
        eras: how decisions were coded, by event time.
        contracts: with the windows of each.
        live: whether what is consumed may page; what is loaded in bulk never does.
        cluster_size: largest number of decisions that hang together.
        probes: declared probe sets.
        timezone: in which weeks begin.
    """

    owner: str
    lease: int
    horizon: int
    lateness: int
    completeness: Fraction
    eras: CodingHistory
    contracts: Sequence[tuple[Contract, Sequence[WindowKind]]]
    live: bool = True
    cluster_size: int = 1
    probes: Sequence[DeclaredSet] = ()
    timezone: str = UTC_ZONE

    @property
    def detection(self) -> DetectionPolicy:
        """Settings of detection."""
        return DetectionPolicy(
            contracts=[contract for contract, _ in self.contracts],
            coding=self.eras.newest,
            completeness=self.completeness,
            live=self.live,
            cluster_size=self.cluster_size,
        )


_Beside = tuple[LostSpans, tuple[Span, ...], tuple[tuple[int, str], ...], tuple[ShownProbeSet, ...]]
"""Causes of changed pages though nothing is counted: losses, exclusions, incidents, probes."""


@dataclass(slots=True)
class _Memory:
    """State that is kept between cycles; always equal to what the store holds."""

    cursors: dict[Shard, int]
    dictionary: CellDictionary
    cohorts: Cohorts
    release: ReleaseBlocks
    publisher: Publisher
    detection: DetectionState
    incidents: Incidents
    probes: ProbeSets
    clusters: ClusterDays
    weeks: Weeks
    encoded: Encoded | None = None
    stored: tuple[int, Snapshot] | None = None
    shown: _Beside | None = None
    moved: bool = False
    horizon: int = 0


class Evaluator:
    """Call :meth:`cycle` again and again, from one thread.

    Attributes:
        hurried: whether label cohorts that wait are left for the next cycle.
    """

    def __init__(self, store: EvaluatorStore, policy: EvaluatorPolicy, clock: Clock) -> None:
        self.hurried: Callable[[], bool] = lambda: False
        self._store = store
        self._policy = policy
        self._clock = clock
        self._lease = policy.lease
        self._epoch: int | None = None
        self._memory: _Memory | None = None

    def cycle(self) -> bool:
        """Fold what is new and publish; returns False while another evaluator works.

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
    def store(self) -> EvaluatorStore:
        """The evaluator's side of the store."""
        return self._store

    @property
    def policy(self) -> EvaluatorPolicy:
        """Settings that this evaluator was made with."""
        return self._policy

    @property
    def age(self) -> float:
        """Seconds since the evaluator that works, here or elsewhere, began its last cycle."""
        return max(0, self._store.lease.renewed_ago(self._policy.lease)) / SECOND

    @property
    def coverage(self) -> float | None:
        """Labelled / all decisions of the longest labelled window; None when nothing is known.

        Probes are in neither: they have no labels.

        Both are taken down to their bands: the exact quotient would give the counts away.
        """
        if self._memory is None:
            return None
        total = self._memory.publisher.labelled
        k = max((contract.k for contract, _ in self._policy.contracts), default=1)
        bands = Precision(k, exact=k == 1).support(total[[Counter.LABELLED, Counter.N]])
        labelled, decisions = bands.tolist()
        return labelled / decisions if decisions else None

    @property
    def published(self) -> tuple[int, Snapshot] | None:
        """Number and content of the newest Snapshot; None while this process evaluates nothing."""
        return self._memory.stored if self._memory else None

    @property
    def cluster_size(self) -> int | None:
        """Size that the bets on the newest cohort are divided by, rounded up to a power of two.

        None while none is known since this process evaluates.
        """
        size = self._memory.detection.cluster_size if self._memory else None
        return None if size is None else rounded_up(size)

    @property
    def repeats(self) -> bool | None:
        """Whether decisions without a unit are repeated; None while this process knows nothing."""
        size = self._policy.cluster_size
        return self._memory.clusters.repeats(size) if self._memory else None

    def release_lease(self) -> None:
        """Let another evaluator work at once."""
        self._store.lease.release(self._policy.owner)
        self._forget()

    def _forget(self) -> None:
        self._memory = self._epoch = None

    def _hold_lease(self) -> int | None:
        """Take or renew the lease; None while another evaluator works."""
        epoch = self._store.lease.acquire(self._policy.owner, self._lease)
        if epoch != self._epoch:
            self._forget()
            self._epoch = epoch
        return epoch

    def _learn_lease(self, took: float) -> None:
        """Outlast the last steps: two evaluators could fence each other out for ever.

        The lease shrinks by halves, so it is still long enough when the first evaluation, the
        longest step, comes after the load.
        """
        self._lease = max(self._policy.lease, int(4 * took * SECOND), self._lease // 2)

    def _step(self, epoch: int) -> bool:
        """Do the work of one renewal of the lease; returns whether more may wait."""
        if self._memory is None:
            self._memory = self._load()
            return True
        return self._fold_some(epoch, self._memory)

    def _fold_some(self, epoch: int, memory: _Memory) -> bool:
        """One cycle over a bounded number of deltas; returns whether more may wait."""
        news = self._store.deltas.news(memory.cursors, MAX_DELTAS)
        watermark, deltas = news.watermark, news.deltas
        memory.horizon = self._horizon(watermark, news.labels_read_to)
        if deltas:
            self._fold(epoch, memory, deltas, watermark)
        # The watermark promises more than was folded while deltas are left: show nothing yet.
        behind = len(deltas) >= MAX_DELTAS
        if not behind:
            memory.publisher.lost = self._lost(news.losses)
            memory.publisher.excluded, acts = self._store.read(_read_declared)
            self._apply_acts(epoch, memory, acts)
            self._compare(epoch, memory, watermark)
            behind = self._detect(epoch, memory, watermark) and not self.hurried()
            published = self._publish(epoch, memory, watermark, caught_up=not behind)
            if not published and not behind and not self.hurried():
                memory.detection.plan_ahead()
        return behind

    def _lost(self, losses: Sequence[Loss]) -> LostSpans:
        policy, topic = self._policy, self._store.decisions_topic
        return LostSpans.of(losses, topic, policy.lateness, policy.horizon)

    def _horizon(self, watermark: int | None, read_to: int | None) -> int:
        """Microseconds that a label is waited for: more while a label shard lags by half of that.

        Else decisions that are read first, in a back-fill, would have their labels passed over.
        """
        horizon = self._policy.horizon
        if watermark is None or read_to is None:
            return horizon
        lag = watermark - read_to
        return horizon + min(lag, _LONG) if lag > horizon // 2 else horizon

    def _apply_acts(self, epoch: int, memory: _Memory, acts: Acts) -> None:
        """Carry out what people decided on incidents."""
        memory.incidents.now = self._clock.now()
        memory.incidents.book.set_acts(acts)
        ended = memory.incidents.apply_acts()
        if ended is None:
            return
        cycle = Cycle(folded=memory.cursors, incidents=ended[0], detection=ended[1])
        self._store.commit(epoch, cycle, self._clock.now())
        log_detection(ended[1])
        log_incidents(ended[0])
        memory.moved = True

    def _compare(self, epoch: int, memory: _Memory, watermark: int | None) -> None:
        """Compare the probes whose turn has come; everything up to the watermark is folded."""
        change = memory.probes.advance(watermark)
        if change is not None:
            cycle = Cycle(folded=memory.cursors, probes=change)
            self._store.commit(epoch, cycle, self._clock.now())
            memory.probes.log_changes()

    def _detect(self, epoch: int, memory: _Memory, watermark: int | None) -> bool:
        """Consume hours whose turn has come; returns whether more may wait."""
        if watermark is None:
            return False
        inputs = Inputs(
            self._store.cohorts,
            memory.dictionary.index,
            memory.publisher.excluded,
            memory.clusters,
        )
        before = memory.detection.turns
        change = memory.detection.step(inputs, memory.cohorts, watermark, memory.horizon)
        if change is None:
            return False
        incidents = memory.incidents.follow(change, inputs, before)
        cycle = Cycle(folded=memory.cursors, detection=change, incidents=incidents)
        self._store.commit(epoch, cycle, self._clock.now())
        log_detection(change)
        log_incidents(incidents)
        memory.moved = True
        return True

    def _fold(
        self, epoch: int, memory: _Memory, deltas: Sequence[StoredDelta], watermark: int | None
    ) -> None:
        """Add the deltas to all counts."""
        increments, release = self._increments(memory, deltas, watermark)
        cursors = {delta.shard: delta.seq for delta in deltas}
        cycle = Cycle(
            folded=memory.cursors,
            cursors=cursors,
            increments=increments,
            cells=dict(memory.dictionary.fresh),
            release=release,
            probes=memory.probes.take(deltas),
            clusters=memory.clusters.take(deltas),
        )
        self._store.commit(epoch, cycle, self._clock.now())
        memory.cursors.update(cursors)
        memory.dictionary.fresh.clear()

    def _publish(
        self, epoch: int, memory: _Memory, watermark: int | None, *, caught_up: bool
    ) -> bool:
        """Close panes, and store the Snapshot where its bytes have changed.

        Returns False where there was nothing to do.

        Also once the detectors have caught up, as they are past more blocks then: else findings of
        the last blocks would be reported with the next ones only.
        """
        closed = watermark is not None and self._close(epoch, memory, watermark)
        publisher, probes = memory.publisher, memory.probes.shown
        shown = (publisher.lost, publisher.excluded, memory.incidents.stands, probes)
        if not closed and shown == memory.shown and not (memory.moved and caught_up):
            return False
        index = memory.dictionary.index
        snapshot = replace(
            publisher.snapshot(self._store.closed, memory.release, index), probes=probes
        )
        before, encoded = memory.encoded, encode_after(snapshot, memory.encoded)
        cycle = Cycle(
            folded=memory.cursors,
            release=memory.release.taken(),
            incidents=memory.incidents.taken(),
            snapshot=snapshot if before is None or encoded.body != before.body else None,
            body=encoded.body,
        )
        number = self._store.commit(epoch, cycle, self._clock.now())
        if number is not None:
            memory.incidents.stored(number)
            memory.stored = number, snapshot
        memory.encoded, memory.shown, memory.moved = encoded, shown, False
        if memory.weeks.due(memory.release):
            self._release_weeks(epoch, memory, snapshot)
        return True

    def _release_weeks(self, epoch: int, memory: _Memory, snapshot: Snapshot) -> None:
        """Once a day of event time: store the Releases of closed weeks that have changed."""
        store, now = self._store, self._clock.now()

        def incidents(week: IsoWeek) -> tuple[ReleasedIncident, ...]:
            return released_incidents(
                week, reports_between(store.engine, week.start, week.end, now)
            )

        sources = WeekSources(
            closed=store.closed,
            release=memory.release,
            index=memory.dictionary.index,
            snapshot=snapshot,
            incidents=incidents,
            newest=lambda week: store.read(find_revision, week.name),
        )
        revisions = memory.weeks.revisions(sources)
        if revisions:
            cycle = Cycle(folded=memory.cursors, weeks=revisions)
            store.commit(epoch, cycle, now)
        for one in revisions:
            log.info("a week is released", extra={"week": one.week, "revision": one.number})

    def _close(self, epoch: int, memory: _Memory, watermark: int) -> bool:
        """Close panes up to the watermark, stop by stop; returns whether any was."""
        release, closed = memory.release, False
        if not begin_release(release, self._store.closed):
            return False
        self._release_late(epoch, memory)  # where the work ended between a stop and this
        while (stop := release.next_stop(watermark)) is not None:
            if release.waits_for_first_day:
                self._sift_first_day(epoch, memory, stop)
            self._close_to(memory, stop, stop=True)
            self._sift(epoch, memory, stop)
            self._release_late(epoch, memory)
            closed = True
        if not release.waits_for_first_day:
            closed |= self._close_to(memory, watermark, stop=False)
        lag = memory.horizon - self._policy.horizon
        oldest = self._oldest_cohort(watermark - lag)
        memory.cohorts.forget(oldest)
        memory.clusters.forget(oldest)
        return closed

    def _close_to(self, memory: _Memory, until: int, *, stop: bool) -> bool:
        frontier, index = self._frontier(memory, until), memory.dictionary.index
        return close_panes(memory.release, self._store.closed, index, until, frontier, stop=stop)

    def _frontier(self, memory: _Memory, until: int) -> int:
        return memory.cohorts.frontier(until, memory.horizon, self._policy.completeness)

    def _sift_first_day(self, epoch: int, memory: _Memory, stop: int) -> None:
        """Commit what is left out of the first day, before anything of it is published."""
        release, closed, index = memory.release, self._store.closed, memory.dictionary.index
        found = sift_first_day(release, closed, index, stop, self._frontier(memory, stop))
        cycle = Cycle(folded=memory.cursors, release=found.added_to(ReleaseChange()))
        self._store.commit(epoch, cycle, self._clock.now())

    def _sift(self, epoch: int, memory: _Memory, stop: int) -> None:
        """Commit a stop, and what it leaves out of the hours before the next one."""
        found = sift(memory.release, self._store.closed, memory.dictionary.index, stop)
        change = found.added_to(memory.release.taken())
        cycle = Cycle(folded=memory.cursors, release=change)
        self._store.commit(epoch, cycle, self._clock.now())

    def _release_late(self, epoch: int, memory: _Memory) -> None:
        """Once a day: publish late counts where enough of them have come."""
        if not memory.release.late_due:
            return
        held = LateCounts(*self._store.closed.held_back())
        units = self._store.closed.late_units()
        late, freed = release_late_counts(
            memory.release, memory.dictionary.index, held, units, self._published_hours
        )
        if late:
            away = [PaneCounts(pane.grain, pane.pane, -pane.counts) for pane in late]
            change = ReleaseChange(released=late, held_back=away, units=freed.no_longer_late())
            cycle = Cycle(folded=memory.cursors, release=change)
            self._store.commit(epoch, cycle, self._clock.now())
            memory.publisher.revise()
        self._release_rests(epoch, memory)
        memory.release.looked = memory.release.decisions

    def _published_hours(self, first: int, end: int) -> LateCounts:
        """Closed counts of some hours: what late ones would be added to."""
        return LateCounts(*self._store.closed.counted(Grain.HOUR, first, end))

    def _release_rests(self, epoch: int, memory: _Memory) -> None:
        """Once a day: what closed weeks may show of labels that stay held back."""
        release, closed = memory.release, self._store.closed
        assert release.decisions is not None, "called at a stop"  # noqa: S101
        held = LateCounts(*closed.held_back())
        if not release.hides or not len(held.hours):
            return
        weeks = open_weeks(release.decisions, self._policy.horizon, self._policy.timezone)
        waiting = [week for week in weeks if not len(closed.rest(rest_pane(week)).keys)]
        rests, away = release_rests(release, memory.dictionary.index, held, waiting)
        if rests:
            change = ReleaseChange(released=rests, held_back=away)
            self._store.commit(
                epoch, Cycle(folded=memory.cursors, release=change), self._clock.now()
            )
            memory.publisher.revise()

    def _load(self) -> _Memory:
        policy = self._policy
        self._store.read(require_eras, policy.eras)
        dictionary = CellDictionary(self._store.cells)
        families = of_contracts(contract for contract, _ in policy.contracts)
        kept = blocks_kept(policy.horizon)
        read = self._store.read
        detection = DetectionState.load(read(read_detection), policy.detection)
        stored = read(newest_snapshot)
        shown = decode(stored[1]) if stored else None
        found = PublishedFindings.start(detection, shown)
        requests = RequestFaults.start(detection, shown)
        labels_of_slices = LabelFaults.start(detection, shown)
        open_incidents, acts = read(read_standing), read(read_acts)
        book = IncidentBook.load(open_incidents, acts, detection.crossings.standing.values())
        incidents = Incidents(detection, policy.eras, book)
        closed, index = self._store.closed, dictionary.index
        publisher = Publisher(
            policy.contracts, policy.eras, found, requests, labels_of_slices, incidents
        )
        memory = _Memory(
            cursors=self._store.deltas.cursors(),
            dictionary=dictionary,
            cohorts=Cohorts(),
            release=load_release(
                read(read_release), closed, families, index, kept, live=policy.live
            ),
            publisher=publisher,
            detection=detection,
            incidents=incidents,
            probes=ProbeSets.load(read(read_probe_sets), policy.probes, live=policy.live),
            clusters=ClusterDays(read(read_cluster_days)),
            weeks=Weeks(publisher, policy.horizon, policy.timezone),
            encoded=Encoded(stored[1]) if stored else None,
            stored=(stored[0], shown) if stored and shown else None,
        )
        watermark = self._store.deltas.watermark()
        first = _FIRST if watermark is None else self._oldest_cohort(watermark)
        hours, cells, *labels = self._store.cohorts.labels(first)
        dictionary.learn(cells)
        memory.cohorts.add(hours, dictionary.strata(cells), CohortColumns(*labels))
        memory.cohorts.forget(first)
        return memory

    def _oldest_cohort(self, watermark: int) -> int:
        """First hour whose cohort is kept: within what retention keeps, or a restart saw less."""
        back = self._policy.horizon + min(self._policy.horizon, 7 * DAY)
        return pane_of(watermark - back, Grain.HOUR)

    def _increments(
        self, memory: _Memory, deltas: Sequence[StoredDelta], watermark: int | None
    ) -> tuple[list[PaneCounts], ReleaseChange]:
        """Increments of deltas: to every grain while it is kept, to cohorts, to closed panes."""
        panes = np.concatenate([delta.panes for delta in deltas])
        cells = np.concatenate([delta.cells for delta in deltas])
        values = np.concatenate([delta.values for delta in deltas])
        memory.dictionary.learn(cells)
        at = pane_start(panes, Grain.MINUTES5)
        memory.cohorts.add(
            pane_of(at, Grain.HOUR),
            memory.dictionary.strata(cells),
            CohortColumns.of(values),
        )
        increments: list[PaneCounts] = []
        for grain in _LABEL_GRAINS:
            kept = at >= self._oldest(grain, watermark)
            increments += split_panes(grain, pane_of(at[kept], grain), cells[kept], values[kept])
        release = self._released(memory, _NewRows(at, cells, values), watermark)
        units = UnitRows.of(deltas, memory.dictionary.index)
        if units is not None:
            release = replace(release, units=self._units(memory, units, watermark))
        return increments, release

    def _oldest(self, grain: Grain, watermark: int | None) -> int:
        """First instant whose panes are kept; a back-fill brings years that only weeks keep."""
        if watermark is None or grain is not Grain.HOUR:
            return _FIRST
        return watermark - self._policy.horizon - HOURS_KEPT_AFTER_HORIZON

    def _released(self, memory: _Memory, rows: _NewRows, watermark: int | None) -> ReleaseChange:
        """Split new counts into those that may be published and those that are held back."""
        release, dictionary = memory.release, memory.dictionary
        if watermark is not None:
            rows = rows.since(watermark - release.kept)
        gate = Gate(release.decisions, release.labels, release.sifted)
        index = dictionary.index
        at = np.searchsorted(index.cells, rows.cells)
        left_out, unlabelled = (mask[at] for mask in release.kept_out(index))
        through, held = gate.split(rows.at, rows.values, left_out, unlabelled)
        if not release.hides and held.any():
            through, held = rows.values, np.zeros_like(held)
            release.reopen(int(rows.at.min()))
            memory.publisher.revise()
            memory.shown = None
        hours = pane_of(rows.at, Grain.HOUR)
        fine = replace(rows, values=through)
        return ReleaseChange(
            released=[
                *_nonzero(hours, rows.cells, through),
                *self._five_minutes(dictionary, fine),
            ],
            held_back=_nonzero(hours, rows.cells, held),
        )

    def _units(self, memory: _Memory, units: UnitRows, watermark: int | None) -> list[PaneUnits]:
        """New decisions by unit, those that are held back apart."""
        release, index = memory.release, memory.dictionary.index
        if watermark is not None:
            units = units.take(units.at >= watermark - release.kept)
        gate = Gate(release.decisions, release.labels, release.sifted)
        through, held = units.split(gate, index, release.kept_out(index)[0])
        return [
            through.panes(Grain.HOUR, index),
            through.panes(Grain.MINUTES5, index),
            held.panes(Grain.HOUR, index, late=True),
        ]

    def _five_minutes(self, dictionary: CellDictionary, rows: _NewRows) -> list[PaneCounts]:
        """Decisions by atom and route: all that the shortest window needs."""
        decided = rows.values[:, Counter.N] != 0
        only_n = np.zeros((int(decided.sum()), COUNTERS), np.int64)
        only_n[:, Counter.N] = rows.values[decided, Counter.N]
        coarse = dictionary.coarse(rows.cells[decided])
        panes = pane_of(rows.at[decided], Grain.MINUTES5)
        return split_panes(Grain.MINUTES5, panes, coarse, only_n)


@dataclass(frozen=True, slots=True)
class _NewRows:
    """New counts: start of the 5-minute pane (microseconds), cell and counters of each row."""

    at: Int64s
    cells: Int64s
    values: Int64s

    def since(self, first: int) -> _NewRows:
        """Only panes that begin then or later."""
        kept = self.at >= first
        return _NewRows(self.at[kept], self.cells[kept], self.values[kept])


def _read_declared(connection: sa.Connection) -> tuple[tuple[Span, ...], Acts]:
    """What people have said meanwhile: of bad data, and of incidents."""
    return excluded_spans(connection), read_acts(connection)


def _nonzero(hours: Int64s, cells: Int64s, values: Int64s) -> list[PaneCounts]:
    rows = values.any(axis=1)
    return split_panes(Grain.HOUR, hours[rows], cells[rows], values[rows])
