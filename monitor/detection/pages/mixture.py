"""Shiryaev-Roberts mixtures: evidence that something changed at some unknown time.

R = sum over alternatives m and over starting times s of mass_s w_m times the product of the
e-values of alternative m since s. Under the null, E[R] is at most the time on the clock, so R
crosses A at most once per time A on average, under any dependence between streams.

Source: Pollak (1987), Annals of Statistics 15; Shin, Ramdas and Rinaldo (2023), "E-detectors".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Floats
from monitor.core.rates.gaps import Bools
from monitor.detection.arrays import positions

Rows = Int64s | Bools
"""Rows of streams: distinct row numbers, or a mask."""


@dataclass(frozen=True, slots=True)
class RowBets:
    """Bets of some streams.

    Attributes:
        rows: the betting rows, shape (R,).
        log_e: log e-values of the alternatives, shape (R, K), not yet divided by a cluster size.
    """

    rows: Int64s
    log_e: Floats

    @classmethod
    def from_mask(cls, mask: Bools, log_e: Floats) -> RowBets:
        """Return the bets of the rows in a mask, given the log e-values of all rows."""
        rows = np.flatnonzero(mask)
        return cls(rows, log_e[rows])


@dataclass(slots=True)
class SrMixture:
    """Shiryaev-Roberts statistics of J streams over K alternatives each; changed in place.

    Attributes:
        log_r: ln R of each alternative, shape (J, K); -inf is empty.
        pending: clock time since the stream's last bet, shape (J,): the mass of the starting times
            that the next bet begins with.
    """

    log_r: Floats
    pending: Floats

    @classmethod
    def empty(cls, streams: int, alternatives: int) -> SrMixture:
        """Return a mixture without evidence (R = 0) for this many streams and alternatives."""
        return cls(np.full((streams, alternatives), -np.inf), np.zeros(streams))

    def add_clock(self, time: float) -> None:
        """Add time to all clocks, in the unit in which false alarms are counted.

        Raises:
            ValueError: for negative time.
        """
        if time < 0:
            raise ValueError("the clock cannot run backwards")
        self.pending += time

    def bet(
        self, rows: Rows, log_e: Floats, weights: npt.ArrayLike, cluster_size: float = 1
    ) -> None:
        """Multiply the rows' evidence by new e-values, and reset their clocks.

        The choice of streams may depend on the number of labels, never on their values.

        Args:
            rows: the betting streams.
            log_e: log e-values of the alternatives, shape (len(rows), K); -inf for a lost bet.
            weights: weights of the alternatives, shape (K,) or (len(rows), K); they sum to at most
                1.
            cluster_size: the largest number of dependent decisions; log e is divided by it,
                because E[prod e_i^(1/m)] <= prod E[e_i]^(1/m) <= 1 (Hoelder).

        Raises:
            ValueError: for a cluster size below 1.
        """
        if cluster_size < 1:
            raise ValueError("the cluster size is at least 1")
        if not len(log_e):  # nothing bets
            return
        mass = self.pending[rows][:, None] * np.asarray(weights, np.float64)
        self.log_r[rows] = np.logaddexp(self.log_r[rows], _log(mass)) + log_e / cluster_size
        self.pending[rows] = 0

    def statistic(self) -> Floats:
        """Return S = ln R of each stream, summed over alternatives, shape (J,); -inf if empty."""
        total: Floats = np.logaddexp.reduce(self.log_r, axis=1)
        return total

    def reset(self, rows: Rows) -> None:
        """Erase the evidence and the clock of these rows, as after a page."""
        self.log_r[rows] = -np.inf
        self.pending[rows] = 0

    def aligned(self, keys: Sequence[str], wanted: Sequence[str]) -> SrMixture:
        """Return a mixture with a row per name in ``wanted``; names not in ``keys`` are empty.

        Args:
            keys: distinct names of the rows.
            wanted: names of the rows of the result.
        """
        rows = positions(keys, wanted)
        log_r = np.pad(self.log_r, ((0, 1), (0, 0)), constant_values=-np.inf)
        return SrMixture(log_r[rows], np.append(self.pending, 0.0)[rows])

    def to_arrays(self) -> dict[str, Floats]:
        """Return copies of the arrays by field name."""
        return {"log_r": self.log_r.copy(), "pending": self.pending.copy()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> SrMixture:
        """Return the mixture that :meth:`to_arrays` wrote, bit for bit.

        Raises:
            ValueError: if the shapes do not fit each other.
        """
        log_r = np.array(arrays["log_r"], np.float64)
        pending = np.array(arrays["pending"], np.float64)
        if log_r.ndim != 2 or pending.shape != log_r.shape[:1]:  # noqa: PLR2004 - rows, columns
            raise ValueError("stored mixtures need one pending clock for each row")
        return cls(log_r, pending)


def _log(mass: Floats) -> Floats:
    """Return natural logarithms; -inf for 0, without a warning."""
    return np.log(mass, out=np.full(mass.shape, -np.inf), where=mass > 0)
