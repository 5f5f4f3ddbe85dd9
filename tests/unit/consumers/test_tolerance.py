"""Events as careless writers make them: only a field that is read can lose one."""

from __future__ import annotations

import json
from typing import Any

import lesson
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.codec import DecisionCodec, DecodedDecisions, LabelCodec
from consumers.coder import Coder
from consumers.dead_letters import DeadLetterBuffer, IdHasher
from consumers.tolerance import decode_tolerantly, repaired
from monitor.core.counts.coding import Attribute, Coding, CodingHistory
from monitor.records import RecordBatch, Shard

HASHER = IdHasher.with_key(b"0123456789abcdef")
CODING = Coding((Attribute("channel", ("chat", "email")),), (0.0, 0.5), (0.05, 1.0))
DECISION = lesson.decision("d-1", lesson.START, 0.9, attributes={"channel": "chat"}, audit_p=0.05)
LABEL = lesson.label("d-1", lesson.START, True)
CARELESS = [
    b"NaN", b"-Infinity", b"Infinity", b"nan", b"-inf", b"1e999", b"9" * 400, b'"\\ud83d"',
    b'"\\udc00 x"', b'"\xff"', b'"\xed\xa0\xbd"', b'"a\tb"', b'"\\x41"', b"[NaN, [Infinity]]",
    b'{"a": 1, "a": NaN, "\\ud83d": "\\ud83d"}', b'"\\ud83d\\ude00 NaN"',
]  # fmt: skip
"""What JSON writers of Python, Ruby, Perl, C, JavaScript, Java and others put out as values."""


def with_pair(event: dict[str, Any], name: bytes, value: bytes) -> bytes:
    """Return the event's JSON with one more pair, or the value of a pair it has replaced."""
    pairs = {json.dumps(key).encode(): json.dumps(event[key]).encode() for key in event}
    pairs[name] = value
    return b"{" + b", ".join(key + b": " + pairs[key] for key in pairs) + b"}"


def read(*values: bytes) -> tuple[DecodedDecisions, list[tuple[str, str]]]:
    """Return what the codec reads from messages with decisions, and its refusals."""
    batch = RecordBatch(Shard("d", 0), range(len(values)), values, [-1] * len(values))
    letters = DeadLetterBuffer(batch, HASHER)
    coder = Coder(CodingHistory.always(CODING), 64)
    decoded = DecisionCodec(coder, CODING).read(batch, letters)
    return decoded, [(letter.reason, letter.field) for letter in letters.found]


@pytest.mark.parametrize("value", CARELESS)
@pytest.mark.parametrize("name", [b'"latency_ms"', b'"\\ud83d"', b'"\xff"'])
def test_a_field_that_is_not_read_loses_no_event(name: bytes, value: bytes) -> None:
    careless = with_pair(DECISION, name, value)
    array = b"[" + careless + b"," + json.dumps(DECISION).encode() + b"]"
    decoded, refused = read(careless, json.dumps(DECISION).encode(), b"\xef\xbb\xbf" + array)
    assert (decoded.texts, refused) == (["d-1"] * 4, [])
    assert decoded.unknown.total() == 2


@pytest.mark.parametrize("value", CARELESS)
def test_a_nested_field_that_is_not_read_loses_no_event(value: bytes) -> None:
    for part, name in (("attributes", b"debug"), ("versions", b"build"), ("attributes", b"\xff")):
        nested = json.dumps(DECISION.get(part) or {}).encode()
        comma = b", " if nested != b"{}" else b""
        nested = nested[:-1] + comma + b'"' + name + b'": ' + value + b"}"
        decoded, refused = read(with_pair(DECISION, json.dumps(part).encode(), nested))
        assert (decoded.texts, refused) == (["d-1"], []), (part, name)
        assert decoded.unknown.total() == 1


@pytest.mark.parametrize("value", CARELESS[:12])
@pytest.mark.parametrize(
    "field", ["judge_score", "threshold", "audit_p", "route", "evidence_passed", "attributes"]
)
def test_in_a_field_that_is_read_the_refusal_names_it(field: str, value: bytes) -> None:
    decoded, [(reason, named)] = read(with_pair(DECISION, json.dumps(field).encode(), value))
    assert (len(decoded.ts), named) == (0, field)
    assert reason in ("wrong_type", "invalid_value")


@pytest.mark.parametrize("value", [b"NaN", b'"\\ud83d"', b'"\xff"'])
def test_a_declared_attribute_is_named_as_attributes(value: bytes) -> None:
    _, refused = read(with_pair(DECISION, b'"attributes"', b'{"channel": ' + value + b"}"))
    assert refused == [("wrong_type", "attributes")]


@pytest.mark.parametrize("value", [b"NaN", b'"\\ud83d', b"[NaN", b'{"a": "x', b"{NaN: 1}"])
def test_what_is_no_event_at_all_stays_a_dead_letter(value: bytes) -> None:
    decoded, refused = read(value)
    assert (len(decoded.ts), len(refused)) == (0, 1)


def test_a_label_loses_nothing_either() -> None:
    value = with_pair(LABEL, b'"note"', b'"\\ud83d"')
    batch = RecordBatch(Shard("l", 0), [0], [value], [-1])
    letters = DeadLetterBuffer(batch, HASHER)
    assert len(LabelCodec(HASHER).read(batch, letters).ts) == 1
    assert letters.found == []


