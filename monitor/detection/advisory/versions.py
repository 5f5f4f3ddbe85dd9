"""Version mixes: differences between a slice and its reference, and between now and before.

A version is whatever a decision names (judge, rubric, policy, router, threshold). Two mixes differ
when the share of some version differs by **significantly** more than :data:`SMALLEST_SHIFT`: the
interval of the difference (MOVER of Wilson's) lies beyond it, at 95 % over all versions that are
compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import OTHER, Int64s
from monitor.core.intervals import divide, mover, wilson
from monitor.core.publish.snapshot import ComponentChange
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
    if one.shape[1] < 2:  # noqa: PLR2004 - all of both is of the same version
        return np.zeros(len(one), bool)
    n, m = (np.broadcast_to(x.sum(axis=1, keepdims=True), x.shape) for x in (one, other))
    z = simultaneous_z(looks * max(one.shape[1], 1))
    p, q = divide(one, n), divide(other, m)
    lower, upper = mover(p, *wilson(p, n, z), q, *wilson(q, m, z))
    surely = np.nan_to_num(np.maximum(lower, -upper), nan=0)
    differs: Bools = surely.max(axis=1, initial=0) > SMALLEST_SHIFT
    return differs


def changed_components(
    before: Mapping[str, int], after: Mapping[str, int], k: int
) -> tuple[ComponentChange, ...]:
    """Parts of the router with another version after a change than before, by component.

    A part has changed when the shares of its versions differ, at 95 % over all its versions; the
    version that lost the largest share then gave way to the one that gained the largest. Told is
    only what has at least k decisions on its side: a rare version never, and neither a part whose
    versions were counted as others, since there were too many.

    Args:
        before: decisions of one slice by version tuple (``judge=j1,policy=p1``), before the change.
        after: the same from then on.
        k: smallest number of decisions of a version that may be named.

    Example:
        >>> old, new = "judge=j1,policy=2026-11-01", "judge=j1,policy=2026-11-15"
        >>> changed_components({old: 400}, {old: 100, new: 300}, 11)
        (ComponentChange(component='policy', before='2026-11-01', after='2026-11-15'),)
        >>> changed_components({old: 400}, {old: 100, new: 10}, 11)
        ()
    """
    old, new = _by_component(before), _by_component(after)
    found = (_changed(name, old[name], new[name], k) for name in COMPONENTS)
    return tuple(one for one in found if one is not None)


COMPONENTS = ("judge", "policy", "router", "rubric", "threshold")
"""The parts of the router that a version tuple names, sorted."""


def _by_component(decided: Mapping[str, int]) -> Mapping[str, Counter[str]]:
    """Decisions by version of each part; ``""`` where a tuple does not name it."""
    sums: dict[str, Counter[str]] = {name: Counter() for name in COMPONENTS}
    for text, count in decided.items():
        named = (
            {} if text == OTHER else dict(part.split("=", 1) for part in text.split(",") if part)
        )
        for name, versions in sums.items():
            versions[OTHER if text == OTHER else named.get(name, "")] += count
    return sums


def _changed(
    name: str, before: Counter[str], after: Counter[str], k: int
) -> ComponentChange | None:
    versions = sorted(before.keys() | after.keys())
    old, new = (np.array([[side[v] for v in versions]], np.int64) for side in (before, after))
    if not versions_differ(new, old)[0]:
        return None
    shift = new[0] / new.sum() - old[0] / old.sum()
    lost, gained = versions[int(shift.argmin())], versions[int(shift.argmax())]
    if OTHER in (lost, gained) or before[lost] < k or after[gained] < k:
        return None
    return ComponentChange(name, lost, gained)


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
        if np.array_equal(self.versions, versions):
            return
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
