"""``slicewatch incident close`` and ``ack``: what people answer to an incident."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import click

from monitor.clock import SystemClock
from monitor.commands.db.access import opened
from monitor.commands.options import (
    LONGEST_NAME,
    LONGEST_NOTE,
    Command,
    incident_argument,
    plain_line,
    settings_option,
)
from monitor.core.publish.annotations import Outcome
from monitor.core.time import DAY, to_datetime, to_micros
from monitor.errors import SlicewatchError
from monitor.settings.kinds import duration_text
from monitor.store.evaluator import incident_acts
from monitor.store.evaluator.incident_acts import ActInput, Closing, acknowledge


def said_options(function: Command) -> Command:
    """The options ``--by`` and ``--note``."""
    note = click.option("--note", metavar="TEXT", help="Why; stored with it. No personal data.")
    by = click.option("--by", metavar="NAME", help="Your name: a person on duty or a team.")
    return by(note(function))


def told(command: str, by: str | None, note: str | None) -> ActInput:
    """Check ``--by`` and ``--note`` as they were typed.

    Raises:
        SlicewatchError: nobody is named, or a text is no single line, or too long.
    """
    if by is None or not by.strip():
        raise SlicewatchError(
            f"--by is missing; slicewatch incident {command} --help has an example"
        )
    why = plain_line("--note", note or "", LONGEST_NOTE)
    return ActInput(plain_line("--by", by, LONGEST_NAME), why)


LONGEST = 366 * DAY
"""Longest acceptance: somebody has to look again within a year."""
_OUTCOMES = "|".join(outcome.value for outcome in Outcome)


@click.command("close")
@incident_argument
@settings_option
@click.option("--outcome", metavar=_OUTCOMES, help="The outcome.")
@click.option("--until", metavar="DATE", help="With accepted: the last day (UTC).")
@said_options
def close(
    number: int,
    path: Path,
    *,
    outcome: str | None,
    until: str | None,
    by: str | None,
    note: str | None,
) -> None:
    """Record the outcome of an incident.

    confirmed (there was a gap, and it is repaired), false_alarm (there was none) and data_fault
    (the data were wrong) end the incident and its crossings. Their tests restarted at the
    crossing: a gap that still exists crosses again, and pages again. accepted needs --until: the
    gap is accepted and does not page until the end of that day; it stays visible, and pages again
    afterwards if it still exists.

    Example: slicewatch incident close 3 --outcome accepted --until 2026-09-01 --by "triage team"
    --note "repaired with the next release"
    """
    said, now = told("close", by, note), SystemClock().now()
    closing = _closing(outcome, until, now)
    with opened(path) as (settings, engine):
        incident_acts.close(engine, number, closing, said, now)
        cycle = duration_text(settings.evaluate.cycle)
    click.echo(
        f"incident {number} is {_sentence(closing)}\n"
        f"The evaluator applies it within one cycle ({cycle}), or when it is next started."
    )


def _closing(outcome: str | None, until: str | None, now: int) -> Closing:
    known = {one.value: one for one in Outcome}
    if outcome not in known:
        raise SlicewatchError(f"--outcome must be one of {', '.join(known)}")
    if known[outcome] is not Outcome.ACCEPTED:
        if until is not None:
            raise SlicewatchError("--until is only for --outcome accepted; leave it out")
        return Closing(known[outcome])
    if until is None:
        raise SlicewatchError("--outcome accepted needs --until DATE, as in --until 2026-09-01")
    return Closing(Outcome.ACCEPTED, _end_of(until, now))


def _end_of(text: str, now: int) -> int:
    """The end of a day that is to come."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise SlicewatchError("--until must be a day, such as 2026-09-01") from None
    start = to_micros(datetime(day.year, day.month, day.day, tzinfo=UTC))
    if not now < start <= now + LONGEST:
        raise SlicewatchError("--until must be a future day, within a year")
    return start + DAY


def _sentence(closing: Closing) -> str:
    if closing.until is None:
        return f"closed as {closing.outcome.value}: a gap that still exists will page again."
    day = f"{to_datetime(closing.until - DAY):%Y-%m-%d}"
    return (
        f"accepted until the end of {day} (UTC): it stays visible, and may page again afterwards."
    )


@click.command("ack")
@incident_argument
@settings_option
@said_options
def ack(number: int, path: Path, *, by: str | None, note: str | None) -> None:
    """Acknowledge an incident; it stays open until it is resolved or closed.

    Name and note are stored with it: a person on duty or a team, and nothing about customers.

    Example: slicewatch incident ack 3 --by "triage team" --note "looking at the judge"
    """
    said = told("ack", by, note)
    with opened(path) as (settings, engine):
        acknowledge(engine, number, said, SystemClock().now())
        cycle = duration_text(settings.evaluate.cycle)
    click.echo(f"incident {number} is acknowledged by {said.by}; metrics show it within {cycle}")
