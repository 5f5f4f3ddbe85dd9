"""Coding of decisions into cells: allow-listed attributes, score bands, audit rates.

Settings change during the life of a store, so it has one coding per era of event time.

Example:
    >>> coding = Coding((), score_bands=(0.70, 0.90), audit_rates=(1.0, 0.5))
    >>> [coding.band(score) for score in (0.69, 0.70, 0.8999, 0.90, None)]
    [0, 1, 1, 2, 3]
    >>> coding.band_names
    ('below 0.70', '0.70 to 0.90', '0.90 and above', 'no score')
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from monitor.core.counts.audit_grid import AUDIT_RATES, rate_index
from monitor.core.counts.cells import MISSING, OTHER, Int64s

DEFAULT_SCORE_BANDS = (0.70, 0.90)

_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?\Z")
"""Number as in JSON: no spaces, no underscores, no digits of other scripts."""

Listed = tuple[str, str | None]
"""Name of an attribute with one of its values, or with None for the name itself."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """Allow-listed attribute of decisions: listed values, aliases, or ranges of numbers.

    Attributes:
        name: name in the event's ``attributes``, or the name for a version field.
        values: the allow-list; other values become ``__other__``.
        version_of: judge, rubric, policy or router if the value is taken from the
            decision's ``versions``; None for an ordinary attribute.
        aliases: other texts for listed values, each with its value.
        edges: increasing edges of ranges of numbers; empty if values are texts.

    Example:
        >>> age = Attribute("age", range_names((18, 65)), edges=(18, 65))
        >>> [age.code(value) for value in ("17.9", "18", "65+", "old", None)]
        ['under 18', '18-64', '65+', '__other__', '__missing__']
    """

    name: str
    values: tuple[str, ...]
    version_of: str | None = None
    aliases: tuple[tuple[str, str], ...] = ()
    edges: tuple[float, ...] = ()

    def code(self, value: str | None) -> str:
        """Map a sent value to its listed value; ``__other__`` if none, ``__missing__`` for None."""
        if value is None:
            return MISSING
        if value in self.values:
            return value
        listed_value = dict(self.aliases).get(value) if self.aliases else self._range_of(value)
        return listed_value if listed_value in self.values else OTHER

    def _range_of(self, value: str) -> str | None:
        """Return the name of the range that a number is in; None without ranges or a number."""
        if not self.edges or not _NUMBER.match(value):
            return None
        return range_names(self.edges)[bisect_right(self.edges, float(value))]


@cache
def range_names(edges: tuple[float, ...]) -> tuple[str, ...]:
    """Return the names of ranges between increasing edges; an edge is in the range above it.

    Example:
        >>> range_names((18, 26, 27, 65))
        ('under 18', '18-25', '26', '27-64', '65+')
        >>> range_names((-0.5, 2.0))
        ('under -0.5', '-0.5 to under 2', '2+')
    """
    inner = (_range_name(low, high, edges) for low, high in pairwise(edges))
    return (f"under {edges[0]:.12g}", *inner, f"{edges[-1]:.12g}+")


def _range_name(low: float, high: float, edges: tuple[float, ...]) -> str:
    if edges[0] < 0 or any(edge != int(edge) for edge in edges):
        return f"{low:.12g} to under {high:.12g}"
    return f"{low:.12g}" if high == low + 1 else f"{low:.12g}-{high - 1:.12g}"


@dataclass(frozen=True, slots=True)
class Coding:
    """Settings for the coding of decisions; part of the stored history.

    Attributes:
        attributes: sorted by name.
        score_bands: inner edges, increasing; a score equal to an edge is in the band above it.
        audit_rates: the grid, decreasing, in (0, 1]; index 0 is the largest.
    """

    attributes: tuple[Attribute, ...]
    score_bands: tuple[float, ...] = DEFAULT_SCORE_BANDS
    audit_rates: tuple[float, ...] = AUDIT_RATES

    def band(self, score: float | None) -> int:
        """Return the index of the score's band; a null score has the last index."""
        return len(self.score_bands) + 1 if score is None else bisect_right(self.score_bands, score)

    @property
    def bands(self) -> int:
        """Number of bands, including the one without a score."""
        return len(self.score_bands) + 2

    @property
    def band_names(self) -> tuple[str, ...]:
        """Names of all score bands in order, such as ``below 0.70``; the last is ``no score``."""
        edges = [f"{edge:.2f}" for edge in self.score_bands]
        if not edges:
            return ("any score", "no score")
        inner = [f"{low} to {high}" for low, high in pairwise(edges)]
        return (f"below {edges[0]}", *inner, f"{edges[-1]} and above", "no score")

    def rate_index(self, audit_p: float) -> int:
        """Return the index of the largest grid rate not above ``audit_p``; else the last index."""
        return rate_index(self.audit_rates, audit_p)

    @property
    def max_atoms(self) -> int:
        """Number of possible atoms, including ``__other__`` and ``__missing__``."""
        total = 1
        for attribute in self.attributes:
            total *= len(attribute.values) + 2
        return total

    def canonical(self) -> str:
        """Return the coding as canonical JSON text; equal codings have equal texts."""
        return json.dumps(
            {
                "attributes": [_attribute_as_list(attribute) for attribute in self.attributes],
                "audit_rates": list(self.audit_rates),
                "score_bands": list(self.score_bands),
            },
            separators=(",", ":"),
        )

    @property
    def hash(self) -> str:
        """Hash of the canonical text, 16 hexadecimal digits."""
        return blake2b(self.canonical().encode(), digest_size=8).hexdigest()

    @classmethod
    def parse(cls, text: str) -> Coding:
        """Return the coding of a JSON text that :meth:`canonical` returned."""
        body = json.loads(text)
        attributes = tuple(_attribute(*parts) for parts in body["attributes"])
        return cls(attributes, tuple(body["score_bands"]), tuple(body["audit_rates"]))

    @property
    def strata(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Score bands and audit rates that stratum codes refer to; fixed for a store's life."""
        return self.score_bands, self.audit_rates

    @property
    def listed(self) -> frozenset[Listed]:
        """Listed pairs of attribute name and value, and (name, None) for every name."""
        return frozenset((a.name, value) for a in self.attributes for value in (None, *a.values))

    def lacks(self, other: Coding) -> tuple[str, ...]:
        """Return entries of ``other`` that this coding lacks: names, else ``name=value``, sorted.

        Example:
            >>> old = Coding((Attribute("channel", ("chat", "fax")), Attribute("tier", ("a",))))
            >>> Coding((Attribute("channel", ("chat", "email")),)).lacks(old)
            ('channel=fax', 'tier')
        """
        lacking = other.listed - self.listed
        names = {name for name, value in lacking if value is None}
        values = {f"{name}={value}" for name, value in lacking if name not in names}
        return tuple(sorted(names | values))

    def means_otherwise(self, other: Coding) -> tuple[str, ...]:
        """Return names of attributes in both codings whose aliases or edges differ, sorted.

        Example:
            >>> old = Attribute("release", ("stable",), "policy", (("p1", "stable"),))
            >>> new = replace(old, aliases=(("p2", "stable"),))
            >>> Coding((new,)).means_otherwise(Coding((old,)))
            ('release',)
        """
        other_meanings = {a.name: (set(a.aliases), a.edges) for a in other.attributes}
        meanings = {a.name: (set(a.aliases), a.edges) for a in self.attributes}
        return tuple(
            sorted(
                name
                for name in meanings.keys() & other_meanings.keys()
                if meanings[name] != other_meanings[name]
            )
        )

    def within(self, other: Coding) -> Coding:
        """Return this coding without attributes and values that ``other`` does not list."""
        other_values = {a.name: a.values for a in other.attributes}
        attributes = (
            replace(a, values=tuple(v for v in a.values if v in other_values[a.name]))
            for a in self.attributes
            if a.name in other_values
        )
        return replace(self, attributes=tuple(attributes))


def _attribute_as_list(attribute: Attribute) -> list[object]:
    """Return an attribute as a list for JSON, with aliases and edges only if there are any."""
    parts: list[object] = [attribute.name, sorted(attribute.values), attribute.version_of]
    optional_parts = [sorted(attribute.aliases), list(attribute.edges)]
    return parts + optional_parts if any(optional_parts) else parts


def _attribute(
    name: str,
    values: list[str],
    version_of: str | None,
    aliases: Iterable[tuple[str, str]] = (),
    edges: Iterable[float] = (),
) -> Attribute:
    pairs = tuple((alias, value) for alias, value in aliases)
    return Attribute(name, tuple(values), version_of, pairs, tuple(edges))


@dataclass(frozen=True, slots=True)
class CodingVersion:
    """Coding with the event time (microseconds) from which it applies."""

    start: int
    coding: Coding


@dataclass(frozen=True, slots=True)
class CodingHistory:
    """Codings of a store: a decision is coded by the era in which it was decided.

    Later eras only list more, because removed entries are removed from all eras. Score bands and
    audit rates are the same in all eras.

    Attributes:
        eras: at least one, by start; the first era also has all earlier decisions.
    """

    eras: tuple[CodingVersion, ...]

    @classmethod
    def always(cls, coding: Coding) -> CodingHistory:
        """Return a history with one coding for all time."""
        return cls((CodingVersion(0, coding),))

    @property
    def newest(self) -> Coding:
        """Coding of the newest era, which lists everything that any era lists."""
        return self.eras[-1].coding

    def index(self, ts: Int64s) -> Int64s:
        """Return the index of the era of each instant (microseconds)."""
        starts = np.array([era.start for era in self.eras[1:]], np.int64)
        return np.searchsorted(starts, ts, side="right").astype(np.int64)
