"""Published findings: annotations of slices and sequential tests, as of the ends of days.

A finding is that of the newest day whose cohorts have all been consumed, so it moves once a day
and is the same after a restart. Advisory findings are all made of cohorts with their labels, tests
of routes of closed hours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from monitor.core.contract import COMPLEMENT, Contract, GroupBy
from monitor.core.counts.cells import Int64s
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Annotation
from monitor.core.publish.snapshot import Noted
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
from monitor.evaluate.detect.cohorts_in_order import DetectionState
from monitor.evaluate.publish.report_days import ReportDays

Mark = tuple[str, Annotation, Metric | None]
"""A slice, what is noted in it, and of which rate."""

_WEEKLY: Mapping[type[AnySubject], Annotation] = {
    ListedGap: Annotation.GAP,
    Drift: Annotation.DRIFT,
    MixShift: Annotation.MIX_SHIFT,
}
_DETECTORS = {Detector.ADWIN: Annotation.ADWIN, Detector.PAGE_HINKLEY: Annotation.PAGE_HINKLEY}
_TIMINGS = {Timing.LATER: Annotation.LABELS_LATER, Timing.EARLIER: Annotation.LABELS_EARLIER}


def noted(
    timelines: Mapping[AnySubject, Timeline], days: ReportDays, end: int
) -> dict[str, tuple[Noted, ...]]:
    """Return annotations of a group-by's slices, by slice, sorted by annotation and metric.

    Args:
        timelines: when each subject was found.
        days: that findings are reported as of.
        end: of the newest of these days (microseconds).
    """
    annotations: defaultdict[str, list[Noted]] = defaultdict(list)
    for (slice_name, annotation, metric), tally in _finding_counts(timelines, end).items():
        latest = days.end_after(tally.last)
        annotations[slice_name].append(Noted(annotation, metric, tally.count, latest))
    return {name: tuple(sorted(many, key=_order)) for name, many in annotations.items()}


def _finding_counts(timelines: Mapping[AnySubject, Timeline], end: int) -> dict[Mark, FindingCount]:
    """Return the number of findings before an instant, and the time of the last one, by mark."""
    tallies: dict[Mark, FindingCount] = {}
    for subject, timeline in timelines.items():
        tally = timeline.before(pane_of(end, Grain.HOUR))
        if tally is not None:
            mark = _mark(subject)
            before = tallies.get(mark, FindingCount(0, tally.last))
            tallies[mark] = FindingCount(tally.count + before.count, max(tally.last, before.last))
    return tallies


def _mark(subject: AnySubject) -> Mark:
    """Return the slice, annotation and metric that a finding is shown with."""
    match subject:
        case ListedGap(metric=metric) | Drift(metric=metric) | MixShift(metric=metric):
            return subject.slice, _WEEKLY[type(subject)], metric
        case RateChange(metric=metric, detector=detector):
            return subject.slice, _DETECTORS[detector], metric
        case LabelDelay(timing=timing):
            return subject.slice, _TIMINGS[timing], None
        case VersionChange():
            return subject.slice, Annotation.VERSION_CHANGE, None


def _order(noted: Noted) -> tuple[str, str]:
    return noted.annotation.value, noted.metric.value if noted.metric else ""


_KINDS = {False: Metric.SELECTION, True: Metric.TPR}
"""Whether metrics rest on labels, and one of them."""

_Where = tuple[str, str]  # contract and group-by
_Tests = dict[tuple[str, Metric], SliceEvidence]


@dataclass(slots=True)
class PublishedFindings:
    """Converter of detectors' findings to the form that published tables need.

    Attributes:
        detection: the detectors.
    """

    detection: DetectionState
    _watched: dict[_Where, list[tuple[int, Stream]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for tests in (self.detection.fleet, self.detection.routes.fleet):
            for row, stream in enumerate(tests.streams):
                where = stream.contract, stream.group_by
                self._watched.setdefault(where, []).append((row, stream))

    def for_group(self, contract: Contract, group: GroupBy) -> GroupFindings:
        """Return test evidence and annotations of a group-by, as of the newest day."""
        where, days = (contract.name, group.name), ReportDays.for_contract(contract)
        ends = {
            labelled: days.newest_end(self.detection.until(metric))
            for labelled, metric in _KINDS.items()
        }
        timelines = self.detection.advice.ledger.group_timelines(*where)
        end = ends[True]
        return GroupFindings(
            self._tests(where, days, {kind: end for kind, end in ends.items() if end is not None}),
            {} if end is None else noted(timelines, days, end),
        )

    def _tests(self, where: _Where, days: ReportDays, ends: Mapping[bool, int]) -> _Tests:
        """Return the evidence of the sequential tests by (slice, metric)."""
        steps = {labelled: self._steps(labelled, end) for labelled, end in ends.items()}
        evidence: dict[tuple[str, Metric], int] = {}
        for row, stream in self._watched.get(where, ()):
            if (step := steps.get(stream.metric.labelled)) is not None:
                key = stream.slice, stream.metric
                evidence[key] = max(evidence.get(key, 0), int(step[row]))
        crossed, ahead = self._crossed(where, days, ends)
        evidence |= dict.fromkeys((*crossed, *ahead), CROSSED)
        return {
            key: replace(crossed.get(key, SliceEvidence(step)), others_behind=key in ahead)
            for key, step in evidence.items()
        }

    def _steps(self, labels: bool, end: int) -> Int64s:
        history = self.detection.tests(_KINDS[labels]).history
        return history.before(pane_of(end, Grain.HOUR))

    def _crossed(
        self, where: _Where, days: ReportDays, ends: Mapping[bool, int]
    ) -> tuple[_Tests, set[tuple[str, Metric]]]:
        """Return unresolved crossings by (slice, metric), and the better-off (slice, metric).

        Returns:
            The first one of each slice that is worse off; and the slices that others are worse off
            than.
        """
        declared = {stream.key for _, stream in self._watched.get(where, ())}
        crossed = dict[tuple[str, Metric], SliceEvidence]()
        ahead: set[tuple[str, Metric]] = set()
        for labelled, end in ends.items():
            stood = self.detection.crossings.stood(end)
            for crossing in sorted(stood, key=lambda crossing: (crossing.crossed_at, crossing.id)):
                if crossing.stream not in declared:
                    continue
                stream = Stream.parse(crossing.stream)
                if stream.metric.labelled is not labelled:
                    continue
                if stream.worse_off != stream.slice:
                    ahead.add((stream.slice, stream.metric))
                if stream.worse_off != COMPLEMENT:
                    key = stream.worse_off, stream.metric
                    since = days.end_after(crossing.crossed_at - 1)
                    crossed.setdefault(key, SliceEvidence(CROSSED, since, limit=stream.limit_kind))
        return crossed, ahead
