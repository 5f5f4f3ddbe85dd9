"""``slicewatch db``: what an operator sees, repairs and erases, on both databases."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import lesson
import next_release
import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result
from migrated import bring_to_head
from pipeline import DECISIONS, ID_KEY, LABELS, Pipeline, messages, total
from rich.console import Console

from alerts.exposition.renderer import Renderer
from monitor.cli import cli
from monitor.commands.summary import summary
from monitor.composition.ingest import id_hasher
from monitor.core.publish.snapshot import Snapshot, decode, encode
from monitor.core.time import to_micros
from monitor.errors import FencedError, SlicewatchError, StoreError
from monitor.flushes import ShardFlush
from monitor.present.terminal import printed as on_terminal
from monitor.records import Shard
from monitor.store import database as db
from monitor.store.erasure import forget
from monitor.store.ingest import ingest_store as ingest
from monitor.store.upkeep import store_status as status_module

NOW = lesson.START
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SECRET = "person-4711"


@pytest.fixture
def url(url: str) -> str:
    """SQLite still to be made by the command, PostgreSQL with all tables."""
    return url if url.startswith("sqlite") else migrated(url)


def migrated(server: str) -> str:
    bring_to_head(server)
    return server


@pytest.fixture
def pipeline(tmp_path: Path, url: str) -> Iterator[Pipeline]:
    with Pipeline(tmp_path, partitions=(1, 2), store__url=url) as pipeline:
        yield pipeline


def invoke(pipeline: Pipeline, *arguments: str, stdin: bytes | None = None, **env: str) -> Result:
    environment = {"SLICEWATCH__STORE__URL": pipeline.settings.store.url, **env}
    settings = str(pipeline.path.with_name("settings.toml"))
    runner = CliRunner(env=environment)
    return runner.invoke(
        cli, ["db", *arguments, "-s", settings], input=stdin, standalone_mode=False
    )


def printed(result: Result) -> str:
    assert result.exception is None, result.exception
    return result.output


def refused(result: Result) -> str:
    assert isinstance(result.exception, SlicewatchError)
    return str(result.exception)


def read(pipeline: Pipeline, query: str) -> list[tuple[Any, ...]]:
    with db.reading(pipeline.engine) as connection:
        return [tuple(row) for row in connection.execute(sa.text(query))]


def write(pipeline: Pipeline, statement: str, **values: Any) -> None:
    with db.writing(pipeline.engine) as connection:
        connection.execute(sa.text(statement), values)


def decision(key: str, at: datetime = NOW, **more: Any) -> dict[str, object]:
    attributes = {"language_variety": "formal", "channel": "chat"}
    return lesson.decision(key, at, 0.8, **{"attributes": attributes, **more})


def consume(
    pipeline: Pipeline, decisions: Sequence[Any] = (), labels: Sequence[Any] = (), part: int = 0
) -> None:
    """Produce and read to the end, with one worker that lives on."""
    pipeline.broker.produce(DECISIONS, messages(decisions))
    pipeline.broker.produce(LABELS, messages(labels), part)
    if not pipeline.workers:
        pipeline.worker()
    pipeline.drain()


# Status


def status(pipeline: Pipeline, code: int = 0) -> dict[str, Any]:
    result = invoke(pipeline, "status", "--json")
    assert result.exit_code == code, result.output
    found: dict[str, Any] = json.loads(result.output)
    return found


def test_a_store_that_is_well(pipeline: Pipeline) -> None:
    consume(pipeline, [decision("a"), decision("b", NOW + HOUR)], [lesson.label("a", NOW, True)])
    before = status(pipeline)
    assert [s["deltas_waiting"] for s in before["shards"]] == [1, 1, 0]
    assert before["evaluator"] is None
    pipeline.fold()
    pipeline.flush_again(5)  # the empty partition is told apart from one that nobody reads
    found = status(pipeline)
    assert found["schema"] == found["schema_needed"] == db.head_revision()
    assert found["problems"] == []
    decisions, labels, empty = found["shards"]
    assert (decisions["topic"], decisions["partition"], decisions["next_offset"]) == (
        DECISIONS,
        0,
        2,
    )
    assert (decisions["newest"], decisions["behind_seconds"]) == ("2026-06-01T11:05:00Z", 600.0)
    assert found["watermark"] == decisions["watermark"] == "2026-06-01T10:55:00Z"
    assert decisions["owner"] == labels["owner"]
    assert decisions["flushed_at"] is not None
    assert (decisions["holds_back"], empty["holds_back"]) == (True, False)
    assert (empty["next_offset"], empty["watermark"], empty["behind_seconds"]) == (0, None, None)
    balances = [(s["offsets_balance"], s["events_balance"]) for s in found["shards"]]
    assert balances == [(0, 0)] * 3
    assert [s["deltas_waiting"] for s in found["shards"]] == [0, 0, 0]
    assert found["evaluator"]["owner"] is None
    assert found["evaluator"]["cycle_age_seconds"] < 3600
    tables = {table.pop("name"): table for table in found["tables"]}
    hours = {"oldest_hour": "2026-06-01T10:00:00Z", "newest_hour": "2026-06-01T11:00:00Z"}
    assert tables["pending"] == {"rows": 2, "estimated": False, **hours}
    assert {name: table["rows"] for name, table in tables.items()} == {
        "pending": 2, "label_state": 1, "double_label": 0, "waiting_label": 0, "dead_letter": 0,
        "delta": 2, "snapshot": 1,
    }  # fmt: skip
    assert [c["effective_from"] for c in found["codings"]] == [None]
    assert [(c["name"], c["version"]) for c in found["contracts"]] == [("synthetic", "1")]
    assert found["resumptions"] == []


def test_people_read_the_same_in_tables_without_slices_or_secrets(pipeline: Pipeline) -> None:
    consume(pipeline, [decision("a"), decision("b"), {"bad": 1}])
    evaluator = pipeline.evaluator()
    assert evaluator.cycle()
    result = invoke(pipeline, "status")
    assert result.exit_code == 0
    for shown in (f"{DECISIONS}/0", "2026-06-01T09:55:00Z", "lease until", "synthetic", "pending"):
        assert shown in result.output
    both = result.output + invoke(pipeline, "status", "--json").output
    hidden = ["formal", "chat", "auto_serve", ID_KEY]
    if password := sa.make_url(pipeline.settings.store.url).password:
        hidden.append(password)
    for secret in hidden:
        assert secret not in both


def test_a_parked_shard_needs_a_person(pipeline: Pipeline) -> None:
    consume(pipeline, [decision("a")])
    write(pipeline, "UPDATE ownership SET next_offset = 7 WHERE topic = :t", t=DECISIONS)
    write(pipeline, "UPDATE ownership SET start_offset = 6 WHERE topic = :t", t=DECISIONS)
    pipeline.kill(pipeline.workers[0])
    pipeline.worker()
    for _ in range(3):
        pipeline.step(pipeline.workers[0], 3.0)
    found = status(pipeline, code=1)
    (problem,) = found["problems"]
    assert problem == f"decisions/0 is parked: {found['shards'][0]['parked']}"
    assert "slicewatch db resume-from decisions 0 OFFSET --reason TEXT" in problem
    for_people = invoke(pipeline, "status")
    assert for_people.exit_code == 1
    assert "decisions/0 is parked: " in for_people.output


def test_events_and_messages_that_ended_nowhere_are_told(pipeline: Pipeline) -> None:
    consume(pipeline, [decision("a")])
    write(pipeline, "UPDATE ownership SET next_offset = 4 WHERE topic = :t", t=DECISIONS)
    lost = "UPDATE ownership SET tallies = :x WHERE topic = :t AND part = 1"
    write(pipeline, lost, x='{"events": 7}', t=LABELS)
    found = status(pipeline, code=1)
    assert found["shards"][0]["offsets_balance"] == 3
    assert found["shards"][2]["events_balance"] == 7
    assert [p.split(";")[0] for p in found["problems"]] == [
        "decisions/0: 3 messages ended nowhere", "labels/1: 7 events ended nowhere"
    ]  # fmt: skip


def test_an_older_schema_is_told_before_anything_else_is_read(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    older = db.head_revision()
    next_release.become(monkeypatch, tmp_path)
    write(pipeline, "DROP TABLE resumption")
    found = status(pipeline, code=1)
    assert (found["schema"], found["shards"]) == (older, [])
    assert "slicewatch db migrate" in found["problems"][0]
    assert older in invoke(pipeline, "status").output


def test_a_database_that_is_not_there_is_not_made(pipeline: Pipeline, tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.db"
    env: dict[str, Any] = {"SLICEWATCH__STORE__URL": f"sqlite:///{file}"}
    assert "does not exist yet" in refused(invoke(pipeline, "status", **env))
    assert not file.exists()


def test_large_tables_are_estimated_where_the_server_can(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    consume(pipeline, [decision(f"d{i}") for i in range(50)])
    monkeypatch.setattr(status_module, "COUNTED_BYTES", 0)
    on_server = pipeline.engine.dialect.name == "postgresql"
    assert not status(pipeline)["tables"][0]["estimated"], "the server knows nothing yet"
    write(pipeline, "ANALYZE")
    found = status(pipeline)["tables"][0]
    assert (found["rows"], found["estimated"]) == (50, on_server)
    assert ("about 50" in invoke(pipeline, "status").output) == on_server


# Forgetting


def stored(pipeline: Pipeline) -> dict[str, int]:
    tables = ("pending", "label_state", "double_label", "waiting_label")
    return {name: read(pipeline, f"SELECT COUNT(*) FROM {name}")[0][0] for name in tables}


def test_what_is_stored_of_a_decision_goes_and_its_counts_stay(pipeline: Pipeline) -> None:
    decisions = [decision(SECRET), decision("other", NOW + 3 * DAY)]
    labels = [lesson.label(SECRET, NOW, True), lesson.label("other", NOW + 3 * DAY, False)]
    second = {"label_id": "second", "reviewer": "another"}
    labels += [label | second for label in labels]
    consume(pipeline, decisions, labels)
    early = lesson.label(SECRET, NOW + 2 * DAY, True, label_id="of another hour")
    consume(pipeline, labels=[early, lesson.label("later", NOW + 2 * DAY, True)], part=1)
    pipeline.fold()
    counted, published = pipeline.counts(), pipeline.snapshot()
    assert set(stored(pipeline).values()) == {2}

    said = printed(invoke(pipeline, "forget", SECRET))

    assert said == (
        "rows removed under this id: 1 from pending, 1 from label_state, 1 from double_label,"
        " 1 from waiting_label\n"
    )
    assert set(stored(pipeline).values()) == {1}
    pipeline.check_conservation()
    tallies = {s.shard: s.tallies for s in pipeline.statuses()}
    assert tallies[Shard(LABELS, 1)].unmatched == {"forgotten": 1}
    assert tallies[Shard(LABELS, 1)].waiting == 1
    pipeline.fold()
    assert (pipeline.counts(), pipeline.snapshot()) == (counted, published)
    again = printed(invoke(pipeline, "forget", SECRET))
    assert again == "nothing is stored under this id\n"
    assert status(pipeline)["problems"] == []


def test_a_worker_that_holds_the_totals_claims_its_shard_again(pipeline: Pipeline) -> None:
    consume(pipeline, [decision("a")])
    consume(pipeline, labels=[lesson.label(SECRET, NOW, True)], part=1)
    epochs = {s.shard: s.epoch for s in pipeline.statuses()}
    printed(invoke(pipeline, "forget", SECRET))
    moved = {s.shard for s in pipeline.statuses() if s.epoch != epochs[s.shard]}
    assert moved == {Shard(LABELS, 1)}, "the others are left alone"
    consume(pipeline, labels=[lesson.label("a", NOW, True)], part=1)
    assert total(pipeline.statuses(), LABELS, "counted") == 1
    assert total(pipeline.statuses(), LABELS, "unmatched") == 1
    assert total(pipeline.statuses(), LABELS, "waiting") == 0
    pipeline.check_conservation()


def test_a_label_that_comes_later_waits_and_ends_unmatched(pipeline: Pipeline) -> None:
    consume(pipeline, [decision(SECRET), decision("another")])
    printed(invoke(pipeline, "forget", SECRET))
    consume(pipeline, labels=[lesson.label(SECRET, NOW, True)])
    assert total(pipeline.statuses(), LABELS, "waiting") == 1
    consume(pipeline, [decision("two days on", NOW + 2 * DAY)])
    (shard,) = [s for s in pipeline.statuses() if s.shard == Shard(LABELS, 0)]
    assert (shard.tallies.waiting, shard.tallies.unmatched) == (0, {"no_decision": 1})
    pipeline.check_conservation()


def test_many_ids_come_from_standard_input(pipeline: Pipeline) -> None:
    ids = ["a", "-x", "with space", "ü", "stays"]
    consume(pipeline, [decision(key, NOW + i * HOUR) for i, key in enumerate(ids)])
    lines = "a\r\n\n-x\nwith space\nü\nunknown".encode()
    said = printed(invoke(pipeline, "forget", "--stdin", stdin=lines))
    assert said.startswith("rows removed under these 5 ids: 4 from pending, 0 from label_state")
    assert stored(pipeline)["pending"] == 1
    assert printed(invoke(pipeline, "forget", "stays")).startswith("rows removed under this id: 1")


def test_an_id_that_looks_like_an_option_is_an_id(pipeline: Pipeline) -> None:
    consume(pipeline, [decision("--y")])
    assert "1 from pending" in printed(invoke(pipeline, "forget", "--y"))


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        ((), None),
        ((SECRET, "--stdin"), b""),
        ((SECRET, "two"), None),
        (("--stdin",), SECRET.encode() + b"\xff"),
        ((SECRET * 20,), None),
        ((f"{SECRET}\udcff",), None),
    ],
)
def test_what_is_no_id_is_refused_without_a_word_of_it(
    tmp_path: Path, arguments: tuple[str, ...], stdin: bytes | None
) -> None:
    with Pipeline(tmp_path) as pipeline:
        result = invoke(pipeline, "forget", *arguments, stdin=stdin)
    assert result.exception is not None
    assert not isinstance(result.exception, UnicodeError)
    assert SECRET not in f"{result.output}{result.exception}"


def test_another_id_key_is_refused_where_it_would_find_nothing(pipeline: Pipeline) -> None:
    consume(pipeline, [decision(SECRET)])
    other: dict[str, Any] = {"SLICEWATCH__PRIVACY__ID_KEY": "another key that is long enough, too"}
    assert "privacy.id_key" in refused(invoke(pipeline, "forget", SECRET, **other))
    assert stored(pipeline)["pending"] == 1


# Resuming


def park(pipeline: Pipeline, topic: str) -> None:
    write(pipeline, "UPDATE ownership SET parked = 'lost' WHERE topic = :t AND part = 0", t=topic)


def resume(pipeline: Pipeline, topic: str, offset: int, *more: str) -> Result:
    return invoke(pipeline, "resume-from", topic, "0", str(offset), "--reason", "gone", *more)


def test_a_shard_that_is_not_parked_is_moved_by_force_only(pipeline: Pipeline) -> None:
    assert "was never read" in refused(resume(pipeline, DECISIONS, 5))
    pipeline.worker()
    assert "was never read, continues at 0" in printed(resume(pipeline, DECISIONS, 0))
    consume(pipeline, [decision("a"), decision("b")])
    before = read(pipeline, "SELECT * FROM ownership")
    assert "leave 3 offsets uncounted" in refused(resume(pipeline, DECISIONS, 5))
    assert "count 2 offsets again" in refused(resume(pipeline, DECISIONS, 0))
    assert "--force" in refused(resume(pipeline, DECISIONS, 2))
    assert read(pipeline, "SELECT * FROM ownership") == before
    said = printed(resume(pipeline, DECISIONS, 5, "--force"))
    assert said == "decisions/0 was at 2, continues at 5\n"
    pipeline.check_conservation()
    assert status(pipeline)["problems"] == []


def test_a_parked_shard_is_parked_no_more(pipeline: Pipeline) -> None:
    consume(pipeline, [decision("a"), decision("b")])
    park(pipeline, DECISIONS)
    printed(resume(pipeline, DECISIONS, 3))
    found = status(pipeline)
    assert (found["shards"][0]["parked"], found["shards"][0]["next_offset"]) == (None, 3)
    (gap,) = found["resumptions"]
    assert (gap["from_offset"], gap["to_offset"], gap["reason"]) == (2, 3, "gone")
    assert (gap["lost_from"], gap["lost_until"]) == ("2026-06-01T10:05:00Z", None)
    assert "gone" in invoke(pipeline, "status").output


def test_a_parked_shard_goes_backwards_by_force_only(pipeline: Pipeline) -> None:
    consume(pipeline, [decision("a"), decision("b")])
    park(pipeline, DECISIONS)
    assert "would count 2 offsets again" in refused(resume(pipeline, DECISIONS, 0))
    assert status(pipeline, 1)["shards"][0]["next_offset"] == 2
    said = printed(resume(pipeline, DECISIONS, 0, "--force"))
    assert said == "decisions/0 was at 2, continues at 0; 2 offsets will be counted again\n"


def moments(*after: timedelta) -> list[dict[str, object]]:
    return [decision(f"at {one}", NOW + one, label_requested=False) for one in after]


def lost_windows(pipeline: Pipeline) -> set[str]:
    """Windows whose table says that data was lost; the page says the same."""
    pipeline.fold()
    snapshot = shown(pipeline)
    (table,) = snapshot.contracts
    lost = {window.window for window in table.windows if window.data_lost}
    console = Console(file=io.StringIO(), record=True, width=200)
    console.print(*map(on_terminal, summary(snapshot)))
    assert ("Events of this window were lost" in console.export_text()) == (table.window in lost)
    page = Renderer(100_000).render(snapshot).plain.decode()
    for window in table.windows:
        labels = f'{{contract="synthetic",window="{window.window}"}}'
        line = f"slicewatch_window_data_lost{labels} {float(window.data_lost)}"
        assert line in page.splitlines()
    return lost


def shown(pipeline: Pipeline) -> Snapshot:
    body = pipeline.snapshot()
    assert body is not None
    return decode(body)


ALL = {"1h", "24h", "7d", "28d"}


@pytest.mark.full
def test_windows_that_lost_decisions_say_so_until_they_have_moved_on(pipeline: Pipeline) -> None:
    consume(pipeline, moments(-DAY, -HOUR, 0 * HOUR))
    assert lost_windows(pipeline) == set()
    pipeline.broker.produce(DECISIONS, messages(moments(HOUR, 2 * HOUR)))  # never read
    park(pipeline, DECISIONS)
    printed(resume(pipeline, DECISIONS, 5))
    assert lost_windows(pipeline) == set(), "nothing is published beyond the gap yet"
    consume(pipeline, moments(4 * HOUR, 6 * HOUR))
    assert read(pipeline, "SELECT lost_from, lost_until FROM resumption") == [
        (to_micros(NOW), to_micros(NOW + 4 * HOUR))
    ]
    assert total(pipeline.statuses(), DECISIONS, "gaps") == 2
    pipeline.check_conservation()
    assert lost_windows(pipeline) == {"1h", "24h"}, "the newest day is the one before"
    consume(pipeline, moments(7 * HOUR))
    assert lost_windows(pipeline) == {"24h"}
    consume(pipeline, moments(30 * HOUR))
    assert lost_windows(pipeline) == ALL - {"1h"}, "24 hours show nothing, the day before does"
    consume(pipeline, moments(16 * DAY))
    assert lost_windows(pipeline) == {"28d"}
    assert read(pipeline, "SELECT lost_until FROM resumption") == [(to_micros(NOW + 4 * HOUR),)]


def test_lost_labels_concern_labelled_windows_alone(pipeline: Pipeline) -> None:
    consume(pipeline, moments(-DAY, 0 * HOUR))
    at = NOW - 3 * HOUR
    consume(pipeline, labels=[lesson.label("x", at, True)])
    assert lost_windows(pipeline) == set()
    park(pipeline, LABELS)
    printed(resume(pipeline, LABELS, 9))
    assert lost_windows(pipeline) == ALL - {"1h"}, "a restarted evaluator sees it at once"
    given = NOW + 2 * DAY
    late = lesson.label("y", NOW - 2 * HOUR, True, labelled_at=lesson.text(given))
    pipeline.broker.produce(LABELS, messages([late] * 9), 0)
    consume(pipeline)
    consume(pipeline, moments(4 * DAY))
    rows = read(pipeline, "SELECT lost_from, lost_until FROM resumption")
    assert rows == [(to_micros(at), to_micros(given))]
    assert lost_windows(pipeline) == ALL - {"1h", "24h"}


def test_an_evaluator_that_goes_on_hears_of_a_gap_at_once(pipeline: Pipeline) -> None:
    consume(pipeline, moments(-DAY, 0 * HOUR), [lesson.label("x", NOW, True)])
    evaluator = pipeline.evaluator()
    assert evaluator.cycle()
    before = pipeline.snapshot()
    assert evaluator.cycle()
    assert pipeline.snapshot() == before
    park(pipeline, LABELS)
    printed(resume(pipeline, LABELS, 9))
    assert evaluator.cycle()
    (table,) = shown(pipeline).contracts
    assert {w.window for w in table.windows if w.data_lost} == ALL - {"1h"}


def test_a_start_that_a_person_chose_lost_nothing(pipeline: Pipeline) -> None:
    pipeline.broker.produce(DECISIONS, messages(moments(0 * HOUR, HOUR)))
    pipeline.worker()
    printed(resume(pipeline, DECISIONS, 1))
    consume(pipeline, moments(2 * HOUR))
    assert total(pipeline.statuses(), DECISIONS, "counted") == 2
    assert lost_windows(pipeline) == set()


def test_a_snapshot_of_before_lost_nothing(pipeline: Pipeline) -> None:
    consume(pipeline, moments(-DAY, 0 * HOUR))
    pipeline.fold()
    body = pipeline.snapshot()
    assert body is not None
    old = json.loads(body)
    for window in old["contracts"][0]["windows"]:
        for table in (window, *window["groups"]):
            for period in filter(None, (table["decisions"], table["labelled"])):
                del period["data_lost"], period["excluded"]
    assert encode(decode(json.dumps(old).encode())) == body


# Dead letters


def test_dead_letters_of_one_reason(pipeline: Pipeline) -> None:
    consume(pipeline, [decision("a"), {"bad": 1}, {**decision("b"), "route": "x"}])
    everything = printed(invoke(pipeline, "dead-letters", "--json")).splitlines()
    reasons = [json.loads(line)["reason"] for line in everything]
    assert sorted(reasons) == ["invalid_value", "missing_field"]
    one = printed(invoke(pipeline, "dead-letters", "--json", "--reason", "invalid_value"))
    assert json.loads(one)["offset"] == 2


def test_the_fence_of_forgetting_holds(pipeline: Pipeline) -> None:
    """A flush that was prepared before the erasure cannot bring old totals back."""
    consume(pipeline, labels=[lesson.label(SECRET, NOW, True)])
    (worker,) = pipeline.workers
    (state,) = [s for s in worker.states.values() if s.shard == Shard(LABELS, 0)]
    prepared = state.flush()
    printed(invoke(pipeline, "forget", SECRET))
    with pytest.raises(FencedError):
        pipeline.store.flush([prepared], state.codecs.coder.dictionary)
    assert stored(pipeline)["waiting_label"] == 0


def test_errors_are_one_line(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    next_release.become(monkeypatch, tmp_path)
    for arguments in (
        ("forget", "x"),
        ("dead-letters",),
        ("resume-from", "t", "0", "1", "--reason", "r"),
    ):
        error = invoke(pipeline, *arguments).exception
        assert isinstance(error, StoreError)
        assert "slicewatch db migrate" in str(error)


def test_a_flush_under_way_ends_before_anything_is_forgotten(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would write the label that counts after its decision was erased."""
    flushing, go_on, real = threading.Event(), threading.Event(), ingest._write_tallies

    def hold(connection: sa.Connection, flush: ShardFlush, now: int) -> None:
        real(connection, flush, now)
        if flush.labels:
            flushing.set()
            assert go_on.wait(60)

    with (
        Pipeline(tmp_path, store__url=migrated(postgres_url)) as pipeline,
        ThreadPoolExecutor(2) as threads,
    ):
        consume(pipeline, [decision(SECRET)])
        monkeypatch.setattr(ingest, "_write_tallies", hold)
        label = [lesson.label(SECRET, NOW, True)]
        consumed = threads.submit(consume, pipeline, labels=label)
        assert flushing.wait(60)
        (key,) = id_hasher(pipeline.settings, pipeline.engine).under_all(SECRET)
        forgotten = threads.submit(forget, pipeline.engine, key)
        try:
            until_one_waits(pipeline)
        finally:
            go_on.set()
        assert forgotten.result() == {
            "pending": 1, "label_state": 1, "double_label": 0, "waiting_label": 0
        }  # fmt: skip
        consumed.result()
        assert set(stored(pipeline).values()) == {0}
        pipeline.check_conservation()


def until_one_waits(pipeline: Pipeline) -> None:
    """Until a transaction waits for the lock of another one."""
    query = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    deadline = time.monotonic() + 60
    while read(pipeline, f"{query} AND datname = current_database()") == [(0,)]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
