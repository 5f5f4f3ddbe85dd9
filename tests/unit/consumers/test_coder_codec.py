"""From messages to columns: the quick path and the careful one say the same."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import lesson
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from signed_probes import DIGEST, KEY, VARIANTS, is_probe, signed

from consumers import codec as codec_module
from consumers import coder as coder_module
from consumers.codec import DecisionCodec, LabelCodec
from consumers.coder import Coder
from consumers.dead_letters import REASONS, DeadLetterBuffer, IdHasher
from consumers.events import FastDecision
from consumers.probe_signing import Doubt, ProbePolicy
from monitor.core.counts.cells import Route, Stratum, content_id, decode_strata
from monitor.core.counts.coding import Attribute, Coding, CodingHistory, CodingVersion
from monitor.core.probes.probe_decisions import ProbeDecision
from monitor.core.time import to_micros
from monitor.flushes import DeadLetter
from monitor.records import RecordBatch, Shard

CODING = Coding(
    (Attribute("channel", ("chat", "email")), Attribute("release", ("j1",), "judge")),
    score_bands=(0.7, 0.9),
    audit_rates=(1.0, 0.5),
)
SHARD = Shard("decisions", 0)
HASHER = IdHasher.with_key(b"key")


def records(values: list[bytes | None], start: int = 0) -> RecordBatch:
    offsets = list(range(start, start + len(values)))
    return RecordBatch(SHARD, offsets, values, [7] * len(values))


def event(key: str = "a", **more: Any) -> dict[str, Any]:
    score = more.pop("score", 0.8)
    attributes = more.pop("attributes", {"channel": "chat"})
    return lesson.decision(key, lesson.START, score, **{"attributes": attributes, **more})


def codec(coding: Coding = CODING, max_versions: int = 64) -> tuple[DecisionCodec, Coder]:
    coder = Coder(CodingHistory.always(coding), max_versions)
    return DecisionCodec(coder, coding), coder


def read_all(codec: Any, batch: RecordBatch) -> tuple[Any, list[DeadLetter]]:
    letters = DeadLetterBuffer(batch, HASHER)
    return codec.read(batch, letters), letters.found


def count(reader: DecisionCodec, coder: Coder, *events: dict[str, Any]) -> None:
    """Read the events and look their cells up, as for decisions that are counted."""
    read = read_all(reader, records(dump(*events)))[0]
    coder.cells(read.codes, read.bands, read.ts)


def dump(*events: dict[str, Any]) -> list[bytes | None]:
    return [json.dumps(one).encode() for one in events]


def test_a_cell_is_content() -> None:
    """The id follows from the meaning alone, so every worker agrees without asking."""
    reader, coder = codec()
    read = read_all(reader, records(dump(event(audit_p=0.6))))[0]
    (cell,) = coder.cells(read.codes, read.bands, read.ts).tolist()
    atom = content_id("channel=chat,release=j1")
    version = content_id("judge=j1,rubric=r1,policy=p1,router=t1,threshold=0.7")
    stratum = Stratum(Route.AUTO_SERVE, 1, 1).code
    assert cell == content_id(f"{atom}/{version}/{stratum}")
    assert coder.dictionary.cells == {cell: (atom, version, stratum)}
    assert set(coder.dictionary.atoms) == {atom}
    assert set(coder.dictionary.versions) == {version}
    coder.settled()
    assert not coder.dictionary.atoms
    assert not coder.dictionary.cells


def test_a_code_means_another_cell_in_another_era() -> None:
    """One code, one dictionary entry; which cell it is depends on when the decision was made."""
    hour = 3_600_000_000
    start = (to_micros(lesson.START) // hour + 1) * hour
    channel, tier = Attribute("channel", ("chat", "email", "fax")), Attribute("tier", ("a",))
    later = replace(CODING, attributes=(channel, *CODING.attributes[1:], tier))
    eras = CodingHistory((CodingVersion(0, CODING), CodingVersion(start, later)))
    coder = Coder(eras, 64)
    reader = DecisionCodec(coder, eras.newest)
    said = {"channel": "fax", "tier": "a"}
    read = read_all(reader, records(dump(event(attributes=said), event(attributes={}))))[0]
    codes, bands = read.codes[[0, 0, 0, 1, 1]], read.bands[[0, 0, 0, 1, 1]]
    ts = np.array([-1, start - 1, start, start - 1, start + 1])
    cells = coder.cells(codes, bands, ts)
    meaning = coder.dictionary.cells
    assert [coder.dictionary.atoms[meaning[cell][0]] for cell in cells.tolist()] == [
        "channel=__other__,release=j1",
        "channel=__other__,release=j1",
        "channel=fax,release=j1,tier=a",
        "channel=__missing__,release=j1",
        "channel=__missing__,release=j1,tier=__missing__",
    ]
    alone, plain = Coder(CodingHistory.always(CODING), 64), DecisionCodec(coder, CODING)
    again = read_all(DecisionCodec(alone, CODING), records(dump(event())))[0]
    read = read_all(plain, records(dump(event())))[0]
    assert alone.cells(again.codes, again.bands, again.ts) == coder.cells(
        read.codes, read.bands, read.ts
    )
    assert coder.unknown_values(codes) == {}


def test_columns_of_a_decision() -> None:
    reader, _ = codec()
    read = read_all(reader, records(dump(event("x", label_requested=False, score=0.95)), 41))[0]
    assert read.texts == ["x"]
    assert read.ts.tolist() == [to_micros(lesson.START)]
    assert read.requested.tolist() == [False]
    assert (read.offsets.tolist(), read.items.tolist(), read.timestamps.tolist()) == (
        [41], [0], [7],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("score", "band"), [(0, 0), (0.6999, 0), (0.7, 1), (0.8999, 1), (0.9, 2), (1, 2), (None, 3)]
)
def test_score_bands(score: float | None, band: int) -> None:
    reader, _ = codec()
    read = read_all(reader, records(dump({**event(), "judge_score": score})))[0]
    assert read.bands.tolist() == [band] == [CODING.band(score)]


@given(st.integers(0, 10**9), st.integers(0, 30))
def test_arrays_and_single_messages_read_alike(seed: int, size: int) -> None:
    pick = random.Random(seed)
    events = [
        event(
            f"d{i}",
            score=pick.random(),
            attributes=pick.choice(({}, {"channel": "email"}, {"channel": f"v{i}"})),
            audit_p=pick.choice((1.0, 0.6)),
        )
        | pick.choice(({}, {}, {}, {"route": "x"}, {"judge_score": "1"}))
        for i in range(size)
    ]
    single, coder = codec()
    one, refused = read_all(single, records(dump(*events)))
    array: list[bytes | None] = [f"[{','.join(json.dumps(e) for e in events)}]".encode()]
    again, refused_again = read_all(DecisionCodec(coder, CODING), records(array))
    assert one.texts == again.texts
    assert one.offsets.tolist() == again.items.tolist()
    for name in ("ts", "codes", "bands", "requested"):
        assert np.array_equal(getattr(one, name), getattr(again, name)), name
    letters = [(x.offset, x.reason, x.field) for x in refused]
    assert letters == [(x.index, x.reason, x.field) for x in refused_again]
    assert {letter[1] for letter in letters} <= set(REASONS)


def test_a_batch_in_parts_reads_like_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units are sent in the second part only; the row of a probe counts from its own part."""
    events = [event(f"d{i}", score=i / 10) for i in range(8)]
    events[4]["unit"], events[5]["unit"] = "u-1", 7
    events[6] |= PROBE
    whole = read_all(codec()[0], records(dump(*events)))[0]
    monkeypatch.setattr(codec_module, "_TOGETHER", 3)
    read = read_all(codec()[0], records(dump(*events)))[0]
    assert read.texts == whole.texts == [f"d{i}" for i in range(8)]
    assert read.units == whole.units == ["", "", "", "", "u-1", "7", "", ""]
    assert read.probes == whole.probes == {6: Doubt.UNSIGNED}
    for name in ("ts", "codes", "scores", "bands", "requested", "offsets", "items", "below"):
        assert np.array_equal(getattr(read, name), getattr(whole, name)), name


