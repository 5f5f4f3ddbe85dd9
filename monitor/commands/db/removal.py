"""``slicewatch db exclude`` and ``forget``: leave data out of windows, erase a decision's id."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from monitor.clock import SystemClock
from monitor.commands.open_store import opened
from monitor.commands.options import ROW_ID, instant, settings_option
from monitor.core.plain_text import LONGEST_NAME, LONGEST_NOTE, plain_line
from monitor.core.publish.words import iso_text
from monitor.core.time import TimeSpan
from monitor.errors import SlicewatchError
from monitor.present.document import table
from monitor.present.terminal import show_tables
from monitor.settings.kinds import duration_text

if TYPE_CHECKING:
    from monitor.store.exclusions import Declaration, Exclusion

LONGEST_VERSION = 4096  # far longer than any counted tuple of versions
MAX_LENGTH = 200  # characters of a decision id, as in its event


@click.command("exclude")
@settings_option
@click.option("--from", "start", metavar="TIME", help="First instant, as 2026-06-01T10:00:00Z.")
@click.option("--to", "end", metavar="TIME", help="End, exclusive.")
@click.option(
    "--version", metavar="TEXT", help="Only hours in which this version decided anything."
)
@click.option("--reason", metavar="TEXT", help="Why; stored for good.")
@click.option("--owner", metavar="TEXT", help="Who is responsible; stored for good.")
@click.option("--lift", type=ROW_ID, metavar="ID", help="Lift an exclusion.")
@click.option("--list", "listing", is_flag=True, help="Show all, lifted ones too.")
def exclude(path: Path, lift: int | None, listing: bool, **declared: str | None) -> None:
    """Exclude known-bad data from all windows, list or lift exclusions.

    Whole tables are excluded: those of every hour, day and week that overlap the given span of
    event time. That may be more than was asked for. Nothing is deleted; --lift puts the tables back
    into the windows.

    Example: slicewatch db exclude --from 2026-06-01T10:00:00Z --to 2026-06-01T12:00:00Z
    --reason "the router logged test traffic" --owner "triage team"
    """
    from monitor.store import database
    from monitor.store.exclusions import add_exclusion, lift_exclusion, read_exclusions

    declares = any(text is not None for text in declared.values())
    if [declares, lift is not None, listing].count(True) != 1:
        raise SlicewatchError(
            "give --from, --to, --reason and --owner, or --lift ID, or --list alone"
        )
    declaration = _declaration(**declared) if declares else None
    with opened(path) as (settings, engine):
        if declaration is not None:
            click.echo(_addition_text(add_exclusion(engine, declaration, SystemClock().now())))
        elif lift is not None:
            lift_exclusion(engine, lift, SystemClock().now())
            click.echo(f"exclusion {lift} is lifted: its tables return to the windows")
        else:
            with database.reading(engine) as connection:
                _print(read_exclusions(connection))
            return
    click.echo(
        "The evaluator applies it within one cycle"
        f" ({duration_text(settings.evaluate.cycle)}), or when it is next started."
    )


def _declaration(
    start: str | None, end: str | None, version: str | None, reason: str | None, owner: str | None
) -> Declaration:
    from monitor.store.exclusions import Declaration

    first, last = (
        instant(option, _required_text(option, text))
        for option, text in (("--from", start), ("--to", end))
    )
    if first >= last:
        raise SlicewatchError("--from must be before --to, which is exclusive")
    if version is not None:
        version = plain_line("--version", version, LONGEST_VERSION)
    checked_reason = plain_line("--reason", _required_text("--reason", reason), LONGEST_NOTE)
    checked_owner = plain_line("--owner", _required_text("--owner", owner), LONGEST_NAME)
    return Declaration(TimeSpan(first, last), version, checked_reason, checked_owner)


def _required_text(option: str, text: str | None) -> str:
    """Return the text of an option as it is; an error if it is missing or blank."""
    if text is None or not text.strip():
        raise SlicewatchError(f"{option} is missing; slicewatch db exclude --help has an example")
    return text


def _addition_text(exclusion: Exclusion) -> str:
    declared = exclusion.declared
    span = f"from {iso_text(declared.span.start, 'auto')} to {iso_text(declared.span.end, 'auto')}"
    tables = (
        f"the tables of all hours, days and weeks that overlap the time {span}"
        if declared.version is None
        else f"the tables of all hours, days and weeks in which version {declared.version} decided"
        f" anything {span}"
    )
    return (
        f"exclusion {exclusion.id}: {tables} are excluded from all windows.\n"
        "Tables are excluded as a whole, which may be more than was asked for; the windows"
        " concerned say so (slicewatch_window_excluded).\n"
        f"Nothing is deleted: slicewatch db exclude --lift {exclusion.id} lifts it."
    )


def _print(exclusions: Sequence[Exclusion]) -> None:
    if not exclusions:
        click.echo("there are no exclusions")
    columns = "id|from|to|version|reason|owner|declared|lifted"
    show_tables(*table(columns, map(_cells, exclusions), "exclusions"))


def _cells(exclusion: Exclusion) -> tuple[str, ...]:
    """Return an exclusion as texts of a table's row."""
    return (
        str(exclusion.id),
        iso_text(exclusion.declared.span.start, "auto"),
        iso_text(exclusion.declared.span.end, "auto"),
        exclusion.declared.version or "all",
        exclusion.declared.reason,
        exclusion.declared.owner,
        iso_text(exclusion.excluded_at, "seconds"),
        iso_text(exclusion.lifted_at, "seconds"),
    )


