"""An existing log as events: what is mapped, what stays as it is, and settings that cannot be."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hostile_events import messages
from hypothesis import given
from hypothesis import strategies as st

from consumers.dead_letters import DeadLetterBuffer
from consumers.events import Decision, Label
from consumers.mapping import EventMapping, mapping_of
from monitor.cli import cli
from monitor.composition.ingest import checking_codecs
from monitor.errors import SettingsError
from monitor.records import RecordBatch, Shard
from monitor.settings import load
from monitor.settings.sections import DecisionMappingSettings, EventMappingSettings, MappingSettings

FIELDS = {
    "decision_id": "/request/id",
    "decided_at": "/at",
    "route": "/outcome",
    "judge_score": "/scores/0/value",
    "audit_p": "/audit~1p",
    "label_requested": "/audited",
    "attributes.channel": "/meta/channel",
    "versions.judge": "/model",
}
VALUES = {
    "route=served": "auto_serve",
    "route=queued": "human_review",
    "label_requested=yes": "true",
}
CONSTANTS = {"evidence_passed": "true", "audit_p": "0.05", "label_requested": "false"}
LOGGED: dict[str, Any] = {
    "request": {"id": 4711, "text": "SENTINEL-7f3a"},
    "at": 1_780_308_300.25,
    "outcome": "served",
    "scores": [{"value": 0.92}, {"value": 0.1}],
    "audit/p": 0.2,
    "audited": "yes",
    "meta": {"channel": "chat", "customer": "SENTINEL-7f3a"},
    "model": "j1",
}
EVENT = {
    "attributes": {"channel": "chat"},
    "audit_p": 0.2,
    "decided_at": 1_780_308_300_250,
    "decision_id": 4711,
    "evidence_passed": True,
    "judge_score": 0.92,
    "label_requested": True,
    "route": "auto_serve",
    "versions": {"judge": "j1"},
}


def decisions(**other: Any) -> EventMapping:
    parts = {"fields": FIELDS, "values": VALUES, "constants": CONSTANTS, "times": "seconds"}
    labelled = other.pop("labelled", None)
    made = mapping_of(
        "decisions", msgspec.convert(parts | other, DecisionMappingSettings), labelled
    )
    assert made is not None
    return made


def mapped(content: Any, **other: Any) -> Any:
    return json.loads(decisions(**other)(json.dumps(content).encode()))


def test_an_event_is_made_of_what_is_named_and_of_nothing_else() -> None:
    assert mapped(LOGGED) == EVENT
    msgspec.json.decode(json.dumps(EVENT), type=Decision)
    assert "SENTINEL" not in json.dumps(mapped(LOGGED))


def test_an_array_becomes_an_array() -> None:
    assert mapped([LOGGED, 7, LOGGED]) == [EVENT, 7, EVENT]


def test_what_the_log_does_not_say_is_the_constant_or_absent() -> None:
    less = {k: v for k, v in LOGGED.items() if k not in ("audit/p", "audited", "scores", "meta")}
    found = mapped(less)
    assert (found["audit_p"], found["label_requested"], found["evidence_passed"]) == (
        0.05,
        False,
        True,
    )
    assert "judge_score" not in found
    assert found["attributes"] == {}
    assert mapped(LOGGED | {"outcome": None}).keys() == EVENT.keys() - {"route"}


def test_a_constant_is_not_shared_between_events() -> None:
    first, second = mapped([LOGGED, LOGGED | {"meta": {}}])
    assert (first["attributes"], second["attributes"]) == ({"channel": "chat"}, {})


def test_whole_attributes_are_completed_by_their_parts() -> None:
    fields = FIELDS | {"attributes": "/meta", "attributes.model": "/model"}
    found = mapped(LOGGED, fields=fields)["attributes"]
    assert found == {"channel": "chat", "customer": "SENTINEL-7f3a", "model": "j1"}


@pytest.mark.parametrize(
    ("unit", "sent", "millis"),
    [
        ("seconds", 1_780_308_300, 1_780_308_300_000),
        ("seconds", 1_780_308_300.25, 1_780_308_300_250),
        ("milliseconds", 1_780_308_300_250, 1_780_308_300_250),
        ("microseconds", 1_780_308_300_250_000, 1_780_308_300_250),
        ("nanoseconds", 1_780_308_300_250_000_000, 1_780_308_300_250),
        ("milliseconds", 1_780_308_300_000.0, 1_780_308_300_000),
        ("milliseconds", "1780308300000.0", 1_780_308_300_000),
        ("seconds", " 1780308300 ", 1_780_308_300_000),
        ("seconds", "2026-06-01T10:05:00Z", "2026-06-01T10:05:00Z"),
        ("seconds", "2026-06-01 10:05:00.25+00", "2026-06-01T10:05:00.250000+00:00"),
        ("seconds", "20260601T100500Z", "2026-06-01T10:05:00+00:00"),
        ("seconds", "2026-06-01 10:05:00", "2026-06-01 10:05:00"),
        ("milliseconds", "20260601100500", "20260601100500"),
        ("seconds", "yesterday", "yesterday"),
        ("seconds", 1e306, 1e306),
        ("seconds", 10**400, 10**400),
        ("seconds", True, True),
    ],
)
def test_times_that_are_numbers_have_a_unit(unit: str, sent: Any, millis: Any) -> None:
    assert mapped(LOGGED | {"at": sent}, times=unit)["decided_at"] == millis


@pytest.mark.parametrize(
    ("form", "zone", "sent", "utc"),
    [
        (None, "Europe/Berlin", "2026-06-01 10:05:00", "2026-06-01T08:05:00"),
        (None, "Europe/Berlin", "2026-01-01 10:05:00", "2026-01-01T09:05:00"),
        (None, "Europe/Berlin", "2026-06-01", "2026-05-31T22:00:00"),
        (None, "Europe/Berlin", "2026-06-01 10:05:00+00", "2026-06-01T10:05:00"),
        ("%d.%m.%Y %H:%M", "UTC", "01.06.2026 10:05", "2026-06-01T10:05:00"),
        ("%Y%m%d%H%M%S", "UTC", "20260601100500", "2026-06-01T10:05:00"),
        ("%m/%d/%Y %I:%M %p %z", None, "06/01/2026 10:05 AM +0200", "2026-06-01T08:05:00"),
    ],
)
def test_times_in_text_have_a_format_and_a_zone(
    form: str | None, zone: str | None, sent: str, utc: str
) -> None:
    found = mapped(LOGGED | {"at": sent}, times=form or "seconds", time_zone=zone)["decided_at"]
    assert datetime.fromisoformat(found) == datetime.fromisoformat(utc + "+00:00")


@pytest.mark.parametrize(
    ("sent", "field", "expected"),
    [
        ({"audited": 1}, "label_requested", True),
        ({"audited": 0.0}, "label_requested", False),
        ({"audited": "FALSE"}, "label_requested", False),
        ({"audited": "perhaps"}, "label_requested", "perhaps"),
        ({"scores": [{"value": "92"}]}, "judge_score", 0.92),
        ({"scores": [{"value": 92}]}, "judge_score", 0.92),
        ({"scores": [{"value": "nan"}]}, "judge_score", "nan"),
        ({"scores": [{"value": True}]}, "judge_score", True),
        ({"audit/p": "0.05"}, "audit_p", 0.05),
        ({"request": {"id": 4711.0}}, "decision_id", 4711),
        ({"request": {"id": "007"}}, "decision_id", "007"),
        ({"model": 3}, "versions", {"judge": "3"}),
        ({"outcome": 1}, "route", "auto_serve"),
        ({"outcome": 0.0}, "route", "human_review"),
        ({"outcome": False}, "route", "blocked_by_evidence"),
    ],
)
def test_codes_and_numbers_in_text_become_what_the_field_holds(
    sent: dict[str, Any], field: str, expected: Any
) -> None:
    codes = {
        "route=1": "auto_serve",
        "route=0": "human_review",
        "route=false": "blocked_by_evidence",
    }
    found = mapped(LOGGED | sent, values=VALUES | codes, divide={"judge_score": 100})[field]
    assert (type(found), found) == (type(expected), expected)


def test_a_probability_by_route_fills_what_the_log_lacks() -> None:
    constants = {"evidence_passed": "true", "label_requested": "false"}
    by_route = {"auto_serve": 0.05, "human_review": 1.0}
    less = {name: value for name, value in LOGGED.items() if name != "audit/p"}
    for outcome, audit_p in (("served", 0.05), ("queued", 1.0), ("lost", None)):
        found = mapped(less | {"outcome": outcome}, constants=constants, audit_p=by_route)
        assert found.get("audit_p") == audit_p
    assert mapped(LOGGED, constants=constants, audit_p=by_route)["audit_p"] == 0.2


def test_a_label_that_exists_says_that_it_was_requested() -> None:
    constants = CONSTANTS | {"label_requested": "if_labelled"}
    made = {"constants": constants, "labelled": frozenset({"4711"})}
    assert mapped(LOGGED | {"audited": "no"}, **made)["label_requested"] is True
    assert mapped(LOGGED | {"request": {"id": 1}}, **made)["label_requested"] is False
    with pytest.raises(SettingsError, match=r"constants.label_requested: .* is for files"):
        decisions(constants=constants)


@pytest.mark.parametrize("junk", ["NaN", "-Infinity", '"\\ud83d"', "1e999", "9" * 5000])
def test_content_that_is_not_named_loses_no_event(junk: str) -> None:
    text = json.dumps(LOGGED)[:-1] + f', "latency": {junk}, "rest": [{{"a": {junk}}}]}}'
    assert json.loads(decisions()(text.encode())) == EVENT
    named = text.replace('"value": 0.92', f'"value": {junk}')
    assert json.loads(decisions()(named.encode())) == EVENT | {"judge_score": []}
    assert decisions()(junk.encode()) in (b"null", junk.encode(), b"")


def read(value: bytes | None, *, unmapped: bool) -> tuple[int, list[tuple[str, str]]]:
    """Decisions that a message has, and what is wrong with the others."""
    settings = (
        msgspec.structs.replace(SETTINGS, mapping=MappingSettings()) if unmapped else SETTINGS
    )
    codecs = checking_codecs(settings)
    batch = RecordBatch(Shard("d", 0), [0], [value], [-1])
    letters = DeadLetterBuffer(batch, codecs.hasher)
    decoded = codecs.decisions.read(batch, letters)
    return len(decoded.ts), [(one.reason, one.field) for one in letters.found]


@given(messages("decisions"))
def test_whatever_a_message_is_it_is_read_as_what_it_is_mapped_to(message: bytes | None) -> None:
    event = None if message is None else decisions()(message)
    assert read(message, unmapped=False) == read(event, unmapped=True)


def test_a_log_with_names_like_ours_is_not_read_past_its_mapping() -> None:
    ours = json.dumps(EVENT).encode()
    for spoiled in (ours[:-1], ours[:-1] + b', "note": }'):
        assert read(spoiled, unmapped=False) == (0, [("malformed_json", "")])


NAMES = st.sampled_from(["request", "id", "0", "meta", "scores", "value"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.text(max_size=3) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner),
)


@given(ANYTHING)
def test_a_pointer_into_anything_finds_something_or_nothing(content: Any) -> None:
    found = json.loads(decisions()(msgspec.json.encode(content)))
    if isinstance(content, dict):
        assert {"attributes", "evidence_passed", "audit_p"} <= found.keys()
        request = content.get("request")
        there = request.get("id") if isinstance(request, dict) else None
        assert found.get("decision_id") == there
    elif not isinstance(content, list):
        assert found == content


LABELS = {
    "label_id": "/id", "decision_id": "/of", "decided_at": "/of_at", "ready": "/verdict",
    "reviewer": "/who", "labelled_at": "/at",
}  # fmt: skip


def test_labels_are_mapped_alike() -> None:
    section = EventMappingSettings(
        fields=LABELS,
        values={"ready=good": "true", "ready=bad": "false"},
        constants={"kind": "initial", "reason": "review", "version": "1"},
    )
    made = mapping_of("labels", section)
    assert made is not None
    logged = {"id": 1, "of": 2, "of_at": "2026-06-01T10:05:00Z", "verdict": "bad", "who": "h"}
    logged["at"] = "2026-06-01T12:05:00Z"
    label = msgspec.json.decode(made(json.dumps(logged).encode()), type=Label)
    assert (label.ready, label.kind, label.version, label.decision_id) == (False, "initial", 1, 2)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"fields": FIELDS | {"rout": "/x"}}, "mapping.decisions: rout is no field of an event"),
        ({"fields": FIELDS | {"route.x": "/x"}}, "mapping.decisions: route.x is no field"),
        ({"fields": FIELDS | {"attributes.": "/x"}}, "mapping.decisions: attributes. is no field"),
        ({"fields": FIELDS | {"versions.x": "/x"}}, "versions.x is no version; use one of judge"),
        ({"fields": FIELDS | {"route": "outcome"}}, "mapping.decisions.fields.route: is no JSON"),
        ({"constants": {}}, "mapping.decisions.fields: evidence_passed is missing; say where"),
        ({"constants": {}}, 'label_requested = "/audited", "attributes.channel" = "/meta/channel"'),
        ({"time_zone": "Mars/Base"}, "mapping.decisions.time_zone: is no known time zone"),
        ({"times": "%Q"}, "mapping.decisions.times: use milliseconds, seconds"),
        ({"divide": {"route": 2}}, "mapping.decisions.divide: route is no number to divide"),
        ({"audit_p": {"served": 0.1}}, "mapping.decisions.audit_p: served is no route; use"),
        ({"values": {"route": "x"}}, 'mapping.decisions.values: route is not "FIELD=TEXT"'),
        ({"values": {"unit=x": "y"}}, 'mapping.decisions.values: unit=x is not "FIELD=TEXT"'),
    ],
)
def test_a_mapping_that_cannot_be_is_refused_with_the_fix(other: Any, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        decisions(**other)
    assert text in str(caught.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        decisions(fields={"rout": "/x", "decision_id": "id"}, values={"x": "y"}, constants={})
    assert len(caught.value.problems) == 4
    assert 'to copy, with the places of your log: fields = { rout = "/x"' in str(caught.value)


def test_without_a_mapping_messages_are_events() -> None:
    assert mapping_of("decisions", DecisionMappingSettings()) is None


EXAMPLE = Path(__file__).parents[3] / "deploy" / "examples" / "judge_router" / "slicewatch.toml"


def _toml(table: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in table.items()) + " }"


MAPPED = f"""
[mapping.decisions]
fields = {_toml(FIELDS)}
values = {_toml(VALUES)}
constants = {_toml(CONSTANTS)}
times = "seconds"
"""


def _settings(folder: Path, more: str = MAPPED) -> Path:
    path = folder / "slicewatch.toml"
    path.write_text(EXAMPLE.read_text() + more)
    return path


@pytest.fixture(scope="module", autouse=True)
def _loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    global SETTINGS  # noqa: PLW0603 - for the examples of hypothesis
    SETTINGS = load(_settings(tmp_path_factory.mktemp("mapped")), {})


SETTINGS: Any = None


def test_a_log_is_checked_and_replayed(tmp_path: Path) -> None:
    settings, log = _settings(tmp_path), tmp_path / "log.jsonl"
    lines = [LOGGED | {"request": {"id": i}, "at": 1_780_308_300 + i} for i in range(40)]
    lines.append(LOGGED | {"outcome": "SENTINEL-7f3a"})
    log.write_text("".join(json.dumps(one) + "\n" for one in lines))
    environment = {"SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/store.db"}
    arguments = ["--settings", str(settings)]

    checked = CliRunner(env=environment).invoke(cli, ["check", *arguments, "--events", str(log)])
    assert f"{log}:41: route is not an allowed value; expected one of auto_serve" in checked.output
    assert f"{log}: 41 decisions in 41 lines; 40 would be counted" in checked.output
    assert f"{log}: attribute channel: 40 listed" in checked.output
    assert "SENTINEL" not in checked.output

    replayed = CliRunner(env=environment).invoke(
        cli, ["replay", *arguments, str(log), "--summary", "--json"]
    )
    assert replayed.exit_code == 1, replayed.output  # for the one that is no decision
    assert "41 events read" in replayed.output
    assert "SENTINEL" not in replayed.output


def test_with_mapped_labels_a_file_says_what_it_is(tmp_path: Path) -> None:
    constants = _toml({"kind": "initial", "reason": "review", "version": "1"})
    more = f"\n[mapping.labels]\nfields = {_toml(LABELS)}\nconstants = {constants}\n"
    settings, log = _settings(tmp_path, MAPPED + more), tmp_path / "log.jsonl"
    log.write_text(json.dumps(LOGGED) + "\n")
    run = CliRunner().invoke(cli, ["check", "--settings", str(settings), "--events", str(log)])
    assert "state what it contains, decisions=" in str(run.exception or run.output)
    named = f"decisions={log}"
    run = CliRunner().invoke(cli, ["check", "--settings", str(settings), "--events", named])
    assert "1 would be counted" in run.output


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ('[server]\nproducers = ["anonymous"]\n', "server.producers: is set beside [mapping]"),
        (
            '[probes]\nkey = "0123456789abcdef"\n[[probes.sets]]\nname = "p"\npairs = 1\n'
            f'digest = "{"0" * 64}"\nvariants = ["a", "b"]\n',
            "probes.sets: are set beside [mapping.decisions]",
        ),
    ],
)
def test_what_writes_events_itself_is_not_mapped(more: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(_settings(tmp_path, MAPPED + more), {})
    assert text in str(caught.value)


def test_check_says_what_is_wrong_with_a_mapping(tmp_path: Path) -> None:
    wrong = '[mapping.decisions]\nfields = { route = "/outcome" }\n'
    path = str(_settings(tmp_path, wrong))
    run = CliRunner().invoke(cli, ["check", "--settings", path], standalone_mode=False)
    assert "mapping.decisions.fields: decision_id, decided_at, evidence_passed, audit_p" in str(
        run.exception
    )
