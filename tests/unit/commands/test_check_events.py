"""``slicewatch check --events``: every line that is wrong is named, and none of its content."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import lesson
import msgspec
import pytest
from click.testing import CliRunner, Result
from pipeline import SETTINGS

from consumers.dead_letters import REASONS as ALL_REASONS
from consumers.event_words import EXPECTED, REASONS, nearest
from consumers.events import Decision, Label
from monitor.commands.check import command

SECRET = "xq7secretxq7"


def decision(key: object = "a", **more: Any) -> dict[str, Any]:
    attributes = {"channel": "chat", "language_variety": "formal"}
    return lesson.decision("a", lesson.START, 0.8, attributes=attributes) | {
        "decision_id": key, **more,
    }  # fmt: skip


def check(folder: Path, *files: str, text: str = SETTINGS) -> Result:
    (folder / "s.toml").write_text(text)
    options = [part for name in files for part in ("--events", name)]
    return CliRunner().invoke(
        command, ["-s", str(folder / "s.toml"), *options], catch_exceptions=False
    )


def write(folder: Path, *lines: object, name: str = "d.jsonl") -> str:
    texts = (one if isinstance(one, str) else json.dumps(one) for one in lines)
    (folder / name).write_text("".join(f"{text}\n" for text in texts))
    return str(folder / name)


def test_good_files_say_what_would_be_counted(tmp_path: Path) -> None:
    path = write(tmp_path, decision("a"), "", decision("b"), decision("b"))
    labels = write(tmp_path, lesson.label("a", lesson.START, True),
                   lesson.label("z", lesson.START, True), name="l.jsonl")  # fmt: skip
    said = check(tmp_path, path, labels)
    assert said.exit_code == 0
    assert said.stdout.splitlines() == [
        f"{path}: 3 decisions in 4 lines; 2 would be counted, 1 are copies, 0 could not be counted",
        f"{path}: attribute channel: 3 listed",
        f"{path}: attribute language_variety: 3 listed",
        f"{labels}: 2 labels in 2 lines; 2 would be counted, 0 are copies, 0 could not be counted",
        "1 of 2 labels have their decision in these files; the others would wait for it",
    ]


BAD = [
    ("nonsense " + SECRET, "the event is not JSON in UTF-8"),
    (decision(route=SECRET), "route is not an allowed value; expected one of auto_serve,"),
    (decision(judge_score=SECRET), "judge_score is of the wrong kind; expected a number from 0 to"
     " 1, or absent, found text"),
    (decision(decided_at=1780308300), "decided_at is not an allowed value; expected a time with"),
    (decision(audit_p=None), "audit_p is missing or null; expected a number above 0"),
    (decision(attributes=[SECRET]), "attributes is of the wrong kind; expected an object"),
    (decision(decided_at="2126-06-01T10:00:00Z"), "decided_at is longer after the events"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "told"), BAD)
def test_each_bad_line_is_named_with_what_was_expected(
    line: object, told: str, tmp_path: Path
) -> None:
    path = write(tmp_path, decision("a"), line, decision("b"))
    said = check(tmp_path, path)
    assert said.exit_code == 1
    (found,) = [one for one in said.stdout.splitlines() if one.startswith(f"{path}:2: ")]
    assert told in found
    assert found.endswith(": not counted")
    assert "2 would be counted, 0 are copies, 1 could not be counted" in said.stdout
    assert SECRET not in said.output


def test_what_is_counted_otherwise_than_meant_is_said_too(tmp_path: Path) -> None:
    attributes = {"channel": " Chat", "language_variety": SECRET, "region": SECRET}
    path = write(
        tmp_path,
        decision("a", attributes=attributes, judgeScore=0.2, **{SECRET + "1234": SECRET}),
        decision("b", route="auto_serve", judge_score=0.1, threshold=0.7, attributes={}),
        [decision("c"), decision("d", attributes={"channel": 7})],
    )
    said = check(tmp_path, path)
    assert said.exit_code == 0
    lines = said.stdout.splitlines()
    first = f"{path}:1: attribute channel is text that is not listed: counted as __other__"
    assert f"{first}; did you mean chat?" in lines
    assert (
        f"{path}:2: auto_serve although judge_score is below threshold: counted as it is" in lines
    )
    assert (
        f"{path}:3: attribute channel is a whole number that is not listed: counted as __other__"
        in lines
    )
    assert f"{path}: attribute channel: 1 __missing__, 2 __other__, 1 listed" in lines
    near = f"{path}: field judgeScore: dropped unread, once; did you mean judge_score?"
    assert near in lines
    assert f"{path}: field attributes.region: dropped unread, once" in lines
    assert f"{path}: field with names that look like no field: dropped unread, once" in lines
    assert SECRET not in said.output


RELEASE = """[[attribute]]
name = "release"
source = "policy_version"
values = ["stable", "canary"]
aliases = { "p-41" = "stable", "p-42" = "canary" }
"""


def test_versions_are_checked_like_attributes(tmp_path: Path) -> None:
    """A release that nobody listed, and an attribute that says nothing beside its version."""
    own = {"channel": "chat", "language_variety": "formal", "release": SECRET}
    path = write(
        tmp_path,
        decision("a", versions={"policy": "p-41"}),
        decision("b", versions={"policy": "p-43"}),
        decision("c", versions={"policy": "p-42"}, attributes=own),
        decision("d", versions=None),
    )
    said = check(tmp_path, path, text=SETTINGS.replace("[[use_case]]", f"{RELEASE}[[use_case]]"))
    lines = said.stdout.splitlines()
    assert f"{path}: attribute release: 1 __missing__, 1 __other__, 2 listed" in lines
    unlisted = f"{path}:2: attribute release is text that is not listed: counted as __other__"
    assert unlisted in lines
    dropped = f"{path}: field attributes.release: dropped unread, once"
    assert f"{dropped}; the value is taken from versions.policy" in lines
    assert SECRET not in said.output


def test_a_thousand_like_findings_are_a_few_lines(tmp_path: Path) -> None:
    path = write(tmp_path, *(decision(f"d{i}", route="x") for i in range(1_300)))
    bundle = write(tmp_path, decision("a"), [0] * 10_001,
                   [decision(f"e{i}", route="x") for i in range(1_300)],
                   name="bundle.jsonl")  # fmt: skip
    said = check(tmp_path, f"decisions={path}", bundle)
    assert len(said.stdout.splitlines()) < 25
    assert f"{path}: 1,295 more lines: route is not an allowed value" in said.stdout
    assert "1,300 could not be counted" in said.stdout
    assert f"{bundle}:2: the event has more than 10,000 events in one message" in said.stdout
    assert "1,301 could not be counted" in said.stdout
    assert f"{bundle}: 301 more events that could not be read, up to line 3" in said.stdout


def test_a_zipped_file_is_read_too(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "d.jsonl.gz", "wt") as file:
        file.write(json.dumps(decision()))
    assert "1 would be counted" in check(tmp_path, str(tmp_path / "d.jsonl.gz")).stdout


KEYLESS = """
[stream]
clock = "history"
[[attribute]]
name = "channel"
values = ["chat", "email"]
[[use_case]]
name = "routing"
owner = "x"
group_bys = [{ attributes = ["channel"] }]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "first"
"""
LEDGER = """
[mapping.decisions]
constants = { evidence_passed = "true", audit_p = "1", label_requested = "true" }
fields = { decision_id = "/loan", decided_at = "/at", route = "/ok", "attributes.channel" = "/by" }
values = { "route=1" = "auto_serve", "route=0" = "human_review", "route=yes" = "auto_serve" }
"""
PLAIN = decision("a", attributes={"channel": "chat"})
FIELD_CASES: list[tuple[str, bytes, int, str]] = [
    ("", json.dumps(PLAIN).encode()[:-1] + b', "latency_ms": NaN}', 1, "latency_ms: dropped"),
    ("", json.dumps(PLAIN | {"judge_score": 1.0000000000000002}).encode(), 1, "1 listed"),
    ("", json.dumps(PLAIN | {"audit_p": 1.0000000000000002}).encode(), 1, "1 listed"),
    ("", json.dumps(PLAIN | {"versions": {"judge": "a-3@2024"}}).encode(), 1, "1 listed"),
    ("", b"\xef\xbb\xbf" + json.dumps(PLAIN).encode(), 1, "1 listed"),
    (LEDGER, b'{"loan": 0, "at": "2026-06-01T10:05:00Z", "ok": 0, "by": "chat"}', 1, "1 listed"),
    (LEDGER, b'{"loan": 1, "at": "2026-06-01 10:05:00", "ok": "yes"}', 0, "; set time_zone, or"),
    (LEDGER + 'time_zone = "UTC"', b'{"loan": 1, "at": "2026-06-01", "ok": "yes"}', 1, "missing"),
    (LEDGER, b'[\n{"loan": 1, "at": 1780308300000.0,\n"ok": true}\n]', 0, "route is of the wrong"),
    (LEDGER, b"loan,at,ok,by\n7,2026-06-01 10:05:00+00,1,email\n", 1, "1 listed"),
    (LEDGER, b"loan,at,ok,by\n7,2026-06-01 10:05:00+00,1\n", 0, "nor a row of CSV with a cell"),
]
"""Settings, what a log holds, how many decisions count, and words of the answer."""


@pytest.mark.parametrize(("mapping", "log", "counted", "words"), FIELD_CASES)
def test_logs_of_the_field_are_read_without_a_key(
    mapping: str, log: bytes, counted: int, words: str, tmp_path: Path
) -> None:
    (tmp_path / "log").write_bytes(log)
    said = check(tmp_path, f"decisions={tmp_path}/log", text=KEYLESS + mapping)
    assert said.exit_code == 1 - counted
    assert f"1 decisions in {log.count(b'loan,at') + 1:,} lines; {counted} would" in said.output
    assert words in said.output


def test_every_field_and_every_reason_has_words() -> None:
    fields = {f.name for event in (Decision, Label) for f in msgspec.structs.fields(event)}
    assert set(EXPECTED) == fields
    assert set(REASONS) == set(ALL_REASONS)


@pytest.mark.parametrize(
    ("word", "near"),
    [("Chat", "chat"), ("chta", "chat"), ("New york ", "New York"), ("fax", None), ("", None)],
)
def test_the_nearest_listed_value(word: str, near: str | None) -> None:
    assert nearest(word, ("chat", "New York")) == near
