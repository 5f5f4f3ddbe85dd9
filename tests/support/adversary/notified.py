"""What notifications are made of: the incidents of pages, read as whoever is told reads them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from adversary.service import settings_text
from adversary.worlds import HOUR, World
from releasing import Releasing, instants

from alerts.exposition import catalogue
from alerts.exposition.samples import label_text
from monitor.core.contract import State
from monitor.core.counts.cells import OTHER, parse_atom
from monitor.core.publish.snapshot import (
    WITHHELD,
    ContractTable,
    GroupTable,
    PublishedValue,
    ShownGap,
    ShownIncident,
    ShownRate,
    Snapshot,
    decode,
)

LIMIT = 0.02
"""So small that crossings are many, those of slices that the pages hide among them."""
OF_A_HIDDEN_ONE = {
    family.name
    for family in (
        *(catalogue.PAGING, catalogue.TICKET, catalogue.INCIDENT_INFO),
        *(catalogue.INCIDENT_SINCE, catalogue.INCIDENT_CHANGE, catalogue.ACCEPTED_UNTIL),
    )
}
"""Metrics that tell of an incident whatever its slice is: of its contract, and of people's acts."""


def snapshots(world: World) -> list[Snapshot]:
    """Everything that is published of a world whose breaches page."""
    text = settings_text(world, exact=False).replace('clock = "history"', 'clock = "live"')
    limits = "".join(f"max_{name}_gap = {LIMIT}\n" for name in ("tpr", "fpr", "blocked"))
    text = text.replace("max_blocked_gap = 0.10\n", limits)
    with tempfile.TemporaryDirectory() as folder, Releasing(world, Path(folder), text) as one:
        for now in instants(world, 6 * HOUR, world.end + 6 * HOUR):
            one.until(now)
        return [decode(body) for body in one.snapshots()]


@dataclass(frozen=True)
class Told:
    """One incident on one page."""

    page: str
    table: ContractTable
    incident: ShownIncident

    @classmethod
    def all_of(cls, snapshot: Snapshot, page: str) -> Iterator[Told]:
        for table in snapshot.contracts:
            for incident in table.incidents:
                yield cls(page, table, incident)

    @property
    def hidden(self) -> bool:
        return self.incident.slice == WITHHELD

    @property
    def lines(self) -> list[str]:
        """All that the page says of it: whatever is notified is looked up here."""
        names = ("contract", "metric", "incident")
        which = (self.table.contract, self.incident.metric.value, str(self.incident.id))
        key = label_text(names, which)[1:-1]
        return [line for line in self.page.splitlines() if f"{{{key}" in line]

    @property
    def metrics(self) -> set[str]:
        return {line.partition("{")[0] for line in self.lines}

    @property
    def groups(self) -> Iterator[GroupTable]:
        for window in self.table.windows:
            if window.window == self.table.window:
                yield from window.groups

    @property
    def shown_slices(self) -> set[str]:
        """Those that the guards let the page tell of by name."""
        metric = self.incident.metric
        return {
            row.slice
            for group in self.groups
            for row in group.rows
            if row.states.get(metric, State.SUPPRESSED) is not State.SUPPRESSED
            and OTHER not in parse_atom(row.slice).values()
        }

    @property
    def numbers(self) -> set[PublishedValue]:
        """What the page shows of the incident's slice beside it, with the end of its period."""
        metric = self.incident.metric
        return {
            PublishedValue(shown.value, shown.lower, shown.upper, period.end)
            for group in self.groups
            if (period := group.labelled if metric.labelled else group.decisions) is not None
            for row in group.rows
            if row.slice == self.incident.slice
            for shown in (row.gaps.get(metric), row.rates.get(metric))
            if isinstance(shown, ShownGap | ShownRate)
        }


def unsaid(incident: ShownIncident) -> ShownIncident:
    """What an incident must look like whose slice is hidden."""
    return replace(
        incident,
        group_by="",
        slice=WITHHELD,
        share=None,
        inherited=(),
        first=None,
        latest=None,
        stage=None,
        versions_changed_at=None,
        resolvable_at=None,
    )
