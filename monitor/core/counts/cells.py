"""Counts: the counters of a cell, the stratum code, and additive tables of counts.

A cell is (pane, atom, version, stratum). Every counter is an integer sum, so shards, panes,
windows and weeks merge by addition, in any order of events.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

DELAY_EDGES_HOURS = (1, 3, 6, 12, 24, 72, 168)
"""Upper edges (hours, exclusive) of the first seven label-delay buckets; the eighth is open."""


class Counter(enum.IntEnum):
    """Counter of a cell; the number is its column in :class:`Counts`."""

    N = 0  # decisions
    Q = 1  # labels requested (kept by thinning)
    LABELLED = 2  # decisions with a ready / not ready label
    READY = 3  # decisions labelled ready
    UNDECIDABLE = 4  # label received, the reviewer could not tell
    COMPLAINTS = 5  # decisions with a complaint-driven label: never a sample
    REVISED = 6  # decisions whose label was corrected, adjudicated or retracted; never decreases
    BLIND = 7  # labelled by a reviewer who did not see the route
    BLIND_READY = 8
    DELAY_0 = 9  # labelled, by delay from decision to label
    DELAY_1 = 10
    DELAY_2 = 11
    DELAY_3 = 12
    DELAY_4 = 13
    DELAY_5 = 14
    DELAY_6 = 15
    DELAY_7 = 16
    PAIRS_READY = 17  # decisions that two reviewers labelled, both ready
    PAIRS_NOT_READY = 18  # both not ready
    PAIRS_APART = 19  # the two disagree


COUNTERS = len(Counter)


class Route(enum.IntEnum):
    """Route on which the router sent a request."""

    AUTO_SERVE = 0
    HUMAN_REVIEW = 1
    BLOCKED_BY_EVIDENCE = 2


@dataclass(frozen=True, slots=True)
class Stratum:
    """Decisions with one known label probability: route x score band x audit rate.

    Attributes:
        route: the router's choice.
        band: index of the score band; ``n_bands`` means the score was null.
        rate: index into the grid of audit rates.
        evidence_passed: False is a separate stratum, outside TPR, FPR and calibration.
        probe: True for matched-pair test traffic, kept apart from every production rate.
    """

    route: Route
    band: int
    rate: int
    evidence_passed: bool = True
    probe: bool = False

    # Fixed bit fields, so that codes do not depend on the settings: probe | evidence | route
    # (2 bits) | band (5 bits) | rate (6 bits).
    @property
    def code(self) -> int:
        """Code of the stratum: its fields packed into one integer."""
        return (
            (self.probe << 14)
            | (self.evidence_passed << 13)
            | (self.route << 11)
            | (self.band << 6)
            | self.rate
        )


MAX_BANDS = 31
MAX_RATES = 64


@dataclass(frozen=True, slots=True)
class StratumColumns:
    """Decoded stratum codes, one array per field."""

    route: Int64s
    band: Int64s
    rate: Int64s
    evidence_passed: npt.NDArray[np.bool_]
    probe: npt.NDArray[np.bool_]


_FEW_CODES = 1 << 10


def decode_strata(codes: Int64s) -> StratumColumns:
    """Return the fields that stratum codes pack, one read-only array per field."""
    if codes.ndim == 1 and codes.size <= _FEW_CODES and codes.dtype == np.int64:
        return _decoded_cached(codes.tobytes())  # the strata of a table are asked for many times
    return _decoded(codes)


@lru_cache(maxsize=256)
def _decoded_cached(codes: bytes) -> StratumColumns:
    columns = _decoded(np.frombuffer(codes, np.int64))
    for column in fields(columns):
        getattr(columns, column.name).flags.writeable = False
    return columns


def _decoded(codes: Int64s) -> StratumColumns:
    return StratumColumns(
        route=(codes >> 11) & 3,
        band=(codes >> 6) & 31,
        rate=codes & 63,
        evidence_passed=((codes >> 13) & 1).astype(bool),
        probe=((codes >> 14) & 1).astype(bool),
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """Table of counts, sorted by key: ``values[i, c]`` is counter ``c`` of key ``keys[i]``.

    Attributes:
        keys: int64, strictly increasing (cell ids, or other content ids).
        values: int64 of shape (len(keys), COUNTERS).
    """

    keys: Int64s
    values: Int64s

    @classmethod
    def empty(cls) -> Counts:
        """Return the table without rows; adding it changes nothing."""
        return cls(np.empty(0, np.int64), np.empty((0, COUNTERS), np.int64))

    @classmethod
    def from_rows(cls, keys: Int64s, values: Int64s) -> Counts:
        """Return the table of rows in any order; rows with equal keys are summed."""
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
        changes = keys[1:] != keys[:-1]
        if changes.all():
            return cls(keys, values)
        first = np.append(0, np.flatnonzero(changes) + 1)
        return cls(keys[first], np.add.reduceat(values, first, dtype=np.int64))

    def __neg__(self) -> Counts:
        return Counts(self.keys, -self.values)


@dataclass(frozen=True, slots=True)
class PaneCounts:
    """Counts of one pane of one grain, by cell id."""

    grain: int
    pane: int
    counts: Counts


def merge(tables: Iterable[Counts]) -> Counts:
    """Return the sum of tables, key by key, without rows of zeros; no tables give an empty one."""
    parts = [table for table in tables if len(table.keys)]
    if not parts:
        return Counts.empty()
    if len(parts) == 1:
        return parts[0]
    total = Counts.from_rows(
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.values for part in parts]),
    )
    alive = total.values.any(axis=1)
    return total if alive.all() else Counts(total.keys[alive], total.values[alive])


OTHER = "__other__"
"""Value for all values outside the allow-list."""
MISSING = "__missing__"
"""Value for an attribute that the decision lacks."""


def content_id(text: str) -> int:
    """Return the 63-bit BLAKE2b of a canonical text, as a non-negative integer."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


_PAIR = re.compile(r"([^=,\\]*)=((?:[^,\\]|\\.)*)(?:,(?=.)|\Z)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def atom_text(values: Mapping[str, str]) -> str:
    r"""Return the canonical text of an atom: ``name=value`` pairs, names sorted.

    Commas and backslashes in a value are escaped by a backslash, so that the text can be parsed.
    Nothing else needs an escape, since names have no ``=``.

    Example:
        >>> print(atom_text({"tier": "a=b", "city": "Washington, DC"}))
        city=Washington\, DC,tier=a=b
    """
    return ",".join(f"{name}={escaped(values[name])}" for name in sorted(values))


def parse_atom(text: str) -> dict[str, str]:
    """Return values by attribute name from the text of an atom; the empty text has no attributes.

    Raises:
        ValueError: the text is not that of an atom.
    """
    return dict(_parsed_pairs(text))


@lru_cache(maxsize=65_536)
def _parsed_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Return (name, value) pairs of an atom's text; cached, as each publication parses it again."""
    if "\\" not in text:
        plain = dict(pair.split("=", 1) for pair in text.split(",")) if text else {}
        return tuple(plain.items())
    values, end = {}, 0
    while end < len(text):
        pair = _PAIR.match(text, end)
        if pair is None:
            raise ValueError("not the text of an atom")
        values[pair[1]], end = _ESCAPED.sub(r"\1", pair[2]), pair.end()
    return tuple(values.items())


def escaped(value: str) -> str:
    """Return a value for the text of an atom, with commas and backslashes escaped."""
    if "," not in value and "\\" not in value:
        return value
    return value.replace("\\", "\\\\").replace(",", "\\,")
