"""Advisory findings: the subject of each, its count, and its times.

Findings advise: they annotate and count, and nothing is ever paged because of them.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from monitor.core.metric import Metric
from monitor.core.time import Grain, pane_of, pane_start
from monitor.detection.advisory.label_delays import Timing
from monitor.detection.advisory.river_advisory import FindingCount
from monitor.detection.advisory.river_detectors import ChangeDirection, Detector
from monitor.detection.pages.evidence_history import KEPT


class Timeline(msgspec.Struct, array_like=True):
    """Hours with a finding of one subject, and running totals; changed in place.

    Attributes:
        hours: pane indices of these cohorts, increasing.
        totals: number of findings up to the end of each.
    """

    hours: list[int] = []
    totals: list[int] = []

    def note(self, hour: int) -> None:
        """Add one finding in the cohort of an hour, which is not before the last one."""
        total = self.totals[-1] + 1 if self.totals else 1
        if self.hours and self.hours[-1] == hour:
            self.totals[-1] = total
        else:
            self.hours.append(hour)
            self.totals.append(total)

    def before(self, hour: int) -> FindingCount | None:
        """Return count and latest time of findings in cohorts before an hour, or None.

        Of hours that were folded only the newest is known.
        """
        return self._tally(bisect_left(self.hours, hour))

    @property
    def now(self) -> FindingCount | None:
        """Return count and latest time of all findings so far, or None."""
        return self._tally(len(self.hours))

    def fold(self, oldest: int) -> None:
        """Remove the hours before ``oldest``, except the newest of them with its total."""
        folded = max(bisect_left(self.hours, oldest) - 1, 0)
        del self.hours[:folded], self.totals[:folded]

    def _tally(self, end: int) -> FindingCount | None:
        if not end:
            return None
        return FindingCount(self.totals[end - 1], pane_start(self.hours[end - 1], Grain.HOUR))


FORM = 1
"""Version of the stored form; it changes when older states cannot be read."""


class Subject(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Contract, group-by and slice that a finding is about.

    Attributes:
        contract: contract name.
        group_by: attribute names joined by ``+``.
        slice: slice text.
    """

    contract: str
    group_by: str
    slice: str


class ListedGap(Subject, frozen=True, tag=True, array_like=True):
    """A slice on the weekly list of page streams: its contract is broken."""

    metric: Metric


class Drift(Subject, frozen=True, tag=True, array_like=True):
    """A slice on the weekly drift list: its rate is worse than its reference, mix by mix."""

    metric: Metric


class MixShift(Subject, frozen=True, tag=True, array_like=True):
    """A slice whose rate moved while rates within its mixes held: its requests have changed."""

    metric: Metric


class RateChange(Subject, frozen=True, tag=True, array_like=True):
    """A change in a slice's rate that one of river's detectors found."""

    metric: Metric
    detector: Detector
    change: ChangeDirection


class LabelDelay(Subject, frozen=True, tag=True, array_like=True):
    """A slice whose labels came later or earlier than its reference's, over a week.

    Attributes:
        timing: whether the slice's labels came later or earlier.
        buckets: mean difference in whole buckets, at least 1 (edges: ``DELAY_EDGES_HOURS``).
    """

    timing: Timing
    buckets: int


class VersionChange(Subject, frozen=True, tag=True, array_like=True):
    """A slice answered by other versions than when its baselines were collected."""


AnySubject = ListedGap | Drift | MixShift | RateChange | LabelDelay | VersionChange


