"""``slicewatch report``: the weekly report of a stored Release, and signatures on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import click
import sqlalchemy as sa

from monitor.clock import SystemClock
from monitor.commands.open_store import opened
from monitor.commands.options import ROW_ID, settings_option
from monitor.composition import report_facts
from monitor.core.plain_text import LONGEST_NAME
from monitor.core.publish.act_input import act_input
from monitor.core.publish.release import Revision
from monitor.core.publish.snapshot import decode
from monitor.core.publish.words import moment_text
from monitor.core.time import IsoWeek
from monitor.errors import SlicewatchError
from monitor.reports import ReportFacts, WeeklyReport, as_csv, as_html, as_json, as_markdown
from monitor.store.database import reading
from monitor.store.evaluator import weekly_releases
from monitor.store.evaluator.store import newest_snapshot
from monitor.store.evaluator.weekly_releases import (
    find_revision,
    read_signatures,
    stored_weeks,
    weeks_before,
)

_WEEK = "such as 2026-W47"
_WEEKS_BEFORE = 51
"""With the week itself, a year."""
Files = Mapping[str, bytes]


def _html(report: WeeklyReport) -> Files:
    return {".html": as_html.render(report).encode()}


def _json(report: WeeklyReport) -> Files:
    return {".json": as_json.render(report)}


def _csv(report: WeeklyReport) -> Files:
    found = as_csv.render(report.release)
    return {f"-{name}.csv": text.encode() for name, text in found.items()}


def _md(report: WeeklyReport) -> Files:
    return {".md": as_markdown.render(report).encode()}


FORMATS: Mapping[str, Callable[[WeeklyReport], Files]] = {
    "html": _html,
    "json": _json,
    "csv": _csv,
    "md": _md,
}
"""Makes the files of each format, by the ending of their names."""

week_option = click.option("--week", metavar="WEEK", help=f"An ISO week in UTC, {_WEEK}.")
revision_option = click.option(
    "--revision", type=ROW_ID, help="One revision of its Release; the newest by default."
)


@click.group("report", invoke_without_command=True)
@week_option
@click.option("--last-week", is_flag=True, help="The week before this one, by the clock: for cron.")
@revision_option
@click.option(
    "--format",
    "formats",
    metavar="LIST",
    default=",".join(FORMATS),
    show_default=True,
    help="Formats to write, separated by commas.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Folder to write into; the present one by default.",
)
@settings_option
@click.pass_context
def command(
    context: click.Context,
    *,
    week: str | None,
    last_week: bool,
    revision: int | None,
    formats: str,
    out: Path,
    path: Path,
) -> None:
    """Write the fairness report of a closed week: what was tested, what failed, what is not known.

    It is made from the Release that the evaluator stored when the week was over, or from a later
    revision of it, which labels that came since have changed. It says no number that is not in it.

    Example: slicewatch report --week 2026-W47 --format html,json --out reports
    """
    if context.invoked_subcommand is not None:
        return
    wanted, chosen = _formats(formats), _week(week, last_week=last_week)
    with opened(path) as (settings, engine):
        report = _report(engine, chosen, revision, report_facts(settings))
    for file in _written(report, wanted, out):
        click.echo(f"{file}")


@command.command("sign")
@week_option
@revision_option
@click.option("--by", metavar="NAME", help="Your name: a person, not a team.")
@click.option("--note", metavar="TEXT", help="What you decide, and why. No personal data.")
@settings_option
def sign(
    *, week: str | None, revision: int | None, by: str | None, note: str | None, path: Path
) -> None:
    """Sign a revision of a week's Release, by the SHA-256 of its bytes.

    A signature stays, and is shown as one of another revision when the Release is revised.

    Example: slicewatch report sign --week 2026-W47 --by "A. Person" --note "accepted; see ticket"
    """
    if by is None or not by.strip():
        raise SlicewatchError("--by is missing; slicewatch report sign --help has an example")
    said = act_input(by, note or "", lambda field: f"--{field}")
    chosen = _week(week, last_week=False)
    with opened(path) as (_, engine):
        found = _revision(engine, chosen, revision)
        signed = weekly_releases.sign(engine, found, said, SystemClock().now())
    click.echo(
        f"{signed.by} has signed {signed.week}, revision {signed.revision}, SHA-256 {signed.digest}"
    )


def _formats(text: str) -> list[str]:
    wanted = list(dict.fromkeys(part.strip() for part in text.split(",")))
    if not set(wanted) <= FORMATS.keys():
        raise SlicewatchError(f"--format must be a list of {', '.join(FORMATS)}, such as html,json")
    return wanted


def _week(text: str | None, *, last_week: bool) -> IsoWeek:
    if last_week and text is not None:
        raise SlicewatchError("--week and --last-week exclude each other; give one of them")
    if last_week:
        return IsoWeek.of(SystemClock().now()).before
    if text is None:
        raise SlicewatchError(f"--week is missing; give an ISO week, {_WEEK}, or --last-week")
    try:
        return IsoWeek.named(text[:LONGEST_NAME])
    except ValueError:
        raise SlicewatchError(f"--week must be an ISO week, {_WEEK}") from None


def _report(
    engine: sa.Engine, week: IsoWeek, number: int | None, facts: ReportFacts
) -> WeeklyReport:
    found = _revision(engine, week, number)
    with reading(engine) as connection:
        newest = find_revision(connection, week.name)
        earlier = tuple(weeks_before(connection, week, _WEEKS_BEFORE))
        signatures = tuple(read_signatures(connection, week.name))
    latest = newest.number if newest else found.number
    before = next((one for one in earlier if one.week == week.before.name), None)
    return WeeklyReport(found, latest, found.release, before, facts, signatures, earlier)


def _revision(engine: sa.Engine, week: IsoWeek, number: int | None) -> Revision:
    """A stored revision.

    Raises:
        SlicewatchError: there is none; why is said.
    """
    with reading(engine) as connection:
        found = find_revision(connection, week.name, number)
        if found is not None:
            return found
        newest = find_revision(connection, week.name)
        weeks, body = stored_weeks(connection), newest_snapshot(connection)
    if newest is not None:
        raise SlicewatchError(
            f"--revision: week {week.name} has revisions 1 to {newest.number} only"
        )
    reached = decode(body).watermark if body else None
    if reached is None or reached < week.end:
        until = "nothing is counted yet" if reached is None else moment_text(reached)
        raise SlicewatchError(
            f"week {week.name} is not over: it ends {moment_text(week.end)}, and decisions are"
            f" complete up to {until}; take an earlier week or wait"
        )
    stored = f"stored are {weeks[0]} to {weeks[-1]}" if weeks else "none is stored yet"
    raise SlicewatchError(f"there is no Release of week {week.name}; {stored}")


def _written(report: WeeklyReport, formats: list[str], out: Path) -> list[Path]:
    """Write the files; returns their names.

    Raises:
        SlicewatchError: a file cannot be written.
    """
    files = {end: body for name in formats for end, body in FORMATS[name](report).items()}
    made = []
    for end, body in files.items():
        file = out / f"fairness-{report.revision.week}{end}"
        try:
            out.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
        except OSError as error:
            reason = error.strerror or "it cannot be written"
            raise SlicewatchError(f"--out: {file}: {reason}") from None
        made.append(file)
    return made
