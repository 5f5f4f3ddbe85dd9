"""Numbers and times for pages and reports: per cent, points, ISO 8601 in UTC.

Example:
    >>> percent(0.83), points(-0.2), points(0.205), bounds(0.79, 0.87)
    ('83 %', '-20', '+20.5', '79 to 87 %')
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from monitor.core.contract import Severity
from monitor.core.publish.annotations import Share, Stage
from monitor.core.publish.snapshot import ShownGap, ShownRate, ShownStage
from monitor.core.time import DAY, HOUR, MINUTE, SECOND, UTC_ZONE, in_zone, to_datetime, to_micros

NONE = "\N{EN DASH}"


def moment_text(at: datetime | int, zone: str = UTC_ZONE) -> str:
    """Return date and time to the minute with their zone: UTC, or the offset from it.

    Args:
        at: instant; an integer is in microseconds.
        zone: name of the time zone.

    Example:
        >>> moment_text(0), moment_text(0, "Europe/Berlin"), moment_text(0, "America/New_York")
        ('1970-01-01 00:00 UTC', '1970-01-01 01:00 +01:00', '1969-12-31 19:00 -05:00')
    """
    if zone == UTC_ZONE:
        return f"{to_datetime(at) if isinstance(at, int) else at:%Y-%m-%d %H:%M} UTC"
    local = in_zone(at if isinstance(at, int) else to_micros(at), zone)
    return f"{local:%Y-%m-%d %H:%M} {local:%z}"[:-2] + ":00"


def iso_text(at: datetime | int | None, precision: str = "minutes") -> str:
    """Return an instant in UTC as ISO 8601, for terminals; a dash for None.

    Example:
        >>> iso_text(0), iso_text(0, "seconds")
        ('1970-01-01T00:00Z', '1970-01-01T00:00:00Z')
    """
    if at is None:
        return NONE
    instant = to_datetime(at) if isinstance(at, int) else at
    return instant.isoformat(timespec=precision).replace("+00:00", "Z")


def some_text(texts: Sequence[str], most: int) -> str:
    """Return the first ``most`` texts, and how many more there are.

    Example:
        >>> some_text(["a", "b", "c"], 3), some_text(["a", "b", "c"], 1)
        ('a; b; c', 'a; 2 more')
    """
    more = [f"{len(texts) - most} more"] if len(texts) > most else []
    return "; ".join([*texts[:most], *more])


def age_text(seconds: float) -> str:
    """Return a number of seconds in words, in a suitable unit, such as ``25 hours``.

    Example:
        >>> age_text(40), age_text(600), age_text(90_000), age_text(9 * 86_400)
        ('less than a minute', '10 minutes', '25 hours', '9 days')
    """
    micros = seconds * SECOND
    if micros < MINUTE:
        return "less than a minute"
    for unit, length, until in (("minute", MINUTE, 2 * HOUR), ("hour", HOUR, 2 * DAY)):
        if micros < until:
            return counted(round(micros / length), unit)
    return counted(round(micros / DAY), "day")


def counted(count: int, noun: str) -> str:
    """Format a count with its noun, in singular or plural.

    Example:
        >>> counted(1, "pair"), counted(2000, "pair")
        ('1 pair', '2,000 pairs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def times(count: int) -> str:
    """Return how often something happened: ``once``, or ``2,000 times``."""
    return "once" if count == 1 else f"{count:,} times"


def percent(rate: float | None) -> str:
    """Return a rate in per cent, with at most one decimal; a dash for None."""
    return NONE if rate is None else f"{_decimals(rate)[0]} %"


def points(difference: float | None) -> str:
    """Return a difference of rates in points with its sign, such as ``+20.5``; a dash for None."""
    return NONE if difference is None else _signed(difference)[0]


def distance(difference: float | None) -> str:
    """Return a difference of rates in points without a plus sign; a dash for None."""
    return points(difference).lstrip("+")


def _decimals(*rates: float) -> list[str]:
    """Return numbers in hundredths: with one decimal each, or without if all are whole."""
    hundredths = [round(100 * rate, 1) + 0.0 for rate in rates]  # + 0.0: no minus before a zero
    digits = 0 if all(number.is_integer() for number in hundredths) else 1
    return [f"{number:.{digits}f}" for number in hundredths]


def _signed(*differences: float) -> list[str]:
    texts = _decimals(*differences)
    return [f"+{text}" if float(text) > 0 else text for text in texts]


def bounds(lower: float | None, upper: float | None) -> str:
    """Return the bounds of a rate in per cent, such as ``79 to 87 %``; a dash if one is None."""
    return NONE if lower is None or upper is None else f"{' to '.join(_decimals(lower, upper))} %"


def gap_bounds(lower: float | None, upper: float | None) -> str:
    """Return the bounds of a gap in points, such as ``-4 to +42``; a dash if one is None."""
    return NONE if lower is None or upper is None else " to ".join(_signed(lower, upper))


_SEVERITIES = {Severity.PAGE: "page", Severity.TICKET: "ticket, for office hours"}
_STAGES = {
    Stage.EVIDENCE: "in the evidence gate",
    Stage.SCORE: "in the judge's score",
    Stage.THRESHOLD: "in the threshold",
    Stage.UNKNOWN: "unknown: the router sends no score",
    Stage.NONE: "at no single stage of the router",
}
_SHARES = {Share.MOST: "mostly ", Share.ABOUT_HALF: "about half of it ", Share.SOME: "partly "}


def severity_text(severity: str | None) -> str:
    """Return a severity for people, such as ``ticket, for office hours``; None: not known yet."""
    return _SEVERITIES[Severity(severity)] if severity else "severity not known yet"


def stage_text(stage: ShownStage) -> str:
    """Return in words the stage of the router at which a difference arises, and its share."""
    share = "" if stage.share is None else _SHARES[stage.share]
    return f"{share}{_STAGES[stage.stage]}"


def sampling_text(served: Sequence[float], reviewed: Sequence[float]) -> str:
    """Return the sampling of labels by route, in words; empty if nothing is known.

    Args:
        served: audit rates of auto-served replies, in (0, 1].
        reviewed: audit rates of replies in human review.

    Example:
        >>> sampling_text([0.05], [1])
        '5 % of auto-served replies are sampled for review; all replies in human review get a label'
        >>> sampling_text([1], [1]), sampling_text([0.2, 0.005], [])
        ('all replies get a label', '0.5 % or 20 % of auto-served replies are sampled for review')
    """
    if {*served} == {*reviewed} == {1}:
        return "all replies get a label"
    parts = (
        (served, "auto-served replies", "are sampled for review"),
        (reviewed, "replies in human review", "get a label"),
    )
    return "; ".join(
        f"{_share_text(rates)} {replies} {treatment}"
        for rates, replies, treatment in parts
        if rates
    )


def _share_text(rates: Sequence[float]) -> str:
    if {*rates} == {1}:
        return "all"
    return " or ".join(f"{100 * rate:.3g} %" for rate in sorted({*rates})) + " of"


def rate_text(rate: ShownRate | None) -> str:
    """Return a rate for a table, such as ``83 %`` or ``at least 79 %``; a dash if hidden."""
    if rate is None:
        return NONE
    if rate.at_least is not None:
        return f"at least {percent(rate.at_least)}"
    if rate.at_most is not None:
        return f"at most {percent(rate.at_most)}"
    return percent(rate.value)


def bounded_rate_text(rate: ShownRate | None, between: str = " ") -> str:
    """Return a rate with its interval, such as ``83 % (79 to 87 %)``; a code has none.

    Example:
        >>> bounded_rate_text(ShownRate(0.83, 0.79, 0.87, 90))
        '83 % (79 to 87 %)'
        >>> bounded_rate_text(ShownRate(None, 0.0, 0.2, 90, at_most=0.2))
        'at most 20 %'
    """
    if rate is None or rate.at_least is not None or rate.at_most is not None:
        return rate_text(rate)
    interval = bounds(rate.lower, rate.upper)
    return interval if rate.value is None else f"{percent(rate.value)}{between}({interval})"


def gap_text(gap: ShownGap | None) -> str:
    """Return a gap for a table, in points with its interval; a dash if hidden.

    Example:
        >>> gap_text(ShownGap("a=y", 0, -0.013, 0.01)), gap_text(ShownGap("a=y", 0.2, 0.1, 0.3))
        ('0.0 [-1.3 to +1.0]', '+20 [+10 to +30]')
    """
    if gap is None or gap.lower is None or gap.upper is None:
        return NONE
    value = () if gap.value is None else (gap.value,)
    *shown, lower, upper = _signed(*value, gap.lower, gap.upper)
    return " ".join([*shown, f"[{lower} to {upper}]"])


def ratio_text(gap: ShownGap | None) -> str:
    """Return the rate of a slice over its reference's with the interval; a dash if hidden.

    Example:
        >>> ratio_text(ShownGap("a=y", 0.2, 0.1, 0.3, 0.625, 0.5, 0.75))
        '0.62 [0.50 to 0.75]'
    """
    if gap is None or gap.ratio_lower is None:
        return NONE
    upper = "or more" if gap.ratio_upper is None else f"to {gap.ratio_upper:.2f}"
    interval = f"[{gap.ratio_lower:.2f} {upper}]"
    return interval if gap.ratio is None else f"{gap.ratio:.2f} {interval}"
