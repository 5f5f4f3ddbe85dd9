"""Published faults of label requests: as of the end of a day, and never as of an hour."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.core.contract import Contract
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import ContractTable, RequestsAtFault
from monitor.core.state import State
from monitor.core.time import Grain, pane_of
from monitor.evaluate.detect.cohorts_in_order import DetectionState
from monitor.evaluate.publish.report_days import ReportDays


@dataclass(frozen=True, slots=True)
class RequestFaults:
    """Reader of the lasting faults that checks of label requests found, for the publisher.

    Attributes:
        detection: has the checks.
    """

    detection: DetectionState

    def lasting(self, table: ContractTable, contract: Contract) -> tuple[RequestsAtFault, ...]:
        """Return the request faults of a contract, sorted; none if its total is hidden.

        Args:
            table: of the contract.
            contract: the same.
        """
        watches = {watched.name: watched.requests for watched in self.detection.advice.watches}
        watch, days = watches[table.contract], ReportDays.for_contract(contract)
        end = days.newest_end(watch.until)
        if end is None or not _is_shown(table):
            return ()
        rates = self.detection.policy.coding.audit_rates
        faults = [
            RequestsAtFault(route, rates[rate], fault, tally.count, days.end_after(tally.last))
            for (route, rate, fault), tally in watch.before(pane_of(end, Grain.HOUR)).items()
        ]
        return tuple(sorted(faults, key=lambda item: (item.route, item.audit_rate, item.fault)))


def _is_shown(table: ContractTable) -> bool:
    """Return True when the contract's window shows anything of all decisions together."""
    totals = (window.total for window in table.windows if window.window == table.window)
    return any(total.states[Metric.SELECTION] is not State.SUPPRESSED for total in totals)
