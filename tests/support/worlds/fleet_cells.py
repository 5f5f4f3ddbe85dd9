"""Hours of decisions with the TPR, FPR and blocked rates that a test wants, as counts of cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from monitor.core.contract import Contract, GroupBy, Limits
from monitor.core.counts.cells import COUNTERS, Counter, Counts, Int64s, Route, Stratum, content_id
from monitor.core.counts.coding import Attribute, Coding
from monitor.core.counts.rollup import CellIndex

AUDITS = (1.0, 0.2, 0.05, 0.02)
"""All of human_review is labelled, and of auto_serve the part that the traffic names."""

MONDAY = 2_625 * 168 + 96
"""An hour that a day and an ISO week begin with."""

_BANDS = 2
_TOP_BAND = np.array([0.3, 0.7])  # P(upper score band | not ready), P(... | ready)
_PLACES = (*((Route.AUTO_SERVE, rate) for rate in range(len(AUDITS))), (Route.HUMAN_REVIEW, 0))
_REVIEW = len(AUDITS)
_STRATA = [Stratum(route, band, rate).code for route, rate in _PLACES for band in range(_BANDS)]
_BLOCKED = Stratum(Route.BLOCKED_BY_EVIDENCE, 0, 0, evidence_passed=False).code
STRATA = (*_STRATA, _BLOCKED)
VERSIONS = ("1", "2")


@dataclass(frozen=True)
class Traffic:
    """What the decisions are like: one number for all atoms, or one for each.

    Attributes:
        hourly: mean number of decisions in an hour.
        ready: P(ready).
        tpr: P(auto_serve | ready).
        fpr: P(auto_serve | not ready).
        blocked: P(blocked_by_evidence).
        audit: index in :data:`AUDITS` of the rate of auto_serve.
    """

    hourly: npt.ArrayLike = 20.0
    ready: npt.ArrayLike = 0.7
    tpr: npt.ArrayLike = 0.85
    fpr: npt.ArrayLike = 0.15
    blocked: npt.ArrayLike = 0.02
    audit: int = 2


@dataclass(frozen=True)
class Cells:
    """The cells of some atoms, once for every version.

    Attributes:
        atoms: texts.
        strata: codes.
    """

    atoms: tuple[str, ...]
    strata: tuple[int, ...] = STRATA

    @cached_property
    def _ids(self) -> Mapping[str, Int64s]:
        """By version: atom by atom, each in the order of the strata."""
        return {version: self._ids_of(version) for version in VERSIONS}

    def _ids_of(self, version: str) -> Int64s:
        texts = [f"{atom}|{version}|{code}" for atom in self.atoms for code in self.strata]
        return np.array([content_id(text) for text in texts], np.int64)

    @cached_property
    def index(self) -> CellIndex:
        """What the ids mean."""
        ids = np.concatenate([*self._ids.values()])
        atoms = [content_id(atom) for atom in self.atoms for _ in self.strata]
        order = np.argsort(ids)
        atom_of = np.tile(np.array(atoms, np.int64), len(VERSIONS))[order]
        strata = np.tile(self.strata, len(self.atoms) * len(VERSIONS))[order]
        versions = np.repeat([content_id(version) for version in VERSIONS], len(atoms))[order]
        texts = {content_id(atom): atom for atom in self.atoms}
        return CellIndex(ids[order], atom_of, strata, texts, versions)

    def hour(self, rng: np.random.Generator, traffic: Traffic) -> Counts:
        """The counts of one hour; all have the first version and the strata of this module."""
        values = np.zeros((len(self.atoms), len(STRATA), COUNTERS), np.int64)
        shape = (len(self.atoms),)
        total = rng.poisson(np.broadcast_to(traffic.hourly, shape))
        blocked = rng.binomial(total, np.broadcast_to(traffic.blocked, shape))
        ready = rng.binomial(total - blocked, np.broadcast_to(traffic.ready, shape))
        values[:, -1, Counter.N] = blocked
        served_rates = (traffic.fpr, traffic.tpr)
        for is_ready, decisions in enumerate((total - blocked - ready, ready)):
            served = rng.binomial(decisions, np.broadcast_to(served_rates[is_ready], shape))
            for place, routed in ((traffic.audit, served), (_REVIEW, decisions - served)):
                upper = rng.binomial(routed, _TOP_BAND[is_ready])
                for band, found in enumerate((routed - upper, upper)):
                    at = values[:, place * _BANDS + band]
                    labelled = rng.binomial(found, AUDITS[_PLACES[place][1]])
                    at[:, Counter.N] += found
                    at[:, Counter.LABELLED] += labelled
                    at[:, Counter.READY] += labelled * is_ready
        return self.counts(values)

    def counts(self, values: Int64s) -> Counts:
        """A table of counts, from an array of atom x stratum x counter."""
        rows = values.reshape(-1, COUNTERS)
        some = rows.any(axis=1)
        return Counts.from_rows(self._ids[VERSIONS[0]][some], rows[some])

    def renewed(self, counts: Counts) -> Counts:
        """The same decisions by the second version."""
        first, second = (self._ids[version] for version in VERSIONS)
        order = np.argsort(first)
        at = order[np.searchsorted(first[order], counts.keys)]
        return Counts.from_rows(second[at], counts.values)


def join(*parts: CellIndex) -> CellIndex:
    """What the cells of all mean."""
    cells, atoms, strata = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("cells", "atoms", "strata")
    )
    order = np.argsort(cells)
    texts = {atom: text for part in parts for atom, text in part.atom_texts.items()}
    return CellIndex(cells[order], atoms[order], strata[order], texts)


def coding(**attributes: str) -> Coding:
    """One letter for each value: ``coding(a="xyz", b="uv")``."""
    listed = (Attribute(name, tuple(values)) for name, values in sorted(attributes.items()))
    return Coding(tuple(listed), (0.5,), AUDITS)


def limits(gap: str = "0.10", floor: str | None = None, ceiling: str | None = None) -> Limits:
    """The same limit for all gaps."""
    low, high = (None if text is None else Fraction(text) for text in (floor, ceiling))
    delta = Fraction(gap)
    return Limits(delta, delta, delta, low, high, min_positives=50, min_negatives=30)


def contract(*groups: GroupBy, of: Limits | None = None, where: str = "") -> Contract:
    """A contract of these group-bys; ``where`` is an ``attribute=value``."""
    name, _, value = where.partition("=")
    return Contract(
        name=f"c{value}",
        version="1",
        owner="owner",
        limits=of or limits(),
        window="7d",
        group_bys=groups,
        synthetic=False,
        k=11,
        where=((name, value),) if where else (),
    )


def with_odd_hours(counts: Counts, since: int) -> Counts:
    """Every twentieth hour is empty, has no labels, or has labels that precede their decisions.

    Args:
        counts: of an hour; changed in place.
        since: how many hours there were before it.
    """
    if since % 20 == 11:
        return Counts.empty()
    if since % 20 == 13:
        counts.values[:, [Counter.LABELLED, Counter.READY]] = 0
    if since % 20 == 15:
        counts.values[:, Counter.N] = 0
    return counts
