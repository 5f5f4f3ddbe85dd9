"""Which variants of a pair are compared, and by what.

Two variants that differ in one attribute say something of that attribute; with a reference value
each other value is compared with it, without one every two are. Where nothing isolates a variant
(it differs from all others in several attributes at once) it is compared with the pair's reference
variant on the joint axis, since no single attribute can be blamed.

Variants with different expected outcomes are not compared: their routes should differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from monitor.audit.model import Compared, Pair, Row
from monitor.core.atoms import MISSING
from monitor.errors import SlicewatchError

MAX_VARIANTS = 50
"""Variants of one pair: without a reference every two are compared, 50 make 1,225 comparisons."""
UNNAMED_AXIS = "variant"
"""What is compared where neither the attributes nor the set's axis say it."""


def comparisons(pairs: Sequence[Pair], references: Mapping[str, str]) -> tuple[Compared, ...]:
    """All comparisons, sorted by pair, what is compared, reference and variant.

    Every variant is in at least one, but for those whose expected outcome no other shares.

    Args:
        pairs: complete pairs.
        references: by attribute, the value that others are compared with. Where an attribute has
            none, or none of the variants has it, the variant whose name sorts first is the
            reference of every two.

    Raises:
        SlicewatchError: if a pair has more than :data:`MAX_VARIANTS` variants.
    """
    found = (one for pair in pairs for one in _of_pair(pair, references))
    return tuple(sorted(found, key=_order))


def values(row: Row, by: Iterable[str]) -> dict[str, str]:
    """The slice that a variant stands for on what is compared.

    Attributes that the row lacks are :data:`MISSING`; an axis that is no attribute has the
    variant's name as its value.
    """
    attributes = row.item.attributes
    other = row.item.variant if _outside(row, by) else MISSING
    return {name: attributes.get(name, other) for name in by}


def _outside(row: Row, by: Iterable[str]) -> bool:
    """Whether what is compared is no attribute, but the axis that the set names."""
    return list(by) == [_axis(row.item.axis)] and not row.item.attributes.keys() & set(by)


def _axis(name: str) -> str:
    return name or UNNAMED_AXIS


def _order(compared: Compared) -> tuple[str, tuple[str, ...], str, str]:
    return (
        compared.pair,
        compared.by,
        compared.reference.item.variant,
        compared.variant.item.variant,
    )


def _of_pair(pair: Pair, references: Mapping[str, str]) -> Iterator[Compared]:
    if len(pair.rows) > MAX_VARIANTS:
        raise SlicewatchError(
            f"a pair has {len(pair.rows)} variants and at most {MAX_VARIANTS} can be compared: "
            "make several pairs of it"
        )
    matched: dict[bool | None, list[Row]] = defaultdict(list)
    for row in pair.rows:
        matched[row.item.expected_ready].append(row)
    for rows in matched.values():
        yield from _of_matched(pair, rows, references)


def _of_matched(
    pair: Pair, rows: Sequence[Row], references: Mapping[str, str]
) -> Iterator[Compared]:
    """Comparisons of variants that should take the same route."""
    isolated = [*_alike(pair, rows), *_one_attribute(pair, rows, references)]
    yield from isolated
    seen = {row.item.variant for one in isolated for row in (one.reference, one.variant)}
    first = _reference_variant(rows, references)
    rest = [row for row in rows if row is not first]
    if first.item.variant in seen:
        rest = [row for row in rest if row.item.variant not in seen]
    for row in rest:
        yield Compared(pair.id, _differing(first, row), first, row)


def _alike(pair: Pair, rows: Sequence[Row]) -> Iterator[Compared]:
    """Variants with the same attributes: what differs is told by the set's axis alone."""
    for group in _groups(rows, leave_out=None):
        for reference, variant in combinations(group, 2):
            yield Compared(pair.id, (_axis(pair.axis),), reference, variant)


def _one_attribute(
    pair: Pair, rows: Sequence[Row], references: Mapping[str, str]
) -> Iterator[Compared]:
    """Variants that differ in one attribute and are alike in all others."""
    for name in sorted({name for row in rows for name in row.item.attributes}):
        for group in _groups(rows, leave_out=name):
            for reference, variant in _sides(group, name, references.get(name)):
                yield Compared(pair.id, (name,), reference, variant)


def _sides(group: Sequence[Row], name: str, reference: str | None) -> Iterator[tuple[Row, Row]]:
    """Who is compared with whom along one attribute, the reference first."""
    has = [row for row in group if row.item.attributes.get(name) == reference]
    if reference is None or not has:
        for one, other in combinations(group, 2):
            if _value(one, name) != _value(other, name):
                yield one, other
        return
    for row in group:
        if _value(row, name) != reference:
            yield has[0], row


def _groups(rows: Sequence[Row], leave_out: str | None) -> Iterable[list[Row]]:
    """Rows with the same attributes but for one; each group sorted by variant, as the rows are."""
    found: dict[frozenset[tuple[str, str]], list[Row]] = defaultdict(list)
    for row in rows:
        rest = frozenset(item for item in row.item.attributes.items() if item[0] != leave_out)
        found[rest].append(row)
    return found.values()


def _reference_variant(rows: Sequence[Row], references: Mapping[str, str]) -> Row:
    """The variant with the most reference values; of equals the one whose name sorts first."""

    def order(row: Row) -> tuple[int, str]:
        has = [row.item.attributes.get(name) == value for name, value in references.items()]
        return -sum(has), row.item.variant

    return min(rows, key=order)


def _differing(one: Row, other: Row) -> tuple[str, ...]:
    names = one.item.attributes.keys() | other.item.attributes.keys()
    return tuple(sorted(name for name in names if _value(one, name) != _value(other, name)))


def _value(row: Row, name: str) -> str:
    return row.item.attributes.get(name, MISSING)
