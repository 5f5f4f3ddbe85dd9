"""Matched pairs: complete ones, and the comparisons between their variants.

A pair that is not matched would show a difference that the router did not make. It is excluded,
and reported.

Two variants that differ in one attribute say something of that attribute; with a reference value
each other value is compared with it, without one every two are. Where nothing isolates a variant
(it differs from all others in several attributes at once) it is compared with the pair's reference
variant on the joint axis, since no single attribute can be blamed. So is one of each set of
variants that no comparison connects with the others (two dialects of one language, two of another):
else a router could treat the two sets differently, and no pair would flip.

Variants with different expected outcomes are not compared: their routes should differ.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

from monitor.audit.inputs import (
    EVIDENCE,
    EXPECTED,
    POLICY,
    Compared,
    Excluded,
    Item,
    Pair,
    ProbeSet,
    Results,
    Row,
)
from monitor.core.counts.cells import MISSING
from monitor.errors import AuditError

Thing = TypeVar("Thing")

MAX_VARIANTS = 50
"""Variants of one pair: without a reference every two are compared, 50 make 1,225 comparisons."""

_FIXED: Mapping[str, Callable[[Item], object]] = {
    EXPECTED: lambda item: item.expected_ready,
    POLICY: lambda item: item.policy,
    EVIDENCE: lambda item: item.evidence,
}


_ONE_ROUTER = ("judge", "rubric", "router")
"""Versions that all variants of a pair share; a policy may be varied, and is the reviewers'."""


def matched(results: Results) -> tuple[tuple[Pair, ...], tuple[Excluded, ...]]:
    """The pairs that can be compared, and those that cannot; both sorted by pair.

    A pair is left out when variants are missing (those that other pairs of its axis have) or
    doubled, when there is only one, when two have the same attributes, when the expected outcome
    or the reviewers' agreement is missing, when they disagree, when the variants differ in what
    the set holds fixed, when the router applied another policy than the reviewers, and when its
    variants were decided by different judges, rubrics or routers: they would be compared for two
    routers, not for what is varied. Another threshold for a variant is one router's doing.
    """
    probe_set = results.probe_set
    excluded = {one.pair: one for one in _excluded(probe_set, results.rows)}
    pairs = tuple(
        Pair(id, rows[0].item.axis, tuple(sorted(rows, key=lambda row: row.item.variant)))
        for id, rows in sorted(by_pair(results.rows, lambda row: row.item).items())
        if id not in excluded
    )
    return pairs, tuple(excluded.values())


def unmatched(probe_set: ProbeSet) -> tuple[Excluded, ...]:
    """The pairs of a set that could not be compared whatever a router makes of them."""
    return tuple(_excluded(probe_set, ()))


def _excluded(probe_set: ProbeSet, rows: Iterable[Row]) -> Iterator[Excluded]:
    pairs = by_pair(probe_set.items, lambda item: item)
    seen = _variants_by_axis(pairs.values())
    decided = by_pair(rows, lambda row: row.item)
    for id, items in sorted(pairs.items()):
        reasons = [*_reasons(probe_set, items, seen), *_of_router(decided.get(id, ()))]
        if reasons:
            yield Excluded(id, "; ".join(reasons))


def _reasons(
    probe_set: ProbeSet, items: Sequence[Item], seen: Mapping[str, frozenset[str]]
) -> Iterator[str]:
    yield from _of_variants(items, seen, names_shown=probe_set.synthetic)
    yield from _of_reviewers(items)
    for name, of in _FIXED.items():
        if name not in probe_set.varies and _differ(map(of, items)):
            yield f"{name} differs between variants: make it equal, or list it in varies"
    if _differ(item.held_out for item in items):
        yield "held_out differs between variants: hold out the whole pair or none of it"


