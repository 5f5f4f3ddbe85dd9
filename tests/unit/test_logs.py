"""What a log line holds, and whose lines are left out."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from monitor.commands import logs


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    logs.configure()
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("slicewatch").setLevel(logging.NOTSET)


def test_one_json_object_a_line_with_its_fields(lines: io.StringIO) -> None:
    logging.getLogger("slicewatch.ingest").info("shard claimed", extra={"shard": "decisions/0"})
    said = json.loads(lines.getvalue())
    assert (said["event"], said["shard"], said["level"]) == ("shard claimed", "decisions/0", "info")


def test_the_kafka_clients_own_lines_are_left_out_but_can_be_read(lines: io.StringIO) -> None:
    seen: list[logging.LogRecord] = []
    catcher = logging.Handler()
    catcher.emit = seen.append  # type: ignore[method-assign]
    client = logging.getLogger("kafka.net")
    client.addHandler(catcher)
    client.warning("Bootstrap connection failed")
    client.removeHandler(catcher)
    assert lines.getvalue() == ""
    assert len(seen) == 1
