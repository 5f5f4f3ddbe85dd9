"""The demo's world counted in memory: no broker, no store, only the core."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from monitor.core.atoms import atom_text, content_id
from monitor.core.build import WindowCounts, build_contract
from monitor.core.cells import COUNTERS, Counter, Counts, Route, Stratum, merge
from monitor.core.completeness import by_stratum, mature
from monitor.core.labels import NOT_READY, READY
from monitor.core.rollup import CellIndex, SliceCounts
from monitor.core.snapshot import WindowTable
from monitor.core.time import HOUR, WINDOWS
from monitor.demo.router import ATTRIBUTES, Decisions
from monitor.demo.settings import demo_settings
from monitor.demo.world import Synthetic

SETTINGS = demo_settings("127.0.0.1:9092", "sqlite://", 0)
CODING = SETTINGS.coding
(CONTRACT,) = SETTINGS.contracts
DAY_HOURS = 24


class History:
    """Counts of the demo by hour and cell, as they stand at ``synthetic.now``."""

    def __init__(self, seed: int) -> None:
        self.synthetic = Synthetic(seed)
        self._hours: dict[int, dict[int, np.ndarray]] = {}
        self._meaning: dict[int, tuple[int, int, str]] = {}
        self._cells: dict[int, tuple[int, int]] = {}  # decision -> hour, cell
        self._said: dict[int, int] = {}  # decision -> what its label says
        self.watermark = self.frontier = self.synthetic.now

    def live_until(self, until: int) -> None:
        while self.synthetic.now < until:
            step = self.synthetic.step()
            self._decide(step.decisions)
            for number, ready in zip(
                step.labels.number.tolist(), step.labels.ready.tolist(), strict=True
            ):
                self._label(number, ready)
        self.watermark = self.synthetic.now
        self.frontier = self._frontier()

    def windows(self) -> Iterator[WindowTable]:
        """The table of the contract's window."""
        kind = WINDOWS[CONTRACT.window]
        end, labelled_end = self.watermark // HOUR, self.frontier // HOUR
        index = self._index()
        counts = WindowCounts(
            kind,
            (end - DAY_HOURS) * HOUR,
            end * HOUR,
            (labelled_end - DAY_HOURS) * HOUR,
            labelled_end * HOUR,
            self._sum(end - DAY_HOURS, end),
            self._sum(labelled_end - DAY_HOURS, labelled_end),
            index,
        )
        yield from build_contract(CONTRACT, CODING, [counts]).windows

    def _decide(self, decisions: Decisions) -> None:
        names = list(ATTRIBUTES)
        columns = zip(
            decisions.number.tolist(),
            decisions.at.tolist(),
            decisions.values.tolist(),
            decisions.score.tolist(),
            decisions.route.tolist(),
            decisions.audit_p.tolist(),
            decisions.requested.tolist(),
            strict=True,
        )
        for number, at, values, score, route, audit_p, requested in columns:
            text = atom_text(
                {n: list(ATTRIBUTES[n])[v] for n, v in zip(names, values, strict=True)}
            )
            passed = Route(route) is not Route.BLOCKED_BY_EVIDENCE
            stratum = Stratum(
                Route(route), CODING.band(score), CODING.rate_index(audit_p), passed
            ).code
            cell = content_id(f"{text}/{stratum}")
            self._meaning[cell] = (content_id(text), stratum, text)
            self._add(at // HOUR, cell, {Counter.N: 1, Counter.Q: int(requested)})
            if requested:
                self._cells[number] = (at // HOUR, cell)

    def _label(self, number: int, ready: int) -> None:
        hour, cell = self._cells[number]
        if number in self._said:
            self._add(hour, cell, _says(self._said[number], -1))
        self._said[number] = ready
        self._add(hour, cell, _says(ready, 1))

    def _add(self, hour: int, cell: int, counters: dict[Counter, int]) -> None:
        row = self._hours.setdefault(hour, {}).setdefault(cell, np.zeros(COUNTERS, np.int64))
        for counter, n in counters.items():
            row[counter] += n

    def _sum(self, first: int, end: int) -> Counts:
        tables = [self._hours.get(hour, {}) for hour in range(first, end)]
        return merge(
            Counts.of(np.array(list(t), np.int64), np.array(list(t.values()), np.int64))
            for t in tables
            if t
        )

    def _index(self) -> CellIndex:
        ids = sorted(self._meaning)
        return CellIndex(
            np.array(ids, np.int64),
            np.array([self._meaning[i][0] for i in ids], np.int64),
            np.array([self._meaning[i][1] for i in ids], np.int64),
            {atom: text for atom, _, text in self._meaning.values()},
        )

    def _frontier(self) -> int:
        hours = [hour for hour in sorted(self._hours) if hour < self.watermark // HOUR]
        received, requested = [], []
        for hour in hours:
            got, asked = by_stratum(self._total(hour))
            received.append(got[0])
            requested.append(asked[0])
        flags = mature(np.stack(received), np.stack(requested))
        ready = np.flatnonzero(flags)
        return (hours[ready[-1]] + 1 if len(ready) else hours[0]) * HOUR

    def _total(self, hour: int) -> SliceCounts:
        cells = self._hours[hour]
        strata = np.array([self._meaning[cell][1] for cell in cells], np.int64)
        unique, where = np.unique(strata, return_inverse=True)
        values = np.zeros((1, len(unique), COUNTERS), np.int64)
        np.add.at(values[0], where, np.array(list(cells.values())))
        return SliceCounts(("",), unique, values)


def _says(ready: int, sign: int) -> dict[Counter, int]:
    if ready in (NOT_READY, READY):
        return {Counter.LABELLED: sign, Counter.READY: sign * int(ready == READY)}
    return {Counter.UNDECIDABLE: sign}
