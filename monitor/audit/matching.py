"""Matched pairs: complete pairs, and the comparisons between their variants.

An unmatched pair would show a difference that the router did not make. It is excluded and
reported.

Two variants that differ in one attribute isolate that attribute. With a reference value, each
other value is compared with it; without one, every two values are. A variant that differs from all
others in several attributes is compared with the reference variant of the pair on the joint axis,
since no single attribute can be blamed. Some comparisons may leave sets of variants unconnected
(two dialects of one language, two of another). One variant of each such set is then compared with
the reference variant too: else a router could treat the sets differently, and no pair would flip.

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
"""Most variants of a pair: without a reference every two are compared, 50 make 1,225."""

_FIXED: Mapping[str, Callable[[Item], object]] = {
    EXPECTED: lambda item: item.expected_ready,
    POLICY: lambda item: item.policy,
    EVIDENCE: lambda item: item.evidence,
}


_ONE_ROUTER = ("judge", "rubric", "router")
"""Versions that all variants of a pair share; the policy may vary, and follows the reviewers."""


def matched(results: Results) -> tuple[tuple[Pair, ...], tuple[Excluded, ...]]:
    """Return the comparable pairs, and the excluded pairs with reasons, each sorted by id.

    A pair is excluded when variants that other pairs of its axis have are missing, or variants are
    doubled; when there is only one, or two have the same attributes; when the expected outcome
    or the reviewers' agreement is missing, or reviewers disagree. It is excluded, too, when the
    variants differ in what the set holds fixed, when the router applied another policy than the
    reviewers, and when different judges, rubrics or routers decided its variants: the comparison
    would be of two routers. Another threshold for a variant is one router's doing.
    """
    probe_set = results.probe_set
    excluded = {exclusion.pair: exclusion for exclusion in _excluded(probe_set, results.rows)}
    pairs = tuple(
        Pair(id, rows[0].item.axis, tuple(sorted(rows, key=lambda row: row.item.variant)))
        for id, rows in sorted(by_pair(results.rows, lambda row: row.item).items())
        if id not in excluded
    )
    return pairs, tuple(excluded.values())


def _excluded(probe_set: ProbeSet, rows: Iterable[Row]) -> Iterator[Excluded]:
    """Yield each pair that cannot be compared, with all reasons."""
    pairs = by_pair(probe_set.items, lambda item: item)
    variants = _variants_by_axis(pairs.values())
    decided_rows = by_pair(rows, lambda row: row.item)
    for id, items in sorted(pairs.items()):
        reasons = [*_faults(probe_set, items, variants), *_router_faults(decided_rows.get(id, ()))]
        if reasons:
            yield Excluded(id, "; ".join(reasons))


def _faults(
    probe_set: ProbeSet, items: Sequence[Item], variants: Mapping[str, frozenset[str]]
) -> Iterator[str]:
    """Yield why items of the set do not make a pair."""
    yield from _variant_faults(items, variants, names_shown=probe_set.synthetic)
    yield from _reviewer_faults(items)
    for name, fixed_value in _FIXED.items():
        if name not in probe_set.varies and _differ(map(fixed_value, items)):
            yield f"{name} differs between variants: make it equal, or list it in varies"
    if _differ(item.held_out for item in items):
        yield "held_out differs between variants: hold out the whole pair or none of it"


def _variant_faults(
    items: Sequence[Item], variants: Mapping[str, frozenset[str]], *, names_shown: bool
) -> Iterator[str]:
    """Yield why the variants of a pair do not match: one missing, doubled, alone or of two axes."""
    variant_counts = Counter(item.variant for item in items)
    doubled = {name for name, count in variant_counts.items() if count > 1}
    axes = {item.axis for item in items}
    missing = (
        variants[items[0].axis] - variant_counts.keys() if len(axes) == 1 else frozenset[str]()
    )
    if missing:
        yield f"variant missing{_names_note(missing, names_shown)}: add it, as other pairs have it"
    if doubled:
        yield f"variant doubled{_names_note(doubled, names_shown)}: keep one row of it"
    if len(variant_counts) == 1 and not missing:
        yield "variant is one only: a pair needs two"
    if len(axes) > 1:
        yield "axis differs between variants: a pair varies along one axis"
    if _nothing_varied(items):
        yield "attributes are the same in two variants: name the attribute that is varied"


def _names_note(names: Iterable[str], shown: bool) -> str:
    return f" ({', '.join(sorted(names))})" if shown else ""


def _nothing_varied(items: Iterable[Item]) -> bool:
    """Return True if two variants have the same attributes."""
    variants = {(item.variant, frozenset(item.attributes.items())) for item in items}
    return len({attributes for _, attributes in variants}) < len(variants)


def _reviewer_faults(items: Sequence[Item]) -> Iterator[str]:
    """Yield what reviewers have not stated or not agreed on."""
    if any(item.expected_ready is None for item in items):
        yield f"{EXPECTED} is missing: have reviewers state it"
    answers = {item.reviewers_agree for item in items}
    if None in answers:
        yield "reviewers_agree is missing: have two reviewers judge the pair"
    if False in answers:
        yield "reviewers_agree is false: settle it, or take the pair out of the set"


def _router_faults(rows: Sequence[Row]) -> Iterator[str]:
    """Yield which versions of the router differ within a pair, or from the reviewed policy."""
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
    """Map each axis to its variants' names; pairs with several axes are ignored."""
    names: dict[str, set[str]] = defaultdict(set)
    for items in pairs:
        if not _differ(item.axis for item in items):
            names[items[0].axis].update(item.variant for item in items)
    return {axis: frozenset(variants) for axis, variants in names.items()}


