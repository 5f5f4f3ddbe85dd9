"""``slicewatch probe status``: comparisons, pages and present flips of the probe sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from monitor.commands.open_store import opened
from monitor.commands.options import settings_option
from monitor.core.probes.flips import Expected, FlipDirection, FlipStage
from monitor.core.probes.rounds import DeclaredSet, FlippingPair
from monitor.core.publish.words import NONE, iso_text, times
from monitor.core.time import to_datetime
from monitor.errors import SlicewatchError
from monitor.present.document import Table, table
from monitor.present.terminal import show_tables
from monitor.settings.sections import ProbesSettings

if TYPE_CHECKING:
    import sqlalchemy as sa

    from monitor.evaluate.probes import WatchedSet
    from monitor.store.evaluator.probe_sets import StoredProbeSet

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
        probe_status = _status(engine, _declared(settings.probes))
    if as_json:
        click.echo(msgspec.json.encode(probe_status))
    else:
        _print(probe_status)


def _declared(probes: ProbesSettings) -> Sequence[DeclaredSet]:
    from monitor.composition.evaluator import declared_sets

    if not probes.sets:
        raise SlicewatchError(
            "no probe set is declared: add [[probes.sets]], which slicewatch probe run SET prints"
        )
    return sorted(declared_sets(probes), key=lambda probe_set: probe_set.name)


def _status(engine: sa.Engine, declared: Iterable[DeclaredSet]) -> ProbeStatus:
    from monitor.store.database import reading
    from monitor.store.evaluator.probe_sets import read_probe_sets

    with reading(engine) as connection:
        stored = read_probe_sets(connection)
    sets = (
        report(_current_set(declared_set, stored.get(declared_set.name)))
        for declared_set in declared
    )
    return ProbeStatus(NOTE, tuple(sets))


def _current_set(declared: DeclaredSet, stored: StoredProbeSet | None) -> WatchedSet:
    """Return the WatchedSet read from the store; a new one if nothing usable is stored."""
    from monitor.evaluate.probes import WatchedSet

    watched = None if stored is None else WatchedSet.read(declared, stored)
    return watched or WatchedSet.start(declared)


def _print(probe_status: ProbeStatus) -> None:
    show_tables(*_sets(probe_status.sets), *_flipping(probe_status.sets))
    for probe_set in probe_status.sets:
        if any(probe_set.errors.values()):
            click.echo(f"{probe_set.name}: {_errors_text(probe_set.errors)}")
    click.echo(probe_status.note)


def _sets(sets: Iterable[ProbeSetReport]) -> tuple[Table, ...]:
    return table(
        "set|comparisons|incomplete|all compared since|pages|flip now",
        (
            (probe_set.name, f"{probe_set.compared:,}", f"{probe_set.incomplete:,}",
             iso_text(probe_set.covered),
             _pages_text(probe_set.pages) or NONE, f"{len(probe_set.flipping):,}")
            for probe_set in sets
        ),
    )  # fmt: skip


def _pages_text(pages: Mapping[FlipDirection, datetime]) -> str:
    return ", ".join(f"{way} since {iso_text(at)}" for way, at in pages.items())


def _flipping(sets: Iterable[ProbeSetReport]) -> Iterator[Table]:
    """Yield the table of the first pairs that flip; none without any."""
    rows = (
        (probe_set.name, flip.pair, flip.variant, flip.direction.value, flip.stage,
         _EXPECTED[flip.expected], iso_text(flip.at))
        for probe_set in sets
        for flip in probe_set.flipping
    )  # fmt: skip
    columns = "set|pair|variant|direction|stage|expected|compared"
    for flips in table(columns, rows, "pairs that flip now"):
        yield flips.first(MOST_LINES, "--json")


_EXPECTED = {Expected.READY: "ready", Expected.NOT_READY: "not ready", Expected.UNKNOWN: NONE}
_ERROR = {
    Expected.READY: "a ready reply was delayed",
    Expected.NOT_READY: "an unready reply was served",
    Expected.UNKNOWN: "unknown, as the set does not say whether the reply is ready:",
}


def _errors_text(errors: Mapping[Expected, int]) -> str:
    """Return the numbers of flips behind the evidence gate in words, by expected outcome.

    Example:
        >>> _errors_text({Expected.READY: 9, Expected.NOT_READY: 0, Expected.UNKNOWN: 0})
        'behind the evidence gate, a ready reply was delayed 9 times'
    """
    words = [f"{_ERROR[kind]} {times(count)}" for kind, count in errors.items() if count]
    return f"behind the evidence gate, {'; '.join(words)}"


NOTE = (
    "Probes are synthetic test conditions. A flip is a case to investigate, not a population"
    " disparity."
)


@dataclass(frozen=True, slots=True)
class FlippingReport:
    """A :class:`FlippingPair` in the status of a set; ``at`` is a datetime."""

    pair: str
    variant: str
    direction: FlipDirection
    stage: str
    expected: Expected
    at: datetime


@dataclass(frozen=True, slots=True)
class ProbeSetReport:
    """Status of one declared probe set, for ``slicewatch probe status``.

    Attributes:
        digest: content hash.
        pairs: number of pairs.
        reference: the variant that all others are compared with.
        compared: comparisons of a variant with the reference since the declaration.
        incomplete: number of incomplete rounds, and of decisions of no round.
        covered: event time since which every pair was compared; until then the time of the
            declaration. None until the service has seen the set.
        pages: directions that page, with the time since when.
        errors: number of present flips by expected readiness. Flips at the evidence gate are left
            out, as in the test.
        flipping: present flips by pair and variant.
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
    """Status of all declared probe sets, for ``slicewatch probe status``.

    Attributes:
        note: the meaning of a flip.
        sets: sorted by name.
    """

    note: str
    sets: tuple[ProbeSetReport, ...]


def report(watched: WatchedSet) -> ProbeSetReport:
    """Return the ProbeSetReport of a watched set."""
    pairs, declared, shown = watched.pairs, watched.pairs.declared, watched.shown()
    behind = [flip for flip in pairs.flipping if flip.stage != FlipStage.EVIDENCE_GATE]
    errors = Counter(flip.expected for flip in behind)
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


def _flip(pair: FlippingPair) -> FlippingReport:
    location = (pair.direction, pair.stage, pair.expected)
    return FlippingReport(pair.pair, pair.variant, *location, to_datetime(pair.at))
