"""Have labels fallen silent? Judged by the hours in which they came in the weeks before.

Labels come when reviewers work. Nights and weekends bring none, and a day's labels may come in a
single hour: so a silence is measured by what the same hours brought a week before, and no service
has a usual pace before it has a week behind it. Hours are pane indexes of wall-clock time.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from statistics import median

DAY_HOURS, WEEK_HOURS, WEEK_DAYS = 24, 168, 7
WEEKS = 4
"""Weeks before that a usual pace is taken from."""
KEPT_WEEKS = WEEKS + 1
"""What has to be known before the last label: a week that is known in part says nothing."""
HARDLY_ANY = 0.01
"""A share that counts as none: of all, where a trial or a straggler came before there was a pace;
of a day's labels, where some still come although reviewers are silent."""
LABELS_MISSED = 100
"""Labels that should have come. With fewer expected, one reviewer's day off may be all there is."""


def silent_since(arrivals: Mapping[int, int], now: int) -> int | None:
    """The hour of the last label, if labels have been silent for too long since; else None.

    They are silent once a day has gone by that brought hardly any, and as many are missed as an
    average day of a usual week brings. Of what the same hours brought in up to four weeks before
    the silence, the median is usual. It is reported first at an hour at which labels do come: what
    has stopped on a Friday is reported on Monday, where nobody labels at weekends. From then on it
    is reported until labels come.

    Args:
        arrivals: labels by the hour in which they were counted, of five weeks.
        now: the present hour; later ones are a clock's mistake.
    """
    came = {hour: number for hour, number in arrivals.items() if number > 0 and hour <= now}
    last = _last(came)
    weeks = [] if last is None else _weeks_before(came, last + 1)
    if last is None or not weeks:
        return None
    missed = [median(sums) for sums in zip(*map(accumulate, weeks), strict=True)]
    enough = max(LABELS_MISSED, missed[-1] / WEEK_DAYS)
    gone = range(DAY_HOURS, min(now - last, WEEK_HOURS))
    told = any(missed[h - 1] >= enough and any(week[h] for week in weeks) for h in gone)
    return last if told else None


def _last(came: Mapping[int, int]) -> int | None:
    """The newest hour that began a day of more than hardly any labels; None: there was none."""
    hardly_any = HARDLY_ANY * sum(came.values()) / (KEPT_WEEKS * WEEK_DAYS)
    for hour in sorted(came, reverse=True):
        if sum(came.get(hour + ahead, 0) for ahead in range(DAY_HOURS)) > hardly_any:
            return hour
    return None


def _weeks_before(came: Mapping[int, int], first: int) -> list[list[int]]:
    """Labels of the 168 hours from ``first`` on, in each earlier week that is wholly known."""
    begun = _begun(came)
    starts = (first - back * WEEK_HOURS for back in range(1, WEEKS + 1))
    return [
        [came.get(hour, 0) for hour in range(start, start + WEEK_HOURS)]
        for start in starts
        if start >= begun
    ]


def _begun(came: Mapping[int, int]) -> int:
    """The first hour before which hardly any came."""
    most, before = HARDLY_ANY * sum(came.values()), 0
    for hour in sorted(came):
        before += came[hour]
        if before > most:
            return hour
    return max(came)
