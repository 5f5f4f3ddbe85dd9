"""Codec from messages to typed events, and from events to columns for everything after it.

The hot path decodes a whole batch in one ``try``. Only a batch that fails is read message by
message and event by event. An unreadable event becomes a dead letter that names the field and
never holds the payload. Unknown fields are dropped and counted, or make the event unreadable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache, partial
from itertools import accumulate, chain, repeat
from types import NoneType
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from consumers.bias_results import BiasResults
from consumers.coder import Coder, Key, RejectedError, keys_of
from consumers.dead_letters import DeadLetterBuffer, IdHasher
from consumers.event_words import reason_and_field
from consumers.events import MAX_EVENTS_PER_MESSAGE, FastDecision, Label
from consumers.mapping import EventMapping
from consumers.probe_signing import NO_KEY, Doubt, ProbePolicy
from consumers.tolerance import BYTE_ORDER_MARK, decode_tolerantly
from consumers.unknown_fields import (
    KnownFields,
    UnknownFields,
    add_counts,
    names_of_event,
    unknown_names,
)
from monitor.core.counts.cells import Int64s
from monitor.core.counts.coding import Coding
from monitor.core.counts.labels import KIND_RANKS, NOT_READY, READY, UNDECIDABLE, LabelColumns
from monitor.core.probes.probe_decisions import ProbeDecision
from monitor.records import RecordBatch

Event = TypeVar("Event", FastDecision, Label)

_TOGETHER = 1_000
"""Messages that are decoded together: their events must still be in the processor's cache when
their fields are picked out one after the other. With 5,000 that took a third more time."""
_NESTED = ("attributes.", "versions.")  # fields of these parts are counted by the coder
_REVIEWER_SHIFT = 32
"""Shift that leaves 31 bits of a hash of reviewer and decision. It shows whether two labels of a
decision are by one reviewer (wrongly once in 2e9), and does not link decisions."""
_NEW = -1  # instead of a code: the key is new
_READY = {True: READY, False: NOT_READY, None: UNDECIDABLE}


@dataclass(frozen=True, slots=True)
class Decoded(Generic[Event]):
    """Readable events of one batch, with offset, index within the message and timestamp of each.

    Attributes:
        events: in order of arrival.
        offsets: offset of the message of each event.
        items: index of each event within its message.
        timestamps: the broker's timestamp of its message, milliseconds, -1 when unknown.
        unknown: fields of these events that were dropped, by name.
    """

    events: list[Event]
    offsets: Int64s
    items: Int64s
    timestamps: Int64s
    unknown: Counter[str] = field(default_factory=Counter)

    def take(self, rows: Int64s) -> Decoded[Event]:
        """Return the events at the chosen rows, in the order given, with their places."""
        return Decoded(
            [self.events[row] for row in rows.tolist()],
            self.offsets[rows],
            self.items[rows],
            self.timestamps[rows],
            self.unknown,
        )


class Reader(Generic[Event]):
    """Decoder of one topic's JSON messages to events; a message holds an event or an array.

    Args:
        event: type of the events.
        unknown: names of unknown fields; the caller that stores the events records them.
    """

    def __init__(self, event: type[Event], unknown: UnknownFields) -> None:
        self._event: type[Event] = event
        self._unknown = unknown
        self._decode_lenient: Callable[[bytes], Event] = msgspec.json.Decoder(event).decode
        self._decode_raw = msgspec.json.Decoder(list[msgspec.Raw]).decode
        self._rebuild_decoders()

    def _rebuild_decoders(self) -> None:
        """Rebuild the decoders so that they also accept, and count, the frequent unknown fields."""
        self._learned = len(self._unknown.frequent)
        names = [name for name in self._unknown.frequent if not name.startswith(_NESTED)]
        self._fields = fields = KnownFields(self._event, names)
        self._decode_any: Callable[[bytes], Any] = msgspec.json.Decoder(
            fields.type | list[fields.type]  # type: ignore[name-defined]
        ).decode
        self._decode_one: Callable[[bytes], Event] = msgspec.json.Decoder(fields.type).decode

    def read(self, records: RecordBatch, dead_letters: DeadLetterBuffer) -> Decoded[Event]:
        """Decode all messages of a batch to events; add unreadable events to ``dead_letters``."""
        if len(self._unknown.frequent) > self._learned:
            self._rebuild_decoders()
        try:
            decoded = [self._decode_any(value) for value in records.values]  # type: ignore[arg-type]
        except (ValueError, TypeError, RecursionError):
            return self._read_each(records, dead_letters)  # find the unreadable or missing event
        sizes = None
        if list in set(map(type, decoded)):
            sizes = [len(item) if type(item) is list else 1 for item in decoded]
            if max(sizes) > MAX_EVENTS_PER_MESSAGE:
                return self._read_each(records, dead_letters)
        together = self._flatten(records, decoded, sizes)
        together.unknown.update(self._fields.counts(together.events))
        return together

    def _flatten(
        self, records: RecordBatch, decoded: list[Any], sizes: list[int] | None
    ) -> Decoded[Event]:
        """Flatten decoded messages to one list of events with places, by their ``sizes`` if given.

        ``sizes`` is the number of events in each message; None: each has one.
        """
        offsets = np.asarray(records.offsets, np.int64)
        timestamps = np.asarray(records.timestamps, np.int64)
        if sizes is None:
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

    def _read_each(self, records: RecordBatch, dead_letters: DeadLetterBuffer) -> Decoded[Event]:
        """Decode messages one by one; refused ones go to ``dead_letters``."""
        events: list[Event] = []
        places: list[tuple[int, int, int]] = []
        unknown: Counter[str] = Counter()
        for offset, value, at in zip(
            records.offsets, records.values, records.timestamps, strict=True
        ):
            for item, event in self._message(offset, value, dead_letters, unknown):
                events.append(event)
                places.append((offset, item, at))
        offsets, items, timestamps = np.array(places, np.int64).reshape(-1, 3).T
        return Decoded(events, offsets, items, timestamps, unknown)

    def _message(
        self,
        offset: int,
        value: bytes | None,
        dead_letters: DeadLetterBuffer,
        unknown: Counter[str],
    ) -> list[tuple[int, Event]]:
        """Return number and event of each part of a message; no event if empty or refused."""
        if value is None:
            return []  # a tombstone has no event
        parts: Sequence[bytes | msgspec.Raw] = [value]
        try:
            if value.removeprefix(BYTE_ORDER_MARK).lstrip()[:1] == b"[":
                parts = decode_tolerantly(self._decode_raw, value)
        except (ValueError, RecursionError) as error:
            dead_letters.refuse(offset, 0, *reason_and_field(error))
            return []
        if len(parts) > MAX_EVENTS_PER_MESSAGE:
            dead_letters.refuse(offset, 0, "too_many_events", "")
            return []
        events: list[tuple[int, Event]] = []
        for item, part in enumerate(parts):
            try:
                event = decode_tolerantly(partial(self._decode_one_event, unknown), bytes(part))
                events.append((item, event))
            except (ValueError, RecursionError) as error:
                dead_letters.refuse(offset, item, *reason_and_field(error))
        return events

    def _decode_one_event(self, unknown: Counter[str], part: bytes) -> Event:
        """Decode one event from JSON; add the names of its unknown fields to ``unknown``."""
        try:
            event = self._decode_one(part)
        except msgspec.ValidationError:
            event = self._decode_lenient(part)  # raises for any other reason
            names = unknown_names(part, self._event.__struct_fields__)
            add_counts(unknown, names_of_event(names))
        else:
            unknown.update(self._fields.counts([event]))
        return event


def mapped(records: RecordBatch, mapping: EventMapping | None) -> RecordBatch:
    """Return the batch with each message mapped to an event's JSON; unchanged without a mapping."""
    if mapping is None:
        return records
    values = [None if value is None else mapping(value) for value in records.values]
    return replace(records, values=values)


