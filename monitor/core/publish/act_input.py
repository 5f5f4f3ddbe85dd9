"""Input of people who acknowledge or close an incident, checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime

from monitor.core.plain_text import LONGEST_NAME, LONGEST_NOTE, plain_line
from monitor.core.publish.annotations import Outcome
from monitor.core.time import DAY, to_datetime, to_micros
from monitor.errors import SlicewatchError

LONGEST = 366 * DAY
"""Longest acceptance: somebody has to look again within a year."""

Named = Callable[[str], str]
"""Name of a field as its reader knows it: an option of the command, a field of a form."""


@dataclass(frozen=True, slots=True)
class ActInput:
    """Author of an act, and the note on it.

    Attributes:
        by: a person or a team, in one line.
        note: one line; may be empty.
    """

    by: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Closing:
    """Outcome with which people close an incident.

    Attributes:
        outcome: in a word.
        until: of ``accepted``, and of nothing else: the instant from which on it pages again.
    """

    outcome: Outcome
    until: int | None = None


def act_input(by: str, note: str, named: Named) -> ActInput:
    """Author and note as they were typed; the author is not empty.

    Raises:
        SlicewatchError: a text is no single line, or too long.
    """
    why = plain_line(named("note"), note, LONGEST_NOTE)
    return ActInput(plain_line(named("by"), by, LONGEST_NAME), why)


def closing(outcome: str | None, until: str | None, now: int, named: Named) -> Closing:
    """Outcome of a close, and for how long it is accepted.

    Args:
        outcome: one of :class:`Outcome`, as it was typed.
        until: the last day (UTC) of an acceptance, ISO 8601; None or empty otherwise.
        now: wall clock.
        named: names of the fields.

    Raises:
        SlicewatchError: the outcome is none, or the day is missing, too much or out of range.
    """
    known = {one.value: one for one in Outcome}
    if outcome not in known:
        raise SlicewatchError(f"{named('outcome')} must be one of {', '.join(known)}")
    if known[outcome] is not Outcome.ACCEPTED:
        if until:
            only = f"{named('outcome')} {Outcome.ACCEPTED}"
            raise SlicewatchError(f"{named('until')} is only for {only}; leave it out")
        return Closing(known[outcome])
    if not until:
        example = f"as in {named('until')} 2026-09-01"
        needs = f"{named('outcome')} {Outcome.ACCEPTED} needs {named('until')} DATE"
        raise SlicewatchError(f"{needs}, {example}")
    return Closing(Outcome.ACCEPTED, _end_of(until, now, named))


def _end_of(text: str, now: int, named: Named) -> int:
    """The end of a day that is to come."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise SlicewatchError(f"{named('until')} must be a day, such as 2026-09-01") from None
    start = to_micros(datetime(day.year, day.month, day.day, tzinfo=UTC))
    if not now < start <= now + LONGEST:
        raise SlicewatchError(f"{named('until')} must be a future day, within a year")
    return start + DAY


def sentence(closing: Closing) -> str:
    """Meaning of a close, to follow "incident 3 is"."""
    if closing.until is None:
        return f"closed as {closing.outcome.value}: a gap that still exists will page again."
    day = f"{to_datetime(closing.until - DAY):%Y-%m-%d}"
    return (
        f"accepted until the end of {day} (UTC): it stays visible, and may page again afterwards."
    )