def test_labels_in_parts_read_like_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = dump(*(label(label_id=f"l{i}", decision_id=f"d{i}", version=i + 1) for i in range(8)))
    whole = read_all(LabelCodec(HASHER), records(rows))[0]
    monkeypatch.setattr(codec_module, "_TOGETHER", 3)
    read = read_all(LabelCodec(HASHER), records(rows))[0]
    assert read.labels.revision.tolist() == [*range(1, 9)]
    assert read.labels.ids.tolist() == whole.labels.ids.tolist()
    assert read.offsets.tolist() == whole.offsets.tolist() == [*range(8)]


def test_an_event_without_attributes_leaves_the_others_in_their_places() -> None:
    bad = event("bad")
    del bad["attributes"]
    mails = event("c", attributes={"channel": "email"})
    read, letters = read_all(codec()[0], records(dump(event("a"), bad, mails, event("d"))))
    assert read.texts == ["a", "c", "d"]
    assert read.offsets.tolist() == [0, 2, 3]
    first, second, third = read.codes.tolist()
    assert first == third != second
    assert min(first, second) >= 0
    assert [(one.offset, one.index, one.reason) for one in letters] == [(1, 0, "missing_field")]


def test_a_message_without_a_value_holds_no_event() -> None:
    read, letters = read_all(codec()[0], records([None, *dump(event())], 41))
    assert read.offsets.tolist() == [42]
    assert letters == []


