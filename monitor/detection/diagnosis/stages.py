"""Diverging stages: the stages of the router at which slices and their references diverge.

A decision passes three stages: the evidence gate lets it through with probability g, the judge
puts it into score band b with probability h_b, and the threshold (whatever chooses the route then)
serves it with probability t_b; f is served although the gate did not let it through. So

    P(auto_serve) = g (s sum_b h_b t_b + (1 - s) u) + (1 - g) f

where a share s of them has a score, and u of those without one are served. The difference of two
slices is split by replacing the reference's stages with the slice's one after the other **in the
order of the pipeline**: what the gate alone would do to the reference's traffic, then the judge on
top, then the threshold. What decisions without a score contribute is a part of its own, of which no
stage can be told. The parts add up to the difference exactly. The order is a choice, made because a
later stage only sees what an earlier one lets through; an average over orders would mix parts that
never happened.

Of all decisions (:meth:`Passage.of_decisions`) this splits the difference in selection rates, and
other scores may be other requests. Of the ready ones (:meth:`Passage.of_ready`) it splits the
difference in TPRs: there the gate has no part.
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
"""What a difference is split into; UNKNOWN is the part of the decisions without a score."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """Divergence of a slice from its reference in the router.

    Attributes:
        stage: the one with the largest part among the significant ones; NONE without.
        share: of all parts, signs left out; None with NONE and UNKNOWN.
        parts: slice - reference in P(auto_serve), by :data:`PARTS`; they add up to the
            difference. For use inside only: never published.
        errors: standard error of each part if its stage were the same in both.
    """

    stage: Stage
    share: Share | None
    parts: tuple[float, ...]
    errors: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """Passage of the decisions of each slice through the stages.

    Attributes:
        through: decisions with evidence by (slice, route, band), auto_serve first, and those
            without a score last; real-valued where they are expected from labels.
        stopped: all other decisions by (slice, route), auto_serve first.
        dispersion: variance of each number in ``through``, for each unit of it; 1 where counted.
    """

    through: Floats
    stopped: Floats
    dispersion: Floats

    @classmethod
    def of_decisions(cls, through: npt.ArrayLike, stopped: npt.ArrayLike) -> Passage:
        """All decisions: with evidence by (slice, route, band), the others by (slice, route)."""
        cells = np.asarray(through, np.float64)
        return cls(cells, np.asarray(stopped, np.float64), np.ones_like(cells))

    @classmethod
    def of_ready(cls, decisions: Floats, labelled: Floats, ready: Floats) -> Passage:
        """The ready decisions, expected from labels: the stages of a TPR.

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
        """Decisions with evidence by (slice, band)."""
        total: Floats = self.through.sum(axis=-2)
        return total

    @property
    def sizes(self) -> Floats:
        """Decisions with evidence, and those without, by slice: shape (S, 2)."""
        return np.stack([self.bands.sum(axis=-1), self.stopped.sum(axis=-1)], axis=-1)

    @property
    def scored(self) -> Passage:
        """The same of decisions with a score alone."""
        return replace(self, through=self.through[..., :-1], dispersion=self.dispersion[..., :-1])

    @property
    def score_share(self) -> Floats:
        """Share of the decisions with evidence that have a score, by slice; NaN without any."""
        return divide(self.bands[:, :-1].sum(axis=-1), self.bands.sum(axis=-1))


def diverging_stages(slices: Passage, references: Passage) -> list[Divergence]:
    """Name the stage at which each slice and its reference diverge.

    A stage is named if its part is beyond its standard error's simultaneous 95 % bound over the
    parts, and a point at least; of several the largest. It is UNKNOWN if that is the part of the
    decisions without a score. What one side has no decisions for (a score band, say) is taken
    from the other: no difference can be seen there.

    Args:
        slices: one side.
        references: what each is compared with, disjoint from it, with the same bands.
    """
    parts, errors = _parts(slices, references)
    sizes = np.abs(parts)
    sure = (sizes > simultaneous_z(parts.shape[1]) * errors) & (sizes >= SMALLEST_PART)
    largest = np.argmax(np.where(sure, sizes, 0), axis=1)
    shares = divide(sizes.max(axis=1, where=sure, initial=0), sizes.sum(axis=1), empty=0)
    columns = (sure.any(axis=1), largest, shares, parts, errors)
    return [
        _named(PARTS[at], share, tuple(mine), tuple(noise))
        if named
        else Divergence(Stage.NONE, None, tuple(mine), tuple(noise))
        for named, at, share, mine, noise in zip(*(x.tolist() for x in columns), strict=True)
    ]


def _named(
    stage: Stage, share: float, parts: tuple[float, ...], errors: tuple[float, ...]
) -> Divergence:
    words = None if stage is Stage.UNKNOWN else in_words(share)
    return Divergence(stage, words, parts, errors)


def in_words(share: float) -> Share:
    """A share as it may be shown.

    Example:
        >>> [in_words(x).value for x in (0.7, 0.5, 0.1)]
        ['most', 'about half', 'some']
    """
    if share >= 2 / 3:
        return Share.MOST
    return Share.ABOUT_HALF if share >= 1 / 3 else Share.SOME


