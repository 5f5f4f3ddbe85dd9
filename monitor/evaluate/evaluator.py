"""The evaluator: fold deltas, keep the windows, publish a Snapshot when its bytes change.

Exactly one works at a time, by a lease with a fence. A cycle reads and computes outside any
transaction and writes in one that begins with the fence; when the fence fails, everything in
memory is forgotten and read again from the store.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from monitor.core.build import WindowCounts, build_contract
from monitor.core.cells import COUNTERS, Counter, Int64s
from monitor.core.coding import Eras
from monitor.core.contract import Contract
from monitor.core.snapshot import Snapshot, encode
from monitor.core.time import DAY, SECOND, Grain, WindowKind, pane_of, pane_start
from monitor.errors import FencedError
from monitor.evaluate.cohorts import Cohorts
from monitor.evaluate.dictionary import CellDictionary
from monitor.evaluate.losses import LostSpans
from monitor.evaluate.windows import RunningWindow, split_panes
from monitor.ports import Clock, PaneCounts, Shard, StoredDelta
from monitor.store.fold import Cycle, EvaluatorStore
from monitor.store.retention import HOURS_KEPT_AFTER_HORIZON, MINUTES5_KEPT

log = logging.getLogger("slicewatch.evaluate")

MAX_DELTAS = 200
"""Deltas folded in one transaction at most, so that catching up stays bounded in memory."""

_FIRST = -(1 << 62)
_LABEL_GRAINS = (Grain.HOUR, Grain.DAY, Grain.WEEK)


@dataclass(frozen=True, slots=True)
class EvaluatorPolicy:
    """What is evaluated.

    Attributes:
        owner: name of this evaluator, for the lease.
        lease: microseconds; longer where a step takes longer.
        horizon: microseconds after which a label is not waited for.
        lateness: microseconds that events come out of order.
        completeness: share of requested labels that makes a cohort mature.
        windows: all windows any contract uses.
        eras: how decisions were coded, by event time.
        contracts: with the windows of each.
    """

    owner: str
    lease: int
    horizon: int
    lateness: int
    completeness: Fraction
    eras: Eras
    contracts: Sequence[tuple[Contract, Sequence[WindowKind]]]

    @property
    def windows(self) -> list[WindowKind]:
        """All windows that any contract uses, shortest first."""
        kinds = {kind for _, windows in self.contracts for kind in windows}
        return sorted(kinds, key=lambda kind: kind.length)


@dataclass(slots=True)
class _Memory:
    """What is kept between cycles; always equal to what the store holds."""

    cursors: dict[Shard, int]
    dictionary: CellDictionary
    cohorts: Cohorts
    decisions: dict[str, RunningWindow]
    labelled: dict[str, RunningWindow]
    lost: LostSpans = field(default_factory=LostSpans)
    snapshot: bytes | None = None
    marks: tuple[int, int, LostSpans] | None = None

    @property
    def windows(self) -> list[RunningWindow]:
        """All running sums."""
        return [*self.decisions.values(), *self.labelled.values()]


class Evaluator:
    """Call :meth:`cycle` again and again, from one thread."""

    def __init__(self, store: EvaluatorStore, policy: EvaluatorPolicy, clock: Clock) -> None:
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
    def age(self) -> float:
        """Seconds since the evaluator that works, here or elsewhere, began its last cycle."""
        return max(0, self._store.renewed_ago(self._policy.lease)) / SECOND

    @property
    def coverage(self) -> float | None:
        """Labelled / all decisions of the longest labelled window; None when nothing is known."""
        windows = self._memory.labelled.values() if self._memory else ()
        longest = max(windows, key=lambda window: window.kind.length, default=None)
        total = longest.counts.values.sum(axis=0) if longest else np.zeros(COUNTERS)
        return float(total[Counter.LABELLED] / total[Counter.N]) if total[Counter.N] else None

    def release(self) -> None:
        """Let another evaluator work at once."""
        self._store.release(self._policy.owner)
        self._forget()

    def _forget(self) -> None:
        self._memory = self._epoch = None

    def _hold_lease(self) -> int | None:
        """Take or renew the lease; None while another evaluator works."""
        epoch = self._store.acquire(self._policy.owner, self._lease)
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
        """What is done under one renewal of the lease; returns whether more may wait."""
        if self._memory is None:
            self._memory = self._load()
            return True
        return self._fold_some(epoch, self._memory)

    def _fold_some(self, epoch: int, memory: _Memory) -> bool:
        """One cycle over a bounded number of deltas; returns whether more may wait."""
        watermark, losses = self._store.progress(memory.cursors)
        memory.lost = LostSpans.of(
            losses, self._store.decisions_topic, self._policy.lateness, self._policy.horizon
        )
        deltas = self._store.deltas(memory.cursors, MAX_DELTAS)
        panes = self._increments(memory, deltas, watermark)
        # The watermark promises more than was folded while deltas are left: show nothing yet.
        behind = len(deltas) >= MAX_DELTAS
        body = self._behind(memory, panes) if behind else self._evaluate(memory, panes, watermark)
        cursors = {delta.shard: delta.seq for delta in deltas}
        changed = body if body != memory.snapshot else None
        fresh = dict(memory.dictionary.fresh)
        cycle = Cycle(memory.cursors, cursors, panes, fresh, changed, watermark)
        if deltas or changed is not None:
            self._store.commit(epoch, cycle, self._clock.now())
        memory.cursors.update(cursors)
        memory.dictionary.fresh.clear()
        memory.snapshot = body
        return behind

    def _load(self) -> _Memory:
        self._store.require_eras(self._policy.eras)
        windows = self._policy.windows
        memory = _Memory(
            cursors=self._store.cursors(),
            dictionary=CellDictionary(self._store),
            cohorts=Cohorts(),
            decisions={kind.name: RunningWindow(kind) for kind in windows},
            labelled={kind.name: RunningWindow(kind) for kind in windows if kind.labelled},
            snapshot=self._store.snapshot(),
        )
        watermark = self._store.watermark()
        first = _FIRST if watermark is None else self._oldest_cohort(watermark)
        rows = np.array(list(self._store.cohorts(first)), np.int64).reshape(-1, 4)
        memory.dictionary.learn(rows[:, 1])
        strata = memory.dictionary.strata(rows[:, 1])
        memory.cohorts.add(rows[:, 0], strata, rows[:, 2], rows[:, 3])
        return memory

    def _oldest_cohort(self, watermark: int) -> int:
        """First hour whose cohort is kept: within what retention keeps, or a restart saw less."""
        back = self._policy.horizon + min(self._policy.horizon, 7 * DAY)
        return pane_of(watermark - back, Grain.HOUR)

    def _increments(
        self, memory: _Memory, deltas: Sequence[StoredDelta], watermark: int | None
    ) -> list[PaneCounts]:
        """What the deltas add to every grain while it is kept, and to the cohorts."""
        if not deltas:
            return []
        panes = np.concatenate([delta.panes for delta in deltas])
        cells = np.concatenate([delta.cells for delta in deltas])
        values = np.concatenate([delta.values for delta in deltas])
        memory.dictionary.learn(cells)
        at = pane_start(panes, Grain.MINUTES5)
        memory.cohorts.add(
            pane_of(at, Grain.HOUR),
            memory.dictionary.strata(cells),
            values[:, Counter.Q],
            values[:, Counter.LABELLED] + values[:, Counter.UNDECIDABLE],
        )
        kept = at >= self._oldest(Grain.MINUTES5, watermark)
        increments = list(self._five_minutes(memory, panes[kept], cells[kept], values[kept]))
        for grain in _LABEL_GRAINS:
            kept = at >= self._oldest(grain, watermark)
            increments += split_panes(grain, pane_of(at[kept], grain), cells[kept], values[kept])
        return increments

    def _oldest(self, grain: Grain, watermark: int | None) -> int:
        """First instant whose panes are kept; a back-fill brings years that only weeks keep."""
        back = {
            Grain.MINUTES5: MINUTES5_KEPT,
            Grain.HOUR: self._policy.horizon + HOURS_KEPT_AFTER_HORIZON,
        }.get(grain)
        return _FIRST if watermark is None or back is None else watermark - back

    def _five_minutes(
        self, memory: _Memory, panes: Int64s, cells: Int64s, values: Int64s
    ) -> Iterator[PaneCounts]:
        decided = values[:, Counter.N] != 0
        if decided.any():
            only_n = np.zeros((int(decided.sum()), COUNTERS), np.int64)
            only_n[:, Counter.N] = values[decided, Counter.N]
            coarse = memory.dictionary.coarse(cells[decided])
            yield from split_panes(Grain.MINUTES5, panes[decided], coarse, only_n)

    def _behind(self, memory: _Memory, panes: list[PaneCounts]) -> bytes | None:
        """Keep the sums right without showing them; the next evaluation then renders anew."""
        for window in memory.windows:
            window.add(panes)
        memory.marks = None
        return memory.snapshot

    def _evaluate(
        self, memory: _Memory, panes: list[PaneCounts], watermark: int | None
    ) -> bytes | None:
        """The Snapshot's bytes; those of the last one when nothing it shows has changed."""
        if watermark is None:
            self._behind(memory, panes)
            return memory.snapshot or encode(self._snapshot({}, None, None))
        memory.cohorts.forget(self._oldest_cohort(watermark))
        frontier = memory.cohorts.frontier(
            watermark, self._policy.horizon, self._policy.completeness
        )
        moved = [w.move(self._store, watermark) for w in memory.decisions.values()]
        moved += [w.move(self._store, frontier) for w in memory.labelled.values()]
        added = [window.add(panes) for window in memory.windows]
        marks = (watermark, frontier, memory.lost)
        if memory.snapshot is not None and marks == memory.marks and not any(moved + added):
            return memory.snapshot
        memory.marks = marks
        counts = {kind.name: _window_counts(memory, kind) for kind in self._policy.windows}
        return encode(self._snapshot(counts, watermark, frontier))

    def _snapshot(
        self, counts: Mapping[str, WindowCounts], watermark: int | None, frontier: int | None
    ) -> Snapshot:
        eras = self._policy.eras
        tables = [
            build_contract(
                contract,
                eras.newest,
                [counts[kind.name] for kind in kinds if kind.name in counts],
                eras.listed_since,
            )
            for contract, kinds in self._policy.contracts
        ]
        return Snapshot(watermark, frontier, tuple(tables))


def _window_counts(memory: _Memory, kind: WindowKind) -> WindowCounts:
    decisions = memory.decisions[kind.name]
    labelled = memory.labelled.get(kind.name, decisions)
    labelled_start = labelled.start_at if kind.labelled else None
    labelled_end = labelled.end_at if kind.labelled else None
    return WindowCounts(
        kind=kind,
        start=decisions.start_at,
        end=decisions.end_at,
        labelled_start=labelled_start,
        labelled_end=labelled_end,
        decisions=decisions.counts,
        labelled=labelled.counts,
        index=memory.dictionary.index,
        data_lost=memory.lost.touch_decisions(decisions.start_at, decisions.end_at)
        or memory.lost.touch_labelled(labelled_start, labelled_end),
    )