def _micros(moments: Sequence[datetime | int]) -> Int64s:
    """Return each moment as microseconds since 1970; a whole number is read as milliseconds."""
    # Whole microseconds survive a float of seconds until the year 2255.
    return np.rint(np.array(_seconds(moments), np.float64) * 1e6).astype(np.int64)


def _seconds(moments: Sequence[datetime | int]) -> list[float]:
    """Return times in seconds since 1970; integers are milliseconds."""
    try:
        return list(map(datetime.timestamp, moments))  # type: ignore[arg-type]
    except TypeError:  # some moment is a number; most producers send texts
        return [m / 1e3 if isinstance(m, int) else m.timestamp() for m in moments]


def _texts(ids: list[str | int]) -> list[str]:
    """Return ids as texts; a whole number becomes its digits."""
    return ids if set(map(type, ids)) <= {str} else list(map(str, ids))  # type: ignore[return-value]


def _texts_or_empty(ids: list[str | int | None]) -> list[str]:
    """Return ids as texts, empty for a missing one; return an empty list if all are missing."""
    types = set(map(type, ids))
    if types <= {str}:
        return ids  # type: ignore[return-value]
    return [] if types == {NoneType} else ["" if id_ is None else str(id_) for id_ in ids]


@dataclass(frozen=True, slots=True)
class DecodedDecisions:
    """Readable decisions as columns, before clocks and de-duplication.

    ``units`` is empty when none was sent, and has an empty text for an event without. ``probes``
    has the rows that call themselves probes; probes with a doubtful signature are coded as
    production. A missing score is NaN. ``below`` marks decisions that were served automatically
    with
    a score below their own threshold. ``unknown`` counts dropped fields by name.
    """

    texts: list[str]
    units: list[str]
    ts: Int64s
    codes: Int64s
    scores: npt.NDArray[np.float64]
    bands: Int64s
    requested: npt.NDArray[np.bool_]
    offsets: Int64s
    items: Int64s
    timestamps: Int64s
    probes: Mapping[int, ProbeDecision | Doubt]
    below: npt.NDArray[np.bool_]
    unknown: Counter[str]

    @classmethod
    def concat(cls, parts: Sequence[DecodedDecisions]) -> DecodedDecisions:
        """Concatenate the columns of at least one part, in the order given."""
        if len(parts) == 1:
            return parts[0]
        starts = accumulate((len(part.ts) for part in parts), initial=0)
        has_units = any(part.units for part in parts)
        units = (part.units or [""] * len(part.ts) for part in parts if has_units)

        def joined(name: str) -> Any:
            return np.concatenate([getattr(part, name) for part in parts])

        return cls(
            texts=list(chain.from_iterable(part.texts for part in parts)),
            units=list(chain.from_iterable(units)),
            probes={
                start + row: verdict
                for start, part in zip(starts, parts, strict=False)
                for row, verdict in part.probes.items()
            },
            unknown=sum((part.unknown for part in parts), Counter()),
            **{name: joined(name) for name in _ARRAYS},
        )