def _parts(mine: Passage, theirs: Passage) -> tuple[Floats, Floats]:
    """The parts of slice - reference, and their errors if the stage were the same: (S, 4)."""
    sides = (mine, theirs)
    scored, their_scored = mine.scored, theirs.scored
    gate, their_gate = _either(*(_first_share(side.sizes) for side in sides))
    score, their_score = _either(*(side.score_share for side in sides))
    mix, their_mix = _either(*(_shares(side.bands) for side in (scored, their_scored)))
    all_serve, all_their_serve = _either(*(_serve(side) for side in sides))
    free, their_free = _either(*(_first_share(side.stopped) for side in sides))
    serve, their_serve = all_serve[:, :-1], all_their_serve[:, :-1]
    blind, their_blind = all_serve[:, -1], all_their_serve[:, -1]
    judged = _sum_bands(their_mix * their_serve) - their_blind
    value = their_score * judged + their_blind - their_free
    reach = gate * score
    has_score = np.append(np.ones(serve.shape[1]), 0.0)
    parts = (
        (gate - their_gate) * value,
        reach * _sum_bands((mix - their_mix) * their_serve),
        reach * _sum_bands(mix * (serve - their_serve)) + (1 - gate) * (free - their_free),
        gate * ((score - their_score) * judged + (1 - score) * (blind - their_blind)),
    )
    serve_noise = _serve_noise(mine, theirs)
    noise = (
        value**2 * _share_noise(mine.sizes, theirs.sizes),
        reach**2 * _mix_noise(scored, their_scored, their_serve, their_serve),
        reach**2 * _sum_bands(mix**2 * serve_noise[:, :-1])
        + (1 - gate) ** 2 * _share_noise(mine.stopped, theirs.stopped),
        gate**2
        * (
            judged**2 * _mix_noise(mine, theirs, all_their_serve, has_score)
            + (1 - score) ** 2 * serve_noise[:, -1]
        ),
    )
    return np.stack(parts, axis=1), np.sqrt(np.stack(noise, axis=1))


def _sum_bands(numbers: Floats) -> Floats:
    total: Floats = numbers.sum(axis=-1)
    return total


def _shares(counts: Floats) -> Floats:
    """Shares along the last axis; NaN where there is nothing."""
    return divide(counts, counts.sum(axis=-1, keepdims=True))


def _first_share(counts: Floats) -> Floats:
    """Share of the first in all, by slice; NaN where there is nothing."""
    return _shares(counts)[..., 0]


def _serve(side: Passage) -> Floats:
    """P(auto_serve | band)."""
    return divide(side.through[:, Route.AUTO_SERVE], side.bands)


def _either(mine: Floats, theirs: Floats) -> tuple[Floats, Floats]:
    """Both; what is unknown on one side is taken from the other, or is 0."""
    return (
        np.where(np.isnan(mine), np.nan_to_num(theirs), mine),
        np.where(np.isnan(theirs), np.nan_to_num(mine), theirs),
    )


def _share_noise(mine: Floats, theirs: Floats) -> Floats:
    """Variance of the difference in the first share if it were one, by slice."""
    pooled = np.nan_to_num(_first_share(mine + theirs))
    sizes = mine.sum(axis=-1), theirs.sum(axis=-1)
    return _of_both(sizes, [pooled * (1 - pooled)] * 2)


def _serve_noise(mine: Passage, theirs: Passage) -> Floats:
    """Variance of the difference in P(auto_serve | band) if it were one rate, (S, bands)."""
    both = mine.through + theirs.through
    pooled = divide(both[:, Route.AUTO_SERVE], both.sum(axis=1), empty=0)
    # Of a / (a + b), by the delta method: each dispersion weighs by the share of the other.
    weights = np.stack([1 - pooled, pooled], axis=1)
    spreads = [
        pooled * (1 - pooled) * (weights * side.dispersion).sum(axis=1) for side in (mine, theirs)
    ]
    return _of_both((mine.bands, theirs.bands), spreads)


def _mix_noise(mine: Passage, theirs: Passage, serve: Floats, worth: Floats) -> Floats:
    """Variance of (mix - their mix) @ worth if the bands had one distribution, by slice.

    Args:
        mine: one side.
        theirs: the other.
        serve: P(auto_serve | band), which says how much the dispersion of each route weighs.
        worth: what a decision in each band counts.
    """
    pooled = np.nan_to_num(_shares(mine.bands + theirs.bands))
    squares = pooled * (worth - _sum_bands(pooled * worth)[:, None]) ** 2
    weights = np.stack([serve, 1 - serve], axis=1)
    spreads = [
        _sum_bands(squares * (weights * side.dispersion).sum(axis=1)) for side in (mine, theirs)
    ]
    return _of_both((_sum_bands(mine.bands), _sum_bands(theirs.bands)), spreads)


def _of_both(sizes: Sequence[Floats], spreads: Sequence[Floats]) -> Floats:
    """Variance of a difference of means; 0 where one side is empty: it takes the other's mean."""
    noise = [divide(spread, size, empty=0) for spread, size in zip(spreads, sizes, strict=True)]
    return np.where((sizes[0] > 0) & (sizes[1] > 0), noise[0] + noise[1], 0)
