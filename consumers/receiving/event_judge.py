"""Judge of posted events, by the codec that later reads them from Kafka."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from consumers.codec import DecodedDecisions, DecodedLabels
from consumers.dead_letters import DeadLetterBuffer
from consumers.event_time import FIRST_DAY, TOO_EARLY, TOO_OLD
from consumers.event_words import seems_label, why
from consumers.receiving.batches import MAX_EVENT, MAX_EVENTS, EventRefusal
from consumers.shard import Codecs
from consumers.tolerance import decode_tolerantly
from monitor.records import RecordBatch, Shard

Numbered = tuple[int, bytes]
"""Line of an event, and its bytes."""


Message = tuple[int, bytes | None]
"""Line of a message of one or more events, and its bytes; None for a tombstone."""


class Good(NamedTuple):
    """Posted event that may be written, with its line and its key."""

    line: int
    is_label: bool
    key: bytes
    value: bytes


class _Identified(msgspec.Struct):
    """Field by which events are partitioned; a bias result, which any worker counts, has none."""

    decision_id: str | int = ""


_identified = msgspec.json.Decoder(_Identified).decode


class EventJudge:
    """Judge of posted events, by the codecs that read them from Kafka later; any thread may use it.

    Args:
        codecs: codecs of its own: those of a worker belong to its thread.
        now: returns the wall clock, microseconds.
        reached: returns the event time that all partitions of decisions, or with True of labels,
            have reached; too old events are refused by it.
    """

    def __init__(
        self, codecs: Codecs, now: Callable[[], int], reached: Callable[[bool], int]
    ) -> None:
        self._codecs = codecs
        self._now = now
        self._reached = reached
        self._turn = threading.Lock()

    def judge(self, events: Sequence[Numbered]) -> tuple[list[Good], list[EventRefusal]]:
        """Return a batch's events that may be written, by line, and refusals of the others."""
        refused: list[EventRefusal] = []
        sized = [event for event in events if self._fits(event, refused)]
        good: list[Good] = []
        with self._turn:
            for is_label in (False, True):
                same_kind = [event for event in sized if seems_label(event[1]) == is_label]
                wrong = self._refusals_by_line(same_kind, is_label) if same_kind else {}
                refused += wrong.values()
                good += (
                    Good(line, is_label, _key(value), value)
                    for line, value in same_kind
                    if line not in wrong
                )
        return sorted(good), sorted(refused, key=lambda refusal: refusal.line)

    def explain(self, messages: Sequence[Message], are_labels: bool) -> dict[int, str]:
        """Return in words, by line, why messages of one kind could not be counted."""
        with self._turn:
            refusals = self._refusals_by_line(messages, are_labels)
        return {line: why(refusal.reason, refusal.field) for line, refusal in refusals.items()}

    def _fits(self, event: Numbered, refused: list[EventRefusal]) -> bool:
        """Return True for a single event that is not too large; else add a refusal."""
        line, value = event
        if len(value) > MAX_EVENT:
            reason = "too_large"
        elif value.lstrip()[:1] == b"[":  # the codec would take it for several events
            reason = "wrong_type"
        else:
            return True
        refused.append(EventRefusal(line, "decision", reason, ""))
        return False

    def _refusals_by_line(
        self, events: Sequence[Message], is_label: bool
    ) -> dict[int, EventRefusal]:
        """Return refusals, by line, of events of one kind that codec or time limits refuse."""
        lines, values = [line for line, _ in events], [value for _, value in events]
        batch = RecordBatch(Shard("", 0), lines, values, [-1] * len(lines))
        letters = DeadLetterBuffer(batch, self._codecs.hasher, MAX_EVENTS)
        if is_label:
            batch, _ = self._codecs.labels.results.take(batch, letters, self._now())
        codec = self._codecs.labels if is_label else self._codecs.decisions
        decoded: DecodedDecisions | DecodedLabels = codec.read(batch, letters)
        refusals = [(letter.offset, letter.reason, letter.field) for letter in letters.found]
        refusals += (
            (line, reason, "decided_at") for line, reason in self._untimely(decoded, is_label)
        )
        kind = "label" if is_label else "decision"
        return {line: EventRefusal(line, kind, reason, field) for line, reason, field in refusals}

    def _untimely(
        self, decoded: DecodedDecisions | DecodedLabels, are_labels: bool
    ) -> Iterable[tuple[int, str]]:
        """Yield line and reason of events whose time any worker would refuse.

        The message will be stamped when it is written.
        """
        clock = self._codecs.clock
        early = (decoded.ts > (now := self._now()) + clock.max_early) & clock.live
        # What lies beyond the wall clock is not believed, so the horizon does not follow it.
        oldest = max(FIRST_DAY, min(now, self._reached(are_labels)) - clock.horizon)
        for reason, rows in ((TOO_EARLY, early), (TOO_OLD, decoded.ts < oldest)):
            yield from ((int(line), reason) for line in decoded.offsets[np.flatnonzero(rows)])


def _key(value: bytes) -> bytes:
    return str(decode_tolerantly(_identified, value).decision_id).encode()
