"""All streams of all contracts, advanced by one mature cohort after another.

The expected number of false pages, over all streams and from the start, is at most T / 90 in T
event days of consumed cohorts, whatever depends on what. A page is false if its contract held in
every bet since that stream's reset: over an hour for levels and blocked requests, over a day at
most for gaps of TPR and FPR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from monitor.core.contract import Contract
from monitor.core.counts.cells import Counts, Int64s, decode_strata
from monitor.core.counts.rollup import CellIndex, SliceCounts, among, cells_within, roll_up
from monitor.core.counts.strata import is_reviewed
from monitor.core.intervals import Floats
from monitor.detection import arrays
from monitor.detection.pages.budget import Budget
from monitor.detection.pages.cohort import Layout, SliceCohort, rates_of
from monitor.detection.pages.declared import DetectorSettings, all_streams
from monitor.detection.pages.group import GroupTests
from monitor.detection.pages.history import EvidenceHistory
from monitor.detection.pages.projection import thin_labels
from monitor.detection.pages.stream_group import StreamGroup
from monitor.detection.pages.streams import Stream
from monitor.detection.pages.weekly_evidence import ebh

_BUDGET, _HISTORY = "budget", "history"


@dataclass(frozen=True, slots=True)
class WatchedUseCase:
    """One cohort as one contract sees it.

    Attributes:
        counts: of its cells.
        thinned: the same with labels thinned to one probability, for the advisory detectors; None
            where that cannot be done.
        total: ``counts`` rolled up to the one slice of everything.
        rolled: ``counts`` rolled up to each group-by, by name.
    """

    counts: Counts
    thinned: Counts | None
    total: SliceCounts
    rolled: Mapping[str, SliceCounts]


@dataclass(frozen=True, slots=True)
class PageAdvance:
    """Results of advancing by one cohort.

    Attributes:
        crossed: streams that page now.
        listed: the weekly list of the ISO week that ended before this cohort; None if none did.
        seen: the cohort as each contract sees it, by name, for the advisory detectors.
    """

    crossed: tuple[Stream, ...]
    listed: tuple[Stream, ...] | None
    seen: Mapping[str, WatchedUseCase] = field(compare=False, repr=False)


@dataclass(slots=True)
class PageTests:
    """Every sequential test there is.

    Attributes:
        settings: what is monitored, and what the strata mean.
        budget: weights of all streams ever declared.
        groups: by name of their part of the state.
        history: how the evidence of all streams went.
        rates: indices of the audit rates seen, by contract.
    """

    settings: DetectorSettings
    budget: Budget
    groups: dict[str, GroupTests]
    history: EvidenceHistory
    rates: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def start(
        cls, settings: DetectorSettings, parts: Mapping[str, bytes] | None = None
    ) -> PageTests:
        """All that the settings declare, with the evidence that is kept of it.

        Args:
            settings: what is declared.
            parts: what :meth:`parts` gave; streams it does not know begin without evidence, with
                a weight from what was kept back for later ones. Parts of others are not read.

        Raises:
            ValueError: if the parts are damaged, or of another version.
        """
        kept = parts or {}
        known: dict[str, Any] = {"weights": {}, "additions": 0, "rates": {}}
        if _BUDGET in kept:
            known = arrays.decode(kept[_BUDGET])[1]
        past = arrays.decode(kept[_HISTORY]) if _HISTORY in kept else None
        budget = Budget(known["weights"], known.get("additions", 0))
        budget = budget.declare(all_streams(settings.contracts, settings.coding))
        groups = {
            f"{contract.name}/{group.name}": GroupTests.start(
                contract, group, settings.coding, budget, settings.cluster_size
            )
            for contract in settings.contracts
            for group in contract.group_bys
        }
        for name in kept.keys() & groups.keys():
            groups[name].restore(*arrays.decode(kept[name]))
        rates = {name: tuple(seen) for name, seen in known["rates"].items()}
        watches = (watch for group in groups.values() for watch in group.watches.values())
        history = EvidenceHistory.start([s.key for watch in watches for s in watch.streams])
        if past is not None:
            history.restore(*past)
        return cls(settings, budget, groups, history, rates)

    def advance(
        self, hour: int, counts: Counts, index: CellIndex, cluster_size: int | None = None
    ) -> PageAdvance:
        """Consume the cohort of one hour.

        Args:
            hour: pane index, later than all before.
            counts: by cell id; every id must be in ``index``.
            index: what the cell ids mean.
            cluster_size: largest number of decisions of its day that depend on each other; it may
                depend on the requests, never on routes or labels. None: as the settings say.

        Raises:
            ValueError: if a stratum has an audit rate that the coding does not know.
        """
        crossed: list[Stream] = []
        seen: dict[str, WatchedUseCase] = {}
        for contract in self.settings.contracts:
            own = scoped(contract, counts, index)
            seen[contract.name] = self._see(contract, hour, own, index)
            size = max(self.settings.cluster_size, cluster_size or 1)
            crossed += self._contract(contract, hour, seen[contract.name], size)
        self.history.note(hour, self._steps())
        return PageAdvance(tuple(crossed), self._listed(), seen)

    @property
    def streams(self) -> list[Stream]:
        """All that is declared, in the order of the history."""
        return [stream for watch in self._watches for stream in watch.streams]

    @property
    def names(self) -> set[str]:
        """Names of all parts of the state."""
        return {*self.groups, _BUDGET, _HISTORY}

    def parts(self) -> dict[str, bytes]:
        """The whole state, to be kept with the cohort that was consumed last."""
        budget = self.budget
        known = {"weights": budget.weights, "additions": budget.additions, "rates": self.rates}
        bodies = {
            name: arrays.encode(group.to_arrays(), group.facts())
            for name, group in self.groups.items()
        }
        past = arrays.encode(self.history.to_arrays(), self.history.facts())
        return bodies | {_BUDGET: arrays.encode({}, known), _HISTORY: past}

    def evidence(self) -> dict[Stream, int]:
        """Progress of every stream towards a page, in five steps."""
        return dict(zip(self.streams, self._steps().tolist(), strict=True))

    def sampling(self, contract: Contract) -> list[tuple[float, ...]]:
        """Audit rates of each reviewed route, of late: those that k decisions or more have."""
        tests = self.groups[f"{contract.name}/{contract.group_bys[0].name}"]
        audit = tests.ready.layout.audit
        return [tuple(audit[row >= contract.k].tolist()) for row in tests.decided_by_rate]

    @property
    def _watches(self) -> list[StreamGroup]:
        return [watch for group in self.groups.values() for watch in group.watches.values()]

    def _steps(self) -> Int64s:
        none = np.zeros(0, np.int64)
        return np.concatenate([none, *(watch.evidence() for watch in self._watches)])

    def _see(
        self, contract: Contract, hour: int, counts: Counts, index: CellIndex
    ) -> WatchedUseCase:
        before = self.rates.get(contract.name, ())
        total = roll_up(counts, index, ())
        self.rates[contract.name] = tuple(sorted({*before, *rates_of(total)}))
        groups = contract.group_bys
        rolled = {group.name: roll_up(counts, index, group.attributes) for group in groups}
        return WatchedUseCase(counts, self._thinned(hour, counts, index, before), total, rolled)

    def _contract(
        self, contract: Contract, hour: int, seen: WatchedUseCase, cluster_size: int
    ) -> list[Stream]:
        layout = Layout.of(self.rates[contract.name], self.settings.coding)
        crossed: list[Stream] = []
        for group in contract.group_bys:
            tests = self.groups[f"{contract.name}/{group.name}"]
            cohort = SliceCohort.of(seen.rolled[group.name], tests.slices, layout)
            crossed += tests.advance(hour, cohort, layout, cluster_size)
        return crossed

    def _thinned(
        self, hour: int, counts: Counts, index: CellIndex, rates: Sequence[int]
    ) -> Counts | None:
        """Labels thinned to the smallest audit rate of earlier cohorts; None below it.

        It must not depend on the routes of this hour's own decisions.
        """
        if not rates:
            return None
        known = np.asarray(self.settings.coding.audit_rates)
        rows = np.searchsorted(index.cells, counts.keys)
        strata = decode_strata(index.strata[rows])
        audit: Floats = known[strata.rate]
        least = float(known[max(rates)])
        inside = is_reviewed(strata)
        if np.any(audit[inside] < least):
            return None
        audit = np.where(inside, audit, 1.0)
        return thin_labels(hour, counts, audit, least)

    def _listed(self) -> tuple[Stream, ...] | None:
        """Weighted e-BH over all streams, at the end of a week."""
        ended = [watch for watch in self._watches if watch.finished is not None]
        if not ended:
            return None
        log_e = np.concatenate([watch.finished for watch in ended if watch.finished is not None])
        weights = np.concatenate([watch.weights for watch in ended])
        streams = [stream for watch in ended for stream in watch.streams]
        listed = ebh(log_e, np.log(weights))
        return tuple(streams[row] for row in np.flatnonzero(listed).tolist())


def scoped(contract: Contract, counts: Counts, index: CellIndex) -> Counts:
    """Only the cells whose atoms belong to the use case."""
    return among(counts, cells_within(index, contract.where)) if contract.where else counts
