"""``slicewatch probe status``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import click
import msgspec
import sqlalchemy as sa
from rich.table import Table
from rich.text import Text

from monitor.commands.db.access import opened
from monitor.commands.options import settings_option
from monitor.commands.probe.report import A_CASE, ProbeSetReport, ProbeStatus, report
from monitor.commands.tables import NONE, console, moment, plain_table
from monitor.composition import declared_sets
from monitor.core.probes.pairs import DeclaredSet
from monitor.errors import SlicewatchError
from monitor.evaluate.probes import WatchedSet
from monitor.settings.sections import ProbesSettings
from monitor.store.database import reading
from monitor.store.evaluator.probe_sets import StoredProbeSet, read_probe_sets

MOST_LINES = 50


@click.command("status")
@settings_option
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
def status(path: Path, *, as_json: bool) -> None:
    """Show the results of the declared probe sets, and the pairs that flip now.

    A pair flips now if a variant took another route than the reference in their newest comparison.
    At most 50 are printed; with --json all of them.

    Example: slicewatch probe status --json
    """
    with opened(path) as (settings, engine):
        found = _status(engine, _declared(settings.probes))
    if as_json:
        click.echo(msgspec.json.encode(found))
    else:
        _print(found)


def _declared(probes: ProbesSettings) -> Sequence[DeclaredSet]:
    if not probes.sets:
        raise SlicewatchError(
            "no probe set is declared: add [[probes.sets]], which slicewatch probe run SET prints"
        )
    return sorted(declared_sets(probes), key=lambda one: one.name)


def _status(engine: sa.Engine, declared: Iterable[DeclaredSet]) -> ProbeStatus:
    with reading(engine) as connection:
        stored = read_probe_sets(connection)
    sets = (report(_watched(one, stored.get(one.name))) for one in declared)
    return ProbeStatus(A_CASE, tuple(sets))


def _watched(declared: DeclaredSet, stored: StoredProbeSet | None) -> WatchedSet:
    """State of a set as the service would go on with it."""
    found = None if stored is None else WatchedSet.read(declared, stored)
    return found or WatchedSet.start(declared)


def _print(found: ProbeStatus) -> None:
    shown = console()
    shown.print(_sets(found.sets))
    flipping = sum(len(one.flipping) for one in found.sets)
    if flipping:
        shown.print(_flipping(found.sets))
    if flipping > MOST_LINES:
        shown.print(Text(f"and {flipping - MOST_LINES:,} more: --json has all of them"))
    shown.print(Text(found.note))


def _sets(sets: Iterable[ProbeSetReport]) -> Table:
    names = ("set", "comparisons", "incomplete", "all compared since", "pages", "flip now")
    return plain_table(
        names,
        (
            (one.name, f"{one.compared:,}", f"{one.incomplete:,}",
             NONE if one.covered is None else moment(one.covered),
             ", ".join(f"{way} since {moment(at)}" for way, at in one.pages.items()) or NONE,
             f"{len(one.flipping):,}")
            for one in sets
        ),
    )  # fmt: skip


def _flipping(sets: Iterable[ProbeSetReport]) -> Table:
    rows = (
        (one.name, flip.pair, flip.variant, flip.direction.value, flip.stage, moment(flip.at))
        for one in sets
        for flip in one.flipping
    )
    names = ("set", "pair", "variant", "direction", "stage", "compared")
    return plain_table(names, islice(rows, MOST_LINES))
