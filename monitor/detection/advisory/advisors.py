"""Advisory detectors: everything that watches besides the page streams, and never pages.

Drift from baselines (with its weekly list), river's detectors and label delays consume the same
cohorts as the pages; label requests are consumed earlier. A damaged or outdated part of the stored
state begins anew: that costs time, never a false page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.rollup import CellIndex
from monitor.core.time import Grain, pane_start
from monitor.detection.advisory.contract_advisor import ContractWatch, KeptParts, WeekOfStream
from monitor.detection.advisory.finding_log import (
    AnySubject,
    Drift,
    FindingLog,
    FindingTimes,
    ListedGap,
    MixShift,
    RateChange,
    VersionChange,
)
from monitor.detection.advisory.river_advisory import FindingCount
from monitor.detection.pages.declared import DetectorSettings
from monitor.detection.pages.streams import Stream
from monitor.detection.pages.watched import WatchedUseCase
from monitor.detection.pages.weekly_evidence import ebh

_LEDGER = "~found"


@dataclass(slots=True)
class Advisors:
    """The advisory detectors of all contracts, and the times of their findings so far.

    Attributes:
        watches: a watch per contract.
        ledger: all findings so far.
        renewed: number of parts that began anew because they were unreadable or outdated.
    """

    watches: Sequence[ContractWatch]
    ledger: FindingTimes
    renewed: int = 0

    @classmethod
    def start(
        cls, settings: DetectorSettings, parts: Mapping[str, bytes] | None = None
    ) -> Advisors:
        """Return the detectors that the settings declare, with their stored state.

        Args:
            settings: contracts and coding.
            parts: stored parts from :meth:`parts`; other names are ignored.
        """
        kept = KeptParts(parts or {})
        watches = [ContractWatch.start(contract, settings, kept) for contract in settings.contracts]
        ledger = kept.read(_LEDGER, FindingTimes(), FindingTimes.from_bytes)
        ledger.keep({(watch.name, text) for watch in watches for text in watch.slices})
        return cls(watches, ledger, kept.renewed)

    def advance(
        self,
        hour: int,
        use_cases: Mapping[str, WatchedUseCase],
        index: CellIndex,
        listed: Sequence[Stream] | None = None,
    ) -> FindingLog:
        """Feed one hour's cohort to all detectors; record and return the findings.

        Args:
            hour: pane index, later than all before.
            use_cases: the cohort as each contract sees it, by name.
            index: meaning of the cell ids.
            listed: the weekly list of page streams, with the first cohort after an ISO week.
        """
        week = [stream for watch in self.watches for stream in watch.enter(hour)]
        drifted, shifted = _drift_list(week, self._stream_weight)
        watched_cases = [(watch, use_cases[watch.name]) for watch in self.watches]
        findings_of_cohort = [
            finding
            for watch, case in watched_cases
            for finding in watch.feed(hour, case, index, self._stream_weight)
        ]
        findings = FindingLog(
            pane_start(hour, Grain.HOUR),
            _listed_gaps(listed or ()),
            drifted,
            shifted,
            tuple(finding for finding in findings_of_cohort if isinstance(finding, RateChange)),
            tuple(
                finding
                for watch, case in watched_cases
                for finding in watch.compare_delays(hour, case)
            ),
            tuple(finding for finding in findings_of_cohort if isinstance(finding, VersionChange)),
        )
        self.ledger.note(findings)
        return findings

    def changed_at(self, contract: str, group_by: str, text: str) -> int | None:
        """Return the time of a slice's last version change (its cohort's start), or None."""
        timeline = self.ledger.group_timelines(contract, group_by).get(
            VersionChange(contract, group_by, text)
        )
        tally = timeline.now if timeline else None
        return tally.last if tally else None

    @property
    def tallies(self) -> Mapping[AnySubject, FindingCount]:
        """Return count and latest time of each finding, by subject."""
        return self.ledger.tallies

    @property
    def names(self) -> set[str]:
        """Return the names of all parts that :meth:`parts` writes."""
        return {_LEDGER}.union(*(watch.names for watch in self.watches))

    def parts(self) -> dict[str, bytes]:
        """Encode the whole state as parts by name, to be stored with the newest consumed cohort."""
        parts = {_LEDGER: self.ledger.to_bytes()}
        for watch in self.watches:
            parts |= watch.parts()
        return parts

    @property
    def _stream_weight(self) -> float:
        """Return the equal weight of every drift stream: one over their number."""
        return 1 / max(sum(watch.streams for watch in self.watches), 1)


def _listed_gaps(listed: Sequence[Stream]) -> tuple[ListedGap, ...]:
    """Return the distinct slices and metrics that the listed page streams show to be worse off.

    If a complement is worse off than a slice, the slice itself is returned, unless the list has a
    slice of that complement.
    """
    groups_with_slices = {
        (stream.contract, stream.group_by, stream.metric)
        for stream in listed
        if stream.worse_off != COMPLEMENT
    }
    gaps = (
        ListedGap(stream.contract, stream.group_by, stream.slice, stream.metric)
        if stream.worse_off == COMPLEMENT
        else ListedGap(stream.contract, stream.group_by, stream.worse_off, stream.metric)
        for stream in listed
        if stream.worse_off != COMPLEMENT
        or (stream.contract, stream.group_by, stream.metric) not in groups_with_slices
    )
    return tuple(dict.fromkeys(gaps))


def _drift_list(
    week: Sequence[WeekOfStream], weight: float
) -> tuple[tuple[Drift, ...], tuple[MixShift, ...]]:
    """Return the drifts that weighted e-BH lists for a week, and mix shifts not listed."""
    log_e = np.array([stream.log_e for stream in week], np.float64)
    listed = ebh(log_e, np.full(len(week), math.log(weight))).tolist()
    shifted = [
        stream.subject
        for stream, is_listed in zip(week, listed, strict=True)
        if stream.mix_shift and not is_listed
    ]
    return (
        tuple(stream.subject for stream, is_listed in zip(week, listed, strict=True) if is_listed),
        tuple(
            MixShift(subject.contract, subject.group_by, subject.slice, subject.metric)
            for subject in shifted
        ),
    )
