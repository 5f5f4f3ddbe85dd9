"""Makes the Snapshot from published calendar tables and from findings of the tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from monitor.core.contract import Contract, GroupBy
from monitor.core.counts.coding import Coding
from monitor.core.metric import Metric
from monitor.core.publish.calendar_contract import ContractInTables, TableBasis
from monitor.core.publish.calendar_rates import UseCaseTables
from monitor.core.publish.each_row import with_known_rows
from monitor.core.publish.snapshot import ContractTable, GroupTable, Period, Snapshot, WindowTable
from monitor.core.publish.states import GroupFindings, with_age, with_findings, with_missing_labels
from monitor.core.time import WINDOWS, TimeSpan, WindowKind
from monitor.evaluate.incidents.incidents import Incidents
from monitor.evaluate.label_needs import with_label_needs
from monitor.evaluate.publish.calendar_stages import with_stages
from monitor.evaluate.publish.label_faults import LabelFaults
from monitor.evaluate.publish.losses import LostSpans
from monitor.evaluate.publish.published_findings import PublishedFindings
from monitor.evaluate.publish.request_faults import RequestFaults
from monitor.evaluate.publish.version_changes import VersionChanges

_Place = tuple[str, str, str]  # contract, group-by (empty for the total) and window


@dataclass(frozen=True, slots=True)
class Published:
    """Published calendar tables that a Snapshot is made from, and their newest ends.

    Attributes:
        decisions: end of the newest hour with tables of decisions (microseconds); None before any.
        labels: end of the newest hour with tables of labels.
        tables: published tables of each use case, by the name of its contract.
    """

    decisions: int | None
    labels: int | None
    tables: Mapping[str, UseCaseTables]


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Inputs of one group-by's table; equal inputs give equal tables.

    Attributes:
        basis: spans and rows.
        findings: of the tests; None where they decide nothing.
        lost: spans of events that were lost.
        left_out: whether known-bad spans were left out of the rates without and with labels.
    """

    basis: TableBasis
    findings: GroupFindings | None
    lost: LostSpans
    left_out: frozenset[bool]


@dataclass(slots=True)
class Publisher:
    """Maker of Snapshots; keeps the tables of the last one.

    Attributes:
        contracts: those that are published.
        coding: of now.
        findings: of the sequential tests and advisory detectors.
        requests: findings of the checks of label requests.
        labels: findings of the checks of the labels of slices.
        incidents: the open ones.
        versions: names the versions that changed.
        lost: spans of events that were lost before they could be read.
        excluded: event time whose data are known to be bad.
    """

    contracts: Sequence[Contract]
    coding: Coding
    findings: PublishedFindings
    requests: RequestFaults
    labels: LabelFaults
    incidents: Incidents
    versions: VersionChanges
    lost: LostSpans = field(default_factory=LostSpans)
    excluded: tuple[TimeSpan, ...] = ()
    _kept: dict[_Place, tuple[_Inputs, GroupTable]] = field(default_factory=dict)

    def snapshot(self, published: Published) -> Snapshot:
        """Return the Snapshot of all contracts, made from their published tables."""
        tables = [self._contract(published, contract) for contract in self.contracts]
        return Snapshot(published.decisions, published.labels, tuple(tables))

    def _contract(self, published: Published, contract: Contract) -> ContractTable:
        seen = ContractInTables(contract, published.tables[contract.name], self.coding)
        windows = [
            self._window(seen, kind, published.decisions)
            for kind in WINDOWS.values()
            if published.decisions is not None
        ]
        table = seen.table(windows)
        table = replace(
            table,
            requests_at_fault=self.requests.lasting(table, contract),
            labels_at_fault=self.labels.lasting(table, contract),
        )
        table = with_missing_labels(table)
        return replace(table, incidents=self.incidents.shown(table, contract, seen.tables))

    def _window(self, seen: ContractInTables, kind: WindowKind, now: int | None) -> WindowTable:
        total = self._group(seen, kind, None, now)
        groups = [self._group(seen, kind, group, now) for group in seen.contract.group_bys]
        (row,) = total.rows
        return WindowTable(
            kind.name, row, tuple(groups), decisions=total.decisions, labelled=total.labelled
        )

    def _group(
        self, seen: ContractInTables, kind: WindowKind, group: GroupBy | None, now: int | None
    ) -> GroupTable:
        """Return the table of a group-by, or the total, in a window; reuse it while unchanged."""
        contract = seen.contract
        decides = kind.name == contract.window and group is not None
        basis = seen.basis(group, kind, self.excluded)
        findings = (
            self.findings.for_group(contract, group) if decides and group is not None else None
        )
        left_out = _left_out(basis, seen.basis(group, kind)) if self.excluded else frozenset()
        inputs = _Inputs(basis, findings, self.lost, left_out)
        place = contract.name, "" if group is None else group.name, kind.name
        kept = self._kept.get(place)
        if kept is None or kept[0] != inputs:
            table = seen.group(basis)
            table = self._with_faults_of_data(table, left_out)
            if group is not None and findings is not None:
                rows = tuple(with_findings(row, findings) for row in table.rows)
                table = with_label_needs(contract, group, replace(table, rows=rows))
                table = with_stages(table, seen, basis)
                table = self.versions.named(table, contract, group, self.coding)
            if kept is not None:
                table = with_known_rows(table, kept[1])
            kept = self._kept[place] = inputs, table
        return _with_age(kept[1], contract, now)

    def _with_faults_of_data(self, table: GroupTable, left_out: Collection[bool]) -> GroupTable:
        """Return the table with periods marked where data were lost or left out."""

        def marked(period: Period | None, labelled: bool) -> Period | None:
            if period is None:
                return None
            lost = self.lost.touch_labelled if labelled else self.lost.touch_decisions
            is_lost, excluded = lost(period.start, period.end), labelled in left_out
            return replace(period, data_lost=is_lost, excluded=excluded)

        return replace(
            table,
            decisions=marked(table.decisions, labelled=False),
            labelled=marked(table.labelled, labelled=True),
        )


def _left_out(basis: TableBasis, whole: TableBasis) -> frozenset[bool]:
    """Return the kinds of rates (True: labelled) for which ``basis`` lacks spans of ``whole``."""
    wanted = dict(whole.spans)
    return frozenset(metric.labelled for metric, spans in basis.spans if spans != wanted[metric])


def _with_age(table: GroupTable, contract: Contract, now: int | None) -> GroupTable:
    """Return the table; a metric whose data ended over ``max_age`` before ``now`` is not green."""
    if contract.max_age is None or now is None:
        return table
    ends = {True: table.labelled, False: table.decisions}
    old = frozenset(
        metric
        for metric in Metric
        if (period := ends[metric.labelled]) is not None and now - period.end > contract.max_age
    )
    return replace(table, rows=tuple(with_age(row, old) for row in table.rows)) if old else table
