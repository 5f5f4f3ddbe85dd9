"""Published findings: annotations of slices and sequential tests, as of release blocks.

A finding is that of the newest published block whose cohorts have all been consumed: of labels, for
metrics that rest on labels, else of decisions. So it moves from the end of one block to the end of
another and never between them, and is the same after a restart and however often one looks.
Advisory findings are all made of cohorts with their labels, tests of routes of closed hours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from monitor.core.contract import COMPLEMENT, Contract, GroupBy, Metric
from monitor.core.counts.cells import Int64s
from monitor.core.publish.annotations import Annotation
from monitor.core.publish.snapshot import GroupTable, Noted, Snapshot
from monitor.core.publish.states import CROSSED, GroupFindings, SliceEvidence
from monitor.core.time import Grain, pane_of
from monitor.detection.advisory.finding_log import (
    AnySubject,
    Drift,
    LabelDelay,
    ListedGap,
    MixShift,
    RateChange,
    Timeline,
    VersionChange,
)
from monitor.detection.advisory.label_delays import Timing
from monitor.detection.advisory.river_advisory import FindingCount
from monitor.detection.advisory.river_detectors import Detector
from monitor.detection.pages.streams import Stream
from monitor.evaluate.blocks.family_state import FamilyState
from monitor.evaluate.blocks.published_blocks import PublishedBlocks
from monitor.evaluate.detect.cohorts_in_order import DetectionState

Mark = tuple[str, Annotation, Metric | None]
"""A slice, what is noted in it, and of which rate."""

_WEEKLY: Mapping[type[AnySubject], Annotation] = {
    ListedGap: Annotation.GAP,
    Drift: Annotation.DRIFT,
    MixShift: Annotation.MIX_SHIFT,
}
_DETECTORS = {
    Detector.ADWIN: Annotation.ADWIN,
    Detector.PAGE_HINKLEY: Annotation.PAGE_HINKLEY,
}
_TIMINGS = {
    Timing.LATER: Annotation.LABELS_LATER,
    Timing.EARLIER: Annotation.LABELS_EARLIER,
}


def noted(
    timelines: Mapping[AnySubject, Timeline],
    blocks: Mapping[bool, PublishedBlocks],
    told: Mapping[Mark, int],
) -> dict[str, tuple[Noted, ...]]:
    """Annotations of every slice of a group-by, sorted by annotation and metric.

    Args:
        timelines: when each subject was found.
        blocks: of decisions and of labels, those that there are.
        told: end of the newest block of each, as the last Snapshot reported it.
    """
    found: defaultdict[str, list[Noted]] = defaultdict(list)
    for mark, tally in _tallies(timelines, blocks).items():
        latest = blocks[_on_labels(mark)].latest(tally.last, told.get(mark))
        if latest is not None:
            text, annotation, metric = mark
            found[text].append(Noted(annotation, metric, tally.count, latest))
    return {text: tuple(sorted(many, key=_order)) for text, many in found.items()}


def marks(table: GroupTable) -> dict[Mark, int]:
    """End of the newest block of each annotation, as a table reports it."""
    return {
        (row.slice, one.annotation, one.metric): one.latest
        for row in table.rows
        for one in row.noted
    }


def _tallies(
    timelines: Mapping[AnySubject, Timeline], blocks: Mapping[bool, PublishedBlocks]
) -> dict[Mark, FindingCount]:
    """Number of times each was found before the end of its newest block, and the last time."""
    tallies: dict[Mark, FindingCount] = {}
    for subject, timeline in timelines.items():
        mark = _mark(subject)
        known = blocks.get(_on_labels(mark))
        tally = timeline.before(pane_of(known.end, Grain.HOUR)) if known else None
        if tally is not None:
            other = tallies.get(mark, FindingCount(0, tally.last))
            tallies[mark] = FindingCount(tally.count + other.count, max(tally.last, other.last))
    return tallies


def _mark(subject: AnySubject) -> Mark:
    match subject:
        case ListedGap(metric=metric) | Drift(metric=metric) | MixShift(metric=metric):
            return subject.slice, _WEEKLY[type(subject)], metric
        case RateChange(metric=metric, detector=detector):
            return subject.slice, _DETECTORS[detector], metric
        case LabelDelay(timing=timing):
            return subject.slice, _TIMINGS[timing], None
        case VersionChange():
            return subject.slice, Annotation.VERSION_CHANGE, None


def _on_labels(mark: Mark) -> bool:
    """Return True when it goes by blocks of labels, as does a mark of no rate: cohorts show it."""
    metric = mark[2]
    return metric is None or metric.labelled


def _order(one: Noted) -> tuple[str, str]:
    return one.annotation.value, one.metric.value if one.metric else ""


_BY_LABELS = Metric.TPR
_KINDS = {False: Metric.SELECTION, True: _BY_LABELS}
"""Whether metrics rest on labels, and one of them."""

_Where = tuple[str, str]  # contract and group-by
_Since = Mapping[tuple[str, Metric], int]


@dataclass(slots=True)
class PublishedFindings:
    """Reads the detectors for whoever makes tables.

    Attributes:
        detection: the detectors.
    """

    detection: DetectionState
    _since: dict[_Where, _Since] = field(default_factory=dict)
    _marks: dict[_Where, Mapping[Mark, int]] = field(default_factory=dict)
    _watched: dict[_Where, list[tuple[int, Stream]]] = field(default_factory=dict)

    @classmethod
    def start(cls, detection: DetectionState, before: Snapshot | None) -> PublishedFindings:
        """After the last Snapshot: the times it reported stay as they are."""
        made = cls(detection)
        for tests in (detection.fleet, detection.routes.fleet):
            for row, stream in enumerate(tests.streams):
                where = stream.contract, stream.group_by
                made._watched.setdefault(where, []).append((row, stream))
        for contract, table in _deciding(before):
            made.told(contract, table)
        return made

    def told(self, contract: str, table: GroupTable) -> None:
        """Take note of what is published."""
        self._since[contract, table.group_by] = {
            (row.slice, metric): at for row in table.rows for metric, at in row.breach_since.items()
        }
        self._marks[contract, table.group_by] = marks(table)

    def of(self, contract: Contract, group: GroupBy, state: FamilyState) -> GroupFindings:
        """The findings of a group-by, where a block has ended for them."""
        where = contract.name, group.name
        until = self.detection.until(_BY_LABELS)
        blocks = _known(
            {labels: PublishedBlocks.of(state, until, labels=labels) for labels in _KINDS}
        )
        tested = {
            labels: PublishedBlocks.of(state, self.detection.until(metric), labels=labels)
            for labels, metric in _KINDS.items()
        }
        timelines = self.detection.advice.ledger.of(*where)
        return GroupFindings(
            self._tests(where, _known(tested)),
            noted(timelines, blocks, self._marks.get(where, {})),
        )

    def _tests(
        self, where: _Where, blocks: Mapping[bool, PublishedBlocks]
    ) -> dict[tuple[str, Metric], SliceEvidence]:
        """Findings of the sequential tests, by slice and metric."""
        steps = {labels: self._steps(labels, one.end) for labels, one in blocks.items()}
        evidence: dict[tuple[str, Metric], int] = {}
        for row, stream in self._watched.get(where, ()):
            if (found := steps.get(stream.metric.labelled)) is not None:
                key = stream.slice, stream.metric
                evidence[key] = max(evidence.get(key, 0), int(found[row]))
        crossed, ahead = self._crossed(where, blocks)
        evidence |= dict.fromkeys((*crossed, *ahead), CROSSED)
        return {
            key: replace(crossed.get(key, SliceEvidence(step)), others_behind=key in ahead)
            for key, step in evidence.items()
        }

    def _steps(self, labels: bool, end: int) -> Int64s:
        history = self.detection.tests(_KINDS[labels]).history
        return history.before(pane_of(end, Grain.HOUR))

    def _crossed(
        self, where: _Where, blocks: Mapping[bool, PublishedBlocks]
    ) -> tuple[dict[tuple[str, Metric], SliceEvidence], set[tuple[str, Metric]]]:
        """Return the crossings that are unresolved at the end of the newest block.

        Returns:
            The first one of each slice that is worse off; and the slices that others are worse off
            than.
        """
        declared = {stream.key for _, stream in self._watched.get(where, ())}
        told, crossed = self._since.get(where, {}), dict[tuple[str, Metric], SliceEvidence]()
        ahead: set[tuple[str, Metric]] = set()
        for labels, known in blocks.items():
            stood = self.detection.crossings.stood(known.end)
            for one in sorted(stood, key=lambda crossing: (crossing.crossed_at, crossing.id)):
                if one.stream not in declared:
                    continue
                stream = Stream.parse(one.stream)
                if stream.metric.labelled is not labels:
                    continue
                if stream.worse_off != stream.slice:
                    ahead.add((stream.slice, stream.metric))
                if stream.worse_off != COMPLEMENT:
                    key = stream.worse_off, stream.metric
                    first = told.get(key, known.first_with(one.crossed_at))
                    crossed.setdefault(key, SliceEvidence(CROSSED, first, limit=stream.limit_kind))
        return crossed, ahead


def _known(blocks: Mapping[bool, PublishedBlocks | None]) -> Mapping[bool, PublishedBlocks]:
    return {labels: one for labels, one in blocks.items() if one is not None}


def _deciding(snapshot: Snapshot | None) -> Iterator[tuple[str, GroupTable]]:
    """The group-bys of the windows that decide, each with its contract's name."""
    for table in snapshot.contracts if snapshot else ():
        for window in table.windows:
            if window.window == table.window:
                yield from ((table.contract, group) for group in window.groups)
