"""State that the evaluator keeps between cycles, and reads again from the store after a failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.counts.cells import PaneCounts
from monitor.core.publish.encoding import Encoded
from monitor.core.publish.snapshot import ShownProbeSet, Snapshot, decode
from monitor.core.time import WEEK, Grain, TimeSpan, pane_of, pane_start, standard_offset
from monitor.evaluate.clusters import ClusterDays
from monitor.evaluate.cohorts import CohortColumns, Cohorts
from monitor.evaluate.detect.cohorts_in_order import DetectionState
from monitor.evaluate.dictionary import CellDictionary
from monitor.evaluate.incidents.book import IncidentBook
from monitor.evaluate.incidents.incidents import Incidents
from monitor.evaluate.panes import split_panes
from monitor.evaluate.policy import EvaluatorPolicy
from monitor.evaluate.probes import ProbeSets
from monitor.evaluate.publish.label_faults import LabelFaults
from monitor.evaluate.publish.losses import LostSpans
from monitor.evaluate.publish.published_calendar import PublishedCalendar
from monitor.evaluate.publish.published_findings import PublishedFindings
from monitor.evaluate.publish.publisher import Publisher
from monitor.evaluate.publish.request_faults import RequestFaults
from monitor.evaluate.publish.version_changes import VersionChanges
from monitor.evaluate.publish.weeks import Weeks
from monitor.evaluate.tables.calendar import Calendar
from monitor.records import Shard
from monitor.store.codings import require_eras
from monitor.store.deltas import StoredDelta
from monitor.store.evaluator.cluster_days import read_cluster_days
from monitor.store.evaluator.probe_sets import read_probe_sets
from monitor.store.evaluator.records import newest_snapshot
from monitor.store.evaluator.span_sums import hour_sums
from monitor.store.evaluator.store import EvaluatorStore
from monitor.store.evaluator.stored_detection import read_detection
from monitor.store.evaluator.stored_incidents import read_acts, read_standing
from monitor.store.upkeep.retention_guard import HOURS_KEPT_AFTER_HORIZON

FIRST = -(1 << 62)
"""An instant before all events (microseconds)."""
_GRAINS = (Grain.HOUR, Grain.DAY, Grain.WEEK)


PageCauses = tuple[
    LostSpans, tuple[TimeSpan, ...], tuple[tuple[int, str], ...], tuple[ShownProbeSet, ...]
]
"""Causes that change pages without new counts: losses, exclusions, incidents, probes."""


@dataclass(slots=True)
class Memory:
    """State that the evaluator keeps between cycles; equal to the stored state."""

    cursors: dict[Shard, int]
    dictionary: CellDictionary
    cohorts: Cohorts
    calendars: list[Calendar]
    published: PublishedCalendar
    publisher: Publisher
    detection: DetectionState
    incidents: Incidents
    probes: ProbeSets
    clusters: ClusterDays
    weeks: Weeks
    encoded: Encoded | None = None
    stored: tuple[int, Snapshot] | None = None
    shown: PageCauses | None = None
    moved: bool = False
    horizon: int = 0
    tables_to: tuple[int, int, int] | None = None

    @classmethod
    def load(cls, store: EvaluatorStore, policy: EvaluatorPolicy) -> Memory:
        """Return the memory that equals the stored state."""
        read = store.read
        read(require_eras, policy.eras)
        dictionary = CellDictionary(store.cells)
        detection = DetectionState.load(read(read_detection), policy.detection)
        stored = read(newest_snapshot)
        open_incidents, acts = read(read_standing), read(read_acts)
        book = IncidentBook.load(open_incidents, acts, detection.crossings.standing.values())
        incidents = Incidents(detection, policy.eras, book)
        coding = policy.eras.newest
        publisher = Publisher(
            policy.contracts,
            coding,
            PublishedFindings(detection),
            RequestFaults(detection),
            LabelFaults(detection),
            incidents,
            VersionChanges(
                lambda start, end: read(hour_sums, start, end),
                lambda: dictionary.index,
                detection.advice.changed_at,
            ),
        )
        offset = standard_offset(policy.timezone)
        calendars = [Calendar(store, contract, coding, offset) for contract in policy.contracts]
        watermark = store.deltas.watermark()
        since = FIRST if watermark is None else watermark - policy.horizon - 8 * WEEK
        memory = cls(
            cursors=store.deltas.cursors(),
            dictionary=dictionary,
            cohorts=Cohorts(),
            calendars=calendars,
            published=PublishedCalendar.load(store, calendars, since, since),
            publisher=publisher,
            detection=detection,
            incidents=incidents,
            probes=ProbeSets.load(read(read_probe_sets), policy.probes, live=policy.live),
            clusters=ClusterDays(read(read_cluster_days)),
            weeks=Weeks(policy.contracts, coding, policy.horizon, policy.timezone),
            encoded=Encoded(stored[1]) if stored else None,
            stored=(stored[0], decode(stored[1])) if stored else None,
        )
        first = FIRST if watermark is None else policy.oldest_cohort(watermark)
        hours, cells, *labels = store.cohorts.labels(first)
        dictionary.learn(cells)
        memory.cohorts.add(hours, dictionary.strata(cells), CohortColumns(*labels))
        memory.cohorts.forget(first)
        return memory

    def apply_deltas(
        self, deltas: Sequence[StoredDelta], watermark: int | None, horizon: int
    ) -> list[PaneCounts]:
        """Add deltas to the cohorts; return their increments to hour, day and week panes."""
        kept = horizon + HOURS_KEPT_AFTER_HORIZON
        panes = np.concatenate([delta.payload.panes for delta in deltas])
        cells = np.concatenate([delta.payload.cells for delta in deltas])
        values = np.concatenate([delta.payload.values for delta in deltas])
        self.dictionary.learn(cells)
        pane_starts = pane_start(panes, Grain.MINUTES5)
        self.cohorts.add(
            pane_of(pane_starts, Grain.HOUR),
            self.dictionary.strata(cells),
            CohortColumns.from_counters(values),
        )
        increments: list[PaneCounts] = []
        for grain in _GRAINS:
            # A back-fill brings years that only days and weeks keep.
            oldest = FIRST if watermark is None or grain is not Grain.HOUR else watermark - kept
            is_kept = pane_starts >= oldest
            increments += split_panes(
                grain, pane_of(pane_starts[is_kept], grain), cells[is_kept], values[is_kept]
            )
        return increments
