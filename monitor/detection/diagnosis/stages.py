"""Diverging stages: the stages of the router at which slices and their references diverge.

A decision passes three stages. The evidence gate lets it through with probability g; the judge puts
it into score band b with probability h_b; the threshold, or any other rule that chooses the route,
serves it with probability t_b. A share f is served although the gate stopped it. So

    P(auto_serve) = g (s sum_b h_b t_b + (1 - s) u) + (1 - g) f

where a share s has a score, and a share u of the others is served. The difference of two slices is
split by replacing the reference's stages with the slice's one after the other **in the order of the
pipeline**: first the effect of the gate alone on the reference's traffic, then the judge on top,
then the threshold. Decisions without a score are a part of their own, which no stage explains. The
parts sum to the difference exactly. The order is a choice: a later stage only sees what an earlier
one lets through. An average over orders would mix parts that never happened.

For all decisions (:meth:`Passage.of_decisions`) this splits the difference in selection rates,
where other scores may mean other requests. For the ready ones (:meth:`Passage.of_ready`) it splits
the difference in TPRs, where the gate has no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Route
from monitor.core.intervals import Floats, divide
from monitor.core.publish.annotations import Share, Stage
from monitor.core.rates.gaps import simultaneous_z

SMALLEST_PART = 0.01
"""Parts below a point are never named: rates are shown to two decimals."""

PARTS = (Stage.EVIDENCE, Stage.SCORE, Stage.THRESHOLD, Stage.UNKNOWN)
"""The parts of a difference; UNKNOWN is the part of the decisions without a score."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The router stage at which a slice diverges from its reference, with all parts.

    Attributes:
        stage: stage with the largest significant part; NONE without any.
        share: its share of all parts, signs ignored; None with NONE and UNKNOWN.
        parts: slice - reference in P(auto_serve), by :data:`PARTS`; they sum to the difference. For
            internal use: never published.
        errors: standard error of each part if its stage were the same in both.
    """

    stage: Stage
    share: Share | None
    parts: tuple[float, ...]
    errors: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """Decisions of each slice by route and score band: counts of what passed the router's stages.

    Attributes:
        through: decisions with evidence by (slice, route, band), auto_serve first, the band without
            a score last; real-valued where they are expected from labels.
        stopped: all other decisions by (slice, route), auto_serve first.
        dispersion: variance per unit of each number in ``through``; 1 where counted.
    """

    through: Floats
    stopped: Floats
    dispersion: Floats

    @classmethod
    def of_decisions(cls, through: npt.ArrayLike, stopped: npt.ArrayLike) -> Passage:
        """Return the passage of counted decisions: with evidence by band, and without."""
        cells = np.asarray(through, np.float64)
        return cls(cells, np.asarray(stopped, np.float64), np.ones_like(cells))

    @classmethod
    def of_ready(cls, decisions: Floats, labelled: Floats, ready: Floats) -> Passage:
        """Return the passage of ready decisions, estimated from labels: the stages of a TPR.

        A cell without labels takes the ready rate of its route. The gate is outside a TPR.

        Args:
            decisions: N_k by (slice, route, rate, band).
            labelled: n_k, at most N_k.
            ready: m_k, at most n_k.
        """
        inside = (-2, -1)
        of_route = divide(
            ready.sum(axis=inside, keepdims=True), labelled.sum(axis=inside, keepdims=True), empty=0
        )
        share = np.where(labelled > 0, divide(ready, labelled), of_route)
        one_sided = (labelled < decisions) & ((ready == 0) | (ready == labelled))
        smooth = np.where(one_sided, (ready + 0.5) / (labelled + 1), share)
        sampling = decisions**2 * smooth * (1 - smooth) / np.maximum(labelled, 1)
        variance = (sampling + decisions * smooth**2).sum(axis=-2)
        dispersion = divide(variance, (decisions * smooth).sum(axis=-2), empty=1)
        expected: Floats = (decisions * share).sum(axis=-2)
        return cls(expected, np.zeros((len(expected), len(Route))), dispersion)

    @property
    def bands(self) -> Floats:
        """Return the decisions with evidence by slice and band, over all routes."""
        total: Floats = self.through.sum(axis=-2)
        return total

    @property
    def sizes(self) -> Floats:
        """Return the decisions with and without evidence, by slice, shape (S, 2)."""
        return np.stack([self.bands.sum(axis=-1), self.stopped.sum(axis=-1)], axis=-1)

    @property
    def scored(self) -> Passage:
        """Return the passage without the band of decisions that have no score."""
        return replace(self, through=self.through[..., :-1], dispersion=self.dispersion[..., :-1])

    @property
    def score_share(self) -> Floats:
        """Return the share of decisions with evidence that have a score, by slice; NaN if none."""
        return divide(self.bands[:, :-1].sum(axis=-1), self.bands.sum(axis=-1))


def diverging_stages(slices: Passage, references: Passage) -> list[Divergence]:
    """Return each slice's divergence from its reference: the stage named, its share, all parts.

    A stage is named if its part exceeds its standard error's simultaneous 95 % bound over the
    parts, and is at least a point; the largest such part wins. It is UNKNOWN for the part of the
    decisions without a score. Where one side has no decisions (in a score band, for example), it
    takes the other's value: no difference is visible there.

    Args:
        slices: passages of the slices.
        references: passages of their references, disjoint from them, with the same bands.
    """
    parts, errors = _parts_and_errors(slices, references)
    sizes = np.abs(parts)
    sure = (sizes > simultaneous_z(parts.shape[1]) * errors) & (sizes >= SMALLEST_PART)
    largest = np.argmax(np.where(sure, sizes, 0), axis=1)
    shares = divide(sizes.max(axis=1, where=sure, initial=0), sizes.sum(axis=1), empty=0)
    columns = (sure.any(axis=1), largest, shares, parts, errors)
    return [
        _divergence(PARTS[part], share, tuple(part_sizes), tuple(part_errors))
        if is_sure
        else Divergence(Stage.NONE, None, tuple(part_sizes), tuple(part_errors))
        for is_sure, part, share, part_sizes, part_errors in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def _divergence(
    stage: Stage, share: float, parts: tuple[float, ...], errors: tuple[float, ...]
) -> Divergence:
    words = None if stage is Stage.UNKNOWN else in_words(share)
    return Divergence(stage, words, parts, errors)


def in_words(share: float) -> Share:
    """Return a share as the words that may be shown: most, about half or some.

    Example:
        >>> [in_words(x).value for x in (0.7, 0.5, 0.1)]
        ['most', 'about half', 'some']
    """
    if share >= 2 / 3:
        return Share.MOST
    return Share.ABOUT_HALF if share >= 1 / 3 else Share.SOME


def _parts_and_errors(slices: Passage, references: Passage) -> tuple[Floats, Floats]:
    """Return the parts of P(auto_serve), slice - reference, and standard errors, (S, 4) each."""
    sides = (slices, references)
    scored, reference_scored = slices.scored, references.scored
    gate, reference_gate = _filled_from_each_other(*(_first_share(side.sizes) for side in sides))
    score, reference_score = _filled_from_each_other(*(side.score_share for side in sides))
    mix, reference_mix = _filled_from_each_other(
        *(_shares(side.bands) for side in (scored, reference_scored))
    )
    all_serve, all_reference_serve = _filled_from_each_other(
        *(_serve_rates(side) for side in sides)
    )
    free, reference_free = _filled_from_each_other(*(_first_share(side.stopped) for side in sides))
    serve, reference_serve = all_serve[:, :-1], all_reference_serve[:, :-1]
    blind, reference_blind = all_serve[:, -1], all_reference_serve[:, -1]
    judged = _sum_bands(reference_mix * reference_serve) - reference_blind
    value = reference_score * judged + reference_blind - reference_free
    reach = gate * score
    has_score = np.append(np.ones(serve.shape[1]), 0.0)
    parts = (
        (gate - reference_gate) * value,
        reach * _sum_bands((mix - reference_mix) * reference_serve),
        reach * _sum_bands(mix * (serve - reference_serve)) + (1 - gate) * (free - reference_free),
        gate * ((score - reference_score) * judged + (1 - score) * (blind - reference_blind)),
    )
    serve_noise = _serve_noise(slices, references)
    noise = (
        value**2 * _share_noise(slices.sizes, references.sizes),
        reach**2 * _mix_noise(scored, reference_scored, reference_serve, reference_serve),
        reach**2 * _sum_bands(mix**2 * serve_noise[:, :-1])
        + (1 - gate) ** 2 * _share_noise(slices.stopped, references.stopped),
        gate**2
        * (
            judged**2 * _mix_noise(slices, references, all_reference_serve, has_score)
            + (1 - score) ** 2 * serve_noise[:, -1]
        ),
    )
    return np.stack(parts, axis=1), np.sqrt(np.stack(noise, axis=1))


def _sum_bands(numbers: Floats) -> Floats:
    total: Floats = numbers.sum(axis=-1)
    return total


def _shares(counts: Floats) -> Floats:
    """Return counts divided by their sum along the last axis; NaN where the sum is 0."""
    return divide(counts, counts.sum(axis=-1, keepdims=True))


def _first_share(counts: Floats) -> Floats:
    """Return the first entry's share along the last axis, by slice; NaN where the sum is 0."""
    return _shares(counts)[..., 0]


