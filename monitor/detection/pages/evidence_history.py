"""History of the evidence of every stream, hour by hour.

What is published of it is that of the end of a day, which is earlier than the newest cohort: a
function of event time, so it is the same after a restart and however often one looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.detection.arrays import Arrays, positions

KEPT = 63 * 24
"""Hours: more than a horizon and the days that findings are published as of."""


def _none() -> Int64s:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class EvidenceHistory:
    """The steps of J streams now, and every change of them, the oldest first.

    Attributes:
        keys: of the streams.
        now: the step of each, shape (J,).
        hours: pane index of the cohort that brought each change, shape (C,).
        rows: position of its stream.
        steps: what it changed to.
    """

    keys: tuple[str, ...]
    now: Int64s
    hours: Int64s = field(default_factory=_none)
    rows: Int64s = field(default_factory=_none)
    steps: Int64s = field(default_factory=_none)

    @classmethod
    def start(cls, keys: Sequence[str]) -> EvidenceHistory:
        """No evidence so far."""
        return cls(tuple(keys), np.zeros(len(keys), np.int64))

    def note(self, hour: int, steps: Int64s) -> None:
        """Take the steps after the cohort of an hour, which is later than all before."""
        rows = np.flatnonzero(steps != self.now)
        kept = self._kept(hour - KEPT)
        self.hours = np.concatenate([self.hours[kept], np.full(len(rows), hour)])
        self.rows = np.concatenate([self.rows[kept], rows])
        self.steps = np.concatenate([self.steps[kept], steps[rows]])
        self.now = steps.copy()

    def before(self, hour: int) -> Int64s:
        """The steps after all cohorts of earlier hours, shape (J,)."""
        steps = np.zeros(len(self.keys), np.int64)
        end = int(np.searchsorted(self.hours, hour))
        steps[self.rows[:end]] = self.steps[:end]  # of several changes the last one stays
        return steps

    def to_arrays(self) -> Arrays:
        """The changes, by position in :meth:`facts`."""
        _, rows = np.unique(self.rows, return_inverse=True)
        return {"hours": self.hours, "rows": rows.astype(np.int64), "steps": self.steps}

    def facts(self) -> dict[str, Any]:
        """The streams that ever had evidence."""
        return {"streams": [self.keys[row] for row in np.unique(self.rows).tolist()]}

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        """Take what was kept; of streams that are not declared any more nothing is."""
        rows = positions(self.keys, facts["streams"])[arrays["rows"]]
        self.hours, self.rows, self.steps = (
            x[rows >= 0] for x in (arrays["hours"], rows, arrays["steps"])
        )
        self.now[self.rows] = self.steps

    def _kept(self, oldest: int) -> Int64s:
        """Positions of changes that are not too old, and what they began from."""
        end = int(np.searchsorted(self.hours, oldest))
        _, last = np.unique(self.rows[:end][::-1], return_index=True)
        begins = np.sort(end - 1 - last)
        return np.concatenate([begins[self.steps[begins] > 0], np.arange(end, len(self.hours))])
