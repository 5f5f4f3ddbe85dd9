"""What a log line holds, and whose lines are left out."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from monitor import logs
from monitor.cli import main
from monitor.errors import StoreError


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
    catcher.emit = seen.append  # type: ignore[method-assign, assignment]
    client = logging.getLogger("kafka.net")
    client.addHandler(catcher)
    client.warning("Bootstrap connection failed")
    client.removeHandler(catcher)
    assert lines.getvalue() == ""
    assert len(seen) == 1


SECRET = "an event's own text"


def _fail() -> None:
    try:
        _ = dict[str, str]()[SECRET]
    except KeyError as error:
        raise ValueError(SECRET) from error


@pytest.mark.parametrize("terminal", [False, True])
def test_a_bug_is_told_without_what_it_quotes(
    lines: io.StringIO, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr(lines, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stderr", lines)  # between set-up and test the real one was put back
    logs.configure()
    try:
        _fail()
    except ValueError:
        logging.getLogger("slicewatch.service").exception("a part of the service has failed")
    said = lines.getvalue()
    assert SECRET not in said
    assert said.index("KeyError") < said.index("and then") < said.index("ValueError")
    assert "in _fail" in said


def test_our_own_errors_and_the_systems_are_told_in_full() -> None:
    assert logs.trace_of(StoreError("the fix")).endswith("StoreError: the fix")
    assert "No such file" in logs.trace_of(FileNotFoundError(2, "No such file or directory"))


def test_a_bug_in_a_command_is_told_alike(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("monitor.cli.cli", lambda **_: _fail())
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert (ended.value.code, SECRET in said, "in _fail" in said) == (1, False, True)
