"""``slicewatch incident``: list incidents, and record what people do about them."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from monitor.clock import SystemClock
from monitor.commands.incident_report import acts_table, details, table_of
from monitor.commands.open_store import opened
from monitor.commands.options import (
    Command,
    checked_act,
    incident_argument,
    option_of,
    settings_option,
)
from monitor.core.publish.act_input import closing as checked_closing
from monitor.core.publish.act_input import sentence
from monitor.core.publish.annotations import Outcome
from monitor.core.publish.recurrence import recurrence
from monitor.present.terminal import console, facts, show_tables
from monitor.settings.kinds import duration_text

_OUTCOMES = "|".join(outcome.value for outcome in Outcome)


@click.group("incident")
def command() -> None:
    """List incidents, acknowledge them and record their outcome.

    Slices and numbers are the published ones; what the privacy guards hide is withheld here, too.

    Example: slicewatch incident list
    """


def act_options(function: Command) -> Command:
    """Return a command with the options ``--by`` and ``--note`` added."""
    note = click.option("--note", metavar="TEXT", help="Why; stored with it. No personal data.")
    by = click.option("--by", metavar="NAME", help="Your name: a person on duty or a team.")
    return by(note(function))


@command.command("close")
@incident_argument
@settings_option
@click.option("--outcome", metavar=_OUTCOMES, help="The outcome.")
@click.option("--until", metavar="DATE", help="With accepted: the last day (UTC).")
@act_options
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

    fixed (there was a gap, and it is repaired), not_real (there was none) and bad_data (the data
    were wrong) end the incident. Its tests start anew: a gap that still exists pages again.

    accepted needs --until: the gap stays visible, and does not page until the end of that day.
    Afterwards it pages again if it still exists.

    Example: slicewatch incident close 3 --outcome accepted --until 2026-09-01 --by "triage team"
    --note "repaired with the next release"
    """
    from monitor.store.evaluator import stored_incidents

    act, now = checked_act("incident close", by, note), SystemClock().now()
    closing = checked_closing(outcome, until, now, option_of)
    with opened(path) as (settings, engine):
        stored_incidents.close(engine, number, closing, act, now)
        cycle = duration_text(settings.evaluate.cycle)
    click.echo(
        f"incident {number} is {sentence(closing)}\n"
        f"The evaluator applies it within one cycle ({cycle}), or when it is next started."
    )


@command.command("ack")
@incident_argument
@settings_option
@act_options
def ack(number: int, path: Path, *, by: str | None, note: str | None) -> None:
    """Acknowledge an incident; it stays open until it is resolved or closed.

    Name and note are stored with it: a person on duty or a team, and nothing about customers.

    Example: slicewatch incident ack 3 --by "triage team" --note "looking at the judge"
    """
    from monitor.store.evaluator.stored_incidents import acknowledge

    act = checked_act("incident ack", by, note)
    with opened(path) as (settings, engine):
        acknowledge(engine, number, act, SystemClock().now())
        cycle = duration_text(settings.evaluate.cycle)
    click.echo(f"incident {number} is acknowledged by {act.by}; metrics show it within {cycle}")


@command.command("list")
@settings_option
@click.option("--all", "resolved", is_flag=True, help="Also list resolved incidents.")
@click.option("--json", "as_json", is_flag=True, help="Print them as one JSON array.")
def listing(path: Path, *, resolved: bool, as_json: bool) -> None:
    """List the open incidents: pages and tickets, and who has acknowledged them.

    A closed incident is listed until the evaluator has applied the close.

    Example: slicewatch incident list --all
    """
    from monitor.store.upkeep.reported_incidents import all_reports

    with opened(path) as (_, engine):
        reports = all_reports(engine, SystemClock().now(), resolved=resolved)
    if as_json:
        click.echo(msgspec.json.encode(reports))
    elif reports:
        show_tables(*table_of(reports))
    else:
        click.echo("there never was an incident" if resolved else "no incident is open")


@command.command("show")
@incident_argument
@settings_option
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
def show(number: int, path: Path, *, as_json: bool) -> None:
    """Show an incident: its slice, its numbers, and everything that people recorded about it.

    Example: slicewatch incident show 3
    """
    from monitor.store.upkeep.reported_incidents import all_reports, one_report

    with opened(path) as (_, engine):
        report = one_report(engine, number, SystemClock().now())
        if as_json:
            click.echo(msgspec.json.encode(report))
            return
        again = recurrence(report, all_reports(engine, SystemClock().now(), resolved=True))
    console().print(facts(details(report, again)))
    if report.acts:
        show_tables(*acts_table(report.acts))
