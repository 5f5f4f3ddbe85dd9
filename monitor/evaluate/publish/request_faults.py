"""Published faults of label requests: as of the end of a release block of all decisions.

The number of times a stratum was found at fault moves from the end of one block of the total to
the end of another; the last time is reported as the end of the block that first shows it, never
as an hour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from monitor.core.contract import Metric, State
from monitor.core.counts.cells import Route
from monitor.core.publish.annotations import Fault
from monitor.core.publish.snapshot import ContractTable, RequestsAtFault, Snapshot
from monitor.core.time import Grain, pane_of
from monitor.detection.advisory.label_requests import RequestWatch
from monitor.evaluate.blocks.family_state import FamilyState
from monitor.evaluate.blocks.published_blocks import PublishedBlocks
from monitor.evaluate.detect.cohorts_in_order import DetectionState

_Stratum = tuple[Route, float, Fault]


@dataclass(slots=True)
class RequestFaults:
    """Reads the checks of label requests for whoever makes tables.

    Attributes:
        detection: has the checks.
    """

    detection: DetectionState
    _told: dict[str, Mapping[_Stratum, int]] = field(default_factory=dict)

    @classmethod
    def start(cls, detection: DetectionState, before: Snapshot | None) -> RequestFaults:
        """After the last Snapshot: the times it reported stay as they are."""
        made = cls(detection)
        for table in before.contracts if before else ():
            made._log(table.contract, table.requests_at_fault)
        return made

    def of(self, table: ContractTable, total: FamilyState) -> tuple[RequestsAtFault, ...]:
        """The faults of a contract, where its total is shown.

        Args:
            table: of the contract.
            total: the family of all its decisions.
        """
        watches = {one.name: one.requests for one in self.detection.advice.watches}
        watch = watches[table.contract]
        blocks = PublishedBlocks.of(total, watch.until, labels=False)
        found = self._found(table.contract, watch, blocks) if blocks and _is_shown(table) else ()
        self._log(table.contract, found)
        return found

    def _found(
        self, contract: str, watch: RequestWatch, blocks: PublishedBlocks
    ) -> tuple[RequestsAtFault, ...]:
        told, found = self._told.get(contract, {}), []
        for (route, rate, fault), tally in watch.before(pane_of(blocks.end, Grain.HOUR)).items():
            audit_rate = self.detection.policy.coding.audit_rates[rate]
            latest = blocks.latest(tally.last, told.get((route, audit_rate, fault)))
            if latest is not None:
                found.append(RequestsAtFault(route, audit_rate, fault, tally.count, latest))
        return tuple(sorted(found, key=_stratum))

    def _log(self, contract: str, faults: Sequence[RequestsAtFault]) -> None:
        self._told[contract] = {_stratum(one): one.latest for one in faults}


def _stratum(one: RequestsAtFault) -> _Stratum:
    return one.route, one.audit_rate, one.fault


def _is_shown(table: ContractTable) -> bool:
    """Return True when anything is shown of all decisions together."""
    totals = (window.total for window in table.windows if window.window == table.window)
    return any(total.states[Metric.SELECTION] is not State.SUPPRESSED for total in totals)
