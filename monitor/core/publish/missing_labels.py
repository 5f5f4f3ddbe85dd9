"""Worst case of missing or wrong labels: how far off a slice's TPR or FPR may be.

Rates assume that missing labels are like the others of their stratum. If reviewers skip the hard
cases, that is wrong, and no interval shows it. But if at most a share m of a route's labels is
missing, in any score band, then its ready decisions are at most m of the route off. With A, H the
estimated ready decisions of ``auto_serve`` and ``human_review``, and N_A, N_H all decisions there:

    (A - m N_A) / (A - m N_A + H + m N_H)  <=  TPR  <=  (A + m N_A) / (A + m N_A + H - m N_H)

where each part is cut to the possible range, 0 to N; the FPR likewise with decisions that are not
ready.

Source: Manski (1989), Journal of Human Resources 24 (worst-case bounds under nonresponse).
"""

from __future__ import annotations


def possible_range(
    rate: float, miss_rate: float, share: float, complete: float
) -> tuple[float, float]:
    """Return the smallest and largest served share of the hits, for any missing labels.

    Args:
        rate: P(auto_serve | hit) by the present labels.
        miss_rate: P(auto_serve | no hit) by the present labels.
        share: share of the hits among all decisions.
        complete: share of present labels on each route.
    """
    served, held_back = rate * share, (1 - rate) * share
    route = served + miss_rate * (1 - share)
    missing_served, missing_held = (1 - complete) * route, (1 - complete) * (1 - route)
    least, most = max(served - missing_served, 0.0), min(served + missing_served, route)
    least_held, most_held = (
        max(held_back - missing_held, 0.0),
        min(held_back + missing_held, 1 - route),
    )
    return (
        _divide(least, least + most_held, empty=0.0),
        _divide(most, most + least_held, empty=1.0),
    )


def rate_if_wrong(rate: float, miss_rate: float, share: float, wrong: float) -> float:
    """Return the served share of the hits if a share of all labels is wrong, on either route.

    Args:
        rate: as in :func:`possible_range`, like the next two.
        miss_rate: P(auto_serve | no hit).
        share: share of the hits.
        wrong: share of wrong labels, alike on both routes and of both answers, below 1/2.

    Source: Rogan and Gladen (1978), American Journal of Epidemiology 107.
    """
    served, held_back = rate * share, (1 - rate) * share
    route = served + miss_rate * (1 - share)
    hits, held = max(served - wrong * route, 0.0), max(held_back - wrong * (1 - route), 0.0)
    return _divide(hits, hits + held, empty=rate)


def _divide(part: float, total: float, empty: float) -> float:
    return part / total if total > 0 else empty