_ARRAYS = (
    *("ts", "codes", "scores", "bands", "requested"),
    *("offsets", "items", "timestamps", "below"),
)


class DecisionCodec:
    """Decoder of batches of decisions into columns, with a coder's code for each decision.

    Args:
        coder: coder of decisions into cells.
        coding: the newest coding.
        probes: policy for decisions that call themselves probes.
        mapping: maps messages of another form to events; None where there are none.

    Attributes:
        unknown: names of unknown fields; the caller that stores the decisions records them.
    """

    def __init__(
        self,
        coder: Coder,
        coding: Coding,
        probes: ProbePolicy = NO_KEY,
        mapping: EventMapping | None = None,
    ) -> None:
        self._coder = coder
        self._mapping = mapping
        self._policy = probes
        self._edges = np.array(coding.score_bands, np.float64)
        self._null_band = coding.bands - 1
        self.unknown = UnknownFields()
        self._reader = Reader(FastDecision, self.unknown)

    def read(self, records: RecordBatch, dead_letters: DeadLetterBuffer) -> DecodedDecisions:
        """Return readable decisions of a batch as columns; add others to ``dead_letters``."""
        self._coder.trim()
        parts = records.parts(_TOGETHER)
        return DecodedDecisions.concat([self._read(part, dead_letters) for part in parts])

    def _read(self, records: RecordBatch, dead_letters: DeadLetterBuffer) -> DecodedDecisions:
        """Decode decisions into columns: codes, times, scores and bands, label requests, probes."""
        decoded = self._reader.read(mapped(records, self._mapping), dead_letters)
        decoded, codes = self._code_events(decoded, dead_letters)
        events, n = decoded.events, len(decoded.events)
        ts = _micros([event.decided_at for event in events])
        probes = self._judged(events, codes, ts)
        scores = np.array([event.judge_score for event in events], np.float64).clip(0, 1)
        bands = np.searchsorted(self._edges, scores, side="right")
        return DecodedDecisions(
            texts=_texts([event.decision_id for event in events]),
            units=_texts_or_empty([event.unit for event in events]),
            ts=ts,
            codes=self._without_unsigned(codes, probes),
            scores=scores,
            bands=np.where(np.isnan(scores), self._null_band, bands).astype(np.int64),
            requested=np.fromiter((event.label_requested for event in events), np.bool_, n),
            offsets=decoded.offsets,
            items=decoded.items,
            timestamps=decoded.timestamps,
            probes=probes,
            below=scores < self._coder.floors(codes),
            unknown=decoded.unknown + Counter(self._coder.dropped(codes)),
        )

    def _judged(
        self, events: Sequence[FastDecision], codes: Int64s, ts: Int64s
    ) -> dict[int, ProbeDecision | Doubt]:
        rows = self._coder.probe_rows(codes).tolist()
        return {row: self._policy.judge(events[row], int(ts[row])) for row in rows}

    def _without_unsigned(
        self, codes: Int64s, probes: Mapping[int, ProbeDecision | Doubt]
    ) -> Int64s:
        """Code probes without a valid signature as production, in place, and return the codes."""
        unsigned = [row for row, verdict in probes.items() if verdict is Doubt.UNSIGNED]
        if unsigned:
            codes[unsigned] = self._coder.as_production(codes[unsigned])
        return codes

    def _code_events(
        self, decoded: Decoded[FastDecision], dead_letters: DeadLetterBuffer
    ) -> tuple[Decoded[FastDecision], Int64s]:
        """Return acceptable events and their codes; add the others to ``dead_letters``."""
        keys = keys_of(decoded.events)
        stored_codes = map(self._coder.codes.get, keys, repeat(_NEW))
        codes = np.fromiter(stored_codes, np.int64, len(keys))
        for row in np.flatnonzero(codes == _NEW).tolist():
            try:
                codes[row] = self._code(keys[row], decoded.events[row])
            except RejectedError as error:
                place = int(decoded.offsets[row]), int(decoded.items[row])
                dead_letters.refuse(*place, error.reason, error.field)
        good = np.flatnonzero(codes != _NEW)
        return (decoded, codes) if len(good) == len(codes) else (decoded.take(good), codes[good])

    def _code(self, key: Key, decision: FastDecision) -> int:
        stored = self._coder.codes.get(key)
        return self._coder.code(key, decision) if stored is None else stored


