"""``slicewatch probe status``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType

import click
import msgspec
import sqlalchemy as sa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from monitor.audit.model import Item
from monitor.commands.db.access import opened
from monitor.commands.options import settings_option
from monitor.commands.probe.report import A_CASE, ProbeSetReport, ProbeStatus, report
from monitor.commands.tables import NONE, console, moment, plain_table
from monitor.composition import declared_sets
from monitor.core.probes.pairs import DeclaredSet
from monitor.errors import SlicewatchError
from monitor.evaluate.probes import WatchedSet
from monitor.settings.sections import Probes
from monitor.store.database import reading
from monitor.store.evaluator.probe_sets import StoredProbeSet, read_probe_sets

MOST_LINES = 50


@click.command("status")
@settings_option
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
def status(path: Path, *, as_json: bool) -> None:
    """Show what came of the declared probe sets, and the pairs that flip now.

    A pair flips now if a variant took another route than the reference when the two were compared
    last. At most 50 are printed; with --json all of them.

    Example: slicewatch probe status --json
    """
    with opened(path) as (settings, engine):
        found = _status(engine, _declared(settings.probes))
    if as_json:
        click.echo(msgspec.json.encode(found))
    else:
        _print(found)


def _declared(probes: Probes) -> Sequence[DeclaredSet]:
    if not probes.sets:
        raise SlicewatchError(
            "no probe set is declared: add [[probes.sets]]; slicewatch probe run SET prints it"
        )
    return sorted(declared_sets(probes), key=lambda one: one.name)


def _status(engine: sa.Engine, declared: Iterable[DeclaredSet]) -> ProbeStatus:
    with reading(engine) as connection:
        stored = read_probe_sets(connection)
    sets = (report(_watched(one, stored.get(one.name))) for one in declared)
    return ProbeStatus(A_CASE, tuple(sets))


def _watched(declared: DeclaredSet, stored: StoredProbeSet | None) -> WatchedSet:
    """As the service would go on with it."""
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


class ProgressBar:
    """A watcher of rounds; ``with`` it, and :meth:`begin` each."""

    def __init__(self) -> None:
        console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("pairs"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("probe", total=None)

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def begin(self, number: int, pairs: int) -> None:
        """A round begins."""
        self._bar.reset(self._task, description=f"round {number}", total=pairs)

    def failed(self, item: Item, why: str) -> None:
        """A variant has no answer."""
        self.say(f"{item.pair}/{item.variant}: {why}")

    def mixed(self, pair: str) -> None:
        """A pair's variants were decided by different versions."""
        self.say(f"{pair}: the router's versions changed between its variants; it is left out")

    def advanced(self) -> None:
        """A pair is over."""
        self._bar.advance(self._task)

    def say(self, line: str) -> None:
        """A line above the bar."""
        self._bar.console.print(line, markup=False)
