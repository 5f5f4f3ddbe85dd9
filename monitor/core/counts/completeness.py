"""Completeness: labels received / labels requested, judged per route x audit rate.

The minimum counts, never the pooled figure: with all of human_review and 5 % of auto_serve
requested, 0.968 is reached without a single audit label back. Score bands are merged. A label
is received, too, when the reviewer could not tell. Only the strata that labelled rates rest on
count (production, evidence passed, auto_serve and human_review).
"""

from __future__ import annotations

import enum
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import DELAY_EDGES_HOURS, MAX_RATES, Counter, Int64s
from monitor.core.counts.rollup import SliceCounts
from monitor.core.counts.strata import REVIEWED_ROUTES, reviewed_columns
from monitor.core.time import HOUR

MATURE = Fraction(19, 20)
"""Completeness at which a cohort's rates may be read: the augmented bet of the sequential test
keeps its bound with 5 % of audits late, and an FPR is off by less than half a point."""

SHOWN_MATURE = Fraction(9, 10)
"""Completeness below which a slice's published rates are called maturing. Hours are closed when
their labels are in to 0.95, all slices together: the share of
one slice scatters around that. Lower ones lack their labels for a reason of their own."""

MIN_REQUESTS = 50
"""Fewer requests say little: two late labels of 25 already look immature."""

MAX_JOINED_HOURS = 24
"""Joining reaches back a day at most: else one lost label of a stratum with a few requests a week
would hold every window back until its horizon has passed."""


MOST_IN = Fraction(1, 4)
"""Completeness from which labels that do not come may be overdue. Below it labelling as a whole
stands still, and will go on: to decide without labels what they will show helps nobody."""

PATIENCE = 2
"""Labels that have not come after so many times their usual delay are overdue."""

_SHORTEST_HOURS = 24.0
"""Delays are what labels say of themselves, and many are delivered once a day."""

_KNOWN_DELAYS = 50
"""Fewer labels of a route say too little of how long labels take."""

_COME = Fraction(49, 50)
"""Share of a route's labels that come within the delay that is typical of it."""


class CohortState(enum.StrEnum):
    """Outcome of the cohort of an hour when its turn came."""

    CONSUMED = "consumed"  # its labels are in, or overdue: the detectors were moved by it
    INCOMPLETE = "incomplete"  # nobody knows any more what was requested: skipped
    EXCLUDED = "excluded"  # its data are known to be bad: skipped


