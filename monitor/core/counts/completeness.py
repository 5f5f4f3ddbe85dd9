"""Completeness: labels received / labels requested, judged per route x audit rate.

The minimum counts, not the pooled figure: with all of human_review and 5 % of auto_serve
requested, the pooled figure reaches 0.968 without a single audit label. Score bands are merged.
Labels of reviewers who could not tell also count as received. Only the strata of labelled rates
count (production, evidence passed, auto_serve and human_review).
"""

from __future__ import annotations

import enum
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import DELAY_EDGES_HOURS, Int64s
from monitor.core.time import HOUR

MATURE = Fraction(19, 20)
"""Completeness from which a cohort's rates may be used: the augmented bet of the sequential test
keeps its bound with 5 % of audits late, and an FPR is off by less than half a point."""

SHOWN_MATURE = Fraction(9, 10)
"""Completeness below which published rates of a slice are called maturing. An hour is closed when
0.95 of the labels of all slices are in, and the shares of slices scatter around that. A lower share
has a cause within the slice."""

MIN_REQUESTS = 50
"""Fewest requests to judge: two late labels of 25 would already look immature."""

MAX_JOINED_HOURS = 24
"""Longest join of hours. Without it, one lost label of a stratum with a few requests per week would
hold every window back until its horizon has passed."""


MOST_IN = Fraction(1, 2)
"""Completeness from which missing labels are overdue after their usual delay. So a slice that
nobody labels any more, even with half of the traffic, makes the tests of no other slice later."""

SOME_IN = Fraction(1, 4)
"""Completeness from which missing labels are overdue after twice their usual delay. Below it all
labelling stands still, and will go on later, so that deciding without its labels would help
nobody."""

_SHORTEST_HOURS = 24.0
"""Shortest usual delay: labels state their own delays, and many are delivered once a day."""

_KNOWN_DELAYS = 50
"""Fewest labels of a route to know its usual delay."""

_COME = Fraction(49, 50)
"""Share of a route's labels that come within its usual delay."""


class CohortState(enum.StrEnum):
    """State of an hour's cohort after its turn: consumed by the detectors, or skipped."""

    CONSUMED = "consumed"  # its labels are in or overdue: the detectors consumed it
    INCOMPLETE = "incomplete"  # its requests are no longer known: skipped
    EXCLUDED = "excluded"  # its data are declared bad: skipped


def mature(
    received: Int64s, requested: Int64s, threshold: Fraction = MATURE, *, ahead: int = 0
) -> npt.NDArray[np.bool_]:
    """Return one flag per hour: True if enough labels of every route x rate have come.

    A stratum with under 50 requests in its hour is joined with its preceding hours until 50
    are reached, at most a day. So an hour at night without requests is judged by the day before
    it, and nothing waits for a stratum that requested nothing for a day.

    If all cohorts are consumed in order, hours ``ahead`` may be joined as well: a stratum is also
    mature if the hours from the first joined one to any later one are complete together. This is
    needed because some labels never come: of 50 requests with 2 % of labels lost, 3 are missing
    for ever in 8 % of the hours. With 30 strata nearly every hour would wait for its horizon and
    hold back all that follow. Younger hours have fewer labels, so joining them only lowers the
    share and accepts nothing too early. A stratum stays immature while it lacks more than its
    share over the whole reach of the join.

    Args:
        received: labels per hour and route x audit rate, shape (H, R), oldest hour first.
        requested: the same shape, not negative.
        threshold: smallest completeness of a mature cohort.
        ahead: hours that may be joined after an hour's own.

    Returns:
        One flag per hour, shape (H,). An hour after a day without requests is mature.

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
        received_labels, requested_labels = received[:, stratum], requested[:, stratum]
        # Integers: hours are complete together when these add up to 0 or more.
        spare = received_labels * threshold.denominator - requested_labels * threshold.numerator
        total = np.concatenate([[0], np.cumsum(spare)])
        flags &= _largest_ahead(total[1:], ahead) >= total[_first_joined_hours(requested_labels)]
    return flags


def usual_delay(delays: Int64s) -> int | None:
    """Return the microseconds within which 98 % of labels come on the slowest route, or None.

    Args:
        delays: labels of successive hours by route and delay bucket, shape (routes, buckets).

    Returns:
        The time within which 98 % of the labels came on the slowest route (linear inside a
        bucket), at least a day; None if a route has too few labels, or takes longer than all
        closed buckets.

    Example:
        >>> usual_delay(np.array([[0, 0, 0, 0, 0, 98, 2, 0]])) == 72 * HOUR
        True
        >>> usual_delay(np.array([[100, 0, 0, 0, 0, 0, 0, 0]])) == 24 * HOUR
        True
    """
    longest = _SHORTEST_HOURS if delays.any() else 0.0
    edges = np.array((0, *DELAY_EDGES_HOURS))
    for label_counts in delays[delays.any(axis=1)]:
        needed, total = (
            float(_COME * int(label_counts.sum())),
            np.concatenate([[0], np.cumsum(label_counts)]),
        )
        if total[-1] < _KNOWN_DELAYS or total[-2] < needed:
            return None
        longest = max(longest, float(np.interp(needed, total[:-1], edges)))
    return round(longest * HOUR) or None


def longest_delay(delays: Int64s) -> int:
    """Return the longest delay of any label (microseconds), to its bucket's end, at least a day.

    Args:
        delays: labels by route and delay bucket, shape (routes, buckets); some are not 0.

    Example:
        >>> longest_delay(np.array([[9, 0, 0, 0, 0, 1, 0, 0]])) == 72 * HOUR
        True
    """
    bucket = int(np.flatnonzero((delays > 0).any(axis=0))[-1])
    ends = (*DELAY_EDGES_HOURS, 2 * DELAY_EDGES_HOURS[-1])  # the open bucket has no end
    return round(max(_SHORTEST_HOURS, ends[bucket]) * HOUR)


def _first_joined_hours(requested: Int64s) -> Int64s:
    """Return, per hour, the latest start from which :data:`MIN_REQUESTS` came, within a day."""
    cumulated = np.concatenate([[0], np.cumsum(requested)])
    start = np.searchsorted(cumulated, cumulated[1:] - MIN_REQUESTS, side="right") - 1
    earliest = np.arange(len(requested)) + 1 - MAX_JOINED_HOURS
    return np.maximum(start, np.maximum(earliest, 0))


def _largest_ahead(values: Int64s, ahead: int) -> Int64s:
    """Return, for each value, the largest of it and the next ``ahead`` values.

    A run of a block's length ends in its first block or in the next one. So the largest value is
    that of a block's end or of a block's beginning.
    """
    length = min(ahead, len(values)) + 1
    padded = np.full((len(values) // length + 2) * length, np.iinfo(np.int64).min)
    padded[: len(values)] = values
    blocks = padded.reshape(-1, length)
    beginnings = np.maximum.accumulate(blocks, axis=1).ravel()
    ends = np.maximum.accumulate(blocks[:, ::-1], axis=1)[:, ::-1].ravel()
    size = len(values)
    return np.maximum(ends[:size], beginnings[length - 1 : length - 1 + size])
