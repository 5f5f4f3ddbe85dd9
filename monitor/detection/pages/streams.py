"""Streams: the comparisons that sequential tests watch, each with a share of the error budget.

A stream is one direction of one declared comparison of a contract (a gap or a ratio), or one level.
The settings declare all of them, ``__other__`` included, before any data is seen. Together they may
page falsely once in :data:`BUDGET_DAYS` event days on average: their weights sum to at most 1, and
are never normalised again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from monitor.core.contract import Contract, Severity
from monitor.core.metric import Metric
from monitor.core.publish.annotations import IncidentKind
from monitor.core.publish.snapshot import LimitKind

BUDGET_DAYS = 90.0
"""E[false pages up to day t] <= t / BUDGET_DAYS, over the whole fleet."""


class Direction(enum.StrEnum):
    """Side that a stream watches for being worse off: the slice or its reference."""

    SLICE_WORSE = "slice_worse"
    REFERENCE_WORSE = "reference_worse"


class StreamKind(enum.StrEnum):
    """Kind of limit that a stream tests: a gap, a level or a ratio."""

    GAP = "gap"  # a slice with its reference, by the difference of their rates
    LEVEL = "level"  # a slice with a number of the contract
    RATIO = "ratio"  # a slice with its reference, by the ratio of their rates


@dataclass(frozen=True, slots=True, order=True)
class Stream:
    """A comparison or level that a sequential test watches; equal streams share stored evidence.

    Attributes:
        contract: contract name.
        group_by: attribute names joined by ``+``.
        metric: TPR, FPR, BLOCKED, SELECTION or PRECISION.
        slice: slice text.
        reference: slice text or ``complement``; empty for a level.
        direction: side that would be worse off; SLICE_WORSE for a level.
        limit: limit of the contract, inclusive.
    """

    contract: str
    group_by: str
    metric: Metric
    kind: StreamKind
    slice: str
    reference: str
    direction: Direction
    limit: Fraction

    @property
    def compares(self) -> bool:
        """Return True when a slice is compared with its reference, False for a level."""
        return self.kind is not StreamKind.LEVEL

    @property
    def limit_kind(self) -> LimitKind:
        """Return the kind of the stream's limit: max_gap, min_ratio, min_level or max_level."""
        if self.kind is StreamKind.GAP:
            return LimitKind.MAX_GAP
        if self.kind is StreamKind.RATIO:
            return LimitKind.MIN_RATIO
        return LimitKind.MIN_LEVEL if self.metric.harmed_by_less else LimitKind.MAX_LEVEL

    @property
    def limit_name(self) -> str:
        """Return the name of the stream's limit in the contract, such as ``max_tpr_gap``."""
        bound, kind = self.limit_kind.split("_")
        return f"{bound}_{self.metric}" if kind == "level" else f"{bound}_{self.metric}_{kind}"

    @property
    def worse_off(self) -> str:
        """Return the watched side's name: the slice, its named reference, or ``complement``."""
        return self.slice if self.direction is Direction.SLICE_WORSE else self.reference

    @property
    def depth(self) -> int:
        """Return the number of attributes of the group-by."""
        return self.group_by.count("+") + 1

    @property
    def key(self) -> str:
        """Return the stream's unique text key; :meth:`parse` reads it back."""
        watched = f"{self.contract}|{self.group_by}|{self.metric}|{self.kind}|{self.slice}"
        return f"{watched}|{self.reference}|{self.direction}|{self.limit}"

    @classmethod
    def parse(cls, key: str) -> Stream:
        """Return the stream of a :attr:`key`; no name or value contains a bar."""
        contract, group_by, metric, kind, slice_name, reference, direction, limit = key.split("|")
        watched = contract, group_by, Metric(metric), StreamKind(kind), slice_name
        return cls(*watched, reference, Direction(direction), Fraction(limit))


def pages(stream: Stream, contract: Contract) -> bool:
    """Return True where a breach of the stream's limit wakes somebody."""
    return contract.severity(stream.limit_name) is Severity.PAGE


def severity_of(kind: IncidentKind, streams: Iterable[Stream], contract: Contract) -> Severity:
    """Return the severity of an incident: a page if the limit of a crossed stream pages.

    Only this function decides it: web pages, reports and metrics call it. The weekly list never
    pages.
    """
    wakes = kind is IncidentKind.BREACH and any(pages(stream, contract) for stream in streams)
    return Severity.PAGE if wakes else Severity.TICKET
