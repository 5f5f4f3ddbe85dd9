"""What privacy holds back at an assumed traffic, for ``slicewatch check``: what waits, for what."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf

from monitor.commands.check_labels import Assumed
from monitor.core.contract import Contract, GroupBy
from monitor.core.privacy.periods import waited_for
from monitor.core.publish.waiting import LabelWait
from monitor.core.time import DAY
from monitor.settings import Settings

_WEEK = 7
_FORTNIGHT = 2 * _WEEK


def guard_lines(settings: Settings, assumed: Assumed) -> Iterator[str]:
    """Group-bys that are not published by value at the assumed traffic, and what would help.

    Of those that are, how long their blocks wait.
    """
    said: dict[str, list[str]] = {}
    for contract in settings.contracts:
        for group in contract.group_bys if contract.k > 1 else ():
            said.setdefault(_line(contract, group, assumed), []).append(group.name)
    for line, names in said.items():
        yield line.format(names=", ".join(names))


def _line(contract: Contract, group: GroupBy, assumed: Assumed) -> str:
    """What is said of a group-by; of several the same, but for their names."""
    k, crossed = contract.k, len(group.attributes) > 1
    head = f"contract {contract.name}: {{names}}: "
    decided = waited_for(crossed=crossed, labels=False) / DAY
    if assumed.daily * decided < k:
        return (
            f"warning: {head}fewer than {k} decisions of a slice come in {_days(decided)}, so such"
            " values are pooled: list fewer values, or compare by fewer attributes"
        )
    wait = LabelWait.of(assumed.pace, k, crossed=crossed)
    if not wait.named:
        return (
            f"warning: {head}{k} labels of {wait.route} of a slice take {_weeks(wait.days)}, and"
            f" {_days(wait.waited)} are waited for, so such values have no labelled rates:"
            f" {', or '.join(wait.ways)}"
        )
    return (
        f"ok: {head}labelled rates are published once each slice has {k} new labels of"
        f" {wait.route}, which takes {_weeks(wait.days)}"
    )


def _weeks(days: float) -> str:
    """That time in whole days up to two weeks, and then in weeks."""
    if days == inf:
        return "for ever"
    if days <= 1:
        return "a day at most"
    return _days(ceil(days)) if days <= _FORTNIGHT else f"about {days / _WEEK:.1f} weeks"


def _days(days: float) -> str:
    return "a day" if days == 1 else f"{days:g} days"