def _serve_rates(side: Passage) -> Floats:
    """Return P(auto_serve | band) by slice and band; NaN where a band is empty."""
    return divide(side.through[:, Route.AUTO_SERVE], side.bands)


def _filled_from_each_other(slices: Floats, references: Floats) -> tuple[Floats, Floats]:
    """Return both arrays with NaN replaced by the other's entry, or by 0."""
    return (
        np.where(np.isnan(slices), np.nan_to_num(references), slices),
        np.where(np.isnan(references), np.nan_to_num(slices), references),
    )


def _share_noise(slices: Floats, references: Floats) -> Floats:
    """Return the variance of the difference in first shares if both were equal, by slice."""
    pooled = np.nan_to_num(_first_share(slices + references))
    sizes = slices.sum(axis=-1), references.sum(axis=-1)
    return _noise_of_difference(sizes, [pooled * (1 - pooled)] * 2)


def _serve_noise(slices: Passage, references: Passage) -> Floats:
    """Return the variance of the difference in P(auto_serve | band) if rates were equal."""
    pooled_counts = slices.through + references.through
    pooled = divide(pooled_counts[:, Route.AUTO_SERVE], pooled_counts.sum(axis=1), empty=0)
    # Delta method for a / (a + b): each dispersion is weighted by the share of the other.
    weights = np.stack([1 - pooled, pooled], axis=1)
    spreads = [
        pooled * (1 - pooled) * (weights * side.dispersion).sum(axis=1)
        for side in (slices, references)
    ]
    return _noise_of_difference((slices.bands, references.bands), spreads)


def _mix_noise(slices: Passage, references: Passage, serve: Floats, worth: Floats) -> Floats:
    """Return the variance of (mix - reference mix) @ worth if both mixes were one, by slice.

    Args:
        slices: passages of the slices.
        references: passages of their references.
        serve: P(auto_serve | band), the weight of each route's dispersion.
        worth: value of a decision in each band.
    """
    pooled = np.nan_to_num(_shares(slices.bands + references.bands))
    squares = pooled * (worth - _sum_bands(pooled * worth)[:, None]) ** 2
    weights = np.stack([serve, 1 - serve], axis=1)
    spreads = [
        _sum_bands(squares * (weights * side.dispersion).sum(axis=1))
        for side in (slices, references)
    ]
    return _noise_of_difference((_sum_bands(slices.bands), _sum_bands(references.bands)), spreads)


def _noise_of_difference(sizes: Sequence[Floats], spreads: Sequence[Floats]) -> Floats:
    """Return the variance of a difference of two means; 0 where one side is empty."""
    noise = [divide(spread, size, empty=0) for spread, size in zip(spreads, sizes, strict=True)]
    return np.where((sizes[0] > 0) & (sizes[1] > 0), noise[0] + noise[1], 0)
