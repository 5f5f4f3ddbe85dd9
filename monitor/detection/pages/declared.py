"""Declarations of the settings: the slices of a group-by, and the streams that watch them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from monitor.core.contract import COMPLEMENT, Contract, GroupBy, Limits
from monitor.core.counts.cells import MISSING, OTHER, atom_text, parse_atom
from monitor.core.counts.coding import Coding
from monitor.core.metric import Metric
from monitor.detection.pages.streams import Direction, Stream, StreamKind

_Number = TypeVar("_Number", bound=np.generic)

_KEPT = 1_024
"""Size of the caches below: each start of an evaluation asks several times."""


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """Contracts, coding and cluster size that every detector starts with.

    Attributes:
        contracts: contracts of all use cases.
        coding: the present coding.
        cluster_size: largest number of decisions that depend on each other.
    """

    contracts: Sequence[Contract]
    coding: Coding
    cluster_size: int = 1


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Streams of one metric and kind of a group-by, with the row of each one's slice.

    Attributes:
        streams: the streams: the rows.
        rows: position of each stream's slice among the slices of the group-by.
    """

    streams: tuple[Stream, ...]
    rows: tuple[int, ...]


@lru_cache(_KEPT)
def declared_slices(group: GroupBy, coding: Coding) -> tuple[str, ...]:
    """Return the text of every possible slice of a group-by, sorted.

    Raises:
        KeyError: if the coding does not know an attribute.
    """
    values = {attribute.name: attribute.values for attribute in coding.attributes}
    choices = [(*values[name], OTHER, MISSING) for name in group.attributes]
    combinations = product(*choices)
    return tuple(
        sorted(
            atom_text(dict(zip(group.attributes, values_of_slice, strict=True)))
            for values_of_slice in combinations
        )
    )


@lru_cache(_KEPT)
def comparisons(
    contract: Contract, group: GroupBy, metric: Metric, kind: StreamKind, coding: Coding
) -> Comparisons:
    """Return the streams of one metric and kind of a group-by, with the limits of the slices.

    Slices without a limit have none. A decision without the attribute is in every complement, and
    in no stream of its own.
    """
    slices = declared_slices(group, coding)
    if kind is not StreamKind.LEVEL and not _has_reference(group, slices):
        return Comparisons((), ())
    limits = [_limit(contract.limits_of(group.name, text), metric, kind) for text in slices]
    streams_and_rows = [
        (Stream(contract.name, group.name, metric, kind, text, reference, direction, limit), row)
        for row, (text, limit) in enumerate(zip(slices, limits, strict=True))
        if limit is not None and MISSING not in parse_atom(text).values()
        for reference, direction in _directions(group, text, kind)
    ]
    return Comparisons(
        tuple(stream for stream, _ in streams_and_rows), tuple(row for _, row in streams_and_rows)
    )


def all_streams(contracts: Sequence[Contract], coding: Coding) -> tuple[Stream, ...]:
    """Return all declared streams, in a fixed order."""
    return tuple(
        stream
        for contract in contracts
        for group in contract.group_bys
        for kind, metric in product(StreamKind, Metric)
        for stream in comparisons(contract, group, metric, kind, coding).streams
    )


def _directions(group: GroupBy, text: str, kind: StreamKind) -> Iterator[tuple[str, Direction]]:
    """Yield (reference, direction) of a slice's streams; none for the reference itself."""
    if kind is StreamKind.LEVEL:
        yield "", Direction.SLICE_WORSE
    elif text != group.reference:
        yield from ((group.reference, direction) for direction in Direction)


def _limit(limits: Limits, metric: Metric, kind: StreamKind) -> Fraction | None:
    """Return the limit of a metric for this kind of stream; None without one."""
    if kind is StreamKind.GAP:
        return limits.max_gap(metric)
    if kind is StreamKind.RATIO:
        return limits.min_ratio(metric)
    return limits.level(metric)


def _has_reference(group: GroupBy, slices: Sequence[str]) -> bool:
    return group.reference == COMPLEMENT or group.reference in slices


def of_references(
    values: npt.NDArray[_Number],
    reference: int | None,
    left_out: npt.NDArray[np.bool_] | None = None,
) -> npt.NDArray[_Number]:
    """Return the counts of each slice's reference: a named slice, or the complement.

    Args:
        values: counts of every slice, shape (S, ...).
        reference: row of the common reference; None for the complements.
        left_out: mask of slices that are in no complement, shape (S,); None for no slice.

    Returns:
        Array of the same shape; it must not be written to.

    Example:
        >>> of_references(np.array([1, 20, 300]), None).tolist()
        [320, 301, 21]
        >>> of_references(np.array([1, 20, 300]), None, np.array([False, True, False])).tolist()
        [300, 301, 1]
    """
    if reference is None:
        counted = values if left_out is None else values.copy()
        if left_out is not None:
            counted[left_out] = 0
        complements: npt.NDArray[_Number] = counted.sum(axis=0) - counted
        return complements
    return np.broadcast_to(values[reference], values.shape)
