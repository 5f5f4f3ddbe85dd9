"""From messages to columns: decode, count what is unreadable, hash ids.

The hot path decodes a whole batch in one ``try``; only a batch that fails is read message by
message and event by event. An unreadable event becomes a dead letter that names the field and
never holds the payload.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from consumers.clocks import JUMP, TOO_EARLY, TOO_OLD
from consumers.coder import Coder, RejectedError, key_of
from consumers.events import MAX_EVENTS_PER_MESSAGE, FastDecision, Label
from monitor.core.cells import Int64s
from monitor.core.coding import Coding
from monitor.core.labels import KIND_RANKS, NOT_READY, READY, UNDECIDABLE, LabelColumns
from monitor.ports import DeadLetter, Records

Event = TypeVar("Event", FastDecision, Label)

DEAD_LETTER_REASONS = (
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

# Anchored at both ends: what lies between may quote the payload, of which nothing may be kept.
_PATH = re.compile(r" - at `\$\.?([a-z_.]*)[^`]*`\Z")
_WRONG_TYPE = re.compile(r"Expected `[^`]*`, got `")
_MISSING = re.compile(r"Object missing required field `([a-z_]+)`")
_READY = {True: READY, False: NOT_READY, None: UNDECIDABLE}


@dataclass(frozen=True, slots=True)
class Decoded(Generic[Event]):
    """Events of one batch with the place of each, and what could not be read.

    Attributes:
        events: in order of arrival.
        offsets: offset of the message of each event.
        items: index of each event within its message.
        timestamps: the broker's timestamp of its message, milliseconds, -1 when unknown.
        letters: dead letters.
    """

    events: list[Event]
    offsets: Int64s
    items: Int64s
    timestamps: Int64s
    letters: list[DeadLetter]


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


def payload_hash(payload: bytes) -> str:
    """Short hash by which two equal payloads are recognised."""
    return blake2b(payload, digest_size=8).hexdigest()


class Reader(Generic[Event]):
    """Decodes messages of one topic; a message holds one event or an array of them."""

    def __init__(self, event: type[Event]) -> None:
        self._decode_any: Callable[[bytes], Any] = msgspec.json.Decoder(event | list[event]).decode  # type: ignore[valid-type]
        self._decode_one: Callable[[bytes], Event] = msgspec.json.Decoder(event).decode
        self._decode_raw = msgspec.json.Decoder(list[msgspec.Raw]).decode

    def read(self, records: Records) -> Decoded[Event]:
        """Decode all messages of a batch."""
        try:
            decoded = [self._decode_any(value) for value in records.values]  # type: ignore[arg-type]
            if not any(type(item) is list for item in decoded):
                return self._singles(records, decoded)
        except (ValueError, TypeError, RecursionError):
            pass  # something in the batch is unreadable or missing: find out what
        return self._one_by_one(records)

    def _singles(self, records: Records, events: list[Event]) -> Decoded[Event]:
        return Decoded(
            events,
            np.asarray(records.offsets, np.int64),
            np.zeros(len(events), np.int64),
            np.asarray(records.timestamps, np.int64),
            [],
        )

    def _one_by_one(self, records: Records) -> Decoded[Event]:
        events: list[Event] = []
        places: list[tuple[int, int, int]] = []
        letters: list[DeadLetter] = []
        for offset, value, at in zip(
            records.offsets, records.values, records.timestamps, strict=True
        ):
            read, bad = self._message(offset, value)
            events.extend(event for _, event in read)
            places.extend((offset, item, at) for item, _ in read)
            letters.extend(bad)
        offsets, items, timestamps = np.array(places, np.int64).reshape(-1, 3).T
        return Decoded(events, offsets, items, timestamps, letters)

    def _message(
        self, offset: int, value: bytes | None
    ) -> tuple[list[tuple[int, Event]], list[DeadLetter]]:
        if value is None:
            return [], [DeadLetter(offset, 0, "tombstone", "", "")]
        if value.lstrip()[:1] != b"[":
            parts: Sequence[bytes | msgspec.Raw] = [value]
        else:
            try:
                parts = self._decode_raw(value)
            except (ValueError, RecursionError) as error:
                return [], [DeadLetter(offset, 0, *_why(error), payload_hash(value))]
            if len(parts) > MAX_EVENTS_PER_MESSAGE:
                letter = DeadLetter(offset, 0, "too_many_events", "", payload_hash(value))
                return [], [letter]
        return self._parts(offset, parts)

    def _parts(
        self, offset: int, parts: Sequence[bytes | msgspec.Raw]
    ) -> tuple[list[tuple[int, Event]], list[DeadLetter]]:
        events: list[tuple[int, Event]] = []
        letters: list[DeadLetter] = []
        for item, part in enumerate(parts):
            try:
                events.append((item, self._decode_one(bytes(part))))
            except (ValueError, RecursionError) as error:
                letters.append(DeadLetter(offset, item, *_why(error), payload_hash(bytes(part))))
        return events, letters


def _why(error: Exception) -> tuple[str, str]:
    """Reason and field of an unreadable event; never a word of its content."""
    if not isinstance(error, msgspec.ValidationError):
        return "malformed_json", ""
    text = str(error)
    if text.startswith("Object contains unknown field"):
        return "unknown_field", ""
    if missing := _MISSING.match(text):
        return "missing_field", missing.group(1)
    path = _PATH.search(text)
    reason = "wrong_type" if _WRONG_TYPE.match(text) else "invalid_value"
    return reason, path.group(1) if path else ""


def _micros(moments: Iterable[Any], length: int) -> Int64s:
    # Whole microseconds survive a float of seconds until the year 2255.
    seconds = np.fromiter((moment.timestamp() for moment in moments), np.float64, length)
    return np.rint(seconds * 1e6).astype(np.int64)


@dataclass(frozen=True, slots=True)
class DecodedDecisions:
    """Readable decisions as columns, before clocks and de-duplication."""

    texts: list[str]
    ts: Int64s
    codes: Int64s
    bands: Int64s
    requested: npt.NDArray[np.bool_]
    offsets: Int64s
    items: Int64s
    timestamps: Int64s
    letters: list[DeadLetter]


class DecisionCodec:
    """Decodes and codes decisions."""

    def __init__(self, coder: Coder, coding: Coding) -> None:
        self._coder = coder
        self._edges = np.array(coding.score_bands, np.float64)
        self._null_band = coding.bands - 1
        self._reader = Reader(FastDecision)

    def read(self, records: Records) -> DecodedDecisions:
        """Columns of all readable decisions of a batch."""
        self._coder.trim()
        decoded = self._reader.read(records)
        codes = self._codes(decoded.events)
        if -1 in codes:
            decoded, codes = self._code_new(decoded, codes, records)
        events, n = decoded.events, len(decoded.events)
        scores = np.array([event.judge_score for event in events], np.float64)
        bands = np.searchsorted(self._edges, scores, side="right")
        return DecodedDecisions(
            texts=[event.decision_id for event in events],
            ts=_micros((event.decided_at for event in events), n),
            codes=np.array(codes, np.int64),
            bands=np.where(np.isnan(scores), self._null_band, bands).astype(np.int64),
            requested=np.fromiter((event.label_requested for event in events), np.bool_, n),
            offsets=decoded.offsets,
            items=decoded.items,
            timestamps=decoded.timestamps,
            letters=decoded.letters,
        )

    def _codes(self, events: Sequence[FastDecision]) -> list[int]:
        get = self._coder.codes.get
        return [get(key_of(event), -1) for event in events]

    def _code_new(
        self, decoded: Decoded[FastDecision], codes: list[int], records: Records
    ) -> tuple[Decoded[FastDecision], list[int]]:
        """Check nested parts not seen before; events that fail become dead letters."""
        bad: dict[int, RejectedError] = {}
        for row, code in enumerate(codes):
            if code < 0:
                try:
                    codes[row] = self._code(decoded.events[row])
                except RejectedError as error:
                    bad[row] = error
        if not bad:
            return decoded, codes
        values = dict(zip(records.offsets, records.values, strict=True))
        letters = [
            DeadLetter(
                offset := int(decoded.offsets[row]),
                int(decoded.items[row]),
                error.reason,
                error.field,
                payload_hash(values[offset] or b""),
            )
            for row, error in bad.items()
        ]
        good = [row for row in range(len(codes)) if row not in bad]
        kept = Decoded(
            [decoded.events[row] for row in good],
            decoded.offsets[good],
            decoded.items[good],
            decoded.timestamps[good],
            decoded.letters + letters,
        )
        return kept, [codes[row] for row in good]

    def _code(self, decision: FastDecision) -> int:
        key = key_of(decision)
        known = self._coder.codes.get(key)
        return self._coder.code(key) if known is None else known


@dataclass(frozen=True, slots=True)
class DecodedLabels:
    """Readable labels as columns, before clocks."""

    labels: LabelColumns
    offsets: Int64s
    items: Int64s
    timestamps: Int64s
    letters: list[DeadLetter]


class LabelCodec:
    """Decodes labels."""

    def __init__(self, hasher: IdHasher) -> None:
        self._hash = hasher
        self._reader = Reader(Label)

    def read(self, records: Records) -> DecodedLabels:
        """Columns of all readable labels of a batch."""
        decoded = self._reader.read(records)
        events, n = decoded.events, len(decoded.events)

        def column(values: Iterable[int]) -> Int64s:
            return np.fromiter(values, np.int64, n)

        labels = LabelColumns(
            ids=self._hash(event.decision_id for event in events),
            ts=_micros((event.decided_at for event in events), n),
            complaint=column(event.reason == "complaint" for event in events).astype(np.int8),
            rank=column(KIND_RANKS[event.kind] for event in events).astype(np.int8),
            revision=column(event.version for event in events),
            labelled_at=_micros((event.labelled_at for event in events), n),
            label=self._hash(_identity(event) for event in events),
            ready=column(_READY[event.ready] for event in events).astype(np.int8),
            blind=column(bool(event.blind) for event in events).astype(np.bool_),
        )
        return DecodedLabels(
            labels, decoded.offsets, decoded.items, decoded.timestamps, decoded.letters
        )


def _identity(label: Label) -> str:
    """The label's id with its content: two labels that tie in order still have one winner.

    Whatever tells two labels apart is in it, since waiting labels are kept by it.
    """
    at = label.labelled_at.timestamp()
    parts = (label.kind, label.version, label.ready, bool(label.blind), label.reason, at)
    return "\n".join([label.label_id, *map(str, parts)])
