"""``slicewatch probe run``: send a set round after round, or compare traces with a swap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from monitor import logs
from monitor.audit.inputs import ProbeSet, digest
from monitor.audit.record_files import is_csv
from monitor.audit.set_files import read_set, write_rows
from monitor.clock import SystemClock
from monitor.commands.options import load_settings, settings_option
from monitor.commands.probe.access import (
    Asking,
    RoundsProgress,
    Stopper,
    asking,
    exit_code,
    probe_key,
    shortfalls,
)
from monitor.core.probes.flips import Observed
from monitor.core.probes.rounds import PAIR_TIMEOUT
from monitor.core.publish.words import NONE
from monitor.core.time import SECOND
from monitor.errors import SlicewatchError
from monitor.present.document import Table, table
from monitor.present.terminal import show_tables
from monitor.probing.http_router import target
from monitor.probing.rounds import Answered, Round, Runner, Schedule
from monitor.probing.swap import (
    NAME,
    Listed,
    Swap,
    Swapped,
    SwapReview,
    SwapShare,
    SwapSummary,
    for_review,
    parse_swap,
    read_traces,
    sides,
    summary,
    swapped,
)
from monitor.settings import Settings
from monitor.settings.kinds import Duration, duration_micros, duration_text
from monitor.settings.sections import ProbeSetSettings

Publish = Callable[[str, Sequence[Answered]], None]
_FILE = click.Path(path_type=Path)
_SHARE = click.FloatRange(0, 1)
MOST_A_SECOND = 1000
LONGEST_TIMEOUT = 600


def _seconds(_: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Return an option's duration such as ``10s`` in seconds; None if it is not set."""
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
    options = Asking(place, rate, timeout, seed, token_file=token_file, ca_file=ca_file)
    settings = load_settings(path)
    if swap is not None:
        _refuse_with_swap(every=every, times=times, results=results)
        review = SwapReview(list_above, spot_check)
        code = compare(file, parse_swap(swap), settings, options, review, dry=dry_run)
    else:
        schedule = _schedule(every, times, results)
        plan = SendPlan(schedule, publish=not no_publish, results=results, dry=dry_run)
        code = send_set(file, settings, options, plan)
    raise SystemExit(code)


