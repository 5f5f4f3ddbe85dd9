"""Published faults in the labels of slices: as of the end of a release block of all decisions.

Blocks of a group-by wait for the labels that are missing, those of the total do not. A slice is
named where its decisions are shown; the faults of all others in its group-by are one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from monitor.core.contract import Metric, State
from monitor.core.counts.cells import Route
from monitor.core.publish.annotations import Fault
from monitor.core.publish.snapshot import WITHHELD, ContractTable, LabelsAtFault, Snapshot
from monitor.core.time import Grain, pane_of, pane_start
from monitor.detection.advisory.slice_labels import SliceLabels
from monitor.evaluate.blocks.family_state import FamilyState
from monitor.evaluate.blocks.published_blocks import PublishedBlocks
from monitor.evaluate.detect.cohorts_in_order import DetectionState

_Place = tuple[str, str, Route, Fault]  # group-by, slice as shown, route and fault


@dataclass(slots=True)
class LabelFaults:
    """Reads the checks of the labels of slices for whoever makes tables.

    Attributes:
        detection: has the checks.
    """

    detection: DetectionState
    _reported: dict[str, Mapping[_Place, int]] = field(default_factory=dict)

    @classmethod
    def start(cls, detection: DetectionState, before: Snapshot | None) -> LabelFaults:
        """After the last Snapshot: the times it reported stay as they are."""
        made = cls(detection)
        for table in before.contracts if before else ():
            made._log(table.contract, table.labels_at_fault)
        return made

    def of(self, table: ContractTable, total: FamilyState) -> tuple[LabelsAtFault, ...]:
        """The faults of a contract that last.

        Args:
            table: of the contract.
            total: the family of all its decisions.
        """
        (labels,) = (w.labels for w in self.detection.advice.watches if w.name == table.contract)
        shown, found = _shown(table), dict[_Place, LabelsAtFault]()
        for group, watch in labels.items():
            blocks = PublishedBlocks.of(total, watch.until, labels=False)
            for one in self._lasting(table.contract, group, watch, blocks, shown):
                place = _place(one)
                known = found.get(place, one)
                found[place] = replace(known, since=min(known.since, one.since))
        faults = tuple(found[place] for place in sorted(found))
        self._log(table.contract, faults)
        return faults

    def _lasting(
        self,
        contract: str,
        group: str,
        watch: SliceLabels,
        blocks: PublishedBlocks | None,
        shown: Collection[tuple[str, str]],
    ) -> Iterator[LabelsAtFault]:
        """The faults of a group-by as of the newest block."""
        if blocks is None:
            return
        reported = self._reported.get(contract, {})
        for fault, status in watch.lasting(pane_of(blocks.end, Grain.HOUR)).items():
            named = (group, fault.slice) in shown
            text = fault.slice if named else WITHHELD
            told = reported.get((group, text, fault.route, fault.fault))
            first = blocks.latest(pane_start(status.since, Grain.HOUR), told)
            since = blocks.ends[0] if first is None else first
            share = round(status.share, 1) if named else None
            yield LabelsAtFault(group, text, fault.route, fault.fault, since, share)

    def _log(self, contract: str, faults: Sequence[LabelsAtFault]) -> None:
        self._reported[contract] = {_place(one): one.since for one in faults}


def _place(one: LabelsAtFault) -> _Place:
    return one.group_by, one.slice, one.route, one.fault


def _shown(table: ContractTable) -> set[tuple[str, str]]:
    """Group-by and slice of the rows whose decisions are shown in the contract's window."""
    return {
        (group.group_by, row.slice)
        for window in table.windows
        if window.window == table.window
        for group in window.groups
        for row in group.rows
        if row.states[Metric.SELECTION] is not State.SUPPRESSED
    }
