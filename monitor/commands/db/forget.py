"""``slicewatch db forget``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from monitor.commands import wiring
from monitor.commands.db.opening import opened
from monitor.commands.options import settings_option
from monitor.errors import SlicewatchError
from monitor.store.forget import forget as forget_key

MAX_LENGTH = 200  # of a decision id, as in its event


# Unknown options are ids: click's own refusal would print what it was given.
@click.command("forget", context_settings={"ignore_unknown_options": True})
@click.argument("decision_ids", nargs=-1, metavar="[DECISION_ID]")
@click.option("--stdin", is_flag=True, help="Read ids from standard input instead, one a line.")
@settings_option
def forget(decision_ids: tuple[str, ...], stdin: bool, path: Path) -> None:
    """Erase everything that is stored under a decision's id; the counts stay.

    Ids are never printed. Prefer --stdin: arguments are seen in the list of processes and in
    the history of the shell. A label that comes later for the same decision waits for a day and
    then counts as unmatched; an event that is sent again is stored again, so erase it at its
    source first.

    Example: slicewatch db forget --stdin < ids.txt
    """
    ids = _ids(decision_ids, stdin)
    removed: Counter[str] = Counter()
    with opened(path) as (settings, engine):
        hasher = wiring.id_hasher(settings, engine)
        for key in (key for one in ids for key in hasher.under_all(one)):
            removed.update(forget_key(engine, key))
    click.echo(_sentence(removed, len(ids)))


def _ids(arguments: Sequence[str], stdin: bool) -> list[str]:
    if stdin == bool(arguments) or len(arguments) > 1:
        raise click.UsageError("give one DECISION_ID, in quotes, or --stdin")
    ids = [*arguments] if arguments else [line for line in _lines() if line]
    if not all(0 < len(one) <= MAX_LENGTH and _is_text(one) for one in ids):
        raise SlicewatchError(f"a decision id has 1 to {MAX_LENGTH} characters of UTF-8")
    return ids


def _lines() -> list[str]:
    raw = sys.stdin.buffer.read().replace(b"\r\n", b"\n")
    # What is not UTF-8 is refused later, without a word of it.
    return raw.decode(errors="surrogateescape").split("\n")


def _is_text(one: str) -> bool:
    """Whether it could be sent at all: half of a surrogate pair cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in one)


def _sentence(removed: Counter[str], asked: int) -> str:
    whose = "this id" if asked == 1 else f"these {asked} ids"
    if not removed.total():
        return f"nothing is stored under {whose}"
    rows = ", ".join(f"{number} from {table}" for table, number in removed.items())
    return f"rows removed under {whose}: {rows}"