@dataclass(frozen=True, slots=True)
class DecodedLabels:
    """Readable labels as columns; ``other_ids``: neighbouring key's id by (id, decided_at)."""

    labels: LabelColumns
    other_ids: dict[tuple[int, int], int]
    offsets: Int64s
    items: Int64s
    timestamps: Int64s
    unknown: Counter[str]

    @property
    def ts(self) -> Int64s:
        """Return the decided_at of each label's decision, microseconds."""
        return self.labels.ts

    @classmethod
    def concat(cls, parts: Sequence[DecodedLabels]) -> DecodedLabels:
        """Concatenate the columns and ``other_ids`` of at least one part, in the order given."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            LabelColumns.concat([part.labels for part in parts]),
            {key: other_id for part in parts for key, other_id in part.other_ids.items()},
            offsets=np.concatenate([part.offsets for part in parts]),
            items=np.concatenate([part.items for part in parts]),
            timestamps=np.concatenate([part.timestamps for part in parts]),
            unknown=sum((part.unknown for part in parts), Counter()),
        )


class LabelCodec:
    """Decoder of batches of labels into columns, with ids hashed.

    Args:
        hasher: hasher of ids.
        mapping: as for :class:`DecisionCodec`.
        dimensions: names of declared dimensions of bias evaluations.

    Attributes:
        unknown: as for :class:`DecisionCodec`.
        results: takes results of bias evaluations out of a batch, before it is read.
    """

    def __init__(
        self,
        hasher: IdHasher,
        *,
        mapping: EventMapping | None = None,
        dimensions: Collection[str] = (),
    ) -> None:
        self._hash = hasher
        self._mapping = mapping
        self.results = BiasResults(dimensions)
        self.unknown = UnknownFields()
        self._reader = Reader(Label, self.unknown)

    def read(self, records: RecordBatch, dead_letters: DeadLetterBuffer) -> DecodedLabels:
        """Return readable labels of a batch as columns; add others to ``dead_letters``."""
        parts = records.parts(_TOGETHER)
        return DecodedLabels.concat([self._read(part, dead_letters) for part in parts])

    def _read(self, records: RecordBatch, dead_letters: DeadLetterBuffer) -> DecodedLabels:
        """Decode labels into columns: hashed decision, times, rank and what the label says."""
        decoded = self._reader.read(mapped(records, self._mapping), dead_letters)
        events, n = decoded.events, len(decoded.events)

        def column(values: Iterable[int]) -> Int64s:
            return np.fromiter(values, np.int64, n)

        texts = _texts([event.decision_id for event in events])
        reviewers = [f"{event.decision_id}\n{event.reviewer}" for event in events]
        ts = _micros([event.decided_at for event in events])
        labelled_at = _micros([event.labelled_at for event in events])
        labels = LabelColumns(
            ids=self._hash(texts, ts),
            ts=ts,
            complaint=column(event.reason == "complaint" for event in events).astype(np.int8),
            rank=column(KIND_RANKS[event.kind] for event in events).astype(np.int8),
            revision=column(event.version for event in events),
            labelled_at=labelled_at,
            label=self._hash(list(map(_identity, events, labelled_at.tolist())), ts),
            ready=column(_READY[event.ready] for event in events).astype(np.int8),
            blind=column(bool(event.blind) for event in events).astype(np.bool_),
            reviewer=np.maximum(self._hash(reviewers, ts) >> _REVIEWER_SHIFT, 1),
        )
        other_ids = self._hash.across(texts, ts, labels.ids)
        places = decoded.offsets, decoded.items, decoded.timestamps
        return DecodedLabels(labels, other_ids, *places, decoded.unknown)


def _identity(label: Label, labelled_at: int) -> str:
    """Return the label's id and whole content as a text to hash, which decides between ties.

    It has all that distinguishes two labels, since it is the key of waiting labels.
    """
    said = _said(label.kind, label.version, label.ready, label.blind, label.reason)
    return f"{label.label_id}\n{said}\n{labelled_at}\n{label.reviewer}"


@lru_cache(maxsize=1024)
def _said(kind: str, version: int, ready: bool | None, blind: bool | None, reason: str) -> str:
    """Return what many labels have in common as a text, remembered: it is slow to write."""
    return f"{kind}\n{version}\n{ready}\n{bool(blind)}\n{reason}"