def _refuse_with_swap(**options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise SlicewatchError(f"--{name} has no meaning with --swap; leave it out")


def _schedule(every: float | None, times: int | None, results: Path | None) -> Schedule:
    schedule = Schedule(times=times or 1) if every is None else Schedule(every, times)
    if results is not None and schedule.times != 1:
        raise SlicewatchError("--results is for a single round; leave out --every and --times")
    return schedule


@dataclass(frozen=True, slots=True)
class SendPlan:
    """Plan for sending a probe set: schedule, publishing, results file, or a dry run.

    Attributes:
        publish: True if decisions go onto the topic.
        results: file for the answers.
        dry: True if nothing is sent.
    """

    schedule: Schedule
    publish: bool = True
    results: Path | None = None
    dry: bool = False


def send_set(path: Path, settings: Settings, options: Asking, plan: SendPlan) -> int:
    """Send a probe set by a plan, or in a dry run print it; return the exit code."""
    from monitor.probing.probe_events import check_items, declared

    probe_set = _read(path)
    content = digest(probe_set)
    declared_set = declared(probe_set, content, settings.probes.sets) if plan.publish else None
    names = {attribute.name for attribute in settings.attribute}
    check_items(probe_set.items, names if plan.publish else None)
    if plan.results is not None:
        _check_results(plan.results)
    access = options.access(settings)
    for warning in _warnings(settings, plan, declared_set):
        click.echo(f"warning: {warning}", err=True)
    if plan.dry:
        click.echo(_plan_text(probe_set, content, options, declared_set))
        return 0
    with (
        asking(access, options.rate) as (sender, stop),
        _publishing(settings, content, plan) as publish,
    ):
        runner = Runner(
            probe_set, content, sender, clock=SystemClock(), rng=options.rng(), publish=publish
        )
        return _rounds(runner, probe_set, plan, stop)


def _read(path: Path) -> ProbeSet:
    probe_set = read_set(path)
    if not probe_set.synthetic:
        raise SlicewatchError(
            f"{path} is not synthetic: requests of real people must not be sent as probes; compare "
            "a sample of traffic with --swap, which stores nothing of it"
        )
    return probe_set


def _check_results(path: Path) -> None:
    """Refuse a results file that exists or cannot be written; nothing is created."""
    if path.exists():
        raise SlicewatchError(f"{path} already exists; give the name of a new file")
    if is_csv(path) or not path.parent.is_dir():
        raise SlicewatchError(f"{path}: name a file that ends in .jsonl, in an existing folder")


def _warnings(
    settings: Settings, plan: SendPlan, declared_set: ProbeSetSettings | None
) -> Iterator[str]:
    every = Duration(int(plan.schedule.every * SECOND))
    if declared_set is None or plan.schedule.times == 1:
        return
    if every > declared_set.every:
        yield (
            f"--every {duration_text(every)} is longer than"
            f" {duration_text(declared_set.every)}, which probes.sets {declared_set.name}"
            " declares: the set will be reported as overdue"
        )
    if every < PAIR_TIMEOUT:
        yield (
            f"rounds are less than {duration_text(Duration(PAIR_TIMEOUT))} "
            "apart: a variant without an answer may be matched with one from the next round"
        )


def _plan_text(
    probe_set: ProbeSet, content: str, options: Asking, declared_set: ProbeSetSettings | None
) -> str:
    destination = f"published as {declared_set.name}" if declared_set else "not published"
    pairs = len({item.pair for item in probe_set.items})
    return (
        f"{probe_set.name} {probe_set.version}, digest {content}\n"
        f"{pairs:,} pairs, {len(probe_set.items):,} variants: a round takes at least "
        f"{len(probe_set.items) / options.rate:,.0f} s at {options.rate:g} requests a second\n"
        f"would be sent to {options.target.host} and {destination}; nothing was sent"
    )


@contextmanager
def _publishing(settings: Settings, content: str, plan: SendPlan) -> Iterator[Publish]:
    from monitor.composition.brokers import kafka_connection
    from monitor.probing.probe_events import KafkaPublisher, ProbeEvents

    if not plan.publish:
        yield lambda pair, answered: None
        return
    events = ProbeEvents(content, probe_key(settings))
    publisher = KafkaPublisher(kafka_connection(settings), settings.stream.decisions_topic)
    try:
        yield lambda pair, answered: publisher.publish(
            pair, [events.event(probe.item, probe.answer, probe.at) for probe in answered]
        )
    finally:
        publisher.close()


def _rounds(runner: Runner, probe_set: ProbeSet, plan: SendPlan, stop: Stopper) -> int:
    code = 0
    with RoundsProgress() as bar:
        for number in plan.schedule.rounds(SystemClock().monotonic, stop):
            bar.begin(number, len({item.pair for item in probe_set.items}))
            done = runner.round(bar)
            bar.say(_round_text(number, done, plan))
            code = max(code, exit_code(done))
            if plan.results is not None:
                _write(plan.results, probe_set, done, bar)
    return code


def _write(path: Path, probe_set: ProbeSet, done: Round, bar: RoundsProgress) -> None:
    if done.stopped or done.fruitless:
        bar.say(f"{path} was not written: the round was not finished")
    else:
        write_rows(path, probe_set, done.rows())


def _round_text(number: int, done: Round, plan: SendPlan) -> str:
    answered = "answered and published" if plan.publish else "answered"
    first = f"round {number}: {done.complete:,} of {done.pairs:,} pairs {answered}"
    return "; ".join([first, f"{done.apart:,} with different routes", *shortfalls(done)])


def compare(
    path: Path, swap: Swap, settings: Settings, options: Asking, review: SwapReview, *, dry: bool
) -> int:
    """Send both variants of each trace with the value, print differences; return the exit code.

    Neither requests nor values of attributes are published or written.
    """
    _check_swap_values(swap, settings)
    pairs = swapped(read_traces(path), swap)
    access = options.access(settings)
    if dry:
        click.echo(f"{len(pairs.ids):,} traces have the value to swap; nothing was sent")
        return 0
    rng = options.rng()
    with asking(access, options.rate) as (sender, _), RoundsProgress() as bar:
        runner = Runner(
            pairs.probe_set,
            NAME,
            sender,
            clock=SystemClock(),
            rng=rng,
            publish=lambda pair, answered: None,
        )
        bar.begin(1, len(pairs.ids))
        done = runner.round(bar)
    comparisons = sides(done.answered, pairs.ids)
    click.echo(
        f"{len(comparisons):,} of {len(pairs.ids):,} traces compared, {swap.attribute} exchanged"
    )
    for line in (*_notes(pairs, swap), *shortfalls(done)):
        click.echo(line)
    totals = summary(comparisons, settings.privacy.k)
    if totals is None:
        click.echo(f"fewer than {settings.privacy.k} comparisons: nothing more is shown")
    else:
        show_tables(*_summary_table(totals))
        click.echo(_difference_text(totals))
        show_tables(*_review_table(for_review(comparisons, review, rng)))
    return exit_code(done)


def _check_swap_values(swap: Swap, settings: Settings) -> None:
    """Refuse a swap to or from an undeclared value: a typo would be sent, and match no slice.

    An attribute that is not declared may have any value.
    """
    for attribute in settings.attribute:
        if attribute.name == swap.attribute and not {swap.original, swap.replacement} <= {
            *attribute.values
        }:
            raise SlicewatchError(
                f"--swap: {attribute.name} has a value that is not listed; use"
                f" {', '.join(attribute.values)}"
            )


def _notes(pairs: Swapped, swap: Swap) -> Iterator[str]:
    if pairs.silent:
        yield (
            f"in {pairs.silent:,} of them the request does not contain {swap.attribute}: only the "
            "attributes differ, and a router that reads only the request cannot tell them apart"
        )


def _summary_table(totals: SwapSummary) -> tuple[Table, ...]:
    return table(
        "|traces|share|95 % interval",
        (
            ("original fared better", *_cells(totals.held_back)),
            ("swapped fared better", *_cells(totals.served)),
            ("different routes", *_cells(totals.apart)),
        ),
    )


def _difference_text(totals: SwapSummary) -> str:
    mean = NONE if totals.difference is None else f"{totals.difference:+.3f}"
    return f"mean score difference, swapped - original: {mean} ({totals.scored:,} with two scores)"


def _cells(share: SwapShare) -> Iterator[str]:
    yield f"{share.count:,}"
    yield f"{share.share:.1%}"
    yield f"{share.lower:.1%} to {share.upper:.1%}"


def _review_table(traces: Iterable[Listed]) -> tuple[Table, ...]:
    return table("id|listed as|original|swapped|score difference", map(_review_row, traces))


def _review_row(trace: Listed) -> tuple[str, ...]:
    side, reason = trace.side, "spot check" if trace.spot_check else "disagreement"
    difference = NONE if side.difference is None else f"{side.difference:+.3f}"
    return side.id, reason, _observed_text(side.original), _observed_text(side.swapped), difference


def _observed_text(observed: Observed) -> str:
    score = NONE if observed.score is None else f"{observed.score:.3f}"
    return f"{observed.route.name.lower()} {score}"
