"""Replay of the same items under another common threshold: a look back, no forecast.

Every variant behind the evidence gate is routed again by its score. A route that score and
threshold do not explain (something overrode them) is kept. Under the threshold that decided,
every route is therefore as observed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.audit.audit_report import WhatIfLine
from monitor.audit.flip_counts import behind_gate
from monitor.audit.inputs import Compared, Pair, Row
from monitor.core.counts.cells import Route, atom_text
from monitor.core.intervals import Floats
from monitor.core.metric import Metric
from monitor.core.probes.flips import explained, in_rates

MAX_THRESHOLDS = 25
"""Most thresholds of the default grid: nobody reads more lines."""

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Routed:
    """Variants that can be routed again by their scores, arrays of shape (N,)."""

    scores: Floats  # below every threshold where there is none
    routes: npt.NDArray[np.int64]
    free: Bools  # score and threshold explain the route

    @classmethod
    def from_rows(cls, rows: Sequence[Row]) -> _Routed:
        """Return routes, scores (minus infinity if absent) and gate results by row."""
        observed = [row.observed for row in rows]
        return cls(
            np.array(
                [-np.inf if outcome.score is None else outcome.score for outcome in observed],
                np.float64,
            ),
            np.array([outcome.route for outcome in observed], np.int64),
            np.array([explained(outcome) for outcome in observed], bool),
        )

    def at(self, threshold: float) -> npt.NDArray[np.int64]:
        """Return the routes under a threshold, shape (N,); a score equal to it is served."""
        by_score = np.where(self.scores >= threshold, Route.AUTO_SERVE, Route.HUMAN_REVIEW)
        return np.where(self.free, by_score, self.routes)


@dataclass(frozen=True, slots=True)
class _Slices:
    """Variants that count in TPR and FPR, by slice; arrays of shape (N,)."""

    names: tuple[str, ...]  # slice texts, sorted
    reference: int | None  # index of its name
    routed: _Routed
    slices: npt.NDArray[np.int64]  # index of the name of each variant's slice
    ready: Bools

    @classmethod
    def from_pairs(cls, pairs: Sequence[Pair], attribute: str, reference: str | None) -> _Slices:
        """Return the rows that count in rates, with the slice of each by one attribute."""
        rows = [row for pair in pairs for row in pair.rows if attribute in row.item.attributes]
        texts = [_slice_text(attribute, row.item.attributes[attribute]) for row in rows]
        names = tuple(sorted(set(texts)))
        index = {name: i for i, name in enumerate(names)}
        counted_rows = [
            (row, text) for row, text in zip(rows, texts, strict=True) if in_rates(row.observed)
        ]
        return cls(
            names,
            None if reference is None else index.get(_slice_text(attribute, reference)),
            _Routed.from_rows([row for row, _ in counted_rows]),
            np.array([index[text] for _, text in counted_rows], np.int64),
            np.array([row.item.expected_ready is True for row, _ in counted_rows], bool),
        )

    def rates(self, threshold: float, *, ready: bool) -> dict[str, float | None]:
        """Compute P(auto_serve | ready or not ready) by slice text; None without variants."""
        served = self.routed.at(threshold) == Route.AUTO_SERVE
        selected = self.ready if ready else ~self.ready
        size = len(self.names)
        hits = np.bincount(self.slices[served & selected], minlength=size).tolist()
        trials = np.bincount(self.slices[selected], minlength=size).tolist()
        shares = [hit / n if n else None for hit, n in zip(hits, trials, strict=True)]
        return dict(zip(self.names, shares, strict=True))

    def largest_gap(self, metric: Metric, rates: Mapping[str, float | None]) -> float | None:
        """Return the rates' largest gap to the reference, positive if the slice is worse off.

        Without a reference it is the gap from the worst to the best slice.
        """
        harm = -1 if metric.harmed_by_less else 1
        harms = [harm * rate for rate in rates.values() if rate is not None]
        if len(harms) < 2:  # noqa: PLR2004 - a gap is between two
            return None
        if self.reference is None:
            return max(harms) - min(harms)
        base = rates[self.names[self.reference]]
        return None if base is None else max((rate - harm * base for rate in harms), key=abs)


def what_if(
    compared: Sequence[Compared],
    pairs: Sequence[Pair],
    attribute: str,
    thresholds: Collection[float] | None = None,
    reference: str | None = None,
) -> tuple[WhatIfLine, ...]:
    """Return flips, TPR and FPR for each of several common thresholds, rising.

    The numbers are exact: they are for synthetic sets only.

    Args:
        compared: comparisons; those behind the evidence gate are counted.
        pairs: pairs whose variants TPR and FPR are over, each variant once.
        attribute: attribute that defines the slices.
        thresholds: thresholds to try; by default the scores themselves, each the highest threshold
            at which that variant is served, evenly thinned to :data:`MAX_THRESHOLDS`. The
            thresholds that decided are always included.
        reference: value of the attribute that gaps are taken to; without one the gap is the
            largest between two slices.
    """
    rows = [row for pair in pairs for row in pair.rows if row.observed.evidence_passed]
    current = {row.observed.threshold for row in rows}
    tried = _default_thresholds(rows) if thresholds is None else thresholds
    behind = [comparison for comparison in compared if behind_gate(comparison)]
    sides = (
        _Routed.from_rows([comparison.reference for comparison in behind]),
        _Routed.from_rows([comparison.variant for comparison in behind]),
    )
    slices = _Slices.from_pairs(pairs, attribute, reference)
    return tuple(
        _what_if_line(threshold, threshold in current, sides, slices)
        for threshold in sorted(current.union(tried))
    )


def _what_if_line(
    threshold: float, current: bool, sides: tuple[_Routed, _Routed], slices: _Slices
) -> WhatIfLine:
    """Return flips, rates and largest gaps if all rows had this threshold."""
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


def _default_thresholds(rows: Sequence[Row]) -> list[float]:
    """Return up to MAX_THRESHOLDS scores of rows at which a route would change, rising."""
    outcomes = (row.observed for row in rows if explained(row.observed))
    scores = sorted({outcome.score for outcome in outcomes if outcome.score is not None})
    if len(scores) <= MAX_THRESHOLDS:
        return scores
    indices = np.linspace(0, len(scores) - 1, MAX_THRESHOLDS).round().astype(int)
    return [scores[index] for index in indices.tolist()]


def _slice_text(attribute: str, value: str) -> str:
    return atom_text({attribute: value})
