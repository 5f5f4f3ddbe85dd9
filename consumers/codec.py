"""From messages to typed events, and from these to columns: everything after this uses columns.

The hot path decodes a whole batch in one ``try``. Only a batch that fails is read message by
message and event by event. An unreadable event becomes a dead letter that names the field and
never holds the payload.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from consumers.coder import Coder, RejectedError, key_of
from consumers.dead_letters import DeadLetterBuffer, IdHasher
from consumers.events import MAX_EVENTS_PER_MESSAGE, FastDecision, Label
from consumers.probe_signing import NO_KEY, Doubt, ProbePolicy
from monitor.core.counts.cells import Int64s
from monitor.core.counts.coding import Coding
from monitor.core.counts.labels import KIND_RANKS, NOT_READY, READY, UNDECIDABLE, LabelColumns
from monitor.core.probes.decisions import ProbeDecision
from monitor.ports import RecordBatch

Event = TypeVar("Event", FastDecision, Label)

# Anchored at both ends: what lies between may quote the payload, of which nothing may be kept.
_PATH = re.compile(r" - at `\$\.?([a-z_.]*)[^`]*`\Z")
_WRONG_TYPE = re.compile(r"Expected `[^`]*`, got `")
_MISSING = re.compile(r"Object missing required field `([a-z_]+)`")

_REVIEWER_SHIFT = 32
"""Leaves 31 bits of a reviewer's hash. It is of the reviewer and the decision: it shows whether two
labels of one decision are of one reviewer (wrongly once in 2e9), and links no two decisions."""
_READY = {True: READY, False: NOT_READY, None: UNDECIDABLE}


@dataclass(frozen=True, slots=True)
class Decoded(Generic[Event]):
    """Events of one batch with the place of each; what could not be read is in the dead_letters.

    Attributes:
        events: in order of arrival.
        offsets: offset of the message of each event.
        items: index of each event within its message.
        timestamps: the broker's timestamp of its message, milliseconds, -1 when unknown.
    """

    events: list[Event]
    offsets: Int64s
    items: Int64s
    timestamps: Int64s

    def take(self, rows: Sequence[int]) -> Decoded[Event]:
        """The chosen events, in the order given."""
        chosen = np.array(rows, np.int64)
        return Decoded(
            [self.events[row] for row in rows],
            self.offsets[chosen],
            self.items[chosen],
            self.timestamps[chosen],
        )


class Reader(Generic[Event]):
    """Decodes messages of one topic; a message holds one event or an array of them."""

    def __init__(self, event: type[Event]) -> None:
        self._decode_any: Callable[[bytes], Any] = msgspec.json.Decoder(event | list[event]).decode  # type: ignore[valid-type]
        self._decode_one: Callable[[bytes], Event] = msgspec.json.Decoder(event).decode
        self._decode_raw = msgspec.json.Decoder(list[msgspec.Raw]).decode

    def read(self, records: RecordBatch, dead_letters: DeadLetterBuffer) -> Decoded[Event]:
        """Decode all messages of a batch; what is unreadable goes to ``dead_letters``."""
        try:
            decoded = [self._decode_any(value) for value in records.values]  # type: ignore[arg-type]
        except (ValueError, TypeError, RecursionError):
            return self._one_by_one(records, dead_letters)  # find out what is unreadable or missing
        sizes = [len(item) if type(item) is list else 1 for item in decoded]
        if max(sizes, default=0) > MAX_EVENTS_PER_MESSAGE:
            return self._one_by_one(records, dead_letters)
        return self._together(records, decoded, sizes)

    def _together(
        self, records: RecordBatch, decoded: list[Any], sizes: list[int]
    ) -> Decoded[Event]:
        offsets = np.asarray(records.offsets, np.int64)
        timestamps = np.asarray(records.timestamps, np.int64)
        if not any(type(item) is list for item in decoded):
            return Decoded(decoded, offsets, np.zeros(len(decoded), np.int64), timestamps)
        events: list[Event] = []
        for item in decoded:
            if type(item) is list:
                events.extend(item)
            else:
                events.append(item)
        counts = np.array(sizes, np.int64)
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        return Decoded(
            events,
            np.repeat(offsets, counts),
            np.arange(len(events)) - starts,
            np.repeat(timestamps, counts),
        )

    def _one_by_one(self, records: RecordBatch, dead_letters: DeadLetterBuffer) -> Decoded[Event]:
        events: list[Event] = []
        places: list[tuple[int, int, int]] = []
        for offset, value, at in zip(
            records.offsets, records.values, records.timestamps, strict=True
        ):
            for item, event in self._message(offset, value, dead_letters):
                events.append(event)
                places.append((offset, item, at))
        offsets, items, timestamps = np.array(places, np.int64).reshape(-1, 3).T
        return Decoded(events, offsets, items, timestamps)

    def _message(
        self, offset: int, value: bytes | None, dead_letters: DeadLetterBuffer
    ) -> list[tuple[int, Event]]:
        if value is None:
            dead_letters.refuse(offset, 0, "tombstone", "")
            return []
        if value.lstrip()[:1] != b"[":
            return self._parts(offset, [value], dead_letters)
        try:
            parts = self._decode_raw(value)
        except (ValueError, RecursionError) as error:
            dead_letters.refuse(offset, 0, *_why(error))
            return []
        if len(parts) > MAX_EVENTS_PER_MESSAGE:
            dead_letters.refuse(offset, 0, "too_many_events", "")
            return []
        return self._parts(offset, parts, dead_letters)

    def _parts(
        self, offset: int, parts: Sequence[bytes | msgspec.Raw], dead_letters: DeadLetterBuffer
    ) -> list[tuple[int, Event]]:
        events: list[tuple[int, Event]] = []
        for item, part in enumerate(parts):
            try:
                events.append((item, self._decode_one(bytes(part))))
            except (ValueError, RecursionError) as error:
                dead_letters.refuse(offset, item, *_why(error))
        return events


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
    """Readable decisions as columns, before clocks and de-duplication.

    ``units`` is empty when none was sent. ``probes`` has the rows that call themselves probes;
    those in doubt about their signature are coded as production.
    """

    texts: list[str]
    units: list[str | None]
    ts: Int64s
    codes: Int64s
    bands: Int64s
    requested: npt.NDArray[np.bool_]
    offsets: Int64s
    items: Int64s
    timestamps: Int64s
    probes: Mapping[int, ProbeDecision | Doubt]


class DecisionCodec:
    """Decodes and codes decisions."""

    def __init__(self, coder: Coder, coding: Coding, probes: ProbePolicy = NO_KEY) -> None:
        self._coder = coder
        self._policy = probes
        self._edges = np.array(coding.score_bands, np.float64)
        self._null_band = coding.bands - 1
        self._reader = Reader(FastDecision)

    def read(self, records: RecordBatch, dead_letters: DeadLetterBuffer) -> DecodedDecisions:
        """Columns of all readable decisions of a batch."""
        self._coder.trim()
        decoded = self._reader.read(records, dead_letters)
        known = self._codes(decoded.events)
        if -1 in known:
            decoded, known = self._code_new(decoded, known, dead_letters)
        events, n = decoded.events, len(decoded.events)
        codes, ts = np.array(known, np.int64), _micros((e.decided_at for e in events), n)
        probes = self._judged(events, codes, ts)
        scores = np.array([event.judge_score for event in events], np.float64)
        bands = np.searchsorted(self._edges, scores, side="right")
        units = [event.unit for event in events]
        return DecodedDecisions(
            texts=[event.decision_id for event in events],
            units=units if any(units) else [],
            ts=ts,
            codes=self._without_unsigned(codes, probes),
            bands=np.where(np.isnan(scores), self._null_band, bands).astype(np.int64),
            requested=np.fromiter((event.label_requested for event in events), np.bool_, n),
            offsets=decoded.offsets,
            items=decoded.items,
            timestamps=decoded.timestamps,
            probes=probes,
        )

    def _judged(
        self, events: Sequence[FastDecision], codes: Int64s, ts: Int64s
    ) -> dict[int, ProbeDecision | Doubt]:
        rows = self._coder.probe_rows(codes).tolist()
        return {row: self._policy.judge(events[row], int(ts[row])) for row in rows}

    def _without_unsigned(
        self, codes: Int64s, probes: Mapping[int, ProbeDecision | Doubt]
    ) -> Int64s:
        unsigned = [row for row, judged in probes.items() if judged is Doubt.UNSIGNED]
        if unsigned:
            codes[unsigned] = self._coder.as_production(codes[unsigned])
        return codes

    def _codes(self, events: Sequence[FastDecision]) -> list[int]:
        get = self._coder.codes.get
        return [get(key_of(event), -1) for event in events]

    def _code_new(
        self, decoded: Decoded[FastDecision], codes: list[int], dead_letters: DeadLetterBuffer
    ) -> tuple[Decoded[FastDecision], list[int]]:
        """Check nested parts not seen before; events that fail become dead letters."""
        good = []
        for row, code in enumerate(codes):
            try:
                codes[row] = self._code(decoded.events[row]) if code < 0 else code
                good.append(row)
            except RejectedError as error:
                place = int(decoded.offsets[row]), int(decoded.items[row])
                dead_letters.refuse(*place, error.reason, error.field)
        if len(good) == len(codes):
            return decoded, codes
        return decoded.take(good), [codes[row] for row in good]

    def _code(self, decision: FastDecision) -> int:
        key = key_of(decision)
        known = self._coder.codes.get(key)
        return self._coder.code(key) if known is None else known


@dataclass(frozen=True, slots=True)
class DecodedLabels:
    """Readable labels as columns, before clocks; ``other_ids`` as in a flush."""

    labels: LabelColumns
    other_ids: dict[tuple[int, int], int]
    offsets: Int64s
    items: Int64s
    timestamps: Int64s

    @property
    def ts(self) -> Int64s:
        """decided_at as the labels say it, microseconds."""
        return self.labels.ts


class LabelCodec:
    """Decodes labels."""

    def __init__(self, hasher: IdHasher) -> None:
        self._hash = hasher
        self._reader = Reader(Label)

    def read(self, records: RecordBatch, dead_letters: DeadLetterBuffer) -> DecodedLabels:
        """Columns of all readable labels of a batch."""
        decoded = self._reader.read(records, dead_letters)
        events, n = decoded.events, len(decoded.events)

        def column(values: Iterable[int]) -> Int64s:
            return np.fromiter(values, np.int64, n)

        texts = [event.decision_id for event in events]
        reviewers = (f"{event.decision_id}\n{event.reviewer}" for event in events)
        ts = _micros((event.decided_at for event in events), n)
        labels = LabelColumns(
            ids=self._hash(texts, ts),
            ts=ts,
            complaint=column(event.reason == "complaint" for event in events).astype(np.int8),
            rank=column(KIND_RANKS[event.kind] for event in events).astype(np.int8),
            revision=column(event.version for event in events),
            labelled_at=_micros((event.labelled_at for event in events), n),
            label=self._hash((_identity(event) for event in events), ts),
            ready=column(_READY[event.ready] for event in events).astype(np.int8),
            blind=column(bool(event.blind) for event in events).astype(np.bool_),
            reviewer=np.maximum(self._hash(reviewers, ts) >> _REVIEWER_SHIFT, 1),
        )
        others = self._hash.across(texts, ts, labels.ids)
        return DecodedLabels(labels, others, decoded.offsets, decoded.items, decoded.timestamps)


def _identity(label: Label) -> str:
    """The label's id with its content: two labels that tie in order still have one winner.

    Whatever distinguishes two labels is in it, since waiting labels are kept by it.
    """
    at = label.labelled_at.timestamp()
    parts = (label.kind, label.version, label.ready, bool(label.blind), label.reason, at)
    return "\n".join([label.label_id, *map(str, parts), label.reviewer])
