"""Whatever a producer sends: each event ends once, nothing leaks, memory stays bounded."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import fuzz_codec
import pytest
from fuzzing import PROPERTIES
from hostile_events import SECRET, WHOLE

from consumers import coder as coder_module

pytestmark = pytest.mark.full


@pytest.mark.parametrize("name", ["codec", "shard", "clock", "pipeline"])
def test_hostile_events(name: str) -> None:
    PROPERTIES[name].hammer()


@pytest.mark.parametrize("topic", ["decisions", "labels"])
def test_every_extreme_message_at_once(topic: str) -> None:
    fuzz_codec.check_codec(topic, WHOLE)


def test_a_letter_with_a_word_of_the_payload_would_be_seen() -> None:
    """The checks themselves: a field that is not in the schema is a leak."""
    batch = fuzz_codec.records("decisions", [b"{"])
    (letter,) = fuzz_codec.Reading().read(batch).letters
    fuzz_codec.check_letter("decisions", letter)
    for change in ({"field": SECRET}, {"reason": SECRET}, {"payload_hash": SECRET}):
        fields: dict[str, Any] = {"offset": 0, "index": 0, "reason": letter.reason, "field": "",
                  "payload_hash": "", **change}  # fmt: skip
        with pytest.raises(AssertionError):
            fuzz_codec.check_letter("decisions", type(letter)(**fields))


def test_memory_is_bounded_when_no_value_comes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coder_module, "MAX_KEYS", 1_000)
    tracemalloc.start()
    try:
        fuzz_codec.flood(8, seed=1)  # fills the dictionary and empties it at least once
        before = _traced()
        fuzz_codec.flood(16, seed=2)
        grown = _traced() - before
    finally:
        tracemalloc.stop()
    # The dictionary is as full as chance has it: 1,200 keys of at most 4 kB and what codes them.
    assert grown < 8 << 20, f"{grown} bytes more after 3,200 different decisions"
    assert len(fuzz_codec.SHARED.coder.codes) <= 1_000 + fuzz_codec.EACH


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
