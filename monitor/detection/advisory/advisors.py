"""Advisory detectors: everything that watches besides the page streams, and never pages.

Drift from baselines (with its weekly list), river's detectors and label delays are advanced by the
same cohorts as the pages; label requests have a turn of their own. A damaged or outdated part of
what is kept begins anew: that costs time, never a false page.
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
    """The state of all advisory detectors.

    Attributes:
        watches: one for every contract.
        ledger: what was found so far.
        renewed: parts that began anew since they could not be read, or not be continued.
    """

    watches: Sequence[ContractWatch]
    ledger: FindingTimes
    renewed: int = 0

    @classmethod
    def start(
        cls, settings: DetectorSettings, parts: Mapping[str, bytes] | None = None
    ) -> Advisors:
        """All that the settings declare, with the state that is kept of it.

        Args:
            settings: what is declared.
            parts: what :meth:`parts` gave; parts of others are not read.
        """
        kept = KeptParts(parts or {})
        watches = [ContractWatch.start(one, settings, kept) for one in settings.contracts]
        ledger = kept.read(_LEDGER, FindingTimes(), FindingTimes.from_bytes)
        ledger.keep({(one.name, text) for one in watches for text in one.slices})
        return cls(watches, ledger, kept.renewed)

    def advance(
        self,
        hour: int,
        seen: Mapping[str, WatchedUseCase],
        index: CellIndex,
        listed: Sequence[Stream] | None = None,
    ) -> FindingLog:
        """Consume the cohort of one hour.

        Args:
            hour: pane index, later than all before.
            seen: the cohort as each contract sees it, by name.
            index: what the cell ids mean.
            listed: the weekly list of page streams, with the first cohort after an ISO week.
        """
        week = [stream for one in self.watches for stream in one.enter(hour)]
        drifted, shifted = _listed(week, self._weight)
        cases = [(one, seen[one.name]) for one in self.watches]
        fed = [x for one, case in cases for x in one.feed(hour, case, index, self._weight)]
        findings = FindingLog(
            pane_start(hour, Grain.HOUR),
            _gaps(listed or ()),
            drifted,
            shifted,
            tuple(x for x in fed if isinstance(x, RateChange)),
            tuple(x for one, case in cases for x in one.compare_delays(hour, case)),
            tuple(x for x in fed if isinstance(x, VersionChange)),
        )
        self.ledger.note(findings)
        return findings

    def changed_at(self, contract: str, group_by: str, text: str) -> int | None:
        """Start of the cohort in which other versions last began to answer a slice, or None."""
        timeline = self.ledger.group_timelines(contract, group_by).get(
            VersionChange(contract, group_by, text)
        )
        tally = timeline.now if timeline else None
        return tally.last if tally else None

    @property
    def tallies(self) -> Mapping[AnySubject, FindingCount]:
        """Count and latest time of everything that was ever found."""
        return self.ledger.tallies

    @property
    def names(self) -> set[str]:
        """Names of all parts of the state."""
        return {_LEDGER}.union(*(one.names for one in self.watches))

    def parts(self) -> dict[str, bytes]:
        """The whole state, to be kept with the cohort that was consumed last."""
        parts = {_LEDGER: self.ledger.to_bytes()}
        for one in self.watches:
            parts |= one.parts()
        return parts

    @property
    def _weight(self) -> float:
        """Weight of each drift stream: all are equal, and their sum is 1."""
        return 1 / max(sum(one.streams for one in self.watches), 1)


def _gaps(listed: Sequence[Stream]) -> tuple[ListedGap, ...]:
    """The slices and metrics that are worse off by the streams on a list, each of them once.

    Where all others together are worse off than a slice, it is that slice, unless the list has one
    of these others.
    """
    told = {(s.contract, s.group_by, s.metric) for s in listed if s.worse_off != COMPLEMENT}
    gaps = (
        ListedGap(s.contract, s.group_by, s.slice, s.metric)
        if s.worse_off == COMPLEMENT
        else ListedGap(s.contract, s.group_by, s.worse_off, s.metric)
        for s in listed
        if s.worse_off != COMPLEMENT or (s.contract, s.group_by, s.metric) not in told
    )
    return tuple(dict.fromkeys(gaps))


def _listed(
    week: Sequence[WeekOfStream], weight: float
) -> tuple[tuple[Drift, ...], tuple[MixShift, ...]]:
    """The list of an ISO week, and the slices that are not on it since only their mix shifted."""
    log_e = np.array([stream.log_e for stream in week], np.float64)
    listed = ebh(log_e, np.full(len(week), math.log(weight))).tolist()
    others = [one.subject for one, on in zip(week, listed, strict=True) if one.mix_shift and not on]
    return (
        tuple(one.subject for one, on in zip(week, listed, strict=True) if on),
        tuple(MixShift(s.contract, s.group_by, s.slice, s.metric) for s in others),
    )
