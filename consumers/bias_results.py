"""Results of bias evaluations among the labels: found, read, and taken out of their batch.

A result is alone in its message, on the topic of labels. Results of undeclared dimensions are
refused, so that no producer can make series or rows without end.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from datetime import date

import msgspec

from consumers.coder import RejectedError
from consumers.dead_letters import DeadLetterBuffer
from consumers.event_words import reason_and_field
from consumers.events import BiasResult
from consumers.tolerance import decode_tolerantly
from monitor.core.bias_scores import BiasScore
from monitor.core.time import DAY
from monitor.records import RecordBatch

_NAME = b"bias_result"  # a quick first look: few labels have it anywhere
_MARK = re.compile(rb'"type"\s*:\s*"bias_result"')
_EPOCH = date(1970, 1, 1)
OLDEST = 800
"""Days after which a result is refused, so that a dimension has at most that many rows."""

_decode = msgspec.json.Decoder(BiasResult).decode


class BiasResults:
    """Extractor of bias results for the declared dimensions from batches of the labels' topic.

    Args:
        declared: names of dimensions.
    """

    def __init__(self, declared: Collection[str]) -> None:
        self._declared = frozenset(declared)

    def take(
        self, records: RecordBatch, dead_letters: DeadLetterBuffer, now: int
    ) -> tuple[RecordBatch, list[BiasScore]]:
        """Split a batch into other messages and bias results; refused results are dead letters.

        Args:
            records: messages of the labels' topic.
            dead_letters: gets the results that are refused.
            now: wall clock, microseconds.
        """
        if _NAME not in b"\n".join(filter(None, records.values)):
            return records, []  # one search of all of them takes half the time
        marked = [
            row
            for row, value in enumerate(records.values)
            if value is not None and _NAME in value and _MARK.search(value) is not None
        ]
        scores = []
        for row in marked:
            try:
                scores.append(self._read(records.values[row] or b"", now // DAY))
            except RejectedError as error:
                dead_letters.refuse(records.offsets[row], 0, error.reason, error.field)
        return _without(records, frozenset(marked)), scores

    def _read(self, value: bytes, today: int) -> BiasScore:
        """Return one result, checked; a RejectedError names the reason and the field."""
        try:
            result = decode_tolerantly(_decode, value)
        except (ValueError, RecursionError) as error:
            cause, field = reason_and_field(error)
            reason = "malformed_json" if cause == "malformed_json" else "invalid_value"
            raise RejectedError(reason, field) from None
        day = (result.measured - _EPOCH).days
        if result.dimension not in self._declared:
            raise RejectedError("invalid_value", "dimension")
        if not today - OLDEST <= day <= today + 1:
            raise RejectedError("invalid_value", "measured")
        return BiasScore(
            dimension=result.dimension,
            day=day,
            score=result.score,
            items=result.items,
            probe_set=result.probe_set,
            probe_version=result.probe_version,
            model=result.model,
            rubric=result.rubric or "",
        )


def _without(records: RecordBatch, rows: Collection[int]) -> RecordBatch:
    """Return the batch without these rows."""
    kept = [row for row in range(len(records.offsets)) if row not in rows]
    return replace(
        records,
        offsets=[records.offsets[row] for row in kept],
        values=[records.values[row] for row in kept],
        timestamps=[records.timestamps[row] for row in kept],
    )
