"""Published faults in the labels of slices: as of the end of a day.

A slice is named where its decisions are shown; the faults of all others in its group-by are one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from monitor.core.contract import Contract
from monitor.core.counts.cells import Route
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Fault
from monitor.core.publish.snapshot import WITHHELD, ContractTable, LabelsAtFault
from monitor.core.state import State
from monitor.core.time import Grain, pane_of, pane_start
from monitor.detection.advisory.slice_labels import SliceLabels
from monitor.evaluate.detect.cohorts_in_order import DetectionState
from monitor.evaluate.publish.report_days import ReportDays

_Place = tuple[str, str, Route, Fault]  # group-by, slice as shown, route and fault


@dataclass(frozen=True, slots=True)
class LabelFaults:
    """Reader of the lasting faults that the checks of slices' labels found, for the publisher.

    Attributes:
        detection: has the checks.
    """

    detection: DetectionState

    def lasting(self, table: ContractTable, contract: Contract) -> tuple[LabelsAtFault, ...]:
        """Return the lasting label faults of a contract, sorted; hidden slices are unnamed.

        Args:
            table: of the contract.
            contract: the same.
        """
        watches = {watched.name: watched.labels for watched in self.detection.advice.watches}
        shown, days = _shown_slices(table), ReportDays.for_contract(contract)
        faults = dict[_Place, LabelsAtFault]()
        for group, watch in watches[table.contract].items():
            for fault in _lasting(group, watch, days, shown):
                place = _place(fault)
                before = faults.get(place, fault)
                faults[place] = replace(before, since=min(before.since, fault.since))
        return tuple(faults[place] for place in sorted(faults))


def _lasting(
    group: str, watch: SliceLabels, days: ReportDays, shown: Collection[tuple[str, str]]
) -> Iterator[LabelsAtFault]:
    """Yield the label faults of a group-by as of the newest day; hidden slices are unnamed."""
    end = days.newest_end(watch.until)
    if end is None:
        return
    for fault, status in watch.lasting(pane_of(end, Grain.HOUR)).items():
        named = (group, fault.slice) in shown
        text = fault.slice if named else WITHHELD
        since = days.end_after(pane_start(status.since, Grain.HOUR))
        share = round(status.share, 1) if named else None
        yield LabelsAtFault(group, text, fault.route, fault.fault, since, share)


def _place(fault: LabelsAtFault) -> _Place:
    return fault.group_by, fault.slice, fault.route, fault.fault


def _shown_slices(table: ContractTable) -> set[tuple[str, str]]:
    """Return (group-by, slice) of the rows whose decisions the contract's window shows."""
    return {
        (group.group_by, row.slice)
        for window in table.windows
        if window.window == table.window
        for group in window.groups
        for row in group.rows
        if row.states[Metric.SELECTION] is not State.SUPPRESSED
    }