def test_the_dictionary_is_emptied_between_batches_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coder_module, "MAX_KEYS", 10)
    reader, coder = codec()
    plain, reference = codec()
    for batch in range(30):
        events = dump(*(event(f"d{i}", attributes={"channel": f"v{batch}-{i % 4}"}) for i in
                        range(8)))  # fmt: skip
        read, wanted = (read_all(x, records(events))[0] for x in (reader, plain))
        found = coder.cells(read.codes, read.bands, read.ts)
        assert np.array_equal(found, reference.cells(wanted.codes, wanted.bands, wanted.ts))
        assert len(coder.codes) < 10 + 8


def test_negative_zero_is_no_version_of_its_own() -> None:
    texts = []
    for first, second in ((0.0, -0.0), (-0.0, 0.0)):
        reader, coder = codec()
        count(reader, coder, event(threshold=first), event(threshold=second))
        texts.append(sorted(coder.dictionary.versions.values()))
    assert texts[0] == texts[1] == ["judge=j1,rubric=r1,policy=p1,router=t1,threshold=0.0"]


def test_versions_beyond_the_cap_are_other() -> None:
    reader, coder = codec(max_versions=3)
    count(reader, coder, *(event(threshold=i / 10) for i in range(6)))
    assert len(coder.dictionary.versions) == 4
    assert "__other__" in coder.dictionary.versions.values()
    known = Coder(CodingHistory.always(CODING), 3, ["a", "b", "c"])
    count(DecisionCodec(known, CODING), known, event())
    assert list(known.dictionary.versions.values()) == ["__other__"]


def test_versions_that_have_gone_make_room() -> None:
    reader, coder = codec(max_versions=2)
    count(reader, coder, *(event(threshold=i / 10) for i in range(2)))
    assert not coder.crowded
    count(reader, coder, event(threshold=0.5))
    assert coder.crowded
    coder.settled()
    coder.renew_versions(["__other__"])
    assert not coder.crowded
    count(reader, coder, event(threshold=0.5))
    (text,) = coder.dictionary.versions.values()
    assert text.endswith("threshold=0.5")


def test_keep_probability_brings_every_rate_to_the_grid() -> None:
    rates = (1.0, 0.9, 0.6, 0.5, 0.2)
    reader, coder = codec()
    read = read_all(reader, records(dump(*(event(audit_p=p) for p in rates))))[0]
    keep = coder.keep_probability(read.codes)
    assert (keep * rates).tolist() == pytest.approx([1.0, 0.5, 0.5, 0.5, 0.2])


def test_unknown_values_are_counted_by_attribute() -> None:
    reader, coder = codec()
    read = read_all(reader, records(dump(event(), event(attributes={"channel": "fax"}))))[0]
    assert coder.unknown_values(read.codes) == {"channel": 1}


