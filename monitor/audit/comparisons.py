"""Comparisons between the variants of a pair, and the attributes each is about.

Two variants that differ in one attribute say something of that attribute; with a reference value
each other value is compared with it, without one every two are. Where nothing isolates a variant
(it differs from all others in several attributes at once) it is compared with the pair's reference
variant on the joint axis, since no single attribute can be blamed. So is one of each set of
variants that no comparison connects with the others (two dialects of one language, two of another):
else a router could treat the two sets differently, and no pair would flip.

Variants with different expected outcomes are not compared: their routes should differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from monitor.audit.model import Compared, Pair, Row
from monitor.core.counts.cells import MISSING
from monitor.errors import AuditError

MAX_VARIANTS = 50
"""Variants of one pair: without a reference every two are compared, 50 make 1,225 comparisons."""


def comparisons(pairs: Sequence[Pair], references: Mapping[str, str]) -> tuple[Compared, ...]:
    """All comparisons, sorted by pair, what is compared, reference and variant.

    Every variant is in at least one, but for those whose expected outcome no other shares.

    Args:
        pairs: complete pairs; no two variants of one have the same attributes.
        references: by attribute, the value that others are compared with. Where an attribute has
            none, or none of the variants has it, the variant whose name sorts first is the
            reference of every two.

    Raises:
        AuditError: if a pair has more than :data:`MAX_VARIANTS` variants.
    """
    found = (one for pair in pairs for one in _of_pair(pair, references))
    return tuple(sorted(found, key=_order))


def values(row: Row, by: Iterable[str]) -> dict[str, str]:
    """Slice that a variant represents in the attributes that are compared."""
    return {name: _value(row, name) for name in by}


def _order(compared: Compared) -> tuple[str, tuple[str, ...], str, str]:
    return (
        compared.pair,
        compared.by,
        compared.reference.item.variant,
        compared.variant.item.variant,
    )


def _of_pair(pair: Pair, references: Mapping[str, str]) -> Iterator[Compared]:
    if len(pair.rows) > MAX_VARIANTS:
        raise AuditError(
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
    isolated = list(_one_attribute(pair, rows, references))
    yield from isolated
    first = _reference_variant(rows, references)
    islands = _islands(rows, isolated)
    own = next(island for island in islands if any(row is first for row in island))
    if len(own) == 1:
        rest = [row for row in rows if row is not first]
    else:
        rest = [_reference_variant(island, references) for island in islands if island is not own]
    for row in rest:
        yield Compared(pair.id, _differing(first, row), first, row)


def _islands(rows: Sequence[Row], compared: Iterable[Compared]) -> list[list[Row]]:
    """Sets of rows that comparisons connect; no comparison so far connects two of them."""
    of = {row.item.variant: [row] for row in rows}
    for one in compared:
        here, there = of[one.reference.item.variant], of[one.variant.item.variant]
        if here is not there:
            here += there
            of.update((row.item.variant, here) for row in there)
    return list({id(island): island for island in of.values()}.values())


def _one_attribute(
    pair: Pair, rows: Sequence[Row], references: Mapping[str, str]
) -> Iterator[Compared]:
    """Variants that differ in one attribute and are alike in all others."""
    for name in sorted({name for row in rows for name in row.item.attributes}):
        for group in _groups(rows, leave_out=name):
            for reference, variant in _sides(group, name, references.get(name)):
                yield Compared(pair.id, (name,), reference, variant)


def _sides(group: Sequence[Row], name: str, reference: str | None) -> Iterator[tuple[Row, Row]]:
    """Pairs of rows to compare along one attribute, the reference first."""
    first = next((row for row in group if _value(row, name) == reference), None)
    if first is None:
        return combinations(group, 2)
    return ((first, row) for row in group if row is not first)


def _groups(rows: Sequence[Row], leave_out: str) -> Iterable[list[Row]]:
    """Rows with the same attributes but for one; each group sorted by variant, as the rows are."""
    found: dict[frozenset[tuple[str, str]], list[Row]] = defaultdict(list)
    for row in rows:
        rest = frozenset(item for item in row.item.attributes.items() if item[0] != leave_out)
        found[rest].append(row)
    return found.values()


def _reference_variant(rows: Sequence[Row], references: Mapping[str, str]) -> Row:
    """The variant with the most reference values; of equals the one whose name sorts first."""

    def order(row: Row) -> tuple[int, str]:
        has = sum(_value(row, name) == value for name, value in references.items())
        return -has, row.item.variant

    return min(rows, key=order)


def _differing(one: Row, other: Row) -> tuple[str, ...]:
    names = one.item.attributes.keys() | other.item.attributes.keys()
    return tuple(sorted(name for name in names if _value(one, name) != _value(other, name)))


def _value(row: Row, name: str) -> str:
    return row.item.attributes.get(name, MISSING)
