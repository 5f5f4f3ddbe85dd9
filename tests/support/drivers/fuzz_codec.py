"""What must hold for any bytes that a producer sends; tests/fuzz and `make fuzz` check it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import signed_probes
import sqlalchemy as sa
from hostile_events import CHANNELS, NAME, SECRET, TIMESTAMPS, Message, batches
from hypothesis import strategies as st
from pipeline import DECISIONS, LABELS, Pipeline

from consumers import coder as coder_module
from consumers.codec import DecisionCodec, LabelCodec
from consumers.coder import Coder
from consumers.dead_letters import REASONS, DeadLetterBuffer, IdHasher
from consumers.event_time import ClockPolicy
from consumers.events import (
    MAX_EVENTS_PER_MESSAGE,
    MAX_NESTED_BYTES,
    Decision,
    FastDecision,
    Label,
    Versions,
)
from consumers.field_values import value_text
from consumers.probe_signing import ProbePolicy, is_signed
from consumers.shard import Codecs, ShardState
from consumers.tolerance import BYTE_ORDER_MARK, decode_tolerantly
from monitor.core.counts.cells import OTHER, Route, Stratum, content_id, escaped
from monitor.core.counts.coding import Attribute, Coding, CodingHistory
from monitor.core.time import DAY, HOUR, MINUTE
from monitor.flushes import DeadLetter
from monitor.records import RecordBatch, Shard
from monitor.shard_status import Claim, Tallies
from monitor.store import deltas
from monitor.store.deltas import decision_payload

CODING = Coding((Attribute(NAME, CHANNELS),), score_bands=(0.7, 0.9), audit_rates=(1.0, 0.5))
HASHER = IdHasher.with_key(b"key")
NOW = 20_700 * DAY  # in 2026, among what is sent
POLICY = ProbePolicy(signed_probes.KEY.encode(), {signed_probes.DIGEST: frozenset({"formal"})})
MAX_VERSIONS = 8
EACH = 200  # decisions in a batch of the flood
FEW = 50  # longer arrays are the same few bytes again and again
FIELDS = {
    topic: {field.name for field in msgspec.structs.fields(event)} | {""}
    for topic, event in ((DECISIONS, Decision), (LABELS, Label))
}
_HASH = re.compile(r"[0-9a-f]{16}")
_decode_parts = msgspec.json.Decoder(list[msgspec.Raw]).decode

Place = tuple[int, int]


@dataclass(frozen=True)
class Read:
    """What a codec made of a batch: what each readable event means, and the letters."""

    meaning: dict[Place, tuple[object, ...]]
    places: list[Place]
    letters: list[DeadLetter]


class Reading:
    """Codecs of both topics over one dictionary, as a worker has them."""

    def __init__(self, max_versions: int = 10_000) -> None:
        self.coder = Coder(CodingHistory.always(CODING), max_versions)
        self.decisions = DecisionCodec(self.coder, CODING, POLICY)
        self.labels = LabelCodec(HASHER)

    def read(self, batch: RecordBatch) -> Read:
        letters = DeadLetterBuffer(batch, HASHER, most=1_000_000)
        if batch.shard.topic == DECISIONS:
            read: Any = self.decisions.read(batch, letters)
            rows = self._decisions(read)
        else:
            read = self.labels.read(batch, letters)
            columns = (getattr(read.labels, f.name).tolist() for f in fields(read.labels))
            rows = list(zip(*columns, strict=True))
        places = list(zip(read.offsets.tolist(), read.items.tolist(), strict=True))
        stamps = read.timestamps.tolist()
        meaning = {p: (s, *row) for p, s, row in zip(places, stamps, rows, strict=True)}
        places += [(letter.offset, letter.index) for letter in letters.found]
        return Read(meaning, places, letters.found)

    def _decisions(self, read: Any) -> list[tuple[object, ...]]:
        coder = self.coder
        columns = (
            read.ts,
            read.requested,
            coder.cells(read.codes, read.bands, read.ts),
            coder.routes(read.codes),
            coder.keep_probability(read.codes),
        )
        probes = [read.probes.get(row) for row in range(len(read.texts))]
        return list(zip(read.texts, *(c.tolist() for c in columns), probes, strict=True))


def records(topic: str, values: Sequence[Message], start: int = 0, stamp: int = 7) -> RecordBatch:
    offsets = list(range(start, start + len(values)))
    return RecordBatch(Shard(topic, 0), offsets, values, [stamp] * len(values))


def check_codec(topic: str, values: Sequence[Message]) -> None:
    """One batch: conservation, letters without content, and the same however it is cut."""
    whole = Reading().read(records(topic, values))
    _check_places(whole, values)
    for letter in whole.letters:
        check_letter(topic, letter)
    _check_same_one_by_one(topic, whole, values)
    _check_same_event_by_event(topic, whole, values)
    _check_accepted(topic, whole, values)


def check_letter(topic: str, letter: DeadLetter) -> None:
    """A letter is made of closed lists and a hash: nothing of the payload fits into it."""
    assert letter.reason in REASONS, letter
    assert letter.field in FIELDS[topic], letter
    assert letter.payload_hash == "" or _HASH.fullmatch(letter.payload_hash), letter


def _check_places(read: Read, values: Sequence[Message]) -> None:
    """Every event of every message ended once: it was read, or it is a letter."""
    repeated = [place for place, times in Counter(read.places).items() if times > 1]
    assert not repeated, f"ended more than once: {repeated}"
    ended = Counter(offset for offset, _ in read.places)
    for offset, value in enumerate(values):
        items = sorted(item for at, item in read.places if at == offset)
        assert items == list(range(ended[offset]))
        if (expected := _events_in(value)) is not None:
            assert ended[offset] == expected, (value, ended[offset])
        else:
            assert ended[offset] >= 1, value


def _events_in(value: Message) -> int | None:
    """How many events a message holds; None when it is no JSON, so that nobody can say.

    A tombstone holds none: it is counted by itself.
    """
    if value is None:
        return 0
    try:
        content = decode_tolerantly(msgspec.json.decode, value)
    except (ValueError, RecursionError):
        return None
    is_array = value.removeprefix(BYTE_ORDER_MARK).lstrip()[:1] == b"["
    if not isinstance(content, list) or not is_array or len(content) > MAX_EVENTS_PER_MESSAGE:
        return 1
    return len(content)


def _check_same_one_by_one(topic: str, whole: Read, values: Sequence[Message]) -> None:
    reading = Reading()
    meaning: dict[Place, tuple[object, ...]] = {}
    letters: list[DeadLetter] = []
    for offset, value in enumerate(values):
        one = reading.read(records(topic, [value], offset))
        meaning |= one.meaning
        letters += one.letters
    assert meaning == whole.meaning
    assert _sorted(letters) == _sorted(whole.letters)


def _sorted(letters: Sequence[DeadLetter]) -> list[tuple[object, ...]]:
    return sorted((x.offset, x.index, x.reason, x.field, x.payload_hash) for x in letters)


def _check_same_event_by_event(topic: str, whole: Read, values: Sequence[Message]) -> None:
    """An array means what its events mean as messages of their own."""
    reading = Reading()
    for offset, value in enumerate(values):
        parts = _parts(value)
        # An array inside an array is one bad event; alone it would be a message of its own.
        if not 0 < len(parts) <= FEW or any(part.lstrip()[:1] == b"[" for part in parts):
            continue
        alone = reading.read(records(topic, parts))
        expected = {item: row for (at, item), row in whole.meaning.items() if at == offset}
        assert {at: row for (at, _), row in alone.meaning.items()} == expected
        letters = [(x.index, x.reason, x.field) for x in whole.letters if x.offset == offset]
        assert sorted((x.offset, x.reason, x.field) for x in alone.letters) == sorted(letters)


def _parts(value: Message) -> list[bytes]:
    if value is None or value.removeprefix(BYTE_ORDER_MARK).lstrip()[:1] != b"[":
        return []
    try:
        return [bytes(part) for part in decode_tolerantly(_decode_parts, value)]
    except (ValueError, RecursionError):
        return []


def _check_accepted(topic: str, read: Read, values: Sequence[Message]) -> None:
    """Exactly the events that the declared types allow are read, with the cell they mean."""
    check = _check_label if topic == LABELS else _check_decision
    for offset, value in enumerate(values):
        if value is None or _events_in(value) is None:
            continue
        is_array = value.removeprefix(BYTE_ORDER_MARK).lstrip()[:1] == b"["
        parts = _parts(value) if is_array else [value]
        if len(parts) <= FEW:
            for item, part in enumerate(parts):
                check(part, read.meaning.get((offset, item)))


def _check_label(part: bytes, row: tuple[object, ...] | None) -> None:
    assert (row is not None) == (_typed(part, Label) is not None), part


def _check_decision(part: bytes, row: tuple[object, ...] | None) -> None:
    decision = _allowed(part)
    assert (row is not None) == (decision is not None), part
    if row is not None and decision is not None:
        assert (row[1], row[4]) == (str(decision.decision_id), _cell(decision)), part


def _typed(part: bytes, kind: type[Any]) -> Any:
    try:
        return decode_tolerantly(msgspec.json.Decoder(kind).decode, part)
    except (ValueError, RecursionError):
        return None


def _allowed(part: bytes) -> Decision | None:
    """The decision as its documented type has it; of a key that comes twice the last one counts."""
    fast = _typed(part, FastDecision)
    if fast is None:
        return None
    nested = {name: bytes(getattr(fast, name)) for name in ("attributes", "versions")}
    attributes = _typed(nested["attributes"], dict[str, msgspec.Raw])
    if attributes is None:
        return None
    # What is not declared is not looked at, but for whether it is JSON.
    declared = {name: value for name, value in attributes.items() if name == NAME}
    flat = msgspec.structs.asdict(fast) | {
        "attributes": declared, "versions": msgspec.Raw(nested["versions"])
    }  # fmt: skip
    decision: Decision | None = _typed(msgspec.json.encode(flat), Decision)
    if decision is None:
        return None
    if max(map(len, nested.values())) > MAX_NESTED_BYTES:
        return None
    return decision if _are_versions(nested["versions"], decision.versions or Versions()) else None


def _are_versions(part: bytes, versions: Versions) -> bool:
    """The pattern lets a final newline through, and names that are unknown may be no UTF-8."""
    texts = map(str, msgspec.structs.astuple(versions))
    readable = part == b"null" or _typed(part, dict[str, msgspec.Raw]) is not None
    return readable and not any(text.endswith("\n") for text in texts)


def _clamped(score: float | None) -> float | None:
    return None if score is None else min(max(0.0, score), 1.0)


def _cell(decision: Decision) -> int:
    said = decision.attributes.get(NAME)
    value = CODING.attributes[0].code(None if said is None else value_text(said))
    v = decision.versions or Versions()
    parts = {"judge": v.judge, "rubric": v.rubric, "policy": v.policy, "router": v.router}
    if decision.threshold is not None:
        parts["threshold"] = repr(min(max(0.0, decision.threshold), 1.0))
    version = ",".join(f"{name}={escaped(text)}" for name, text in parts.items() if text)
    stratum = Stratum(
        Route[decision.route.upper()],
        CODING.band(_clamped(decision.judge_score)),
        CODING.rate_index(min(decision.audit_p, 1.0)),
        decision.evidence_passed,
        decision.traffic == "probe" and is_signed(decision, POLICY.key or b""),
    ).code
    return content_id(f"{content_id(f'{NAME}={value}')}/{content_id(version)}/{stratum}")


# A worker's shard

SHARED = Reading(MAX_VERSIONS)
"""One dictionary for all inputs, as a worker keeps it for months."""


def check_shard(
    topic: str, values: Sequence[Message], cuts: Sequence[int], stamp: int, live: bool
) -> None:
    """A shard's totals close after any batches, and what a flush would write can be packed."""
    codecs = Codecs(
        decisions=SHARED.decisions,
        labels=SHARED.labels,
        coder=SHARED.coder,
        hasher=HASHER,
        clock=ClockPolicy(live=live, horizon=30 * DAY, max_early=5 * MINUTE),
        lateness=10 * MINUTE,
        dedupe_window=HOUR,
    )
    claim = Claim(Shard(topic, 0), 1, 0, 0, None, None, Tallies())
    state = ShardState.from_claim(claim, codecs, topic == DECISIONS, 0)
    edges = [0, *sorted(cut % (len(values) + 1) for cut in cuts), len(values)]
    for first, end in pairwise(edges):
        state.add(records(topic, values[first:end], first, stamp), NOW)
    state.judge_aside(NOW, None, ended=True)
    state.advance(NOW)
    _check_totals(state, topic, len(values))
    check_dictionary(SHARED.coder)


