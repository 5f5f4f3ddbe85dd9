"""Sends a probe set, round after round, publishes its decisions, and sums up each round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from monitor import composition
from monitor.audit.files import is_csv
from monitor.audit.model import ProbeSet, digest
from monitor.audit.reading import read_set
from monitor.audit.writing import write_rows
from monitor.clock import SystemClock
from monitor.commands.probe.keys import probe_key
from monitor.commands.probe.progress import ProgressBar
from monitor.commands.probe.router_options import Asking, Stopper, asking
from monitor.core.time import SECOND
from monitor.errors import SlicewatchError
from monitor.probing.events import ProbeEvents, check_items, declared
from monitor.probing.publish import KafkaPublisher
from monitor.probing.run import Answered, Round, Runner
from monitor.probing.schedule import Schedule
from monitor.settings import Settings
from monitor.settings.kinds import Duration, duration_text
from monitor.settings.sections import ProbeSetSettings

Publish = Callable[[str, Sequence[Answered]], None]

EXIT_FAILED, EXIT_FRUITLESS = 1, 2


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan for a set: when it is sent, and where its answers go.

    Attributes:
        schedule: its rounds.
        publish: whether decisions go onto the topic.
        results: file that the answers are written to.
        dry: nothing is sent.
    """

    schedule: Schedule
    publish: bool = True
    results: Path | None = None
    dry: bool = False


def send_set(path: Path, settings: Settings, how: Asking, plan: Plan) -> int:
    """Run a plan; the exit code."""
    probe_set = _read(path)
    content = digest(probe_set)
    named = declared(probe_set, content, settings.probes.sets) if plan.publish else None
    check_items(probe_set.items, _attribute_names(settings) if plan.publish else None)
    if plan.results is not None:
        _check_results(plan.results)
    access = how.access(settings)
    for warning in _warnings(settings, how, plan, named):
        click.echo(f"warning: {warning}", err=True)
    if plan.dry:
        click.echo(_plan_text(probe_set, content, how, named))
        return 0
    with (
        asking(access, how.rate) as (sender, stop),
        _publishing(settings, content, plan) as publish,
    ):
        runner = Runner(
            probe_set, content, sender, clock=SystemClock(), rng=how.rng(), publish=publish
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
    """Before anything is sent: answers that cannot be written would be lost."""
    if path.exists():
        raise SlicewatchError(f"{path} already exists; give the name of a new file")
    if is_csv(path) or not path.parent.is_dir():
        raise SlicewatchError(f"{path}: name a file that ends in .jsonl, in an existing folder")


def _attribute_names(settings: Settings) -> frozenset[str]:
    return frozenset(one.name for one in settings.attribute)


def _warnings(
    settings: Settings, how: Asking, plan: Plan, named: ProbeSetSettings | None
) -> Iterator[str]:
    every = Duration(int(plan.schedule.every * SECOND))
    if named is None or plan.schedule.times == 1:
        return
    if every > named.every:
        yield (
            f"--every {duration_text(every)} is longer than {duration_text(named.every)}, which "
            f"probes.sets {named.name} declares: the set will be reported as overdue"
        )
    if every < settings.probes.timeout:
        yield (
            f"rounds are less than probes.timeout ({duration_text(settings.probes.timeout)}) "
            "apart: a variant without an answer may be matched with one from the next round"
        )


def _plan_text(
    probe_set: ProbeSet, content: str, how: Asking, named: ProbeSetSettings | None
) -> str:
    where = f"published as {named.name}" if named else "not published"
    pairs = len({item.pair for item in probe_set.items})
    return (
        f"{probe_set.name} {probe_set.version}, digest {content}\n"
        f"{pairs:,} pairs, {len(probe_set.items):,} variants: a round takes at least "
        f"{len(probe_set.items) / how.rate:,.0f} s at {how.rate:g} requests a second\n"
        f"would be sent to {how.target.host} and {where}; nothing was sent"
    )


@contextmanager
def _publishing(settings: Settings, content: str, plan: Plan) -> Iterator[Publish]:
    if not plan.publish:
        yield lambda pair, answered: None
        return
    events = ProbeEvents(content, probe_key(settings))
    publisher = KafkaPublisher(
        composition.kafka_connection(settings), settings.stream.decisions_topic
    )
    try:
        yield lambda pair, answered: publisher.publish(
            pair, [events.event(one.item, one.answer, one.at) for one in answered]
        )
    finally:
        publisher.close()


def _rounds(runner: Runner, probe_set: ProbeSet, plan: Plan, stop: Stopper) -> int:
    code = 0
    with ProgressBar() as bar:
        for number in plan.schedule.rounds(SystemClock().monotonic, stop):
            bar.begin(number, len({item.pair for item in probe_set.items}))
            done = runner.round(bar)
            bar.say(_round_text(number, done, plan))
            code = max(code, exit_code(done))
            if plan.results is not None:
                _write(plan.results, probe_set, done, bar)
    return code


def _write(path: Path, probe_set: ProbeSet, done: Round, bar: ProgressBar) -> None:
    if done.stopped or done.fruitless:
        bar.say(f"{path} was not written: the round was not finished")
    else:
        write_rows(path, probe_set, done.rows())


def _round_text(number: int, done: Round, plan: Plan) -> str:
    answered = "answered and published" if plan.publish else "answered"
    first = f"round {number}: {done.complete:,} of {done.pairs:,} pairs {answered}"
    return "; ".join([first, f"{done.apart:,} with different routes", *shortfalls(done)])


def exit_code(done: Round) -> int:
    """0: every variant has an answer; 1: some have none, or it was stopped; 2: no router."""
    if done.fruitless:
        return EXIT_FRUITLESS
    return 0 if done.sound and not done.stopped else EXIT_FAILED


def shortfalls(done: Round) -> Iterator[str]:
    """Shortfalls of a round, in words; none when all went well."""
    if done.incomplete:
        kinds = ", ".join(
            f"{count:,} {kind.value}" for kind, count in sorted(done.failures.items())
        )
        yield f"{done.incomplete:,} incomplete ({kinds})"
    if done.mixed:
        yield f"{done.mixed:,} with mixed versions"
    if done.given_up:
        yield "given up: only failures in the end"
    if done.stopped:
        yield f"stopped after {done.complete + done.incomplete + done.mixed:,} pairs"
