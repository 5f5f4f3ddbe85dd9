"""``slicewatch probe run``."""

from __future__ import annotations

from pathlib import Path

import click

from monitor import logs
from monitor.commands.options import load_settings, settings_option
from monitor.commands.probe.publisher import Plan, send_set
from monitor.commands.probe.router_options import Asking
from monitor.commands.probe.swap import compare
from monitor.core.time import SECOND
from monitor.errors import SlicewatchError
from monitor.probing.schedule import Schedule
from monitor.probing.swap import SwapReview, parse_swap
from monitor.probing.target import target
from monitor.settings.kinds import duration_micros

_FILE = click.Path(path_type=Path)
_SHARE = click.FloatRange(0, 1)
MOST_A_SECOND = 1000
LONGEST_TIMEOUT = 600


def _seconds(_: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """A duration such as ``10s`` or ``6h``, in seconds."""
    if text is None:
        return None
    try:
        seconds = duration_micros(text) / SECOND
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise SlicewatchError(f"--{parameter.name} must be a duration such as 10s, 15m or 6h")
    return seconds


@click.command("run")
@click.argument("file", metavar="SET", type=_FILE)
@settings_option
@click.option("--target", "url", metavar="URL", required=True, help="Address of the router.")
@click.option(
    "--rate",
    type=click.FloatRange(0, MOST_A_SECOND, min_open=True),
    default=5.0,
    show_default=True,
    help="Requests per second, at most; repeated attempts count.",
)
@click.option(
    "--every", metavar="DURATION", callback=_seconds, help="Begin a round this often, such as 6h."
)
@click.option(
    "--times", type=click.IntRange(1), help="Number of rounds; 1, or unlimited with --every."
)
@click.option("--results", type=_FILE, help="Write the answers here, for slicewatch audit.")
@click.option("--no-publish", is_flag=True, help="Send, but publish no decisions.")
@click.option("--dry-run", is_flag=True, help="Check everything, but send nothing.")
@click.option(
    "--timeout",
    metavar="DURATION",
    callback=_seconds,
    default="10s",
    show_default=True,
    help="Longest time for one request.",
)
@click.option("--token-file", type=_FILE, help="File with a bearer token for the router.")
@click.option("--ca-file", type=_FILE, help="Authority of the router's certificate.")
@click.option("--insecure-http", is_flag=True, help="Allow plain HTTP to another machine.")
@click.option("--seed", type=click.IntRange(0), help="Random seed, of the order too.")
@click.option("--swap", metavar="ATTRIBUTE=A:B", help="SET is a trace file; compare A with B.")
@click.option(
    "--list-above",
    type=_SHARE,
    default=0.1,
    show_default=True,
    help="With --swap: list traces whose scores differ by more.",
)
@click.option(
    "--spot-check",
    type=_SHARE,
    default=0.05,
    show_default=True,
    help="With --swap: share of the other traces to list.",
)
def run(
    file: Path,
    path: Path,
    *,
    url: str,
    rate: float,
    every: float | None,
    times: int | None,
    results: Path | None,
    no_publish: bool,
    dry_run: bool,
    timeout: float,
    token_file: Path | None,
    ca_file: Path | None,
    insecure_http: bool,
    seed: int | None,
    swap: str | None,
    list_above: float,
    spot_check: float,
) -> None:
    """Send every variant of a probe set to a router, and publish its decisions.

    Requests and decisions are signed with probes.key; the router decides, but does not act. A set
    is published if the settings declare it ([[probes.sets]]) and it is synthetic. A variant that
    gets no answer is left out and reported.

    With --swap, SET is a file of anonymised traces. Those that have the value A are sent unchanged
    and with B in its place, and the routes and scores are compared. Nothing is published or
    written, and no request and no value is printed.

    Exit code 0: every variant was answered; 1: some were not, or SIGTERM or Ctrl-C ended a round
    early; 2: the router cannot be probed, or the settings do not allow it.

    Example: slicewatch probe run pairs.jsonl --target https://router.example/probe --every 6h
    """
    logs.configure("WARNING")
    if timeout > LONGEST_TIMEOUT:
        raise SlicewatchError(f"--timeout must be at most {LONGEST_TIMEOUT}s")
    place = target(url, insecure=insecure_http)
    how = Asking(place, rate, timeout, seed, token_file=token_file, ca_file=ca_file)
    settings = load_settings(path)
    if swap is not None:
        _refuse_with_swap(every=every, times=times, results=results)
        review = SwapReview(list_above, spot_check)
        code = compare(file, parse_swap(swap), settings, how, review, dry=dry_run)
    else:
        schedule = _schedule(every, times, results)
        plan = Plan(schedule, publish=not no_publish, results=results, dry=dry_run)
        code = send_set(file, settings, how, plan)
    raise SystemExit(code)


def _refuse_with_swap(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise SlicewatchError(f"--{name} has no meaning with --swap; leave it out")


def _schedule(every: float | None, times: int | None, results: Path | None) -> Schedule:
    schedule = Schedule(times=times or 1) if every is None else Schedule(every, times)
    if results is not None and schedule.times != 1:
        raise SlicewatchError("--results is for a single round; leave out --every and --times")
    return schedule