def _check_totals(state: ShardState, topic: str, messages: int) -> None:
    flush = state.flush()
    totals = flush.tallies
    assert (totals.messages, totals.gaps, flush.next_offset) == (messages, 0, messages)
    letters = sum(totals.dead_letters.values())
    assert letters == len(flush.dead_letters) + totals.unkept
    assert all(letter.reason in REASONS for letter in flush.dead_letters)
    if flush.labels is not None:
        # What becomes of a label is known when it has been joined.
        assert totals.events == len(flush.labels) + letters
        return
    assert totals.balance == 0
    if flush.decisions is None:
        return
    body = decision_payload(flush.decisions, flush.probes)
    again = deltas.decode(deltas.encode(body))
    assert again.probes == tuple(flush.probes)
    assert again.values.sum() == body.values.sum()
    assert int(again.values[:, 0].sum()) == totals.counted
    assert topic == DECISIONS


def check_dictionary(coder: Coder) -> None:
    """No stream of values can make the dictionary of a worker grow for ever."""
    assert len(coder.codes) <= coder_module.MAX_KEYS
    known = coder.dictionary
    assert len(known.versions) <= MAX_VERSIONS + 1
    assert set(known.atoms.values()) <= {f"{NAME}={v}" for v in (*CHANNELS, OTHER, "__missing__")}
    coder.settled()
    assert not coder.dictionary.cells


