"""Settings that the tables of a span are made by; the rows and columns follow from them.

Example:
    >>> parts = parts_of_routes({Part(Route.AUTO_SERVE, 0.05)})
    >>> [part.name for part in parts]
    ['auto_serve@0.05', 'human_review@1', 'blocked_by_evidence']
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from monitor.core.contract import COMPLEMENT, Contract
from monitor.core.counts.cells import MISSING, OTHER, Route, atom_text, parse_atom
from monitor.core.counts.coding import Coding, Listed
from monitor.core.counts.strata import REVIEWED_ROUTES
from monitor.core.tables.layout import GroupBy, Layout
from monitor.core.tables.reader import Frame, Measure
from monitor.core.tables.spans import Span, SpanKind

Pairs = tuple[tuple[str, str], ...]
Values = tuple[tuple[str, tuple[str, ...]], ...]

PAIR_PARTS = ("both ready", "both not ready", "apart")
"""Columns of a table of decisions that two reviewers labelled."""


class Part(NamedTuple):
    """Column of the tables: decisions of one route and one audit rate.

    Attributes:
        route: on which the router sent them.
        audit_rate: share of them that a label is requested for; None where labelled rates leave
            them out: blocked ones, and those without evidence on another route.
    """

    route: Route
    audit_rate: float | None = None

    @property
    def name(self) -> str:
        """Return the column's name, such as ``auto_serve@0.05``; the same in all tables."""
        route = self.route.name.lower()
        if self.audit_rate is not None:
            return f"{route}@{self.audit_rate:g}"
        return route if self.route is Route.BLOCKED_BY_EVIDENCE else f"{route} without evidence"


def parts_of_routes(in_use: Collection[Part], before: Collection[Part] = ()) -> tuple[Part, ...]:
    """Return parts that cover all decisions, sorted by route and falling audit rate.

    Args:
        in_use: parts that have decisions enough to stand for themselves.
        before: parts so far; a route without any part in use keeps them.
    """
    parts = {Part(Route.BLOCKED_BY_EVIDENCE)} | set(in_use)
    for route in REVIEWED_ROUTES:
        if not any(part.route is route and part.audit_rate for part in parts):
            kept = {part for part in before if part.route is route and part.audit_rate}
            parts |= kept or {Part(route, 1.0)}
    return tuple(sorted(parts, key=lambda part: (part.route, -(part.audit_rate or 0))))


@dataclass(frozen=True)
class TableSettings:
    """Settings that the tables of one use case are made by.

    Attributes:
        values: all values of each attribute that rows are made of, ``__other__`` and
            ``__missing__`` among them.
        group_bys: attributes of each.
        where: attribute values that decide which decisions belong to the use case.
        k: smallest cell that may be shown; 0 makes no tables (an attribute was erased).
        offset: hours that the zone, in which days begin, is ahead of UTC.
        complements: whether each slice has a row for everything but it.
        bands: score bands that each slice has a row for in weeks and longer, and with k = 1 in all
            spans; 0 for none.
        parts: columns, at least one of every route.
    """

    values: Values
    group_bys: tuple[GroupBy, ...]
    where: Pairs
    k: int
    offset: int = 0
    complements: bool = False
    bands: int = 0
    parts: tuple[Part, ...] = ()

    @classmethod
    def from_contract(
        cls, contract: Contract, coding: Coding, offset: int = 0, *, bands: bool = False
    ) -> TableSettings:
        """Return the settings of a contract, with no parts yet."""
        group_bys = tuple(sorted(group.attributes for group in contract.group_bys))
        names = {name for attributes in group_bys for name in attributes}
        listed = ((a.name, (*sorted(a.values), OTHER, MISSING)) for a in coding.attributes)
        values = tuple((name, texts) for name, texts in listed if name in names)
        complements = any(group.reference == COMPLEMENT for group in contract.group_bys)
        where, number = tuple(sorted(contract.where)), coding.bands if bands else 0
        return cls(values, group_bys, where, contract.k, offset, complements, number)

    def layout_of(self, kind: SpanKind) -> Layout:
        """Return the layout that tables of a kind of span have.

        Weeks and longer have rows of score bands. A day has too few decisions for them: they would
        stay hidden, and hide slices beside them. Where nothing is hidden, all spans have them.
        """
        bands = self.bands if kind >= SpanKind.WEEK or self.k == 1 else 0
        return _layout(self.values, self.group_bys, self.complements, bands)

    @property
    def reviewed(self) -> list[int]:
        """Return the places of parts that labels are requested for."""
        return [place for place, part in enumerate(self.parts) if part.audit_rate is not None]

    def frame(self, span: Span, measure: Measure = Measure.DECISIONS) -> Frame:
        """Return the frame of a span's table; pairs and missing labels have no score bands."""
        if measure is Measure.PAIRS:
            return Frame(span, self.layout_of(SpanKind.DAY), PAIR_PARTS)
        every = measure is Measure.DECISIONS
        kind = SpanKind.DAY if measure is Measure.UNANSWERED else span.kind
        names = (part.name for part in self.parts if every or part.audit_rate is not None)
        return Frame(span, self.layout_of(kind), tuple(names))

    def placed(self, atom: str) -> str | None:
        """Return an atom of the attributes in tables; None outside the use case.

        An undeclared value becomes ``__other__``, an absent one ``__missing__``.
        """
        pairs = parse_atom(atom)
        if not set(self.where) <= pairs.items():
            return None
        sent = {name: pairs.get(name, MISSING) for name, _ in self.values}
        return atom_text({n: sent[n] if sent[n] in values else OTHER for n, values in self.values})

    def lists(self, listed: Collection[Listed]) -> bool:
        """Return True when a listed name (value None) or (name, value) is in the settings."""
        pairs = {(name, value) for name, values in self.values for value in values}
        pairs |= set(self.where)
        return any((name, None) in listed or (name, value) in listed for name, value in pairs)

    @cached_property
    def text(self) -> str:
        """Return the settings as canonical JSON: equal settings have equal texts."""
        return msgspec.json.encode(self).decode()

    @cached_property
    def digest(self) -> str:
        """Return a hash of the canonical JSON, 16 hexadecimal digits."""
        return blake2b(self.text.encode(), digest_size=8).hexdigest()

    @classmethod
    def parse(cls, text: str) -> TableSettings:
        """Return the settings from the JSON that :attr:`text` wrote."""
        return msgspec.json.decode(text, type=cls)


@cache
def _layout(
    values: Values, group_bys: tuple[GroupBy, ...], complements: bool, bands: int
) -> Layout:
    return Layout.for_group_bys(dict(values), group_bys, complements=complements, bands=bands)
