"""The bytes of a Snapshot after another one: the same as its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from published_lesson import full, lesson

from monitor.core.publish.each_row import RowPlace, each_row
from monitor.core.publish.encoding import Encoded, encode_after
from monitor.core.publish.snapshot import SliceRow, Snapshot, encode

CHAT, EMAIL = full("channel=chat"), full("channel=email")
SNAPSHOTS = {
    "nothing": Snapshot(None, None, ()),
    "two": lesson(CHAT, EMAIL),
    "one": lesson(EMAIL),
    "other order": lesson(EMAIL, CHAT),
    "other row": lesson(replace(CHAT, completeness=0.5), EMAIL),
}


@pytest.mark.parametrize("now", SNAPSHOTS)
@pytest.mark.parametrize("before", [None, *SNAPSHOTS])
def test_what_was_encoded_before_changes_no_byte(before: str | None, now: str) -> None:
    known = None if before is None else encode_after(SNAPSHOTS[before], None)
    assert encode_after(SNAPSHOTS[now], known).body == encode(SNAPSHOTS[now])
    assert encode_after(SNAPSHOTS[now], Encoded(b"{}")).body == encode(SNAPSHOTS[now])


def test_only_rows_that_say_something_else_are_made_again() -> None:
    made: list[str] = []

    def make(place: RowPlace, _: SliceRow) -> str:
        made.append(place.slice)
        return place.slice

    first = each_row(lesson(CHAT, EMAIL), make, {})
    made.clear()
    assert each_row(lesson(replace(CHAT), EMAIL), make, first) == first
    assert made == []
    each_row(lesson(replace(CHAT, completeness=0.5), EMAIL), make, first)
    assert set(made) == {"channel=chat"}
