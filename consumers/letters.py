"""Keyed hashes, and dead letters: where an unreadable event was and why, never what it said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from consumers.clocks import JUMP, TOO_EARLY, TOO_OLD
from monitor.core.cells import Int64s
from monitor.ports import DeadLetter, Records

REASONS = (
    "malformed_json",
    "wrong_type",
    "invalid_value",
    "missing_field",
    "unknown_field",
    "unknown_attribute",
    "too_large",
    "too_many_events",
    "tombstone",
    TOO_EARLY,
    TOO_OLD,
    JUMP,
)
"""Every reason an event can be refused for."""

MAX_LETTERS = 1_000
"""Dead letters kept of one batch, and of one flush of a shard; beyond it they are counted only.

Two bytes are enough for an unreadable event, and a letter takes a hundred times as many."""


class IdHasher:
    """Keyed 63-bit BLAKE2b of ids: pseudonyms that mean nothing without the key."""

    def __init__(self, key: bytes) -> None:
        self._keyed = blake2b(digest_size=8, key=key)

    def __call__(self, texts: Iterable[str]) -> Int64s:
        """Hash each text."""
        digests: list[bytes] = []
        copy, append = self._keyed.copy, digests.append
        for text in texts:
            keyed = copy()
            keyed.update(text.encode())
            append(keyed.digest())
        return (np.frombuffer(b"".join(digests), ">u8") >> np.uint64(1)).astype(np.int64)

    def of_payload(self, payload: bytes) -> str:
        """Short hash by which two equal payloads are recognised, and nothing else of them."""
        keyed = self._keyed.copy()
        keyed.update(payload)
        return keyed.hexdigest()


class Letters:
    """Dead letters of one batch; a message is hashed at most once.

    Attributes:
        found: the first ``most`` of them.
        counts: all of them, by reason.
    """

    def __init__(self, records: Records, hasher: IdHasher, most: int = MAX_LETTERS) -> None:
        self.found: list[DeadLetter] = []
        self.counts: Counter[str] = Counter()
        self._most = most
        self._records = records
        self._values: dict[int, bytes | None] = {}
        self._hasher = hasher
        self._hashes: dict[int, str] = {}

    def refuse(self, offset: int, item: int, reason: str, field: str) -> None:
        """Add the letter of event ``item`` in the message at ``offset``."""
        self.counts[reason] += 1
        if len(self.found) < self._most:
            self.found.append(DeadLetter(offset, item, reason, field, self._hash(offset)))

    def _hash(self, offset: int) -> str:
        known = self._hashes.get(offset)
        if known is None:
            if not self._values:
                self._values = dict(zip(self._records.offsets, self._records.values, strict=True))
            value = self._values[offset]
            known = "" if value is None else self._hasher.of_payload(value)
            self._hashes[offset] = known
        return known