@pytest.mark.parametrize(
    ("field", "low", "high"),
    [("judge_score", 0.0, 1.0), ("threshold", 0.0, 1.0), ("audit_p", None, 1.0)],
)
def test_rounding_noise_is_clamped_and_more_is_refused(
    field: str, low: float | None, high: float
) -> None:
    def counted(number: float) -> tuple[list[int], list[float], list[int]] | None:
        decoded, refused = read(json.dumps(DECISION | {field: number}).encode())
        assert refused in ([], [("invalid_value", field)])
        if refused:
            return None
        return decoded.codes.tolist(), decoded.scores.tolist(), decoded.bands.tolist()

    for noise in (2e-16, 1e-9, 1e-6):
        assert counted(high + noise) == counted(high)
        assert counted(0.0 - noise) == (None if low is None else counted(low))
    assert counted(high + 1.1e-6) is counted(-1.1e-6) is None


def test_noise_around_a_threshold_makes_no_second_version() -> None:
    coder = Coder(CodingHistory.always(CODING), 64)
    codec = DecisionCodec(coder, CODING)
    values = [
        json.dumps(DECISION | {"threshold": number, "audit_p": p}).encode()
        for number in (1, 1.0000000000000002, 1 + 1e-7)
        for p in (1, 1.0000000000000002)
    ]
    batch = RecordBatch(Shard("d", 0), range(6), values, [-1] * 6)
    assert len(set(codec.read(batch, DeadLetterBuffer(batch, HASHER)).codes.tolist())) == 1


VENDORS = [
    "claude-3-5-sonnet@20240620", "arn:aws:bedrock:us-east-1::foundation-model/a.b-v1:0",
    "sha256:" + "a" * 64, "GPT-4o (2024-08-06, preview)", "a=b,c\\d", "\u6a21\u578b 1", "x" * 128,
]  # fmt: skip


@pytest.mark.parametrize("name", VENDORS)
def test_versions_are_named_as_vendors_name_them(name: str) -> None:
    event = DECISION | {"versions": {"judge": name, "policy": "p1"}}
    decoded, refused = read(json.dumps(event).encode())
    assert (len(decoded.ts), refused) == (1, [])


@pytest.mark.parametrize(
    "name", ["", "x" * 129, " a", "a ", "a\nb", "a\n", "\u202ea", "_a", "\x7f"]
)
def test_other_names_of_versions_are_refused(name: str) -> None:
    _, refused = read(json.dumps(DECISION | {"versions": {"judge": name}}).encode())
    assert [field for _, field in refused] == ["versions"]


def _escaped(text: str) -> bytes:
    return b'"' + b"".join(b"\\u%04X" % ord(character) for character in text) + b'"'


TEXTS = st.sampled_from(
    [
        lambda text: json.dumps(text).encode(),  # Python, PHP: ASCII alone
        lambda text: json.dumps(text, ensure_ascii=False).encode(),  # Go, Rust, JavaScript
        lambda text: json.dumps(text).replace("/", "\\/").encode(),  # PHP
        _escaped,  # .NET and Java may escape whatever they like
    ]
)
NUMBERS = {
    0.9: [b"0.9", b"9e-1", b"0.90", b"90E-2", b"0.9000000000000000222"],
    1.0: [b"1", b"1.0", b"1E+0", b"10e-1"],
}
MOMENTS = [
    b'"2026-06-01T10:05:00Z"', b'"2026-06-01T10:05:00.000Z"', b'"2026-06-01T10:05:00+00:00"',
    b'"2026-06-01T12:05:00.000000000+02:00"', b'"2026-06-01t10:05:00z"', b"1780308300000",
    b'"2026-06-01 10:05:00+0000"', b'"2026-06-01T10:05:00.0000001Z"',
]  # fmt: skip


@given(st.data())
def test_an_event_means_the_same_whoever_wrote_it(data: st.DataObject) -> None:
    draw, style = data.draw, data.draw(TEXTS)
    space = draw(st.sampled_from([b"", b" ", b"\n  ", b"\t", b"\r\n"]))

    def value_of(value: object) -> bytes:
        if isinstance(value, dict):
            return object_of([(style(name), value_of(part)) for name, part in value.items()])
        if isinstance(value, str):
            return bytes(style(value))
        if isinstance(value, float):
            return draw(st.sampled_from(NUMBERS[value]))
        return json.dumps(value).encode()

    def object_of(pairs: list[tuple[bytes, bytes]]) -> bytes:
        ordered = draw(st.permutations(pairs))
        inside = (b"," + space).join(name + space + b":" + space + value for name, value in ordered)
        return b"{" + space + inside + space + b"}"

    event = DECISION | {"audit_p": 1.0, "threshold": 1.0, "attributes": {"channel": "S\u00e3o/P"}}
    pairs = [(style(name), value_of(event[name])) for name in event if name != "decided_at"]
    pairs.append((style("decided_at"), draw(st.sampled_from(MOMENTS))))
    pairs += [(style(f"extra {i}"), draw(st.sampled_from(CARELESS))) for i in range(2)]
    written, refused = read(object_of(pairs))
    plain, _ = read(json.dumps(event).encode())
    assert refused == []
    assert written.texts == plain.texts
    for column in ("ts", "codes", "scores", "bands", "requested", "below"):
        assert getattr(written, column).tolist() == getattr(plain, column).tolist(), column


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JSON)
def test_what_is_json_is_not_touched_and_what_python_writes_is_read(content: Any) -> None:
    text = json.dumps(content).encode()
    try:
        json_value = msgspec.json.decode(text)
    except ValueError:
        decode_tolerantly(msgspec.json.Decoder(msgspec.Raw).decode, text)
    else:
        assert repaired(text) == text
        assert json.dumps(json_value) is not None


@given(st.binary(max_size=60))
def test_no_bytes_make_the_repair_fail(message: bytes) -> None:
    once = repaired(message)
    assert len(once) <= len(message) + message.count(b":") * 3 + 1  # an open quote is one byte
    assert isinstance(once, bytes)
