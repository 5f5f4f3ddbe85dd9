"""``slicewatch db exclude``: known-bad data declared, listed and taken back, on both databases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lesson
import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result
from pipeline import DECISIONS, SETTINGS, Pipeline, messages

from monitor.cli import cli
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import Snapshot, decode, encode
from monitor.core.time import HOUR, TimeSpan, to_micros
from monitor.errors import SlicewatchError
from monitor.store import database as db
from monitor.store.evaluator.published_tables import write_published
from monitor.store.exclusions import excluded_spans
from monitor.store.schema import PUBLISHED

pytestmark = pytest.mark.full

START = lesson.START
FROM, TO = "2026-06-01T08:00:00Z", "2026-06-01T14:00:00+02:00"
DECLARED = ("--from", FROM, "--to", TO, "--reason", "test traffic", "--owner", "triage team")


@pytest.fixture
def pipeline(tmp_path: Path, url: str) -> Iterator[Pipeline]:
    with Pipeline(tmp_path, store__url=url) as pipeline:
        yield pipeline


def invoke(pipeline: Pipeline, *arguments: str) -> Result:
    runner = CliRunner(env={"SLICEWATCH__STORE__URL": pipeline.settings.store.url})
    settings = str(pipeline.path.with_name("settings.toml"))
    return runner.invoke(cli, ["db", *arguments, "-s", settings], standalone_mode=False)


def exclude(pipeline: Pipeline, *arguments: str) -> str:
    result = invoke(pipeline, "exclude", *arguments)
    assert result.exception is None, result.exception
    return result.output


def refused(pipeline: Pipeline, *arguments: str) -> str:
    result = invoke(pipeline, "exclude", *arguments)
    assert isinstance(result.exception, SlicewatchError), result.output
    assert "\n" not in str(result.exception)
    with db.reading(pipeline.engine) as connection:
        assert excluded_spans(connection) == ()
    return str(result.exception)


def versions(pipeline: Pipeline) -> list[str]:
    with db.reading(pipeline.engine) as connection:
        return list(connection.execute(sa.text("SELECT text FROM version")).scalars())


def spans(pipeline: Pipeline) -> tuple[TimeSpan, ...]:
    with db.reading(pipeline.engine) as connection:
        return excluded_spans(connection)


def without(option: str) -> tuple[str, ...]:
    place = DECLARED.index(option)
    return DECLARED[:place] + DECLARED[place + 2 :]


def replaced(option: str, value: str) -> tuple[str, ...]:
    return (*without(option), option, value)


def test_what_is_declared_is_left_out_from_now_on(pipeline: Pipeline) -> None:
    said = exclude(pipeline, *DECLARED)
    assert said.startswith(
        "exclusion 1: the tables of all hours, days and weeks that overlap the time"
        " from 2026-06-01T08:00:00Z to 2026-06-01T12:00:00Z are excluded from all windows.\n"
    )
    assert "may be more than was asked for" in said
    assert "slicewatch db exclude --lift 1 lifts it" in said
    assert "within one cycle (10s)" in said
    first = to_micros(START.replace(hour=8, minute=0))
    assert spans(pipeline) == (TimeSpan(first, first + 4 * HOUR),)


def test_it_is_listed_and_taken_back(pipeline: Pipeline) -> None:
    assert exclude(pipeline, "--list") == "there are no exclusions\n"
    exclude(pipeline, *DECLARED)
    exclude(pipeline, *replaced("--reason", "[red]bad[/red] router"))
    assert exclude(pipeline, "--lift", "1").startswith("exclusion 1 is lifted: ")
    assert len(spans(pipeline)) == 1
    listed = exclude(pipeline, "--list")
    for shown in ("2026-06-01T08:00:00Z", "triage team", "[red]bad[/red] router", "test traffic"):
        assert shown in listed
    assert "was lifted at" in str(invoke(pipeline, "exclude", "--lift", "1").exception)


def test_status_lists_what_is_in_force(pipeline: Pipeline) -> None:
    for reason in ("first", "second"):
        exclude(pipeline, *replaced("--reason", reason))
    exclude(pipeline, "--lift", "1")
    (found,) = json.loads(invoke(pipeline, "status", "--json").output)["exclusions"]
    when = found.pop("excluded_at")
    assert when.endswith("Z")
    assert found == {
        **{"id": 2, "starts_at": "2026-06-01T08:00:00Z", "ends_at": "2026-06-01T12:00:00Z"},
        **{"version": None, "reason": "second", "owner": "triage team"},
    }
    shown = invoke(pipeline, "status").output
    assert "exclusions" in shown
    assert "second" in shown
    assert "first" not in shown


def test_a_version_is_named_as_the_store_knows_it(pipeline: Pipeline) -> None:
    pipeline.broker.produce(DECISIONS, messages([lesson.decision("a", START, 0.8)]))
    pipeline.worker()
    pipeline.drain()
    (text,) = versions(pipeline)
    assert f"there are: {text}" in refused(pipeline, *DECLARED, "--version", "judge=9")
    said = exclude(pipeline, *DECLARED, "--version", text)
    assert f"in which version {text} decided anything from" in said
    assert text.split(",")[0] in exclude(pipeline, "--list")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give --from, --to, --reason and --owner, or --lift ID, or --list"),
        (("--list", "--lift", "1"), "or --list"),
        ((*DECLARED, "--lift", "1"), "or --list"),
        ((*DECLARED, "--list"), "or --list"),
        (("--lift", "1"), "there is no exclusion 1"),
        (without("--from"), "--from is missing"),
        (without("--to"), "--to is missing"),
        (without("--reason"), "--reason is missing"),
        (without("--owner"), "--owner is missing"),
        (replaced("--owner", "  "), "--owner is missing"),
        (replaced("--reason", "two\nlines"), "--reason must be one line"),
        (replaced("--reason", "half a \udcff"), "--reason must be one line"),
        (replaced("--from", "yesterday"), "--from must be a time with its zone"),
        (replaced("--from", "2026-06-01"), "--from must be a time with its zone"),
        (replaced("--to", "2026-06-01T12:00:00"), "--to must be a time with its zone"),
        (replaced("--to", "9999-12-31T23:59:59-12:00"), "--to must be a time with its zone"),
        (replaced("--to", FROM), "--from must be before --to"),
        (replaced("--to", "2026-06-01T07:59:59Z"), "--from must be before --to"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    with Pipeline(tmp_path) as pipeline:
        assert words in refused(pipeline, *arguments)


def test_a_refusal_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "slicewatch.toml").write_text(SETTINGS)
    command = [sys.executable, "-m", "monitor", "db", "exclude", "--from", "yesterday"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/none.db"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("slicewatch: --from must be a time with its zone")
    assert done.stderr.count("\n") == 1


def test_it_works_while_the_service_writes(pipeline: Pipeline) -> None:
    """A worker that has its shards and goes on writing sees nothing of it."""
    pipeline.broker.produce(DECISIONS, messages([lesson.decision("a", START, 0.8)]))
    pipeline.worker()
    pipeline.drain()
    epochs = [status.epoch for status in pipeline.statuses()]
    exclude(pipeline, *DECLARED)
    pipeline.broker.produce(DECISIONS, messages([lesson.decision("b", START, 0.8)]))
    pipeline.drain()
    exclude(pipeline, "--lift", "1")
    assert [status.epoch for status in pipeline.statuses()] == epochs
    pipeline.check_conservation()
    assert not pipeline.seen.failures


# What is shown


def hourly(pipeline: Pipeline, hours: int, each: int = 20) -> None:
    """So many decisions an hour, read and published."""
    decisions = [
        lesson.decision(f"{hour}-{i}", START + timedelta(hours=hour), 0.8)
        for hour in range(hours)
        for i in range(each)
    ]
    pipeline.broker.produce(DECISIONS, messages(decisions))
    pipeline.worker()
    pipeline.drain()
    pipeline.fold()


def shown(pipeline: Pipeline) -> Snapshot:
    pipeline.fold()
    body = pipeline.snapshot()
    assert body is not None
    return decode(body)


def totals(snapshot: Snapshot) -> dict[str, int]:
    """Support of the total's selection rate, by window that shows it."""
    return {
        window.window: window.total.rates[Metric.SELECTION].support
        for window in snapshot.contracts[0].windows
        if Metric.SELECTION in window.total.rates
    }


