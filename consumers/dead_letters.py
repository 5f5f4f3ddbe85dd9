"""Keyed hashes of ids, dead letters, and the breaker that stops a stream with too many of them.

A dead letter has the place of an unreadable event and the reason, never the content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from consumers.event_time import FUTURE, JUMP, TOO_EARLY, TOO_OLD
from monitor.core.counts.cells import Int64s
from monitor.errors import PoisonedStreamError
from monitor.flushes import DeadLetter
from monitor.id_key import BEGINNING, NEAR, IdKey
from monitor.records import RecordBatch, Shard

REASONS = (
    "malformed_json",
    "malformed_avro",
    "unknown_schema",
    "wrong_type",
    "invalid_value",
    "missing_field",
    "too_large",
    "too_many_events",
    TOO_EARLY,
    FUTURE,
    TOO_OLD,
    JUMP,
)
"""All reasons to refuse an event."""

MAX_DEAD_LETTERS = 1_000
"""Dead letters kept per batch, and per flush of a shard; further ones are only counted.

An unreadable event may have two bytes; its dead letter takes a hundred times as many."""


KeyedHash = blake2b
"""A hash that has taken in a key, and may have taken in more."""


def hash_texts(keyed: KeyedHash, texts: Iterable[str]) -> Int64s:
    """Return the 63-bit hash of each text, added to what ``keyed`` has taken in, as it is."""
    digests: list[bytes] = []
    for text in texts:
        text_hash = keyed.copy()
        text_hash.update(text.encode())
        digests.append(text_hash.digest())
    return (np.frombuffer(b"".join(digests), ">u8") >> np.uint64(1)).astype(np.int64)


class IdHasher:
    """Hasher of ids by keyed 63-bit BLAKE2b: pseudonyms that mean nothing without the key.

    The ids of a decision and of its labels are hashed with the key of its decided_at.

    Args:
        keys: at least one, by start; times before the first start belong to the first key.
    """

    def __init__(self, keys: Sequence[IdKey]) -> None:
        self._keyed = [blake2b(digest_size=8, key=key.key) for key in keys]
        self._starts = np.array([key.start for key in keys[1:]], np.int64)

    @classmethod
    def with_key(cls, key: bytes) -> IdHasher:
        """Return a hasher with one key for all time."""
        return cls([IdKey("only", BEGINNING, key)])

    def __call__(self, texts: Iterable[str], ts: Int64s) -> Int64s:
        """Return the 63-bit hash of each text, by the key for its decided_at (microseconds)."""
        if not len(self._starts):
            return hash_texts(self._keyed[0], texts)
        return self._hash_by_number(list(texts), self.numbers(ts))

    def under_all(self, text: str) -> list[int]:
        """Return the hashes of a text by every key, oldest key first."""
        return [int(hash_texts(keyed, [text])[0]) for keyed in self._keyed]

    def keyed(self, number: int, prefix: str = "") -> KeyedHash:
        """Return a hash by the key with this number, counted from 0, that has taken in a prefix."""
        keyed = self._keyed[number].copy()
        keyed.update(prefix.encode())
        return keyed

    def across(self, texts: Sequence[str], ts: Int64s, ids: Int64s) -> dict[tuple[int, int], int]:
        """Return hashes by the neighbouring key, by (id, decided_at), for labels near a key change.

        The decision of a label may lie beyond that change: a label's time may be inexact.

        Args:
            texts: decision ids.
            ts: decided_at in the labels.
            ids: hashes of the texts.

        Returns:
            The other hash by (hash, time).
        """
        other_ids: dict[tuple[int, int], int] = {}
        for start in self._starts.tolist():
            rows = np.flatnonzero((ts >= start - NEAR) & (ts < start + NEAR))
            beyond = self.numbers(np.where(ts[rows] < start, start, start - 1))
            hashed = self._hash_by_number([texts[row] for row in rows.tolist()], beyond)
            keys = zip(ids[rows].tolist(), ts[rows].tolist(), strict=True)
            other_ids.update(zip(keys, hashed.tolist(), strict=True))
        return other_ids

    def hash_payload(self, payload: bytes) -> str:
        """Return a short keyed hash (hexadecimal) that shows only whether payloads are equal."""
        keyed = self._keyed[-1].copy()
        keyed.update(payload)
        return keyed.hexdigest()

    def numbers(self, ts: Int64s) -> Int64s:
        """Return the number of the key that applies at each decided_at."""
        return np.searchsorted(self._starts, ts, side="right").astype(np.int64)

    def _hash_by_number(self, texts: Sequence[str], numbers: Int64s) -> Int64s:
        """Return the hash of each text by the key with its number."""
        ids = np.empty(len(texts), np.int64)
        for number in np.unique(numbers).tolist():
            rows = np.flatnonzero(numbers == number)
            ids[rows] = hash_texts(self._keyed[number], [texts[row] for row in rows.tolist()])
        return ids


class DeadLetterBuffer:
    """Collector of one batch's dead letters and their counts; hashes each message at most once.

    Attributes:
        found: the first ``most`` dead letters.
        counts: all dead letters, by reason.
        by_field: all dead letters, by reason and field.
    """

    def __init__(
        self, records: RecordBatch, hasher: IdHasher, most: int = MAX_DEAD_LETTERS
    ) -> None:
        self.found: list[DeadLetter] = []
        self.counts: Counter[str] = Counter()
        self.by_field: Counter[tuple[str, str]] = Counter()
        self._most = most
        self._records = records
        self._values: dict[int, bytes | None] = {}
        self._hasher = hasher
        self._hashes: dict[int, str] = {}

    def refuse(self, offset: int, item: int, reason: str, field: str) -> None:
        """Count event ``item`` of the message at ``offset`` as refused; keep a dead letter."""
        self.counts[reason] += 1
        self.by_field[reason, field] += 1
        if len(self.found) < self._most:
            self.found.append(DeadLetter(offset, item, reason, field, self._hash(offset)))

    def _hash(self, offset: int) -> str:
        """Return the keyed hash of the message at an offset; empty for a tombstone."""
        payload_hash = self._hashes.get(offset)
        if payload_hash is None:
            if not self._values:
                self._values = dict(zip(self._records.offsets, self._records.values, strict=True))
            value = self._values[offset]
            payload_hash = "" if value is None else self._hasher.hash_payload(value)
            self._hashes[offset] = payload_hash
        return payload_hash


@dataclass(slots=True)
class _Streak:
    """Events judged since the last verdict, and the unreadable ones by reason and field."""

    judged: int = 0
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(slots=True)
class DeadLetterBreaker:
    """Breaker that stops ingest if too many of one topic's events are unreadable.

    Attributes:
        share: unreadable share above which the stream stops,
        min_events: among at least this many events.
    """

    share: float
    min_events: int
    _runs: dict[str, _Streak] = field(default_factory=dict)

    def record(self, shard: Shard, events: int, refused: Counter[tuple[str, str]]) -> None:
        """Count a batch's events and refusals; raise PoisonedStreamError if its topic has too many.

        Raises:
            PoisonedStreamError: a wrong producer or wrong settings; nothing may be stored now.
        """
        run = self._runs.setdefault(shard.topic, _Streak())
        run.judged += events
        run.reasons.update(refused)
        if run.judged < self.min_events:
            return
        bad = run.reasons.total()
        if bad > self.share * run.judged:
            reason, field = run.reasons.most_common(1)[0][0]
            most = f"{reason} in {field}" if field else reason
            raise PoisonedStreamError(
                f"{bad / run.judged:.0%} of the last {run.judged} events of topic {shard.topic} are"
                f" unreadable, mostly {most}; nothing since the last flush was stored. Compare the"
                " producer with the settings and start again"
            )
        self._runs[shard.topic] = _Streak()
