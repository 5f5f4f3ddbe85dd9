"""Post-strata: cells of one label probability, merged until each has enough labels.

Merging depends on numbers of labels, never on their values: merging by outcomes would bias the
rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Counter, Int64s, Route, StratumColumns, decode_strata
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.intervals import Floats, divide

MIN_LABELS = 10
"""Labels that a separate stratum needs: with fewer, its ready rate is often exactly 0 or 1 and
the linearised variance is blind (interval coverage falls below 93 %)."""

REVIEWED_ROUTES = (Route.AUTO_SERVE, Route.HUMAN_REVIEW)
"""Routes of labelled rates, in the order of the axis ``route`` of the arrays below."""

_COLUMNS = (Counter.N, Counter.LABELLED, Counter.READY)


@dataclass(frozen=True, slots=True)
class PostStrata:
    """Strata to estimate from: arrays of shape (route, slot, S); unused slots hold zeros.

    Attributes:
        decisions: N_k, decisions represented by the stratum.
        labelled: n_k, labels; Kish's effective number if audit rates were pooled.
        ready: m_k on the scale of ``labelled``, so that m_k / n_k is the ready rate.
        totals: plain counts (N, labelled, ready) of the routes, shape (3, route, S).
    """

    decisions: Floats
    labelled: Floats
    ready: Floats
    totals: Int64s


def production(counts: SliceCounts) -> npt.NDArray[np.bool_]:
    """Return a mask of shape (K,): True for strata of production traffic, False for probes."""
    return ~decode_strata(counts.strata).probe


def reviewed(counts: SliceCounts) -> npt.NDArray[np.bool_]:
    """Return a mask of shape (K,): True for strata of labelled rates.

    These are production strata with evidence passed that are not blocked.

    The mask is read-only.
    """
    return _reviewed_mask(np.asarray(counts.strata, np.int64).tobytes())


@lru_cache(maxsize=256)  # hours have the same strata, too
def _reviewed_mask(codes: bytes) -> npt.NDArray[np.bool_]:
    """Return the mask of encoded strata that labelled rates use, read-only."""
    mask = is_reviewed(decode_strata(np.frombuffer(codes, np.int64)))
    mask.flags.writeable = False
    return mask


def is_reviewed(strata: StratumColumns) -> npt.NDArray[np.bool_]:
    """Return a mask of decoded strata: True for those that labelled rates use."""
    auto, review = REVIEWED_ROUTES
    of_both = (strata.route == auto) | (strata.route == review)
    return np.asarray(~strata.probe & strata.evidence_passed & of_both, bool)


@lru_cache(maxsize=64)  # the tables of a window have the same strata
def _reviewed_columns(codes: bytes) -> tuple[Int64s, StratumColumns]:
    strata = np.frombuffer(codes, np.int64)
    columns = np.flatnonzero(is_reviewed(decode_strata(strata)))
    columns.flags.writeable = False
    return columns, decode_strata(strata[columns])


def reviewed_columns(counts: SliceCounts) -> tuple[Int64s, StratumColumns]:
    """Return the positions of the strata of labelled rates, and these strata decoded.

    The arrays are read-only.
    """
    return _reviewed_columns(np.asarray(counts.strata, np.int64).tobytes())


def post_strata(counts: SliceCounts, coding: Coding) -> PostStrata:
    """Return strata with enough labels, made by merging score bands and pooling audit rates.

    1. Neighbouring score bands of one route and one audit rate are merged, from the lowest up,
       until each has 10 labels; the rest at the top joins the last merged band. Decisions
       without a score are the topmost band.
    2. A route x rate that still has fewer than 10 labels, and is not completely labelled, is
       pooled with the others of its route, with labels weighted by 1 / rate.
    3. A pool without any label takes the ready rate of the rest of its route, whose strata then
       represent its decisions too. A route without any label stays as the one stratum with
       decisions and no labels: it is not identified.

    Raises:
        ValueError: if a stratum has an audit rate that the coding does not know.
    """
    cells, rates = reviewed_cells(counts)
    if np.any(rates >= len(coding.audit_rates)):
        raise ValueError("a stratum has an audit rate outside the coding's grid")
    weights = 1 / np.asarray(coding.audit_rates)[rates]
    slots = _join_route(_pool_thin(merge_bands(cells), weights))
    totals = cells.sum(axis=(2, 3)).astype(np.int64)
    return PostStrata(slots[0], slots[1], slots[2], totals)


def reviewed_cells(counts: SliceCounts) -> tuple[Floats, Int64s]:
    """Return (N, labelled, ready) x route x rate x band x S, and the grid index of each rate."""
    columns, strata = reviewed_columns(counts)
    rates, rate_of = np.unique(strata.rate, return_inverse=True)
    bands, band_of = np.unique(strata.band, return_inverse=True)
    shape = (3, len(REVIEWED_ROUTES), len(rates), len(bands), len(counts.slices))
    cells = np.zeros(shape)
    values = counts.values[:, columns[:, None], list(_COLUMNS)]
    cells[:, strata.route, rate_of, band_of] = values.transpose(2, 1, 0)
    return _consistent(cells), rates


def _consistent(cells: Floats) -> Floats:
    """Return (N, labelled, ready) changed as little as needed for 0 <= ready <= labelled <= N.

    Labels may be folded a moment before their decisions, because shards have separate cursors; that
    must not give a rate outside [0, 1].
    """
    decisions, labelled, ready = cells
    labelled = np.maximum(labelled, 0)
    ready = np.minimum(np.maximum(ready, 0), labelled)
    return np.array([np.maximum(decisions, labelled), labelled, ready])


def merge_bands(cells: Floats) -> Floats:
    """Return cells with neighbouring bands merged until each has :data:`MIN_LABELS` labels.

    Args:
        cells: (N, labelled, ready) x route x rate x band x S.

    Returns:
        The same shape and the same sums over bands; a merged stratum is in its topmost band, and
        bands merged into another hold zeros. A route x rate with too few labels in all is in the
        last band.
    """
    _, routes, rates, bands, slices = cells.shape
    merged = np.zeros_like(cells)
    open_run = np.zeros((3, routes, rates, slices))
    last = np.full((routes, rates, slices), bands - 1)
    for band in range(bands):
        open_run += cells[:, :, :, band]
        closes = open_run[1] >= MIN_LABELS
        np.copyto(merged[:, :, :, band], open_run, where=closes)
        np.copyto(open_run, 0, where=closes)
        np.copyto(last, band, where=closes)
    for band in range(bands):
        merged[:, :, :, band] += np.where(last == band, open_run, 0)
    return merged


def _pool_thin(merged: Floats, weights: Floats) -> Floats:
    """Return slots per route: strata labelled enough or fully, then a pool of the other rates."""
    families = merged.sum(axis=3)
    thin = (families[1] < MIN_LABELS) & (families[1] < families[0])
    pool = _pool_rates(np.where(thin, families, 0), weights)
    kept = np.where(thin[:, :, None], 0, merged)
    _, routes, rates, bands, slices = kept.shape
    return np.concatenate(
        [kept.reshape(3, routes, rates * bands, slices), pool[:, :, None]], axis=2
    )


def _pool_rates(families: Floats, weights: Floats) -> Floats:
    """Return one pool per route: decisions, Kish's effective labels, and ready on their scale.

    A label at audit rate r represents 1 / r decisions. So the pooled ready rate is sum(w m) / sum(w
    n), with (sum w n)^2 / sum(w^2 n) effective labels (Kish 1965).
    """
    decisions, labelled, ready = families
    weighted = np.einsum("r,ars->as", weights, labelled)
    effective = divide(weighted**2, np.einsum("r,ars->as", weights**2, labelled), empty=0)
    share = divide(np.einsum("r,ars->as", weights, ready), weighted, empty=0)
    return np.array([decisions.sum(axis=1), effective, effective * share])


def _join_route(slots: Floats) -> Floats:
    """Return slots where the labelled strata of a route also represent its pool without labels.

    The pool is the last slot.
    """
    rest, pool = slots[0, :, :-1].sum(axis=1), slots[0, :, -1]
    joins = (slots[1, :, -1] == 0) & (pool > 0) & (rest > 0)
    decisions = slots[0] * np.where(joins, divide(rest + pool, rest, empty=1), 1)[:, None]
    decisions[:, -1] = np.where(joins, 0, pool)
    return np.array([decisions, slots[1], slots[2]])
