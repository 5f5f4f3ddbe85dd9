"""Version mixes: differences between a slice and its reference, and between now and before.

A version is whatever a decision names (judge, rubric, policy, router, threshold). Two mixes differ
when the share of some version differs by **significantly** more than :data:`SMALLEST_SHIFT`: the
interval of the difference (MOVER of Wilson's) lies beyond it, at 95 % over all versions that are
compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.intervals import divide, mover, wilson
from monitor.core.rates.gaps import Bools, simultaneous_z
from monitor.detection.arrays import Arrays

SMALLEST_SHIFT = 0.05
"""A shift of less moves a rate by half a point at most if the versions are ten points apart."""


def versions_differ(slices: npt.ArrayLike, references: npt.ArrayLike, looks: int = 1) -> Bools:
    """Mask of the slices whose version mix differs from their reference's, shape (S,).

    True where the share of some version differs by more than 0.05, at 95 % over all versions.
    Without decisions on one side nothing differs.

    Args:
        slices: decisions by (slice, version).
        references: the same of what each slice is compared with, disjoint from it.
        looks: how often it is asked; the 95 % hold for all of them together.
    """
    one, other = np.asarray(slices, np.float64), np.asarray(references, np.float64)
    n, m = (np.broadcast_to(x.sum(axis=1, keepdims=True), x.shape) for x in (one, other))
    z = simultaneous_z(looks * max(one.shape[1], 1))
    p, q = divide(one, n), divide(other, m)
    lower, upper = mover(p, *wilson(p, n, z), q, *wilson(q, m, z))
    surely = np.nan_to_num(np.maximum(lower, -upper), nan=0)
    differs: Bools = surely.max(axis=1, initial=0) > SMALLEST_SHIFT
    return differs


ENOUGH = 20
"""Decisions of a slice that are looked at together. So many of a new version are sure to differ
from any number of an old one; fewer would let a slow slice wait no less, and a trial of a version
on a few requests restart it."""

LOOKS = 1_000
"""How many looks the 95 % hold for: a slice whose requests are divided between two versions for
good is looked at every hour, and must not restart for it."""


@dataclass(slots=True)
class RunningVersions:
    """Decisions of S slices by version; changed in place.

    Attributes:
        versions: ids, increasing: the columns.
        known: decisions while the references were collected, shape (S, V).
        recent: decisions since the last look.
    """

    versions: Int64s
    known: Int64s
    recent: Int64s

    @classmethod
    def empty(cls, slices: int) -> RunningVersions:
        """Without any decision."""
        nothing = np.zeros((slices, 0), np.int64)
        return cls(np.zeros(0, np.int64), nothing, nothing.copy())

    def changed(self, versions: Int64s, decided: Int64s, collecting: Bools) -> Int64s:
        """Add one cohort; returns the slices that other versions answer now.

        What is known of those begins anew with what was looked at.

        Args:
            versions: ids, shape (V,).
            decided: decisions by slice and version, shape (S, V).
            collecting: slices whose references are not finished, shape (S,).
        """
        self._add_columns(versions)
        self.recent[:, np.searchsorted(self.versions, versions)] += decided
        looked = np.flatnonzero(self.recent.sum(axis=1) >= ENOUGH)
        differs = looked[versions_differ(self.recent[looked], self.known[looked], LOOKS)]
        self.known[differs] = 0
        joins = looked[collecting[looked] | np.isin(looked, differs)]
        self.known[joins] += self.recent[joins]
        self.recent[looked] = 0
        self._drop_columns()
        return differs

    def picked(self, rows: Int64s) -> RunningVersions:
        """The same for these slices, in this order; -1 is a new one."""
        known, recent = (np.pad(x, ((0, 1), (0, 0)))[rows] for x in (self.known, self.recent))
        return RunningVersions(self.versions.copy(), known, recent)

    def to_arrays(self) -> Arrays:
        """All that the state consists of."""
        return {"versions": self.versions, "known": self.known, "recent": self.recent}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> RunningVersions:
        """The state that :meth:`to_arrays` gave."""
        return cls(arrays["versions"], arrays["known"], arrays["recent"])

    def _add_columns(self, versions: Int64s) -> None:
        every = np.union1d(self.versions, versions)
        if len(every) == len(self.versions):
            return
        place = np.searchsorted(every, self.versions)
        wider = np.zeros((2, len(self.known), len(every)), np.int64)
        wider[:, :, place] = np.stack([self.known, self.recent])
        self.versions, (self.known, self.recent) = every, wider

    def _drop_columns(self) -> None:
        """Forget versions that no slice is compared with any more."""
        used = self.known.any(axis=0) | self.recent.any(axis=0)
        if not used.all():
            self.versions = self.versions[used]
            self.known, self.recent = self.known[:, used], self.recent[:, used]
