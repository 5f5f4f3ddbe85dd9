"""Tables of counts for tests, written as people would: slice, stratum, what was counted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import COUNTERS, MAX_RATES, Counter, Int64s, Route, Stratum
from monitor.core.counts.rollup import SliceCounts
from monitor.core.counts.strata import REVIEWED_ROUTES, reviewed_columns
from monitor.core.intervals import Floats, divide

Cell = Mapping[Counter, int]


def counted(n: int, labelled: int = 0, ready: int = 0, **more: int) -> Cell:
    """A cell: N decisions, labelled, labelled ready; others by name (``q=50``)."""
    cell = {Counter.N: n, Counter.LABELLED: labelled, Counter.READY: ready}
    return cell | {Counter[name.upper()]: value for name, value in more.items()}


def slice_counts(slices: Mapping[str, Mapping[Stratum, Cell]]) -> SliceCounts:
    """The table of these slices; a stratum that a slice does not name holds zeros there."""
    names = tuple(sorted(slices))
    codes = sorted({stratum.code for cells in slices.values() for stratum in cells})
    values = np.zeros((len(names), len(codes), COUNTERS), np.int64)
    for row, name in enumerate(names):
        for stratum, cell in slices[name].items():
            for counter, value in cell.items():
                values[row, codes.index(stratum.code), counter] += value
    return SliceCounts(names, np.array(codes, np.int64), values)


def auto(band: int = 2, rate: int = 8) -> Stratum:
    """An auto_serve stratum; sampled unless told otherwise."""
    return Stratum(Route.AUTO_SERVE, band, rate)


def review(band: int = 0, rate: int = 0) -> Stratum:
    """A human_review stratum; everything is labelled unless told otherwise."""
    return Stratum(Route.HUMAN_REVIEW, band, rate)


def blocked(band: int = 0, rate: int = 0, *, evidence_passed: bool = False) -> Stratum:
    """A blocked_by_evidence stratum."""
    return Stratum(Route.BLOCKED_BY_EVIDENCE, band, rate, evidence_passed)


def simulate(
    rng: np.random.Generator,
    shares: npt.NDArray[np.float64],
    decisions: int,
    windows: int,
    audit_rate: float,
) -> SliceCounts:
    """Windows of one router as slices: all of human_review and some of auto_serve labelled.

    Args:
        rng: source of chance.
        shares: P(ready, band, route), shape (2, bands, 2), first axis not ready / ready.
        decisions: N of each window.
        windows: number of windows.
        audit_rate: probability that an auto_serve decision is labelled.
    """
    truth = rng.multinomial(decisions, shares.ravel(), size=windows)
    truth = truth.reshape(windows, *shares.shape)
    labelled = truth.copy()
    labelled[..., Route.AUTO_SERVE] = rng.binomial(truth[..., Route.AUTO_SERVE], audit_rate)
    strata = [
        (route, band)
        for route in (Route.AUTO_SERVE, Route.HUMAN_REVIEW)
        for band in range(shares.shape[1])
    ]
    values = np.zeros((windows, len(strata), COUNTERS), np.int64)
    for column, (route, band) in enumerate(strata):
        values[:, column, Counter.N] = truth[:, :, band, route].sum(axis=1)
        values[:, column, Counter.LABELLED] = labelled[:, :, band, route].sum(axis=1)
        values[:, column, Counter.READY] = labelled[:, 1, band, route]
    codes = [
        Stratum(route, band, 8 if route is Route.AUTO_SERVE else 0).code for route, band in strata
    ]
    return SliceCounts(tuple(f"w={i}" for i in range(windows)), np.array(codes, np.int64), values)


def completeness(counts: SliceCounts) -> Floats:
    """Smallest received / requested over route x audit rate, shape (S,).

    NaN where nothing was requested; 0 where some stratum's labels are all missing.
    """
    received, requested = by_stratum(counts)
    share = divide(received, requested, empty=np.inf).min(axis=1)
    return np.where(np.isinf(share), np.nan, share)


def by_stratum(counts: SliceCounts) -> tuple[Int64s, Int64s]:
    """Return labels received and requested per route x audit rate, each of shape (S, R).

    R is fixed (every possible route x rate), so that hours with different strata stack. Received
    never exceeds requested: an unrequested label does not make up for a missing one.
    """
    columns, strata = reviewed_columns(counts)
    values = counts.values[:, columns]
    shape = (len(REVIEWED_ROUTES) * MAX_RATES, len(counts.slices))
    position = strata.route * MAX_RATES + strata.rate
    received, requested = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    np.add.at(requested, position, values[:, :, Counter.Q].T)
    answers = values[:, :, Counter.LABELLED] + values[:, :, Counter.UNDECIDABLE]
    np.add.at(received, position, answers.T)
    return np.minimum(received, requested).T, requested.T
