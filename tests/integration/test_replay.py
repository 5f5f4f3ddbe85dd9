"""``slicewatch replay``: files of any number, order and time make one history, counted once.

The command runs in this process, with a clock that never waits. What it must have counted is
said by the naive oracle; that nothing changed, by everything the store holds.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import counting_oracle as oracle
import lesson
import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result
from pipeline import (
    DECISIONS,
    ID_KEY,
    LABELS,
    SETTINGS,
    ManualClock,
    Pipeline,
    attributes_in,
    dead_letters,
    messages,
    tallies_text,
    total,
)
from signed_probes import SET_TABLE

from consumers import event_time
from consumers.sources import file_source
from monitor import cli, logs
from monitor.commands import replay
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import Snapshot, WindowTable, decode
from monitor.core.time import HOUR, MINUTE, to_micros
from monitor.errors import StoreError
from monitor.flushes import Dictionary, FlushResult, ShardFlush
from monitor.store.ingest.ingest_store import IngestStore

# When a set was declared is what the evaluator first saw of it, not what the files say.
WITHOUT_SETS = SETTINGS.replace(SET_TABLE, "")
RULES = oracle.Rules(attributes_in(), ID_KEY.encode())
END = to_micros(datetime.fromisoformat("2026-06-04T00:00Z"))

Event = dict[str, Any]


def decision(key: str, hours: float, **more: object) -> Event:
    """Every third one goes to a person, by its score."""
    pick = random.Random(key)
    attributes = {
        "channel": pick.choice(("chat", "email")),
        "language_variety": pick.choice(("formal", "conversational")),
    }
    at = lesson.START + timedelta(hours=hours)
    score = pick.choice((0.6, 0.8, 0.95))
    return lesson.decision(key, at, score, attributes=attributes, **more)


def label(decided: Mapping[str, Any]) -> Event:
    at = oracle.instant(decided["decided_at"])
    key = str(decided["decision_id"])
    return lesson.label(key, at, random.Random(key[::-1]).random() < 0.6)


EARLY = [decision(f"e{i}", i / 3) for i in range(60)]
LATE = [decision(f"l{i}", i) for i in range(62)]  # the last one is of 23:05
FILES = {"early": EARLY, "late": LATE, "labels": [label(one) for one in (*EARLY, *LATE)]}


class Hasty(ManualClock):
    """A second passes whenever somebody looks: nothing is ever waited for."""

    def monotonic(self) -> float:
        self.seconds += 1
        return self.seconds


@dataclass
class Desk:
    """One store, its settings file, and the command."""

    folder: Path
    pipeline: Pipeline
    stops: list[Any]
    env: dict[str, str]

    def write(self, name: str, events: Sequence[Event]) -> str:
        path = self.folder / f"{name}.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in messages(events) if line))
        return str(path)

    def files(self, *names: str) -> list[str]:
        return [self.write(name, FILES[name]) for name in names or FILES]

    def replay(self, *arguments: str, stdin: Sequence[Event] = ()) -> Result:
        options = ["-s", str(self.folder / "settings.toml"), *arguments]
        typed = b"\n".join(line for line in messages(stdin) if line)
        runner = CliRunner()
        return runner.invoke(
            replay.command, options, input=typed, env=self.env, catch_exceptions=False
        )

    def fresh(self, *arguments: str, stdin: Sequence[Event] = ()) -> int:
        """Replay; returns how many events were read for the first time."""
        said = self.replay(*arguments, stdin=stdin).stderr
        (number,) = re.findall(
            r"^([0-9,]+) events read", said, re.MULTILINE
        )  # signs of life beside
        return int(number.replace(",", ""))

    def counted(self, decisions: Sequence[Event], labels: Sequence[Event]) -> None:
        """Everything was counted once, and every label found its decision."""
        self.pipeline.check_conservation()
        expected = oracle.count(RULES, decisions, labels)
        self.pipeline.check_counts(expected.counts)
        statuses = self.pipeline.statuses()
        assert total(statuses, DECISIONS, "counted") == len(decisions)
        assert total(statuses, LABELS, "counted") == len(labels)

    @property
    def snapshot(self) -> Snapshot:
        return decode(self.pipeline.snapshot() or b"")

    @property
    def state(self) -> tuple[object, ...]:
        """All that a reader, or the next run, could see."""
        statuses = self.pipeline.statuses()
        marks = [(s.shard, s.next_offset, s.seq, s.watermark) for s in statuses]
        return marks, tallies_text(statuses), self.pipeline.counts(), self.pipeline.snapshot()

    def snapshots(self) -> int:
        with self.pipeline.engine.connect() as connection:
            return int(connection.execute(sa.text("SELECT COUNT(*) FROM snapshot")).scalar_one())


@pytest.fixture
def desks(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """Makes desks; the process keeps its signals and its log."""
    opened: list[Pipeline] = []
    stops: list[Any] = []
    monkeypatch.setattr(
        replay, "on_stop", lambda handler: stops.append(partial(handler, signal.SIGINT, None))
    )
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    monkeypatch.setattr(replay, "SystemClock", Hasty)

    def make() -> Desk:
        folder = tmp_path_factory.mktemp("desk")
        opened.append(Pipeline(folder, text=WITHOUT_SETS))
        return Desk(folder, opened[-1], stops, {"SLICEWATCH__STORE__URL": _url(folder)})

    yield make
    for pipeline in opened:
        pipeline.engine.dispose()


@pytest.fixture
def desk(desks: Any) -> Desk:
    made: Desk = desks()
    return made


def _url(folder: Path) -> str:
    return f"sqlite:///{folder}/store.db"


def refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *files: str
) -> str:
    """The one line that a refused replay prints."""
    monkeypatch.setattr(
        "sys.argv", ["slicewatch", "replay", "-s", str(desk.folder / "settings.toml"), *files]
    )
    for name, value in desk.env.items():
        monkeypatch.setenv(name, value)
    capsys.readouterr()
    with pytest.raises(SystemExit) as raised:
        cli.main()
    said = capsys.readouterr()
    assert raised.value.code == cli.EXIT_ERROR
    assert not said.out
    assert said.err.count("\n") == 1, said.err
    return said.err


# Forms of files


def _flat(event: Event) -> dict[str, object]:
    nested = {n: part for n, part in event.items() if isinstance(part, dict)}
    flat = {n: "" if v is None else v for n, v in event.items() if n not in nested}
    return flat | {f"{n}.{k}": v for n, part in nested.items() for k, v in part.items()}


def _csv(events: Iterable[Mapping[str, object]]) -> bytes:
    rows = list(events)
    output = io.StringIO(newline="")
    writer = csv.DictWriter(output, rows[0].keys())
    writer.writeheader()
    writer.writerows(rows)
    return output.getvalue().encode("utf-8-sig")


def _careless(event: Event) -> bytes:
    unread = b', "ms": NaN, "text": "\\ud83d", "ms": 1, "p": "\xff"}'
    return json.dumps(event).encode()[:-1] + unread


FORMS: Mapping[str, Any] = {
    "events.csv": lambda events: _csv(map(_flat, events)),
    "events.csv.gz": lambda events: gzip.compress(_csv(map(_flat, events))),
    "events.json": lambda events: json.dumps(events, indent=1).encode(),
    "zipped.jsonl": lambda events: gzip.compress(b"\n".join(lesson.encode(events))),
    "careless.jsonl": lambda events: b"\xef\xbb\xbf" + b"\r\n".join(map(_careless, events)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_counted_exactly_in_any_form(desk: Desk, form: str) -> None:
    files = []
    for name, events in (("d", EARLY), ("l", FILES["labels"][:60])):
        path = desk.folder / f"{name}-{form}"
        path.write_bytes(FORMS[form](events))
        files.append(str(path))
    assert desk.fresh(*files) == 120
    desk.counted(EARLY, FILES["labels"][:60])
    assert desk.fresh(*files) == 0


LOG = """
[mapping.decisions]
time_zone = "Europe/Berlin"
times = "%d.%m.%Y %H:%M:%S"
divide = { judge_score = 100, threshold = 100 }
audit_p = { auto_serve = 1.0, human_review = 1.0 }
constants = { evidence_passed = "true", label_requested = "if_labelled" }
[mapping.decisions.fields]
decision_id = "/loan id"
decided_at = "/at"
route = "/approved"
judge_score = "/score"
threshold = "/cut"
"attributes.channel" = "/channel"
"attributes.language_variety" = "/variety"
"versions.judge" = "/model"
"versions.rubric" = "/model"
"versions.policy" = "/model"
"versions.router" = "/model"
[mapping.decisions.values]
"route=1" = "auto_serve"
"route=0" = "human_review"
[mapping.labels.fields]
label_id = "/loan id"
decision_id = "/loan id"
decided_at = "/made"
labelled_at = "/made"
ready = "/repaid"
[mapping.labels.constants]
version = "1"
kind = "initial"
reason = "review"
reviewer = "ledger"
"""


def test_an_existing_log_is_counted_exactly(desk: Desk) -> None:
    """A ledger with codes, local times, percentages and no word on who was sampled."""
    berlin, model = ZoneInfo("Europe/Berlin"), dict.fromkeys(lesson.VERSIONS, "claude@2 (b)")
    kept, ledger, results = [], [], []
    for number, (event, label_) in enumerate(zip(EARLY, FILES["labels"], strict=False)):
        at = datetime.fromisoformat(str(event["decided_at"]))
        sampled = number % 3 > 0
        kept.append(event | {"label_requested": sampled, "versions": model})
        ledger.append(
            {
                "loan id": event["decision_id"],
                "at": at.astimezone(berlin).strftime("%d.%m.%Y %H:%M:%S"),
                "approved": int(event["route"] == "auto_serve"),
                "score": event["judge_score"] * 100,
                "cut": "70",
                "channel": event["attributes"]["channel"],
                "variety": event["attributes"]["language_variety"],
                "model": "claude@2 (b)",
                "text": 'never read: "x",\n',
            }
        )
        if sampled:
            made = {"loan id": event["decision_id"], "made": f"{at:%Y-%m-%d %H:%M:%S}+00"}
            results.append(made | {"repaid": int(label_["ready"])})
    (desk.folder / "settings.toml").write_text((desk.folder / "settings.toml").read_text() + LOG)
    (desk.folder / "ledger.csv").write_bytes(_csv(ledger))
    (desk.folder / "results.jsonl").write_bytes(b"\n".join(lesson.encode(iter(results))))
    files = [f"decisions={desk.folder}/ledger.csv", f"labels={desk.folder}/results.jsonl"]
    assert desk.fresh(*files) == 100
    labels = [
        label_ | {"reviewer": "ledger", "labelled_at": event["decided_at"]}
        for event, label_ in zip(kept, FILES["labels"], strict=False)
        if event["label_requested"]
    ]
    desk.counted(kept, labels)


# Several files


def _inside(window: WindowTable, events: Sequence[Event], since: int) -> list[Event]:
    assert window.decisions is not None
    end = window.decisions.end
    return [e for e in events if since <= to_micros(oracle.instant(e["decided_at"])) < end]


@pytest.mark.full
def test_the_latest_file_closes_every_window(desk: Desk) -> None:
    assert desk.fresh(*desk.files()) == 244
    desk.counted([*EARLY, *LATE], FILES["labels"])
    shown = desk.snapshot
    assert shown.watermark == shown.frontier == END
    assert [window.window for window in shown.contracts[0].windows] == ["1h", "24h", "7d", "28d"]
    ready = {one["decision_id"] for one in FILES["labels"] if one["ready"]}
    for window in shown.contracts[0].windows:
        assert window.decisions is not None
        assert window.decisions.end == END
        assert (window.labelled is None) == (window.window == "1h")
        inside = _inside(window, [*EARLY, *LATE], window.decisions.start)
        assert window.total.rates[Metric.SELECTION].support == len(inside) > 0
        if window.labelled is not None:
            assert window.labelled.end == END
            hits = [e["route"] for e in inside if e["decision_id"] in ready]
            share = hits.count("auto_serve") / len(hits)
            assert window.total.rates[Metric.TPR].value == pytest.approx(share)


@pytest.mark.full
@pytest.mark.parametrize("again", [("early", "late", "labels"), ("early",), ("labels",), ("late",)])
def test_replaying_again_adds_nothing(desk: Desk, again: tuple[str, ...]) -> None:
    desk.replay(*desk.files())
    before = desk.state
    assert desk.fresh(*desk.files(*again)) == 0
    assert desk.state == before
    assert desk.snapshots() == 1


@pytest.mark.full
def test_copies_that_are_counted_again_are_told_by_kind(desk: Desk) -> None:
    """In another file, which is another partition, and long after the first."""
    said = desk.replay(desk.write("whole", [*EARLY, *EARLY[-2:]])).stderr
    assert "counted again" not in said, "recognised"
    later = [decision(f"x{i}", 30 + i / 3) for i in range(4)]
    said = desk.replay(desk.write("other", [EARLY[-1], *later, later[0]])).stderr
    assert "counted again, so far: 1; 0 late (" in said
    assert ", 1 cross_partition (" in said
    assert all(status.tallies.balance == 0 for status in desk.pipeline.statuses())


# Labels a day older than the watermark wait for no file: decisions of a time that a former file has
# closed, after their labels, lose some of these. A file closes the day of its last event.
ORDERS = [one for one in permutations(FILES) if one[1] != "labels"]


@pytest.mark.full
@pytest.mark.parametrize("order", ORDERS, ids="+".join)
def test_files_may_come_one_after_the_other(desk: Desk, order: Sequence[str]) -> None:
    """Each run goes on from the last one, and the store counts as if all had been given at once."""
    runs = [desk.fresh(*desk.files(name)) for name in order]
    assert runs == [len(FILES[name]) for name in order]
    # Labels read before their decisions wait; the next run of their file finds them.
    assert desk.fresh(*desk.files("labels")) == 0
    desk.counted([*EARLY, *LATE], FILES["labels"])
    assert desk.snapshot.watermark == END


@pytest.mark.full
def test_a_later_file_moves_the_watermark_and_an_older_one_leaves_it(desk: Desk) -> None:
    first = [label(one) for one in EARLY]
    desk.replay(*desk.files("early"), desk.write("first", first))
    day = datetime.fromisoformat("2026-06-03T00:00Z")  # the end of its last event's day
    assert desk.snapshot.watermark == to_micros(day)
    shards = {s.shard: s.next_offset for s in desk.pipeline.statuses()}
    desk.replay(*desk.files("late"), desk.write("second", [label(one) for one in LATE]))
    assert desk.snapshot.watermark == END
    older = [decision(f"o{i}", -i) for i in range(5, 0, -1)]
    assert desk.fresh(desk.write("older", older), desk.write("x", [label(one) for one in older]))
    assert desk.snapshot.watermark == END
    assert desk.snapshot.frontier == END
    now = {s.shard: s.next_offset for s in desk.pipeline.statuses()}
    assert {shard: now[shard] for shard in shards} == shards
    assert len(now) == 6


def test_a_file_that_has_grown_goes_on_after_its_last_line(desk: Desk) -> None:
    late, labels = desk.files("late", "labels")
    desk.write("late", LATE[:20])
    assert desk.fresh(late, labels) == 20 + len(FILES["labels"])
    desk.write("late", LATE)
    assert desk.fresh(late, labels) == 42
    assert desk.snapshot.watermark == END


@pytest.mark.full
def test_neither_order_nor_a_second_labels_file_changes_anything(desks: Any) -> None:
    half = len(FILES["labels"]) // 2
    seen = []
    for seed in range(2):
        desk: Desk = desks()
        files = desk.files("early", "late")
        if seed % 2:
            files += desk.files("labels")
        else:
            files += [
                desk.write("one", FILES["labels"][:half]),
                desk.write("two", FILES["labels"][half:]),
            ]
        random.Random(seed).shuffle(files)
        assert desk.fresh(*files) == 244
        seen.append((desk.pipeline.counts(), desk.snapshot))
        before = desk.state
        random.Random(seed + 1).shuffle(files)
        assert desk.fresh(*files) == 0
        assert desk.state == before
    assert all(one == seen[0] for one in seen)


@pytest.mark.full
def test_labels_of_later_files_find_decisions_of_any_age(desk: Desk) -> None:
    """Nothing a label could still ask for is deleted before labels have passed it."""
    decisions = [decision(f"d{i}", 12 * i) for i in range(200)]
    labels = [label(one) for one in decisions]
    desk.replay(desk.write("decisions", decisions))
    desk.replay(desk.write("first", labels[:100]))
    desk.replay(desk.write("second", labels[100:]))
    desk.counted(decisions, labels)
    assert total(desk.pipeline.statuses(), LABELS, "unmatched") == 0


# What is refused


def test_two_files_that_begin_alike_are_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    early, copy = desk.write("early", EARLY), desk.write("copy", EARLY)
    said = refused(desk, monkeypatch, capsys, early, copy)
    assert said == f"slicewatch: {early} and {copy} begin with the same event: one file?\n"
    assert desk.pipeline.statuses() == []


@pytest.mark.full
@pytest.mark.timeout(60)
@pytest.mark.parametrize("beside", [(), ("late", "labels")])
def test_a_file_that_was_cut_short_is_one_clear_line(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    beside: tuple[str, ...],
) -> None:
    desk.replay(*desk.files())
    before = desk.state
    cut = desk.write("early", EARLY[:20])
    others = desk.files(*beside) if beside else []
    said = refused(desk, monkeypatch, capsys, cut, *others)
    assert f"{cut} has 20 lines, and 60 were counted before" in said
    assert desk.state == before
    desk.write("early", EARLY)
    assert desk.fresh(cut, *others) == 0
    assert desk.state == before


@pytest.mark.full
def test_standard_input_must_say_what_it_holds(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "decisions=- or labels=-" in refused(desk, monkeypatch, capsys, "-")


# Standard input


@pytest.mark.full
def test_every_standard_input_is_a_shard_of_its_own(desk: Desk) -> None:
    labels = FILES["labels"]
    one, two = labels[:50], labels[50:]
    assert desk.fresh(*desk.files("early", "late"), "labels=-", stdin=one) == 122 + 50
    assert desk.fresh("labels=-", stdin=two) == len(two)
    desk.counted([*EARLY, *LATE], labels)
    before = desk.state
    for typed in (one, two):
        assert desk.fresh("labels=-", stdin=typed) == 0
    assert desk.state == before
    read = [s.next_offset for s in desk.pipeline.statuses() if s.shard.topic == LABELS]
    assert sorted(read) == [50, len(two)]  # type: ignore[type-var]


# Interruptions


@pytest.mark.full
@pytest.mark.parametrize("turns", [3, 4, 7])
def test_an_interrupted_replay_resumes_exactly(
    desk: Desk, desks: Any, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    whole: Desk = desks()
    whole.replay(*whole.files())
    monkeypatch.setattr(file_source, "CHUNK_BYTES", 4000)
    monkeypatch.setattr(event_time, "FOLLOWERS", 5)  # a file begins to be believed within a chunk
    files, update, seen = desk.files(), replay.ReplayProgress.update, Counter[str]()

    def stop_soon(bar: Any, events: int) -> None:
        update(bar, events)
        seen["turns"] += 1
        if seen["turns"] % turns == 0:
            desk.stops[-1]()

    monkeypatch.setattr(replay.ReplayProgress, "update", stop_soon)
    while seen["events"] < 244:
        seen["events"] += desk.fresh(*files)
        seen["runs"] += 1
        desk.pipeline.check_conservation()
        assert desk.snapshot.watermark is None or desk.snapshot.watermark <= END
    assert seen["runs"] > 1
    monkeypatch.setattr(replay.ReplayProgress, "update", update)
    assert desk.fresh(*files) == 0
    assert desk.snapshot == whole.snapshot
    assert desk.pipeline.counts() == whole.pipeline.counts()
    desk.counted([*EARLY, *LATE], FILES["labels"])


@pytest.mark.full
def test_what_was_interrupted_promises_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hours of a file that was not read to its end are not complete."""
    monkeypatch.setattr(file_source, "CHUNK_BYTES", 4000)
    monkeypatch.setattr(event_time, "FOLLOWERS", 5)
    update = replay.ReplayProgress.update

    def stop_once(bar: Any, events: int) -> None:
        update(bar, events)
        if events and desk.stops:
            desk.stops.pop()()

    with monkeypatch.context() as patch:
        patch.setattr(replay.ReplayProgress, "update", stop_once)
        assert 0 < desk.fresh(*desk.files()) < 244
    newest = {s.max_decided_at for s in desk.pipeline.statuses() if s.shard.topic == DECISIONS}
    assert desk.snapshot.watermark == (min(at or 0 for at in newest) - 10 * MINUTE) // HOUR * HOUR


