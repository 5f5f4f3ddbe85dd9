"""An id is hashed with the key of the day that its decision was made on, whatever the batch."""

from __future__ import annotations

from hashlib import blake2b

import lesson
import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from consumers.codec import LabelCodec
from consumers.dead_letters import DeadLetterBuffer, IdHasher
from monitor.core.counts.cells import Int64s
from monitor.core.time import DAY, SECOND, to_micros
from monitor.id_key import BEGINNING, NEAR, IdKey
from monitor.records import RecordBatch, Shard

FIRST, SECOND_KEY, THIRD = (name.encode() * 16 for name in "abc")
D1, D2 = 20_000 * DAY, 20_030 * DAY
KEYS = (IdKey("a", BEGINNING, FIRST), IdKey("b", D1, SECOND_KEY), IdKey("c", D2, THIRD))
HASHER = IdHasher(KEYS)


def plain(text: str, at: int) -> int:
    """The hash of one id, worked out by itself."""
    key = FIRST if at < D1 else SECOND_KEY if at < D2 else THIRD
    return int.from_bytes(blake2b(text.encode(), digest_size=8, key=key).digest(), "big") >> 1


def times(*at: int) -> Int64s:
    return np.array(at, np.int64)


INSTANTS = st.one_of(
    st.integers(D1 - 2 * NEAR, D1 + 2 * NEAR),
    st.integers(D2 - 2 * NEAR, D2 + 2 * NEAR),
    st.integers(0, D2 + DAY),
    st.sampled_from([D1 - 1, D1, D2 - 1, D2]),
)
EVENTS = st.lists(st.tuples(st.text(min_size=1), INSTANTS), max_size=40)


@given(EVENTS)
def test_each_id_has_the_hash_of_its_own_day(events: list[tuple[str, int]]) -> None:
    texts, at = [text for text, _ in events], times(*(at for _, at in events))
    assert HASHER(iter(texts), at).tolist() == [plain(*event) for event in events]


@given(EVENTS)
def test_only_close_to_a_change_of_the_key_there_is_another_hash(
    events: list[tuple[str, int]],
) -> None:
    texts, at = [text for text, _ in events], times(*(at for _, at in events))
    ids = HASHER(texts, at)
    found = HASHER.across(texts, at, ids)
    wanted = {}
    for (text, when), own in zip(events, ids.tolist(), strict=True):
        for day in (D1, D2):
            if day - NEAR <= when < day + NEAR:
                wanted[own, when] = plain(text, day if when < day else day - 1)
    assert found == wanted


def test_one_key_has_no_other_side() -> None:
    only = IdHasher.with_key(FIRST)
    at = times(D1 - 1, D1, -DAY)
    ids = only(["x", "x", "x"], at)
    assert set(ids.tolist()) == {plain("x", 0)}
    assert only.across(["x", "x", "x"], at, ids) == {}


def test_what_lies_before_the_first_key_belongs_to_it() -> None:
    later = IdHasher(KEYS[1:])
    assert later(["x"], times(0)).tolist() == [plain("x", D1)]


def test_all_hashes_of_an_id() -> None:
    assert HASHER.under_all("x") == [plain("x", at) for at in (0, D1, D2)]


def test_a_payload_without_a_time_has_the_hash_of_the_newest_key() -> None:
    assert HASHER.hash_payload(b"x") == IdHasher.with_key(THIRD).hash_payload(b"x")


def test_a_key_is_not_in_its_text() -> None:
    assert "aaaa" not in repr(KEYS[0])


def test_a_label_is_hashed_by_the_day_of_its_decision() -> None:
    noon = to_micros(lesson.START)
    start = noon // DAY * DAY
    hasher = IdHasher([IdKey("a", BEGINNING, FIRST), IdKey("b", start, SECOND_KEY)])
    near = lesson.START.replace(hour=0, minute=0, second=20)
    labels = [lesson.label("x", lesson.START, True), lesson.label("y", near, True)]
    batch = RecordBatch(Shard("labels", 0), [0], [msgspec.json.encode(labels)], [-1])
    read = LabelCodec(hasher).read(batch, DeadLetterBuffer(batch, hasher))
    assert read.labels.ids.tolist() == hasher(["x", "y"], times(noon, noon)).tolist()
    assert read.labels.ts.tolist() == [noon, start + 20 * SECOND]
    ((own, at), other) = read.other_ids.popitem()
    assert [own, other] == hasher(["y", "y"], times(start, start - 1)).tolist()
    assert (at, read.other_ids) == (start + 20 * SECOND, {})
