"""Labels of one decision: their total order, and the contribution of the greatest label.

The label that counts is the maximum by (kind rank, revision, labelled_at, label id), so any
order of arrival and any repetition gives the same counts. Complaint-driven labels are counted
separately, because they are never a sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import COUNTERS, DELAY_EDGES_HOURS, Counter, Int64s
from monitor.core.time import HOUR


class Review(NamedTuple):
    """Reviewer's own judgement of one decision; reviews are ordered by their fields.

    Attributes:
        labelled_at: microseconds.
        label: hash of the label id.
        reviewer: keyed hash of the decision and the reviewer, never 0.
        ready: 1 ready, 0 not ready.
    """

    labelled_at: int
    label: int
    reviewer: int
    ready: int


def first_two(reviews: Iterable[Review]) -> tuple[Review, ...]:
    """Return the first review of each of the first two reviewers, in order, or fewer."""
    first_reviews: dict[int, Review] = {}
    for review in sorted(reviews):
        first_reviews.setdefault(review.reviewer, review)
    return tuple(first_reviews.values())[:2]


def compared(pair: tuple[Review, ...]) -> Counter | None:
    """Return the counter to which a pair of reviews adds; None without a second review."""
    if len(pair) < 2:  # noqa: PLR2004 - a pair
        return None
    if pair[0].ready != pair[1].ready:
        return Counter.PAIRS_APART
    return Counter.PAIRS_READY if pair[0].ready else Counter.PAIRS_NOT_READY


Int8s = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]

KIND_RANKS = {"initial": 0, "correction": 1, "adjudication": 2, "retraction": 3}
INITIAL, RETRACTED = KIND_RANKS["initial"], KIND_RANKS["retraction"]
NOT_READY, READY, UNDECIDABLE = 0, 1, 2

_DELAY_EDGES = np.array(DELAY_EDGES_HOURS, np.int64) * HOUR


@dataclass(frozen=True, slots=True)
class LabelColumns:
    """Labels as columns of equal length.

    Attributes:
        ids: keyed hash of the decision id.
        ts: decided_at of the decision in the label (microseconds).
        complaint: 1 if driven by a complaint, else 0.
        rank: rank of the kind.
        revision: the label's ``version``.
        labelled_at: microseconds.
        label: hash of the label id.
        ready: 0 not ready, 1 ready, 2 the reviewer could not tell.
        blind: True if the reviewer did not see the route.
        reviewer: keyed hash of the decision and the reviewer; 0 if unknown.
    """

    ids: Int64s
    ts: Int64s
    complaint: Int8s
    rank: Int8s
    revision: Int64s
    labelled_at: Int64s
    label: Int64s
    ready: Int8s
    blind: Bools
    reviewer: Int64s

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Int64s | Bools) -> LabelColumns:
        """Return the labels at these row indices, in this order, or under this mask."""
        return LabelColumns(*(getattr(self, f.name)[rows] for f in fields(self)))

    @classmethod
    def empty(cls) -> LabelColumns:
        """Return columns without rows."""
        return cls.from_rows([])

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[int]]) -> LabelColumns:
        """Return columns from rows of (ids, ts, complaint, rank, revision, ..., reviewer)."""
        table = np.array(rows, np.int64).reshape(len(rows), len(fields(cls)))
        ids, ts, complaint, rank, revision, labelled_at, label, ready, blind, reviewer = table.T
        return cls(
            ids,
            ts,
            complaint.astype(np.int8),
            rank.astype(np.int8),
            revision,
            labelled_at,
            label,
            ready.astype(np.int8),
            blind.astype(bool),
            reviewer,
        )

    @classmethod
    def concat(cls, parts: Sequence[LabelColumns]) -> LabelColumns:
        """Return the labels of all parts, one part after the other; no parts give no labels."""
        if not parts:
            return cls.empty()
        return cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))

    def reviews(self) -> list[Review | None]:
        """Return the review of each row that is a reviewer's own judgement; None for other rows.

        These are initial labels of a sample that say ready or not. Corrections and adjudications
        are left out because their reviewers know earlier judgements.
        """
        own = (self.rank == INITIAL) & (self.complaint == 0) & (self.reviewer != 0)
        own &= self.ready != UNDECIDABLE
        columns = (own, self.labelled_at, self.label, self.reviewer, self.ready)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [Review(*row) if is_own else None for is_own, *row in rows]

    def contributions(self, decided_at: Int64s) -> Int64s:
        """Return the counters that each label adds to its cell while it is the label that counts.

        Args:
            decided_at: time of the decision, where the delay begins.

        Returns:
            int64 of shape (len(self), COUNTERS).
        """
        out = np.zeros((len(self), COUNTERS), np.int64)
        not_retracted = self.rank != RETRACTED
        sample = self.complaint == 0
        labelled = not_retracted & sample & (self.ready != UNDECIDABLE)
        ready = labelled & (self.ready == READY)
        out[:, Counter.LABELLED] = labelled
        out[:, Counter.READY] = ready
        out[:, Counter.UNDECIDABLE] = not_retracted & sample & (self.ready == UNDECIDABLE)
        out[:, Counter.COMPLAINTS] = not_retracted & ~sample
        out[:, Counter.REVISED] = sample & ((self.rank > 0) | (self.revision > 1))
        out[:, Counter.BLIND] = labelled & self.blind
        out[:, Counter.BLIND_READY] = ready & self.blind
        delay = np.maximum(self.labelled_at - decided_at, 0)
        bucket = np.searchsorted(_DELAY_EDGES, delay, side="right")
        out[np.arange(len(self)), Counter.DELAY_0 + bucket] = labelled
        return out
