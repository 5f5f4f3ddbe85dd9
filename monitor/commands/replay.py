"""``slicewatch replay``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from consumers.event_words import holds_labels
from consumers.sources.file_source import STDIN, FileSource, LineFile
from monitor import logs
from monitor.clock import SystemClock
from monitor.commands.labelled import labelled_ids
from monitor.commands.options import load_settings, settings_option
from monitor.commands.replay_report import RunNotes
from monitor.commands.starting import collect_rarely, end_now, on_stop
from monitor.commands.summary import summary
from monitor.commands.working import REMIND_SECONDS, working
from monitor.core.publish.snapshot import Snapshot, decode
from monitor.core.time import Grain
from monitor.errors import RetentionRefusedError, SourceError
from monitor.ports import Clock
from monitor.present.terminal import console, printed
from monitor.settings import Settings
from monitor.shard_status import Tallies

if TYPE_CHECKING:
    import sqlalchemy as sa

    from consumers.ingest import Ingest

EXIT_UNREADABLE, EXIT_INTERRUPTED = 1, 130
NOTHING = "nothing can be shown yet: no hour is complete, or its day has not ended"
PIPED_WIDTH = 10_000  # nothing is folded or cut where lines may be of any length
_PREFIXES = ("decisions=", "labels=")


@click.command("replay")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@settings_option
@click.option(
    "--more-to-come",
    is_flag=True,
    help="More files of the last day will follow: leave it open (hourly files).",
)
@click.option("--summary", "tables", is_flag=True, help="Print the guarded tables at the end.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON (with --summary).")
def command(
    files: tuple[str, ...], path: Path, more_to_come: bool, tables: bool, as_json: bool
) -> None:
    """Count decisions and labels from files, without Kafka: JSON lines, JSON arrays or CSV.

    Files may be gzipped. The first row of CSV names the columns: those of events, such as
    decision_id and attributes.channel, or those that [mapping] names.

    The topic of a file is detected from its first event; write decisions=FILE or labels=FILE to
    state it, as you must for standard input (-). Replaying the same files again adds nothing; an
    interrupted replay continues where it stopped. Events are read as history: none is refused for
    being ahead of the present.

    Exit code 1 when some events could not be read, 130 when it was interrupted, 2 when it failed.

    The end of the files closes the UTC day of their last event, so that all of it can be shown.
    Events of that day that come in a later file are late: tables of longer spans count them. With
    --more-to-come only the last hour is closed, as always while that day lasts.

    Example: slicewatch replay decisions.jsonl labels.jsonl.gz --summary
    """
    from monitor.composition.ingest import as_history, build_ingest
    from monitor.composition.store import open_store
    from monitor.store.evaluator.records import RecordStore
    from monitor.store.shard_rows import read_statuses

    logs.configure("WARNING")
    settings = as_history(load_settings(path))
    clock = SystemClock()
    with working("opening the store"):
        engine = open_store(settings, clock)
    notes, interrupt = RunNotes(), Interrupt()
    topics_and_paths = [topic_and_path(name, settings) for name in files]
    source = FileSource(topics_and_paths, by_content=True)
    start = clock.monotonic()
    with ReplayProgress(source) as progress:
        ingest = build_ingest(
            *(settings, engine, source, notes, clock),
            progress=progress.update,
            closes=Grain.HOUR if more_to_come else Grain.DAY,
            labelled=labelled_ids(topics_and_paths, settings),
            by_size=True,
        )
        on_stop(lambda number, frame: interrupt.stop(ingest, number, frame))
        collect_rarely()
        ingest.run()
    seconds = clock.monotonic() - start
    with working("evaluating"):
        _evaluate(settings, engine, clock)
    tallies = [status.tallies for status in read_statuses(engine)]
    click.echo(_sentence(sum(t.events for t in tallies), progress.events, seconds), err=True)
    if waiting := sum(t.waiting for t in tallies):
        click.echo(
            f"{waiting:,} labels wait for their decisions; once those are counted, replay the"
            " files of labels again",
            err=True,
        )
    if recounted := _counted_again(tallies):
        click.echo(recounted, err=True)
    for line in notes.lines(progress.events):
        click.echo(line, err=True)
    if tables:
        newest = RecordStore(engine).newest_snapshot()
        _print_summary(decode(newest[1]) if newest else None, as_json)
    engine.dispose()
    if interrupt.came:
        click.echo(
            "interrupted: what was read is counted; the same command again reads the rest", err=True
        )
        sys.exit(EXIT_INTERRUPTED)
    if notes.unreadable:
        sys.exit(EXIT_UNREADABLE)


class Interrupt:
    """Handler of stop signals in a replay: the first ends the reading, the second the command."""

    def __init__(self) -> None:
        self.came = False

    def stop(self, ingest: Ingest, number: int, frame: object) -> None:
        """Stop the ingest at the first signal; end the process at the second."""
        if self.came:
            end_now(number, frame)
        self.came = True
        ingest.stop()


def _evaluate(settings: Settings, engine: sa.Engine, clock: Clock) -> None:
    """Run one evaluation cycle and retention; print the reason if either cannot be done."""
    from monitor.composition.evaluator import build_evaluator
    from monitor.composition.store import retention_policy
    from monitor.store.evaluator.records import RecordStore
    from monitor.store.upkeep import retention

    evaluator = build_evaluator(settings, engine, clock)
    if not evaluator.cycle():
        click.echo("counted; another process is evaluating this store", err=True)
        return
    evaluator.release_lease()
    slowest = RecordStore(engine).slowest_event_time()
    try:
        retention.apply(engine, retention_policy(settings), slowest, clock.now())
    except RetentionRefusedError as error:
        click.echo(str(error), err=True)


def _sentence(stored: int, fresh: int, seconds: float) -> str:
    rate = f", {fresh / seconds:,.0f} a second" if fresh and seconds > 0 else ""
    return f"{fresh:,} events read in {seconds:.1f} s{rate}; the store holds {stored:,}"


def _counted_again(tallies: Sequence[Tallies]) -> str | None:
    late, elsewhere = sum(t.late for t in tallies), sum(t.cross_partition for t in tallies)
    if not late + elsewhere:
        return None
    return (
        f"copies of decisions that were counted again, so far: {late + elsewhere:,};"
        f" {late:,} late (after an hour, or with another decided_at),"
        f" {elsewhere:,} cross_partition (in another file or partition); only copies of decisions"
        " that labels can find are detected"
    )


def _print_summary(snapshot: Snapshot | None, as_json: bool) -> None:
    if as_json:
        body = msgspec.to_builtins(snapshot) if snapshot else None
        click.echo(json.dumps(body, indent=2))
        return
    documents = list(summary(snapshot))
    for document in documents:
        console(PIPED_WIDTH).print(printed(document), "")
    if not documents:
        click.echo(NOTHING)


def topic_and_path(name: str, settings: Settings) -> tuple[str, str]:
    """Return (topic, path) of a file typed with or without ``decisions=`` or ``labels=``.

    Raises:
        SourceError: the file cannot be read, or its kind of event is unknown.
    """
    topics = settings.stream.topics
    for prefix, topic in zip(_PREFIXES, topics, strict=True):
        if name.startswith(prefix):
            return topic, name.removeprefix(prefix)
    if name == STDIN:
        raise SourceError("standard input: state what it contains, decisions=- or labels=-")
    if settings.mapping.labels.fields:
        raise SourceError(
            f"{name}: state what it contains, decisions={name} or labels={name}: with"
            " [mapping.labels] its first line does not say so"
        )
    return topics[_holds_labels(name)], name


def _holds_labels(name: str) -> bool:
    """Return True when the first event of a file is a label; refuse a line that is no event."""
    with closing(LineFile(name)) as file:
        first = file.first()
    try:
        return holds_labels(first)
    except (ValueError, IndexError, RecursionError):
        raise SourceError(
            f"{file.name}: its first line is not an event; write decisions={name} or labels={name}"
        ) from None


class ReplayProgress:
    """Progress bar of a replay, over the bytes of all files; ``events`` counts events.

    Without a terminal it prints a line every ten seconds.
    """

    def __init__(self, source: FileSource) -> None:
        self.events = 0
        self._next_line = monotonic() + REMIND_SECONDS
        self._source = source
        self._bar = Progress(
            TextColumn("replay"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(file=sys.stderr),
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("replay", total=source.progress[1])

    def __enter__(self) -> ReplayProgress:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def update(self, events: int) -> None:
        """Add to ``events``, move the bar; or print a line every REMIND_SECONDS."""
        self.events += events
        read, size = self._source.progress
        self._bar.update(self._task, completed=read)
        if self._bar.disable and monotonic() >= self._next_line:
            self._next_line = monotonic() + REMIND_SECONDS
            share = f", {read / size:.0%} of the files" if size else ""
            click.echo(f"reading: {self.events:,} events{share}", err=True)
