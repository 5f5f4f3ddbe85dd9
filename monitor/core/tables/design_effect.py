"""Design effect of units: how many decisions are worth one where requests of a unit are alike.

With n_u decisions of unit u among N of a day, s_u of them on auto_serve, and the share p served::

    E = 1 + likeness sum_u n_u (n_u - 1) / N
    likeness = sum of (x - p) (y - p) over all pairs in a unit / pairs p (1 - p)

where x is 1 for a decision that was served. A decision without a unit is a unit of one. If
decisions of a unit are independent, likeness is 0 on average, whatever the sizes; it is 1 if all
units of one size are served alike. Sizes are of the days in question. Likeness is of 28 days, with
p by the day: of one day it is not known well, and it is a habit of the senders.

Labels are not counted by unit, so rates of labels take the effect of being served. Slices with
different rates make the effect too large where a unit keeps to one slice.

Privacy: E depends on sizes and routes of all units together. Which units there are is published
nowhere, and neither is a slice involved. So a reader learns of counts only what they must be at
least: a day with E > x has more than x decisions, and one of 28 days has more than x served ones,
or others. Both are limited to the lower edges of bands that tables show anyway.

Source: Kish (1965); Rao and Scott (1992), Biometrics 48.
"""

from __future__ import annotations

from collections.abc import Sequence

from monitor.core.counts.clusters import DayClusters
from monitor.core.tables.bands import at_least

LIKENESS_DAYS = 28
"""Days that likeness is measured over, the newest ones."""

_STEPS = (1.0, 1.2, 1.5)
_SLACK = 1e-9
_CHANCE = 1.05
"""Largest effect that counts as 1. Likeness of independent decisions is above 0 half of the time;
intervals that are 2.5 % too narrow cover .944."""


def published_effect(
    days: Sequence[tuple[DayClusters, int]], recent: Sequence[DayClusters], k: int
) -> float:
    """Return the design effect of a span, rounded up, at least 1.

    Args:
        days: units of each day of the span, and all its decisions, with and without a unit.
        recent: units of the days that likeness is measured over.
        k: smallest cell that may be shown.

    Example:
        >>> alike = DayClusters(100, 50, 50, 5_000, 2_500, 2_500)  # one unit served, one not
        >>> published_effect([(alike, 200)], [alike], 11)
        32.0
        >>> published_effect([(DayClusters(100, 1, 50, 100, 50, 50), 100)], [alike], 11)
        1.0
    """
    alike, total = likeness(recent), sum(decisions for _, decisions in days)
    excess = sum(
        min(alike * (units.size_squares - units.named), decisions * (at_least(decisions, k) - 1))
        for units, decisions in days
        if decisions >= k
    )
    rarer_route = (min(units.served, units.named - units.served) for units in recent)
    most = max((at_least(number, k) for number in rarer_route), default=0)
    return effect_rounded_up(min(1 + excess / max(total, 1), most))


def likeness(days: Sequence[DayClusters]) -> float:
    """Return how much more than by chance decisions of a unit are served alike, at least 0.

    It is above 1 where large units are more alike than others.
    """
    alike = by_chance = 0.0
    for units in days:
        rate = units.served / max(units.named, 1)
        pairs = units.size_squares - units.named
        pairs_served = units.served_squares - units.served
        pairs_mixed = units.size_times_served - units.served
        alike += pairs_served - 2 * rate * pairs_mixed + rate**2 * pairs
        by_chance += pairs * rate * (1 - rate)
    return max(alike / by_chance, 0.0) if by_chance else 0.0


def effect_rounded_up(effect: float) -> float:
    """Return the smallest step not below an effect: 1, 1.2, 1.5, then 2, 3, 4, 6, 8, 12, ...

    Example:
        >>> [effect_rounded_up(effect) for effect in (0.0, 1.04, 1.1, 1.6, 2.5, 3.5, 5, 50)]
        [1.0, 1.0, 1.2, 2.0, 3.0, 4.0, 6.0, 64.0]
    """
    if effect <= _CHANCE:
        return 1.0
    least, power = effect * (1 - _SLACK), 2.0
    while 1.5 * power < least:
        power *= 2
    return next(step for step in (*_STEPS, power, 1.5 * power) if step >= least)
