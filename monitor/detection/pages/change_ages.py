"""The age of the change behind each stream's evidence, estimated by CUSUM.

The estimate is the start of the run of bets since when the product of the mean e-values is largest.
It has no bound, and decides nothing: it dates what a crossing found.

Source: Page (1954), Biometrika 41.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.intervals import Floats
from monitor.detection.arrays import positions
from monitor.detection.pages.mixture import Rows


@dataclass(slots=True)
class ChangeAges:
    """CUSUM of J streams; changed in place.

    Attributes:
        run: sum of the log e-values, averaged over alternatives, at least 0, shape (J,).
        age: clock time since the run began, with the first bet that it counts, shape (J,).
    """

    run: Floats
    age: Floats

    @classmethod
    def empty(cls, streams: int) -> ChangeAges:
        """Return ages of 0 for this many streams."""
        return cls(*np.zeros((2, streams)))

    def bet(self, rows: Rows, log_e: Floats, weights: Floats, cluster_size: float = 1) -> None:
        """Add bets to the rows' runs; a run that falls to 0 begins anew with the next bet.

        Args:
            rows: the betting streams.
            log_e: log e-values of the alternatives, shape (len(rows), K).
            weights: weights of the alternatives, shape (K,); they sum to 1.
            cluster_size: the largest number of dependent decisions; log e is divided by it.
        """
        used = weights > 0
        parts = log_e[:, used] / cluster_size + np.log(weights[used])
        mean = np.logaddexp.reduce(parts, axis=-1)
        self.run[rows] = np.maximum(self.run[rows] + mean, 0)
        self.age[rows] = np.where(self.run[rows] > 0, self.age[rows], 0)

    def reset(self, rows: Rows) -> None:
        """Begin the runs of these rows anew, as after a page."""
        self.run[rows] = 0
        self.age[rows] = 0

    def aligned(self, keys: Sequence[str], wanted: Sequence[str]) -> ChangeAges:
        """Return ages with a row per name in ``wanted``; names not in ``keys`` have none."""
        rows = positions(keys, wanted)
        return ChangeAges(*(np.append(values, 0.0)[rows] for values in (self.run, self.age)))

    def to_arrays(self) -> dict[str, Floats]:
        """Return copies of the arrays by field name."""
        return {"run": self.run.copy(), "age": self.age.copy()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> ChangeAges:
        """Return the ages that :meth:`to_arrays` wrote, bit for bit."""
        return cls(*(np.array(arrays[name], np.float64) for name in ("run", "age")))
