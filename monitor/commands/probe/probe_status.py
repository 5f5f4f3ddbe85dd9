"""``slicewatch probe status``: what was compared, what pages, what flips now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

import click
import msgspec
import sqlalchemy as sa
from rich.table import Table
from rich.text import Text

from monitor.commands.console import NONE, console, moment, plain_table
from monitor.commands.open_store import opened
from monitor.commands.options import settings_option
from monitor.composition import declared_sets
from monitor.core.probes.flips import Expected, FlipDirection, FlipStage
from monitor.core.probes.rounds import DeclaredSet, FlippingPair
from monitor.core.time import to_datetime
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
    for one in found.sets:
        if any(one.errors.values()):
            shown.print(Text(f"{one.name}: {_errors(one.errors)}"))
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
        (one.name, flip.pair, flip.variant, flip.direction.value, flip.stage,
         _EXPECTED[flip.expected], moment(flip.at))
        for one in sets
        for flip in one.flipping
    )  # fmt: skip
    names = ("set", "pair", "variant", "direction", "stage", "expected", "compared")
    return plain_table(names, islice(rows, MOST_LINES))


_EXPECTED = {
    Expected.READY: "ready",
    Expected.NOT_READY: "not ready",
    Expected.UNKNOWN: NONE,
}
_ERROR = {
    Expected.READY: "a ready reply was delayed",
    Expected.NOT_READY: "an unready reply was served",
    Expected.UNKNOWN: "unknown, as the set does not say whether the reply is ready:",
}


def _errors(errors: Mapping[Expected, int]) -> str:
    """Flips behind the gate in words.

    Example:
        >>> _errors({Expected.READY: 9, Expected.NOT_READY: 0, Expected.UNKNOWN: 0})
        'behind the evidence gate, a ready reply was delayed 9 times'
    """
    words = [f"{_ERROR[kind]} {_times(count)}" for kind, count in errors.items() if count]
    return f"behind the evidence gate, {'; '.join(words)}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


A_CASE = (
    "Probes are synthetic test conditions. A flip is a case to investigate, not a population"
    " disparity."
)


@dataclass(frozen=True, slots=True)
class FlippingReport:
    """A variant of a pair that flips at its newest comparison.

    Attributes:
        pair: id in the set.
        variant: the one that was compared with the reference.
        direction: which way.
        stage: at which the two diverge.
        expected: what the set expects of the reply, and so which error it is: of a ready reply, it
            is delayed; of an unready one, it is served.
        at: event time of the comparison.
    """

    pair: str
    variant: str
    direction: FlipDirection
    stage: str
    expected: Expected
    at: datetime


@dataclass(frozen=True, slots=True)
class ProbeSetReport:
    """One declared set.

    Attributes:
        name: as declared.
        digest: content hash.
        pairs: how many it has.
        reference: what the other variants are compared with.
        compared: comparisons of a variant with the reference, since it was declared.
        incomplete: rounds that came in part, and decisions of no round.
        covered: event time since which every pair was compared; until then, when it was declared.
            None until the service has seen the set.
        pages: directions that page, and since when.
        errors: flips now by what is expected, behind the evidence gate, which is held outside as
            in the test: of ready replies, one is delayed; of unready ones, one is served.
        flipping: what flips now, by pair and variant.
    """

    name: str
    digest: str
    pairs: int
    reference: str
    compared: int
    incomplete: int
    covered: datetime | None
    pages: Mapping[FlipDirection, datetime]
    errors: Mapping[Expected, int]
    flipping: tuple[FlippingReport, ...]


@dataclass(frozen=True, slots=True)
class ProbeStatus:
    """All declared sets.

    Attributes:
        note: what flips are, and what they are not.
        sets: by name.
    """

    note: str
    sets: tuple[ProbeSetReport, ...]


def report(watched: WatchedSet) -> ProbeSetReport:
    """Report of one set."""
    pairs, declared, shown = watched.pairs, watched.pairs.declared, watched.shown()
    behind = [one for one in pairs.flipping if one.stage != FlipStage.EVIDENCE_GATE]
    errors = Counter(one.expected for one in behind)
    return ProbeSetReport(
        name=declared.name,
        digest=declared.digest,
        pairs=declared.pairs,
        reference=declared.reference,
        compared=pairs.compared,
        incomplete=pairs.incomplete,
        covered=None if shown is None else to_datetime(shown.covered),
        pages={way: to_datetime(at) for way, at in sorted(watched.watch.shown().items())},
        errors={kind: errors[kind] for kind in Expected},
        flipping=tuple(map(_flip, pairs.flipping)),
    )


def _flip(one: FlippingPair) -> FlippingReport:
    where = (one.direction, one.stage, one.expected)
    return FlippingReport(one.pair, one.variant, *where, to_datetime(one.at))
