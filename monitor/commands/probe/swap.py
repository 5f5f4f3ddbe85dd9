"""Compares what a router makes of traces and of the same with one value exchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from monitor.clock import SystemClock
from monitor.commands.probe.progress import ProgressBar
from monitor.commands.probe.publisher import exit_code, shortfalls
from monitor.commands.probe.router_options import Asking, asking
from monitor.commands.tables import console
from monitor.core.probes.flips import Observed
from monitor.errors import SlicewatchError
from monitor.probing.run import Runner
from monitor.probing.swap import (
    NAME,
    Listed,
    Swap,
    Swapped,
    SwapReview,
    SwapShare,
    SwapSummary,
    for_review,
    sides,
    summary,
    swapped,
)
from monitor.probing.traces import read_traces
from monitor.settings import Settings

NONE = "-"


def compare(
    path: Path, swap: Swap, settings: Settings, how: Asking, review: SwapReview, *, dry: bool
) -> int:
    """Send both variants of every trace that has the value, print what differs; the exit code.

    Nothing is published, and nothing is written: neither requests nor values of attributes.
    """
    _check_listed(swap, settings)
    made = swapped(read_traces(path), swap)
    access = how.access(settings)
    if dry:
        click.echo(f"{len(made.ids):,} traces have the value to swap; nothing was sent")
        return 0
    rng = how.rng()
    with asking(access, how.rate) as (sender, _), ProgressBar() as bar:
        runner = Runner(
            made.probe_set,
            NAME,
            sender,
            clock=SystemClock(),
            rng=rng,
            publish=lambda pair, answered: None,
        )
        bar.begin(1, len(made.ids))
        done = runner.round(bar)
    found = sides(done.answered, made.ids)
    click.echo(f"{len(found):,} of {len(made.ids):,} traces compared, {swap.attribute} exchanged")
    for line in (*_notes(made, swap), *shortfalls(done)):
        click.echo(line)
    together = summary(found, settings.privacy.k)
    if together is None:
        click.echo(f"fewer than {settings.privacy.k} comparisons: nothing more is shown")
    else:
        console().print(
            _summary_table(together),
            _difference_text(together),
            _review_table(for_review(found, review, rng)),
        )
    return exit_code(done)


def _check_listed(swap: Swap, settings: Settings) -> None:
    """Refuse values that are not listed: a mistyped one would be sent, and concern nobody.

    An attribute that is not declared may have any value.
    """
    for one in settings.attribute:
        if one.name == swap.attribute and not {swap.original, swap.replacement} <= {*one.values}:
            raise SlicewatchError(
                f"--swap: {one.name} has a value that is not listed; use {', '.join(one.values)}"
            )


def _notes(made: Swapped, swap: Swap) -> Iterator[str]:
    if made.silent:
        yield (
            f"in {made.silent:,} of them the request does not contain {swap.attribute}: only the "
            "attributes differ, and a router that reads only the request cannot tell them apart"
        )


def _summary_table(together: SwapSummary) -> Table:
    table = _table("", "traces", "share", "95 % interval")
    table.add_row("original fared better", *_cells(together.held_back))
    table.add_row("swapped fared better", *_cells(together.served))
    table.add_row("different routes", *_cells(together.apart))
    return table


def _difference_text(together: SwapSummary) -> str:
    mean = NONE if together.difference is None else f"{together.difference:+.3f}"
    return (
        f"mean score difference, swapped - original: {mean} ({together.scored:,} with two scores)"
    )


def _cells(share: SwapShare) -> Iterator[str]:
    yield f"{share.count:,}"
    yield f"{share.share:.1%}"
    yield f"{share.lower:.1%} to {share.upper:.1%}"


def _review_table(listed: Iterable[Listed]) -> Table:
    table = _table("id", "listed as", "original", "swapped", "score difference")
    for one in listed:
        side, why = one.side, "spot check" if one.spot_check else "disagreement"
        difference = NONE if side.difference is None else f"{side.difference:+.3f}"
        table.add_row(Text(side.id), why, _seen(side.original), _seen(side.swapped), difference)
    return table


def _seen(observed: Observed) -> str:
    score = NONE if observed.score is None else f"{observed.score:.3f}"
    return f"{observed.route.name.lower()} {score}"


def _table(*names: str) -> Table:
    table = Table(box=SIMPLE, pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    return table
