"""What of new counts may be published: what came before its pane was closed, and is not held back.

A pane that has been published is never changed by what comes later: the difference would be those
few decisions. Late counts are kept apart, complete and exact, until enough of them have come.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.cells import Counter, Int64s
from monitor.core.time import HOUR, MINUTE

_COUNTERS = np.arange(len(Counter))
_LABELS = ~np.isin(_COUNTERS, (Counter.N, Counter.Q))

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Gate:
    """Up to which instants panes are closed; None is not at all yet."""

    decisions: int | None
    labels: int | None

    def late(self, at: Int64s) -> Bools:
        """Rows whose 5-minute pane, which begins there, is closed to decisions."""
        if self.decisions is None:
            return np.zeros(len(at), bool)
        return at + 5 * MINUTE <= self.decisions

    def split(
        self, at: Int64s, values: Int64s, left_out: Bools, unlabelled: Bools
    ) -> tuple[Int64s, Int64s]:
        """Counters that may be published, and those that are held back; together ``values``.

        Args:
            at: start of the 5-minute pane of each row, microseconds.
            values: counters of each row.
            left_out: rows that are in no table.
            unlabelled: rows whose labels are taken as not given.
        """
        through = values.copy()
        late, labels_late = self.late(at), unlabelled
        if self.labels is not None:
            labels_late = unlabelled | (at // HOUR * HOUR + HOUR <= self.labels)
        through[late, Counter.N] = 0
        through[late | unlabelled, Counter.Q] = 0
        through[labels_late[:, None] & _LABELS] = 0
        through[left_out] = 0
        return through, values - through