def _of_variants(
    items: Sequence[Item], seen: Mapping[str, frozenset[str]], *, names_shown: bool
) -> Iterator[str]:
    times = Counter(item.variant for item in items)
    doubled = {name for name, count in times.items() if count > 1}
    axes = {item.axis for item in items}
    missing = seen[items[0].axis] - times.keys() if len(axes) == 1 else frozenset[str]()
    if missing:
        yield f"variant missing{_named(missing, names_shown)}: add it, as other pairs have it"
    if doubled:
        yield f"variant doubled{_named(doubled, names_shown)}: keep one row of it"
    if len(times) == 1 and not missing:
        yield "variant is one only: a pair needs two"
    if len(axes) > 1:
        yield "axis differs between variants: a pair varies along one axis"
    if _nothing_varied(items):
        yield "attributes are the same in two variants: name the attribute that is varied"


def _named(names: Iterable[str], shown: bool) -> str:
    return f" ({', '.join(sorted(names))})" if shown else ""


def _nothing_varied(items: Iterable[Item]) -> bool:
    variants = {(item.variant, frozenset(item.attributes.items())) for item in items}
    return len({attributes for _, attributes in variants}) < len(variants)


def _of_reviewers(items: Sequence[Item]) -> Iterator[str]:
    if any(item.expected_ready is None for item in items):
        yield f"{EXPECTED} is missing: have reviewers state it"
    answers = {item.reviewers_agree for item in items}
    if None in answers:
        yield "reviewers_agree is missing: have two reviewers judge the pair"
    if False in answers:
        yield "reviewers_agree is false: settle it, or take the pair out of the set"


def _of_router(rows: Sequence[Row]) -> Iterator[str]:
    if any(row.versions.policy != row.item.policy for row in rows):
        yield (
            "versions.policy is not the policy that reviewers judged under: run the router "
            "under that policy, or have the pair judged under this one"
        )
    for name in _ONE_ROUTER:
        if _differ(getattr(row.versions, name) for row in rows):
            yield f"versions.{name} differs between variants: run the whole pair with one {name}"


def _differ(values: Iterable[object]) -> bool:
    return len(set(values)) > 1


def _variants_by_axis(pairs: Iterable[Sequence[Item]]) -> Mapping[str, frozenset[str]]:
    """The names of variants on each axis, from the pairs that keep to one axis."""
    names: dict[str, set[str]] = defaultdict(set)
    for items in pairs:
        if not _differ(item.axis for item in items):
            names[items[0].axis].update(item.variant for item in items)
    return {axis: frozenset(variants) for axis, variants in names.items()}


def by_pair(things: Iterable[Thing], item: Callable[[Thing], Item]) -> dict[str, list[Thing]]:
    """Rows, or whatever has an item, by the pair that the item is of; in the order they come."""
    pairs: dict[str, list[Thing]] = defaultdict(list)
    for thing in things:
        pairs[item(thing).pair].append(thing)
    return dict(pairs)


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
    found: list[Compared] = []
    for pair in pairs:
        if len(pair.rows) > MAX_VARIANTS:
            raise AuditError(
                f"a pair has {len(pair.rows)} variants and at most {MAX_VARIANTS} can be compared: "
                "make several pairs of it"
            )
        alike: dict[bool | None, list[Row]] = defaultdict(list)
        for row in pair.rows:
            alike[row.item.expected_ready].append(row)
        for rows in alike.values():
            found += _of_matched(pair, rows, references)
    return tuple(
        sorted(
            found,
            key=lambda one: (
                one.pair,
                one.by,
                one.reference.item.variant,
                one.variant.item.variant,
            ),
        )
    )


def values(row: Row, by: Iterable[str]) -> dict[str, str]:
    """Slice that a variant represents in the attributes that are compared."""
    return {name: _value(row, name) for name in by}


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
        for group in _alike(rows, leave_out=name):
            for reference, variant in _sides(group, name, references.get(name)):
                yield Compared(pair.id, (name,), reference, variant)


def _sides(group: Sequence[Row], name: str, reference: str | None) -> Iterator[tuple[Row, Row]]:
    """Pairs of rows to compare along one attribute, the reference first."""
    first = next((row for row in group if _value(row, name) == reference), None)
    if first is None:
        return combinations(group, 2)
    return ((first, row) for row in group if row is not first)


def _alike(rows: Sequence[Row], leave_out: str) -> Iterable[list[Row]]:
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
