"""``slicewatch backtest``: try a contract on stored data, or propose one from a baseline."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.progress import Progress

from monitor.commands.backtest_proposal import proposed
from monitor.commands.open_store import opened
from monitor.commands.options import instant, settings_option
from monitor.commands.working import working
from monitor.core.contract import Severity
from monitor.core.plain_text import LONGEST_NAME
from monitor.core.publish.backtests import Backtest, BacktestIncident
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.release import Release
from monitor.core.publish.snapshot import WITHHELD
from monitor.core.publish.words import counted
from monitor.core.time import IsoWeek, day_text
from monitor.errors import SlicewatchError
from monitor.reports.proposals import propose

if TYPE_CHECKING:
    import sqlalchemy as sa


@click.command("backtest")
@click.option(
    "--contract",
    "contract",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file with the [[use_case]] tables to try; by default those of the settings.",
)
@click.option("--since", metavar="TIME", help="Take decisions from here on; by default all.")
@click.option("--until", metavar="TIME", help="Take decisions up to here; by default all.")
@click.option(
    "--propose",
    "proposes",
    is_flag=True,
    help="Propose limits, window and smallest support instead, as a file for --contract.",
)
@click.option(
    "--baseline",
    metavar="WEEKS",
    help="With --propose: weeks that were as they should be, separated by commas; by default all"
    " that have a Release.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_option
def command(
    contract: Path | None,
    since: str | None,
    until: str | None,
    baseline: str | None,
    path: Path,
    *,
    proposes: bool,
    as_json: bool,
) -> None:
    """Try a contract on the stored cohorts: which pages and tickets it would have raised.

    The detectors of the service run once more over the stored cohorts, with other limits, supports
    or group-bys, from the oldest cohort that is kept (the horizon and eight days back). Nothing is
    written or sent. Slices that no published table shows are withheld; times are given to the day.

    Example: slicewatch backtest --propose --baseline 2026-W45,2026-W46 > new.toml;
    slicewatch backtest --contract new.toml
    """
    from monitor.composition.evaluator import backtest_policy
    from monitor.evaluate.backtest import backtest

    if baseline is not None and not proposes:
        raise SlicewatchError("--baseline goes with --propose; give both, or neither")
    if proposes and (contract or since or until):
        raise SlicewatchError("--propose takes no --contract, --since or --until; give --baseline")
    first = None if since is None else instant("--since", since)
    last = None if until is None else instant("--until", until)
    with opened(path, contract=contract) as (settings, engine):
        if proposes:
            releases = _releases(engine, baseline)
            proposals = [propose(use_case.name, releases) for use_case in settings.use_case]
            click.echo(_json(proposals) if as_json else proposed(settings, proposals), nl=False)
            return
        with _progress() as advance:
            report = backtest(engine, backtest_policy(settings, engine, first, last), advance)
    if as_json:
        click.echo(_json(report), nl=False)
    else:
        _print(report)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Yield a function (done, total) that moves a progress bar; in a pipe, print reminders only."""
    if not sys.stderr.isatty():
        with working("trying the contract"):
            yield lambda done, total: None
        return
    with Progress(console=Console(file=sys.stderr)) as bar:
        task = bar.add_task("hours of cohorts", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"


def _print(report: Backtest) -> None:
    if report.start is None or report.end is None:
        raise SlicewatchError(
            "no cohort is kept of that time: the detectors have consumed none, or they are deleted"
        )
    hours = (
        f"{report.hours} hours of cohorts, {day_text(report.start)} to {day_text(report.end)} (UTC)"
    )
    remarks = [f"{report.left_out} of them left out"] if report.left_out else []
    remarks += (
        [f"{report.bulk} loaded as history, of which nothing was sent"] if report.bulk else []
    )
    click.echo("; ".join([hours, *remarks]))
    for incident in report.incidents:
        click.echo(_line(incident))
    sent = [incident.severity for incident in report.incidents]
    pages, tickets = sent.count(Severity.PAGE), sent.count(Severity.TICKET)
    click.echo(f"{counted(pages, 'page')}, {counted(tickets, 'ticket')}")
    if any(incident.slice == WITHHELD for incident in report.incidents):
        click.echo("withheld: no published table shows that slice and rate of that contract")


def _line(incident: BacktestIncident) -> str:
    name = "slice withheld" if incident.slice == WITHHELD else slice_name(incident.slice)
    ended = (
        "not resolved" if incident.resolved is None else f"resolved {day_text(incident.resolved)}"
    )
    subject = f"{incident.contract}  {incident.metric.value}  {name}"
    return f"{incident.severity.value:<6} {day_text(incident.since)}  {subject}  ({ended})"


def _releases(engine: sa.Engine, baseline: str | None) -> list[Release]:
    """Return the newest Release of each named week, or of all weeks; refuse missing ones."""
    from monitor.store.database import reading
    from monitor.store.evaluator.weekly_releases import find_revision, stored_weeks

    with reading(engine) as connection:
        weeks = stored_weeks(connection) if baseline is None else _weeks(baseline)
        revisions = [(week, find_revision(connection, week)) for week in weeks]
    missing = [week for week, revision in revisions if revision is None]
    if missing:
        raise SlicewatchError(f"--baseline: there is no Release of week {missing[0]}")
    if not revisions:
        raise SlicewatchError("no week has a Release yet; a baseline needs one that is over")
    return [revision.release for _, revision in revisions if revision is not None]


def _weeks(text: str) -> list[str]:
    try:
        names = [part.strip()[:LONGEST_NAME] for part in text.split(",")]
        return [IsoWeek.named(name).name for name in sorted(set(names))]
    except ValueError:
        raise SlicewatchError(
            "--baseline must be ISO weeks separated by commas, such as 2026-W45,2026-W46"
        ) from None
