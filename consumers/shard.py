"""State of an owned shard between two flushes: its clock, its totals, and its unstored events."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from consumers.codec import DecisionCodec, DecodedDecisions, DecodedLabels, LabelCodec
from consumers.coder import Coder
from consumers.dead_letters import MAX_DEAD_LETTERS, DeadLetterBuffer, IdHasher
from consumers.dedupe import DuplicateFilter, duplicate_keys
from consumers.event_time import Ahead, ClockPolicy, Leaps, Reading, ShardClock
from consumers.probe_signing import Doubt
from consumers.repetition import RepetitionBlock
from consumers.unit_hashes import UnitHasher, texts_at
from consumers.unknown_fields import add_counts
from monitor.core.bias_scores import BiasScore
from monitor.core.counts.cells import Int64s, Route
from monitor.core.counts.clusters import Repetition, units_in_populations
from monitor.core.counts.labels import LabelColumns
from monitor.core.expected_arrivals import KEPT
from monitor.core.probes.probe_decisions import ProbeDecision
from monitor.core.time import Grain, pane_of, pane_start
from monitor.flushes import DeadLetter, DecisionColumns, LabelRequest, ShardFlush
from monitor.records import RecordBatch, Shard
from monitor.shard_status import Claim, Tallies

if TYPE_CHECKING:
    from consumers.wire import AvroMessages  # needs a package that is optional

_ROUTE_NAMES = tuple(route.name.lower() for route in Route)
_NONE = np.empty(0, np.int64)
MILLISECOND = 1000


@dataclass(frozen=True, slots=True)
class Codecs:
    """Codecs and settings that all shards of a worker share.

    ``wire`` reads messages that are not JSON; None where all are.
    """

    decisions: DecisionCodec
    labels: LabelCodec
    coder: Coder
    hasher: IdHasher
    clock: ClockPolicy
    lateness: int
    dedupe_window: int
    wire: AvroMessages | None = None
    units: UnitHasher = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", UnitHasher(self.hasher))


@dataclass(slots=True)
class FlushNotices:
    """Counts of what an ingest worker reports apart from the tallies, since the last flush.

    Attributes:
        unlisted: decisions with a value outside the allow-list, by attribute.
        doubts: decisions that called themselves probes and are not compared, by reason.
        below: counted decisions on auto_serve whose score is below their own threshold.
        unreadable: dead letters, by reason and field.
        unknown: dropped fields of readable events, by the names that producers gave them.
    """

    unlisted: Counter[str] = field(default_factory=Counter)
    doubts: Counter[Doubt] = field(default_factory=Counter)
    below: int = 0
    unreadable: Counter[tuple[str, str]] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class ShardState:
    """State of a claimed shard: its position, clock, totals and unstored events.

    Attributes:
        claim: the fence.
        codecs: shared by all shards.
        is_decisions: decisions or labels.
        start_offset: first offset that was ever read.
        committed: offset in the store.
        next_offset: one past the newest message read.
        clock: its event time.
        tallies: totals as of ``next_offset``, before the labels' outcome.
        stored: totals in the store, as of ``committed``.
        high_water: next offset to be written, as last reported by the broker; None when unknown.
        doubted: the end was asked for again after a long silence, without an answer.
        position: next offset to be read, past control records; None when unknown.
        last_timestamp: broker's timestamp of the newest message, milliseconds.
        ended: nothing will ever come again (files).
        held_back: :attr:`holds_back` as last stored.
        quiet: no message has come since the last look at waiting events (clock ``history``).
        ahead: recent lead of its events over the wall clock.
        aside_at: event time of the first event that waits; None when none does.
        attended: wall clock when it was last known to be read to its end.
        repetition: decisions of today that are compared with each other.
    """

    claim: Claim
    codecs: Codecs
    is_decisions: bool
    start_offset: int
    committed: int
    clock: ShardClock
    tallies: Tallies
    stored: Tallies
    filter: DuplicateFilter
    next_offset: int = 0
    watermark: int | None = None
    high_water: int | None = None
    doubted: bool = False
    position: int | None = None
    last_timestamp: int | None = None
    ended: bool = False
    held_back: bool = True
    quiet: bool = False
    buffered: int = 0
    aside_at: int | None = None
    attended: int | None = None
    ahead: Ahead = field(default_factory=Ahead)
    repetition: RepetitionBlock = field(default_factory=RepetitionBlock)
    _aside: RecordBatch | None = None
    _flushes: int | None = None
    _decisions: list[DecisionColumns] = field(default_factory=list)
    _labels: list[LabelColumns] = field(default_factory=list)
    _other_ids: dict[tuple[int, int], int] = field(default_factory=dict)
    _dead_letters: list[DeadLetter] = field(default_factory=list)
    _probes: list[ProbeDecision] = field(default_factory=list)
    _repeated: list[Repetition] = field(default_factory=list)
    _results: list[BiasScore] = field(default_factory=list)
    _arrivals: Counter[int] = field(default_factory=Counter)
    _noticed: FlushNotices = field(default_factory=FlushNotices)

    @classmethod
    def from_claim(
        cls, claim: Claim, codecs: Codecs, is_decisions: bool, offset: int
    ) -> ShardState:
        """Return the state of a newly claimed shard that continues at ``offset``."""
        return cls(
            claim=claim,
            codecs=codecs,
            is_decisions=is_decisions,
            start_offset=offset if claim.start_offset is None else claim.start_offset,
            committed=offset,
            next_offset=offset,
            clock=ShardClock(codecs.clock, claim.max_decided_at, claim.tallies.jumps),
            tallies=deepcopy(claim.tallies),
            stored=claim.tallies,
            watermark=claim.watermark,
            _flushes=claim.flushes,
            filter=DuplicateFilter(codecs.dedupe_window),
        )

    @property
    def shard(self) -> Shard:
        """Return the shard of the claim."""
        return self.claim.shard

    @property
    def unreadable(self) -> Counter[tuple[str, str]]:
        """Return the number of dead letters since the last flush, by reason and field."""
        return self._noticed.unreadable

    @property
    def dirty(self) -> bool:
        """Return True if messages were read that are not in the store yet."""
        return self.next_offset != self.committed

    @property
    def caught_up(self) -> bool:
        """Return True if everything that the broker holds was read; mere silence is not enough."""
        if self.high_water is None or self.doubted:
            return False
        return max(self.next_offset, self.position or 0) >= self.high_water

    @property
    def holds_back(self) -> bool:
        """Return True if the watermark of all shards must wait for this one.

        It does not wait for a shard that never had an event and took over no other's time, nor for
        a file that has ended.
        """
        never_held = (
            self.caught_up
            and self.clock.newest is None
            and self.watermark is None
            and self._aside is None
        )
        return not (self.ended or never_held)

    def see_end(self, end: int | None) -> None:
        """Raise the known end offset to the broker's answer, which may be old, or None."""
        if end is not None:
            self.high_water = max(end, self.high_water or 0)

    @property
    def reached(self) -> int | None:
        """Return the newest event's time, or the first waiting event's; None without either."""
        return self.aside_at if self.clock.newest is None else self.clock.newest

    @property
    def aside(self) -> int:
        """Return the number of read messages that wait for later ones to confirm them."""
        return 0 if self._aside is None else len(self._aside.offsets)

    def set_back(self, now: int) -> bool:
        """Set a clock that was stored far beyond ``now`` back to it; return whether it was.

        Such a clock refuses all events as too old. :class:`consumers.wall_clock.WallClockWatch`
        decides whether the store or the wall clock is wrong.
        """
        policy, newest = self.codecs.clock, self.clock.newest
        if not policy.live or newest is None or newest <= now + policy.max_ahead:
            return False
        self.clock.newest, self.clock.beyond = now, True
        if self.watermark is not None:
            self.watermark = min(self.watermark, now - self.codecs.lateness)
        return True

    def add(self, records: RecordBatch, now: int, newest_of_others: int | None = None) -> None:
        """Decode, judge and buffer consecutive messages, to be stored by the next flush.

        Args:
            records: messages as they were read.
            now: this worker's wall clock, microseconds.
            newest_of_others: newest event time of all other shards, as far as known.
        """
        if records.high_water is not None:
            self.high_water = records.high_water
        if not len(records.offsets):
            return
        self.doubted = self.quiet = False
        self.last_timestamp = records.timestamps[-1]
        if self._aside is not None:
            records = self._aside.followed_by(records)
        self._read(records, now, Reading(records.offsets[-1], newest_of_others=newest_of_others))

    def judge_aside(self, now: int, newest_of_others: int | None, *, ended: bool = False) -> None:
        """Judge waiting events by those read so far: none follow for now, or ever (``ended``)."""
        if self._aside is not None:
            last = self._aside.offsets[-1]
            self._read(
                self._aside,
                now,
                Reading(last, quiet=True, ended=ended, newest_of_others=newest_of_others),
            )

    def _read(self, records: RecordBatch, now: int, reading: Reading) -> None:
        """Decode and count a batch; set aside what follows a leap in time."""
        dead_letters, decoded, results = self._decoded(records, now)
        leaps = self.clock.look(decoded.ts, decoded.offsets, reading)
        self._aside = self.aside_at = None
        if leaps is not None and leaps.decided < len(decoded.ts):
            self.aside_at = int(decoded.ts[leaps.decided])
            first = int(decoded.offsets[leaps.decided])
            records, self._aside = records.split(bisect_left(records.offsets, first))
            if not len(records.offsets):
                return
            dead_letters, decoded, results = self._decoded(records, now)
        self._advance_over(records)
        self._results += results
        add_counts(self._noticed.unknown, decoded.unknown)
        before = self.tallies.events
        good, running = self._admit(decoded, dead_letters, now, leaps)
        if isinstance(decoded, DecodedDecisions):
            self._add_decisions(decoded, good, running)
            self._note_arrivals(decoded.timestamps[good], now)
        else:
            self._add_labels(decoded, good)
        self.buffered += self.tallies.events - before

    def _decoded(
        self, records: RecordBatch, now: int
    ) -> tuple[DeadLetterBuffer, DecodedDecisions | DecodedLabels, list[BiasScore]]:
        """Decode a batch; return its dead letters, events and results of bias evaluations."""
        dead_letters = DeadLetterBuffer(records, self.codecs.hasher)
        if self.codecs.wire is not None:
            records = self.codecs.wire.as_json(records, dead_letters)
        if self.is_decisions:
            return dead_letters, self.codecs.decisions.read(records, dead_letters), []
        labels, results = self.codecs.labels.results.take(records, dead_letters, now)
        return dead_letters, self.codecs.labels.read(labels, dead_letters), results

    def _advance_over(self, records: RecordBatch) -> None:
        """Advance the next offset over messages and count them, whatever their events' outcome."""
        span = records.offsets[-1] + 1 - self.next_offset
        self.tallies.messages += len(records.offsets)
        self.tallies.tombstones += records.values.count(None)
        self.tallies.gaps += span - len(records.offsets)
        self.next_offset = records.offsets[-1] + 1

    def _count_dead_letters(self, dead_letters: DeadLetterBuffer) -> None:
        """Count dead letters, and keep at most MAX_DEAD_LETTERS of them in a flush."""
        storable = dead_letters.found[: MAX_DEAD_LETTERS - len(self._dead_letters)]
        self._dead_letters.extend(storable)
        self._noticed.unreadable.update(dead_letters.by_field)
        self.tallies.events += dead_letters.counts.total()
        self.tallies.unkept += dead_letters.counts.total() - len(storable)
        counts = self.tallies.dead_letters
        for reason, number in dead_letters.counts.items():
            counts[reason] = counts.get(reason, 0) + number

    def _admit(
        self,
        decoded: DecodedDecisions | DecodedLabels,
        dead_letters: DeadLetterBuffer,
        now: int,
        leaps: Leaps | None,
    ) -> tuple[npt.NDArray[np.bool_], Int64s]:
        """Make dead letters of untimely events; return a mask of others, and the clock at each."""
        reasons, running = self.clock.admit(decoded.ts, decoded.timestamps, now, leaps)
        self.tallies.jumps = self.clock.jumps
        good = reasons == None  # noqa: E711 - element-wise
        for row in np.flatnonzero(~good).tolist():
            place = int(decoded.offsets[row]), int(decoded.items[row])
            dead_letters.refuse(*place, reasons[row], "decided_at")
        self.tallies.events += int(good.sum())
        self._count_dead_letters(dead_letters)
        return good, running

    def _add_decisions(
        self, decoded: DecodedDecisions, good: npt.NDArray[np.bool_], running: Int64s
    ) -> None:
        """Buffer the good decisions that are no copies; count both, and label requests."""
        rows = np.flatnonzero(good)
        if not len(rows):
            return
        columns = self._columns(decoded, rows)
        self._noticed.unlisted.update(self.codecs.coder.unknown_values(decoded.codes[rows]))
        keys = duplicate_keys(columns.ids, columns.ts)
        fresh, arrivals = self.filter.fresh(keys, running[rows])
        columns = replace(columns, keys=keys, arrivals=arrivals)
        self._count_requested(columns.routes, decoded.requested[rows], fresh)
        self._noticed.below += int(decoded.below[rows[fresh]].sum())
        self.tallies.counted += int(fresh.sum())
        self.tallies.duplicates += int((~fresh).sum())
        counted = columns if fresh.all() else columns.take(fresh)
        self._decisions.append(counted)
        self._add_to_repetition(decoded, rows[fresh], counted.units)
        if decoded.probes:
            self._add_probes(decoded, rows[fresh])

    def _note_arrivals(self, timestamps_ms: Int64s, now: int) -> None:
        """Count decisions by the five-minute slot in which they came to the broker.

        A message stamped before the shard was last read to its end has come since, from a producer
        whose clock is slow. Messages before the weeks that are used later are not counted.
        """
        if not self.codecs.clock.live:
            return
        at = timestamps_ms * MILLISECOND
        attended = self.attended or 0
        arrived = np.where((at < attended) | (at < 0) | (at > now), now, at)
        slots = arrived[arrived > now - KEPT] // Grain.MINUTES5
        for slot, number in zip(*np.unique(slots, return_counts=True), strict=True):
            self._arrivals[int(slot)] += int(number)

    def _add_to_repetition(self, decoded: DecodedDecisions, counted: Int64s, units: Int64s) -> None:
        """Add counted production decisions without a unit to the block compared for repetitions."""
        compared = units == 0 if len(units) else np.ones(len(counted), np.bool_)
        compared[self.codecs.coder.probe_rows(decoded.codes[counted])] = False
        rows = counted[compared]
        atoms = self.codecs.coder.atoms(decoded.codes[rows])
        self._repeated += self.repetition.add(atoms, decoded.scores[rows], decoded.ts[rows])

    def _add_probes(self, decoded: DecodedDecisions, counted: Int64s) -> None:
        """Keep the probes among the rows counted, and count doubtful ones."""
        is_counted = np.zeros(len(decoded.ts), np.bool_)
        is_counted[counted] = True
        for verdict in (verdict for row, verdict in decoded.probes.items() if is_counted[row]):
            if isinstance(verdict, Doubt):
                self._noticed.doubts[verdict] += 1
            else:
                self._probes.append(verdict)

    def _columns(self, decoded: DecodedDecisions, rows: Int64s) -> DecisionColumns:
        """Return these rows as they are stored: hashed, coded, with label request and route."""
        coder, codes, requested = self.codecs.coder, decoded.codes[rows], decoded.requested[rows]
        ts = decoded.ts[rows]
        ids = self.codecs.hasher(texts_at(decoded.texts, rows), ts)
        request = np.where(self._kept_requests(ids, codes), LabelRequest.KEPT, LabelRequest.THINNED)
        return DecisionColumns(
            ids=ids,
            ts=ts,
            cells=coder.cells(codes, decoded.bands[rows], ts),
            request=np.where(requested, request, LabelRequest.NONE),
            routes=coder.routes(codes),
            arrivals=_NONE,
            keys=_NONE,
            units=self._unit_hashes(decoded, rows) if decoded.units else _NONE,
        )

    def _unit_hashes(self, decoded: DecodedDecisions, rows: Int64s) -> Int64s:
        """Return the hash of each row's unit in its use case, 0 for none; probes have none."""
        coder, codes = self.codecs.coder, decoded.codes[rows]
        hashes = self.codecs.units(texts_at(decoded.units, rows), decoded.ts[rows])
        hashes[coder.probe_rows(codes)] = 0
        return units_in_populations(hashes, coder.populations(codes))

    def _count_requested(
        self, routes: Int64s, requested: npt.NDArray[np.bool_], fresh: npt.NDArray[np.bool_]
    ) -> None:
        """Count label requests by route, and those of copies."""
        for counts, rows in (
            (self.tallies.requested, requested),
            (self.tallies.repeated, requested & ~fresh),
        ):
            for route, number in enumerate(np.bincount(routes[rows], minlength=3).tolist()):
                if number:
                    name = _ROUTE_NAMES[route]
                    counts[name] = counts.get(name, 0) + number

    def _kept_requests(self, ids: Int64s, codes: Int64s) -> npt.NDArray[np.bool_]:
        """Return a mask of rows whose label request is kept, thinned by the id's hash."""
        probability = self.codecs.coder.keep_probability(codes)
        if (probability >= 1).all():
            return np.ones(len(ids), np.bool_)
        mixed = duplicate_keys(ids, np.zeros(len(ids), np.int64)).view(np.uint64)
        return mixed / 2.0**64 < probability

    def _add_labels(self, decoded: DecodedLabels, good: npt.NDArray[np.bool_]) -> None:
        self._labels.append(decoded.labels if good.all() else decoded.labels.take(good))
        self._other_ids |= decoded.other_ids

    def advance(self, now: int, newest: int | None = None) -> bool:
        """Move the watermark up to the newest event less lateness; return whether it moved.

        It stays at or before the wall clock ``now`` (clock ``live``): another worker's clock may be
        wrong. Returns whether it moved. A watermark never goes back.
        """
        candidates = [at for at in (self.clock.newest, newest) if at is not None]
        if not candidates:
            return False
        reached = min(max(candidates), now) if self.codecs.clock.live else max(candidates)
        mark = reached - self.codecs.lateness
        moved = self.watermark is None or mark > self.watermark
        if moved:
            self.watermark = mark
        return moved

    def lose(self) -> None:
        """Discard events since the last flush; they are read again from the committed offset."""
        self._aside = self.aside_at = None
        if self.dirty:
            self.next_offset, self.position = self.committed, None
            self.repetition = RepetitionBlock()

    def end(self, now: int, closes: Grain) -> None:
        """Record that nothing more will come, and advance over the newest event's pane.

        Only its hour is complete where that pane has not ended yet by the wall clock ``now``.
        """
        self.ended = True
        if self.clock.newest is not None:
            hour, end = (
                pane_start(pane_of(self.clock.newest, grain) + 1, grain)
                for grain in (Grain.HOUR, closes)
            )
            self.advance(now, (end if end <= now else hour) + self.codecs.lateness)

    def flush(self) -> ShardFlush:
        """Return a flush of everything new; the state is unchanged until :meth:`flushed`."""
        labels = None if self.is_decisions else LabelColumns.concat(self._labels)
        return ShardFlush(
            shard=self.shard,
            epoch=self.claim.epoch,
            expected_offset=self.committed,
            next_offset=self.next_offset,
            max_decided_at=self.clock.newest,
            watermark=self.watermark,
            holds_back=self.holds_back,
            tallies=deepcopy(self.tallies),
            decisions=DecisionColumns.concat(self._decisions) if self._decisions else None,
            labels=labels,
            other_ids=self._other_ids,
            dead_letters=self._dead_letters,
            probes=self._probes,
            repetition=self._repeated,
            results=self._results,
            arrivals=self._arrivals,
            flushes=self._flushes,
        )

    def flushed(self, tallies: Tallies) -> FlushNotices:
        """Record that the store has everything; take its totals, and return notices to report."""
        self.committed = self.next_offset
        self._flushes = None if self._flushes is None else self._flushes + 1
        self.held_back = self.holds_back
        self.tallies, self.stored = deepcopy(tallies), tallies
        self._decisions, self._labels, self._dead_letters = [], [], []
        self._other_ids, self._probes, self._repeated = {}, [], []
        self._results, self._arrivals = [], Counter()
        self.buffered = 0
        notices, self._noticed = self._noticed, FlushNotices()
        return notices
