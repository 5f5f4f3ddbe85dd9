"""``slicewatch demo``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from monitor import logs
from monitor.commands.starting import StopSignal, leave


@click.command("demo")
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="Stop after this many seconds; without it, stop with Ctrl-C.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document at the end, no table."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Random seed."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    show_default=True,
    help="Port of /metrics on 127.0.0.1; 0 takes a free one.",
)
@click.option(
    "--svg",
    "picture",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the last table as an SVG picture.",
)
@click.pass_obj
def command(
    stop: StopSignal | None,
    *,
    seconds: float | None,
    as_json: bool,
    seed: int,
    port: int,
    picture: Path | None,
) -> None:
    """Watch a synthetic router live; needs nothing but this program.

    Starts an embedded Kafka-compatible broker and the real service on a temporary database, and
    produces synthetic decisions and labels: a simulated day in ten seconds, or longer on a slow
    machine. Soon the TPR of one slice falls, and the table shows how this is detected. These are
    synthetic test conditions, not a finding about people. Ctrl-C stops it, a second one at once;
    no files are left behind.

    Example: slicewatch demo --for 60 --json
    """
    from monitor.demo.demo_run import SPEED, Demo, Options
    from monitor.demo.table import screen_for, svg
    from monitor.demo.view import document
    from monitor.service import Service

    logs.configure("ERROR")
    stop = stop or StopSignal()
    stop.listen()
    options, screen = Options(seconds, seed, port), screen_for(silent=as_json)
    demo = Demo(
        options,
        lambda settings, clock: Service(settings, clock=clock, pace=SPEED, in_turns=True),
        screen,
        stop,
    )
    last = demo.run()
    if last is None:
        leave()
    if as_json:
        click.echo(json.dumps(document(last, demo.produced, seed), indent=2))
    if picture is not None:
        picture.write_text(svg(last), encoding="utf-8")
    if demo.abandoned:
        leave()
