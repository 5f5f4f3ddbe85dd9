"""Waits of :mod:`monitor.core.publish.waiting` in words, for pages, answers and files."""

from __future__ import annotations

from monitor.core.publish.waiting import AUTO, GroupWait, LabelWait
from monitor.core.publish.words import moment_text


def group_wait(one: GroupWait) -> str:
    """What a group-by waits for."""
    what = "rates that rest on labels" if one.labelled else "selection and blocked rates"
    counted = "labels" if one.labelled else "decisions"
    shown = "are not shown yet" if one.end is None else f"end {moment_text(one.end)}"
    needed = f"{one.k} more{' of each route' if one.labelled else ''}"
    head = f"{one.group_by}: {what} {shown} and wait until each slice has no {counted} or {needed}."
    if not one.labelled:
        return f"{head} Fewer, larger values, or a comparison by fewer attributes, help."
    if one.slowest is None:
        return f"{head} More audits, or pooling rare values, help."
    return f"{head} {_slowest(one.slowest)}"


def _slowest(one: LabelWait) -> str:
    if one.named:
        audits = "more audits, or " if one.route == AUTO else ""
        return (
            f"Of those that are shown and waited for, the slowest gets {one.k} labels of"
            f" {one.route} in {one.weeks_text}; {audits}pooling it with a similar value, helps."
        )
    return (
        f"None that is shown is fast enough: the fastest gets {one.k} labels of {one.route} in"
        f" {one.weeks_text}, and {one.waited:g} days are waited for; {_helps(one)}."
    )


def slice_wait(one: LabelWait) -> str:
    """How long the labels of one slice take, and what would make them be waited for."""
    takes = f"At the pace shown, {one.k} labels of {one.route} take it {one.weeks_text}"
    if one.named:
        return f"{takes}; which values are waited for is decided anew each Monday."
    return f"{takes}, and {one.waited:g} days are waited for; {_helps(one)}."


def _helps(one: LabelWait) -> str:
    return f"to be fast enough: {', or '.join(one.ways)}"


def pooled_below(*, crossed: bool) -> str:
    """The rule by which a value has no row of its own; of a hidden slice no number is said."""
    period = "two days" if crossed else "a day"
    return (
        f"Values with fewer than k decisions in {period} are pooled: list fewer values, or compare"
        " by fewer attributes."
    )
