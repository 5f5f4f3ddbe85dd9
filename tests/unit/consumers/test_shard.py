"""One owned shard between two flushes: what it adds, and where it says it stands."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import lesson
import pytest
from signed_probes import DIGEST, KEY, VARIANTS, signed

from consumers.codec import DecisionCodec, LabelCodec
from consumers.coder import Coder
from consumers.dead_letters import IdHasher
from consumers.event_time import ClockPolicy
from consumers.events import MAX_EVENTS_PER_MESSAGE
from consumers.probe_signing import Doubt, ProbePolicy
from consumers.shard import Codecs, ShardState
from monitor.core.counts.coding import Attribute, Coding, CodingHistory
from monitor.core.expected_arrivals import SLOT
from monitor.core.time import HOUR, MINUTE, to_micros
from monitor.flushes import LabelRequest
from monitor.records import RecordBatch, Shard
from monitor.shard_status import Claim, Tallies

CODING = Coding((Attribute("channel", ("chat",)),), (0.7,), (1.0, 0.5))
DECISIONS, LABELS = Shard("decisions", 0), Shard("labels", 0)
T0 = to_micros(lesson.START)
NOW = T0 + 30 * HOUR
POLICY = ProbePolicy(KEY.encode(), {DIGEST: frozenset(VARIANTS)})


def codecs() -> Codecs:
    coder, hasher = Coder(CodingHistory.always(CODING), 64), IdHasher.with_key(b"key")
    return Codecs(
        decisions=DecisionCodec(coder, CODING, POLICY),
        labels=LabelCodec(hasher),
        coder=coder,
        hasher=hasher,
        clock=ClockPolicy(live=True, horizon=720 * HOUR, max_early=5 * MINUTE),
        lateness=10 * MINUTE,
        dedupe_window=HOUR,
    )


def claim(shard: Shard = DECISIONS, **more: Any) -> Claim:
    fields = {"epoch": 1, "next_offset": 10, "start_offset": 10,
              "max_decided_at": None, "watermark": None, "tallies": Tallies()}  # fmt: skip
    return Claim(shard=shard, **{**fields, **more})


def state(shared: Codecs | None = None, shard: Shard = DECISIONS) -> ShardState:
    return ShardState.from_claim(claim(shard), shared or codecs(), shard == DECISIONS, 10)


def event(key: str, **more: Any) -> bytes:
    attributes = {"channel": "chat"}
    return json.dumps(
        lesson.decision(key, lesson.START, 0.8, attributes=attributes, **more)
    ).encode()


def records(values: list[bytes | None], offsets: list[int], high: int | None = None) -> RecordBatch:
    return RecordBatch(DECISIONS, offsets, values, [-1] * len(values), high)


def test_totals_close_over_gaps_duplicates_and_bad_events() -> None:
    one = state()
    one.add(records([event("a"), event("a"), b"{", None], [10, 12, 13, 17], high=20), NOW)
    totals = one.tallies
    assert (totals.messages, totals.tombstones, totals.gaps, totals.events) == (4, 1, 4, 3)
    assert (totals.counted, totals.duplicates) == (1, 1)
    assert totals.dead_letters == {"malformed_json": 1}
    assert totals.balance == 0
    assert one.next_offset - 10 == totals.messages + totals.gaps
    assert one.dirty
    assert not one.caught_up
    assert one.buffered == 3
    flush = one.flush()
    assert (flush.expected_offset, flush.next_offset) == (10, 18)
    assert [(x.offset, x.reason) for x in flush.dead_letters] == [(13, "malformed_json")]


def test_a_flush_changes_nothing_until_it_is_settled() -> None:
    """A fenced flush is repeated for the shards that are still ours."""
    one = state()
    one.add(records([event("a")], [10]), NOW)
    first, second = one.flush(), one.flush()
    first.tallies.counted += 100  # the store adds to its copy
    assert second.tallies.counted == 1
    assert second.decisions is not None
    assert len(second.decisions.ts) == 1
    one.flushed(second.tallies)
    assert not one.dirty
    assert one.buffered == 0
    assert one.flush().decisions is None


def test_the_first_event_of_history_waits_until_nothing_follows_for_now() -> None:
    shared = codecs()
    history = replace(shared.clock, live=False)
    one = state(replace(shared, clock=history))
    one.add(records([event("a")], [10]), NOW)
    assert one.tallies.counted == 0
    assert one.next_offset == 10
    one.judge_aside(NOW, None)
    assert one.tallies.counted == 1
    assert one.next_offset == 11
    one.judge_aside(NOW, None)
    assert one.tallies.events == 1, "nothing waits any more"


def test_nothing_at_all() -> None:
    one = state()
    one.add(records([], [], high=10), NOW)
    assert not one.dirty
    assert one.caught_up
    assert not one.holds_back
    assert one.tallies == Tallies()


def test_what_is_pending_and_hashed() -> None:
    shared = codecs()
    one = state(shared)
    one.add(records([event("a"), event("b", label_requested=False)], [10, 11]), NOW)
    columns = one.flush().decisions
    assert columns is not None
    assert columns.request.tolist() == [LabelRequest.KEPT, LabelRequest.NONE]
    assert columns.ids.tolist() == shared.hasher(["a", "b"], columns.ts).tolist()
    assert len(columns.keys) == 2


def test_duplicates_are_removed_in_every_stratum_alike() -> None:
    one = state()
    values = [event("a"), event("b", label_requested=False), event("c", route="human_review")]
    one.add(records(values * 2, list(range(10, 16))), NOW)  # type: ignore[arg-type]
    assert (one.tallies.counted, one.tallies.duplicates) == (3, 3)
    assert one.tallies.repeated == {"auto_serve": 1, "human_review": 1}


def test_thinned_requests_are_flagged_and_not_requested() -> None:
    one = state()
    values = [event(f"d{i}", audit_p=0.8) for i in range(400)]
    one.add(records(values, list(range(10, 410))), NOW)  # type: ignore[arg-type]
    columns = one.flush().decisions
    assert columns is not None
    kept = columns.request == LabelRequest.KEPT
    assert (columns.request[~kept] == LabelRequest.THINNED).all()
    assert 0.5 < kept.mean() < 0.75  # 0.5 / 0.8 of them


@pytest.mark.parametrize("live", [True, False])
def test_a_watermark_is_beyond_the_wall_clock_in_history_alone(live: bool) -> None:
    """The newest event of all may be one that another worker believed, by a clock of its own."""
    shared = codecs()
    one = state(replace(shared, clock=replace(shared.clock, live=live)))
    assert one.advance(NOW, NOW + HOUR)
    assert one.watermark == NOW - 10 * MINUTE + (0 if live else HOUR)


def test_a_watermark_never_goes_back() -> None:
    one = state()
    assert not one.advance(NOW)
    assert one.watermark is None
    one.add(records([event("a")], [10]), NOW)
    assert one.advance(NOW)
    assert one.watermark == T0 - 10 * MINUTE
    assert not one.advance(NOW, T0 - HOUR)
    assert one.advance(NOW, T0 + HOUR)
    assert not one.advance(NOW)
    assert one.watermark == T0 + 50 * MINUTE


def test_position_beyond_control_records_is_caught_up() -> None:
    one = state()
    one.add(records([event("a")], [10], high=12), NOW)
    assert not one.caught_up
    one.position = 12
    assert one.caught_up
    assert one.holds_back


def test_labels_are_kept_apart_from_decisions() -> None:
    one = state(shard=LABELS)
    label = json.dumps(lesson.label("a", lesson.START, True)).encode()
    one.add(RecordBatch(LABELS, [10, 11], [label, b"x"], [-1, -1]), NOW)
    flush = one.flush()
    assert flush.decisions is None
    assert flush.labels is not None
    assert len(flush.labels) == 1
    assert one.tallies.events == 2
    assert one.tallies.balance == 1  # the store says where the label ended


def test_a_label_of_an_unbelievable_time_is_left_out_alone() -> None:
    one = state(shard=LABELS)
    moments = (lesson.START, lesson.START + timedelta(days=9), lesson.START + timedelta(hours=1))
    labels = [
        json.dumps(lesson.label(key, at, True)) for key, at in zip("abc", moments, strict=True)
    ]
    one.add(RecordBatch(LABELS, [10, 11, 12], [x.encode() for x in labels], [-1] * 3), NOW)
    flush = one.flush()
    assert flush.labels is not None
    assert flush.labels.ts.tolist() == [T0, T0 + HOUR]
    assert [(letter.offset, letter.reason) for letter in flush.dead_letters] == [(11, "future")]


def probe(key: str, variant: str = "formal", **more: Any) -> dict[str, Any]:
    said = {"traffic": "probe", "pair_id": "p1", "variant": variant, "probe_set": DIGEST}
    at = more.pop("at", lesson.START)
    return lesson.decision(key, at, 0.8, attributes={"channel": "chat"}, **said, **more)


def dump(*events: dict[str, Any]) -> list[bytes | None]:
    return [json.dumps(one).encode() for one in events]


def test_a_probe_is_kept_once_and_only_if_it_was_counted() -> None:
    """Not a copy, nor one that the clock refuses."""
    one = state()
    late = lesson.START - timedelta(hours=721)
    first, other = signed(probe("a")), signed(probe("b", "conversational"))
    one.add(records(dump(first, other, first, signed(probe("c", at=late))), [10, 11, 12, 13]), NOW)
    one.add(records(dump(other), [14]), NOW)
    assert [p.variant for p in one.flush().probes] == ["formal", "conversational"]
    assert [p.at for p in one.flush().probes] == [T0, T0]
    assert (one.tallies.counted, one.tallies.duplicates) == (2, 2)
    assert one.tallies.dead_letters == {"too_old": 1}
    one.flushed(one.flush().tallies)
    assert one.flush().probes == []


def test_doubts_are_told_when_they_are_stored_and_once() -> None:
    one = state()
    undeclared = signed(probe("u", "pirate"))
    values = dump(probe("x"), probe("x"), probe("y"), undeclared, undeclared, signed(probe("a")))
    one.add(records(values, list(range(10, 16))), NOW)
    told = one.flushed(one.flush().tallies).doubts
    assert told == {Doubt.UNSIGNED: 2, Doubt.UNDECLARED: 1}
    assert not one.flushed(one.flush().tallies).doubts


def test_a_probe_has_a_label_as_any_decision_has() -> None:
    """It is joined with the probe's own stratum: in no production rate, and never unmatched."""
    one = state()
    events = [signed(probe("a")), signed(probe("b", label_requested=False))]
    one.add(records(dump(*events), [10, 11]), NOW)
    columns = one.flush().decisions
    assert columns is not None
    assert columns.request.tolist() == [LabelRequest.KEPT, LabelRequest.NONE]


