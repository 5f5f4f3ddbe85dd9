"""Advisory detectors of one contract, which watch it besides its page streams."""

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
_Body = GroupDrift | WeeklyDelays | SliceLabels | RequestWatch | Advisory


@dataclass(slots=True)
class KeptParts:
    """Parts of a state.

    Attributes:
        parts: by name.
        renewed: how many of them could not be used.
    """

    parts: Mapping[str, bytes]
    renewed: int = 0

    def read(self, name: str, fresh: Part, restored: Callable[[bytes], Part]) -> Part:
        """A part as it was kept; ``fresh`` where there is none that can be read."""
        if name not in self.parts:
            return fresh
        try:
            return restored(self.parts[name])
        except (KeyError, ValueError):
            self.renewed += 1
            return fresh


@dataclass(frozen=True, slots=True)
class WeekOfStream:
    """Evidence of one drift stream in an ISO week.

    Attributes:
        subject: the stream.
        log_e: log e-value of drift; -inf where nothing was bet.
        mix_shift: whether its rate has moved although no mix's has.
    """

    subject: Drift
    log_e: float
    mix_shift: bool


@dataclass(slots=True)
class ContractWatch:
    """Advisory detectors of one contract.

    Attributes:
        name: of the contract.
        drifts: by group-by.
        delays: by group-by.
        requests: of everything together.
        labels: of slices, by group-by.
        river: of all slices of all group-bys.
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
        """All that a contract of the settings declares, with what is kept of it."""
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
        """Texts of all slices."""
        return frozenset(s for drift in self.drifts.values() for s in drift.places.slices)

    @property
    def streams(self) -> int:
        """Slices x rates that drift is looked for in."""
        return sum(drift.streams for drift in self.drifts.values())

    def enter(self, hour: int) -> Iterator[WeekOfStream]:
        """Let the cohort of an hour begin; gives the week that has ended, if one has."""
        for group, drift in self.drifts.items():
            for rate, week in drift.enter(hour).items():
                columns = (drift.places.slices, week.log_e.tolist(), week.mix_shift.tolist())
                for text, log_e, mix_shift in zip(*columns, strict=True):
                    yield WeekOfStream(Drift(self.name, group, text, rate), log_e, mix_shift)

    def feed(
        self, hour: int, seen: WatchedUseCase, index: CellIndex, weight: float
    ) -> Iterator[RateChange | VersionChange]:
        """Feed thinned labels to drift and to river's detectors.

        Gives what those find, and the slices that other versions answer.
        """
        if seen.thinned is None:
            return
        at, cells = pane_start(hour, Grain.HOUR), CellLabels.from_counts(seen.thinned, index)
        for group, drift in self.drifts.items():
            labels = drift.places.table(cells)
            for text in drift.advance(hour, labels, weight):
                yield VersionChange(self.name, group, text)
            for rate in RATES:
                n, k = labels.of_slices(rate)
                for one in self.river.advance(at, rate, drift.places.slices, n, k):
                    yield RateChange(
                        self.name, group, one.slice, one.metric, one.detector, one.change
                    )

    def compare_delays(self, hour: int, seen: WatchedUseCase) -> Iterator[LabelDelay]:
        """Add to the week's label delays; gives those of the week that has ended, if one has."""
        for group, delays in self.delays.items():
            for text, one in delays.advance(hour, seen.rolled[group]):
                yield LabelDelay(self.name, group, text, one.timing, one.buckets)

    @property
    def request_part(self) -> dict[str, bytes]:
        """The part of the state that label requests move, which have their turn before cohorts."""
        return {f"{_REQUESTS}/{self.name}": self.requests.to_bytes()}

    def label_part(self, group: str) -> dict[str, bytes]:
        """The part of the state that the labels of a group-by move, which have turns too."""
        return {f"{_LABELS}/{self.name}/{group}": self.labels[group].to_bytes()}

    @property
    def names(self) -> set[str]:
        """Names of all parts of the state."""
        return set(self._bodies())

    def parts(self) -> dict[str, bytes]:
        """The whole state."""
        return {name: one.to_bytes() for name, one in self._bodies().items()}

    def _bodies(self) -> Mapping[str, _Body]:
        drifts = {f"{_DRIFT}/{self.name}/{group}": one for group, one in self.drifts.items()}
        delays = {f"{_DELAYS}/{self.name}/{group}": one for group, one in self.delays.items()}
        labels = {f"{_LABELS}/{self.name}/{group}": one for group, one in self.labels.items()}
        requests, river = f"{_REQUESTS}/{self.name}", f"{_RIVER}/{self.name}"
        return {**drifts, **delays, **labels, requests: self.requests, river: self.river}


def _drift(name: str, group: GroupBy, settings: DetectorSettings, kept: KeptParts) -> GroupDrift:
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