class Failing:
    """A store whose n-th flush fails, before anything is written or after the commit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, after: bool) -> None:
        self.calls = 0
        flush = IngestStore.flush

        def fail_once(
            store: IngestStore, flushes: Sequence[ShardFlush], dictionary: Dictionary
        ) -> FlushResult:
            self.calls += 1
            if self.calls == at and not after:
                raise StoreError("gone before the commit")
            result = flush(store, flushes, dictionary)
            if self.calls == at:
                raise StoreError("gone after the commit")
            return result

        monkeypatch.setattr(IngestStore, "flush", fail_once)


@pytest.mark.full
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_store_that_fails_once_changes_nothing(
    desks: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, after: bool
) -> None:
    """In any flush, the very last ones included: the run goes on until everything is counted."""
    caplog.set_level("CRITICAL", "slicewatch")
    monkeypatch.setattr(file_source, "CHUNK_BYTES", 2_500)
    monkeypatch.setattr("monitor.composition.ingest.FLUSH_EVENTS", 10)
    seen, number = [], 0
    while True:
        desk: Desk = desks()
        with monkeypatch.context() as patch:
            store = Failing(patch, number, after)
            desk.replay(*desk.files())
        desk.counted([*EARLY, *LATE], FILES["labels"])
        seen.append((desk.pipeline.counts(), desk.snapshot))
        assert seen[-1] == seen[0]
        if store.calls < number:
            break
        number += 1
    assert number > 4


# What is printed


def test_the_summary_is_what_the_snapshot_holds(desk: Desk) -> None:
    result = desk.replay(*desk.files(), "--summary", "--json")
    assert json.loads(result.stdout) == json.loads(desk.pipeline.snapshot() or b"")
    assert not desk.replay(*desk.files()).stdout


def test_the_summary_of_a_guarded_contract_has_no_row_of_few(desk: Desk) -> None:
    path = desk.folder / "settings.toml"
    guarded = path.read_text().replace("synthetic = true\nk = 1\n", "")
    path.write_text(guarded.replace('version = "1"', 'version = "2"'))
    decisions = [decision(f"m{i}", i / 6) for i in range(400)]
    files = desk.write("many", decisions), desk.write("labels", [label(e) for e in decisions])
    result = desk.replay(*files, "--summary", "--json")
    assert json.loads(result.stdout) == json.loads(desk.pipeline.snapshot() or b"")
    (table,) = desk.snapshot.contracts
    assert (table.k, table.synthetic) == (11, False)
    shown = [
        sum(
            row.slice in _text(event) for event in _inside(window, decisions, group.decisions.start)
        )
        for window in table.windows
        for group in window.groups
        if group.decisions is not None
        for row in group.rows
        if row.rates
    ]
    assert shown
    assert min(shown) >= 11


def _text(event: Event) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(event["attributes"].items()))


# Arrays


BAD: tuple[Event, ...] = (
    {"route": "x"}, {"judge_score": "1"}, {"text": "free"}, {"attributes": {"colour": "red"}},
    {"decided_at": "2026-06-01T10:05:00"}, {"decided_at": "2030-01-01T00:00:00Z"},
    {"decided_at": "2020-01-01T00:00:00Z"}, {"versions": {}},
)  # fmt: skip


def _mixed(events: Sequence[Event], pick: random.Random) -> list[bytes | None]:
    """Single events, arrays of one and of many, and empty arrays, in any succession."""
    out: list[bytes | None] = []
    rest = list(events)
    while rest:
        size = pick.choice((0, 1, 1, 2, 5, 50))
        alone = size == 1 and pick.random() < 0.5
        out.append(json.dumps(rest[0] if alone else rest[:size]).encode())
        rest = rest[size:]
    return out


def test_a_file_of_arrays_counts_like_a_file_of_events(desks: Any) -> None:
    pick, seen = random.Random(7), []
    decisions = [e | pick.choice(BAD) if i % 9 == 5 else e for i, e in enumerate(LATE)]
    for packed in (messages(decisions), _mixed(decisions, pick), messages(decisions, [1000])):
        desk: Desk = desks()
        path = desk.folder / "packed.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in packed if line))
        labels = desk.write("labels", FILES["labels"])
        assert desk.fresh(f"decisions={path}", labels) == len(LATE) + len(FILES["labels"])
        letters = [(reason, field) for *_, reason, field in dead_letters(desk.pipeline.engine)]
        seen.append((letters, desk.pipeline.counts(), desk.snapshot))
    assert seen[0][0]
    assert seen[1:] == [seen[0]] * 2
