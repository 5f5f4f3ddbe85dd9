"""Version mixes: differences between a slice and its reference, and between now and before.

A version is a value that a decision names for a component (judge, rubric, policy, router,
threshold). Two mixes differ when the share of some version differs by **significantly** more than
:data:`SMALLEST_SHIFT`: the interval of the difference (MOVER of Wilson's) lies beyond it, at 95 %
over all versions that are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import OTHER, Int64s, parse_atom
from monitor.core.intervals import divide, mover, wilson
from monitor.core.publish.snapshot import ComponentChange
from monitor.core.rates.gaps import Bools, simultaneous_z
from monitor.detection.arrays import Arrays

SMALLEST_SHIFT = 0.05
"""A smaller shift moves a rate by at most half a point if the versions are ten points apart."""


def versions_differ(slices: npt.ArrayLike, references: npt.ArrayLike, looks: int = 1) -> Bools:
    """Return True for slices whose version mix differs from their reference's, shape (S,).

    A mix differs when the share of some version differs by more than 0.05, at 95 % over all
    versions. A slice without decisions on one side does not differ.

    Args:
        slices: decisions by (slice, version).
        references: decisions of each slice's reference, disjoint from it; the same shape.
        looks: number of looks that share the error of 5 %.
    """
    slice_counts, reference_counts = (
        np.asarray(slices, np.float64),
        np.asarray(references, np.float64),
    )
    if slice_counts.shape[1] < 2:  # noqa: PLR2004 - both sides have the same version
        return np.zeros(len(slice_counts), bool)
    n, m = (
        np.broadcast_to(counts.sum(axis=1, keepdims=True), counts.shape)
        for counts in (slice_counts, reference_counts)
    )
    z = simultaneous_z(looks * max(slice_counts.shape[1], 1))
    p, q = divide(slice_counts, n), divide(reference_counts, m)
    lower, upper = mover(p, *wilson(p, n, z), q, *wilson(q, m, z))
    surely = np.nan_to_num(np.maximum(lower, -upper), nan=0)
    differs: Bools = surely.max(axis=1, initial=0) > SMALLEST_SHIFT
    return differs


def changed_components(
    before: Mapping[str, int], after: Mapping[str, int], k: int
) -> tuple[ComponentChange, ...]:
    """Return the router's components whose version changed, with old and new version.

    A component has changed when the shares of its versions differ, at 95 % over all its versions:
    the version that lost the largest share gave way to the one that gained the largest. Both need
    at least k decisions. Components whose versions were too many, and so counted as others, are
    left out.

    Args:
        before: decisions of one slice by version tuple (``judge=j1,policy=p1``), before the change.
        after: decisions since the change.
        k: smallest number of decisions of a version that may be named.

    Example:
        >>> old, new = "judge=j1,policy=2026-11-01", "judge=j1,policy=2026-11-15"
        >>> changed_components({old: 400}, {old: 100, new: 300}, 11)
        (ComponentChange(component='policy', before='2026-11-01', after='2026-11-15'),)
        >>> changed_components({old: 400}, {old: 100, new: 10}, 11)
        ()
    """
    old, new = _by_component(before), _by_component(after)
    changes = (_changed(name, old[name], new[name], k) for name in COMPONENTS)
    return tuple(change for change in changes if change is not None)


COMPONENTS = ("judge", "policy", "router", "rubric", "threshold")
"""The components that a version tuple names, sorted."""


def _by_component(decisions: Mapping[str, int]) -> Mapping[str, Counter[str]]:
    """Return decisions by component and version; ``""`` where a tuple does not name one."""
    sums: dict[str, Counter[str]] = {name: Counter() for name in COMPONENTS}
    for text, count in decisions.items():
        named = {} if text == OTHER else parse_atom(text)
        for name, versions in sums.items():
            versions[OTHER if text == OTHER else named.get(name, "")] += count
    return sums


def _changed(
    name: str, before: Counter[str], after: Counter[str], k: int
) -> ComponentChange | None:
    """Return which version of a component lost most share to which; None if not certain."""
    versions = sorted(before.keys() | after.keys())
    old, new = (
        np.array([[side[version] for version in versions]], np.int64) for side in (before, after)
    )
    if not versions_differ(new, old)[0]:
        return None
    shift = new[0] / new.sum() - old[0] / old.sum()
    lost, gained = versions[int(shift.argmin())], versions[int(shift.argmax())]
    if OTHER in (lost, gained) or before[lost] < k or after[gained] < k:
        return None
    return ComponentChange(name, lost, gained)


ENOUGH = 20
"""Decisions of a slice per look. So many of a new version differ from any number of an old one.
With fewer, a slow slice would wait as long, and a trial of a version on a few requests would
restart it."""

LOOKS = 1_000
"""Number of looks that the 95 % hold for: a slice that two versions share for good is looked at
every hour, and must not restart."""


@dataclass(slots=True)
class RunningVersions:
    """Decisions of S slices by version, to detect version changes; changed in place.

    Attributes:
        versions: version ids, increasing: the columns.
        collected: decisions while the references were collected, shape (S, V).
        recent: decisions since the last look, shape (S, V).
    """

    versions: Int64s
    collected: Int64s
    recent: Int64s

    @classmethod
    def empty(cls, slices: int) -> RunningVersions:
        """Return counts for this many slices without decisions."""
        no_decisions = np.zeros((slices, 0), np.int64)
        return cls(np.zeros(0, np.int64), no_decisions, no_decisions.copy())

    def changed(self, versions: Int64s, decided: Int64s, collecting: Bools) -> Int64s:
        """Add a cohort; return, and restart, the rows of slices that other versions answer now.

        Collected decisions of these slices start again with the recent ones.

        Args:
            versions: ids, shape (V,).
            decided: decisions by slice and version, shape (S, V).
            collecting: slices whose references are not finished, shape (S,).
        """
        self._add_columns(versions)
        self.recent[:, np.searchsorted(self.versions, versions)] += decided
        looked = np.flatnonzero(self.recent.sum(axis=1) >= ENOUGH)
        differs = looked[versions_differ(self.recent[looked], self.collected[looked], LOOKS)]
        self.collected[differs] = 0
        joins = looked[collecting[looked] | np.isin(looked, differs)]
        self.collected[joins] += self.recent[joins]
        self.recent[looked] = 0
        self._drop_columns()
        return differs

    def picked(self, rows: Int64s) -> RunningVersions:
        """Return the counts of these rows, in order; -1 gives a slice without decisions."""
        collected, recent = (
            np.pad(table, ((0, 1), (0, 0)))[rows] for table in (self.collected, self.recent)
        )
        return RunningVersions(self.versions.copy(), collected, recent)

    def to_arrays(self) -> Arrays:
        """Return the whole state as arrays by name."""
        return {"versions": self.versions, "known": self.collected, "recent": self.recent}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> RunningVersions:
        """Return the state that :meth:`to_arrays` wrote."""
        return cls(arrays["versions"], arrays["known"], arrays["recent"])

    def _add_columns(self, versions: Int64s) -> None:
        """Widen the counts by versions not seen before."""
        if np.array_equal(self.versions, versions):
            return
        versions_union = np.union1d(self.versions, versions)
        if len(versions_union) == len(self.versions):
            return
        place = np.searchsorted(versions_union, self.versions)
        wider = np.zeros((2, len(self.collected), len(versions_union)), np.int64)
        wider[:, :, place] = np.stack([self.collected, self.recent])
        self.versions, (self.collected, self.recent) = versions_union, wider

    def _drop_columns(self) -> None:
        """Remove the columns of versions without decisions in any slice."""
        used = self.collected.any(axis=0) | self.recent.any(axis=0)
        if not used.all():
            self.versions = self.versions[used]
            self.collected, self.recent = self.collected[:, used], self.recent[:, used]
