"""Checked input of people who acknowledge or close an incident."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime

from monitor.core.plain_text import LONGEST_NAME, LONGEST_NOTE, plain_line
from monitor.core.publish.annotations import Outcome
from monitor.core.time import DAY, day_text, to_micros
from monitor.errors import SlicewatchError

LONGEST = 366 * DAY
"""Longest acceptance: somebody must look again within a year."""

Named = Callable[[str], str]
"""Function from a field to its name for the reader: an option of a command, a field of a form."""


@dataclass(frozen=True, slots=True)
class ActInput:
    """Author and note that a person gives when acknowledging or closing an incident.

    Attributes:
        by: a person or a team, in one line.
        note: one line; may be empty.
    """

    by: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Closing:
    """Outcome with which a person closes an incident, and the end of an acceptance.

    Attributes:
        outcome: the outcome.
        until: instant from which an ``accepted`` incident pages again; None for other outcomes.
    """

    outcome: Outcome
    until: int | None = None


def checked_act_input(by: str, note: str, named: Named) -> ActInput:
    """Return author and note, checked as single lines of text; callers refuse an empty author.

    Raises:
        SlicewatchError: a text is too long or not a single line.
    """
    checked_note = plain_line(named("note"), note, LONGEST_NOTE)
    return ActInput(plain_line(named("by"), by, LONGEST_NAME), checked_note)


def closing(outcome: str | None, until: str | None, now: int, named: Named) -> Closing:
    """Return the checked outcome of a close and the end of an acceptance, from the typed texts.

    Args:
        outcome: one of :class:`Outcome`, as typed.
        until: the last day (UTC) of an acceptance, ISO 8601; None or empty otherwise.
        now: wall clock.
        named: names of the fields.

    Raises:
        SlicewatchError: the outcome does not exist, or the day is missing, unwanted or out of
            range.
    """
    outcomes = {member.value: member for member in Outcome}
    if outcome not in outcomes:
        raise SlicewatchError(f"{named('outcome')} must be one of {', '.join(outcomes)}")
    if outcomes[outcome] is not Outcome.ACCEPTED:
        if until:
            only = f"{named('outcome')} {Outcome.ACCEPTED}"
            raise SlicewatchError(f"{named('until')} is only for {only}; leave it out")
        return Closing(outcomes[outcome])
    if not until:
        example = f"as in {named('until')} 2026-09-01"
        needs = f"{named('outcome')} {Outcome.ACCEPTED} needs {named('until')} DATE"
        raise SlicewatchError(f"{needs}, {example}")
    return Closing(Outcome.ACCEPTED, _end_of_day(until, now, named))


def _end_of_day(text: str, now: int, named: Named) -> int:
    """Return the end (microseconds) of an ISO day; refuse a day that is not within a year."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise SlicewatchError(f"{named('until')} must be a day, such as 2026-09-01") from None
    start = to_micros(datetime(day.year, day.month, day.day, tzinfo=UTC))
    if not now < start <= now + LONGEST:
        raise SlicewatchError(f"{named('until')} must be a future day, within a year")
    return start + DAY


def sentence(closing: Closing) -> str:
    """Return the effect of a close in words, as the rest of a sentence "incident 3 is ..."."""
    if closing.until is None:
        return f"closed as {closing.outcome.value}: a gap that still exists will page again."
    day = day_text(closing.until - DAY)
    return (
        f"accepted until the end of {day} (UTC): it stays visible, and may page again afterwards."
    )
