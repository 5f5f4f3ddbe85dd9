"""Replay of the same items under another common threshold: a look back, no forecast.

Every variant behind the evidence gate is routed again by its score. A route that score and
threshold do not explain (something overrode them) stays as it is, so that under the threshold that
decided everything is as it was observed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.audit.audit_report import WhatIfLine
from monitor.audit.flip_counts import behind_gate
from monitor.audit.inputs import Compared, Pair, Row
from monitor.core.contract import Metric
from monitor.core.counts.cells import Route, atom_text
from monitor.core.intervals import Floats
from monitor.core.probes.flips import explained, in_rates
from monitor.core.rates.gaps import HARMED_BY_LESS

MAX_THRESHOLDS = 25
"""Most thresholds in the default grid: nobody reads more lines."""

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Routed:
    """Variants that can be routed again, arrays of shape (N,)."""

    scores: Floats  # below every threshold where there is none
    routes: npt.NDArray[np.int64]
    free: Bools  # score and threshold explain the route

    @classmethod
    def from_rows(cls, rows: Sequence[Row]) -> _Routed:
        seen = [row.observed for row in rows]
        return cls(
            np.array([-np.inf if one.score is None else one.score for one in seen], np.float64),
            np.array([one.route for one in seen], np.int64),
            np.array([explained(one) for one in seen], bool),
        )

    def at(self, threshold: float) -> npt.NDArray[np.int64]:
        """Routes under a threshold; a score equal to it is served."""
        chosen = np.where(self.scores >= threshold, Route.AUTO_SERVE, Route.HUMAN_REVIEW)
        return np.where(self.free, chosen, self.routes)


@dataclass(frozen=True, slots=True)
class _Slices:
    """Variants that are in TPR and FPR, by slice; arrays of shape (N,)."""

    names: tuple[str, ...]  # slice texts, sorted
    reference: int | None  # index of its name
    routed: _Routed
    slices: npt.NDArray[np.int64]  # index of the name of each variant's slice
    ready: Bools

    @classmethod
    def from_pairs(cls, pairs: Sequence[Pair], attribute: str, reference: str | None) -> _Slices:
        rows = [row for pair in pairs for row in pair.rows if attribute in row.item.attributes]
        texts = [_slice(attribute, row.item.attributes[attribute]) for row in rows]
        names = tuple(sorted(set(texts)))
        index = {name: i for i, name in enumerate(names)}
        kept = [
            (row, text) for row, text in zip(rows, texts, strict=True) if in_rates(row.observed)
        ]
        return cls(
            names,
            None if reference is None else index.get(_slice(attribute, reference)),
            _Routed.from_rows([row for row, _ in kept]),
            np.array([index[text] for _, text in kept], np.int64),
            np.array([row.item.expected_ready is True for row, _ in kept], bool),
        )

    def rates(self, threshold: float, *, ready: bool) -> dict[str, float | None]:
        """P(auto_serve | ready), or given not ready, by slice; None without such variants."""
        served = self.routed.at(threshold) == Route.AUTO_SERVE
        among = self.ready if ready else ~self.ready
        size = len(self.names)
        hits = np.bincount(self.slices[served & among], minlength=size).tolist()
        trials = np.bincount(self.slices[among], minlength=size).tolist()
        shares = [hit / n if n else None for hit, n in zip(hits, trials, strict=True)]
        return dict(zip(self.names, shares, strict=True))

    def largest_gap(self, metric: Metric, rates: Mapping[str, float | None]) -> float | None:
        """To the reference, positive where the slice is worse off; without one, worst to best."""
        harm = -1 if metric in HARMED_BY_LESS else 1
        known = [harm * rate for rate in rates.values() if rate is not None]
        if len(known) < 2:  # noqa: PLR2004 - a gap is between two
            return None
        if self.reference is None:
            return max(known) - min(known)
        base = rates[self.names[self.reference]]
        return None if base is None else max((rate - harm * base for rate in known), key=abs)


def what_if(
    compared: Sequence[Compared],
    pairs: Sequence[Pair],
    attribute: str,
    thresholds: Collection[float] | None = None,
    reference: str | None = None,
) -> tuple[WhatIfLine, ...]:
    """Flips, TPR and FPR under one common threshold after the other, rising.

    The numbers are exact: they are for synthetic sets only.

    Args:
        compared: comparisons; those behind the evidence gate are counted.
        pairs: whose variants TPR and FPR are of, each variant once.
        attribute: whose slices they are given for.
        thresholds: to be tried; by default the scores themselves, each the highest threshold at
            which that variant is served; evenly thinned to :data:`MAX_THRESHOLDS`. Those that
            decided are always among them.
        reference: value of the attribute that gaps are taken to; without one the gap is the
            largest between two slices.
    """
    rows = [row for pair in pairs for row in pair.rows if row.observed.evidence_passed]
    current = {row.observed.threshold for row in rows}
    tried = _grid(rows) if thresholds is None else thresholds
    behind = [one for one in compared if behind_gate(one)]
    sides = (
        _Routed.from_rows([one.reference for one in behind]),
        _Routed.from_rows([one.variant for one in behind]),
    )
    slices = _Slices.from_pairs(pairs, attribute, reference)
    return tuple(_line(at, at in current, sides, slices) for at in sorted(current.union(tried)))


def _line(
    threshold: float, current: bool, sides: tuple[_Routed, _Routed], slices: _Slices
) -> WhatIfLine:
    tpr, fpr = (slices.rates(threshold, ready=ready) for ready in (True, False))
    return WhatIfLine(
        threshold=threshold,
        current=current,
        flips=int(np.count_nonzero(sides[0].at(threshold) != sides[1].at(threshold))),
        tpr=tpr,
        fpr=fpr,
        tpr_gap=slices.largest_gap(Metric.TPR, tpr),
        fpr_gap=slices.largest_gap(Metric.FPR, fpr),
    )


def _grid(rows: Sequence[Row]) -> list[float]:
    """Thresholds at which something changes."""
    seen = (row.observed for row in rows if explained(row.observed))
    scores = sorted({one.score for one in seen if one.score is not None})
    if len(scores) <= MAX_THRESHOLDS:
        return scores
    places = np.linspace(0, len(scores) - 1, MAX_THRESHOLDS).round().astype(int)
    return [scores[place] for place in places.tolist()]


def _slice(attribute: str, value: str) -> str:
    return atom_text({attribute: value})
