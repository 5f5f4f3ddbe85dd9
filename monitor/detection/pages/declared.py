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

from monitor.core.contract import COMPLEMENT, Contract, GroupBy, Limits, Metric
from monitor.core.counts.cells import MISSING, OTHER, atom_text, parse_atom
from monitor.core.counts.coding import Coding
from monitor.detection.pages.streams import Direction, Stream, StreamKind

_Number = TypeVar("_Number", bound=np.generic)

_KEPT = 1_024
"""Answers of this module that are kept: each start of an evaluation asks several times."""


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """Settings that all detectors begin with.

    Attributes:
        contracts: of all use cases.
        coding: of now.
        cluster_size: largest number of decisions that hang together.
    """

    contracts: Sequence[Contract]
    coding: Coding
    cluster_size: int = 1


@dataclass(frozen=True, slots=True)
class Comparisons:
    """The streams of one metric and kind of a group-by, as rows of arrays.

    Attributes:
        streams: one a row.
        rows: position of each stream's slice among the slices of the group-by.
    """

    streams: tuple[Stream, ...]
    rows: tuple[int, ...]


@lru_cache(_KEPT)
def declared_slices(group: GroupBy, coding: Coding) -> tuple[str, ...]:
    """Every slice that a decision can be in, sorted: listed values, ``__other__``, ``__missing__``.

    Raises:
        KeyError: if the coding does not know an attribute.
    """
    values = {attribute.name: attribute.values for attribute in coding.attributes}
    choices = [(*values[name], OTHER, MISSING) for name in group.attributes]
    combinations = product(*choices)
    return tuple(
        sorted(atom_text(dict(zip(group.attributes, c, strict=True))) for c in combinations)
    )


@lru_cache(_KEPT)
def comparisons(
    contract: Contract, group: GroupBy, metric: Metric, kind: StreamKind, coding: Coding
) -> Comparisons:
    """The streams of one metric, each with the limit of its slice; none where there is none.

    A decision without the attribute is in every complement, and in no stream of its own.
    """
    slices = declared_slices(group, coding)
    if kind is not StreamKind.LEVEL and not _has_reference(group, slices):
        return Comparisons((), ())
    limits = [_limit(contract.limits_of(group.name, text), metric, kind) for text in slices]
    found = [
        (Stream(contract.name, group.name, metric, kind, text, reference, direction, limit), row)
        for row, (text, limit) in enumerate(zip(slices, limits, strict=True))
        if limit is not None and MISSING not in parse_atom(text).values()
        for reference, direction in _looks(group, text, kind)
    ]
    return Comparisons(tuple(stream for stream, _ in found), tuple(row for _, row in found))


def all_streams(contracts: Sequence[Contract], coding: Coding) -> tuple[Stream, ...]:
    """All that is declared, in a fixed order."""
    return tuple(
        stream
        for contract in contracts
        for group in contract.group_bys
        for kind, metric in product(StreamKind, Metric)
        for stream in comparisons(contract, group, metric, kind, coding).streams
    )


def _looks(group: GroupBy, text: str, kind: StreamKind) -> Iterator[tuple[str, Direction]]:
    """A comparison is looked at in each direction; a reference is not compared with itself."""
    if kind is StreamKind.LEVEL:
        yield "", Direction.SLICE_WORSE
    elif text != group.reference:
        yield from ((group.reference, direction) for direction in Direction)


def _limit(limits: Limits, metric: Metric, kind: StreamKind) -> Fraction | None:
    if kind is StreamKind.GAP:
        return limits.max_gap(metric)
    if kind is StreamKind.RATIO:
        return limits.min_ratio(metric)
    return limits.level(metric)


def _has_reference(group: GroupBy, slices: Sequence[str]) -> bool:
    return group.reference == COMPLEMENT or group.reference in slices


def of_references(values: npt.NDArray[_Number], reference: int | None) -> npt.NDArray[_Number]:
    """Counts of the reference of each slice: of one slice, or of all others.

    Args:
        values: counts of every slice, shape (S, ...).
        reference: row of the slice that all are compared with; None for the complements.

    Returns:
        The same shape; nothing may be written into it.
    """
    if reference is None:
        rest: npt.NDArray[_Number] = values.sum(axis=0) - values
        return rest
    return np.broadcast_to(values[reference], values.shape)
