"""History of the evidence of every stream, hour by hour.

Tables show the evidence at the end of a day, which is earlier than the newest cohort. That is a
function of event time, so restarts and the number of looks do not change it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.detection.arrays import Arrays, positions

KEPT = 63 * 24
"""Hours of history: longer than a horizon and the delay of published findings."""


def _none() -> Int64s:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class EvidenceHistory:
    """Evidence steps (0 to 4) of J streams now, and their changes, oldest first.

    Attributes:
        keys: keys of the streams.
        now: present step of each stream, shape (J,).
        hours: pane index of the cohort of each change, shape (C,).
        rows: position of its stream.
        steps: its new step.
    """

    keys: tuple[str, ...]
    now: Int64s
    hours: Int64s = field(default_factory=_none)
    rows: Int64s = field(default_factory=_none)
    steps: Int64s = field(default_factory=_none)

    @classmethod
    def start(cls, keys: Sequence[str]) -> EvidenceHistory:
        """Return a history of these streams at step 0, without changes."""
        return cls(tuple(keys), np.zeros(len(keys), np.int64))

    def note(self, hour: int, steps: Int64s) -> None:
        """Record the steps after an hour's cohort, and drop old changes; hours increase."""
        rows = np.flatnonzero(steps != self.now)
        kept_changes = self._kept_positions(hour - KEPT)
        self.hours = np.concatenate([self.hours[kept_changes], np.full(len(rows), hour)])
        self.rows = np.concatenate([self.rows[kept_changes], rows])
        self.steps = np.concatenate([self.steps[kept_changes], steps[rows]])
        self.now = steps.copy()

    def before(self, hour: int) -> Int64s:
        """Return each stream's step after all cohorts before ``hour``, shape (J,)."""
        steps = np.zeros(len(self.keys), np.int64)
        end = int(np.searchsorted(self.hours, hour))
        steps[self.rows[:end]] = self.steps[:end]  # the last of several changes counts
        return steps

    def to_arrays(self) -> Arrays:
        """Return the changes as arrays; rows are positions in the list of :meth:`facts`."""
        _, rows = np.unique(self.rows, return_inverse=True)
        return {"hours": self.hours, "rows": rows.astype(np.int64), "steps": self.steps}

    def facts(self) -> dict[str, Any]:
        """Return ``streams``: the keys of the streams that have changes, in row order."""
        return {"streams": [self.keys[row] for row in np.unique(self.rows).tolist()]}

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        """Load the stored changes, without those of streams no longer declared."""
        rows = positions(self.keys, facts["streams"])[arrays["rows"]]
        self.hours, self.rows, self.steps = (
            column[rows >= 0] for column in (arrays["hours"], rows, arrays["steps"])
        )
        self.now[self.rows] = self.steps

    def _kept_positions(self, oldest: int) -> Int64s:
        """Return positions of changes since ``oldest``, and of each stream's last one before."""
        end = int(np.searchsorted(self.hours, oldest))
        _, last = np.unique(self.rows[:end][::-1], return_index=True)
        begins = np.sort(end - 1 - last)
        return np.concatenate([begins[self.steps[begins] > 0], np.arange(end, len(self.hours))])