NEXT_DAY = ("--from", "2026-06-02T08:00:00Z", "--to", "2026-06-02T12:00:00Z", *DECLARED[4:])


def test_windows_leave_it_out_and_say_so_until_it_is_taken_back(pipeline: Pipeline) -> None:
    """The newest hour ends at 4 on the third day; the first day begins with the hour of 10."""
    hourly(pipeline, 43)
    before = shown(pipeline)
    assert totals(before) == {"1h": 20, "24h": 480, "7d": 38 * 20, "28d": 38 * 20}
    exclude(pipeline, *NEXT_DAY)
    without_it = shown(pipeline)
    told = {w.window: w.excluded for w in without_it.contracts[0].windows}
    assert told == {"1h": False, "24h": True, "7d": True, "28d": True}
    assert totals(without_it) == {"1h": 20, "24h": 400, "7d": 14 * 20, "28d": 14 * 20}
    exclude(pipeline, "--lift", "1")
    assert encode(shown(pipeline)) == encode(before)


def test_of_a_version_only_the_hours_in_which_it_decided(pipeline: Pipeline) -> None:
    later = START + timedelta(hours=3)
    trial = {**lesson.VERSIONS, "judge": "trial"}
    decisions = [lesson.decision(f"t{i}", later, 0.8, versions=trial) for i in range(5)]
    pipeline.broker.produce(DECISIONS, messages(decisions))
    hourly(pipeline, 20)
    before = totals(shown(pipeline))["24h"]
    (text,) = (version for version in versions(pipeline) if "judge=trial" in version)
    long = replaced("--to", "2026-06-02T00:00:00Z")
    exclude(pipeline, *long, "--version", text)
    left = totals(shown(pipeline))
    assert before - left["24h"] == 25, "the hour in which it decided, all of it"
    assert {*left} == {"1h", "24h"}, "and the only day that has closed"


def test_published_tables_show_the_newest_snapshot(pipeline: Pipeline) -> None:
    """As the evaluator stores one: publishing it again would change nothing."""
    hourly(pipeline, 20)
    exclude(pipeline, *DECLARED)
    newest = shown(pipeline)
    stored = published(pipeline)
    assert stored["published_rate"]
    assert any(row["excluded"] for row in stored["published_window"])
    with db.writing(pipeline.engine) as connection:
        write_published(connection, newest)
    assert published(pipeline) == stored


def published(pipeline: Pipeline) -> dict[str, list[dict[str, Any]]]:
    with db.reading(pipeline.engine) as connection:
        return {
            table.name: [
                dict(row)
                for row in connection.execute(
                    sa.select(table).order_by(*table.primary_key)
                ).mappings()
            ]
            for table in PUBLISHED
        }