def by_pair(members: Iterable[Thing], item: Callable[[Thing], Item]) -> dict[str, list[Thing]]:
    """Group members, in order, by the pair id of the item that ``item`` returns for each."""
    pairs: dict[str, list[Thing]] = defaultdict(list)
    for member in members:
        pairs[item(member).pair].append(member)
    return dict(pairs)


def comparisons(pairs: Sequence[Pair], references: Mapping[str, str]) -> tuple[Compared, ...]:
    """Compare the variants of each pair that share an expected outcome; return all, sorted.

    Every variant is in at least one, except where no other shares its expected outcome.

    Args:
        pairs: complete pairs; no two variants of one have the same attributes.
        references: by attribute, the value that others are compared with. Where an attribute has
            none, or none of the variants has it, the variant whose name sorts first is the
            reference of every two.

    Raises:
        AuditError: if a pair has more than :data:`MAX_VARIANTS` variants.
    """
    compared: list[Compared] = []
    for pair in pairs:
        if len(pair.rows) > MAX_VARIANTS:
            raise AuditError(
                f"a pair has {len(pair.rows)} variants and at most {MAX_VARIANTS} can be compared: "
                "make several pairs of it"
            )
        rows_by_outcome: dict[bool | None, list[Row]] = defaultdict(list)
        for row in pair.rows:
            rows_by_outcome[row.item.expected_ready].append(row)
        for rows in rows_by_outcome.values():
            compared += _compare_variants(pair, rows, references)
    return tuple(
        sorted(
            compared,
            key=lambda comparison: (
                comparison.pair,
                comparison.by,
                comparison.reference.item.variant,
                comparison.variant.item.variant,
            ),
        )
    )


def values(row: Row, by: Iterable[str]) -> dict[str, str]:
    """Return a variant's values of the named attributes, by name; absent ones are MISSING."""
    return {name: _value(row, name) for name in by}


def _compare_variants(
    pair: Pair, rows: Sequence[Row], references: Mapping[str, str]
) -> Iterator[Compared]:
    """Yield comparisons of one pair's variants that connect all of ``rows``."""
    isolated = list(_single_attribute_comparisons(pair, rows, references))
    yield from isolated
    reference = _reference_variant(rows, references)
    islands = _connected_rows(rows, isolated)
    reference_island = next(
        island for island in islands if any(variant is reference for variant in island)
    )
    if len(reference_island) == 1:
        variants = [variant for variant in rows if variant is not reference]
    else:
        variants = [
            _reference_variant(island, references)
            for island in islands
            if island is not reference_island
        ]
    for variant in variants:
        yield Compared(pair.id, _differing(reference, variant), reference, variant)


def _connected_rows(rows: Sequence[Row], compared: Iterable[Compared]) -> list[list[Row]]:
    """Return the sets of rows that comparisons connect, directly or through others."""
    island_of = {row.item.variant: [row] for row in rows}
    for comparison in compared:
        first, second = (
            island_of[comparison.reference.item.variant],
            island_of[comparison.variant.item.variant],
        )
        if first is not second:
            first += second
            island_of.update((row.item.variant, first) for row in second)
    return list({id(island): island for island in island_of.values()}.values())


def _single_attribute_comparisons(
    pair: Pair, rows: Sequence[Row], references: Mapping[str, str]
) -> Iterator[Compared]:
    """Yield comparisons of variants that differ in exactly one attribute."""
    for name in sorted({name for row in rows for name in row.item.attributes}):
        for group in _group_alike(rows, leave_out=name):
            for reference, variant in _rows_to_compare(group, name, references.get(name)):
                yield Compared(pair.id, (name,), reference, variant)


def _rows_to_compare(
    group: Sequence[Row], name: str, reference: str | None
) -> Iterator[tuple[Row, Row]]:
    """Return (reference, variant) rows to compare; without a reference row, all combinations."""
    reference_row = next((row for row in group if _value(row, name) == reference), None)
    if reference_row is None:
        return combinations(group, 2)
    return ((reference_row, row) for row in group if row is not reference_row)


def _group_alike(rows: Sequence[Row], leave_out: str) -> Iterable[list[Row]]:
    """Group rows that are equal in all attributes but ``leave_out``, keeping their order."""
    groups: dict[frozenset[tuple[str, str]], list[Row]] = defaultdict(list)
    for row in rows:
        attributes = frozenset(
            attribute for attribute in row.item.attributes.items() if attribute[0] != leave_out
        )
        groups[attributes].append(row)
    return groups.values()


def _reference_variant(rows: Sequence[Row], references: Mapping[str, str]) -> Row:
    """Return the row with the most reference values; among equals, the first by name."""

    def order(row: Row) -> tuple[int, str]:
        matches = sum(_value(row, name) == value for name, value in references.items())
        return -matches, row.item.variant

    return min(rows, key=order)


def _differing(reference: Row, variant: Row) -> tuple[str, ...]:
    names = reference.item.attributes.keys() | variant.item.attributes.keys()
    return tuple(sorted(name for name in names if _value(reference, name) != _value(variant, name)))


def _value(row: Row, name: str) -> str:
    return row.item.attributes.get(name, MISSING)
