"""What advises, as it is noted in the rows of a group-by: how often it was found, and when last.

Both are as of the end of the newest published block whose cohorts all had their turn. Findings that
mean the same to a reader (a rate that rose and one that fell, a delay of one bucket and of two) are
counted together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from monitor.core.annotations import Annotation
from monitor.core.contract import Metric
from monitor.core.snapshot import GroupTable, Noted
from monitor.core.time import Grain, pane_of
from monitor.detection.advisory import Tally
from monitor.detection.changes import Detector
from monitor.detection.delays import Timing
from monitor.detection.findings import (
    AnySubject,
    Drift,
    LabelDelay,
    ListedGap,
    MixShift,
    RateChange,
    VersionChange,
)
from monitor.detection.timeline import Timeline
from monitor.evaluate.published_blocks import Blocks

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
    blocks: Mapping[bool, Blocks],
    told: Mapping[Mark, int],
) -> dict[str, tuple[Noted, ...]]:
    """What is noted in every slice of a group-by, sorted by annotation and metric.

    Args:
        timelines: when each subject was found.
        blocks: of decisions and of labels, those that there are.
        told: since which block the last Snapshot said it.
    """
    found: defaultdict[str, list[Noted]] = defaultdict(list)
    for mark, tally in _tallies(timelines, blocks).items():
        latest = blocks[_on_labels(mark)].latest(tally.last, told.get(mark))
        if latest is not None:
            text, annotation, metric = mark
            found[text].append(Noted(annotation, metric, tally.count, latest))
    return {text: tuple(sorted(many, key=_order)) for text, many in found.items()}


def marks(table: GroupTable) -> dict[Mark, int]:
    """Since which block a table says what is noted in it."""
    return {
        (row.slice, one.annotation, one.metric): one.latest
        for row in table.rows
        for one in row.noted
    }


def _tallies(
    timelines: Mapping[AnySubject, Timeline], blocks: Mapping[bool, Blocks]
) -> dict[Mark, Tally]:
    """How often everything was found before the end of its newest block, and when last."""
    tallies: dict[Mark, Tally] = {}
    for subject, timeline in timelines.items():
        mark = _mark(subject)
        known = blocks.get(_on_labels(mark))
        tally = timeline.before(pane_of(known.end, Grain.HOUR)) if known else None
        if tally is not None:
            other = tallies.get(mark, Tally(0, tally.last))
            tallies[mark] = Tally(tally.count + other.count, max(tally.last, other.last))
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
    """Whether it goes by blocks of labels; so does what is of no rate: label cohorts show it."""
    metric = mark[2]
    return metric is None or metric.labelled


def _order(one: Noted) -> tuple[str, str]:
    return one.annotation.value, one.metric.value if one.metric else ""
