"""All streams of all contracts, advanced by one mature cohort after another.

The expected number of false pages, over all streams and from the start, is at most T / 90 in T
event days of consumed cohorts, whatever depends on what. A page is false if its contract held in
every bet since that stream's reset: over an hour for levels and blocked requests, over a day at
most for gaps of TPR and FPR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from monitor.core.cells import Counts, decode_strata
from monitor.core.coding import Coding
from monitor.core.contract import Contract
from monitor.core.intervals import Floats
from monitor.core.rollup import CellIndex, among, cells_within, roll_up
from monitor.core.strata import is_reviewed
from monitor.detection import arrays
from monitor.detection.budget import Budget
from monitor.detection.cohort import Layout, SliceCohort, rates_of
from monitor.detection.declared import all_streams
from monitor.detection.group import GroupTests
from monitor.detection.projection import thin_labels
from monitor.detection.streams import Stream
from monitor.detection.tickets import ebh

_BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Advance:
    """What one cohort brought.

    Attributes:
        crossed: streams that page now.
        listed: the weekly list of the ISO week that ended before this cohort; None if none did.
    """

    crossed: tuple[Stream, ...]
    listed: tuple[Stream, ...] | None


@dataclass(slots=True)
class Fleet:
    """Every sequential test there is.

    Attributes:
        contracts: what is monitored.
        coding: what the strata mean.
        budget: weights of all streams ever declared.
        groups: by name of their part of the state.
        rates: indices of the audit rates seen, by contract.
    """

    contracts: Sequence[Contract]
    coding: Coding
    budget: Budget
    groups: dict[str, GroupTests]
    rates: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def start(
        cls,
        contracts: Sequence[Contract],
        coding: Coding,
        cluster_size: int = 1,
        parts: Mapping[str, bytes] | None = None,
    ) -> Fleet:
        """All that the settings declare, with the evidence that is kept of it.

        Args:
            contracts: of all use cases.
            coding: of now.
            cluster_size: largest number of decisions that hang together.
            parts: what :meth:`parts` gave; streams it does not know begin without evidence, with
                a weight from what was kept back for later ones.

        Raises:
            ValueError: if the parts are of another version.
        """
        kept = {name: arrays.decode(body) for name, body in (parts or {}).items()}
        known = kept.pop(_BUDGET, ({}, {"weights": {}, "later": {}, "rates": {}}))[1]
        budget = Budget(known["weights"], known["later"])
        budget = budget.declare(all_streams(contracts, coding))
        groups = {
            f"{contract.name}/{group.name}": GroupTests.start(
                contract, group, coding, budget, cluster_size
            )
            for contract in contracts
            for group in contract.group_bys
        }
        for name, state in kept.items():
            if name in groups:
                groups[name].restore(*state)
        rates = {name: tuple(seen) for name, seen in known["rates"].items()}
        return cls(contracts, coding, budget, groups, rates)

    def advance(self, hour: int, counts: Counts, index: CellIndex) -> Advance:
        """Consume the cohort of one hour.

        Args:
            hour: pane index, later than all before.
            counts: by cell id; every id must be in ``index``.
            index: what the cell ids mean.

        Raises:
            ValueError: if a stratum has an audit rate that the coding does not know.
        """
        crossed: list[Stream] = []
        for contract in self.contracts:
            crossed += self._contract(contract, hour, scoped(contract, counts, index), index)
        return Advance(tuple(crossed), self._listed())

    @property
    def streams(self) -> list[Stream]:
        """All that is declared."""
        watches = (watch for group in self.groups.values() for watch in group.watches.values())
        return [stream for watch in watches for stream in watch.streams]

    @property
    def names(self) -> set[str]:
        """Of all parts of the state."""
        return {*self.groups, _BUDGET}

    def parts(self) -> dict[str, bytes]:
        """The whole state, to be kept with the cohort that was consumed last."""
        known = {"weights": self.budget.weights, "later": self.budget.later, "rates": self.rates}
        bodies = {
            name: arrays.encode(group.to_arrays(), group.facts())
            for name, group in self.groups.items()
        }
        return bodies | {_BUDGET: arrays.encode({}, known)}

    def evidence(self) -> dict[Stream, int]:
        """How far every stream is on the way to a page, in five steps."""
        return {
            stream: step
            for group in self.groups.values()
            for watch in group.watches.values()
            for stream, step in zip(watch.streams, watch.evidence().tolist(), strict=True)
        }

    def _contract(
        self, contract: Contract, hour: int, counts: Counts, index: CellIndex
    ) -> list[Stream]:
        before = self.rates.get(contract.name, ())
        found = rates_of(roll_up(counts, index, ()))
        self.rates[contract.name] = tuple(sorted({*before, *found}))
        layout = Layout.of(self.rates[contract.name], self.coding)
        thinned = self._thinned(hour, counts, index, before)
        crossed: list[Stream] = []
        for group in contract.group_bys:
            tests = self.groups[f"{contract.name}/{group.name}"]
            cohort, thin = (
                None
                if one is None
                else SliceCohort.of(roll_up(one, index, group.attributes), tests.slices, layout)
                for one in (counts, thinned)
            )
            assert cohort is not None, "only the thinned one may be missing"  # noqa: S101
            crossed += tests.advance(hour, cohort, thin, layout)
        return crossed

    def _thinned(
        self, hour: int, counts: Counts, index: CellIndex, rates: Sequence[int]
    ) -> Counts | None:
        """Labels thinned to the smallest audit rate of earlier cohorts; None below it.

        It must not depend on the routes of this hour's own decisions.
        """
        if not rates:
            return None
        known = np.asarray(self.coding.audit_rates)
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
        watches = [watch for group in self.groups.values() for watch in group.watches.values()]
        ended = [watch for watch in watches if watch.finished is not None]
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
