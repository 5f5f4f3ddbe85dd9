"""``slicewatch report``: the weekly report of a stored Release, and signatures on it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from monitor.clock import SystemClock
from monitor.commands.open_store import opened
from monitor.commands.options import ROW_ID, checked_act, settings_option
from monitor.commands.starting import uninterrupted
from monitor.commands.working import working
from monitor.core.plain_text import LONGEST_NAME
from monitor.core.publish.release import StoredReport
from monitor.core.publish.snapshot import decode
from monitor.core.publish.words import moment_text
from monitor.core.time import IsoWeek
from monitor.errors import SlicewatchError
from monitor.reports import WeeklyReport, as_json, bundle
from monitor.reports.decision import Word, decide
from monitor.reports.formats import as_csv, as_html, as_markdown, as_pdf

if TYPE_CHECKING:
    import sqlalchemy as sa

    from monitor.store.exclusions import Exclusion

EXIT_NOT_APPROVED = 1
_WEEK = "such as 2026-W47"
_POLL_SECONDS = 1.0
Files = Mapping[str, bytes]


def _csv(report: WeeklyReport) -> Files:
    return {f"-{name}.csv": text.encode() for name, text in as_csv(report.release).items()}


FORMATS: Mapping[str, Callable[[WeeklyReport], Files]] = {
    "html": lambda report: {".html": as_html(report).encode()},
    "json": lambda report: {".json": as_json.render(report)},
    "csv": _csv,
    "md": lambda report: {".md": as_markdown(report).encode()},
    "pdf": lambda report: {".pdf": as_pdf(report)},
}
"""Renderers of the formats, each returning its files by the ending of their names."""
DEFAULT = ("html", "json", "csv", "md")
"""Formats that need nothing but slicewatch itself."""

week_option = click.option(
    "--week", metavar="WEEK", help=f"An ISO week, {_WEEK}; in UTC, or report.timezone."
)
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
    default=",".join(DEFAULT),
    show_default=True,
    help="Formats to write, separated by commas; pdf is one more, and needs slicewatch[pdf].",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Folder to write into; the present one by default.",
)
@click.option(
    "--diff",
    "against",
    metavar="REVISION",
    type=ROW_ID,
    help="Show what has changed since this revision; by default since the newest earlier one that"
    " somebody has signed, else since the first.",
)
@click.option(
    "--bundle",
    "bundled",
    is_flag=True,
    help="Write one archive: the report in its formats, contracts, ledger, signatures, checksums.",
)
@click.option(
    "--wait",
    metavar="SECONDS",
    type=click.FloatRange(0, 86_400),
    default=0.0,
    help="How long to wait until the evaluator has stored the Release of a week that has just"
    " ended; by default not at all.",
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
    against: int | None,
    bundled: bool,
    wait: float,
    path: Path,
) -> None:
    """Write the fairness report of a closed week: decision, slices, what was not measured.

    It is made from the Release that the evaluator stored when the week was over, or from a later
    revision, stored because more labels had arrived. It contains no number that the Release does
    not contain.

    The exit code is 0 if the week is APPROVED, and 1 if it is BLOCKED or UNDECIDED.

    Example: slicewatch report --week 2026-W47 --format html,json --out reports
    """
    from monitor.composition.site import report_facts

    if context.invoked_subcommand is not None:
        return
    wanted_formats, week_in_zone = _formats(formats), _week_by_zone(week, last_week=last_week)
    with opened(path) as (settings, engine):
        iso_week = week_in_zone(settings.report.timezone)
        stored = _wait_for_report(engine, iso_week, revision, wait)
        if against is not None:
            stored = _compare_with(engine, iso_week, stored, against)
        report = WeeklyReport.from_stored(stored, report_facts(settings))
        files = _render_files(report, wanted_formats)
        if bundled:
            files = _bundle_file(engine, report, files)
    for file in _write_files(files, out):
        click.echo(f"{file}")
    decision = decide(report.release, report.zone)
    click.echo(f"{decision.word}: {decision.sentence}", err=True)
    if decision.word is not Word.APPROVED:
        sys.exit(EXIT_NOT_APPROVED)


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

    A signature is kept when the Release is revised, and is then shown with the revision it signs.

    Example: slicewatch report sign --week 2026-W47 --by "A. Person" --note "accepted; see ticket"
    """
    from monitor.store.evaluator import weekly_releases

    act = checked_act("report sign", by, note)
    week_in_zone = _week_by_zone(week, last_week=False)
    with opened(path) as (settings, engine):
        iso_week = week_in_zone(settings.report.timezone)
        release_revision = _find_report(engine, iso_week, revision).revision
        signed = weekly_releases.sign(engine, release_revision, act, SystemClock().now())
    click.echo(
        f"{signed.by} has signed {signed.week}, revision {signed.revision}, SHA-256 {signed.digest}"
    )


def _formats(text: str) -> list[str]:
    formats = list(dict.fromkeys(part.strip() for part in text.split(",")))
    if not set(formats) <= FORMATS.keys():
        raise SlicewatchError(f"--format must be a list of {', '.join(FORMATS)}, such as html,json")
    return formats