# Unknown options are ids: click's own refusal would print what it was given.
@click.command("forget", context_settings={"ignore_unknown_options": True})
@click.argument("decision_ids", nargs=-1, metavar="[DECISION_ID]")
@click.option("--stdin", is_flag=True, help="Read ids from standard input, one per line.")
@settings_option
def forget(decision_ids: tuple[str, ...], stdin: bool, path: Path) -> None:
    """Erase everything that is stored under a decision's id; the counts stay.

    Ids are never printed. Prefer --stdin: arguments are visible in the process list and in the
    shell's history. A later label for the same decision waits for a day and then counts as
    unmatched; an event that is sent again is stored again, so erase it at its source first.

    Example: slicewatch db forget --stdin < ids.txt
    """
    from monitor.composition.ingest import id_hasher
    from monitor.store.erasure import forget as forget_key

    ids = _ids(decision_ids, stdin)
    removed: Counter[str] = Counter()
    with opened(path) as (settings, engine):
        hasher = id_hasher(settings, engine)
        for key in (key for decision_id in ids for key in hasher.under_all(decision_id)):
            removed.update(forget_key(engine, key))
    click.echo(_sentence(removed, len(ids)))


def _ids(arguments: Sequence[str], stdin: bool) -> list[str]:
    if stdin == bool(arguments) or len(arguments) > 1:
        raise click.UsageError("give one DECISION_ID, in quotes, or --stdin")
    ids = [*arguments] if arguments else [line for line in _lines() if line]
    if not all(
        0 < len(decision_id) <= MAX_LENGTH and _is_encodable(decision_id) for decision_id in ids
    ):
        raise SlicewatchError(f"a decision id has 1 to {MAX_LENGTH} characters of UTF-8")
    return ids


def _lines() -> list[str]:
    raw = sys.stdin.buffer.read().replace(b"\r\n", b"\n")
    # Ids that are not UTF-8 are refused later, by a message that does not repeat them.
    return raw.decode(errors="surrogateescape").split("\n")


def _is_encodable(decision_id: str) -> bool:
    """Return True when an id can be encoded as UTF-8: it has no half of a surrogate pair."""
    return not any("\ud800" <= letter <= "\udfff" for letter in decision_id)


def _sentence(removed: Counter[str], number_of_ids: int) -> str:
    subject = "this id" if number_of_ids == 1 else f"these {number_of_ids} ids"
    if not removed.total():
        return f"nothing is stored under {subject}"
    rows = ", ".join(f"{count} from {table}" for table, count in removed.items())
    return f"rows removed under {subject}: {rows}"