@dataclass(frozen=True, slots=True)
class FindingLog:
    """Advisory findings of one hour's cohort.

    Attributes:
        at: start of the cohort's hour (event time, microseconds).
        listed: the weekly list of gaps and levels, in the first cohort after an ISO week.
        drifted: the weekly list of drift, in the same cohort.
        mix_shifted: slices with a mix shift and no drift, in the same cohort.
        changed: alarms of river's detectors, repeated as often as they fired.
        delayed: label delays, in the first cohort after an ISO week.
        versions: slices that other versions answer from this cohort on.
    """

    at: int
    listed: tuple[ListedGap, ...] = ()
    drifted: tuple[Drift, ...] = ()
    mix_shifted: tuple[MixShift, ...] = ()
    changed: tuple[RateChange, ...] = ()
    delayed: tuple[LabelDelay, ...] = ()
    versions: tuple[VersionChange, ...] = ()

    @property
    def subjects(self) -> tuple[AnySubject, ...]:
        """Return the subjects of all findings."""
        weekly = self.listed + self.drifted + self.mix_shifted
        return weekly + self.changed + self.delayed + self.versions


@dataclass(slots=True)
class FindingTimes:
    """Times of all findings so far, by subject; subjects without findings are absent.

    Of hours older than :data:`~monitor.detection.pages.evidence_history.KEPT` only the count and
    the latest time are kept: nothing asks for older states.

    Attributes:
        timelines: timelines of subjects by contract and group-by.
    """

    timelines: dict[tuple[str, str], dict[AnySubject, Timeline]] = field(default_factory=dict)

    def note(self, findings: FindingLog) -> None:
        """Add the findings of one cohort, later than all before, and fold old hours."""
        hour = pane_of(findings.at, Grain.HOUR)
        for subject in findings.subjects:
            self._timelines_of(subject).setdefault(subject, Timeline()).note(hour)
        for timelines in self.timelines.values():
            for timeline in timelines.values():
                timeline.fold(hour - KEPT)

    def group_timelines(self, contract: str, group_by: str) -> Mapping[AnySubject, Timeline]:
        """Return the timelines of one group-by by subject; empty without findings."""
        return self.timelines.get((contract, group_by), {})

    @property
    def tallies(self) -> dict[AnySubject, FindingCount]:
        """Return count and latest time of each subject's findings."""
        counts = ((subject, timeline.now) for subject, timeline in self._subjects_with_timelines())
        return {subject: tally for subject, tally in counts if tally is not None}

    def keep(self, watched: Collection[tuple[str, str]]) -> None:
        """Remove all subjects but those with (contract, slice text) in ``watched``."""
        watched_timelines = [
            (subject, timeline)
            for subject, timeline in self._subjects_with_timelines()
            if (subject.contract, subject.slice) in watched
        ]
        self.timelines = {}
        for subject, timeline in watched_timelines:
            self._timelines_of(subject)[subject] = timeline

    def to_bytes(self) -> bytes:
        """Encode the whole state as bytes; equal states have equal bytes."""
        timelines = sorted(
            self._subjects_with_timelines(), key=lambda pair: msgspec.msgpack.encode(pair[0])
        )
        return zlib.compress(msgspec.msgpack.encode(_SavedFindings(FORM, timelines)), level=1)

    @classmethod
    def from_bytes(cls, body: bytes) -> FindingTimes:
        """Return the state that :meth:`to_bytes` wrote.

        Raises:
            ValueError: if the bytes are damaged, or of another form.
        """
        try:
            saved = msgspec.msgpack.decode(zlib.decompress(body), type=_SavedFindings)
        except (zlib.error, msgspec.DecodeError) as error:
            raise ValueError("the stored findings cannot be read") from error
        if saved.form != FORM:
            raise ValueError("the stored findings are of another form")
        ledger = cls()
        for subject, timeline in saved.timelines:
            ledger._timelines_of(subject)[subject] = timeline
        return ledger

    def _timelines_of(self, subject: AnySubject) -> dict[AnySubject, Timeline]:
        return self.timelines.setdefault((subject.contract, subject.group_by), {})

    def _subjects_with_timelines(self) -> Iterator[tuple[AnySubject, Timeline]]:
        for timelines in self.timelines.values():
            yield from timelines.items()


class _SavedFindings(msgspec.Struct, array_like=True, frozen=True):
    """Stored form of :class:`FindingTimes`, encoded as msgpack."""

    form: int
    timelines: list[tuple[AnySubject, Timeline]]
