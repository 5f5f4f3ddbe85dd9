"""What detection knows, as of the ends of release blocks: what may be published of it.

A finding is that of the newest published block whose cohorts have all been consumed: of labels, for
metrics that rest on labels, else of decisions. So it moves from the end of one block to the end of
another and never between them, and is the same after a restart and however often one looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from monitor.core.cells import Int64s
from monitor.core.contract import Contract, GroupBy, Metric
from monitor.core.findings import CROSSED, Finding, Findings
from monitor.core.snapshot import GroupTable, Snapshot
from monitor.core.time import Grain, pane_of
from monitor.detection.streams import Stream
from monitor.evaluate.detect import Detection
from monitor.evaluate.family_state import FamilyState
from monitor.evaluate.noted import Mark, marks, noted
from monitor.evaluate.published_blocks import Blocks

_Where = tuple[str, str]  # contract and group-by
_Since = Mapping[tuple[str, Metric], int]


@dataclass(slots=True)
class Found:
    """Reads the detectors for whoever makes tables.

    Attributes:
        detection: the detectors.
    """

    detection: Detection
    _since: dict[_Where, _Since] = field(default_factory=dict)
    _marks: dict[_Where, Mapping[Mark, int]] = field(default_factory=dict)
    _watched: dict[_Where, list[tuple[int, Stream]]] = field(default_factory=dict)

    @classmethod
    def start(cls, detection: Detection, before: Snapshot | None) -> Found:
        """After the last Snapshot: since when it has shown what it shows stays as it was said."""
        made = cls(detection)
        for row, stream in enumerate(detection.fleet.streams):
            made._watched.setdefault((stream.contract, stream.group_by), []).append((row, stream))
        for contract, table in _deciding(before):
            made.told(contract, table)
        return made

    def told(self, contract: str, table: GroupTable) -> None:
        """Take note of what is published."""
        self._since[contract, table.group_by] = {
            (row.slice, metric): at for row in table.rows for metric, at in row.breach_since.items()
        }
        self._marks[contract, table.group_by] = marks(table)

    def of(self, contract: Contract, group: GroupBy, state: FamilyState) -> Findings:
        """The findings of a group-by, where a block has ended for them."""
        where = contract.name, group.name
        until = self.detection.until
        known = {labels: Blocks.of(state, until, labels=labels) for labels in (False, True)}
        blocks = {labels: one for labels, one in known.items() if one is not None}
        timelines = self.detection.advice.ledger.of(*where)
        return Findings(
            self._tests(where, blocks), noted(timelines, blocks, self._marks.get(where, {}))
        )

    def _tests(
        self, where: _Where, blocks: Mapping[bool, Blocks]
    ) -> dict[tuple[str, Metric], Finding]:
        """What the sequential tests found, by slice and metric."""
        steps = {labels: self._steps(one.end) for labels, one in blocks.items()}
        evidence: dict[tuple[str, Metric], int] = {}
        for row, stream in self._watched.get(where, ()):
            if (found := steps.get(stream.metric.labelled)) is not None:
                key = stream.slice, stream.metric
                evidence[key] = max(evidence.get(key, 0), int(found[row]))
        since = self._crossed(where, blocks)
        return {
            key: Finding(CROSSED, since[key]) if key in since else Finding(step)
            for key, step in evidence.items()
        }

    def _steps(self, end: int) -> Int64s:
        return self.detection.fleet.history.before(pane_of(end, Grain.HOUR))

    def _crossed(self, where: _Where, blocks: Mapping[bool, Blocks]) -> _Since:
        """Since when crossings are shown, of those that stood at the end of the newest block."""
        declared = {stream.key for _, stream in self._watched.get(where, ())}
        told, since = self._since.get(where, {}), dict[tuple[str, Metric], int]()
        for labels, known in blocks.items():
            for one in self.detection.stood(known.end):
                if one.stream not in declared:
                    continue
                stream = Stream.parse(one.stream)
                if stream.metric.labelled is labels:
                    key = stream.slice, stream.metric
                    first = told.get(key, known.first_with(one.crossed_at))
                    since[key] = min(since.get(key, first), first)
        return since


def _deciding(snapshot: Snapshot | None) -> Iterator[tuple[str, GroupTable]]:
    """The group-bys of the windows that decide, each with its contract's name."""
    for table in snapshot.contracts if snapshot else ():
        for window in table.windows:
            if window.window == table.window:
                yield from ((table.contract, group) for group in window.groups)