def by_stratum(counts: SliceCounts) -> tuple[Int64s, Int64s]:
    """Labels received and requested per route x audit rate, each of shape (S, R).

    R is fixed (every possible route x rate), so hours with different strata stack. Received
    never exceeds requested: a label that nobody requested does not make up for a missing one.
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


def mature(
    received: Int64s,
    requested: Int64s,
    threshold: Fraction = MATURE,
    *,
    ahead: int = 0,
) -> npt.NDArray[np.bool_]:
    """Flag the mature hourly cohorts: those with the labels of every route x rate back.

    A stratum with under 50 requests in its hour is joined with its preceding hours until 50
    are reached, a day at most. So an hour at night in which it requested nothing is judged by
    the day before it, and a stratum that requested nothing for a day is waited for by nobody.

    Where all cohorts are consumed, one after the other, hours ``ahead`` may be joined as well: a
    stratum is mature, too, where the hours from the first it is joined with to any later one
    are complete together. Some labels never come: of 50 requests with 2 % of labels lost, 3 are
    missing for ever in 8 % of the hours, and with 30 strata nearly every hour would wait for its
    horizon and hold back all that follow. Hours that are younger have fewer labels yet, so they
    only pull the share down: joining them accepts nothing before its time. What stays out is a
    stratum that lacks more than its share for as long as the join may reach.

    Args:
        received: shape (H, R), successive hours, oldest first (:func:`by_stratum`).
        requested: the same shape, not negative.
        threshold: smallest completeness of a mature cohort.
        ahead: hours that may be joined after an hour's own.

    Returns:
        One flag an hour, shape (H,). An hour after a day without requests is mature.

    Example:
        >>> requested = np.full((3, 1), 50)
        >>> received = np.array([[47], [48], [49]])
        >>> mature(received, requested).tolist()
        [False, True, True]
        >>> mature(received, requested, ahead=1).tolist()
        [True, True, True]
    """
    flags = np.ones(len(requested), bool)
    for stratum in np.flatnonzero(requested.any(axis=0)):
        got, asked = received[:, stratum], requested[:, stratum]
        # Whole numbers: hours are complete together when these add up to 0 or more.
        spare = got * threshold.denominator - asked * threshold.numerator
        total = np.concatenate([[0], np.cumsum(spare)])
        flags &= _largest_ahead(total[1:], ahead) >= total[_joined_from(asked)]
    return flags


def usual_delay(delays: Int64s) -> int | None:
    """Time that labels usually take, from the decision on (microseconds).

    Args:
        delays: labels of successive hours by route and delay bucket, shape (routes, buckets).

    Returns:
        The time within which 98 % of the labels had come, on the slowest route (linear inside a
        bucket), and a day at least; None where a route has too few labels to tell, or takes longer
        than all closed buckets.

    Example:
        >>> usual_delay(np.array([[0, 0, 0, 0, 0, 98, 2, 0]])) == 72 * HOUR
        True
        >>> usual_delay(np.array([[100, 0, 0, 0, 0, 0, 0, 0]])) == 24 * HOUR
        True
    """
    longest = _SHORTEST_HOURS if delays.any() else 0.0
    edges = np.array((0, *DELAY_EDGES_HOURS))
    for came in delays[delays.any(axis=1)]:
        wanted, total = float(_COME * int(came.sum())), np.concatenate([[0], np.cumsum(came)])
        if total[-1] < _KNOWN_DELAYS or total[-2] < wanted:
            return None
        longest = max(longest, float(np.interp(wanted, total[:-1], edges)))
    return round(longest * HOUR) or None


def longest_delay(delays: Int64s) -> int:
    """The longest time that any label took, to the end of its bucket, and a day at least.

    Args:
        delays: labels by route and delay bucket, shape (routes, buckets); some are not 0.

    Example:
        >>> longest_delay(np.array([[9, 0, 0, 0, 0, 1, 0, 0]])) == 72 * HOUR
        True
    """
    bucket = int(np.flatnonzero((delays > 0).any(axis=0))[-1])
    ends = (*DELAY_EDGES_HOURS, 2 * DELAY_EDGES_HOURS[-1])  # what is open has no end
    return round(max(_SHORTEST_HOURS, ends[bucket]) * HOUR)


def _joined_from(requested: Int64s) -> Int64s:
    """The first of each hour and the fewest preceding ones that reach :data:`MIN_REQUESTS`."""
    asked = np.concatenate([[0], np.cumsum(requested)])
    start = np.searchsorted(asked, asked[1:] - MIN_REQUESTS, side="right") - 1
    earliest = np.arange(len(requested)) + 1 - MAX_JOINED_HOURS
    return np.maximum(start, np.maximum(earliest, 0))


def _largest_ahead(values: Int64s, ahead: int) -> Int64s:
    """The largest of each value and the next ``ahead`` ones.

    Any run of a block's length ends in the block it begins in, or in the next one: the largest
    is that of a block's end or of a block's beginning.
    """
    length = min(ahead, len(values)) + 1
    padded = np.full((len(values) // length + 2) * length, np.iinfo(np.int64).min)
    padded[: len(values)] = values
    blocks = padded.reshape(-1, length)
    beginnings = np.maximum.accumulate(blocks, axis=1).ravel()
    ends = np.maximum.accumulate(blocks[:, ::-1], axis=1)[:, ::-1].ravel()
    size = len(values)
    return np.maximum(ends[:size], beginnings[length - 1 : length - 1 + size])
