"""Matching of pairs: complete ones, whose variants agree on what their set holds fixed.

A pair that is not matched would show a difference that the router did not make. It is excluded,
and reported.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from monitor.audit.model import (
    EVIDENCE,
    EXPECTED,
    POLICY,
    Excluded,
    Item,
    Pair,
    ProbeSet,
    Results,
    Row,
)

Thing = TypeVar("Thing")

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
