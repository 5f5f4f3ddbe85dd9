"""Contract watches: the advisory detectors of one contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from monitor.core.contract import Contract, GroupBy
from monitor.core.counts.rollup import CellIndex
from monitor.core.time import Grain, pane_start
from monitor.detection.advisory.drift import GroupDrift
from monitor.detection.advisory.finding_log import Drift, LabelDelay, RateChange, VersionChange
from monitor.detection.advisory.label_delays import WeeklyDelays
from monitor.detection.advisory.label_requests import RequestTest, RequestWatch
from monitor.detection.advisory.mix_labels import RATES, CellLabels
from monitor.detection.advisory.river_advisory import Advisory
from monitor.detection.advisory.slice_labels import SliceLabels
from monitor.detection.pages.declared import DetectorSettings
from monitor.detection.pages.watched import WatchedUseCase

# No contract's name has a tilde, so no part is named like one of the fleet's.
_DRIFT, _DELAYS, _RIVER, _REQUESTS = "~drift", "~delays", "~river", "~requests"
_LABELS = "~labels"

Part = TypeVar("Part")
_Detector = GroupDrift | WeeklyDelays | SliceLabels | RequestWatch | Advisory


@dataclass(slots=True)
class KeptParts:
    """Stored parts of the advisory state; counts those that could not be read.

    Attributes:
        parts: stored bytes by name.
        renewed: number of parts that could not be used.
    """

    parts: Mapping[str, bytes]
    renewed: int = 0

    def read(self, name: str, fresh: Part, restored: Callable[[bytes], Part]) -> Part:
        """Return the decoded part, or ``fresh`` if it is absent or unreadable (then counted)."""
        if name not in self.parts:
            return fresh
        try:
            return restored(self.parts[name])
        except (KeyError, ValueError):
            self.renewed += 1
            return fresh


@dataclass(frozen=True, slots=True)
class WeekOfStream:
    """Evidence of one drift stream in an ISO week that ended, for the weekly drift list.

    Attributes:
        subject: the stream.
        log_e: log e-value of drift; -inf where nothing was bet.
        mix_shift: whether its rate moved while rates within mixes held.
    """

    subject: Drift
    log_e: float
    mix_shift: bool


@dataclass(slots=True)
class ContractWatch:
    """Advisory detectors of one contract, for all its group-bys.

    Attributes:
        name: name of the contract.
        drifts: drift by group-by.
        delays: label delays by group-by.
        requests: label requests over all slices together.
        labels: label faults of slices, by group-by.
        river: river's detectors of all slices of all group-bys.
    """

    name: str
    drifts: dict[str, GroupDrift]
    delays: dict[str, WeeklyDelays]
    requests: RequestWatch
    labels: dict[str, SliceLabels]
    river: Advisory

    @classmethod
    def start(
        cls, contract: Contract, settings: DetectorSettings, kept: KeptParts
    ) -> ContractWatch:
        """Return the detectors that a contract declares, with their stored state."""
        name, groups, size = contract.name, contract.group_bys, settings.cluster_size
        share = 1 / len(settings.contracts)
        requests = RequestWatch.start(
            RequestTest.for_audit_rates(settings.coding.audit_rates, share), size
        )
        river = kept.read(f"{_RIVER}/{name}", Advisory(), Advisory.from_bytes)
        kept.renewed += river.renewed
        watch = cls(
            name,
            {group.name: _drift(name, group, settings, kept) for group in groups},
            {group.name: _delays(name, group, settings, kept) for group in groups},
            kept.read(f"{_REQUESTS}/{name}", requests, requests.restored),
            {group.name: _labels(name, group, settings, kept) for group in groups},
            river,
        )
        river.forget(river.slices - watch.slices)
        return watch

    @property
    def slices(self) -> frozenset[str]:
        """Return the names of all slices whose drift is watched."""
        return frozenset(
            slice_name for drift in self.drifts.values() for slice_name in drift.places.slices
        )

    @property
    def streams(self) -> int:
        """Return the number of drift streams: slices times rates."""
        return sum(drift.streams for drift in self.drifts.values())

    def enter(self, hour: int) -> Iterator[WeekOfStream]:
        """Begin an hour's cohort; yield each drift stream's evidence of a week that ended."""
        for group, drift in self.drifts.items():
            for rate, week in drift.enter(hour).items():
                columns = (drift.places.slices, week.log_e.tolist(), week.mix_shift.tolist())
                for text, log_e, mix_shift in zip(*columns, strict=True):
                    yield WeekOfStream(Drift(self.name, group, text, rate), log_e, mix_shift)

    def feed(
        self, hour: int, use_case: WatchedUseCase, index: CellIndex, weight: float
    ) -> Iterator[RateChange | VersionChange]:
        """Feed thinned labels to drift and river's detectors; yield rate and version changes."""
        if use_case.thinned is None:
            return
        at, cells = pane_start(hour, Grain.HOUR), CellLabels.from_counts(use_case.thinned, index)
        for group, drift in self.drifts.items():
            labels = drift.places.table(cells)
            for text in drift.advance(hour, labels, weight):
                yield VersionChange(self.name, group, text)
            for rate in RATES:
                n, k = labels.of_slices(rate)
                for alarm in self.river.advance(at, rate, drift.places.slices, n, k):
                    yield RateChange(
                        self.name, group, alarm.slice, alarm.metric, alarm.detector, alarm.change
                    )

    def compare_delays(self, hour: int, use_case: WatchedUseCase) -> Iterator[LabelDelay]:
        """Add an hour to the week's label delays; yield the differences of an ended week."""
        for group, delays in self.delays.items():
            for text, difference in delays.advance(hour, use_case.rolled[group]):
                yield LabelDelay(self.name, group, text, difference.timing, difference.buckets)

    @property
    def request_part(self) -> dict[str, bytes]:
        """Encode the state of label requests as one named part; it runs ahead of cohorts."""
        return {f"{_REQUESTS}/{self.name}": self.requests.to_bytes()}

    def label_part(self, group: str) -> dict[str, bytes]:
        """Encode a group-by's state of label faults as one named part."""
        return {f"{_LABELS}/{self.name}/{group}": self.labels[group].to_bytes()}

    @property
    def names(self) -> set[str]:
        """Return the names of all parts that :meth:`parts` writes."""
        return set(self._detectors())

    def parts(self) -> dict[str, bytes]:
        """Encode the whole state as parts by name."""
        return {name: detector.to_bytes() for name, detector in self._detectors().items()}

    def _detectors(self) -> Mapping[str, _Detector]:
        """Return all detectors of the contract by the name that their states are stored under."""
        drifts = {f"{_DRIFT}/{self.name}/{group}": drift for group, drift in self.drifts.items()}
        delays = {
            f"{_DELAYS}/{self.name}/{group}": weekly_delays
            for group, weekly_delays in self.delays.items()
        }
        labels = {
            f"{_LABELS}/{self.name}/{group}": slice_labels
            for group, slice_labels in self.labels.items()
        }
        requests, river = f"{_REQUESTS}/{self.name}", f"{_RIVER}/{self.name}"
        return {**drifts, **delays, **labels, requests: self.requests, river: self.river}


def _drift(name: str, group: GroupBy, settings: DetectorSettings, kept: KeptParts) -> GroupDrift:
    """Return the stored drift detectors of a group-by, or new ones."""
    fresh = GroupDrift.start(group, settings.coding, settings.cluster_size)
    return kept.read(
        f"{_DRIFT}/{name}/{group.name}",
        fresh,
        lambda body: fresh.restored(body, group, settings.coding),
    )


def _delays(name: str, group: GroupBy, settings: DetectorSettings, kept: KeptParts) -> WeeklyDelays:
    fresh = WeeklyDelays.start(group, settings.coding, settings.cluster_size)
    return kept.read(f"{_DELAYS}/{name}/{group.name}", fresh, fresh.restored)


def _labels(name: str, group: GroupBy, settings: DetectorSettings, kept: KeptParts) -> SliceLabels:
    groups = sum(len(contract.group_bys) for contract in settings.contracts)
    fresh = SliceLabels.start(group, settings.coding, 1 / groups, settings.cluster_size)
    return kept.read(f"{_LABELS}/{name}/{group.name}", fresh, fresh.restored)