# The whole pipeline


PATIENT = {"consumers.ingest.DEAD_LETTER_MIN_EVENTS": 1_000_000}


def check_pipeline(decisions: Sequence[Message], labels: Sequence[Message]) -> None:
    """Both topics through the store and the evaluator: nothing is lost, nothing leaks."""
    with TemporaryDirectory() as folder, Pipeline(Path(folder), constants=PATIENT) as pipeline:
        pipeline.broker.produce(DECISIONS, decisions)
        pipeline.broker.produce(LABELS, labels)
        pipeline.worker()
        pipeline.drain()
        pipeline.fold()
        pipeline.check_conservation()
        check_store_says_nothing(pipeline.engine)


def check_store_says_nothing(engine: sa.Engine) -> None:
    """The sentinel that hostile payloads carry is in no row but as a listed version.

    Versions are names that the operator publishes: those alone are kept as they are.
    """
    with engine.connect() as connection:
        names = sa.inspect(connection).get_table_names()
        for name in names:
            query = sa.text(f"SELECT * FROM {name}")
            for row in connection.execute(query):
                if name != "version":
                    assert SECRET.lower() not in repr(tuple(row)).lower(), name


# Memory


def flood(batches_of: int, seed: int) -> int:
    """Decisions of which no two say the same, through the dictionary that lives for ever."""
    rng = np.random.default_rng(seed)
    for _ in range(batches_of):
        padding = b" " * int(rng.choice([0, 3_900]))
        values = [_unique(rng, padding) for _ in range(EACH)]
        assert len(SHARED.read(records(DECISIONS, values)).meaning) == EACH
        check_dictionary(SHARED.coder)
    return batches_of * EACH


def _unique(rng: np.random.Generator, padding: bytes) -> bytes:
    text = rng.bytes(16).hex().encode()
    numbers = rng.uniform(0.001, 1, 3).round(9).tolist()
    return (
        b'{"decision_id":"%b","decided_at":"2026-06-01T10:05:00Z","route":"auto_serve",'
        b'"judge_score":%r,"threshold":%r,"evidence_passed":true,"label_requested":true,'
        b'"attributes":{%b"channel":"%b"},"audit_p":%r,'
        b'"versions":{"judge":"%b","rubric":"r","policy":"p","router":"t"}}'
        % (text, numbers[0], numbers[1], padding, text * 4, numbers[2], text)
    )


BATCH = {topic: st.tuples(st.just(topic), batches(topic)) for topic in (DECISIONS, LABELS)}
CODEC = st.one_of(*BATCH.values())
SHARD = st.one_of(
    *(
        st.tuples(st.just(t), batches(t), st.lists(st.integers(0, 9), max_size=2), TIMESTAMPS,
                  st.booleans())
        for t in BATCH
    )
)  # fmt: skip
PIPELINE = st.tuples(batches(DECISIONS), batches(LABELS))