@pytest.mark.parametrize(
    ("watermark", "after"),
    [
        (NOW + 9_000 * HOUR, NOW - 10 * MINUTE),
        (NOW - 10 * MINUTE + 1, NOW - 10 * MINUTE),
        (NOW - 5 * HOUR, NOW - 5 * HOUR),
        (None, None),
    ],
)
def test_a_clock_far_beyond_this_machines_goes_back_and_its_watermark_never_forward(
    watermark: int | None, after: int | None
) -> None:
    """The watermark stays the lateness behind the newest event."""
    far = claim(max_decided_at=NOW + 9_000 * HOUR, watermark=watermark)
    one = ShardState.from_claim(far, codecs(), True, 10)
    assert one.set_back(NOW)
    assert (one.clock.newest, one.watermark) == (NOW, after)
    assert not one.set_back(NOW), "it stands where this machine's clock does"


# Arrivals


def arrived(one: ShardState, times: list[int], *, first: int) -> dict[int, int]:
    """Slots, counted from that of NOW, of decisions with these timestamps, and how many each."""
    values: list[bytes | None] = [event(f"{first}-{number}") for number in range(len(times))]
    offsets = list(range(first, first + len(times)))
    stamps = [time if time < 0 else time // 1000 for time in times]
    one.add(RecordBatch(DECISIONS, offsets, values, stamps, None), NOW)
    found = {slot - NOW // SLOT: n for slot, n in one.flush().arrivals.items()}
    one.flushed(one.tallies)
    return found


def test_decisions_that_waited_are_counted_when_they_came() -> None:
    """The worker was down: the router was not silent meanwhile."""
    one = state()
    times = [NOW - 2 * HOUR, NOW - 2 * HOUR + MINUTE, NOW - HOUR, -1, NOW + HOUR]
    assert arrived(one, times, first=10) == {-24: 2, -12: 1, 0: 2}
    assert one.flush().arrivals == {}, "a flush takes them along"


def test_a_slow_clock_of_a_producer_makes_no_silence() -> None:
    """All was read a minute ago, so what is dated before has come since."""
    one = state()
    one.attended = NOW - MINUTE
    assert arrived(one, [NOW - 20 * HOUR, NOW - HOUR], first=10) == {0: 2}


def test_neither_dead_letters_nor_files_are_arrivals() -> None:
    one = state()
    one.add(records([b"{", None], [10, 11]), NOW)
    assert one.flush().arrivals == {}
    shared = codecs()
    history = replace(shared, clock=replace(shared.clock, live=False))
    assert arrived(state(history), [NOW], first=10) == {}


def test_a_message_of_too_many_events_is_refused_whatever_comes_with_it() -> None:
    few, most = state(), MAX_EVENTS_PER_MESSAGE
    few.add(
        records([event("a"), b"[" + b",".join([event("b")] * (most + 1)) + b"]"], [10, 11]), NOW
    )
    assert few.tallies.counted == 1
    assert few.tallies.dead_letters == {"too_many_events": 1}