AT = np.zeros(1, np.int64)


def test_ids_are_keyed_hashes_of_63_bits() -> None:
    hasher, other = IdHasher.with_key(b"key"), IdHasher.with_key(b"another")
    (found,) = hasher(["x"], AT).tolist()
    wanted = blake2b(b"x", digest_size=8, key=b"key").digest()
    assert found == int.from_bytes(wanted, "big") >> 1
    assert found >= 0
    assert hasher(["x"], AT).tolist() == [found] != other(["x"], AT).tolist()
    assert hasher([], AT[:0]).tolist() == []


def label(**more: Any) -> dict[str, Any]:
    return lesson.label("a", lesson.START, True) | more


def test_columns_of_labels() -> None:
    hasher = IdHasher.with_key(b"key")
    rows = [
        label(),
        label(ready=None, reason="complaint", kind="retraction", version=9, blind=True),
        label(ready=False, blind=False, kind="adjudication"),
    ]
    read = read_all(LabelCodec(hasher), records(dump(*rows)))[0].labels
    assert read.ids.tolist() == hasher(["a"] * 3, read.ts).tolist()
    assert read.ready.tolist() == [1, 2, 0]
    assert read.complaint.tolist() == [0, 1, 0]
    assert read.rank.tolist() == [0, 3, 2]
    assert read.revision.tolist() == [1, 9, 1]
    assert read.blind.tolist() == [False, True, False]
    assert (read.labelled_at - read.ts).tolist() == [20 * 60 * 10**6] * 3


@pytest.mark.parametrize(
    "change",
    [{"label_id": "other"}, {"ready": False}, {"version": 2}, {"kind": "correction"},
     {"reason": "complaint"}, {"labelled_at": "2026-06-01T12:00:00Z"}, {"blind": True},
     {"reviewer": "someone else"}],
)  # fmt: skip
def test_labels_that_differ_are_told_apart(change: dict[str, Any]) -> None:
    """Waiting labels are kept by this hash: two that count differently must not be one."""
    read = read_all(LabelCodec(HASHER), records(dump(label(), label(**change))))[0].labels
    assert len(set(read.label.tolist())) == 2


@pytest.mark.parametrize("change", [{"labelled_at": "2026-06-01T15:25:00+05:00"}, {"blind": False}])
def test_the_same_label_said_differently_is_one(change: dict[str, Any]) -> None:
    read = read_all(LabelCodec(HASHER), records(dump(label(), label(**change))))[0].labels
    assert len(set(read.label.tolist())) == 1


def test_a_reviewer_is_told_from_another_of_the_same_decision_only() -> None:
    """Short, so that it is no name; of the decision too, so that nobody's labels can be listed."""
    one, other = {"reviewer": "one"}, {"reviewer": "two"}
    rows = [label(**one), label(**one, label_id="b"), label(**other)]
    rows += [label(**one, decision_id=f"d{number}") for number in range(50)]
    read = read_all(LabelCodec(HASHER), records(dump(*rows)))[0].labels
    first, again, another, *elsewhere = read.reviewer.tolist()
    assert first == again != another
    assert len({first, *elsewhere}) == 51
    assert all(0 < one < 2**31 for one in read.reviewer.tolist())


def test_dead_letters_of_a_message_share_its_keyed_hash() -> None:
    reader, _ = codec()
    good, bad = dump(event(), event(route="x"))
    assert good
    assert bad
    array = b"[" + good + b"," + bad + b"," + bad + b"]"
    _, letters = read_all(reader, records([array, bad, bad]))
    of_array, of_bad = HASHER.hash_payload(array), HASHER.hash_payload(bad)
    assert [x.payload_hash for x in letters] == [of_array, of_array, of_bad, of_bad]
    assert IdHasher.with_key(b"another key").hash_payload(bad) != of_bad


POLICY = ProbePolicy(KEY.encode(), {DIGEST: frozenset(VARIANTS)})
PROBE = {"traffic": "probe", "pair_id": "p1", "variant": "formal", "probe_set": DIGEST}
KINDS = [{}, {"attributes": {"channel": "fax"}}, {"audit_p": 0.6}, {"evidence_passed": False}]


