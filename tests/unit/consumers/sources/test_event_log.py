"""The event log on disk: who may open it, what is kept, and what a full or broken disk does."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from consumers.sources.event_log import MILLISECOND, TRIMMED, EventLog, Mark
from consumers.sources.log_source import LogSource
from monitor.core.time import DAY
from monitor.errors import DataLossError, FullLogError, MissingTopicError, SourceError
from monitor.records import Record, Shard, Start

SHARD = Shard("decisions", 0)
NOW = 1_780_000_000_000_000
APPENDS = """
import sys
from pathlib import Path
from consumers.sources.event_log import EventLog
from monitor.records import Shard
log = EventLog(Path(sys.argv[1]), {"decisions": 1}, lambda: 0)
for number in range(100_000):
    log.append({Shard("decisions", 0): [b"%d" % number, b"%d'" % number]})
    print(number, flush=True)
"""


class Clock:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> int:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(tmp_path: Path, clock: Clock) -> Iterator[Callable[[], EventLog]]:
    """Open the log, after closing the one that was opened before."""
    logs: list[EventLog] = []

    def open_log() -> EventLog:
        for log in logs:
            log.close()
        logs.append(EventLog(tmp_path / "log.db", {"decisions": 1, "labels": 1}, clock.now))
        return logs[-1]

    yield open_log
    for log in logs:
        log.close()


def kept(log: EventLog, shard: Shard = SHARD) -> list[bytes | None]:
    return list(log.read(shard, 0, 1_000_000).values)


def test_keeps_records_in_order_with_their_topic_and_identity(
    opened: Callable[[], EventLog],
) -> None:
    log = opened()
    identity = log.topic_id("decisions")
    log.write([Record("decisions", b"", b"a"), Record("labels", b"", b"x")])
    log.write([Record("decisions", b"", None)])
    again = opened()
    assert (kept(again), kept(again, Shard("labels", 0))) == ([b"a", None], [b"x"])
    assert (again.extent(SHARD), again.topic_id("decisions")) == ((0, 2), identity)
    with pytest.raises(MissingTopicError, match="nowhere"):
        again.topic_id("nowhere")


def test_is_open_in_one_process_at_a_time(opened: Callable[[], EventLog], tmp_path: Path) -> None:
    opened()
    with pytest.raises(SourceError, match=r"is open in another process: stop that slicewatch"):
        EventLog(tmp_path / "log.db", {}, lambda: 0)


def test_keeps_what_was_acknowledged_when_it_is_killed(
    opened: Callable[[], EventLog], tmp_path: Path
) -> None:
    """Whole batches, without a hole, and all that were acknowledged."""
    for _ in range(3):
        command = [sys.executable, "-c", APPENDS, str(tmp_path / "log.db")]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(50):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            acknowledged = 50 + len(process.stdout.readlines())
        log = opened()
        first, end = log.extent(SHARD)
        values = log.read(SHARD, first, 1_000_000).values
        assert values == [text for n in range(end // 2) for text in (b"%d" % n, b"%d'" % n)]
        assert acknowledged <= end // 2 <= acknowledged + 1
        log.close()
        (tmp_path / "log.db").unlink()


def test_a_full_disk_loses_nothing_and_takes_nothing_by_halves(
    opened: Callable[[], EventLog],
) -> None:
    log = opened()
    log.append({SHARD: [b"before"]})
    pages = log._database.execute("PRAGMA page_count").fetchone()[0]
    log._database.execute(f"PRAGMA max_page_count = {pages + 2}")
    batch, mark = {SHARD: [b"e" * 1000] * 100}, Mark(b"file", 7, 1)
    with pytest.raises(FullLogError, match="is full: free space, and send the batch again"):
        log.append(batch, mark)
    assert (kept(log), log.mark(b"file"), log.extent(SHARD)) == ([b"before"], Mark(b"file"), (0, 1))
    log._database.execute("PRAGMA max_page_count = 100000")
    log.append(batch, mark)
    assert (len(kept(opened())), opened().mark(b"file")) == (101, mark)


def test_an_unusable_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "log.db").write_bytes(b"no database" * 1000)
    with pytest.raises(SourceError, match="cannot be used: SQLITE_NOTADB; check its disk"):
        EventLog(tmp_path / "log.db", {}, lambda: 0)
    with pytest.raises(SourceError, match=r"cannot be opened: .*File exists"):
        EventLog(tmp_path / "log.db" / "log.db", {}, lambda: 0)


def test_a_closed_log_takes_nothing(opened: Callable[[], EventLog]) -> None:
    log = opened()
    log.close()
    with pytest.raises(SourceError, match="closed"):
        log.append({SHARD: [b"a"]})


def test_nobody_else_may_read_its_files(opened: Callable[[], EventLog], tmp_path: Path) -> None:
    opened().append({SHARD: [b"a"]})
    assert {file.stat().st_mode & 0o077 for file in tmp_path.iterdir()} == {0}


def test_old_messages_go_once_they_are_counted(
    opened: Callable[[], EventLog], clock: Clock
) -> None:
    log = opened()
    log.append({SHARD: [b"old"] * 3})
    clock.at += DAY
    log.append({SHARD: [b"new"]})
    source = LogSource(log, ["decisions"], keep=DAY)
    source.poll(0)
    for counted, first in ((1, 0), (2, 2), (4, 3)):  # at the first the old are not old enough
        clock.at += MILLISECOND * (counted > 1)
        source._reports = 0
        source.report({SHARD: counted})
        assert log.extent(SHARD) == (first, 4)
    with pytest.raises(DataLossError, match="the event log holds 3 to 4"):
        source.begin(SHARD, 2)
    clock.at += 2 * DAY
    log.trim(SHARD, 4, DAY)
    assert opened().extent(SHARD) == (4, 4), "the next offset outlives the messages"


def test_a_trim_looks_at_a_few_messages_only(opened: Callable[[], EventLog], clock: Clock) -> None:
    log = opened()
    log.append({SHARD: [b"old"] * (TRIMMED + 7)})
    clock.at += 2 * DAY
    log.trim(SHARD, TRIMMED + 7, DAY)
    assert log.extent(SHARD) == (TRIMMED, TRIMMED + 7)


def test_threads_may_append_trim_and_read_at_once(
    opened: Callable[[], EventLog], clock: Clock
) -> None:
    log = opened()
    trims = threading.Event()

    def trim() -> None:
        while not trims.is_set():
            log.trim(SHARD, 100, -DAY)

    with ThreadPoolExecutor() as pool:
        trimming = pool.submit(trim)
        appends = [pool.submit(log.append, {SHARD: [b"%d" % n] * 3}) for n in range(300)]
        for append in appends:
            append.result()
        trims.set()
        trimming.result()
    assert log.extent(SHARD) == (100, 900)
    assert len(kept(log)) == 800


def test_begins_at_a_time(opened: Callable[[], EventLog], clock: Clock) -> None:
    log = opened()
    log.append({SHARD: [b"old"] * 3})
    clock.at += DAY
    log.append({SHARD: [b"new"]})
    source = LogSource(log, ["decisions"])
    starts = [Start(), Start("latest"), Start("time", NOW + 1), Start("time", NOW + 2 * DAY)]
    assert [source.first_offset(SHARD, start) for start in starts] == [0, 4, 3, 4]