def _week_by_zone(text: str | None, *, last_week: bool) -> Callable[[str], IsoWeek]:
    """Return a function from time zone to the week that --week or --last-week names.

    Raises:
        SlicewatchError: there is no such week.
    """
    if last_week and text is not None:
        raise SlicewatchError("--week and --last-week exclude each other; give one of them")
    if last_week:
        return lambda zone: IsoWeek.containing(SystemClock().now(), zone).before
    if text is None:
        raise SlicewatchError(f"--week is missing; give an ISO week, {_WEEK}, or --last-week")
    try:
        iso_week = IsoWeek.named(text[:LONGEST_NAME])
    except ValueError:
        raise SlicewatchError(f"--week must be an ISO week, {_WEEK}") from None
    return lambda zone: replace(iso_week, zone=zone)


class _NotYetError(SlicewatchError):
    """Error for a Release that is not stored yet, and may be soon."""


def _wait_for_report(
    engine: sa.Engine, week: IsoWeek, number: int | None, seconds: float
) -> StoredReport:
    """Return the stored report, polled up to ``seconds``; then raise why it is missing."""
    end = time.monotonic() + seconds
    with working(f"waiting for the Release of week {week.name}"):
        while True:
            try:
                return _find_report(engine, week, number)
            except _NotYetError:
                if week.end > SystemClock().now() or time.monotonic() >= end:
                    raise
            time.sleep(min(_POLL_SECONDS, max(0.0, end - time.monotonic())))


def _find_report(
    engine: sa.Engine, week: IsoWeek, number: int | None, option: str = "--revision"
) -> StoredReport:
    """Return the stored report of a week; raise SlicewatchError that explains a missing one.

    Raises:
        SlicewatchError: there is no such revision; the message says why.
    """
    from monitor.store.database import reading
    from monitor.store.evaluator.records import newest_snapshot
    from monitor.store.evaluator.weekly_releases import find_revision, stored_report, stored_weeks

    with reading(engine) as connection:
        report = stored_report(connection, week, number)
        if report is not None:
            return report
        newest = find_revision(connection, week.name)
        weeks, shown = stored_weeks(connection), newest_snapshot(connection)
    if newest is not None:
        raise SlicewatchError(
            f"{option}: week {week.name} has no such revision; the newest is {newest.number}"
        )
    reached = decode(shown[1]).watermark if shown else None
    if reached is None or reached < week.end:
        until = f"up to {moment_text(reached, week.zone)}" if reached else "in no hour yet"
        raise _NotYetError(
            f"week {week.name} is not over: it ends {moment_text(week.end, week.zone)}, and"
            f" decisions are complete {until}; take an earlier week or wait"
        )
    if weeks and week.name < weeks[-1]:
        raise SlicewatchError(
            f"there is no Release of week {week.name}; stored are {weeks[0]} to {weeks[-1]}"
        )
    raise _NotYetError(
        f"the Release of week {week.name} is not stored yet; the evaluator stores it within"
        " moments where it runs: --wait SECONDS waits for it"
    )


def _compare_with(
    engine: sa.Engine, week: IsoWeek, stored: StoredReport, number: int
) -> StoredReport:
    """Return ``stored``, to be compared with revision ``number`` instead of the default.

    Raises:
        SlicewatchError: the revision does not exist, or is the reported one.
    """
    if number == stored.revision.number:
        raise SlicewatchError("--diff is the revision that is reported; give another one")
    return replace(stored, earlier=_find_report(engine, week, number, "--diff").revision)


def _render_files(report: WeeklyReport, formats: list[str]) -> dict[str, bytes]:
    """Return the report in its formats, as bytes by file name."""
    name = f"fairness-{report.revision.week}"
    return {f"{name}{end}": body for kind in formats for end, body in FORMATS[kind](report).items()}


def _bundle_file(
    engine: sa.Engine, report: WeeklyReport, files: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return one zip archive of the report and its sources, as bytes by file name."""
    from monitor.store.database import reading
    from monitor.store.evaluator.records import RecordStore
    from monitor.store.evaluator.weekly_releases import all_revisions
    from monitor.store.exclusions import read_exclusions

    week = report.revision.week
    with reading(engine) as connection:
        revisions = tuple(all_revisions(connection, week))
        left_out = tuple(map(_left_out, read_exclusions(connection)))
    contracts = {
        (contract.name, contract.version): contract.record
        for contract in RecordStore(engine).contracts()
    }
    sources = bundle.BundleSources(revisions, contracts, left_out)
    name = f"fairness-{week}"
    return {f"{name}.zip": bundle.archive(name, {**files, **bundle.files(report, sources)})}


def _left_out(exclusion: Exclusion) -> bundle.LeftOut:
    declared = exclusion.declared
    return bundle.LeftOut(
        declared.span.start,
        declared.span.end,
        declared.version,
        declared.reason,
        declared.owner,
        exclusion.excluded_at,
        exclusion.lifted_at,
    )


def _write_files(files: Mapping[str, bytes], out: Path) -> list[Path]:
    """Write the files into the folder ``out``, made if needed; return their paths.

    Raises:
        SlicewatchError: a file cannot be written.
    """
    paths = []
    for name, body in files.items():
        file = out / name
        try:
            out.mkdir(parents=True, exist_ok=True)
            with uninterrupted():
                file.write_bytes(body)
        except OSError as error:
            reason = error.strerror or "it cannot be written"
            raise SlicewatchError(f"--out: {file}: {reason}") from None
        paths.append(file)
    return paths