@pytest.mark.parametrize("more", KINDS)
def test_an_unsigned_probe_is_what_it_would_be_without_calling_itself_one(
    more: dict[str, Any],
) -> None:
    coder = Coder(CodingHistory.always(CODING), 64)
    reader = DecisionCodec(coder, CODING, POLICY)
    plain, unsigned = event(**more), event(**more) | PROBE
    events = [plain, unsigned, unsigned | {"signature": "0" * 64}, signed(unsigned)]
    read = read_all(reader, records(dump(*events)))[0]
    cells = coder.cells(read.codes, read.bands, read.ts).tolist()
    assert cells[0] == cells[1] == cells[2] != cells[3]
    strata = [decode_strata(np.array([coder.dictionary.cells[cell][2]])) for cell in cells]
    assert [bool(one.probe[0]) for one in strata] == [False, False, False, True]
    assert {one.route[0] for one in strata} == {Route.AUTO_SERVE}
    assert len(set(coder.keep_probability(read.codes).tolist())) == 1
    assert coder.unknown_values(read.codes).get("channel", 0) == (4 if "attributes" in more else 0)
    assert [*read.probes] == [1, 2, 3]
    assert [read.probes[1], read.probes[2]] == [Doubt.UNSIGNED] * 2


def test_only_what_calls_itself_a_probe_is_looked_at() -> None:
    """No row of production traffic costs more for it; nothing at all before the first probe."""
    coder, seen = Coder(CodingHistory.always(CODING), 64), list[str]()

    class Policy(ProbePolicy):
        def judge(self, decision: FastDecision, at: int) -> ProbeDecision | Doubt:
            seen.append(str(decision.decision_id))
            return super().judge(decision, at)

    reader = DecisionCodec(coder, CODING, Policy(KEY.encode()))
    plain = [event(f"d{i}") for i in range(50)]
    read = read_all(reader, records(dump(*plain)))[0]
    assert (seen, read.probes) == ([], {})
    assert coder.probe_rows(read.codes).tolist() == []
    read_all(reader, records(dump(*plain, event("x") | PROBE, *plain, signed(event("y") | PROBE))))
    assert seen == ["x", "y"]
    read_all(reader, records(dump(*plain)))
    assert seen == ["x", "y"]


@given(st.integers(0, 10**9), st.integers(0, 30))
def test_arrays_batches_and_refused_neighbours_do_not_change_who_is_a_probe(
    seed: int, size: int
) -> None:
    pick = random.Random(seed)
    events = []
    for i in range(size):
        one = event(f"d{i}", attributes=pick.choice(({}, {"channel": f"v{i % 3}"})))
        one |= pick.choice(({}, PROBE, PROBE | {"variant": "pirate"}))
        one = signed(one) if pick.random() < 0.6 else one
        events.append(one | pick.choice(({}, {}, {}, {"route": "x"}, {"attributes": {"no": "x"}})))
    read = read_all(*_with(records(dump(*events))))[0]
    found = dict(zip(read.texts, _said(read), strict=True))
    cuts = sorted(pick.sample(range(size + 1), min(2, size + 1)))
    parts = [events[: cuts[0]], events[cuts[0] : cuts[-1]], events[cuts[-1] :]]
    arrays: list[bytes | None] = [json.dumps(part).encode() for part in parts if part]
    again = read_all(*_with(records(arrays)))[0]
    assert dict(zip(again.texts, _said(again), strict=True)) == found
    for one in events:
        if one["decision_id"] in found and "probe" in one.values():
            is_signed = found[one["decision_id"]] is not Doubt.UNSIGNED
            assert is_signed == is_probe(one)


def _with(batch: RecordBatch) -> tuple[DecisionCodec, RecordBatch]:
    return DecisionCodec(Coder(CodingHistory.always(CODING), 64), CODING, POLICY), batch


def _said(read: Any) -> list[ProbeDecision | Doubt | None]:
    return [read.probes.get(row) for row in range(len(read.texts))]
