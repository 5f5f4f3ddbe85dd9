"""Messages as a broken or hostile producer sends them, as hypothesis strategies.

An event is a list of (key, value) pairs of raw JSON, so that a change can make what no JSON
library writes: keys twice, NaN, half a surrogate pair, bytes that are no UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import lesson
import signed_probes
from hypothesis import strategies as st

Pairs = list[tuple[bytes, bytes]]
Message = bytes | None

CHANNELS = ("chat", "email")
NAME = "channel"
SECRET = "SENTINEL-7f3a"  # put into payloads: it may be found nowhere else
T0 = lesson.START


def raw(value: object) -> bytes:
    return json.dumps(value).encode()


MOMENTS = st.sampled_from(
    [
        "2026-06-01T10:06:00Z",
        "2026-06-01T10:06:00.999999999Z",
        "2026-06-01T12:06:00+02:00",
        "2026-06-01T09:06:00.5-01:00",
        "2016-12-31T23:59:60Z",
        "2026-06-30T23:59:60Z",
        "2026-06-01T24:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-06-01T10:06:00",
        "2026-06-01",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "1969-12-31T23:59:59.999999Z",
        "2262-04-11T23:47:17Z",
        "9999-12-31T23:59:59.999999Z",
        "9999-12-31T23:59:59.9999999Z",
        "9999-12-31T23:59:59-23:59",
        "2026-06-01T10:06:00+24:00",
    ]
).map(raw)

NUMBERS = st.sampled_from(
    [b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400", b"1e-400", b"5e-324", b"-0", b"-0.0",
     b"0", b"1", b"1.0", b"1.0000000000000002", b"01", b"1.", b".5", b"+1", b"0x1", b"1_0",
     b"9223372036854775808", b"18446744073709551616", b"9" * 400, b"9" * 5000, b"0." + b"1" * 5000,
     b"1e999999999999"]
)  # fmt: skip

TEXTS = st.one_of(
    st.sampled_from(
        [b'""', b'"\\ud800"', b'"\\udc00"', b'"\\ud800\\ud800"', b'"\\ud83d\\ude00"', b'"\\u0000"',
         b'"\n"', b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\x80"', b'"chat\\n"', b'"j1\\n"',
         raw("x" * 200), raw("x" * 201), raw("x" * 100_000), raw("\U0001f600" * 200),
         raw(SECRET), raw(f"{SECRET}' - at `$.{SECRET.lower()}`"), raw(" - at `$.decision_id`"),
         b'"' + SECRET.encode()]
    ),
    st.text(max_size=12).map(raw),
)  # fmt: skip

NESTED = st.one_of(
    st.sampled_from(
        [b"[]", b"{}", b"[[]]", b"[{}]", b"[" * 300 + b"]" * 300, b"[" * 5000 + b"]" * 5000,
         b'{"a":' * 400 + b"1" + b"}" * 400, b"[" * 100_000,
         b'{"channel":"chat","channel":"email"}',
         b'{"channel":"fax"}', b'{"channel":null}', b'{"channel":1}', b'{"channel":["chat"]}',
         b'{"channel\\n":"chat"}', b'{"Channel":"chat"}', b'{"channel":"__other__"}',
         b'{"channel":"chat=email,b"}', b'{"channel":"\xff"}', b'{"\xff":"chat"}',
         raw({NAME: SECRET}), raw({SECRET: "chat"}), raw({SECRET.lower().replace("-", "_"): "x"}),
         raw({"channel": "x" * 200}), raw({"channel": "x" * 201}),
         b'{"channel":' + b" " * 5000 + b'"chat"}', raw(lesson.VERSIONS | {"judge": "j1\n"}),
         raw(lesson.VERSIONS | {"judge": SECRET}), raw(lesson.VERSIONS | {"judge": ""}),
         raw(lesson.VERSIONS | {"more": SECRET}), raw({"judge": "j1"})]
    ),
    st.dictionaries(st.sampled_from([NAME, "x", "judge"]), st.text(max_size=8)).map(raw),
)  # fmt: skip

JUNK = st.one_of(
    st.sampled_from([b"null", b"true", b"false", b"", b" ", b"nul", b"True", b"'x'", b"\x00"]),
    MOMENTS,
    NUMBERS,
    TEXTS,
    NESTED,
    st.integers().map(raw),
    st.floats().map(raw),  # NaN and Infinity, too
    st.binary(max_size=8),
)  # fmt: skip
"""What may stand where a value is due."""


def _pairs(event: dict[str, object]) -> Pairs:
    return [(raw(key), raw(value)) for key, value in event.items()]


@st.composite
def _valid_decision(draw: st.DrawFn) -> Pairs:
    attributes: dict[str, str] = draw(
        st.sampled_from([{}, {NAME: "chat"}, {NAME: "email"}, {NAME: "fax"}])
    )
    event = lesson.decision(
        draw(st.sampled_from(["a", "b", "c", "\u00e9", "x" * 200])),
        T0,
        draw(st.sampled_from([0.0, 0.65, 0.7, 0.95, 1.0])),
        attributes=attributes,
        audit_p=draw(st.sampled_from([1, 1.0, 0.6, 0.05, 5e-324])),
        threshold=draw(st.sampled_from([0, 0.7, 1])),
        label_requested=draw(st.booleans()),
    )
    if draw(st.booleans()):
        event |= {"traffic": "probe", "unit": "u", "expected_ready": True, "judge_score": None}
        event |= {"pair_id": "p", "variant": "formal", "probe_set": signed_probes.DIGEST}
        event |= {"signature": draw(st.sampled_from(["x", "0" * 64, "\u00e9" * 64]))}
        event = draw(st.sampled_from([event, signed_probes.signed(event)]))
    return _pairs(event)


@st.composite
def _valid_label(draw: st.DrawFn) -> Pairs:
    return _pairs(
        lesson.label(
            draw(st.sampled_from(["a", "b", "c"])),
            T0,
            draw(st.sampled_from([True, False, None])),
            version=draw(st.sampled_from([1, 2, 1_000_000])),
            kind=draw(st.sampled_from(["initial", "correction", "adjudication", "retraction"])),
            reason=draw(st.sampled_from(["audit", "review", "complaint"])),
            blind=draw(st.sampled_from([True, False, None])),
        )
    )


VALID = {"decisions": _valid_decision(), "labels": _valid_label()}


def _replaced(draw: st.DrawFn, pairs: Pairs) -> None:
    at = draw(st.integers(0, len(pairs) - 1))
    pairs[at] = (pairs[at][0], draw(JUNK))


def _dropped(draw: st.DrawFn, pairs: Pairs) -> None:
    del pairs[draw(st.integers(0, len(pairs) - 1))]


def _doubled(draw: st.DrawFn, pairs: Pairs) -> None:
    key, value = pairs[draw(st.integers(0, len(pairs) - 1))]
    pairs.insert(draw(st.integers(0, len(pairs))), (key, draw(JUNK | st.just(value))))


def _added(draw: st.DrawFn, pairs: Pairs) -> None:
    key = draw(TEXTS | st.sampled_from([b'"user_id"', b'"Route"', b"x", b"1", b'"rout\\u0065"']))
    pairs.insert(draw(st.integers(0, len(pairs))), (key, draw(JUNK)))


def _moved(draw: st.DrawFn, pairs: Pairs) -> None:
    key = draw(st.sampled_from([b'"decided_at"', b'"labelled_at"']))
    pairs[:] = [(k, draw(MOMENTS) if k == key else v) for k, v in pairs]


_CHANGES: Sequence[Callable[[st.DrawFn, Pairs], None]] = (
    _replaced, _replaced, _replaced, _moved, _dropped, _doubled, _added,
)  # fmt: skip


@st.composite
def events(draw: st.DrawFn, topic: str) -> bytes:
    """One event: as it should be, or with up to three changes."""
    pairs = list(draw(VALID[topic]))
    for change in draw(st.lists(st.sampled_from(_CHANGES), max_size=3)):
        if pairs:
            change(draw, pairs)
    return b"{" + b",".join(key + b":" + value for key, value in pairs) + b"}"


def _array(parts: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(parts) + b"]"


def _arrays(topic: str) -> st.SearchStrategy[bytes]:
    return st.lists(events(topic) | JUNK, max_size=5).map(_array)


@st.composite
def _spoiled(draw: st.DrawFn, topic: str) -> bytes:
    """A message cut, flipped, wrapped or repeated as a whole."""
    text = bytearray(draw(events(topic) | _arrays(topic)))
    how = draw(st.sampled_from(["cut", "flip", "before", "after", "nest", "twice"]))
    at = draw(st.integers(0, max(len(text) - 1, 0)))
    if how == "cut":
        return bytes(text[:at])
    if how == "flip":
        text[at] ^= 1 << draw(st.integers(0, 7))
        return bytes(text)
    if how == "before":
        return draw(st.sampled_from([b" \n", b"\x0b", b"\xef\xbb\xbf", b"[", b",", b"\x00"])) + text
    if how == "after":
        return bytes(text) + draw(st.sampled_from([b" \n", b"\x00", b"]", b",", b"}", b"{}"]))
    return _array([bytes(text)]) if how == "nest" else bytes(text) * 2


WHOLE: tuple[Message, ...] = (
    None, b"", b" ", b"null", b"0", b"[]", b"[ ]", b"[[]]", b"[null]", b"[,]", b"{}",
    _array([b"{}"] * 10_000), _array([b"{}"] * 10_001), _array([b"0"] * 10_001),
    b"[" * 100_000, b"{" * 1000, b"\xff" * 50, SECRET.encode(), raw(SECRET) * 1000,
)  # fmt: skip


def messages(topic: str) -> st.SearchStrategy[Message]:
    """One message of a topic."""
    bytes_alone = st.binary(max_size=40) | st.sampled_from(WHOLE)
    return st.one_of(events(topic), _arrays(topic), _spoiled(topic), bytes_alone)


def batches(topic: str) -> st.SearchStrategy[list[Message]]:
    """Consecutive messages of one shard."""
    return st.lists(messages(topic), max_size=6)


TIMESTAMPS = st.sampled_from(
    [-1, 0, int(T0.timestamp() * 1000) + 60_000, 2**53, 2**62, 2**63 - 1, -(2**63)]
)
"""The broker's timestamp of a message: a producer may have set it to anything."""
