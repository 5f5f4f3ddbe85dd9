"""Dead letters take a bounded amount of memory and rows, and all are counted."""

from __future__ import annotations

from typing import Any

from consumers.codec import DecisionCodec
from consumers.coder import Coder
from consumers.dead_letters import MAX_DEAD_LETTERS, DeadLetterBuffer
from monitor.core.counts.coding import Coding, CodingHistory
from monitor.records import RecordBatch, Shard


class Hasher:
    """Counts how many payloads were hashed."""

    hashed = 0

    def hash_payload(self, payload: bytes) -> str:
        self.hashed += 1
        return "hash"


def test_a_message_of_two_bytes_an_event_leaves_few_letters_and_all_counts() -> None:
    hasher: Any = Hasher()
    messages = [b"[" + b",".join([b"0"] * 10_000) + b"]"] * 3
    records = RecordBatch(Shard("d", 0), range(3), messages, [0] * 3)
    letters = DeadLetterBuffer(records, hasher)
    coding = Coding(())
    DecisionCodec(Coder(CodingHistory.always(coding), 8), coding).read(records, letters)
    assert letters.counts == {"wrong_type": 30_000}
    assert [(one.offset, one.index) for one in letters.found] == [
        (0, index) for index in range(MAX_DEAD_LETTERS)
    ]
    assert hasher.hashed == 1, "what is not kept is not hashed either"
