"""At which stage of the router a slice and its reference part.

A decision passes three stages: the evidence gate lets it through with probability g, the judge
puts it into score band b with probability h_b, and the threshold (whatever chooses the route then)
serves it with probability t_b; f is served although the gate did not let it through. So

    P(auto_serve) = g sum_b h_b t_b + (1 - g) f

The difference of two slices is split by replacing the reference's stages with the slice's one
after the other **in the order of the pipeline**: what the gate alone would do to the reference's
traffic, then the judge on top, then the threshold. The three parts add up to the difference
exactly. The order is a choice, made because a later stage only sees what an earlier one lets
through; an average over orders would mix parts that never happened.

Of all decisions (:meth:`Passage.of_decisions`) this splits the difference in selection rates, and
other scores may be other requests. Of the ready ones (:meth:`Passage.of_ready`) it splits the
difference in TPRs: there the gate has no part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.annotations import Share, Stage
from monitor.core.cells import Counter, Int64s, Route, decode_strata
from monitor.core.gaps import simultaneous_z
from monitor.core.intervals import Floats, divide
from monitor.core.rollup import SliceCounts
from monitor.core.strata import REVIEWED_ROUTES, production

SMALLEST_PART = 0.01
"""Parts below a point are never named: rates are shown to two decimals."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a slice and its reference part.

    Attributes:
        stage: the one with the largest part among those that are sure; NONE without.
        share: of all parts, signs left out; None with NONE.
        parts: slice - reference in P(auto_serve), by stage in order; they add up to the
            difference. For use inside only: never published.
        errors: standard error of each part if its stage were the same in both.
    """

    stage: Stage
    share: Share | None
    parts: tuple[float, float, float]
    errors: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Passage:
    """How the decisions of one side went through the stages.

    Attributes:
        through: decisions with evidence by (route, band), auto_serve first; real-valued where
            they are expected from labels.
        stopped: all other decisions by route, auto_serve first.
        dispersion: variance of each number in ``through``, for each unit of it; 1 where counted.
    """

    through: Floats
    stopped: Floats
    dispersion: Floats

    @classmethod
    def of_decisions(cls, through: npt.ArrayLike, stopped: npt.ArrayLike) -> Passage:
        """All decisions of one slice, as :func:`stage_counts` gives them."""
        cells = np.asarray(through, np.float64)
        return cls(cells, np.asarray(stopped, np.float64), np.ones_like(cells))

    @classmethod
    def of_ready(cls, decisions: Int64s, labelled: Int64s, ready: Int64s) -> Passage:
        """The ready decisions of one slice, expected from its labels: the stages of a TPR.

        A cell without labels takes the ready rate of its route. The gate is outside a TPR.

        Args:
            decisions: N_k by (route, rate, band).
            labelled: n_k, at most N_k.
            ready: m_k, at most n_k.
        """
        of_route = divide(ready.sum(axis=(1, 2)), labelled.sum(axis=(1, 2)), empty=0)
        share = np.where(labelled > 0, divide(ready, labelled), of_route[:, None, None])
        one_sided = (labelled < decisions) & ((ready == 0) | (ready == labelled))
        smooth = np.where(one_sided, (ready + 0.5) / (labelled + 1), share)
        sampling = decisions**2 * smooth * (1 - smooth) / np.maximum(labelled, 1)
        variance = (sampling + decisions * smooth**2).sum(axis=1)
        dispersion = divide(variance, (decisions * smooth).sum(axis=1), empty=1)
        expected: Floats = (decisions * share).sum(axis=1)
        return cls(expected, np.zeros(len(Route)), dispersion)

    @property
    def bands(self) -> Floats:
        """Decisions with evidence by band."""
        total: Floats = self.through.sum(axis=0)
        return total


def diverging_stage(slice_: Passage, reference: Passage) -> Divergence:
    """Which stage makes a slice and its reference part.

    A stage is named if its part is beyond its standard error's simultaneous 95 % bound over the
    three stages, and a point at least; of several the largest. What one side has no decisions
    for (a score band, say) is taken from the other: no difference can be seen there.

    Args:
        slice_: one side.
        reference: what it is compared with, disjoint from it, with the same bands.
    """
    parts, errors = _parts(slice_, reference)
    sure = (np.abs(parts) > simultaneous_z(len(parts)) * errors) & (np.abs(parts) >= SMALLEST_PART)
    first, second, third = parts.tolist()
    found = (first, second, third), tuple(errors.tolist())
    if not sure.any():
        return Divergence(Stage.NONE, None, *found)
    largest = int(np.argmax(np.where(sure, np.abs(parts), 0)))
    share = abs(parts[largest]) / np.abs(parts).sum()
    return Divergence(tuple(Stage)[largest], in_words(share), *found)


def in_words(share: float) -> Share:
    """A share as it may be shown.

    Example:
        >>> [in_words(x).value for x in (0.7, 0.5, 0.1)]
        ['most', 'about half', 'some']
    """
    if share >= 2 / 3:
        return Share.MOST
    return Share.ABOUT_HALF if share >= 1 / 3 else Share.SOME


def stage_counts(counts: SliceCounts, bands: int) -> tuple[Int64s, Int64s]:
    """Production decisions that passed the gate, (S, 2, bands), and that did not, (S, 3).

    The gate stops what is blocked and what has no evidence.
    """
    strata = decode_strata(counts.strata)
    inside = production(counts)
    passed = inside & strata.evidence_passed & np.isin(strata.route, REVIEWED_ROUTES)
    decisions = np.maximum(counts.values[:, :, Counter.N], 0)
    through = np.zeros((len(REVIEWED_ROUTES), bands, len(counts.slices)), np.int64)
    np.add.at(through, (strata.route[passed], strata.band[passed]), decisions[:, passed].T)
    rest = inside & ~passed
    stopped = np.zeros((len(Route), len(counts.slices)), np.int64)
    np.add.at(stopped, strata.route[rest], decisions[:, rest].T)
    return np.moveaxis(through, -1, 0), stopped.T


def _parts(mine: Passage, theirs: Passage) -> tuple[Floats, Floats]:
    """The three parts of slice - reference, and their errors if the stage were the same."""
    gates = [np.array([side.bands.sum(), side.stopped.sum()]) for side in (mine, theirs)]
    gate, their_gate = (side[0] for side in _either(*(_shares(x) for x in gates)))
    mix, their_mix = _either(_shares(mine.bands), _shares(theirs.bands))
    serve, their_serve = _either(*(_shares(side.through)[0] for side in (mine, theirs)))
    free, their_free = _either(*(_shares(side.stopped)[0] for side in (mine, theirs)))
    value = their_mix @ their_serve - their_free
    parts = (
        (gate - their_gate) * value,
        gate * ((mix - their_mix) @ their_serve),
        gate * (mix @ (serve - their_serve)) + (1 - gate) * (free - their_free),
    )
    noise = (
        value**2 * _binary_noise(*gates),
        gate**2 * _mix_noise(mine, theirs, their_serve),
        gate**2 * (mix**2 @ _route_noise(mine, theirs))
        + (1 - gate) ** 2 * _binary_noise(mine.stopped, theirs.stopped),
    )
    return np.array(parts, np.float64), np.sqrt(np.array(noise, np.float64))


def _shares(counts: Floats) -> Floats:
    """Shares along the first axis; NaN where there is nothing."""
    return divide(counts, counts.sum(axis=0, keepdims=True))


def _either(mine: Floats, theirs: Floats) -> tuple[Floats, Floats]:
    """Both; what is unknown on one side is taken from the other, or is 0."""
    return (
        np.where(np.isnan(mine), np.nan_to_num(theirs), mine),
        np.where(np.isnan(theirs), np.nan_to_num(mine), theirs),
    )


def _one_band(counts: Floats) -> Passage:
    """The first against the rest, as the routes of a single band."""
    return Passage.of_decisions([[counts[0]], [counts[1:].sum()]], np.zeros(len(Route)))


def _binary_noise(mine: Floats, theirs: Floats) -> float:
    return float(_route_noise(_one_band(mine), _one_band(theirs))[0])


def _route_noise(mine: Passage, theirs: Passage) -> Floats:
    """Variance of the difference in P(auto_serve | band) if it were one rate, by band.

    0 where one side has no decisions: there the rates are made equal.
    """
    pooled = divide(mine.through[0] + theirs.through[0], mine.bands + theirs.bands, empty=0)
    noise = np.zeros_like(pooled)
    for side in (mine, theirs):
        auto, review = side.dispersion
        spread = pooled * (1 - pooled) * ((1 - pooled) * auto + pooled * review)
        noise += divide(spread, side.bands, empty=0)
    return np.where((mine.bands > 0) & (theirs.bands > 0), noise, 0)


def _mix_noise(mine: Passage, theirs: Passage, serve: Floats) -> float:
    """Variance of (mix - their mix) @ serve if the score bands had one distribution."""
    sizes = [side.bands.sum() for side in (mine, theirs)]
    if not all(sizes):
        return 0.0
    pooled = (mine.bands + theirs.bands) / sum(sizes)
    squares = pooled * (serve - pooled @ serve) ** 2
    noise = 0.0
    for side, size in zip((mine, theirs), sizes, strict=True):
        auto, review = side.dispersion
        noise += float(squares @ (serve * auto + (1 - serve) * review)) / size
    return noise
